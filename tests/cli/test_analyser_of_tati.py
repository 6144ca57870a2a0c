"""Modules of TATi's analyser on files of any program, against known answers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tati_re.cli import analyse, compare, dataset
from tati_re.cli.tati_analyser import MODULES, analyses

PHI = 0.8
SPREADS = np.array([3.0, 1.0])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A trajectory of two walkers, AR(1) of known deviations, and points of a Gaussian."""
    folder = tmp_path_factory.mktemp("trajectories")
    generator = np.random.default_rng(1)
    noise = generator.standard_normal((4000, 2, 2)) * np.sqrt(1 - PHI**2)
    chains = np.zeros_like(noise)
    for step in range(1, len(noise)):
        chains[step] = PHI * chains[step - 1] + noise[step]
    walks = chains * SPREADS
    walks[:, 1] *= 2.0
    rows = np.arange(len(walks)).repeat(2)
    table = pd.DataFrame(walks.reshape(-1, 2), columns=["weight0", "bias0"])
    table.insert(0, "id", np.tile([0, 1], len(walks)))
    table.insert(1, "step", rows + 1)
    table.insert(2, "loss", 0.5 * (table["weight0"] ** 2 + table["bias0"] ** 2))
    table.to_csv(folder / "walks.csv", index=False)

    x = generator.standard_normal(1500)
    points = pd.DataFrame({"id": 0, "step": np.arange(1, 1501), "loss": x**2 / 2, "weight0": x})
    points.to_csv(folder / "gaussian.csv", index=False)
    grid = np.linspace(-4, 4, 401)
    points = pd.DataFrame({"step": np.arange(1, 402), "loss": grid**2 / 20, "accuracy": 1.0})
    points.assign(w0=grid).to_csv(folder / "grid.csv", index=False)
    return folder


def run(folder, monkeypatch, words: str) -> None:
    monkeypatch.chdir(folder)
    assert analyse.main(words.split()) == 0


def test_the_covariance_of_each_walker(files, monkeypatch):
    flags = "--trajectory_file walks.csv --covariance_matrix m.csv --covariance_eigenvalues v.csv"
    run(files, monkeypatch, f"covariance_per_walker {flags} --drop_burnin 100 --every_nth 3")
    walks = pd.read_csv("walks.csv")
    kept = walks[(walks["step"] > 100) & ((walks["step"] - 101) % 3 == 0)]
    matrices = pd.read_csv("m.csv")
    values = pd.read_csv("v.csv")
    for walker in (0, 1):
        mine = kept[kept["id"] == walker][["weight0", "bias0"]]
        expected = np.cov(mine.to_numpy(), rowvar=False)
        found = matrices[matrices["id"] == walker][["c0", "c1"]]
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        eigenvalues = values[values["id"] == walker]["value"]
        np.testing.assert_allclose(eigenvalues, np.linalg.eigvalsh(expected)[::-1])


@pytest.mark.parametrize("walker", [False, True])
def test_autocorrelation_times_along_the_eigenvectors(files, monkeypatch, walker):
    """(1 + φ)/(1 - φ) = 9 rows along each. The estimate of 4,000 rows has a relative error of about
    sqrt(2 (2 * 5 + 1) 9 / 4,000) = 22 % a walker; 5 errors are allowed to the worst of six.
    """
    name = "integrated_autocorrelation_time_covariance"
    module = f"{name}_per_walker" if walker else name
    flags = "--trajectory_file walks.csv --integrated_autocorrelation_time tau.csv"
    run(files, monkeypatch, f"{module} {flags} --covariance_eigenvectors w.csv")
    found = pd.read_csv("tau.csv")
    names = ["weight", "tau", "mean", "sigma"]
    assert list(found) == (["walker", *names] if walker else names)
    assert len(found) == (4 if walker else 2)
    np.testing.assert_allclose(found["tau"], 9.0, rtol=0.6)
    assert (np.abs(found["mean"]) < 5 * found["sigma"]).all()
    assert len(pd.read_csv("w.csv")) == len(found)


def test_the_diffusion_map_of_a_gaussian(files, monkeypatch):
    """The Ornstein-Uhlenbeck process: eigenvalues -1 and -2, and Hermite polynomials."""
    flags = "--trajectory_file gaussian.csv --number_of_eigenvalues 2 --inverse_temperature 1"
    flags += " --diffusion_map_method vanilla --diffusion_map_file v.csv"
    run(files, monkeypatch, f"diffusion_map {flags} --diffusion_matrix_file w.csv")
    values = pd.read_csv("v.csv")
    assert list(values) == ["i", "eigenvalue", "generator"]
    np.testing.assert_allclose(values["generator"], [-1, -2], rtol=0.25)
    assert (np.diff(values["eigenvalue"]) < 0).all() and (values["eigenvalue"] < 1).all()
    points = pd.read_csv("w.csv")
    assert list(points) == ["i", "loss", "kernel_diff", "dof_0", "ev_1", "ev_2"]
    x = points["dof_0"]
    assert abs(np.corrcoef(points["ev_1"], x)[0, 1]) > 0.95
    bulk = np.abs(x) < 2  # The few points beyond move far.
    assert abs(np.corrcoef(points["ev_2"][bulk], x[bulk] ** 2)[0, 1]) > 0.7
    # The sum of the kernel is larger where the points are denser.
    assert np.corrcoef(points["kernel_diff"], np.exp(-(x**2) / 2))[0, 1] > 0.9


@pytest.mark.parametrize("words", ["--diffusion_map_method TMDMap", "--use_reweighting yes"])
def test_points_of_a_grid_count_for_the_target(files, monkeypatch, words):
    """β L = x²/2 on equidistant points: -1 and -2 again; without weights -(π/8)² and 4 times that."""
    flags = "--trajectory_file grid.csv --number_of_eigenvalues 2 --diffusion_map_file v.csv"
    run(files, monkeypatch, f"diffusion_map {flags} --inverse_temperature 10 {words}")
    np.testing.assert_allclose(pd.read_csv("v.csv")["generator"], [-1, -2], rtol=0.05)
    run(files, monkeypatch, f"diffusion_map {flags}")
    expected = -((np.pi / 8) ** 2) * np.array([1, 4])
    np.testing.assert_allclose(pd.read_csv("v.csv")["generator"], expected, rtol=0.05)


def test_averages_over_a_grid(files, monkeypatch, capsys):
    """exp(-10 L) is a standard Gaussian; the accuracy is no parameter."""
    flags = "--trajectory_file grid.csv --average_trajectory_file a.csv --inverse_temperature 10"
    run(files, monkeypatch, f"ensemble_average_trajectory {flags}")
    assert "use average_trajectory for them" in capsys.readouterr().out
    found = pd.read_csv("a.csv")
    assert list(found) == ["w0"]
    np.testing.assert_allclose(found["w0"], [0.0, 1.0], atol=2e-3)


def test_free_energies_along_the_first_eigenvector(files, monkeypatch):
    """-ln of the density of ev_1, a function of x: that of the points through the same bins."""
    flags = "--trajectory_file gaussian.csv --number_of_eigenvalues 1 --landmarks 12"
    modules = "free_energy_histograms free_energy_levelsets"
    files_named = "--free_energy_file F --landmark_file L.csv --diffusion_matrix_file w.csv"
    run(files, monkeypatch, f"{modules} {flags} {files_named}")
    points = pd.read_csv("w.csv")
    found = pd.read_csv("F-ev_1.csv")
    assert list(found) == ["bin", "free_energy", "error"]
    density, edges = np.histogram(points["ev_1"], 12, density=True)
    occupied = density > 0
    np.testing.assert_allclose(found["free_energy"], -np.log(density[occupied]), rtol=1e-6)
    # In the middle ev_1 is x, whose density is a Gaussian's.
    middle = found[np.abs(found["bin"]) < 1.5]
    width = edges[1] - edges[0]
    expected = -np.log(np.exp(-(middle["bin"] ** 2) / 2) / np.sqrt(2 * np.pi))
    assert (np.abs(middle["free_energy"] - expected) < 5 * middle["error"] + width**2).all()

    landmarks = pd.read_csv("L-ev_1.csv")
    assert list(landmarks) == ["landmark", "loss", "kernel_diff", "dof_0", "free_energy", "ev_1"]
    counts, edges = np.histogram(points["ev_1"], 12)
    np.testing.assert_allclose(landmarks["free_energy"], -np.log(counts[counts > 0] / 1500))
    places = np.digitize(points["ev_1"], edges[1:-1])
    for line in landmarks.itertuples():
        same = places == places[line.landmark]
        assert line.loss == points["loss"][same].min()


def test_files_are_read_and_described(files, monkeypatch, capsys):
    words = "parse_trajectory_file parse_run_file --trajectory_file walks.csv --run_file walks.csv"
    run(files, monkeypatch, words)
    said = capsys.readouterr().out
    assert "8000 rows of walks.csv with 2 parameters" in said and "on average" in said


def test_which_command_lines_are_of_tati():
    assert all(analyses([module, "--run_file", "x"]) for module in MODULES)
    assert analyses(["--trajectory_file", "t.csv", "covariance"])
    assert not analyses(["runs/a", "--modules", "covariance"])
    assert not analyses([])


def test_a_trajectory_of_a_ladder_counts_at_the_target(files, monkeypatch, capsys):
    walks = pd.read_csv(files / "walks.csv")
    walks.assign(rung=walks["id"], id=0).to_csv(files / "ladder.csv", index=False)
    flags = "--trajectory_file ladder.csv --average_trajectory_file a.csv --cov m.csv"
    flags = flags.replace("--cov", "--covariance_matrix")
    run(files, monkeypatch, f"average_trajectory covariance {flags}")
    assert "ladder.csv: rows of rung 0" in capsys.readouterr().out
    first = walks[walks["id"] == 0][["weight0", "bias0"]]
    np.testing.assert_allclose(pd.read_csv("a.csv").iloc[0], first.mean(), rtol=1e-12)
    np.testing.assert_allclose(pd.read_csv("m.csv"), np.cov(first.T), rtol=1e-12)


def test_a_parameter_that_never_moves_has_no_autocorrelation_time(files, monkeypatch, capsys):
    pd.read_csv(files / "walks.csv").assign(bias1=0.5).to_csv(files / "fixed.csv", index=False)
    flags = "--trajectory_file fixed.csv --integrated_autocorrelation_time tau.csv"
    run(files, monkeypatch, f"integrated_autocorrelation_time_covariance {flags}")
    assert "nothing moves along eigenvector 2" in capsys.readouterr().out
    found = pd.read_csv("tau.csv")
    assert found["tau"].isna().tolist() == [False, False, True] and found["mean"][2] == 0.5


def test_an_hdf5_trajectory_is_read(files, monkeypatch):
    import h5py

    walks = pd.read_csv(files / "walks.csv")
    with h5py.File(files / "walks.h5", "w") as file:
        file["index"] = walks[["step", "id"]].to_numpy()
        file["index_columns"] = ["step", "walker"]
        file["rows"] = walks[["loss", "weight0", "bias0"]].to_numpy()
        file["columns"] = ["loss", "weight0", "bias0"]
    found = []
    for name in ("walks.csv", "walks.h5"):
        flags = f"--trajectory_file {name} --covariance_matrix m.csv"
        run(files, monkeypatch, f"covariance_per_walker {flags}")
        found.append(pd.read_csv("m.csv"))
    pd.testing.assert_frame_equal(*found)


def test_flags_may_be_cut_to_a_unique_beginning(files, monkeypatch):
    run(
        files, monkeypatch, "covariance --traj walks.csv --covariance_m m.csv --drop 3990 --every 2"
    )
    walks = pd.read_csv("walks.csv")
    kept = walks[walks["step"].isin(range(3991, 4001, 2))][["weight0", "bias0"]]
    np.testing.assert_allclose(pd.read_csv("m.csv"), np.cov(kept.T), rtol=1e-12)
    run(files, monkeypatch, "average_trajectory --average_traj a.csv --trajectory_f walks.csv")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t: t.assign(bias0=t["bias0"].where(t["step"] != 7)), "a cell without a number."),
        (lambda t: t.assign(bias0=t["bias0"].where(t["step"] != 7, np.inf)), "are not finite."),
        (lambda t: t.assign(weight=t["step"] / 10), "have different weights"),
        (lambda t: t.rename(columns={"bias0": "Unnamed: 0"}), "a column without a name."),
    ],
    ids=["empty", "infinite", "weights", "index of pandas"],
)
def test_rows_that_no_module_can_use_are_refused(files, monkeypatch, capsys, change, sentence):
    monkeypatch.chdir(files)
    change(pd.read_csv("walks.csv")).to_csv("odd.csv", index=False)
    for module, flag in (
        ("covariance", "covariance_matrix"),
        ("average_trajectory", "average_trajectory_file"),
        ("diffusion_map", "diffusion_map_file"),
    ):
        words = [module, "--trajectory_file", "odd.csv", f"--{flag}", "x.csv"]
        assert analyse.main(words) == 2
        said = capsys.readouterr().err
        assert sentence in said and said.count("\n") == 1


BAD = {
    "the file that is read": (
        "covariance --trajectory_file walks.csv --covariance_matrix ./walks.csv",
        "--covariance_matrix and --trajectory_file name the same file.",
    ),
    "a file of two modules": (
        "covariance covariance_per_walker --trajectory_file walks.csv --covariance_matrix x.csv",
        "covariance and covariance_per_walker write the same file, --covariance_matrix.",
    ),
    "no module": ("--trajectory_file walks.csv", "No module is named."),
    "another module": ("covarianc --trajectory_file walks.csv", "Did you mean 'covariance'?"),
    "no file": ("diffusion_map --diffusion_map_file x.csv", "--trajectory_file is missing."),
    "nowhere": ("diffusion_map --trajectory_file walks.csv", "has nowhere to go."),
    "no temperature": (
        "ensemble_average_trajectory --trajectory_file walks.csv --average_trajectory_file x.csv",
        "--inverse_temperature is needed",
    ),
    "a temperature of zero": (
        "diffusion_map --trajectory_file walks.csv --diffusion_map_file x.csv "
        "--diffusion_map_method TMDMap --inverse_temperature 0",
        "Received: 0. Expected: a number above 0",
    ),
    "another method": (
        "diffusion_map --trajectory_file walks.csv --diffusion_map_file x.csv "
        "--diffusion_map_method TDMap",
        "Did you mean 'TMDMap'?",
    ),
    "no landmarks": (
        "free_energy_levelsets --trajectory_file walks.csv --landmark_file x --landmarks 0",
        "--landmarks is out of range.",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence(files, monkeypatch, capsys, case):
    words, sentence = BAD[case]
    monkeypatch.chdir(files)
    assert analyse.main(words.split()) == 2
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1


def test_files_are_compared_with_any_verbosity(files, monkeypatch):
    monkeypatch.chdir(files)
    assert compare.main(["walks.csv", "walks.csv", "-vv"]) == 0
    assert compare.main(["walks.csv", "gaussian.csv", "-v"]) == 1


def test_points_without_a_seed_are_others_each_time(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = "--data_type 2 --dimension 20 --train_data_files train.csv --test_data_files test.csv"
    found = []
    for _ in range(2):
        assert dataset.main(words.split()) == 0
        found.append(pd.read_csv("train.csv"))
    assert not found[0].equals(found[1])
    seed = capsys.readouterr().out.splitlines()[-3].split()[1]
    assert dataset.main([*words.split(), "--seed", seed]) == 0
    assert pd.read_csv("train.csv").equals(found[1])
    assert "makes these points again" not in capsys.readouterr().out
