"""Every evaluation answers each member of the contract, for the walkers and in the shapes that it
says, or refuses in one sentence; what stands between a step and a potential hides nothing of it.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from examples.ladder_systems import NoisyEnergies, NoisyPotential
from tati_re import Simulation
from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.core.evaluate import Delegating, Energy, Evaluate, Rung
from tati_re.core.potential import Potential, Prior
from tati_re.engine.zero_evaluate import ZeroEvaluate
from tati_re.evidence.springs import Springs, SpringsPotential
from tati_re.exchange.well_tempered import Bias, Biased, ExactEnergies
from tati_re.posterior.function import FunctionPotential
from tati_re.posterior.potential import Batch
from tati_re.posterior.priors import Gaussian
from tati_re.samplers.wrappers.control_variate import ControlVariateEvaluate
from tati_re.samplers.wrappers.coordinates import InCoordinates
from tati_re.samplers.wrappers.eqn import LowRank
from tati_re.samplers.wrappers.mass import Diagonal
from tati_re.testing import NumpyEvaluate, rung_of

WALKERS, PARAMETERS = 4, 3
POSITION = np.random.default_rng(5).standard_normal((WALKERS, PARAMETERS))
MEMBERS = {
    "__call__": (POSITION,),
    "full": (POSITION,),
    "validation": (POSITION,),
    "gradient_variance": (POSITION,),
    "with_variance": (POSITION,),
    "mean_loss": (POSITION,),
    "examples": (POSITION, np.array([0, 2], np.int32)),
    "log_prior": (POSITION,),
    "drawn_from_prior": (POSITION,),
    "at": (),
    "part": (1, 2),
    "confine": (POSITION, POSITION),
    "metric": (POSITION,),
}
"""What each method is called with; `at` gets the rungs of the evaluation."""


def rungs(numpy: bool = False) -> Rung:
    return rung_of(np.full(WALKERS, 0.1), numpy=numpy)


def harmonic(x):
    return 0.5 * tf.reduce_sum(x * x, -1)


@pytest.fixture(scope="module")
def model():
    """A perceptron with its potential: three parameters, mini-batches of 5 of 20 examples."""
    sim = Simulation(
        data="two_clusters",
        seed=1,
        num_walkers=WALKERS,
        batch_size=5,
        dtype="float64",
        prior_std=1.0,
    )
    return sim._engine().potential


def of_model(model):
    indices = tf.constant(np.arange(5 * WALKERS, dtype=np.int32).reshape(WALKERS, 5))
    return model.bind(rungs(), Batch(indices, tf.constant(5)), ())


def centre(evaluate) -> dict:
    energy = evaluate.full(tf.constant(POSITION))
    return {
        "centre": tf.constant(POSITION),
        "centre_gradient": energy.gradient,
        "centre_potential": energy.potential,
        "centre_loss": energy.loss,
    }


def biased(model):
    grid = np.linspace(0.0, 400.0, 101)
    ones = np.ones(1)
    bias = Bias(0.1 * grid[None], grid[:1], ones * 4.0, ones, ones, ones, ones)
    return Biased(of_model(model), Bias(*map(tf.constant, bias)), tf.zeros((WALKERS,), tf.int32))


def low_rank():
    references = tf.constant(np.random.default_rng(2).standard_normal((1, 2, PARAMETERS)))
    factor = tf.constant([[[0.4, 0.1], [-0.2, 0.3]]], tf.float64)
    # (I + X'SX)⁻¹ = I - X' S (I + XX'S)⁻¹ X.
    middle = tf.linalg.inv(
        tf.eye(2, dtype=tf.float64) + references[0] @ tf.transpose(references[0]) @ factor[0]
    )
    return LowRank(references, factor, -(factor[0] @ middle)[None])


ORIGIN = tf.constant(POSITION[::-1].copy())
SCALE = tf.constant([0.5, 2.0, 3.0], tf.float64)
WRAPPERS = {
    "diagonal": lambda model: InCoordinates(of_model(model), ORIGIN, Diagonal(SCALE)),
    "low_rank": lambda model: InCoordinates(of_model(model), ORIGIN, low_rank()),
    "twice": lambda model: InCoordinates(WRAPPERS["diagonal"](model), ORIGIN, low_rank()),
    "control_variate": lambda model: ControlVariateEvaluate(
        of_model(model), centre(of_model(model))
    ),
    "biased": biased,
    "exact_energies": lambda model: ExactEnergies(of_model(model)),
}
EVALUATIONS = {
    "model": of_model,
    "function": lambda _: FunctionPotential(
        harmonic, PARAMETERS, Gaussian(1.0), validation=harmonic
    ).bind(rungs()),
    "noisy": lambda _: NoisyPotential(harmonic, PARAMETERS, 0.3).bind(rungs()),
    "noisy_energies": lambda _: NoisyEnergies(harmonic, PARAMETERS, 0.3, 2.0).bind(rungs()),
    "numpy": lambda _: NumpyEvaluate(rungs(numpy=True)),
    "silent": lambda _: ZeroEvaluate(rungs()),
    "springs": lambda model: SpringsPotential(
        model, Springs(np.zeros(PARAMETERS), np.ones(PARAMETERS))
    ).bind(rungs()),
    **WRAPPERS,
}


def given(evaluate, values):
    """Arguments as tensors, or as they are for an evaluation in numpy."""
    if isinstance(evaluate, NumpyEvaluate):
        return list(values)
    return [tf.constant(value) if isinstance(value, np.ndarray) else value for value in values]


def check_shapes(found, walkers: int, member: str) -> None:
    wide, narrow = (walkers, PARAMETERS), (walkers,)
    energy = [narrow, wide, narrow, narrow]
    wanted = {
        "__call__": energy,
        "full": energy,
        "with_variance": [*energy, wide],
        "gradient_variance": [wide],
        "examples": [(walkers, 2)],
        "drawn_from_prior": [wide],
        "confine": [wide, wide],
    }.get(member, [narrow])
    assert [tuple(np.shape(value)) for value in tf.nest.flatten(found)] == wanted


@pytest.mark.parametrize(("name", "member"), list(itertools.product(EVALUATIONS, MEMBERS)))
def test_each_member_is_answered_or_refused_in_one_sentence(model, name, member):
    evaluate = EVALUATIONS[name](model)
    assert isinstance(evaluate, Evaluate)
    arguments = given(evaluate, MEMBERS[member]) or [evaluate.rung]
    try:
        found = getattr(evaluate, member)(*arguments)
    except InputError as refusal:
        assert (name, member) in REFUSED
        assert str(refusal).count(".\n") == 0 and "attribute" not in str(refusal)
        return
    assert (name, member) not in REFUSED
    if member in ("at", "part"):
        walkers = 2 if member == "part" else WALKERS
        position = POSITION[1:3] if member == "part" else POSITION
        assert isinstance(found, Evaluate)
        assert np.shape(found.rung.step_size) == (walkers,)
        check_shapes(found(*given(evaluate, (position,))), walkers, "__call__")
    elif found is not None:
        check_shapes(found, WALKERS, member)
    else:
        assert member == "metric"


REFUSED = {
    *itertools.product(("noisy", "noisy_energies"), ("validation", "drawn_from_prior")),
    ("springs", "examples"),
    ("low_rank", "gradient_variance"),
    ("low_rank", "with_variance"),
    ("low_rank", "part"),
    ("twice", "gradient_variance"),
    ("twice", "with_variance"),
    ("twice", "part"),
    ("control_variate", "gradient_variance"),
    ("control_variate", "with_variance"),
    ("biased", "gradient_variance"),
    ("biased", "with_variance"),
    ("biased", "at"),
    ("biased", "part"),
}
"""No test set, no prior, no sum over examples; what a full matrix, a control variate and a bias
cannot tell.
"""


@pytest.mark.parametrize("name", EVALUATIONS)
def test_what_it_is_bound_to_is_known(model, name):
    evaluate = EVALUATIONS[name](model)
    assert evaluate.scale > 0
    assert evaluate.num_examples >= 1
    assert evaluate.exact in (True, False)
    assert evaluate.auxiliary == ()
    assert np.shape(evaluate.rung.temperature) == (WALKERS,)
    assert int(evaluate.clock.step) >= 0


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_wrapper_takes_the_walkers_to_the_other_rungs_of_the_potential_inside(model, name):
    """λ = 1/2 halves the likelihood: U becomes U - L/2, in the wrapper as in the potential
    inside.
    """
    evaluate, here = WRAPPERS[name](model), tf.constant(POSITION)
    other = rungs()._replace(likelihood_weight=tf.fill([WALKERS], tf.constant(0.5, tf.float64)))
    if (name, "at") in REFUSED or name == "control_variate":
        pytest.skip("refuses, or is corrected by energies of the rung of its center")
    before, after = evaluate(here), evaluate.at(other)(here)
    np.testing.assert_allclose(
        after.potential, before.potential - 0.5 * evaluate.scale * before.loss, rtol=1e-12
    )


@pytest.mark.slow
def test_the_force_of_a_bias_on_exact_energies_is_right_on_average(model):
    """Over all mini-batches of an epoch; with the energies of the batches it is not."""
    bias, rung = biased(model).bias, tf.zeros((WALKERS,), tf.int32)
    heights = tf.constant(1e-5 * np.linspace(0.0, 20_000.0, 101)[None] ** 2)
    curved = bias._replace(heights=heights, width=tf.constant([200.0], tf.float64))
    here = tf.constant(POSITION)
    expected = Biased(of_model(model), curved, rung).full(here)

    def mean_force(change):
        found = []
        for part in np.arange(model.num_examples, dtype=np.int32).reshape(-1, 5):
            batch = Batch(tf.constant(np.tile(part, (WALKERS, 1))), tf.constant(5))
            found.append(Biased(change(model.bind(rungs(), batch, ())), curved, rung)(here))
            if change is ExactEnergies:
                np.testing.assert_allclose(found[-1].potential, expected.potential, rtol=1e-12)
        return np.mean([energy.gradient for energy in found], axis=0)

    np.testing.assert_allclose(mean_force(ExactEnergies), expected.gradient, rtol=1e-10, atol=1e-10)
    wrong = mean_force(lambda evaluate: evaluate)
    assert np.abs(wrong - expected.gradient).max() > 1e-5 * np.abs(expected.gradient).max()


@pytest.mark.parametrize("name", ["diagonal", "low_rank", "twice"])
def test_coordinates_are_of_the_same_potential(model, name):
    """U(x) at x = B⁻¹ (θ - θ₀) is U(θ) in every member, and prior draws are those of θ."""
    evaluate, plain = WRAPPERS[name](model), of_model(model)
    inside = evaluate.evaluate if name == "twice" else None
    drawn = evaluate.drawn_from_prior(tf.constant(POSITION))
    there = evaluate._there(drawn) if inside is None else inside._there(evaluate._there(drawn))
    theta = plain.drawn_from_prior(tf.constant(POSITION))
    np.testing.assert_allclose(there, theta, rtol=1e-10, atol=1e-10)
    indices = tf.constant([0, 3])
    for found, wanted in [
        (evaluate(drawn).potential, plain(theta).potential),
        (evaluate.full(drawn).loss, plain.full(theta).loss),
        (evaluate.mean_loss(drawn), plain.mean_loss(theta)),
        (evaluate.log_prior(drawn), plain.log_prior(theta)),
        (evaluate.examples(drawn, indices), plain.examples(theta, indices)),
        (evaluate.metric(drawn), plain.metric(theta)),
    ]:
        np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_a_part_of_scaled_walkers_is_that_part(model):
    """Widths of their own for each walker, as a measured mass has."""
    scale = tf.constant(1.0 + np.random.default_rng(3).uniform(size=(WALKERS, PARAMETERS)))
    evaluate = InCoordinates(of_model(model), ORIGIN, Diagonal(scale))
    whole, part = evaluate(tf.constant(POSITION)), evaluate.part(1, 2)(tf.constant(POSITION[1:3]))
    for name in Energy._fields:
        np.testing.assert_allclose(getattr(part, name), getattr(whole, name)[1:3], rtol=1e-12)


@pytest.mark.parametrize("name", ["model", "function", "noisy", "springs"])
def test_a_potential_answers_what_the_engine_asks(model, name):
    """Each attribute of the contract has a value of its type; what it is bound to is an
    evaluation.
    """
    made = {
        "model": lambda: model,
        "function": lambda: FunctionPotential(harmonic, PARAMETERS),
        "noisy": lambda: NoisyPotential(harmonic, PARAMETERS, 0.3),
        "springs": lambda: SpringsPotential(
            model, Springs(np.zeros(PARAMETERS), np.ones(PARAMETERS))
        ),
    }[name]()
    assert isinstance(made, Potential)
    assert made.num_parameters == PARAMETERS
    assert tf.as_dtype(made.dtype) == tf.float64
    assert isinstance(made.prior, Prior) and made.prior.hottest > 1
    assert made.num_walkers == (1 if name in ("function", "noisy") else WALKERS)
    assert made.batches.full == (name != "model") and made.batches.indices(0, 3)[0].shape[0] == 3
    assert made.scale > 0 and made.num_examples >= 1 and made.auxiliary == ()
    assert made.metric_name == ("accuracy" if name == "model" else None)
    assert made.walker_evaluation in ("vectorized", "unrolled", "looped")
    assert dict(made.columns) == {} and isinstance(made.notices(), list)
    assert made.describe().startswith(("U = L + V", "u = λ E + V"))
    assert isinstance(made.bind(rungs()), Evaluate)


def test_an_evaluation_that_lacks_a_member_cannot_be_made():
    class Half(Evaluate):
        def __call__(self, position):
            return None

    with pytest.raises(TypeError, match="full"):
        Half()


def test_a_changed_gradient_changes_what_comes_with_its_variance(model):
    """`with_variance` of a wrapper that overrides one of its two parts is put together from
    them.
    """

    class Doubled(Delegating):
        def __call__(self, position):
            energy = self.evaluate(position)
            return energy._replace(gradient=2 * energy.gradient)

    plain = of_model(model)
    energy, variance = Doubled(plain).with_variance(tf.constant(POSITION))
    np.testing.assert_allclose(
        energy.gradient, 2 * plain(tf.constant(POSITION)).gradient, rtol=1e-12
    )
    np.testing.assert_allclose(variance, plain.gradient_variance(tf.constant(POSITION)), rtol=1e-12)
