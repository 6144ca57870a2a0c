"""`tati-evidence`: one model, several methods, several models, bad input, and the figure."""

from __future__ import annotations

import pickle
import runpy
import subprocess
import sys
import tomllib

import numpy as np
import pandas as pd
import pytest

import tati_re
from tati_re.cli import evidence
from tati_re.distributed.jobs import SideBySide
from tati_re.evidence.methods import prepared, sample_parts
from tests import regression as known

SHORT = [
    "--execution",
    "graph",
    "--num-steps",
    "40",
    "--evidence-nodes",
    "6",
    "--num-leapfrog-steps",
    "3",
]
SHORT += ["--evidence-sampling", "sequential", "--quiet"]
LOUD = [text for text in SHORT if text != "--quiet"]
TOML = """data = "points.csv"
input_columns = {columns}
noise_std = 0.3
prior_std = 2.0
test_fraction = 0.0
dtype = "float64"
num_walkers = 20
"""


@pytest.fixture
def models(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"a": known.X, "b": known.X**2, "label": known.Y})
    table.to_csv("points.csv", index=False)
    for name, columns in (("line", '["a"]'), ("parabola", '["a", "b"]')):
        (tmp_path / f"{name}.toml").write_text(TOML.format(columns=columns))
    return tmp_path


def test_models_side_by_side(models, capsys):
    arguments = [
        "--compare",
        "line.toml",
        "parabola.toml",
        "--method",
        "stepping_stone",
        "thermodynamic_integration",
    ]
    assert evidence.main([*arguments, *LOUD, "--output", "out"]) == 0
    said = capsys.readouterr().out
    assert "log Bayes factors by stepping stone" in said and "line" in said
    table = pd.read_csv("out/bayes_factors.csv")
    best = table[table["method"] == "stepping_stone"]
    assert list(best["model"]) == ["line", "parabola"]
    exact = known.LOG_Z[3] - known.LOG_Z[2]
    assert abs(best["log_bayes_factor"].iloc[1] - exact) < 5.5 * best["factor_error"].iloc[1]
    assert len(pd.read_csv("out/evidence.csv")) == 4
    curve = pd.read_csv("out/line-thermodynamic_integration.csv")
    area = curve["weight"] @ curve["mean"]
    rows = pd.read_csv("out/evidence.csv").set_index(["model", "method"])
    assert np.isclose(area, rows.loc[("line", "thermodynamic_integration"), "log_z"])
    assert (models / "out" / "evidence.png").stat().st_size > 10_000
    used = tomllib.loads((models / "out/line-options.toml").read_text())
    assert used["method"] == ["stepping_stone", "thermodynamic_integration"]


@pytest.mark.slow
def test_workers_make_the_same_estimates(models):
    methods = [
        "--method",
        "stepping_stone",
        "frenkel_ladd",
        "--compare",
        "line.toml",
        "parabola.toml",
    ]
    tables = []
    for workers in ([], ["--workers", "2"], ["--workers", "4"]):
        output = f"out{''.join(workers)}"
        assert evidence.main([*methods, *SHORT, "--output", output, *workers]) == 0
        parts = sorted((models / output / "kept").rglob("*.npz"))
        energies = [
            np.load(part)["energies"].tobytes()
            for part in parts
            if "energies" in np.load(part).files
        ]
        curves = [path.read_bytes() for path in sorted((models / output).glob("*-*.csv"))]
        tables.append(
            (len(parts), energies, curves, (models / output / "bayes_factors.csv").read_bytes())
        )
    assert tables[0] == tables[1] == tables[2] and len(tables[0][1]) > 10
    assert evidence.main(["--resume", "out", "--workers", "3", "--quiet"]) == 0


def test_jobs_of_a_command_can_be_read_where_it_is_not_the_main_module(models, monkeypatch):
    """`python -m` and bin/tati-evidence make the command `__main__`, which is another module in a
    worker.
    """
    read = "import pickle, sys; [pickle.loads(each) for each in pickle.load(sys.stdin.buffer)]"
    done = []

    def run(team, jobs, found):
        sent = pickle.dumps([team._pickled, *map(pickle.dumps, jobs)])
        done.append(
            subprocess.run(
                [sys.executable, "-c", read], input=sent, capture_output=True, check=False
            )
        )
        done.append(len(jobs))
        sys.exit(0)

    monkeypatch.setattr(SideBySide, "run", run)
    monkeypatch.setattr(tati_re.cli, "evidence", evidence)  # stays the one that other tests know
    monkeypatch.delitem(sys.modules, "tati_re.cli.evidence")
    words = ["--compare", "line.toml", "parabola.toml", "--workers", "2", "--output", "out"]
    monkeypatch.setattr(sys, "argv", ["tati-evidence", *words])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("tati_re.cli.evidence", run_name="__main__", alter_sys=True)
    assert end.value.code == 0 and done[1] == 2 and done[0].returncode == 0, done


def test_options_that_the_methods_do_not_use_are_told(models, capsys):
    sim = tati_re.Simulation(**tomllib.loads((models / "line.toml").read_text()), loss="gaussian")
    given = {
        "num_particles": 9,
        "evidence_grid": "simpson",
        "evidence_power": 2.0,
        "save_model": "m",
        "target_bias": 0.1,
    }
    prepared(sim, ["thermodynamic_integration"], **given, num_steps=50)
    said = "Not used for the evidence: target_bias, save_model, num_particles, evidence_power."
    assert said in capsys.readouterr().out
    prepared(sim, ["smc", "mbar"], num_particles=9, evidence_nodes=4, num_steps=50)
    assert "Not used" not in capsys.readouterr().out
    prepared(sim, ["smc"], num_particles=9, evidence_nodes=4, num_moves=2)
    assert "Not used for the evidence: evidence_nodes." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--data is missing"),
        (
            ["--data", "points.csv", "--method", "mbra"],
            "--method has an unknown value. Did you mean 'mbar'?",
        ),
        (["--compare", "line.toml"], "several models"),
        (["--compare", "line.toml", "line.toml"], "appears twice"),
        (["--compare", "line.toml", "nothing.toml"], "nothing.toml cannot be read"),
        (
            ["--compare", "line.toml", "parabola.toml", "--config", "line.toml"],
            "--compare and --config",
        ),
        (["--config", "line.toml", "--loss", "mean_squared_error"], "not a normalized likelihood"),
        (["--config", "line.toml", "--prior", "none"], "proper"),
        (["--config", "line.toml", "--record-every", "5"], "not a known option"),
        (
            ["--config", "line.toml", "--stream-predictions", "5"],
            "--stream-predictions is not a known option",
        ),
        (["--config", "line.toml", "--output", "points.csv"], "--output is not empty"),
        (["--config", "line.toml", "--workers", "2"], "more workers than independent estimates"),
        (["--config", "line.toml", "--worker-gpus", "0.5"], "--worker-gpus: needs workers"),
    ],
)
def test_bad_input_is_one_line(models, capsys, arguments, words):
    assert evidence.main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and said.count("\n") == 1 and words in said
    assert not (models / "runs").exists()


def test_an_evidence_of_a_part_of_a_table_says_so(models):
    """A fifth of a file is kept for testing where nobody says otherwise; a closed form on all rows
    is another one.
    """
    told = {}
    for name, more in {"of itself": {}, "asked": {"test_fraction": 0.2}}.items():
        sim = tati_re.Simulation(data="points.csv", noise_std=0.3, seed=1, verbose=0, **more)
        found = tati_re.evidence.log_evidence(
            sim, "smc", num_particles=8, num_populations=2, num_moves=1, num_steps=20
        )
        told[name] = [note for note in found.notes if "examples" in note]
    note = "log Z is for 16 examples; 4 are held out for testing (test_fraction)."
    assert told == {"of itself": [note], "asked": []}


def test_a_worker_leaves_what_another_one_is_writing(models):
    """Two methods of a model keep their parts in one folder: what looks like left by a kill is of
    the other worker.
    """
    sim = tati_re.Simulation(data="points.csv", noise_std=0.3, test_fraction=0.0, seed=1, verbose=0)
    few = {"num_particles": 8, "num_populations": 2, "num_moves": 1, "num_steps": 20}
    now = prepared(sim, ["smc"], **few)
    now.keep("parts")
    written = models / "parts" / "prior-point-007.npz.0123456789abcdef.partial"
    written.touch()
    sample_parts(now.options, models / "parts", "smc")
    assert written.exists() and (models / "parts" / "smc-populations.npz").exists()


def test_help_lists_the_options_and_loads_nothing_heavy():
    program = "import sys\nfrom tati_re.cli.evidence import main\ntry:\n    main(['--help-all'])\nexcept SystemExit:\n"
    program += "    print('heavy' if {'tensorflow', 'keras', 'pandas', 'pymbar'} & set(sys.modules) else 'light')\n"
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert said.rstrip().endswith("light")
    assert "--compare FILE" in said and "--evidence-grid" in said and "default 16" in said
    assert "--record-every" not in said


def test_print_config(models, capsys):
    assert (
        evidence.main(["--config", "line.toml", "--method", "smc", "mbar", "--print-config"]) == 0
    )
    assert tomllib.loads(capsys.readouterr().out)["method"] == ["smc", "mbar"]


@pytest.mark.parametrize("change", ["test_fraction = 0.25", 'label_columns = ["b"]'])
def test_models_on_other_rows_or_targets_are_refused(models, capsys, change):
    """The text of `data` is the same, the targets that they are trained on are not."""
    lines = (models / "line.toml").read_text().splitlines()
    lines = [line for line in lines if line.split(" = ")[0] != change.split(" = ")[0]]
    (models / "other.toml").write_text("\n".join([*lines, change, ""]))
    assert evidence.main(["--compare", "line.toml", "other.toml", *SHORT, "--output", "e"]) == 2
    assert "the models have different training targets" in capsys.readouterr().err


def write_models(folder, losses, settings):
    """Linear models of table.csv, a file for each loss, by name."""
    for name, loss in losses.items():
        lines = ['data = "table.csv"', "hidden = []", f'loss = "{loss}"', *settings]
        (folder / f"{name}.toml").write_text("\n".join(lines) + "\n")


def test_losses_with_targets_in_other_units_are_compared(tmp_path, monkeypatch, capsys):
    """`gaussian` standardizes targets near 500, `student_t` does not: log Z is in the data's units
    for both, so that 40 rows with a deviation of 100 do not make a difference of 184 nats.
    """
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    x = np.linspace(-1, 1, 40)
    table = pd.DataFrame({"x": x, "y": 500 + 150 * x + 50 * random.normal(size=40)})
    table.to_csv("table.csv", index=False)
    settings = ("test_fraction = 0.0", 'noise_std = "sampled"', "num_walkers = 8")
    write_models(tmp_path, {"normal": "gaussian", "heavy": "student_t"}, settings)
    arguments = ["--compare", "normal.toml", "heavy.toml", *LOUD, "--num-steps", "80"]
    assert evidence.main([*arguments, "--output", "e"]) == 0
    assert "probabilities (" not in capsys.readouterr().out
    found = pd.read_csv("e/evidence.csv").set_index("model")["log_z"]
    assert abs(found["normal"] - found["heavy"]) < 10
    residuals = table["y"] - np.polyval(np.polyfit(x, table["y"], 1), x)
    largest = -40 * (np.log(residuals.std() * np.sqrt(2 * np.pi)) + 0.5)  # of the likelihood
    assert largest - 20 < found["normal"] < largest


def test_densities_beside_probabilities_of_counts_are_said(tmp_path, monkeypatch, capsys):
    """A density of counts has a unit, their probability has none."""
    monkeypatch.chdir(tmp_path)
    x = np.linspace(-1, 1, 30)
    counts = np.random.default_rng(0).poisson(np.exp(3 + x))
    pd.DataFrame({"x": x, "y": counts}).to_csv("table.csv", index=False)
    settings = ("num_classes = 0", "num_walkers = 4")
    write_models(tmp_path, {"normal": "gaussian", "count": "poisson_count"}, settings)
    arguments = ["--compare", "normal.toml", "count.toml", *LOUD, "--num-steps", "40"]
    assert evidence.main([*arguments, "--output", "e"]) == 0
    said = capsys.readouterr().out
    assert "densities of the targets (normal) with probabilities (count)" in said
