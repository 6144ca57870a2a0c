"""`evaluate.gradient_variance` of a Keras model: against per-example gradients in numpy, and
against what batches do.

Law: the mean of n examples drawn from N has the variance (1/n) S² (n drawn with replacement, S²
over N) or (1/n) (1 - n/N) S² (without, S² over N - 1), S² that of the single gradients; times N²
for ∇U. The estimate from a batch is unbiased: 8,000 batches give its mean within 10 % and the
variance of the gradients themselves within 15 % (5.5 standard errors), where the factor 1 - n/N is
0.58.
"""

from __future__ import annotations

import numpy as np
import pytest

from tati_re import InputError, Simulation
from tati_re.core.backend import keras, tf
from tati_re.options.make import make_options
from tati_re.posterior.potential import Batch
from tati_re.samplers import Splitting
from tests.scenarios import TOLERANCE, rung_of

N, WALKERS, STD = 12, 3, 0.5
GENERATOR = np.random.default_rng(8)
X, Y = GENERATOR.normal(size=(N, 3)), GENERATOR.normal(size=(N, 2))
SAMPLING = pytest.mark.parametrize("sampling", ["epochs", "replacement"])


def potential_of(sampling: str, num_walkers: int = WALKERS, single: bool = False, **options):
    """One layer with tanh on 12 examples, batches of 5: the last of an epoch has 2. `single`: not
    taken as a chain of dense layers, so that gradients are those of single examples.
    """
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, activation="tanh")])
    given = {
        "dtype": "float64",
        "loss": "gaussian",
        "noise_std": STD,
        "batch_size": 5,
        "batch_sampling": sampling,
    }
    given = {**given, "num_walkers": num_walkers, "verbose": 0, "seed": 3, **options}
    sim = Simulation(model, (X, Y), **given)
    potential = sim.system.potential(make_options(given))
    potential.chain = None if single else potential.chain
    return potential


def example_gradients(theta: np.ndarray) -> np.ndarray:
    """N times the gradient of the loss of each example, `(N, parameters)`."""
    outputs = np.tanh(X @ theta[:6].reshape(3, 2) + theta[6:])
    slope = (outputs - Y) / STD**2 * (1 - outputs**2)
    return N * np.concatenate([(X[:, :, None] * slope[:, None, :]).reshape(N, 6), slope], axis=1)


def finite(sampling: str, count: int) -> float:
    return 1.0 if sampling == "replacement" else 1 - count / N


@pytest.mark.parametrize(
    ("sampling", "execution"),
    [
        pytest.param(
            sampling,
            execution,
            marks=[pytest.mark.slow] * ((execution == "graph") == (sampling == "epochs")),
        )
        for sampling in ("epochs", "replacement")
        for execution in ("eager", "graph", "xla")
    ],
)
@pytest.mark.parametrize("single", [False, True])
def test_it_is_that_of_the_single_gradients(sampling, execution, single):
    """Walkers at different places with batches of their own, a short batch too, to 1e-6."""
    potential = potential_of(sampling, single=single)
    theta = GENERATOR.normal(size=(WALKERS, 8))
    rung = rung_of(np.full(WALKERS, 0.1))

    def variance(position, indices, size):
        return potential.bind(rung, Batch(indices, size)).gradient_variance(position)

    if execution != "eager":
        variance = tf.function(variance, autograph=False, jit_compile=execution == "xla")
    indices, sizes = potential.batches.indices(0, 3)
    assert indices.shape == (3, WALKERS, 5)
    assert sizes.tolist() == ([5, 5, 2] if sampling == "epochs" else [5, 5, 5])
    for batch, size in zip(indices, sizes, strict=True):
        found = variance(tf.constant(theta), tf.constant(batch), tf.constant(size)).numpy()
        for walker in range(WALKERS):
            single = example_gradients(theta[walker])[batch[walker, :size]]
            expected = single.var(axis=0, ddof=1) / size * finite(sampling, size)
            np.testing.assert_allclose(found[walker], expected, rtol=1e-6)


@SAMPLING
def test_many_examples_are_taken_in_pieces(sampling):
    """Pieces of 2 give what one piece gives; a batch that walkers share is that of each."""
    potential = potential_of(sampling, single=True, walker_batches="shared")
    potential.examples_at_once = 2
    theta = np.random.default_rng(0).normal(size=(WALKERS, 8))
    indices, sizes = potential.batches.indices(0, 1)
    batch = Batch(tf.constant(indices[0]), tf.constant(sizes[0]))
    found = (
        potential.bind(rung_of(np.full(WALKERS, 0.1)), batch)
        .gradient_variance(tf.constant(theta))
        .numpy()
    )
    for walker in range(WALKERS):
        single = example_gradients(theta[walker])[indices[0, 0]]
        np.testing.assert_allclose(
            found[walker], single.var(axis=0, ddof=1) / 5 * finite(sampling, 5), rtol=1e-6
        )


@pytest.mark.parametrize("single", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_estimates_over_a_symmetric_sweep_have_the_mean_of_all_data(single):
    """11 examples in batches of 4, 4 and 3. Loss and gradient are exact in the mean of a sweep,
    also those that come with a variance, which is that of m times the sum over a batch.
    """
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, activation="tanh")])
    given = {
        "dtype": "float64",
        "loss": "gaussian",
        "noise_std": STD,
        "batch_size": 4,
        "num_walkers": WALKERS,
    }
    sim = Simulation(
        model, (X[:11], Y[:11]), **given, batch_sampling="symmetric", verbose=0, seed=3
    )
    potential = sim.system.potential(sim.options)
    potential.chain = None if single else potential.chain
    theta, rung = tf.constant(GENERATOR.normal(size=(WALKERS, 8))), rung_of(np.full(WALKERS, 0.1))
    whole, energies = potential.bind(rung).full(theta), []
    for batch, size in zip(*potential.batches.indices(0, 6), strict=True):
        evaluate = potential.bind(rung, Batch(tf.constant(batch), tf.constant(size)))
        energy, variance = evaluate.with_variance(theta)
        np.testing.assert_allclose(energy.gradient, evaluate(theta).gradient, rtol=1e-9, atol=1e-9)
        energies.append(energy)
        for walker in range(WALKERS):
            slopes = example_gradients(theta[walker].numpy())[batch[walker, :size]] * 3 / 12
            expected = size * slopes.var(axis=0, ddof=1) * (1 - size / 11)
            np.testing.assert_allclose(variance[walker], expected, rtol=1e-6)
    for name in ("potential", "loss", "gradient"):
        mean = np.mean([getattr(energy, name).numpy() for energy in energies], axis=0)
        np.testing.assert_allclose(mean, getattr(whole, name).numpy(), rtol=1e-9, atol=1e-9)


def test_all_data_have_no_variance():
    potential = potential_of("epochs", batch_size=None)
    position = tf.ones((WALKERS, 8), tf.float64)
    assert (
        potential.bind(rung_of(np.full(WALKERS, 0.1))).gradient_variance(position).numpy() == 0
    ).all()


@pytest.mark.parametrize(
    ("batch_size", "sampling"), [(1, "epochs"), (1, "replacement"), (11, "epochs")]
)
def test_a_batch_of_one_example_is_refused(batch_size, sampling):
    """12 examples in batches of 11 end an epoch with one."""
    sampler = Splitting("mCCAdL")
    sampler.subtracts_noise = False  # as a sampler of one's own that takes any order
    sim = Simulation(data=(X, Y), verbose=0, batch_size=batch_size, batch_sampling=sampling)
    with pytest.raises(
        InputError,
        match=r"^batch_size: this sampler needs the variance of the gradient, which a batch of one example does not give",
    ):
        sim.sample(sampler=sampler, step_size=0.01, num_steps=2)


def test_the_likelihood_weight_counts_squared():
    potential = potential_of("epochs")
    indices, sizes = potential.batches.indices(0, 1)
    batch = Batch(tf.constant(indices[0]), tf.constant(sizes[0]))
    rung = rung_of(np.full(WALKERS, 0.1))
    position = tf.ones((WALKERS, 8), tf.float64)
    whole = potential.bind(rung, batch).gradient_variance(position).numpy()
    part = potential.bind(rung._replace(likelihood_weight=0.5 * rung.likelihood_weight), batch)
    np.testing.assert_allclose(part.gradient_variance(position).numpy(), whole / 4, rtol=1e-12)


@SAMPLING
def test_it_is_the_variance_of_the_gradient_over_many_batches(sampling):
    """1,000 walkers at one place, 8 batches each; in an epoch the first batches only, which are
    full.
    """
    walkers, size = 1_000, 5
    potential = potential_of(sampling, walkers)
    theta = np.random.default_rng(1).normal(size=8)
    position = tf.constant(np.repeat(theta[None], walkers, axis=0))
    rung = rung_of(np.full(walkers, 0.1))
    steps = [3 * epoch for epoch in range(8)]

    @tf.function(autograph=False)
    def both(indices):
        evaluate = potential.bind(rung, Batch(indices, tf.constant(size)))
        return evaluate(position).gradient, evaluate.gradient_variance(position)

    found = [both(tf.constant(potential.batches.indices(step, 1)[0][0])) for step in steps]
    gradients, estimates = (
        np.concatenate([values.numpy() for values in column]) for column in zip(*found, strict=True)
    )
    single = example_gradients(theta)
    exact = (
        single.var(axis=0, ddof=0 if sampling == "replacement" else 1)
        / size
        * finite(sampling, size)
    )
    error = estimates.std(axis=0) / np.sqrt(len(estimates))
    assert (TOLERANCE * error < 0.1 * exact).all()
    assert (np.abs(estimates.mean(axis=0) - exact) < TOLERANCE * error).all()
    squares = (gradients - gradients.mean(axis=0)) ** 2
    error = squares.std(axis=0) / np.sqrt(len(squares))
    assert (TOLERANCE * error < 0.15 * exact).all()
    assert (np.abs(squares.mean(axis=0) - exact) < TOLERANCE * error).all()
    # A wrong variant: the correction for batches without replacement lost, or made where there is
    # none.
    other = exact / finite(sampling, size) if sampling == "epochs" else exact * (1 - size / N)
    assert (np.abs(squares.mean(axis=0) - other) > TOLERANCE * error).all()
