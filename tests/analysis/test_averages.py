"""Averages of runs: against an autoregression, weights, walkers, rungs, and the command that shows
them.
"""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter

import tati_re
from tati_re.analysis.averages import average, averages, parameter_averages, trajectory_averages
from tati_re.analysis.convergence import autocorrelation_function
from tati_re.cli import analyse
from tati_re.core.errors import InputError
from tati_re.plotting.run import plot_autocorrelation
from tati_re.report.modules import MODULES
from tati_re.runs.csv_table import CsvTable
from tati_re.runs.h5_table import H5Table
from tati_re.runs.positions import Positions
from tests.made_runs import made_run

PHI, TAU = 0.9, 19.0


def autoregression(chains, draws, seed, phi=PHI):
    generator = np.random.default_rng(seed)
    noise = np.sqrt(1 - phi**2) * generator.standard_normal((chains, draws))
    start = phi * generator.standard_normal((chains, 1))
    return lfilter([1.0], [1.0, -phi], noise, axis=1, zi=start)[0]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("averages") / "run"
    potential = 5.0 + autoregression(4, 20_000, 1)
    still = np.ones((4, 20_000))
    positions = autoregression(8, 20_000, 3).reshape(4, 2, 20_000).transpose(0, 2, 1)
    return made_run(
        folder,
        {"potential": potential, "loss": potential**2, "still": still},
        positions,
        burnin=1000,
    )


def test_mean_error_and_time_of_an_autoregression(run):
    table = averages(run).set_index("observable")
    assert list(table.index) == ["potential", "loss"], "what never varies says nothing"
    row = table.loc["potential"]
    assert row["rows"] == 4 * 19_900
    error = np.sqrt(TAU / row["rows"])
    assert row["error"] == pytest.approx(error, rel=0.1)
    assert abs(row["mean"] - 5.0) < 5.5 * error
    assert row["autocorrelation_steps"] == pytest.approx(10 * TAU, rel=0.15), (
        "in steps, one row each 10"
    )
    assert row["ess_bulk"] == pytest.approx(row["rows"] / TAU, rel=0.15)
    assert 0 < row["ess_tail"] < row["rows"]
    assert row["r_hat"] < 1.01 and row["note"] == ""


def test_autocorrelation_time_within_five_percent():
    line = average(autoregression(8, 100_000, 2))
    assert line["autocorrelation_steps"] == pytest.approx(TAU, rel=0.05)
    wrong = average(autoregression(8, 100_000, 2, phi=0.95))
    assert abs(wrong["autocorrelation_steps"] / TAU - 1) > 0.5, "another series has another time"


def test_errors_cover_the_truth():
    """z of 200 means of 4 chains has deviation 1: within 0.8 to 1.2 but for 7e-5."""
    lines = [average(autoregression(4, 1500, seed)) for seed in range(200)]
    z = np.array([line["mean"] / line["error"] for line in lines])
    assert 0.8 < z.std() < 1.2
    naive = np.array([line["mean"] / (line["std"] / np.sqrt(line["rows"])) for line in lines])
    assert naive.std() > 3, "errors without correlations would be caught"


def test_short_chains_say_how_long_they_must_be():
    line = average(autoregression(2, 300, 1))
    assert np.isnan(line["autocorrelation_steps"])
    assert line["note"].startswith("too short: needs ") and "rows per chain" in line["note"]
    assert average(np.ones((2, 50)))["note"] == "never changes"
    assert average(np.ones((2, 3)))["note"] == "fewer than 4 rows"


def test_weights_turn_a_biased_law_into_the_target():
    """Draws of N(1, 1) with weight exp(-x + 1/2) are draws of N(0, 1): mean 0, variance 1."""
    z = []
    for seed in range(100):
        draws = 1.0 + np.random.default_rng(seed).standard_normal((4, 500))
        line = average(draws, 7.0 * np.exp(0.5 - draws))
        z.append(line["mean"] / line["error"])
        if seed == 0:
            assert line["std"] == pytest.approx(1.0, abs=0.15)
            assert line["r_hat"] < 1.05 and np.isnan(line["ess_tail"])
    assert abs(np.mean(z)) < 5.5 / np.sqrt(100) and 0.7 < np.std(z) < 1.4
    steep = average(draws, np.exp(8 * (draws - 1)))
    assert steep["note"].startswith("the weights rest on about ")
    equal = average(draws, np.full(draws.shape, 2.0))
    assert equal == average(draws), "equal weights are none"


def test_rows_without_weight_count_for_nothing():
    draws = np.random.default_rng(1).standard_normal((2, 400))
    weights = (np.arange(400) % 2 == 0) * np.ones((2, 1))
    spoiled = np.where(weights > 0, draws, np.nan)
    assert average(spoiled, weights)["mean"] == pytest.approx(draws[:, ::2].mean())


def test_by_walker_burnin_and_thin(run):
    table = averages(run, ["potential"], by="walker", burnin=100_000, thin=5)
    assert table["walker"].tolist() == [0, 1, 2, 3]
    rows = run.run_info
    one = rows[(rows["walker"] == 2) & (rows["step"] > 100_000)]["potential"].to_numpy()[::5]
    assert table["mean"][2] == pytest.approx(one.mean())
    assert table["rows"][2] == len(one) == 2000
    own = averages(run, {"half": lambda rows: rows["potential"] / 2})
    assert own["mean"][0] == pytest.approx(rows[rows["step"] > 1000]["potential"].mean() / 2)


def test_by_rung(tmp_path):
    values = (
        np.random.default_rng(1).standard_normal((3, 2, 100))
        + np.array([0.0, 10.0, 20.0])[:, None, None]
    )
    step, rung, walker = np.meshgrid(np.arange(1, 101), np.arange(3), np.arange(2), indexing="ij")
    run = made_run(tmp_path / "run", {"potential": np.zeros((1, 2))})
    columns = {
        "step": step.ravel(),
        "walker": walker.ravel(),
        "temperature": np.ones(step.size),
        "potential": values.transpose(2, 0, 1).ravel(),
    }
    pd.DataFrame(columns | {"rung": rung.ravel()}).to_csv(run.folder / "run.csv", index=False)
    table = averages(run, ["potential"], by="rung")
    assert table["rung"].tolist() == [0, 1, 2]
    np.testing.assert_allclose(table["mean"], values.mean(axis=(1, 2)))
    assert averages(run, ["potential"])["mean"][0] == pytest.approx(values[0].mean()), (
        "the target alone"
    )


def test_averages_over_stored_positions(run):
    table = parameter_averages(run, thin=10)
    assert table["parameter"].tolist() == ["dense/kernel[0]", "dense/kernel[1]"]
    stored = Positions(run, thin=10).read().values
    assert len(stored) == 4 * 1990
    np.testing.assert_allclose(table["mean"], stored.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(table["std"], stored.std(axis=0, ddof=1))
    square = trajectory_averages(run, {"radius": lambda positions: (positions**2).sum(axis=1)})
    assert abs(square["mean"][0] - 2.0) < 5.5 * square["error"][0]


def test_positions_in_blocks(run):
    whole = Positions(run, thin=7, walker=1).read()
    pieces = list(Positions(run, thin=7, walker=1, block_bytes=8 * 6 * 1000).blocks())
    assert len(pieces) > 50
    np.testing.assert_array_equal(np.concatenate([piece.values for piece in pieces]), whole.values)
    assert set(whole.walker) == {1} and (np.diff(whole.step) == 70).all()
    with pytest.raises(InputError, match="The walker is not in the trajectory"):
        Positions(run, walker=9).read()
    with pytest.raises(InputError, match="No positions are left"):
        Positions(run, burnin=10**7).read()


def test_the_summary_counts_weights(tmp_path):
    from tati_re.summary.summary import summary_lines

    draws = 1.0 + np.random.default_rng(4).standard_normal((4, 300))
    run = made_run(tmp_path / "run", {"potential": draws, "weight": np.exp(0.5 - draws)})
    line = average(draws, np.exp(0.5 - draws))
    said = dict(summary_lines(run)[1])["potential (mean)"]
    assert (
        abs(float(said.split()[0]) - line["mean"]) < line["error"]
        and abs(draws.mean() - line["mean"]) > 0.8
    )


def test_projections_are_no_parameters(tmp_path):
    positions = np.random.default_rng(1).random((1, 9, 2))
    run = made_run(
        tmp_path / "run", {"loss": positions[..., 0]}, positions, extra={"objects": ["directions"]}
    )
    with pytest.raises(InputError, match="stored projections"):
        parameter_averages(run, thin=2)


@pytest.mark.parametrize("h5", [False, True])
def test_positions_of_one_rung(tmp_path, h5):
    """Where all rungs are stored, the target's rows alone count, and labels are no parameters."""
    run = made_run(tmp_path / "run", {"loss": np.zeros((1, 4))})
    columns = ["step", "walker", "potential", "loss", "a", "b", "rung", "replica", "weight"]
    table = (H5Table if h5 else CsvTable)(
        run.folder / f"trajectory.{'h5' if h5 else 'csv'}", columns
    )
    step, rung = np.repeat(np.arange(1, 6), 2), np.tile([0, 1], 5)
    zero = 0 * step
    table.append(
        np.stack([step, zero, zero, zero, step + 100 * rung, zero + 7, rung, rung, step], axis=1)
    )
    table.flush()
    positions = Positions(run)
    assert positions.names == ["a", "b"]
    block = positions.read()
    assert block.values.tolist() == [[1, 7], [2, 7], [3, 7], [4, 7], [5, 7]]
    assert block.weight.tolist() == [1, 2, 3, 4, 5]
    mean, variance, count = positions.moments()
    assert count == 5 and mean.tolist() == pytest.approx([11 / 3, 7.0])
    assert variance[0] == pytest.approx(np.cov(block.values[:, 0], aweights=block.weight))
    assert Positions(run, rung=1).read().values[:, 0].tolist() == [101, 102, 103, 104, 105]
    assert Positions(run, rung=None, thin=2).read().values[:, 0].tolist() == [
        1,
        101,
        3,
        103,
        5,
        105,
    ]
    with pytest.raises(
        InputError, match=r"thin keeps every k-th row\. Received: 1\.5\. Expected: a whole number"
    ):
        Positions(run, thin=1.5)


@pytest.mark.parametrize(
    ("said", "others", "known"),
    [
        (
            {"method": {"num_replicas": 3}, "options": {"trajectory_rungs": "all"}},
            (3, 7, -1),
            "0, 1, 2",
        ),
        ({"method": {"num_replicas": 3}, "options": {"trajectory_rungs": "target"}}, (1, 7), "0"),
        ({"method": {"simulated_tempering": [1.0, 2.0]}, "options": {}}, (2,), "0, 1"),
        ({"method": {"sampler": "BAOAB"}, "options": {}}, (1,), "0"),
    ],
)
def test_a_rung_that_is_not_stored_is_refused_before_reading(tmp_path, said, others, known):
    """Its reason was a burn-in that leaves nothing, or there was none: the positions of the target
    came.
    """
    draws = np.random.default_rng(2).random((1, 9, 2))
    run = made_run(tmp_path / "run", {"loss": draws[..., 0]}, draws, extra=said)
    assert len(Positions(run).read().values) == 9
    for rung in others:
        with pytest.raises(
            InputError, match=rf"rung are not stored.* Received: rung {rung}\. Expected: {known}\.$"
        ):
            Positions(run, rung=rung)


def test_a_fit_has_no_temperature(tmp_path, capsys):
    fit = made_run(
        tmp_path / "fit", {"loss": np.random.default_rng(1).random((2, 30))}, extra={"kind": "fit"}
    )
    assert analyse.main([str(fit.folder)]) == 0
    assert "not draws" in capsys.readouterr().out
    for module in ("free_energy", "reweighting", "temperatures"):
        assert analyse.main([str(fit.folder), "--modules", module]) == 2
        assert "is a fit, and samples no temperature" in capsys.readouterr().err


def test_the_command_names_every_module():
    assert set(analyse.MODULES) == set(MODULES)


@pytest.mark.parametrize(
    "what",
    [None, 7, [1.0], pd.DataFrame({"step": [1], "walker": [0]})],
    ids=lambda x: type(x).__name__,
)
def test_what_is_no_run(what):
    for analysis in (averages, tati_re.analysis.reweight, Positions):
        with pytest.raises(
            InputError, match=r"This path cannot be a run folder .*Expected: a run folder.$"
        ):
            analysis(what)


def test_bad_input(run):
    with pytest.raises(InputError, match=r"no column 'potentil'\. Did you mean 'potential'"):
        averages(run, ["potentil"])
    with pytest.raises(InputError, match="no temperature ladder"):
        averages(run, by="rung")
    with pytest.raises(InputError, match="thin keeps every k-th row"):
        averages(run, thin=0)
    with pytest.raises(InputError, match="No rows are left after the burn-in"):
        averages(run, burnin=10**7)


def test_autocorrelation_function_and_its_figure(tmp_path):
    series = autoregression(8, 50_000, 5)
    function = autocorrelation_function(series)
    np.testing.assert_allclose(function[:11], PHI ** np.arange(11), atol=0.02)
    figure = plot_autocorrelation({"x": series, "still": np.ones((2, 9))}, 10.0, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    words = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert len(words) == 1 and words[0].startswith("x: 1") and words[0].endswith(" steps")
    short = (
        plot_autocorrelation({"x": series[:, :200]}).axes[0].get_legend().get_texts()[0].get_text()
    )
    assert short.endswith("or more: too short to tell")


def test_the_command(run, tmp_path, capsys):
    assert (
        analyse.main([str(run.folder), "--output", str(tmp_path / "out"), "--num-eigenpairs", "2"])
        == 0
    )
    shown = capsys.readouterr().out
    assert "ess_bulk" in shown and "a flat, slow direction" in shown and "written to" in shown
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {
        "averages.csv",
        "autocorrelation.png",
        "traces.png",
        "covariance.csv",
        "covariance.npz",
        "spectrum.png",
    }
    table = pd.read_csv(tmp_path / "out" / "averages.csv")
    np.testing.assert_allclose(table["mean"], averages(run)["mean"])
    arguments = [
        str(run.folder),
        "--modules",
        "parameters",
        "--by",
        "walker",
        "--quiet",
        "--no-figures",
        "--thin",
        "2",
    ]
    assert analyse.main([*arguments, "--output", str(tmp_path / "more")]) == 0
    assert capsys.readouterr().out == ""
    assert len(pd.read_csv(tmp_path / "more" / "parameters.csv")) == 8


def test_analyse_is_the_command_in_python(run, tmp_path, monkeypatch):
    found = tati_re.analyse(
        run.folder, ["averages", "covariance"], tmp_path / "python", burnin=2000, num_eigenpairs=2
    )
    given = [
        "--modules",
        "averages",
        "covariance",
        "--burnin",
        "2000",
        "--num-eigenpairs",
        "2",
        "--quiet",
    ]
    assert analyse.main([str(run.folder), *given, "--output", str(tmp_path / "command")]) == 0
    names = sorted(path.name for path in (tmp_path / "python").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "command").iterdir())
    assert {
        "averages.csv",
        "autocorrelation.png",
        "covariance.csv",
        "covariance.npz",
        "spectrum.png",
    } <= set(names)
    for name in ("averages.csv", "covariance.csv"):
        assert (tmp_path / "python" / name).read_bytes() == (
            tmp_path / "command" / name
        ).read_bytes()
    assert found["averages"].table["rows"].iloc[0] == 4 * 19_800, "the choice of the burn-in counts"
    assert list(tati_re.analyse(run)) == ["averages", "covariance"], (
        "a first look is at what the run has data for"
    )
    with pytest.raises(InputError, match=r"unknown choice burn_in\. Did you mean 'burnin'"):
        tati_re.analyse(run, burn_in=1)
    wrong = {
        "method": ["averages"],
        "by": ["free_energy"],
        "groups": None,
        "observables": ["covariance"],
    }
    for name, modules in wrong.items():
        sentence = rf"^{name} applies to another module\. Received: .* Expected: modules "
        with pytest.raises(InputError, match=sentence):
            tati_re.analyse(run, modules, **{name: "kernel"})
    with pytest.raises(InputError, match="Unknown module"):
        tati_re.analyse(run, ["average"])
    (tmp_path / "file").write_text("")
    with monkeypatch.context() as patch, pytest.raises(InputError, match=r"Cannot write .*file: "):
        patch.setattr(
            "tati_re.report.modules.result_of",
            lambda *given: pytest.fail("work before the output is known"),
        )
        tati_re.analyse(run, output=tmp_path / "file")


def test_a_run_that_has_stored_no_positions_yet_has_its_averages(tmp_path):
    """As one that has just begun: the command showed them, and then ended with the status 2 of bad
    input.
    """
    sim = tati_re.Simulation(
        potential=lambda x: (0.5 * (x**2).sum(-1), x), dimension=2, seed=1, verbose=0
    )
    options = {"sampler": "BAOAB", "step_size": 0.1, "record_every": 1, "execution": "eager"}
    run = sim.sample(num_steps=9, trajectory_every=100, output=tmp_path / "run", **options)
    assert list(tati_re.analyse(run)) == ["averages"]
    assert analyse.main([str(tmp_path / "run"), "--quiet", "--no-figures"]) == 0
    with pytest.raises(InputError, match="No positions are left"):
        tati_re.analyse(run, ["covariance"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "tati-analyse needs a run folder"),
        (
            ["{run}", "--modules", "averges"],
            "--modules has an unknown value. Did you mean 'averages'?",
        ),
        (["{run}", "--thin", "0"], "--thin is out of range"),
        (["{run}", "--burnin", "x"], "--burnin has the wrong type"),
        (["{run}", "--to", "excel"], "--to has an unknown value"),
        (["{run}", "--by", "day"], "--by has an unknown value"),
        (["{run}x"], "does not exist"),
        (
            ["{run}", "--modules", "averages", "--num-bins", "7"],
            "--num-bins applies to another module. Received: averages",
        ),
        (
            ["{run}", "--modules", "averages", "--along", "loss"],
            "--along applies to another module.",
        ),
        (
            ["{run}", "--modules", "covariance", "--target-measure"],
            "another module. Received: covariance. Expected: --modules diff",
        ),
        (
            ["{run}", "--modules", "free_energy", "--alpha", "1", "--along", "loss"],
            "--alpha applies to another module.",
        ),
        (
            ["{run}", "--modules", "covariance", "--observables", "loss"],
            "Expected: --modules averages or reweighting.",
        ),
        (
            ["{run}", "--method", "kernel"],
            "another module. Received: averages, covariance. Expected: --modules free",
        ),
        (
            ["{run}", "--modules", "diffusion_map", "--alpha", "2"],
            "error: --alpha is out of range. Received: 2",
        ),
        (
            ["{run}", "--groups", "layer"],
            "--groups applies to another module. Received: averages, covariance.",
        ),
        (
            ["{run}", "--modules", "covariance", "--by", "rung"],
            "--by applies to another module. Received: covariance.",
        ),
        (
            ["{run}", "--to", "arviz", "--by", "walker"],
            "--by applies to another module. Received: arviz.",
        ),
        (["{run}", "{run}", "--output", "o"], "two runs have the same name"),
    ],
)
def test_the_command_refuses_in_one_line(run, arguments, sentence, capsys):
    assert analyse.main([argument.format(run=run.folder) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and sentence in captured.err


def test_help_is_quick():
    program = "import json, sys\nfrom tati_re.cli.analyse import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n"
    program += "    print(json.dumps(sorted({n.partition('.')[0] for n in sys.modules} & {'tensorflow', 'pandas', 'numpy'})))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == []
    assert "modules:" in done.stdout


def test_analysis_does_not_load_tensorflow(run):
    program = f"import sys\nfrom tati_re.cli.analyse import main\nmain([{str(run.folder)!r}, '--quiet', '--no-figures'])\n"
    program += "sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
