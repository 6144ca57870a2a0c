"""Runs in the formats of other programs: ArviZ' NetCDF, CSV, Parquet."""

import sys
import warnings

import numpy as np
import pandas as pd
import pytest

import tati_re
from tati_re import Simulation
from tati_re.analysis import to_arviz, write_arviz
from tati_re.analysis.format import write_table
from tati_re.cli import analyse, compare
from tati_re.core.backend import keras
from tati_re.core.errors import InputError
from tati_re.prediction.leave_one_out import LeaveOneOut, stored_leave_one_out
from tests.made_runs import made_run

SHAPES = {"dense/kernel": (2, 3), "dense/bias": (3,)}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    generator = np.random.default_rng(1)
    chains = {"potential": generator.standard_normal((2, 40)), "loss": generator.random((2, 40))}
    positions = generator.standard_normal((2, 40, 9))
    folder = tmp_path_factory.mktemp("export") / "run"
    return made_run(folder, chains, positions, burnin=100, shapes=SHAPES), positions


def test_arviz(run, tmp_path):
    xarray = pytest.importorskip("xarray", reason="xarray is not installed")
    pytest.importorskip("h5netcdf", reason="h5netcdf is not installed")
    run, positions = run
    path = write_arviz(run, tmp_path / "run.nc", thin=2)
    tree = xarray.open_datatree(path, engine="h5netcdf")
    posterior, statistics = tree["posterior"], tree["sample_stats"]
    kernel = posterior["dense.kernel"]
    assert kernel.dims[:2] == ("chain", "draw") and kernel.shape == (2, 15, 2, 3)
    np.testing.assert_array_equal(kernel.values.reshape(2, 15, 6), positions[:, 10::2, :6])
    np.testing.assert_array_equal(posterior["dense.bias"], positions[:, 10::2, 6:])
    rows = run.run_info
    kept = rows[(rows["walker"] == 1) & (rows["step"] > 100)]["potential"].to_numpy()[::2]
    np.testing.assert_array_equal(statistics["potential"][1], kept)
    np.testing.assert_array_equal(statistics["lp"][1], -kept)
    assert "energy" not in statistics and "given in Python" not in posterior.attrs["left_out"]
    assert statistics["step"].values.tolist() == list(range(110, 401, 20))
    assert (
        posterior.attrs["inference_library"] == "tati_re" and posterior.attrs["sampler"] == "BAOAB"
    )


def test_arviz_of_runs_without_positions_or_with_projections(run, tmp_path):
    pytest.importorskip("xarray", reason="xarray is not installed")
    bare = made_run(tmp_path / "bare", {"loss": np.random.default_rng(1).random((2, 9))})
    assert list(to_arviz(bare).children) == ["sample_stats"]
    positions = np.random.default_rng(2).random((2, 9, 2))
    short = made_run(
        tmp_path / "short",
        {"loss": positions[..., 0]},
        positions,
        extra={"objects": ["directions"]},
    )
    assert to_arviz(short)["posterior"]["projection"].shape == (2, 9, 2)


NOISE, ANGLE = 0.5, np.pi / 3


@pytest.fixture(scope="module")
def regression(tmp_path_factory):
    """A linear regression whose posterior is N(mean, cov), round, and a run of HMC that turns by 60
    degrees a step. Design: orthonormal columns times sqrt(N), so that each parameter has the
    frequency sqrt(N/s^2 + 1).
    """
    generator = np.random.default_rng(3)
    design = (
        np.sqrt(20)
        * np.linalg.qr(np.column_stack([np.ones(20), generator.standard_normal((20, 2))]))[0]
    )
    design *= np.sign(design[0, 0])
    y = design @ [0.5, 1.0, -1.0] + NOISE * generator.standard_normal(20)
    given = {
        "data": (design[:, 1:], y),
        "hidden": [],
        "noise_std": NOISE,
        "dtype": "float64",
        "num_walkers": 4,
    }
    sim = Simulation(**given, seed=5, verbose=0)
    length = {"num_steps": 1500, "num_burnin_steps": 100, "record_every": 1, "trajectory_every": 1}
    step = ANGLE / 5 / np.sqrt(20 / NOISE**2 + 1)
    hmc = {"sampler": "HMC", "step_size": step, "num_leapfrog_steps": 5, "leapfrog_jitter": 0.0}
    run = sim.sample(**length, **hmc, output=str(tmp_path_factory.mktemp("arviz") / "run"))
    design = np.column_stack([design[:, 1:], design[:, 0]])  # the bias is the last parameter
    return run, sim, design, y


def gaussian(y, mean, variance):
    return -0.5 * (y - mean) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance)


def posterior_without(design, y, rows):
    cov = np.linalg.inv(design[rows].T @ design[rows] / NOISE**2 + np.eye(3))
    return cov @ design[rows].T @ y[rows] / NOISE**2, cov


def test_groups_of_examples_against_closed_forms(regression):
    pytest.importorskip("xarray", reason="xarray is not installed")
    run, sim, design, y = regression
    tree = to_arviz(run, data=sim.dataset)
    parts = [
        tree["posterior"][name].values.reshape(4, 1400, -1)
        for name in ("dense.kernel", "dense.bias")
    ]
    theta = np.concatenate(parts, axis=-1)
    logs = gaussian(y, theta @ design.T, NOISE**2)
    np.testing.assert_allclose(tree["log_likelihood"]["y"], logs, rtol=1e-12)
    prior = gaussian(theta, 0.0, 1.0).sum(-1)
    np.testing.assert_allclose(tree["sample_stats"]["lp"], logs.sum(-1) + prior, rtol=1e-12)
    np.testing.assert_array_equal(tree["observed_data"]["y"], y)
    energy = (
        run.run_info.query("step > 100")["potential"]
        + run.run_info.query("step > 100")["kinetic_energy"]
    )
    np.testing.assert_allclose(tree["sample_stats"]["energy"].values.T.ravel(), energy, rtol=1e-12)
    # New targets: N(x'm, s^2 + x'Sx); 5,600 draws whose mean has at most 3 times the variance of
    # independent ones.
    mean, cov = posterior_without(design, y, slice(None))
    std = np.sqrt(NOISE**2 + np.einsum("ij,jk,ik->i", design, cov, design))
    again = tree["posterior_predictive"]["y"].values.reshape(-1, 20)
    assert (abs(again.mean(0) - design @ mean) < 5.5 * std * np.sqrt(3 / 5600)).all()
    assert (abs(again.std(0) / std - 1) < 5.5 * np.sqrt(3 / 5600 / 2)).all()


def test_leave_one_out_and_bfmi_in_arviz(regression, tmp_path):
    """LOO against the closed form: sum of log N(y_i; x'm, s^2 + x'Sx), m and S of the posterior
    without example i. BFMI of HMC on a Gaussian is 1 at any length: E' - E is the change of the
    kinetic energy in a refreshment, of variance P, and Var E = P. That of U alone is 2 sin^2(angle)
    = 1.5. Error of a correlation of 5,600 rows: 0.013.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that ArviZ 1 is coming
        arviz = pytest.importorskip("arviz", reason="arviz is not installed")
    if arviz.__version__[0] != "0":
        pytest.skip("ArviZ 1 takes the tree, whose groups are tested above")
    run, sim, design, y = regression
    data = arviz.from_netcdf(write_arviz(run, tmp_path / "run.nc", data=sim.dataset))
    exact, error = 0.0, 0.0
    for i in range(20):
        mean, cov = posterior_without(design, y, np.arange(20) != i)
        exact += gaussian(y[i], design[i] @ mean, NOISE**2 + design[i] @ cov @ design[i])
    inverse = np.exp(-data.log_likelihood["y"].values.reshape(-1, 20))
    error = np.sqrt(((inverse.std(0) / inverse.mean(0)) ** 2).sum() * 3 / 5600)
    found = arviz.loo(data, pointwise=True)
    assert (
        error < 0.1 and abs(found.elpd_loo - exact) < 5.5 * error and (found.pareto_k < 0.7).all()
    )
    own = run.loo()
    assert abs(own.total[0] - exact) < 5.5 * error and abs(own.total[0] - found.elpd_loo) < error
    assert own.total[1] == pytest.approx(found.se, rel=0.05) and own.unreliable == 0
    # The wrong estimate: each example predicted by the posterior that has seen it.
    seen = np.log(np.exp(data.log_likelihood["y"].values.reshape(-1, 20)).mean(0)).sum()
    assert seen - exact > 5.5 * error
    assert isinstance(run.to_arviz(), arviz.InferenceData)
    same = arviz.loo(arviz.InferenceData.from_datatree(to_arviz(run, data=sim.dataset)))
    assert same.elpd_loo == pytest.approx(found.elpd_loo)
    assert abs(arviz.bfmi(data).mean() - 1.0) < 5.5 * 2 * 0.013
    # The wrong energy: U, as it was.
    assert arviz.bfmi(data.sample_stats["potential"].values).mean() > 1.3
    assert arviz.extract(data, var_names="dense.bias").shape == (1, 5600)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Matplotlib, to ArviZ
        assert arviz.plot_ppc(data, num_pp_samples=5) is not None


def test_left_out_groups_say_why(regression):
    run, _, _, _ = regression
    assert "log_likelihood" in to_arviz(run).children, "a run of this process knows its data"
    run = tati_re.load(run.folder)
    tree = to_arviz(run)
    assert (
        "log_likelihood" not in tree.children
        and "tati_re.load(" in tree["posterior"].attrs["left_out"]
    )
    other = Simulation(data="two_clusters", hidden=[], verbose=0).dataset
    with pytest.raises(InputError, match="differ from the run's"):
        to_arviz(run, data=other)


def test_the_command(run, tmp_path, capsys):
    pytest.importorskip("h5netcdf", reason="h5netcdf is not installed")
    folder = str(run[0].folder)
    assert analyse.main([folder, "--to", "arviz", "--output", str(tmp_path / "a")]) == 0
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["arviz.nc"]
    arguments = [folder, "--modules", "averages", "--no-figures", "--quiet", "--to"]
    assert analyse.main([*arguments, "csv", "--output", str(tmp_path / "csv")]) == 0
    assert pd.read_csv(tmp_path / "csv" / "averages.csv")["observable"].tolist() == [
        "potential",
        "loss",
    ]
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    assert analyse.main([*arguments, "parquet", "--output", str(tmp_path / "parquet")]) == 0
    assert pd.read_parquet(tmp_path / "parquet" / "averages.parquet")["observable"].tolist() == [
        "potential",
        "loss",
    ]


def test_bad_input(run, tmp_path, monkeypatch):
    table = pd.DataFrame({"a": [1.0]})
    with pytest.raises(InputError, match="csv or parquet"):
        write_table(table, tmp_path / "a", "excel")
    with pytest.raises(InputError, match=r"Cannot write .*: No such file"):
        write_table(table, tmp_path / "no" / "a")
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(InputError, match=r"xarray and h5netcdf.*pip install 'tati_re\[arviz\]'"):
        to_arviz(run[0])


def test_leave_one_out_of_two_runs(regression, capsys):
    """The difference of two runs on the same data, its error, what the summary shows, and what is
    refused.
    """
    run, sim, _, _ = regression
    first, folder = run.loo(), run.folder
    assert "PSIS-LOO" in run.summary() and (folder / "loo.csv").exists()
    wide = Simulation(data=sim.dataset, hidden=[], noise_std=3 * NOISE, dtype="float64", verbose=0)
    other = wide.sample(
        sampler="BAOAB", step_size=0.05, num_steps=400, trajectory_every=2, output=f"{folder}-wide"
    )
    second = other.loo(most_examples=20)
    difference, error = first.difference(second)
    apart = second.elpd - first.elpd
    assert difference == pytest.approx(apart.sum()) and difference < -2 * error
    assert error == pytest.approx(np.sqrt(20 * apart.var(ddof=1))) and error < np.hypot(
        first.total[1], second.total[1]
    )
    capsys.readouterr()
    assert compare.main(["--elpd", str(folder), f"{folder}-wide"]) == 0
    assert f"elpd {difference:.1f} +- {error:.1f}" in capsys.readouterr().out
    part = other.loo(most_examples=10)
    assert len(part.elpd) == 10 and part.total[0] == pytest.approx(2 * part.elpd.sum())
    with pytest.raises(InputError, match="elpd: the runs have different examples"):
        first.difference(part)
    with pytest.raises(
        InputError, match=r"too few draws .* Received: 24 after the burn-in\. Expected: at least 25"
    ):
        other.loo(burnin=other.trajectory["step"].iloc[-25])
    assert len(other.loo(burnin=other.trajectory["step"].iloc[-26]).elpd) > 0
    with pytest.raises(InputError, match="elpd: leaving out needs the posterior"):
        wide.sample(sampler="BAOAB", step_size=0.05, num_steps=20, temperature=2.0).loo()


def test_the_largest_pareto_k_is_that_of_so_many_draws(regression):
    """min(0.7, 1 - 1/log10 S), as ArviZ has it: 0.637 of the 572 draws that a short run stores,
    where 0.7 was said.
    """
    values = np.arange(2), np.zeros(2), np.array([0.65, 0.5]), 2
    few, many = (LeaveOneOut(*values, num_draws=count) for count in (572, 5_000))
    assert few.largest_k == pytest.approx(0.6374, abs=1e-4) and (
        few.unreliable,
        many.unreliable,
    ) == (1, 0)
    assert str(few).endswith("Pareto k above 0.64: 1 of 2") and str(many).endswith(
        "Pareto k above 0.7: 0 of 2"
    )
    run = regression[0]
    found, path = run.loo(), run.folder / "loo.csv"
    kept = stored_leave_one_out(run)
    assert kept.num_draws == found.num_draws == 2_800, "every second one of 5,600"
    path.write_text("\n".join(line.rpartition(",")[0] for line in path.read_text().splitlines()))
    assert stored_leave_one_out(run) is None, (
        "of an earlier version, which did not say how many draws"
    )


REGRESSION = {"data": "harmonic", "verbose": 0, "seed": 1}
CLASSES = {
    "data": "two_clusters",
    "hidden": [2],
    "loss": "binary_crossentropy",
    "verbose": 0,
    "seed": 1,
}
TABLE = {
    "data": (np.linspace(-1, 1, 40).reshape(20, 2), np.linspace(0, 1, 20)),
    "hidden": [2],
    "verbose": 0,
}
BAOAB = {"sampler": "BAOAB", "step_size": 0.005}


def bowl(q):
    from tati_re.core.backend import tf

    return 0.5 * tf.reduce_sum(q * q, axis=-1)


RUNS = {
    "one walker": (CLASSES, BAOAB),
    "several walkers": (CLASSES | {"num_walkers": 3}, BAOAB),
    "mini-batches": (CLASSES, BAOAB | {"batch_size": 10}),
    "HDF5": (CLASSES | {"num_walkers": 2}, BAOAB | {"trajectory_format": "h5"}),
    "HMC": (
        CLASSES | {"num_walkers": 2},
        {"sampler": "HMC", "step_size": 0.005, "record_every": 1},
    ),
    "MCLMC": (CLASSES, {"sampler": "MCLMC", "step_size": 0.1}),
    "without momenta": (CLASSES, {"sampler": "SGLD", "step_size": 5e-5}),
    "a ladder": (CLASSES, BAOAB | {"num_replicas": 3, "max_temperature": 4.0}),
    "all rungs stored": (
        CLASSES,
        BAOAB | {"num_replicas": 2, "max_temperature": 2.0, "trajectory_rungs": "all"},
    ),
    "sampled noise": (TABLE | {"num_walkers": 2}, BAOAB),
    "predicted noise": (TABLE | {"loss": "heteroscedastic_gaussian"}, BAOAB),
    "a loss that is no likelihood": (TABLE | {"loss": "mean_absolute_error"}, BAOAB),
    "mean loss": (REGRESSION | {"potential": "mean_loss"}, BAOAB),
    "a tuned step": (CLASSES | {"num_walkers": 2}, {"sampler": "HMC", "num_burnin_steps": 30}),
    "a function with names": (
        {"potential": bowl, "coordinates": ["alpha", "b"], "num_walkers": 2, "verbose": 0},
        BAOAB,
    ),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", RUNS)
def test_what_arviz_makes_of_runs(name):
    """Summary and figures of every kind of run, one variable each."""
    arviz = pytest.importorskip("arviz", reason="arviz is not installed")
    matplotlib = pytest.importorskip("matplotlib.pyplot")
    given, options = RUNS[name]
    run = Simulation(**given).sample(
        **{"num_steps": 100, "trajectory_every": 2, "record_every": 2} | options
    )
    data = run.to_arviz()
    table = arviz.summary(data)
    assert np.isfinite(table["mean"]).all() and len(table) == run.manifest["parameters"]["num"]
    one = [next(iter(data.posterior.data_vars))]
    for plot in (
        "trace",
        "rank",
        "autocorr",
        "posterior",
        "forest",
        "ess",
        "pair",
        "density",
        "mcse",
    ):
        shown = list(data.posterior.data_vars)[:2] if plot == "pair" else one
        getattr(arviz, f"plot_{plot}")(data, var_names=shown)
        matplotlib.close("all")
    if "energy" in data.sample_stats:
        arviz.plot_energy(data)
        matplotlib.close("all")
    if "log_likelihood" in data:
        assert np.isfinite(arviz.loo(data).elpd_loo)
        arviz.plot_khat(arviz.loo(data, pointwise=True))
        arviz.plot_ppc(data, num_pp_samples=5)
        matplotlib.close("all")
    else:
        assert data.posterior.attrs["left_out"]


@pytest.mark.slow
def test_new_targets_of_each_call_have_noise_of_their_own():
    x = np.linspace(-1, 1, 40)[:, None]
    sim = Simulation(
        data=(x, x[:, 0]),
        hidden=[],
        noise_std=1.0,
        seed=1,
        verbose=0,
        execution="graph",
        num_walkers=2,
    )
    found = []
    for _ in range(2):
        run = sim.sample(
            sampler="HMC", step_size=0.05, num_steps=20, num_burnin_steps=0, trajectory_every=1
        )
        drawn = to_arviz(run)["posterior_predictive"]["y"].values.reshape(40, 40)
        found.append((drawn - drawn.mean(0)).ravel())
    assert abs(np.corrcoef(found)[0, 1]) < 0.15


def test_sequences_of_targets():
    """Targets of two axes beside the examples: their groups were refused with the whole data in the
    message.
    """
    pytest.importorskip("xarray", reason="xarray is not installed")
    model = keras.Sequential([keras.Input((5, 2)), keras.layers.Dense(1)])
    x = np.random.default_rng(0).normal(size=(7, 5, 2))
    options = {"noise_std": 1.0, "execution": "graph", "verbose": 0}
    run = Simulation(model, (x, x[..., :1]), **options).sample(
        sampler="BAOAB", step_size=0.01, num_steps=20, num_burnin_steps=0, trajectory_every=5
    )
    tree = run.to_arviz()
    np.testing.assert_array_equal(tree["observed_data"]["y"], x[..., 0])
    assert tree["observed_data"]["y"].dims == ("example", "output")
    assert tree["posterior_predictive"]["y"].shape == (1, 4, 7, 5)
    assert tree["log_likelihood"]["y"].shape == (1, 4, 7)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_tail_of_one_repeated_draw_keeps_its_weights():
    """A Metropolis test repeats draws; the fit of a Pareto law to such a tail divides by zero: elpd
    was nan.
    """
    x = np.random.default_rng(2).normal(size=(30, 2))
    options = {
        "noise_std": 1.0,
        "execution": "graph",
        "verbose": 0,
        "dtype": "float64",
        "num_walkers": 2,
    }
    run = Simulation(data=(x, x[:, 0]), **options).sample(
        sampler="RWMH",
        step_size=0.5,
        num_steps=400,
        num_burnin_steps=100,
        trajectory_every=1,
        seed=2,
    )
    found = run.loo()
    tied = np.isinf(found.pareto_k)
    assert 0 < tied.sum() < 10 and np.isfinite(found.elpd).all()
    theta = run.trajectory.filter(like="/").to_numpy()
    logs = -0.5 * (x[:, 0] - theta[:, :2] @ x.T - theta[:, 2:]) ** 2 - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(
        found.elpd[tied], -np.log(np.mean(np.exp(-logs), axis=0))[tied], rtol=1e-6
    )
