"""Supports: their maps against numerical Jacobians, inverses and closed forms."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from tati_re import supports
from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.supports.layout import ParameterLayout
from tati_re.supports.make import from_config
from tati_re.supports.matrices import Correlation

ALL = {
    "real": supports.real(2, 2),
    "number": supports.real(),
    "positive": supports.positive(3),
    "above": supports.above([1.0, -2.0]),
    "below": supports.below(3.0, shape=(2,)),
    "interval": supports.interval([0.0, -1.0], [2.0, 5.0]),
    "simplex": supports.simplex(4),
    "simplexes": supports.simplex(3, shape=2),
    "ordered": supports.ordered(3),
    "positive_ordered": supports.positive_ordered(3, shape=(2,)),
    "sum_to_zero": supports.sum_to_zero(4),
    "cholesky_corr": supports.cholesky_corr(4),
    "cholesky_corrs": supports.cholesky_corr(3, shape=(2,)),
    "corr": supports.corr(4),
    "cholesky_cov": supports.cholesky_cov(3),
    "cov": supports.cov(3, shape=2),
}


def independent_entries(support, value):
    """The entries of a value that determine it, with respect to which the density is."""
    kind = support.kind
    if kind == "simplex":
        return value[..., :-1].ravel()
    if kind == "sum_to_zero":
        # Orthonormal coordinates of the plane: those of any basis of it.
        basis = np.linalg.svd(np.ones((1, support.order)))[2][1:]
        return (value @ basis.T).ravel()
    if kind in ("cholesky_corr", "corr"):
        rows, columns = np.tril_indices(support.order, -1)
        return value[..., rows, columns].ravel()
    if kind in ("cholesky_cov", "cov"):
        rows, columns = np.tril_indices(support.order)
        return value[..., rows, columns].ravel()
    return value.ravel()


def numerical_log_jacobian(support, free, step=1e-5):
    columns = []
    for k in range(free.size):
        along = np.zeros(free.size)
        along[k] = step
        along = along.reshape(free.shape)
        ends = [support.constrain((free + sign * along)[None])[0][0] for sign in (1, -1)]
        difference = independent_entries(support, ends[0]) - independent_entries(support, ends[1])
        columns.append(difference / (2 * step))
    return np.linalg.slogdet(np.stack(columns, axis=1))[1]


@pytest.mark.parametrize("name", ALL)
def test_log_jacobian_inverse_and_both_libraries(name):
    support = ALL[name]
    random = np.random.default_rng(3)
    free = 0.8 * random.standard_normal((5, *support.free_shape))
    value, log_jacobian = support.constrain(free)
    assert value.shape == (5, *support.shape)
    assert log_jacobian.shape == (5,)
    for one, expected in zip(free, log_jacobian, strict=True):
        assert numerical_log_jacobian(support, one) == pytest.approx(expected, abs=1e-6)
    assert support.contains(value)
    assert support.unconstrain(value) == pytest.approx(free, abs=1e-9)

    of_tensors = support.constrain(tf.constant(free))
    assert of_tensors[0].numpy() == pytest.approx(value, abs=1e-12)
    assert of_tensors[1].numpy() == pytest.approx(log_jacobian, abs=1e-12)


def test_a_wrong_jacobian_is_caught():
    """The test above fails for a correlation matrix with the Jacobian of its Cholesky factor."""

    class Wrong(Correlation):
        def constrain(self, free):
            return super().constrain(free)[0], self._factor(free)[1]

    support = Wrong(4)
    free = 0.8 * np.random.default_rng(3).standard_normal(support.free_shape)
    expected = support.constrain(free[None])[1][0]
    assert abs(numerical_log_jacobian(support, free) - expected) > 1e-2


@pytest.mark.parametrize("name", ALL)
def test_configuration_makes_the_support_again(name):
    support = ALL[name]
    assert from_config(support.get_config()) == support


def test_positive_numbers_have_the_density_of_the_user():
    """∫ p(x(z)) |dx/dz| dz = 1 for a Gamma density."""
    law = stats.gamma(2.5)

    def density(z):
        value, log_jacobian = supports.positive().constrain(np.array([z]))
        return law.pdf(value[0]) * math.exp(log_jacobian[0])

    assert integrate.quad(density, -30, 10)[0] == pytest.approx(1, abs=1e-8)


def test_simplex_of_two_is_a_beta_density():
    law = stats.beta(2.0, 5.0)

    def density(z):
        value, log_jacobian = supports.simplex(2).constrain(np.array([[z]]))
        return law.pdf(value[0, 0]) * math.exp(log_jacobian[0])

    assert integrate.quad(density, -40, 40)[0] == pytest.approx(1, abs=1e-7)


def test_correlation_volume_is_known():
    """The volume of correlation matrices of three rows is π²/2 (Joe 2006)."""
    support = supports.corr(3)
    grid, weights = np.polynomial.legendre.leggauss(60)
    z = 9.0 * grid
    points = np.stack(np.meshgrid(z, z, z, indexing="ij"), -1).reshape(-1, 3)
    weight = 9.0**3 * np.prod(
        np.stack(np.meshgrid(weights, weights, weights, indexing="ij"), -1).reshape(-1, 3), -1
    )
    volume = float(weight @ np.exp(support.constrain(points)[1]))
    assert volume == pytest.approx(math.pi**2 / 2, rel=1e-3)


def test_unit_vectors_of_normal_numbers_are_uniform():
    """4,000 points: each mean has the error 0.009, each second moment 0.005; 5 errors allowed."""
    support = supports.unit_vector(3)
    free = np.random.default_rng(1).standard_normal((4_000, 3))
    value, log_term = support.constrain(free)
    assert np.abs(value.mean(axis=0)).max() < 5 * math.sqrt(1 / 3 / 4_000)
    assert np.abs((value**2).mean(axis=0) - 1 / 3).max() < 5 * 0.3 / math.sqrt(4_000)
    assert log_term == pytest.approx(-0.5 * (free**2).sum(-1))
    assert support.contains(value)


def test_far_coordinates_stay_finite():
    for support in ALL.values():
        if support.kind in ("positive", "above", "below", "ordered", "positive_ordered", "cov"):
            continue
        for sign in (-1.0, 1.0):
            free = np.full((1, *support.free_shape), sign * 300.0)
            value, log_jacobian = support.constrain(free)
            assert np.isfinite(value).all(), support
            assert np.isfinite(log_jacobian).all(), support


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: supports.real(-1), "real: this is not a shape"),
        (lambda: supports.real(1.5), "real: this is not a shape"),
        (lambda: supports.real("4"), "real: this is not a shape"),
        (lambda: supports.real(10**9), "real: too many entries"),
        (lambda: supports.simplex(1), "simplex: wrong size"),
        (lambda: supports.simplex((2, 3)), "simplex: wrong size"),
        (lambda: supports.simplex("abc"), "simplex: wrong size"),
        (lambda: supports.cholesky_corr(True), "cholesky_corr: this is not a shape"),
        (lambda: supports.interval(1, 0), "the lower bound is not below"),
        (lambda: supports.interval(0, math.inf), "interval: a bound is not finite"),
        (lambda: supports.interval(0, math.nan), "interval: a bound is not finite"),
        (lambda: supports.above("x"), "above: a bound is not a number"),
        (lambda: supports.interval([0, 0], [1, 1, 1]), "bounds of another shape"),
        (lambda: supports.above([1.0, 2.0], shape=(3,)), "bounds of another shape"),
        (lambda: supports.above([]), "above: this is not a shape"),
        (lambda: supports.interval([], []), "interval: this is not a shape"),
        (lambda: supports.positive(0), "above: this is not a shape"),
        (lambda: supports.above([[1], [2, 3]]), "above: a bound is not a number"),
        (lambda: supports.above("3"), "above: a bound is not a number"),
        (lambda: supports.interval(0, [1 + 1j]), "interval: a bound is not a number"),
    ],
)
def test_hostile_supports_get_one_sentence(make, words):
    with pytest.raises(InputError, match=words):
        make()


def layout():
    return ParameterLayout(
        {
            "beta": supports.real(2),
            "sigma": supports.positive(),
            "theta": supports.simplex(3),
            "L": supports.cholesky_corr(2),
        }
    )


def test_layout_splits_and_joins():
    names = layout()
    assert names.dimension == 2 + 1 + 2 + 1
    position = np.random.default_rng(2).standard_normal((4, names.dimension))
    values, log_jacobian = names.constrain(position)
    assert {name: value.shape for name, value in values.items()} == {
        "beta": (4, 2),
        "sigma": (4,),
        "theta": (4, 3),
        "L": (4, 2, 2),
    }
    one_by_one = sum(
        support.constrain(part)[1]
        for support, part in zip(
            names.supports.values(),
            [position[:, :2], position[:, 2], position[:, 3:5], position[:, 5:]],
            strict=True,
        )
    )
    assert log_jacobian == pytest.approx(one_by_one)
    assert names.unconstrain(values, 4) == pytest.approx(position)
    assert names.entry_names()[:5] == ["beta[0]", "beta[1]", "sigma", "theta[0]", "theta[1]"]
    assert names.entries(values).shape == (4, 2 + 1 + 3 + 4)
    assert names.free_names()[0] == ["beta", "log(sigma)", "stick(theta)", "atanh(L)"]
    assert ParameterLayout.from_config(names.get_config()) == names
    shares = ParameterLayout({"weight": supports.simplex(2)})
    assert shares.entry_names() == ["weight[0]", "weight[1]"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"sigmaa": 1.0}, "there is no parameter sigmaa. Did you mean 'sigma'"),
        ({"sigma": -1.0}, "sigma: outside of its support"),
        ({"sigma": math.nan}, "sigma: outside of its support"),
        ({"theta": [0.5, 0.6, 0.1]}, "theta: outside of its support"),
        ({"beta": [1.0, 2.0, 3.0]}, "beta: wrong shape"),
        ({"beta": np.zeros((3, 2))}, "beta has another number of walkers"),
        ({"beta": "a"}, "beta: this is not an array of numbers"),
        ([1.0], "this is not a table"),
    ],
)
def test_hostile_starts_get_one_sentence(values, words):
    with pytest.raises(InputError, match=words):
        layout().unconstrain(values, 4)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "parameters: there are none"),
        ({"a b": supports.real()}, "this is not a name"),
        ({"step": supports.real()}, "step is already a column of the trajectory"),
        ({3: supports.real()}, "this is not a name"),
        ({"beta": 4}, "beta has no support"),
        ({"beta": supports.real}, "beta has no support"),
    ],
)
def test_hostile_layouts_get_one_sentence(given, words):
    with pytest.raises(InputError, match=words):
        ParameterLayout(given)
