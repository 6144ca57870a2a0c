"""Leading eigenpairs of a trajectory's covariance: against numpy, against a closed form, and from
both file formats.
"""

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter

import tati_re
from tati_re.analysis.covariance import covariance_eigenpairs, covariance_table, leading_eigenpairs
from tati_re.cli import analyse
from tati_re.core.errors import InputError
from tati_re.plotting.analysis import plot_spectrum
from tests.made_runs import made_run


def in_blocks(values, weight=None, size=97):
    def blocks():
        for start in range(0, len(values), size):
            part = slice(start, start + size)
            yield values[part], None if weight is None else weight[part]

    return blocks


def exact(values, weight=None):
    return np.linalg.eigh(np.cov(values.T, aweights=weight))


SPECTRA = {
    "geometric": np.geomspace(10, 0.01, 200),
    "flat": np.ones(200),
    "line": np.linspace(2, 1, 200),
    "few": np.r_[[5.0, 4.0, 3.0, 2.0, 1.0], np.zeros(195)],
}


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("dense", [True, False])
def test_against_numpy(spectrum, dense):
    limit = 1024 if dense else 10
    values = 100 + np.random.default_rng(1).standard_normal((400, 200)) * SPECTRA[spectrum]
    right, vectors = exact(values)
    found = leading_eigenpairs(in_blocks(values), 20, dense_limit=limit)
    number = len(found.values)
    assert number == 20 or (spectrum == "few" and not dense and number == 5)
    np.testing.assert_allclose(found.values, right[::-1][:number], rtol=1e-5, atol=1e-10)
    np.testing.assert_allclose(found.vectors @ found.vectors.T, np.eye(number), atol=1e-9)
    assert (found.residuals <= 1e-3 * np.maximum(found.values, 1e-9)).all()
    np.testing.assert_allclose(found.mean, values.mean(axis=0))
    assert found.total_variance == pytest.approx(right.sum(), rel=1e-10)
    assert found.num_passes == 1 if dense else 2 <= found.num_passes <= 12
    if spectrum == "geometric":
        overlap = np.abs((found.vectors * vectors.T[::-1][:20]).sum(axis=1))
        np.testing.assert_allclose(overlap, 1.0, atol=1e-4)


@pytest.mark.parametrize("dense", [True, False])
def test_weights(dense):
    limit = 1024 if dense else 10
    generator = np.random.default_rng(2)
    values, weight = (
        generator.standard_normal((400, 60)) * np.geomspace(3, 0.1, 60),
        generator.random(400),
    )
    found = leading_eigenpairs(in_blocks(values, weight), 5, dense_limit=limit)
    np.testing.assert_allclose(found.values, exact(values, weight)[0][::-1][:5], rtol=1e-5)
    np.testing.assert_allclose(
        leading_eigenpairs(in_blocks(values, 7 * weight), 5, dense_limit=limit).values, found.values
    )


def test_residuals_tell_where_the_passes_ended():
    values = np.random.default_rng(3).standard_normal((500, 400))
    found = leading_eigenpairs(in_blocks(values), 10, max_passes=2, dense_limit=10)
    right = exact(values)[0][::-1][:10]
    assert found.num_passes == 2 and (found.residuals > 1e-2 * found.values).all()
    nearest = np.abs(found.values[:, None] - exact(values)[0]).min(axis=1)
    assert (nearest <= found.residuals).all()
    assert (found.values <= right).all(), "Ritz values come from below"
    better = leading_eigenpairs(in_blocks(values), 10, dense_limit=10)
    np.testing.assert_allclose(better.values, right, rtol=1e-3)


def test_products_in_the_type_that_was_stored():
    """float32: eigenvalues over four orders, far from the origin, to 1e-4; the residuals do not
    stall.
    """
    values = (
        5 + np.random.default_rng(8).standard_normal((600, 300)) * np.geomspace(1, 0.01, 300)
    ).astype(np.float32)
    found = leading_eigenpairs(in_blocks(values), 60, dense_limit=10)
    np.testing.assert_allclose(
        found.values, exact(values.astype(np.float64))[0][::-1][:60], rtol=1e-4
    )
    assert (found.residuals <= 1e-3 * found.values).all() and found.num_passes < 12


def test_fewer_positions_than_eigenpairs():
    values = np.random.default_rng(4).standard_normal((6, 200))
    found = leading_eigenpairs(in_blocks(values), 20, dense_limit=10)
    assert len(found.values) == 5
    np.testing.assert_allclose(found.values, exact(values)[0][::-1][:5])


def test_whole_numbers():
    values = np.random.default_rng(9).integers(-3, 4, (200, 4))
    np.testing.assert_allclose(
        leading_eigenpairs(in_blocks(values), 4).values, exact(values)[0][::-1]
    )


def test_far_from_the_origin():
    """Deviations of 1 about a mean of 1e8 lose nothing to the squares of the mean."""
    values = 1e8 + np.random.default_rng(5).standard_normal((500, 3))
    np.testing.assert_allclose(
        leading_eigenpairs(in_blocks(values), 3).values, exact(values - 1e8)[0][::-1], rtol=1e-6
    )


def quadratic_run(folder, h5=False, **options):
    """Independent draws from U = x'Kx/2 at T = 2, K = diag(1, 4, 16): covariance T/K."""
    positions = np.random.default_rng(6).standard_normal((2, 20_000, 3)) * np.sqrt(
        2.0 / np.array([1.0, 4.0, 16.0])
    )
    return made_run(
        folder, {"loss": positions[..., 0]}, positions, temperature=2.0, h5=h5, **options
    ), positions


@pytest.mark.parametrize("h5", [False, True])
def test_of_a_quadratic_potential(tmp_path, h5):
    run, positions = quadratic_run(tmp_path / "run", h5, burnin=100)
    found = covariance_eigenpairs(run, 3)
    assert found.num_rows == 2 * (20_000 - 10)
    error = 5.5 * np.sqrt(2 / found.num_rows)
    np.testing.assert_allclose(found.values, [2.0, 0.5, 0.125], rtol=error)
    table = covariance_table(run, found)
    np.testing.assert_allclose(table["curvature"], [1.0, 4.0, 16.0], rtol=error)
    assert table["direction"].tolist() == ["flat, slow", "stiff, fast", "stiff, fast"]
    assert table["share"].sum() == pytest.approx(1.0)
    np.testing.assert_allclose(table["autocorrelation_steps"], 10.0, rtol=0.15)
    one = covariance_eigenpairs(run.folder, 3, walker=1, thin=3)
    np.testing.assert_allclose(one.values, exact(positions[1, 10::3])[0][::-1])
    figure = plot_spectrum({"all": table, "again": table}, tmp_path / "s.png")
    assert len(figure.axes) == 2 and (tmp_path / "s.png").stat().st_size > 5000


def test_a_slow_direction_is_told_from_a_wide_one(tmp_path):
    from scipy.signal import lfilter

    noise = np.random.default_rng(7).standard_normal((2, 20_000, 2))
    slow = lfilter([1.0], [1.0, -0.9], 0.1 * noise[..., 0], axis=1)
    positions = np.stack([slow, noise[..., 1]], axis=2)
    run = made_run(tmp_path / "run", {"loss": positions[..., 0]}, positions)
    times = covariance_table(run, covariance_eigenpairs(run))["autocorrelation_steps"]
    assert times[0] == pytest.approx(10, rel=0.15) and times[1] == pytest.approx(190, rel=0.25)


def test_walkers_are_those_after_the_burnin_that_is_asked_for(tmp_path):
    """They were looked for after the run's own one, which here leaves nothing."""
    positions = np.random.default_rng(9).standard_normal((2, 50, 3))
    own = {
        "options": {"num_steps": 500, "num_burnin_steps": 500, "num_walkers": 2, "sampler": "BAOAB"}
    }
    run = made_run(tmp_path / "run", {"loss": positions[..., 0]}, positions, extra=own)
    table = tati_re.analyse(run, ["covariance"], burnin=10, by="walker")["covariance"].table
    assert table["of"].unique().tolist() == ["walker 0", "walker 1"]


def test_spectra_of_several_runs(tmp_path):
    folders = [str(quadratic_run(tmp_path / name)[0].folder) for name in ("a", "b")]
    out = tmp_path / "out"
    assert (
        analyse.main(
            [*folders, "--modules", "covariance", "--quiet", "--thin", "20", "--output", str(out)]
        )
        == 0
    )
    assert {path.name for path in out.iterdir()} == {"a", "b", "spectra.png"}
    assert np.load(out / "a" / "covariance.npz")["vectors"].shape == (3, 3)


def test_bad_input(tmp_path):
    with pytest.raises(InputError, match="at least two positions"):
        leading_eigenpairs(in_blocks(np.ones((1, 3))))
    with pytest.raises(InputError, match="not finite"):
        leading_eigenpairs(in_blocks(np.array([[1.0], [np.nan]])))
    with pytest.raises(InputError, match="num_eigenpairs"):
        leading_eigenpairs(in_blocks(np.ones((2, 3))), 0)
    with pytest.raises(InputError, match="no trajectory"):
        covariance_eigenpairs(made_run(tmp_path / "run", {"loss": np.ones((1, 5))}))


def test_times_of_walkers_that_come_and_leave(tmp_path):
    """Of an autoregression with φ = 0.6 the time is 4 rows. Cut to the walker with fewest, 100
    rows, none was told.
    """
    x = lfilter([1.0], [1.0, -0.6], np.random.default_rng(2).standard_normal((3, 4000, 1)), axis=1)
    run = made_run(tmp_path / "a", {"potential": x[..., 0] ** 2}, x, every=5, shapes={"x": (1,)})
    file = run.folder / "trajectory.csv"
    rows = pd.read_csv(file)
    rows[(rows["walker"] < 2) | (rows["step"] <= 500)].to_csv(file, index=False)
    run = tati_re.load(run.folder)
    table = covariance_table(run, covariance_eigenpairs(run, 1))
    assert table["autocorrelation_steps"][0] == pytest.approx(5 * 4, rel=0.25)
