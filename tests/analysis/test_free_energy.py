"""Free energies against quadrature, diffusion maps against known generators, reweighting against a
harmonic well.
"""

import sys

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad

from tati_re.analysis import (
    coordinate_of,
    diffusion_map,
    diffusion_map_of,
    free_energy,
    landmarks,
    reweight,
)
from tati_re.analysis.free_energy import _kernel_width
from tati_re.analysis.reweighting import mbar_free_energies
from tati_re.cli import analyse
from tati_re.core.errors import InputError
from tati_re.plotting.analysis import plot_diffusion_map, plot_free_energy, plot_reweighting
from tests.made_runs import made_run

T, BARRIER = 0.7, 1.5


def double_well(x):
    return BARRIER * (x**2 - 1) ** 2


def double_well_draws(chains, draws, seed):
    """Random-walk Metropolis, all chains side by side; thinned, and correlated all the same."""
    generator = np.random.default_rng(seed)
    x = np.where(np.arange(chains) % 2, 1.0, -1.0)
    kept = np.empty((chains, draws))
    for k in range(200 + 4 * draws):
        trial = x + generator.standard_normal(chains)
        x = np.where(
            generator.random(chains) < np.exp((double_well(x) - double_well(trial)) / T), trial, x
        )
        if k >= 200 and k % 4 == 0:
            kept[:, (k - 200) // 4] = x
    return kept


@pytest.fixture(scope="module")
def draws():
    return double_well_draws(8, 3000, 1)


def exact_density(low, high):
    norm = quad(lambda x: np.exp(-double_well(x) / T), -4, 4)[0]
    return quad(lambda x: np.exp(-double_well(x) / T), low, high)[0] / norm / (high - low)


def test_free_energy_of_a_double_well(draws):
    table = free_energy(draws, T, num_bins=24, limits=(-1.6, 1.6))
    half = 0.5 * (table["coordinate"][1] - table["coordinate"][0])
    right = np.array([exact_density(x - half, x + half) for x in table["coordinate"]])
    z = (table["density"] - right) / table["density_error"]
    assert np.abs(z).max() < 5.5
    assert 0.4 < z.std() < 1.7
    exact = -T * np.log(right) + T * np.log(right.max())
    offset = table["free_energy"] - exact
    assert np.abs(offset - offset.mean()).max() < 5.5 * table["error"].max()
    barrier = table["free_energy"][np.abs(table["coordinate"]).argmin()]
    assert barrier == pytest.approx(exact[np.abs(table["coordinate"]).argmin()], abs=0.15)
    assert abs(free_energy(draws, 2 * T, num_bins=24)["free_energy"] / 2).max() > 0.8, (
        "a wrong temperature is seen:"
    )
    assert 2 * barrier > barrier + 5.5 * table["error"].max()


def test_kernels_give_the_smeared_density(draws):
    width = 0.1
    table = free_energy(draws, T, "kernel", num_bins=15, bandwidth=width, limits=(-1.5, 1.5))
    grid = np.linspace(-3, 3, 4001)
    density = np.exp(-double_well(grid) / T)
    density /= np.trapezoid(density, grid)
    kernels = (
        np.exp(-0.5 * ((table["coordinate"].to_numpy()[:, None] - grid) / width) ** 2)
        / np.sqrt(2 * np.pi)
        / width
    )
    z = (table["density"] - np.trapezoid(kernels * density, grid, axis=1)) / table["density_error"]
    assert np.abs(z).max() < 5.5
    assert free_energy(draws, T, "kernel")["error"].notna().all()


def test_kernels_do_not_fill_a_barrier_by_default(draws):
    """As wide as one well of them all asks, they took 0.10 of 1.5 from it, 5 errors; a normal law
    has the width of the rule for it, 1.06 deviations times n^(-1/5), to the noise of the
    estimate.
    """
    table = free_energy(draws, T, "kernel", num_bins=31, limits=(-1.5, 1.5))
    barrier = table["free_energy"][15] - 0.5 * (table["free_energy"][5] + table["free_energy"][25])
    assert abs(barrier - BARRIER) < 0.08
    for scale in (1e-3, 1.0):
        normal = scale * np.random.default_rng(0).standard_normal((8, 3000))
        assert (
            0.9
            < _kernel_width(normal, np.ones_like(normal), normal) / (1.06 * scale * 24_000**-0.2)
            < 1.1
        )
    heavy = np.random.default_rng(0).standard_t(2, (8, 3000))
    assert 0.1 < _kernel_width(heavy, np.ones_like(heavy), heavy) < 0.2


def test_weights_of_a_free_energy():
    x = 1.0 + np.random.default_rng(3).standard_normal((4, 4000))
    table = free_energy(x, weights=np.exp(0.5 - x), num_bins=10, limits=(-1.5, 1.5))
    right = np.exp(-0.5 * table["coordinate"] ** 2) / np.sqrt(2 * np.pi)
    assert (np.abs(table["density"] - right) < 5.5 * table["density_error"] + 0.005).all()


def test_empty_bins_and_bad_input():
    table = free_energy(np.tile([0.0, 1.0], 50), num_bins=5)
    assert table["free_energy"].notna().tolist() == [True, False, False, False, True]
    with pytest.raises(InputError, match="draws that are not all equal"):
        free_energy(np.ones(20))
    with pytest.raises(InputError, match="method has an unknown value"):
        free_energy(np.arange(20.0), method="guess")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        *(
            ({"limits": ends}, "the interval contains no draws")
            for ends in [(1, -1), (1, 1), (np.nan, 1), (0, np.inf), (3, 4)]
        ),
        *(
            ({"bandwidth": width, "method": "kernel"}, "bandwidth is out of")
            for width in (0, -0.1, np.nan, np.inf)
        ),
        ({"bandwidth": 0.1}, "bandwidth applies only to method kernel. Received: histogram"),
        *(({"temperature": value}, "temperature is out of range") for value in (0, -1, np.nan)),
        *(
            ({"weights": w}, "weights do not fit")
            for w in (np.zeros(20), np.arange(-1.0, 19), np.ones(19), [np.nan] * 20)
        ),
        *(({"num_bins": number}, "num_bins is out of range") for number in (2.5, 1, np.nan)),
    ],
)
def test_numbers_out_of_range_are_refused(options, sentence):
    with pytest.raises(InputError) as raised:
        free_energy(np.linspace(-1, 1, 20), **options)
    assert sentence in str(raised.value) and "Expected: " in str(raised.value)


def test_diffusion_map_of_a_target_measure_is_the_ornstein_uhlenbeck_process():
    """Points spread evenly, with the target N(0, 1): eigenvalues 0, -1, -2, ..., eigenfunctions
    Hermite's.
    """
    x = np.linspace(-4, 4, 700)
    found = diffusion_map(x, 3, bandwidth=0.01, log_target=-0.5 * x**2)
    np.testing.assert_allclose(found.values, [-1, -2, -3], rtol=0.02)
    hermite = np.stack([x, (x**2 - 1) / np.sqrt(2), (x**3 - 3 * x) / np.sqrt(6)], axis=1)
    inner = np.abs(x) < 2
    for k in range(3):
        sign = np.sign(found.vectors[:, k] @ (found.stationary * hermite[:, k]))
        np.testing.assert_allclose(sign * found.vectors[inner, k], hermite[inner, k], atol=0.08)
    np.testing.assert_allclose(found.stationary @ found.vectors**2, 1.0)
    assert found.stationary @ x**2 == pytest.approx(1.0, rel=0.03)
    without = diffusion_map(x, 3, bandwidth=0.01, alpha=1.0)
    assert abs(without.values[0] + 1) > 0.5, "without the target it is another process"


def test_diffusion_map_of_samples_knows_their_own_law():
    """α = 1/2: the overdamped motion whose law the points have; α = 1: free motion, whatever their
    density.
    """
    x = np.random.default_rng(4).standard_normal(1000)
    own = diffusion_map(x, 2, bandwidth=0.15)
    np.testing.assert_allclose(own.values, [-1, -2], rtol=0.25)
    even = 2 * np.pi * np.arange(600) / 600
    angle = even + 0.6 * np.sin(even)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    free = diffusion_map(circle, 4, bandwidth=0.002, alpha=1.0)
    np.testing.assert_allclose(free.values, [-1, -1, -4, -4], rtol=0.03)
    assert abs(diffusion_map(circle, 1, bandwidth=0.002, alpha=0.0).values[0] + 1) > 0.1, (
        "another α, another motion"
    )


def test_neighbours_do_as_well_as_all_pairs():
    x = np.random.default_rng(6).standard_normal((400, 2))
    full = diffusion_map(x, 3, bandwidth=0.05)
    near = diffusion_map(x, 3, bandwidth=0.05, num_neighbors=250)
    np.testing.assert_allclose(near.values, full.values, rtol=1e-3)
    np.testing.assert_allclose(
        np.abs((near.vectors * full.vectors).mean(axis=0)),
        (full.vectors**2).mean(axis=0),
        rtol=0.01,
    )
    again = diffusion_map(x, 3, bandwidth=0.05)
    np.testing.assert_array_equal(again.vectors, full.vectors)


def test_against_pydiffmap():
    package = pytest.importorskip("pydiffmap", reason="pydiffmap is not installed").diffusion_map
    x = np.random.default_rng(7).standard_normal((300, 2))
    theirs = package.DiffusionMap.from_sklearn(alpha=0.5, k=300, epsilon=0.2, n_evecs=3).fit(x)
    ours = diffusion_map(x, 3, 0.2)
    np.testing.assert_allclose(ours.values, theirs.evals, rtol=1e-8)
    cosines = np.abs((theirs.evecs * ours.vectors).sum(0)) / np.sqrt(
        (theirs.evecs**2).sum(0) * (ours.vectors**2).sum(0)
    )
    np.testing.assert_allclose(cosines, 1.0, rtol=1e-8)
    target = package.TMDmap(
        alpha=1.0, k=300, epsilon=0.2, n_evecs=3, change_of_measure=lambda y: np.exp(-y @ y)
    ).fit(x)
    np.testing.assert_allclose(
        diffusion_map(x, 3, 0.2, log_target=-(x**2).sum(1)).values, target.evals, rtol=1e-8
    )


def test_bandwidth_rules_and_dimension():
    for dimension in (1, 3):
        points = np.random.default_rng(8).random((800, dimension))
        found = diffusion_map(points, 1)
        assert found.dimension == pytest.approx(dimension, rel=0.25)
    assert 0 < diffusion_map(points, 1, bandwidth="median").bandwidth < 1
    with pytest.raises(InputError, match="unknown rule"):
        diffusion_map(points, 1, bandwidth="guess")
    with pytest.raises(InputError, match="bandwidth is out of range"):
        diffusion_map(points, 1, bandwidth=-1.0)
    with pytest.raises(InputError, match="All points are the same"):
        diffusion_map(np.ones((9, 2)), 1)
    with pytest.raises(InputError, match="split into"):
        diffusion_map(np.concatenate([points[:50], points[:50] + 100]), 1, bandwidth=0.1)


def test_landmarks_are_far_apart():
    x = np.concatenate([np.random.default_rng(k).normal(5 * k, 0.3, 60) for k in range(3)])
    found = diffusion_map(x, 2, bandwidth=3.0)
    chosen = landmarks(found, 3, first=0)
    assert chosen[0] == 0 and sorted(chosen // 60) == [0, 1, 2]
    with pytest.raises(InputError, match="num_landmarks"):
        landmarks(found, 0)


P, LADDER = 10, np.geomspace(1.0, 4.0, 4)


def harmonic_ladder(folder, temperatures=LADDER, draws=300, seed=1, extra=None):
    """Independent draws of U = T χ²(P)/2 at each temperature, from a harmonic well of P
    dimensions.
    """
    generator = np.random.default_rng(seed)
    energies = np.stack([0.5 * t * generator.chisquare(P, (2, draws)) for t in temperatures])
    run = made_run(folder, {"potential": np.zeros((1, 5))}, extra=extra)
    step, rung, walker = np.meshgrid(
        np.arange(draws) + 1, np.arange(len(temperatures)), np.arange(2), indexing="ij"
    )
    columns = {"step": step, "walker": walker, "temperature": np.asarray(temperatures)[rung]}
    columns |= {"potential": energies.transpose(2, 0, 1), "log_prior": 0.0 * step, "rung": rung}
    columns["loss"] = columns["potential"] / 7
    if len(temperatures) == 1:
        columns.pop("rung")
    pd.DataFrame({name: values.ravel() for name, values in columns.items()}).to_csv(
        folder / "run.csv", index=False
    )
    ladder = {
        "rung": np.arange(len(temperatures)),
        "temperature": temperatures,
        "likelihood_weight": 1.0,
    }
    pd.DataFrame(ladder).to_csv(folder / "ladder.csv", index=False)
    return run


def deviations(table):
    """(mean - exact)/error; <U> = P T/2, <loss> = P T/14, ln Z = P/2 ln T."""
    exact = {"potential": P * table["temperature"] / 2, "loss": P * table["temperature"] / 14}
    exact["log_partition"] = P / 2 * np.log(table["temperature"] / LADDER[0])
    right = np.select([table["observable"] == name for name in exact], list(exact.values()))
    z = ((table["mean"] - right) / table["error"])[table["error"] > 0]
    return z


def test_reweighting_of_a_harmonic_ladder(tmp_path):
    pytest.importorskip("pymbar", reason="pymbar is not installed")
    run = harmonic_ladder(tmp_path / "run")
    table = reweight(run)
    assert sorted(set(table["temperature"])) == pytest.approx(sorted(np.geomspace(1, 4, 10)))
    assert np.abs(deviations(table)).max() < 5.5
    hottest = table[table["temperature"] == table["temperature"].max()].set_index("observable")
    assert hottest["error"]["potential"] < 1.0 and hottest["effective_rows"]["potential"] > 300
    pd.DataFrame({"rung": range(4), "temperature": LADDER * 1.1, "likelihood_weight": 1.0}).to_csv(
        run.folder / "ladder.csv", index=False
    )
    assert np.abs(deviations(reweight(run.folder))).max() > 5.5, "a wrong ladder is caught"


def test_errors_of_reweighting(tmp_path):
    """20 runs at one temperature, reweighted to 1.2 times it: deviation of z within 0.44 to 1.67
    but for 1e-4.
    """
    z = [
        deviations(
            reweight(harmonic_ladder(tmp_path / str(k), [1.0], 400, k), [1.2], ["potential"])
        ).to_numpy()
        for k in range(20)
    ]
    z = np.array(z)
    assert 0.44 < z[:, 0].std() < 1.67 and 0.44 < z[:, 1].std() < 1.67
    assert abs(z[:, 0].mean()) < 5.5 / np.sqrt(20)


def test_free_energies_of_harmonic_wells_with_pymbar(capsys):
    pytest.importorskip("pymbar", reason="pymbar is not installed")
    beta = 1 / LADDER
    energies = np.concatenate(
        [np.random.default_rng(k).chisquare(P, 500) / 2 / b for k, b in enumerate(beta)]
    )
    free = mbar_free_energies(beta[:, None] * energies, np.full(4, 500))
    np.testing.assert_allclose(free, P / 2 * np.log(beta), atol=0.3)
    captured = capsys.readouterr()
    assert captured.out == captured.err == "", "no remarks on the screen"


def test_reweighting_refuses_what_would_be_wrong(tmp_path, monkeypatch):
    noisy = harmonic_ladder(
        tmp_path / "a", extra={"options": {"batch_size": 5}, "dataset": {"num_examples": 50}}
    )
    with pytest.raises(InputError, match="weights exponentially"):
        reweight(noisy)
    run = harmonic_ladder(tmp_path / "b")
    with pytest.raises(InputError, match="temperatures must be above 0"):
        reweight(run, [0.0])
    monkeypatch.setitem(sys.modules, "pymbar", None)
    with pytest.raises(InputError, match=r"needs the package pymbar.*pip install"):
        reweight(run)
    rows = run.run_info.assign(weight=1.0)
    rows.to_csv(run.folder / "run.csv", index=False)
    with pytest.raises(InputError, match="does not account for the bias"):
        reweight(run)


@pytest.fixture(scope="module")
def run(tmp_path_factory, draws):
    """Two walkers in a double well along the first of two parameters."""
    other = 0.3 * np.random.default_rng(9).standard_normal((8, 3000))
    positions = np.stack([draws, other], axis=2)
    potential = double_well(draws) + 0.5 * T * (other / 0.3) ** 2
    folder = tmp_path_factory.mktemp("free_energy") / "run"
    return made_run(folder, {"potential": potential, "loss": potential}, positions, temperature=T)


def test_coordinates(run, draws):
    by_name = coordinate_of(run, "dense/kernel[0]", thin=3)
    np.testing.assert_allclose(by_name.values, draws[:, ::3])
    along = coordinate_of(run, "covariance:1", burnin=1000)
    assert abs(np.corrcoef(along.values.ravel(), draws[:, 100:].ravel())[0, 1]) > 0.999
    assert coordinate_of(run, "potential").values.shape == (8, 3000)
    slow = coordinate_of(run, "diffusion:1", num_points=400)
    assert slow.values.shape == (8, 50)
    found, block = diffusion_map_of(run, 2, num_points=400, target_measure=True)
    assert len(block.step) == 400
    assert abs(np.corrcoef(found.vectors[:, 0], np.tanh(2 * block.values[:, 0]))[0, 1]) > 0.95, (
        "it tells the wells"
    )
    with pytest.raises(
        InputError, match=r"no coordinate 'dense/kernal\[0\]'\. Did you mean 'dense/kernel\[0\]'"
    ):
        coordinate_of(run, "dense/kernal[0]")
    with pytest.raises(InputError, match="fewer eigenvectors"):
        coordinate_of(run, "covariance:3")
    with pytest.raises(InputError, match="covariance: which"):
        coordinate_of(run, "covariance:x")


def test_modules_of_the_command(run, tmp_path, capsys):
    out = str(tmp_path / "out")
    arguments = [
        str(run.folder),
        "--output",
        out,
        "--thin",
        "5",
        "--modules",
        "free_energy",
        "diffusion_map",
    ]
    more = [
        "--along",
        "covariance:1",
        "--num-bins",
        "12",
        "--num-points",
        "300",
        "--num-eigenvectors",
        "2",
    ]
    assert analyse.main([*arguments, *more]) == 0
    assert "Eigenvalues of the generator" in capsys.readouterr().out
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"free_energy.csv", "free_energy.png", "diffusion_map.csv", "diffusion_map.png"} <= names
    table = pd.read_csv(tmp_path / "out" / "diffusion_map.csv")
    assert sorted(table["landmark"].dropna()) == [1, 2, 3, 4, 5]
    assert analyse.main([str(run.folder), "--modules", "diffusion_map", "--bandwidth", "wide"]) == 2
    assert "--bandwidth has the wrong type" in capsys.readouterr().err


def test_figures(tmp_path, draws):
    table = free_energy(draws, T)
    assert plot_free_energy(table, "x", tmp_path / "f.png").axes[0].get_xlabel() == "x"
    found = diffusion_map(draws[0, :200], 2)
    figure = plot_diffusion_map(found, draws[0, :200], np.array([1, 2]), tmp_path / "d.png")
    assert len(figure.axes) == 3
    rows = pd.DataFrame(
        {"temperature": [1, 2], "observable": "loss", "mean": [1.0, 2.0], "error": [0.1, 0.1]}
    )
    assert plot_reweighting(rows, [1.0], tmp_path / "r.png").axes[0].get_ylabel() == "loss"
    with pytest.raises(InputError, match="no averages"):
        plot_reweighting(rows.head(0), [1.0])


def test_draws_that_count_nothing_are_not_there(draws):
    """Neither for the ends of the bins nor for the width of kernels: walkers that were
    elsewhere.
    """
    more = np.concatenate([draws, 50.0 + draws], axis=1)
    weights = np.concatenate([np.ones_like(draws), np.zeros_like(draws)], axis=1)
    for method in ("histogram", "kernel"):
        alone, found = free_energy(draws, T, method), free_energy(more, T, method, weights=weights)
        np.testing.assert_allclose(found["coordinate"], alone["coordinate"])
        # A kernel is as wide as the effective size says, of chains of which a half says nothing.
        bound = 0.05 * alone["density"].max() if method == "kernel" else 1e-12
        np.testing.assert_allclose(found["density"], alone["density"], atol=bound)


@pytest.mark.parametrize("dimension", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_the_slowest_motion_is_not_that_of_a_lonely_point(dimension, seed):
    """Normal draws have the eigenvalue -1 of an Ornstein-Uhlenbeck process for each coordinate.
    With the bandwidth of "bgh" alone the first eigenfunction was one outlying point in 13 of 16
    cases, its eigenvalue below 0.02.
    """
    found = diffusion_map(np.random.default_rng(seed).standard_normal((1500, dimension)), dimension)
    np.testing.assert_allclose(found.values, -1.0, atol=0.15)
    assert np.max(found.stationary[:, None] * found.vectors**2) < 0.1
