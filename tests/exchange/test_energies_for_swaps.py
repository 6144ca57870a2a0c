"""What swaps ask of a model's potential: mean losses over all data, losses of single examples,
priors, other rungs.
"""

from __future__ import annotations

import numpy as np
import pytest

from tati_re import Simulation
from tati_re.core.backend import keras, tf
from tati_re.core.potential import Batch
from tests.scenarios import rung_of

N = 37
GENERATOR = np.random.default_rng(3)
INPUTS, LABELS = GENERATOR.normal(size=(N, 4)), GENERATOR.integers(0, 3, N)
WALKERS = 3


def evaluated(walker_evaluation: str = "auto", batch_size: int = 10, regularizer=None):
    layers = [keras.layers.Dense(5, "tanh"), keras.layers.Dense(3, kernel_regularizer=regularizer)]
    model = keras.Sequential([keras.Input((4,)), *layers])
    sim = Simulation(
        model,
        (INPUTS, LABELS),
        num_walkers=WALKERS,
        batch_size=batch_size,
        dtype="float64",
        walker_evaluation=walker_evaluation,
        verbose=0,
    )
    potential = sim.system.potential(sim.options)
    rung = rung_of(np.full(WALKERS, 0.1))
    position = tf.constant(GENERATOR.normal(size=(WALKERS, sim.num_parameters())))
    indices, sizes = potential.batches.indices(0, 1)
    batch = Batch(tf.constant(indices[0], tf.int32), tf.constant(sizes[0], tf.int32))
    return potential.bind(rung, batch), position


@pytest.mark.parametrize(
    ("walker_evaluation", "compiled"),
    [
        ("vectorized", True),
        ("unrolled", False),
        ("looped", False),
        pytest.param("vectorized", False, marks=pytest.mark.slow),
        pytest.param("unrolled", True, marks=pytest.mark.slow),
        pytest.param("looped", True, marks=pytest.mark.slow),
    ],
)
def test_mean_loss_and_examples_are_those_of_the_potential(walker_evaluation, compiled):
    """The mean over all examples, in any pieces, is the loss of `full`; log priors agree; under XLA
    too.
    """
    evaluate, position = evaluated(walker_evaluation)
    whole = evaluate.full(position)
    call = (
        (lambda function: tf.function(function, jit_compile=True))
        if compiled
        else (lambda function: function)
    )
    np.testing.assert_allclose(call(evaluate.mean_loss)(position), whole.loss, rtol=1e-12)
    losses = call(lambda x: evaluate.examples(x, tf.range(N)))(position)
    assert losses.shape == (WALKERS, N) and losses.dtype == tf.float64
    np.testing.assert_allclose(tf.reduce_mean(losses, 1), whole.loss, rtol=1e-12)
    some = tf.constant([5, 0, 36, 5])
    np.testing.assert_allclose(
        evaluate.examples(position, some), tf.gather(losses, some, axis=1), rtol=1e-12
    )
    own = tf.constant(GENERATOR.integers(0, N, (WALKERS, 5)), tf.int32)
    of_each = call(lambda x: evaluate.examples(x, own))(position)
    np.testing.assert_allclose(of_each, tf.gather(losses, own, axis=1, batch_dims=1), rtol=1e-12)
    np.testing.assert_allclose(evaluate.log_prior(position), whole.log_prior, rtol=1e-12)


def test_many_examples_go_in_pieces():
    """Pieces of 30 // 3 = 10 examples and a rest of 7."""
    evaluate, position = evaluated()
    whole = evaluate.mean_loss(position)
    evaluate.potential.full_chunk = 30
    np.testing.assert_allclose(evaluate.mean_loss(position), whole, rtol=1e-12)


def test_regularisers_are_part_of_the_log_prior():
    evaluate, position = evaluated(regularizer=keras.regularizers.L2(0.1))
    np.testing.assert_allclose(
        evaluate.log_prior(position), evaluate.full(position).log_prior, rtol=1e-12
    )


def test_other_rungs_on_the_same_batch():
    """U = λ L + V with each walker's λ; mean losses stay, and what Keras counts is kept in one
    place.
    """
    evaluate, position = evaluated()
    plain = evaluate(position)
    weights = tf.constant([1.0, 0.5, 0.0], tf.float64)
    other = evaluate.at(evaluate.rung._replace(likelihood_weight=weights))
    energy = other(position)
    np.testing.assert_allclose(energy.loss, plain.loss, rtol=1e-12)
    np.testing.assert_allclose(
        energy.potential, weights * N * plain.loss - plain.log_prior, rtol=1e-12
    )
    np.testing.assert_allclose(energy.gradient[2], position[2], rtol=1e-12)
    other.auxiliary = ("counted",)
    assert evaluate.auxiliary == ("counted",)


def test_a_batch_says_whether_it_is_all_data():
    assert not evaluated()[0].exact and evaluated()[0].num_examples == N
    potential = evaluated()[0].potential
    assert potential.bind(rung_of(np.full(WALKERS, 0.1))).exact


@pytest.mark.parametrize(("prior", "spread"), [("gaussian", 2.0), ("box", 3.0 / np.sqrt(3))])
def test_draws_from_the_prior(prior, spread):
    """Standard deviation of 30,000 draws within 5.5 standard errors, and the box's walls are
    kept.
    """
    sim = Simulation(
        data=(INPUTS, LABELS),
        prior=prior,
        prior_std=2.0,
        prior_bound=3.0,
        dtype="float64",
        verbose=0,
    )
    normal = tf.constant(GENERATOR.standard_normal((30_000, sim.num_parameters())))
    drawn = (
        sim.system.potential(sim.options)
        .bind(rung_of(np.ones(30_000)))
        .drawn_from_prior(normal)
        .numpy()
    )
    assert np.abs(drawn.std(0) / spread - 1).max() < 5.5 * 0.5 * np.sqrt(2 / 30_000) * 1.5
    assert prior == "gaussian" or np.abs(drawn).max() <= 3.0
