"""`tati-landscape`: what it prints and writes for a run, and what it refuses in one line."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import tati_re
from tati_re.cli import landscape as command
from tati_re.landscape import load, path_of, request
from tati_re.landscape.hessian import hessian_matrix
from tati_re.landscape.surface import Surface


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A fit and a sampled run of a linear classifier, 3 parameters, 500 points."""
    folder = tmp_path_factory.mktemp("runs")
    sim = tati_re.Simulation(
        data="two_clusters", dtype="float64", execution="graph", prior_std=2.0, verbose=0
    )
    sim.fit(num_steps=60, learning_rate=0.1, trajectory_every=5, output=str(folder / "fit"))
    sim.sample(num_steps=300, step_size=0.01, trajectory_every=3, output=str(folder / "sampled"))
    other = tati_re.Simulation(data="two_clusters", hidden=[2], execution="graph", verbose=0)
    other.sample(
        num_steps=3,
        sampler="BAOAB",
        step_size=0.01,
        trajectory_every=1,
        output=str(folder / "other"),
    )
    return folder


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def printed(capsys, *argv: str) -> str:
    status = command.main(list(argv))
    out, err = capsys.readouterr()
    assert status == 0, err
    return out


def test_a_plane_of_eigenvectors_with_the_trajectory(runs, capsys, tmp_path):
    flags = ["--directions", "covariance:1,3", "--range=-1:1:5", "--output", "a"]
    out = printed(capsys, str(runs / "sampled"), *flags)
    assert "3 parameters, 500 examples of two_clusters; centre: mean of" in out
    assert "c1: eigenvector 3 of the covariance, variance" in out
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == [
        "landscape.csv",
        "landscape.png",
        "landscape.toml",
        "plane.npz",
        "surface.png",
        "trajectory.csv",
    ]
    found = load("a")
    assert list(found.table.columns[:5]) == ["c0", "c1", "loss", "potential", "accuracy"]
    assert len(found.table) == 25 and len(found.trajectory) == 100
    run = tati_re.load(runs / "sampled")
    np.testing.assert_allclose(
        found.trajectory["potential"], run.trajectory["potential"], rtol=1e-9
    )
    np.testing.assert_allclose(found.centre, run.parameters("mean"))
    # The variance along an eigenvector is its eigenvalue, which ties projection, covariance and
    # printed number.
    variances = found.trajectory[["c0", "c1"]].var()
    assert f"variance {variances['c0']:.4g}" in out


def test_a_stopped_command_goes_on(runs, capsys, monkeypatch):
    flags = [
        str(runs / "fit"),
        "--directions",
        "trajectory:1",
        "--range=-1:1:70",
        "--no-figures",
        "--output",
        "a",
    ]
    values = Surface.values

    def once(self, positions):
        found = values(self, positions)
        monkeypatch.setattr(Surface, "values", stopped)
        return found

    def stopped(self, positions):
        raise KeyboardInterrupt

    monkeypatch.setattr(Surface, "values", once)
    assert command.main(flags) == 130
    monkeypatch.setattr(Surface, "values", values)
    capsys.readouterr()
    assert "principal direction 1 of the path" in printed(capsys, *flags)
    assert len(load("a").table) == 70


def test_curvature_at_the_centre(runs, capsys):
    printed(capsys, str(runs / "fit"), "--hessian", "full,trace,density", "--output", "h")
    table = pd.read_csv("h/hessian.csv")
    sim = request.simulation_of(runs / "fit")
    centre, _ = request.centre_of(runs / "fit")
    expected = np.linalg.eigvalsh(hessian_matrix(Surface(sim), centre))[::-1]
    np.testing.assert_allclose(
        table[table["quantity"] == "eigenvalue"]["value"], expected, rtol=1e-9
    )
    np.testing.assert_allclose(
        table[table["quantity"] == "trace"]["value"], expected.sum(), rtol=1e-9
    )
    assert np.load("h/hessian.npy").shape == (3, 3)


def test_grids_fixed_and_along(runs, capsys):
    flags = ["--grid", "*/kernel=-1:1:3", "--fix", "*/bias=0.5", "--no-test", "--quiet"]
    assert printed(capsys, str(runs / "sampled"), *flags, "--output", "g") == ""
    table = pd.read_csv("g/landscape.csv")
    assert (
        list(table.columns[:3]) == ["dense/kernel[0,0]", "dense/kernel[1,0]", "loss"]
        and len(table) == 9
    )
    assert load("g").centre[2] == 0.5 and "test_loss" not in table
    out = printed(
        capsys, str(runs / "sampled"), "--along", "--trajectory-points", "10", "--output", "t"
    )
    table = pd.read_csv("t/trajectory.csv")
    assert len(table) == 10 and table["step"].iloc[-1] == 300 and "mean" in out
    assert list(table.columns[:4]) == ["step", "walker", "loss", "potential"]


def test_centres(runs):
    run, folder = tati_re.load(runs / "sampled"), runs / "sampled"
    rows = run.trajectory
    best, words = request.centre_of(folder, "best")
    row = rows.iloc[rows["potential"].argmin()]
    np.testing.assert_allclose(best, row.iloc[4:7])
    assert f"step {int(row['step'])}" in words
    assert (
        command.main(
            [
                "--data",
                "two_clusters",
                "--centre",
                "zero",
                "--range=-1:1:3",
                "--quiet",
                "--output",
                "z",
                "--normalization",
                "none",
                "--no-figures",
            ]
        )
        == 0
    )
    assert not load("z").centre.any()
    np.testing.assert_allclose(request.centre_of(folder, "last")[0], rows.iloc[-1, 4:7])
    np.testing.assert_allclose(request.centre_of(folder, "150")[0], run.parameters(150))


@pytest.mark.parametrize("name", ["landscape", "inputspace", "explore"])
def test_help_loads_nothing_heavy(name):
    heavy = ("tensorflow", "keras", "pandas", "matplotlib", "scipy", "numpy", "h5py")
    program = f"""
import sys
try:
    from tati_re.cli.{name} import main
    main(["--help"])
except SystemExit as error:
    status = error.code or 0
print("END", status, sorted({{module.partition(".")[0] for module in sys.modules}} & set({heavy!r})))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "--output DIR" in done.stdout and done.stdout.rstrip().endswith("END 0 []")


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ([], "tati-landscape needs a run folder or --data."),
        (["--data", "digits"], "The landscape has no center."),
        (["nosuch"], "nosuch"),
        (
            ["RUN", "--directions", "randm"],
            "--directions: randm is not known. Did you mean 'random'?",
        ),
        (
            ["RUN", "--directions", "hessian:x"],
            "--directions: eigenvectors need numbers. Received: hessian:x.",
        ),
        (
            ["RUN", "--directions", "covariance:9"],
            "There is no eigenvector of that number. Received: 9.",
        ),
        (["RUN", "--directions", "between"], "--directions between needs one or two other points."),
        (["RUN", "--range", "5"], "--range has the wrong form. Received: 5."),
        (["RUN", "--scales", "a"], "--scales has the wrong form. Received: a."),
        (["RUN", "--fix", "x=1"], "x matches no parameter."),
        (["RUN", "--centre", "mena"], "--centre has an unknown value. Did you mean 'mean'?"),
        (
            ["--data", "two_clusters", "--model", "x.keras", "--centre", "mean"],
            "--centre needs RUN. Received: m",
        ),
        (
            ["RUN", "--parameters", "x.npz", "--centre", "zero"],
            "--centre needs RUN. Received: zero.",
        ),
        (["RUN", "--hessian", "trce"], "--hessian has an unknown word. Did you mean 'trace'?"),
        (["RUN", "--hessian", "trace", "--range=-1:1:3"], "--range does not apply with --hessian."),
        (["RUN", "--along", "--grid", "a=0:1:2"], "--grid and --along exclude each other."),
        (["RUN", "--along", "--fix", "*/bias=0"], "--fix does not apply with --along."),
        (["RUN", "--along", "--page"], "--page does not apply with --along."),
        (
            ["RUN", "--directions", "covariance:1", "--normalization", "tensor"],
            "--normalization applies only to random directions",
        ),
        (["RUN", "--probes", "3"], "--probes applies only to --hessian trace or density."),
        (
            ["RUN", "--directions", "random:3", "--page", "--range=-1:1:2"],
            "--page needs a plane. Received: 3 dire",
        ),
        (["RUN", "--range=-1:1:2", "--walker", "7"], "walker does not exist"),
        (
            ["RUN", "--centre", "zero", "--normalization", "none", "--walker", "7"],
            "no positions of this walker",
        ),
        (["RUN", "--trajectory-points", "0"], "--trajectory-points"),
        (["RUN", "--trajectory", "OTHER"], "--trajectory is a run of another model."),
        (
            ["RUN", "--quantity", "lss"],
            "--quantity is not a column of the table. Received: lss. Expected: loss, potential",
        ),
        (
            ["RUN", "--directions", "random:1", "--to", "vtk"],
            "a VTK file has two or three coordinates. Received: 1",
        ),
        (["RUN", "--hessian", "trace", "--no-test"], "--no-test does not apply with --hessian."),
        (["RUN", "--centre", "zero"], "directions have no length at a center of zeros"),
        (["RUN", "--grid", "*/bias=1"], "--grid has the wrong form. Received: 1."),
        (
            ["RUN", "--grid", "*/bias=0:1:2", "--trajectory-points", "5"],
            "--trajectory-points applies only with a trajectory.",
        ),
        (
            ["RUN", "--quantity", "loss", "--no-figures"],
            "--quantity applies only to figures, but --no-figures draws none.",
        ),
        (
            ["RUN", "--walker", "x"],
            "--walker has the wrong type. Received: x. Expected: an integer.",
        ),
        (
            ["RUN", "--rang", "1"],
            "--rang is not a known option of tati-landscape. Did you mean '--range'?",
        ),
    ],
)
def test_bad_input_is_one_line(runs, capsys, tmp_path, argv, sentence):
    folders = {"RUN": str(runs / "sampled"), "OTHER": str(runs / "other")}
    status = command.main([folders.get(word, word) for word in argv])
    err = capsys.readouterr().err
    assert status == 2, err
    assert err.startswith("error: ") and sentence in err and err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_file_for_paraview_beside_the_table(runs, capsys, tmp_path):
    flags = [
        "--range",
        "-1:1:5",
        "--to",
        "vtk",
        "--no-figures",
        "--output",
        str(tmp_path / "plane"),
    ]
    assert "landscape.vtk" in printed(capsys, str(runs / "sampled"), *flags)
    assert "DIMENSIONS 5 5 1" in (tmp_path / "plane" / "landscape.vtk").read_text()
    from tati_re.report.parts import made_of

    beside = runs / "beside"
    printed(
        capsys, str(runs / "sampled"), "--range=-1:1:3", "--no-figures", "--output", str(beside)
    )
    assert made_of(tati_re.load(runs / "sampled")) == [beside.resolve()]


def test_positions_of_all_walkers_are_projected(tmp_path):
    """Rows of walkers are interleaved: each so many of the file would be those of one walker
    alone.
    """
    sim = tati_re.Simulation(
        potential=lambda x: 0.5 * x[:, 0] ** 2, dimension=1, num_walkers=4, seed=1, verbose=0
    )
    run = sim.sample(
        sampler="BAOAB",
        step_size=0.3,
        num_steps=400,
        trajectory_every=2,
        execution="graph",
        output="r",
    )
    for most in (400, 100, 30, 3):
        found = path_of(run, most)
        counts = np.bincount([one.walker for one in found], minlength=4)
        assert len(found) <= most and np.ptp(counts) == (1 if most == 3 else 0)
        assert {one.step for one in found if one.walker == 3} >= {400}
    assert [one.step for one in path_of(run, 5, walker=2)] == [80, 160, 240, 320, 400]


def test_a_path_is_that_of_the_target_of_a_ladder(tmp_path):
    """Hot replicas are 100 times as wide."""
    sim = tati_re.Simulation(
        potential=lambda x: 0.5 * x[:, 0] ** 2, dimension=1, seed=1, verbose=0, output="r"
    )
    ladder = {"temperatures": [1.0, 1e4], "trajectory_rungs": "all", "exchange_every": 50}
    run = sim.sample(
        sampler="BAOAB",
        step_size=0.5,
        num_steps=400,
        trajectory_every=2,
        execution="graph",
        **ladder,
    )
    assert len(run.trajectory) == 400
    found = path_of(run, 1000)
    assert len(found) == 200 and max(abs(one.parameters[0]) for one in found) < 5


def test_a_seed_and_data_of_ones_own_beside_a_run_of_mini_batches(capsys, tmp_path):
    """The run's seed says which of its examples are for testing; its batch may be larger than other
    data.
    """
    x = np.random.default_rng(1).normal(size=(40, 2))
    for name, count in (("all", 40), ("few", 8)):
        np.savez(tmp_path / f"{name}.npz", x=x[:count], y=x[:count, 0])
    sim = tati_re.Simulation(
        data="all.npz", hidden=[2], batch_size=16, noise_std=0.5, execution="graph", verbose=0
    )
    sim.sample(sampler="BAOAB", step_size=0.01, num_steps=40, trajectory_every=1, output="run")
    line = ["run", "--directions", "random:1", "--range=-1:1:2", "--no-figures", "--output"]
    printed(capsys, *line, "a", "--seed", "3")
    printed(capsys, *line, "b", "--seed", "4")
    printed(capsys, *line, "c", "--data", "few.npz", "--test-fraction", "0")
    found = [pd.read_csv(tmp_path / name / "landscape.csv")["loss"] for name in "abc"]
    assert not np.allclose(found[0], found[1]) and len(found[2]) == 2


def test_covariances_of_a_run_whose_positions_are_not_drawn(runs, capsys):
    flags = [
        "--directions",
        "covariance:1",
        "--trajectory",
        "none",
        "--range=-1:1:3",
        "--no-figures",
    ]
    assert "eigenvector 1 of the covariance" in printed(capsys, str(runs / "sampled"), *flags)
