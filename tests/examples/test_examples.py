"""The examples run, and say in one sentence what they miss."""

from __future__ import annotations

import itertools
import tomllib
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from tati_re.core.backend import tf, value_and_gradient
from tati_re.posterior.named_density import NamedDensity
from tests.scripts import example, write_images


@pytest.mark.slow
def test_gla2_in_numpy_agrees_with_the_built_in_word(tmp_path, capsys):
    """Both means of virial and kinetic energy lie within 5.5 standard errors of each other and of
    the exact value.

    With 4,000 steps the error of the kinetic energy is 0.002 of 0.150: noise halved (0.150 to
    0.038) or the square root of 1 - c² lost (to 0.115) would show; that of the virial is about
    0.012 of 0.158.
    """
    script = example("gla2_in_numpy")
    assert script.main(["--num-steps", "4000", "--output", str(tmp_path)]) == 0
    rows = np.loadtxt(tmp_path / "gla2.csv", delimiter=",", skiprows=1)
    assert rows.shape == (3600, 4)
    virial, kinetic = (0.1577, 0.15)
    for first, second, exact in (
        (rows[:, 0], rows[:, 1], virial),
        (rows[:, 2], rows[:, 3], kinetic),
    ):
        (mean, error), (other, other_error) = (
            script.mean_and_error(first),
            script.mean_and_error(second),
        )
        assert abs(mean - other) < 5.5 * np.hypot(error, other_error)
        assert abs(mean - exact) < 5.5 * error
        assert abs(other - exact) < 5.5 * other_error
    assert (tmp_path / "gla2.png").stat().st_size > 10_000
    said = capsys.readouterr().out
    assert "plain numpy" in said and "word GLA2" in said


def test_orders_of_batches_heat_as_the_guide_says(tmp_path, capsys):
    """Shares of white noise at m h ω = 0.3, 1, 3 and 10, and where epochs become the better
    order.
    """
    script, num_batches = example("batch_orders"), [3, 10, 30, 100]
    assert script.shares(0.1, num_batches, "replacement") == pytest.approx(1)
    assert script.shares(0.1, num_batches, "epochs") == pytest.approx(
        [0.010, 0.074, 0.376, 0.809], abs=6e-4
    )
    assert script.shares(0.1, num_batches, "symmetric") == pytest.approx(
        [0.003, 0.060, 0.504, 0.859], abs=6e-4
    )
    script.NUM_BATCHES = np.array([5, 14, 15, 40])
    assert script.main(["--output", str(tmp_path)]) == 0
    assert (tmp_path / "batch_orders.png").stat().st_size > 10_000
    assert "below m h ω = 1.4" in capsys.readouterr().out


def test_the_first_example_of_readme_draws_its_picture(tmp_path):
    script = example("own_table")
    assert script.main(["--max-time", "1", "--output", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "own.csv")
    inside = table["dose"].between(*script.GAP)
    assert len(table) == script.ROWS and not inside.any()
    comparison = pd.read_csv(tmp_path / "comparison.csv", index_col=0)
    assert {"ensemble of the fits", "one fit"} <= {*comparison.index}
    assert comparison["negative_log_likelihood"].notna().all()
    assert (tmp_path / "own_table.png").stat().st_size > 10_000


def test_growth_is_integrated_to_the_logistic_curve():
    script = example("named_models")
    times = np.linspace(0.0, 8.0, 12)
    given = (tf.constant(value, tf.float64) for value in (1.2, 20.0, 1.5))
    sizes = script.grown(*given, tf.constant(times)).numpy()
    exact = 20 / (1 + (20 / 1.5 - 1) * np.exp(-1.2 * times))
    np.testing.assert_allclose(sizes, exact, rtol=1e-5)


@pytest.mark.parametrize("name", ["schools", "process", "growth"])
def test_named_models_have_densities_and_gradients(name):
    model = example("named_models").models(1)[name]
    density = NamedDensity(model.log_density, model.parameters, model.data)
    value, slope = value_and_gradient(density, tf.zeros((2, density.dimension), tf.float64))
    assert np.isfinite(value).all()
    assert np.isfinite(slope).all() and np.abs(slope).max() > 0


@pytest.mark.slow
def test_a_named_model_prints_its_parameters_and_its_certificate(capsys):
    assert example("named_models").main(["growth", "--num-steps", "120"]) == 0
    said = capsys.readouterr().out
    assert "capacity" in said and "R-hat" in said


@pytest.mark.slow
def test_errors_of_tati_lie_where_the_closed_forms_say(tmp_path, capsys):
    """Each of the six averages lies within 5.5 error bars of its exact value, and the largest ones
    show.

    The bars are 0.006 to 0.03, so that half the step size (errors 2 to 4 times smaller: 0.125 to
    0.031 for BAOAB at h = 1/4) or a wrong sign would show.
    """
    script = example("tati_figures_2_to_4")
    arguments = ["--quick", "--num-walkers", "40", "--num-steps", "3000", "--output", str(tmp_path)]
    assert script.main(arguments) == 0
    table = np.genfromtxt(
        tmp_path / "errors.csv", delimiter=",", names=True, dtype=None, encoding="utf-8"
    )
    assert len(table) == 6
    for row in table:
        assert abs(row["error"] - row["exact"]) < 5.5 * row["error_bar"]
    largest = table[table["step_size"] == 0.25]
    assert (np.abs(largest["error"]) > 5.5 * largest["error_bar"]).all()
    for name in ("figure2_and_3.png", "figure4.png"):
        assert (tmp_path / name).stat().st_size > 10_000
    assert "published" in capsys.readouterr().out
    # What is there is not computed again, and points of other sizes are not mixed with it.
    before = (tmp_path / "errors.csv").read_text()
    assert script.main(arguments) == 0
    assert (
        "off by" not in capsys.readouterr().out and (tmp_path / "errors.csv").read_text() == before
    )
    assert script.main([*arguments, "--seed", "2"]) == 2
    assert (
        "--output holds points of other sizes. Received: num_walkers 40, "
        in capsys.readouterr().err
    )


def test_errors_of_tati_have_one_line_a_friction(tmp_path):
    """Written and read again; nothing that is there is lacking, and the pooled error is weighted by
    the bars.
    """
    script, sizes = (
        example("tati_figures_2_to_4"),
        {"num_walkers": 100, "num_steps": 1_000, "seed": 1},
    )
    book = script.Book(tmp_path / "errors.csv", sizes)
    wells = [
        script.Point(
            "harmonic",
            "GLA2",
            "virial",
            0.01,
            friction,
            h,
            h**2 / 2 * friction,
            1e-4 * friction,
            h**2 / 2,
        )
        for friction in (0.01, 100.0)
        for h in (1 / 64, 1 / 4)
    ]
    book.add(
        [*wells, script.Point("clusters", "SGLD", "virial", np.nan, np.nan, 0.0125, 0.1, 0.01, 0.1)]
    )
    again = script.Book(tmp_path / "errors.csv", sizes)
    assert not again.lacks(system="harmonic", sampler="GLA2", a=0.01, friction=100.0)
    assert again.lacks(system="harmonic", sampler="GLA2", a=1.0, friction=100.0)
    assert (
        not again.lacks(system="clusters", sampler="SGLD", step_size=0.0125)
        and again.next_seed() == 4
    )
    lines = script.lines_of(again.points)
    assert list(lines) == [("harmonic", "GLA2", 0.01), ("clusters", "SGLD", 0.0)]
    assert {friction: len(line) for friction, line in lines["harmonic", "GLA2", 0.01].items()} == {
        0.01: 2,
        100.0: 2,
    }
    assert script.pooled(again.points[:4])[1].error == pytest.approx(0.01 / 32, rel=1e-3)
    rows = script.tell(lines)
    assert [row.split(",")[3] for row in rows[1:]] == ["0.01", "100", "all", "0"]
    script.draw_wells(lines, tmp_path / "wells.png")
    assert (tmp_path / "wells.png").stat().st_size > 10_000
    with pytest.raises(script.tati_re.InputError, match="points of other sizes"):
        script.Book(tmp_path / "errors.csv", sizes | {"seed": 2})


def test_exact_errors_are_the_known_ones():
    """BAOAB: virial exact, kinetic energy 1 - h²k/4; GLA2 the other way round; GLA1 0.9053 at h =
    1/4, k = 1, γ = 1.
    """
    script = example("tati_figures_2_to_4")
    one = np.array([1.0])
    assert script.exact_errors("BAOAB", 0.5, 1.0, one) == pytest.approx((-0.0625, 0.0), abs=1e-12)
    assert script.exact_errors("GLA2", 0.5, 1.0, one) == pytest.approx(
        (0.0, 1 / 0.9375 - 1), abs=1e-12
    )
    assert script.exact_errors("GLA1", 0.25, 1.0, one)[1] == pytest.approx(0.9053 - 1, abs=1e-4)
    assert script.exact_errors("SGLD", 0.5, 1.0, one)[1] == pytest.approx(1 / 0.75 - 1)


def test_slope_of_a_power_law_and_of_nothing_but_noise():
    script = example("tati_figures_2_to_4")
    points = [
        script.Point("clusters", "GLA2", "virial", np.nan, 1.0, h, -(h**2), 1e-4, -(h**2))
        for h in (0.1, 0.2)
    ]
    assert script.fitted_slope(points)[::2] == pytest.approx((2.0, 2.0))
    noise = [point._replace(error_bar=1.0) for point in points]
    assert (
        np.isnan(script.fitted_slope(noise).slope) and script.fit_of(noise) == "statistical limit"
    )
    assert (
        script.fit_of([point._replace(error_bar=0.01) for point in points])
        == "seen at h = 0.2 alone"
    )


@pytest.mark.slow
def test_uci_regression_scores_a_sampler_beside_hmc(tmp_path, capsys):
    """On generated data with noise 0.1; HMC accepts, and both methods predict better than the
    target's deviation.
    """
    script = example("uci_regression")
    assert script.main(["--quick", "--output", str(tmp_path)]) == 0
    table = np.genfromtxt(
        tmp_path / "results.csv", delimiter=",", names=True, dtype=None, encoding="utf-8"
    )
    assert table["sampler"].tolist() == ["BADODAB", "auto", "HMC"]
    assert (table["rmse"] < 0.4).all()
    assert np.isfinite(table["nll"]).all() and (table["nll_error"] > 0).all()
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert "generated, split 0: 180 + 20 rows" in capsys.readouterr().out
    before = (tmp_path / "results.csv").read_text()
    assert script.main(["--quick", "--output", str(tmp_path)]) == 0
    assert (
        "split 0" not in capsys.readouterr().out
        and (tmp_path / "results.csv").read_text() == before
    )


def test_uci_regression_scores_the_mixture_of_all_draws():
    """Two draws at 0 and 1, one target at 0, noise 1, unit 3: density (n(0) + n(1)) / 2 / 3, mean
    1/2.
    """
    script = example("uci_regression")
    outputs = np.array([[[0.0]], [[1.0]]])
    normal = np.exp(-0.5 * np.array([0.0, 1.0])) / np.sqrt(2 * np.pi)
    nll, rmse = script.errors_of(outputs, np.zeros(1), 1.0, 3.0)
    assert nll == pytest.approx(-np.log(normal.mean() / 3))
    assert rmse == pytest.approx(1.5)


def test_uci_regression_summarizes_splits():
    """Three splits: means 2 and 5, standard errors by the splits 1/√3; failed checks are
    counted.
    """
    script = example("uci_regression")
    outside = ("", "R-hat", "R-hat; burn-in")
    scores = [
        script.Score(
            "yacht",
            k,
            "auto",
            1.0 + k,
            0.1,
            4.0 + k,
            0.1,
            1.0 + 0.01 * k,
            1.0,
            1.0,
            9.0,
            outside[k],
        )
        for k in range(3)
    ]
    once = script.Score("yacht", 0, "HMC", 1.0, 0.1, 4.0, 0.1, 1.0, 1.0, 1.0, 9.0)
    assert list(script.summary([*scores, once])) == [
        "yacht, auto, 3 splits: NLL 2.000 ± 0.577, RMSE 5.000 ± 0.577, R-hat of the test error 1.00 to 1.02; "
        "certificate failed: R-hat 2, burn-in 1"
    ]


def test_tati_mnist_training_goes_through_its_stages(tmp_path, capsys):
    """Images of ten classes, each a pattern of its own plus noise; the last of them are not trained
    on.
    """
    write_images(tmp_path, 300, 60)
    script, run = example("tati_mnist_training"), tmp_path / "run"
    sizes = ["--num-examples", "250", "--stages", "40:0.05:50", "20:0.01:125", "20:0.002:all"]
    assert script.main(["--data", str(tmp_path), "--output", str(run), *sizes]) == 0
    rows = np.genfromtxt(run / "run.csv", delimiter=",", names=True)
    assert list(rows["step"]) == [10, 20, 30, 40, 50, 60, 70, 80]
    assert list(rows["step_size"]) == [0.05] * 4 + [0.01] * 2 + [0.002] * 2
    assert rows["loss"][-1] < 0.5 * rows["loss"][0]
    said = [
        line.split()
        for line in capsys.readouterr().out.splitlines()
        if line.startswith(("training", "test"))
    ]
    assert [line[:2] for line in said] == [["training", "250"], ["test", "60"]]
    assert [line[3::2] for line in said] == [["0.265", "0.926"], ["0.271", "0.926"]]
    # The full batch of the last step is the training set; the prediction comes from another
    # function of the model.
    assert float(said[0][2]) == pytest.approx(rows["loss"][-1], abs=2e-4)
    assert float(said[1][4]) > 0.9
    assert (run / "figure.png").stat().st_size > 10_000


@pytest.mark.slow
def test_an_ensemble_mixes_faster_than_its_walkers_would_alone(tmp_path, capsys):
    """On 4 dimensions: the law within 5.5 standard errors, a gain of 5.4 ± 1.4; without
    preconditioner it is 0.94.
    """
    script = example("ensemble_quasi_newton")
    assert script.main(["--quick", "--output", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "gaussians.csv")
    assert table["direction"].tolist() == ["slowest", "fastest"]
    assert table["variance_error"][0] < 0.03
    assert abs(table["variance"][0] - 1) < 5.5 * table["variance_error"][0]
    assert table["gain"][0] > 1.5
    images = pd.read_csv(tmp_path / "mnist.csv")
    assert len(images) == 10 and np.isfinite(images["time"]).all()
    assert (tmp_path / "gaussians.png").stat().st_size > 10_000
    assert (tmp_path / "mnist.png").stat().st_size > 10_000
    said = capsys.readouterr().out
    assert "about 10" in said and "up to 4" in said


def test_closed_forms_and_times_of_the_ensemble_example():
    """Overdamped limit of BAOAB: 4 tanh(γh/2) / (k h²) steps; an autoregression with coefficient
    0.9: 1.9 / 0.1 = 19.

    Power: 64 series of 20,000 rows are 67,000 times, a standard error of 1 %; a lost factor of 2 or
    of the number of walkers, or rows in a wrong order, would show.
    """
    script = example("ensemble_quasi_newton")
    assert script.time_alone(0.01, 10.0) == pytest.approx(
        4 * np.tanh(0.625) / (0.01 * 0.125**2), rel=1e-3
    )
    assert script.gain_of_a_fixed_root(2 * np.linspace(1, 100, 16) / 16, 4) == pytest.approx(
        4.9, rel=0.1
    )
    random = np.random.default_rng(0)
    series = np.zeros((20_000, 16, 4))
    series[0] = random.standard_normal((16, 4)) / np.sqrt(1 - 0.81)
    for row, drawn in enumerate(random.standard_normal((19_999, 16, 4))):
        series[row + 1] = 0.9 * series[row] + drawn
    time = script.measured_time(series, 1 / (1 - 0.81), 16)
    assert time.error < 1.0
    assert abs(time.steps - 19) < 5.5 * time.error
    alike = np.repeat(series[:, :, :1], 4, axis=2)
    assert script.measured_time(alike, 1 / (1 - 0.81), 16).steps == pytest.approx(4 * 19, rel=0.2)


def test_directions_of_tatis_figure_11():
    """Orthonormal; adding a flat one to the weights changes no difference of the two classes, a
    driven one does; the time of a flat one is 4 tanh(γh/2) / (k h²) where friction rules, 1,277,
    and the published sizes are those.
    """
    script = example("tati_figure_11")
    images = np.random.default_rng(0).uniform(0, 1, (300, 120))
    directions = script.directions_of(images, 0)
    np.testing.assert_allclose(directions @ directions.T, np.eye(105), atol=1e-10)
    difference = directions.reshape(105, 120, 2) @ [1.0, -1.0]
    assert np.abs(difference[:100]).max() < 1e-12
    np.testing.assert_allclose(np.linalg.norm(difference[100:], axis=1), np.sqrt(2))
    assert script.alone(10.0) == pytest.approx(4 * np.tanh(0.625) * 9 / 0.125**2, rel=0.01)
    series = np.zeros((20_000, 20))
    for before, now, drawn in zip(
        series, series[1:], np.random.default_rng(1).standard_normal((19_999, 20)), strict=False
    ):
        now[:] = 0.8 * before + drawn
    # 1.8 / 0.2 = 9, and 0.140 of a free path; 400,000 rows are 44,000 times, an error of 1 %.
    assert script.time_within(series) == pytest.approx(9, rel=0.055)
    phase = np.linspace(0, np.pi, 2_000)[:, None]
    assert script.time_within(np.cos(phase)) == pytest.approx(0.14 * 2_000, rel=0.02)
    assert (script.FULL_REFRESH, script.BLENDINGS[-1], script.WALKERS) == (10_000, 10_000.0, 8)


@pytest.mark.slow
def test_tatis_figure_11_without_and_with_an_equilibrium(tmp_path, capsys):
    """A free path has 0.14 of its length as its time along its longest directions and 0.11 along
    any, the law under the mass is that of the prior, and what is there is not run again.
    """
    script = example("tati_figure_11")
    assert script.main(["--quick", "--output", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "results.csv")
    assert table["method"].unique().tolist() == [
        "η = 0",
        "η = 10",
        "η = 100",
        "η = 10,000",
        "fisher",
    ]
    free = table[table["method"] == "η = 0"]
    assert free["share"][:5].between(0.12, 0.16).all() and 0.09 < free["share"].iloc[5] < 0.13
    assert abs(free["temperature"].iloc[0] / 0.1 - 1) < 0.02
    flat = table[table["direction"] == "flat"].set_index("method").loc["fisher"]
    assert abs(flat["variance"] - 1) < 5.5 * flat["variance_error"] < 0.4
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert "up to 4" in capsys.readouterr().out
    assert script.main(["--quick", "--output", str(tmp_path)]) == 0
    assert "of the run   temperature" not in capsys.readouterr().out
    assert script.main(["--quick", "--seed", "2", "--output", str(tmp_path)]) == 2
    assert "--output holds rows of other sizes." in capsys.readouterr().err


@pytest.mark.slow
def test_replica_exchange_hmc_draws_a_curve(tmp_path, capsys):
    """On generated images with logistic outputs: no loss is below ln(1 + 9/e), training loss rises
    with T, the box is empty from one start and full from the other.
    """
    script, folder = example("replica_exchange_hmc"), tmp_path / "made" / "by_it"
    assert script.main(["--quick", "--nets", "logistic", "--output", str(folder)]) == 0
    table = np.genfromtxt(
        folder / "results.csv", delimiter=",", names=True, dtype=None, encoding="utf-8"
    )
    np.testing.assert_allclose(
        table["temperature"], 2 * [0.1, 10 ** (-2 / 3), 10 ** (-1 / 3), 1.0], rtol=1e-5
    )
    assert table["images"].tolist() == [50] * 8
    assert table["start"].tolist() == [script.STARTS[0]] * 4 + [script.STARTS[1]] * 4
    assert (table["width"][:4] < 0.1).all() and (abs(table["width"][4:] - script.WIDE) < 0.05).all()
    assert (table["train_loss"] > script.LOGISTIC_FLOOR).all() and (
        table["test_loss"] > script.LOGISTIC_FLOOR
    ).all()
    assert table["train_loss"][4] < table["train_loss"][7] - 0.1
    assert (table["acceptance"] > 0.2).all()
    assert (table["train_loss_error"] > 0).all() and (table["step_size"] > 0).all()
    assert (folder / "trace-50-logistic.png").stat().st_size > 10_000
    assert (folder / "figure.png").stat().st_size > 10_000
    said = capsys.readouterr().out
    assert (
        "T = 1 is the posterior" in said
        and "descents: training loss" in said
        and "published: no minimum" in said
    )


@pytest.mark.slow
def test_replica_exchange_hmc_rejects_at_the_walls_as_published(tmp_path):
    """A trajectory that leaves the box is not accepted; from the prior, where weights are near the
    walls, many do.
    """
    script, accepted = example("replica_exchange_hmc"), {}
    for walls in ("reflect", "reject"):
        arguments = [
            "--quick",
            "--nets",
            "linear",
            "--walls",
            walls,
            "--output",
            str(tmp_path / walls),
        ]
        assert script.main(arguments) == 0
        manifest = tomllib.loads((tmp_path / walls / "run-50-linear" / "manifest.toml").read_text())
        assert manifest["options"]["walls"] == walls
        table = np.genfromtxt(
            tmp_path / walls / "results.csv",
            delimiter=",",
            names=True,
            dtype=None,
            encoding="utf-8",
        )
        accepted[walls] = table["acceptance"][4:].mean()
    assert accepted["reject"] < 0.75 * accepted["reflect"], accepted


def test_replica_exchange_hmc_draws_the_energies_of_all_rungs(tmp_path):
    """Rows in the order of a run: steps, rungs, walkers; each loss says from where it comes."""
    script = example("replica_exchange_hmc")
    order = itertools.product((1, 2, 3), (0, 1), (0, 1))
    table = [(step, walker, rung, 100 * walker + 10 * rung + step) for step, rung, walker in order]
    run = SimpleNamespace(run_info=pd.DataFrame(table, columns=["step", "walker", "rung", "loss"]))
    traces = script.traces_of(run, 50)
    assert traces.tolist() == [
        [[50, 100, 150], [550, 600, 650]],
        [[5050, 5100, 5150], [5550, 5600, 5650]],
    ]
    script.draw_traces(traces, np.array([0.1, 1.0]), 1, tmp_path / "trace.png")
    assert (tmp_path / "trace.png").stat().st_size > 10_000


def test_replica_exchange_hmc_counts_loss_and_pixels():
    """The column of the test loss is what `Simulation` says of the same images; a shrunk ramp is a
    ramp.

    Pixel a of 16 lies at 1.75 (a + 1/2) - 1/2 of 28, up to 0.045 for a filter on whole pixels; half
    a pixel would show.
    """
    script = example("replica_exchange_hmc")
    digits = script.generated(40, seed=1)["50"]
    same = digits._replace(test=digits.train, test_labels=digits.train_labels)
    for net in script.NETS.values():
        sim = script.simulation(same, net, 3, seed=2)
        shape = (3, 10_690 if len(net.nodes) == 3 else 13_970)
        sim.parameters = np.random.default_rng(0).uniform(-0.2, 0.2, shape)
        functions = script.test_observables(same, net)
        np.testing.assert_allclose(functions["test_loss"](sim.parameters), sim.loss(), rtol=1e-5)
        np.testing.assert_allclose(
            functions["test_accuracy"](sim.parameters), sim.score(), rtol=1e-10
        )
        bound = net.prior_bound / np.sqrt(script.fan_in_plus_one(net))
        full = np.random.default_rng(1).uniform(-bound, bound, shape)
        np.testing.assert_allclose(
            functions["width"](full), 1.0, atol=5.5 * np.sqrt(0.2 / shape[1])
        )
    ramp = np.broadcast_to(np.arange(28.0), (1, 28, 28))
    rows = (0.3081 * script.shrunk(ramp) + 0.1307).reshape(16, 16) * 255
    np.testing.assert_allclose(
        rows[:, 1:-1], np.broadcast_to(1.75 * np.arange(1.5, 15) - 0.5, (16, 14)), atol=0.05
    )
    np.testing.assert_allclose(script.shrunk(np.full((1, 28, 28), 255)), (1 - 0.1307) / 0.3081)


def test_replica_exchange_hmc_keeps_training_images_out_of_the_test(tmp_path, capsys):
    """Every image has a gray of its own, by which it is known again."""
    script = example("replica_exchange_hmc")
    images = np.repeat(np.arange(200), 784).reshape(-1, 28, 28).astype(np.uint8)
    labels = (np.arange(200) % 10).astype(np.uint8)
    np.savez(
        tmp_path / "mnist.npz",
        x_train=images[:150],
        y_train=labels[:150],
        x_test=images[150:],
        y_test=labels[150:],
    )
    listed = np.arange(3, 143, 7)
    np.savetxt(tmp_path / script.INDICES, listed, fmt="%d")
    np.savetxt(tmp_path / script.MANY, np.arange(40), fmt="%d")
    sets = script.read(tmp_path, 100, 4, many=True)
    assert sets["5000"].train_labels.tolist() == labels[:40].tolist()
    grey = {
        name: [np.rint((0.3081 * d[:, 0] + 0.1307) * 255) for d in (s.train, s.test)]
        for name, s in sets.items()
    }
    assert grey["500"][0].tolist() == listed.tolist()
    assert np.bincount(sets["50"].train_labels).tolist() == [5] * 10
    for train, test in grey.values():
        assert (
            len(test) == 100 == len(set(test)) and not set(train) & set(test) and test.max() >= 150
        )
    assert "50 images: 5 of each class, seed 4: " in capsys.readouterr().out


def test_renhd_counts_what_samples_are_worth():
    """An autoregression of φ = 0.8 has (1 - φ)/(1 + φ) = 1/9; with every second value left out
    0.22.
    """
    script, chains = (
        example("renhd_five_gaussians"),
        np.random.default_rng(1).normal(size=(1_000, 400, 2)),
    )
    for before, now in itertools.pairwise(chains):
        now[:] = 0.8 * before + 0.6 * now
    size, error = script.effective_size(chains)
    assert abs(size - 1 / 9) < 5.5 * error < 0.25 / 9
    thinned, error = script.effective_size(chains[::2])
    assert thinned - 1 / 9 > 5.5 * error


def test_renhd_marginals_of_rungs():
    """At T = 1 the shares of bins are those of Gaussians of deviation 0.5 at 0 and +-3; hotter, the
    valley fills.
    """
    from scipy.stats import norm

    script = example("renhd_five_gaussians")
    centres = np.array([-3.0, 0.0, 3.0])[:, None]
    expected = np.array([0.4, 0.2, 0.4]) @ np.diff(norm.cdf(script.EDGES, centres, 0.5), axis=1)
    cold, hot = (script.exact_marginal(temperature) for temperature in (1.0, 2.25))
    # Five points a bin are off by h²/24 of the curvature.
    assert np.abs(cold - expected).max() < 1e-3 * expected.max() and hot.sum() == pytest.approx(1.0)
    heights = [script.Marginal(1.0, share, 0.01 * share, share).barrier for share in (cold, hot)]
    assert heights[0][0] == heights[0][2] > heights[1][0] + 1 and heights[0][1] == pytest.approx(
        0.01 * np.sqrt(2)
    )


@pytest.mark.slow
def test_renhd_on_five_gaussians(tmp_path, capsys):
    """Masses and <U> within 5.5 errors, swap rates of the compensated rule; Euler steps are cold,
    one rung is stuck.
    """
    script = example("renhd_five_gaussians")
    assert (
        script.main(["--num-ladders", "40", "--num-samples", "150", "--output", str(tmp_path)]) == 0
    )
    table = pd.read_csv(tmp_path / "results.csv").set_index(["run", "quantity"])
    for run in ("RENHD", "exact swaps", "normalizing flow", "TACT-HMC"):
        for row in table.loc[run].itertuples():
            if np.isfinite(row.error) and np.isfinite(row.exact):
                assert abs(row.value - row.exact) < 5.5 * row.error
    assert table.loc["normalizing flow", "accepted proposals"]["value"] > 0.4
    for run in ("RENHD", "exact swaps"):
        rates = table.loc[run].filter(like="swap rate", axis=0)["value"]
        assert rates.between(*((0.43, 0.51) if run == "RENHD" else (0.77, 0.88))).all()
    assert table.loc["RENHD", "effective size per sample"]["published"] == pytest.approx(0.0416)
    spreads = [table.loc[run, "spread of a mode"]["value"] for run in ("RENHD", "renhd_euler")]
    # Euler at c = 0.1: 0.5 sqrt(1 - c/2) = 0.487; the error of a spread from 6,000 samples is 0.003
    # at most.
    assert abs(spreads[0] - 0.5) < 0.006 and abs(spreads[1] - 0.487) < 0.007
    assert table.loc["one rung", "mass at (0 0)"]["value"] > 0.7
    # ξ is on the plateau, a tenth of its range; the spread of a mode has an error of 0.003 as
    # above.
    assert abs(table.loc["TACT-HMC", "steps at T = 1"]["value"] - 0.1) < 0.02
    assert abs(table.loc["TACT-HMC", "spread of a mode"]["value"] - 0.5) < 0.02
    heights = table.loc["RENHD"].filter(like="barrier at", axis=0)
    assert (
        len(heights) == 5
        and ((heights["value"] - heights["exact"]).abs() < 5.5 * heights["error"]).all()
    )
    assert (tmp_path / "renhd.png").stat().st_size > 10_000 and (
        tmp_path / "marginals.png"
    ).stat().st_size > 10_000
    assert "published 0.0416" in capsys.readouterr().out


@pytest.mark.slow
def test_well_tempered_histograms(tmp_path, capsys):
    """Means within 5 % of their laws, weighted ones of the bias too; the bias lets more swaps
    through.
    """
    script = example("well_tempered_histograms")
    assert (
        script.main(["--num-ladders", "10", "--num-steps", "500", "--output", str(tmp_path)]) == 0
    )
    table = pd.read_csv(tmp_path / "results.csv")
    assert table["bias_factor"].tolist() == [1] * 6 + [4] * 6
    assert (table["mean"] / table["exact_mean"] - 1).abs().max() < 0.05
    assert (table["weighted_mean"] / (50 * table["temperature"]) - 1).abs().max() < 0.05
    plain, biased = (table[table["bias_factor"] == factor] for factor in (1, 4))
    assert (plain["swap_rate"] - plain["exact_swap_rate"]).abs().max() < 0.05
    assert biased["swap_rate"].min() > 0.5 and (plain["weight_size"] == 1).all()
    assert (tmp_path / "well_tempered.png").stat().st_size > 10_000
    assert "exact 0.642" in capsys.readouterr().out


@pytest.mark.slow
def test_targets_of_ones_own(tmp_path, capsys):
    """Banana and straightened funnel within 5.5 errors; HMC of one step size does not reach the
    funnel.
    """
    assert example("targets").main(["--num-steps", "2000", "--output", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "results.csv").set_index(["target", "moment"])
    for name in ("banana", "funnel, straightened"):
        assert table.loc[name]["errors_off"].max() < 5.5
    assert (
        table.loc[("funnel", "E v^2"), "sampled"]
        < 8.5
        < 8.7
        < table.loc[("funnel, straightened", "E v^2"), "sampled"]
    )
    assert (tmp_path / "funnel.png").stat().st_size > 10_000
    assert "straightened" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(("network", "there"), [("lstm", "89.45"), ("resnet", "84.48")])
def test_renhd_on_a_network_takes_one_budget_of_gradients(network, there, tmp_path, capsys):
    """A ladder of 2 rungs takes half of the steps; its replicas share the rungs out at every
    step.
    """
    script = example("renhd_lstm")
    quick = ["--quick", "--network", network, "--output", str(tmp_path)]
    assert script.main([*quick, "--methods", "RENHD", "Adam"]) == 0
    table = pd.read_csv(tmp_path / "results.csv").set_index("method")
    assert table["rungs"].to_dict() == {"RENHD": 2, "Adam": 1}
    assert (table["rungs"] * table["steps"] == 120).all()
    assert (table["draws"] == 40).all() and np.isfinite(table["nll"]).all()
    assert 0 <= table["acceptance"]["RENHD"] <= 1 and np.isnan(table["acceptance"]["Adam"])
    rows = pd.read_csv(tmp_path / "rungs.csv").sort_values(["step", "run", "rung"])
    assert rows["rung"].to_numpy().reshape(-1, 2).tolist() == [[0, 1]] * (60 * 2)
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    said = capsys.readouterr().out
    assert there in said and ("Fashion-MNIST" in said) == (network == "lstm")
    assert "replicas would not cross" not in said.split("chosen")[0]


def test_permuted_labels_of_the_lstm_and_their_mean_potential(monkeypatch):
    """In each version a fifth of the labels takes part, none is lost; differences of U are N times
    those of a run's.
    """
    script = example("renhd_lstm")
    labels = np.arange(1000) % 10
    versions = script.permuted(labels, 5, 0)
    assert (np.sort(versions, axis=1) == np.sort(labels)).all()
    # Of 200 that take part nine tenths come to another class: 180 with a deviation of about 4.
    moved = (versions != labels).sum(axis=1)
    assert (moved <= 200).all() and (moved > 155).all()
    assert len({tuple(version) for version in versions}) == 5
    assert [
        script.trips(np.array(path)) for path in ([0, 1, 2, 1, 0, 2, 0], [2, 0, 1, 0], [1, 0, 2])
    ] == [2, 0, 0]
    monkeypatch.setattr(script, "BATCH_SIZE", 10**6)
    sizes = script.QUICK["lstm"]
    problem = script.Problem(script.generated(sizes.num_train, sizes.num_test, 0), sizes, 0)
    first, second = problem.starts[:2]
    problem.simulation.parameters = np.stack([first, 3 * second])
    expected = sizes.num_train * np.diff(problem.simulation.potential())[0]
    assert problem.energy(3 * second) - problem.energy(first) == pytest.approx(expected, rel=1e-3)


def test_renhd_on_a_network_takes_a_single_run(capsys):
    """Its last position is one vector, and one run has no deviation."""
    script = example("renhd_lstm")
    sizes = script.QUICK["lstm"]._replace(num_runs=1, num_gradients=40, num_units=2)
    problem = script.Problem(script.generated(sizes.num_train, sizes.num_test, 0), sizes, 0)
    adam = next(method for method in script.METHODS if method.name == "Adam")
    found, _ = script.result(problem, adam, None)
    assert 0 <= found.last_accuracy <= 100 and np.isnan(found.last_accuracy_deviation)
    script.report(found, sizes)
    said = capsys.readouterr().out
    assert f"{found.last_accuracy:.2f}" in said and "nan" not in said and "±" not in said


def test_controls_of_renhd_have_the_steps_of_a_ladder():
    """Two chains of 40 steps have the gradients of a ladder of two, one short chain has half."""
    script = example("renhd_lstm")
    sizes = script.QUICK["lstm"]._replace(num_runs=2, num_gradients=80, num_units=2)
    problem = script.Problem(script.generated(sizes.num_train, sizes.num_test, 0), sizes, 0)
    methods = {method.name: method for method in script.METHODS}
    chains, rows = script.result(problem, methods["SGNHT, chains"], None)
    short, _ = script.result(problem, methods["SGNHT, short"], None)
    assert rows is None
    assert (chains.rungs, chains.steps, chains.draws) == (2, 40, 2 * short.draws)
    assert (short.rungs, short.steps) == (1, 40)
    first, second = (
        problem.run(methods["SGNHT, chains"], None, 40, 1, chain).trajectory.iloc[-1]
        for chain in range(2)
    )
    assert not first.equals(second)  # other random numbers


def test_descents_stop_at_a_bound_of_their_weights(tmp_path, monkeypatch):
    """Each stop is the first recorded step at the bound; a bound that is not reached has no
    descent, and no other step stands for it.
    """
    script = example("baldock_descents")
    monkeypatch.setattr(script, "BOUNDS", {"linear": 3.0, "logistic": 890.0})
    monkeypatch.setattr(script, "OPTIMIZERS", {"Adam": script.OPTIMIZERS["Adam"]})
    assert script.main(["--quick", "--output", str(tmp_path)]) == 0
    rows = pd.read_csv(tmp_path / "descents.csv")
    found = pd.read_csv(tmp_path / "stops.csv").set_index(["net_name", "stop"])
    linear = rows[rows["net"] == "linear"]
    first = linear[linear["largest"] >= 3].groupby("walker").first()
    there = found.loc["linear", "bound 3"]
    assert there["reached"] == len(first) == 4
    assert there["test_loss"] == pytest.approx(first["test_loss"].mean())
    assert there["train_loss"] == pytest.approx(first["loss"].mean())
    assert found.loc["logistic", "bound 890"]["reached"] == 0
    assert found.loc["linear", "500 steps"]["reached"] == 0
    least = found.loc["linear", "least test loss"]["test_loss"]
    assert least <= found.loc["linear", "last step"]["test_loss"]
    starts = linear.groupby("walker")["loss"].first()
    assert (starts < 1.5 * np.log(10)).all() and (starts > 0.2).all()  # a mean over the images


@pytest.mark.slow
def test_resghmc_on_a_resnet_is_resumed_and_counts_its_swaps(tmp_path, capsys):
    """On generated images the draws fit better than the start, over both halves of the run."""
    script = example("resghmc_resnet")
    more = ["--annealed", "--factors", "3e5", "1", "--methods", *script.METHODS]
    assert script.main(["--quick", *more, "--output", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "results.csv")
    assert table["name"].tolist()[3:] == ["reSGHMC", "SGHMC", "momentum SGD"] and table[
        "factor"
    ].tolist()[2:4] == [
        3e5,
        1,
    ]
    assert table["draws"].tolist()[:2] == [1, 1] and table["draws"][2] >= script.NUM_DRAWS
    assert table["nll"][2] < table["nll"][0]
    rows = pd.read_csv(tmp_path / "run" / "run.csv")
    assert rows["step"].tolist() == np.repeat(np.arange(1, 41), 2).tolist()
    swaps = pd.read_csv(tmp_path / "swaps.csv")
    assert swaps["step"].tolist() == list(range(2, 41, 2))
    assert (np.diff(swaps["swaps"]) <= 1).all() and (swaps["exact"] <= swaps["without"]).all()
    assert (swaps["correction"] > 0).all()
    assert (tmp_path / "figure.png").stat().st_size > 10_000 and (
        tmp_path / "factors.png"
    ).stat().st_size > 10_000
    assert table["swaps"][2:4].between(0, 1).all() and table["swaps"][[0, 4, 5]].isna().all()
    assert "batch normalization by each batch" in capsys.readouterr().out


@pytest.mark.slow
def test_a_bayesian_gan_is_stopped_and_goes_on(tmp_path, capsys):
    """The game on generated images: as many rounds in two calls; another game is refused in its
    folder.
    """
    script = example("bayesian_gan")
    assert script.main(["--quick", "--output", str(tmp_path)]) == 0
    assert script.main(["--quick", "--num-rounds", "30", "--output", str(tmp_path)]) == 0
    rows = pd.read_csv(tmp_path / "game" / "discriminator" / "run.csv")
    assert rows["step"].tolist() == [10, 10, 20, 20, 30, 30]
    assert len(pd.read_csv(tmp_path / "game" / "generator" / "run.csv")) == 3 * 2
    assert pd.read_csv(tmp_path / "results.csv")["accuracy"].between(0, 100).all()
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert "77.73" in capsys.readouterr().out
    assert script.main(["--quick", "--seed", "1", "--output", str(tmp_path)]) == 2
    assert "another folder" in capsys.readouterr().err


def test_annealing_of_the_resnet_example():
    """T falls by 1.02 in each of 500 parts of the run, the rate, h², by 0.984 after 200 of them."""
    tables = example("resghmc_resnet").annealed(5_000, 0.1)
    (step, temperature), (_, step_size) = (
        tables["temperature_schedule"][300],
        tables["step_schedule"][300],
    )
    assert step == 3_001 and temperature == pytest.approx(0.01 / 1.02**300)
    assert step_size == pytest.approx(0.1 * 0.984**50) and tables["step_schedule"][200][1] == 0.1


def test_losses_of_the_bayesian_gan():
    """-ln p(real), and 3 times -ln p(class) with a label, by hand; the last output is added."""
    script = example("bayesian_gan")
    loss, logits = script.made_layers(3.0)[2], np.array([[0.3, -1.0, *[-30.0] * 8, 0.7]], "float32")
    z = np.exp([0.3, -1.0])
    for label, p in ((1, z[1] / z.sum()), (-1, 1.0)):
        expected = -np.log(z.sum() / (1 + z.sum())) - 3 * np.log(p) + 0.7
        assert float(loss(np.array([[label]], "float32"), logits)[0]) == pytest.approx(
            expected, rel=1e-5
        )


def test_corrections_of_the_resnet_example():
    """Two tries, the first accepted: F falls by 0.8 after it and grows by 1.02 in an epoch of 10
    steps.
    """
    script = example("resghmc_resnet")
    events = pd.DataFrame(
        {"step": [10, 20], "delta": [1.0, -1.0], "variance": [4.0, 4.0], "accepted": [1, 0]}
    )
    swaps = script.swaps_of(events, 10.0)
    assert swaps.factor == pytest.approx([3e5 * 1.02, 3e5 * 0.8 * 1.02**2])
    assert swaps.correction == pytest.approx([2.0, 2.0])
    assert swaps.without == pytest.approx([1.0, 1 + np.exp(-1)])
    assert swaps.exact == pytest.approx([np.exp(-1), np.exp(-1) + np.exp(-3)])
    assert (
        sum(np.prod(w.shape) for w in script.resnet((32, 32, 3), 3, 16).trainable_weights)
        == 272_474
    )


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        (
            "ensemble_quasi_newton",
            ["--num-steps", "10"],
            "--num-steps is too small. Received: 10. Expected: at least ",
        ),
        (
            "ensemble_quasi_newton",
            ["--data", "nowhere"],
            "--data: there is no mnist.npz. Received: nowhere. Expected: ",
        ),
        (
            "ensemble_quasi_newton",
            ["--pool", "5"],
            "--pool does not fit 28 pixels. Received: 5. Expected: 4, 7, 14",
        ),
        (
            "gla2_in_numpy",
            ["--num-steps", "10"],
            "--num-steps is too small. Received: 10. Expected: at least 1,000.",
        ),
        (
            "mnist_softmax",
            ["--data", "nowhere"],
            "--data: there is no mnist.npz. Received: nowhere. Expected: a ",
        ),
        (
            "mnist_softmax",
            ["--data", ".", "--num-steps", "5"],
            "--num-steps is too small. Received: 5.",
        ),
        (
            "tati_mnist_training",
            ["--data", "nowhere"],
            "--data: there is no mnist.npz. Received: nowhere. Expected: a ",
        ),
        (
            "tati_figure_11",
            [],
            "--data is missing. Expected: a folder that holds mnist.npz, or --quick.",
        ),
        (
            "tati_figure_11",
            ["--data", "nowhere"],
            "--data: there is no mnist.npz. Received: nowhere. Expected: a ",
        ),
        (
            "tati_figure_11",
            ["--quick", "--num-steps", "150"],
            "--num-steps does not fit. Received: 150 with ",
        ),
        ("tati_figures_2_to_4", ["--num-steps", "10"], "--num-steps is too small. Received: 10."),
        ("tati_figures_2_to_4", ["--num-walkers", "1"], "--num-walkers is too small. Received: 1."),
        ("replica_exchange_hmc", [], "--data is missing. "),
        (
            "replica_exchange_hmc",
            ["--data", "nowhere"],
            "--data: there is no mnist.npz. Received: nowhere. Expected: a ",
        ),
        (
            "replica_exchange_hmc",
            ["--quick", "--num-trajectories", "5"],
            "--num-trajectories is too small. Received: ",
        ),
        (
            "replica_exchange_hmc",
            ["--quick", "--max-temperature", "0.1"],
            "--max-temperature do not fit. Received: 0.",
        ),
        (
            "replica_exchange_hmc",
            ["--quick", "--num-replicas", "1"],
            "--num-replicas is too small. Received: 1. ",
        ),
        (
            "renhd_five_gaussians",
            ["--num-samples", "10"],
            "--num-samples is too small. Received: 10. Expected: at least ",
        ),
        (
            "targets",
            ["--num-steps", "10"],
            "--num-steps is too small. Received: 10. Expected: at least 200.",
        ),
        (
            "well_tempered_histograms",
            ["--num-ladders", "1"],
            "--num-ladders is too small. Received: 1. Expected: at ",
        ),
        (
            "renhd_lstm",
            ["--data", "nowhere"],
            "--data: there is no mnist.npz. Received: nowhere. Expected: a folder ",
        ),
        (
            "renhd_lstm",
            ["--quick", "--num-replicas", "1"],
            "--num-replicas is too small. Received: 1. Expected: at ",
        ),
        (
            "renhd_lstm",
            ["--quick", "--num-gradients", "60"],
            "--num-gradients is too small. Received: 60. Expected: ",
        ),
        (
            "resghmc_resnet",
            ["--data", "nowhere"],
            "--data: there is no cifar10_subset.npz. Received: nowhere. Expected: a folder ",
        ),
        (
            "resghmc_resnet",
            ["--quick", "--num-steps", "9"],
            "--num-steps is too small. Received: 9. Expected: at ",
        ),
        ("resghmc_resnet", [], "--data is missing. "),
        (
            "mnist_calibration",
            ["--data", "nowhere"],
            "--data: there is no mnist.npz. Received: nowhere. Expected: a ",
        ),
        ("digits_temperatures", ["--num-steps", "0"], "--num-steps is too small. Received: 0."),
        ("digits_temperatures", ["--num-train", "-1"], "--num-train is too small. Received: -1."),
        ("digits_temperatures", ["--seed", "-1"], "seed is not valid. Received: -1."),
        ("digits_calibration", ["--num-steps", "1"], "--num-steps is too small. Received: 1."),
        ("digits_calibration", ["--fit-steps", "0"], "--fit-steps is too small. Received: 0."),
        ("digits_calibration", ["--seed", "-1"], "seed is not valid. Received: -1."),
        ("uci_regression", [], "--data is missing. "),
        (
            "uci_regression",
            ["--data", "nowhere"],
            "--data: there is no uci/yacht.txt. Received: nowhere. Expected: a ",
        ),
        (
            "uci_regression",
            ["--quick", "--num-steps", "5"],
            "--num-steps is too small. Received: 5.",
        ),
        (
            "uci_regression",
            ["--quick", "--num-trajectories", "5"],
            "--num-trajectories is too small. Received: 5.",
        ),
        (
            "uci_regression",
            ["--quick", "--num-auto-steps", "5"],
            "--num-auto-steps is too small. Received: 5.",
        ),
        (
            "uci_regression",
            ["--quick", "--num-splits", "0"],
            "--num-splits is too small. Received: 0.",
        ),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    tmp_path, monkeypatch, capsys, name, arguments, sentence
):
    monkeypatch.chdir(tmp_path)
    assert example(name).main(arguments) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert len(said.splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("n", [4, 16])
def test_the_figure_of_the_ensemble_holds_what_was_measured(n, tmp_path, monkeypatch):
    """The axes hold the error bars, and theory stands only at dimensions that were run."""
    import tati_re.plotting

    kept = []
    keep = tati_re.plotting.save
    monkeypatch.setattr(tati_re.plotting, "save", lambda figure, path: kept.append(figure))
    script = example("ensemble_quasi_newton")
    numbers = {"variance": 1.2, "variance_error": 0.1, "time": 10.0, "time_error": 1.0}
    numbers |= {"alone": 80.0, "gain": 8.0, "gain_error": 2.0, "blending": 10.0}
    rows = [script.Row(f"n = {n}", 8, kind, **numbers) for kind in ("slowest", "fastest")]
    script.draw_gaussians(rows, tmp_path / "a.png")
    (figure,) = kept
    left, right = figure.axes
    assert right.get_ylim()[1] > 1.3 and right.get_ylim()[0] <= 0.95
    labels = left.get_legend_handles_labels()[1]
    assert ("least, by theory" in labels) == (n == 16)
    keep(figure, tmp_path / "a.png")
