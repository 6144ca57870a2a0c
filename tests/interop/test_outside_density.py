"""Models of other libraries: the contract, by a model in NumPy, and NumPyro and PyMC if installed."""

import sys
from typing import ClassVar

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

import tati_re
from tati_re.core.errors import InputError
from tati_re.interop import OutsideDensity, OutsideModel, from_numpyro, from_pymc
from tati_re.interop.recognition import recognized
from tati_re.likelihoods.log_prob import dirichlet, half_normal, normal, total
from tati_re.posterior.named_density import NamedDensity
from tati_re.supports import (
    above,
    below,
    cholesky_corr,
    interval,
    ordered,
    positive,
    positive_ordered,
    real,
    simplex,
)

Y = np.array([0.3, 1.2, -0.4, 0.8, 2.0])
SHAPE = 3.0


class RateAndShift(OutsideModel):
    """rate ~ Gamma(3, 1) by its logarithm, shift ~ N(0, 1) by its hyperbolic sine."""

    name = "rate_and_shift"
    free_shapes: ClassVar = {"rate": (), "shift": (2,)}

    def value_and_gradient(self, position):
        log_rate = position[:, 0]
        shift = np.sinh(position[:, 1:])
        slope = np.cosh(position[:, 1:])
        values = np.exp(log_rate) - SHAPE * log_rate + 0.5 * (shift**2).sum(1)
        values = values - np.log(slope).sum(1)
        gradient = np.exp(position)
        gradient[:, 0] -= SHAPE
        gradient[:, 1:] = shift * slope - np.tanh(position[:, 1:])
        return values, gradient

    def constrained(self, position):
        rate = np.exp(position[:, 0])
        return {
            "rate": rate,
            "shift": np.sinh(position[:, 1:]),
            "half rate": rate / 2,
        }


@pytest.fixture(scope="module")
def run():
    sim = tati_re.Simulation(potential=OutsideDensity(RateAndShift()), seed=1, verbose=0)
    return sim.sample(
        sampler="HMC", step_size=0.4, num_leapfrog_steps=4, num_steps=1_200, num_burnin_steps=200
    )


def test_draws_are_named_constrained_and_right(run):
    """4.5 standard errors by ESS; the density without the Jacobian is Gamma(2) and caught."""
    draws = run.draws
    assert set(draws) == {"rate", "shift_free"}
    assert draws["rate"].shape[0] == 4
    error = tati_re.analysis.monte_carlo_error(draws["rate"])
    assert error < 0.1
    assert abs(draws["rate"].mean() - SHAPE) < 4.5 * error
    assert abs(draws["rate"].mean() - (SHAPE - 1)) > 4.5 * error
    assert list(run.parameter_summary().index) == ["rate", "shift_free[0]", "shift_free[1]"]


def test_other_transforms_and_quantities_are_generated_by_the_library(run):
    generated = run.generated
    assert set(generated) == {"shift", "half_rate"}
    assert generated["half_rate"] == pytest.approx(run.draws["rate"] / 2)
    assert generated["shift"] == pytest.approx(np.sinh(run.draws["shift_free"]))
    error = tati_re.analysis.monte_carlo_error(generated["shift"][..., 0] ** 2)
    assert abs((generated["shift"][..., 0] ** 2).mean() - 1) < 4.5 * error


def test_a_wrong_gradient_is_refused():
    class Wrong(RateAndShift):
        def value_and_gradient(self, position):
            values, gradient = super().value_and_gradient(position)
            return values, 1.1 * gradient

    sim = tati_re.Simulation(potential=OutsideDensity(Wrong()), seed=1, verbose=0)
    with pytest.raises(InputError, match="gradient does not match"):
        sim.sample(sampler="HMC", step_size=0.4, num_leapfrog_steps=4, num_steps=4)


@pytest.mark.parametrize(
    "support",
    [
        real(2),
        positive(),
        positive(3),
        above(2.5),
        below([1.0, -2.0]),
        interval(-1, 4),
        interval([0.0, 1.0], [1.0, 3.0]),
        simplex(4),
        ordered(3),
        positive_ordered(3),
        cholesky_corr(3),
        simplex(3, shape=(2,)),
    ],
)
def test_known_transforms_are_recognized(support):
    found = recognized(lambda free: np.asarray(support.constrain(free)[0]), support.free_shape)
    assert found == support


@pytest.mark.parametrize("transform", [np.sinh, lambda x: np.log1p(np.exp(x)), lambda x: x + 1e-6])
def test_other_transforms_are_not_recognized(transform):
    assert recognized(transform, (2,)) is None


def test_names_that_no_table_can_have_are_changed():
    class Named(RateAndShift):
        free_shapes: ClassVar = {"group/rate": (), "loss": ()}

        def constrained(self, position):
            return {"group/rate": np.exp(position[:, 0]), "loss": position[:, 1]}

    assert list(OutsideDensity(Named()).layout.supports) == ["group_rate", "loss_"]


def test_a_model_without_parameters_is_refused():
    class Empty(RateAndShift):
        free_shapes: ClassVar = {}

    with pytest.raises(InputError, match="no continuous parameters"):
        OutsideDensity(Empty())


@pytest.mark.parametrize(("door", "package"), [(from_numpyro, "numpyro"), (from_pymc, "pymc")])
def test_a_missing_library_is_one_sentence(door, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=f"from_{package}: {package} is not installed"):
        door(lambda: None)


def own_density(theta, mu, sigma, y):
    """The model of NumPyro by the package's own laws."""
    priors = total(dirichlet(theta, [2.0, 3.0, 4.0]), normal(mu, 0.0, 2.0), half_normal(sigma))
    return priors + total(normal(y, mu, sigma))


def check_same(density, own):
    """U of both differs by a constant, and gradients agree."""
    position = np.random.default_rng(1).standard_normal((6, own.dimension))
    values, slopes = density(position)
    x = tf.constant(position)
    with tf.GradientTape() as tape:
        tape.watch(x)
        expected = own(x)
    differences = values - expected.numpy()
    assert differences == pytest.approx(np.full(6, differences[0]), abs=1e-8)
    assert slopes == pytest.approx(tape.gradient(expected, x).numpy(), abs=1e-7)


def test_numpyro_computes_the_density_of_its_model():
    numpyro = pytest.importorskip("numpyro")
    laws = numpyro.distributions

    def model(y):
        numpyro.sample("theta", laws.Dirichlet(np.array([2.0, 3.0, 4.0])))
        mu = numpyro.sample("mu", laws.Normal(0.0, 2.0))
        sigma = numpyro.sample("sigma", laws.HalfNormal(1.0))
        numpyro.deterministic("precision", 1 / sigma**2)
        numpyro.sample("y", laws.Normal(mu, sigma), obs=y)

    density = from_numpyro(model, Y)
    supports = {"mu": real(), "sigma": positive(), "theta": simplex(3)}
    assert density.layout.supports == supports
    assert list(density.generated) == ["precision"]
    check_same(density, NamedDensity(own_density, supports, {"y": Y}))
    values = {"mu": np.zeros(2), "sigma": np.array([0.5, 2.0]), "theta": np.full((2, 3), 1 / 3)}
    assert density.generate(values, 0)["precision"] == pytest.approx([4.0, 0.25])
    with pytest.raises(InputError, match="from_numpyro: the model fails"):
        from_numpyro(model)


@pytest.mark.filterwarnings("ignore:PyTensor could not link")
def test_pymc_computes_the_density_of_its_model():
    pymc = pytest.importorskip("pymc")
    with pymc.Model() as model:
        pymc.Dirichlet("theta", np.array([2.0, 3.0, 4.0]))
        mu = pymc.Normal("mu", 0.0, 2.0)
        sigma = pymc.HalfNormal("sigma", 1.0)
        pymc.Deterministic("precision", 1 / sigma**2)
        pymc.Normal("y", mu, sigma, observed=Y)
    density = from_pymc(model)
    # PyMC maps a simplex in another way, so that it is sampled in its free coordinates.
    assert list(density.layout.supports) == ["theta_free", "mu", "sigma"]
    assert density.layout.supports["sigma"] == positive()
    assert list(density.generated) == ["precision", "theta"]
    position = np.array([[0.1, -0.2, 0.4, np.log(0.5)]])
    values = density.layout.constrain(position)[0]
    generated = density.generate(values, 0)
    assert generated["precision"] == pytest.approx([4.0])
    assert generated["theta"].sum() == pytest.approx(1.0)
    value, slope = density(position)
    step = 1e-6 * np.eye(4)
    numeric = [(density(position + h)[0] - density(position - h)[0])[0] / 2e-6 for h in step]
    assert slope[0] == pytest.approx(np.array(numeric), rel=1e-5, abs=1e-6)
    moved = position + np.array([0.0, 0.0, 0.3, 0.0])
    law_moved = stats.norm(0.7, 0.5).logpdf(Y).sum() + stats.norm(0, 2).logpdf(0.7)
    before = stats.norm(0.4, 0.5).logpdf(Y).sum() + stats.norm(0, 2).logpdf(0.4)
    assert value[0] - density(moved)[0][0] == pytest.approx(law_moved - before)


def test_pymc_refuses_what_is_no_continuous_model():
    pymc = pytest.importorskip("pymc")
    with pytest.raises(InputError, match="this is not a model"):
        from_pymc(3)
    with pymc.Model() as model:
        pymc.Bernoulli("z", 0.5)
        pymc.Normal("mu")
    with pytest.raises(InputError, match="discrete parameters"):
        from_pymc(model)
