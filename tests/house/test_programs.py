"""Compiled programs that runs of one process share."""

import gc
import weakref

import numpy as np
import pytest

from tati_re import Simulation
from tati_re.core.backend import Direct, tf
from tati_re.core.process import programs


@pytest.fixture(autouse=True)
def none_kept(monkeypatch):
    monkeypatch.setattr(programs, "_programs", type(programs._programs)())


@pytest.fixture
def found(monkeypatch):
    """For each function that was traced, whether there was one that computes the same."""
    from tati_re.core import backend

    seen, shared = [], programs.shared

    def noted(traced):
        program = shared(traced)
        seen.append(program.name != traced._inference_function.name)
        return program

    monkeypatch.setattr(backend, "shared", noted)
    return seen


def steps(data, factor, jit_compile=True):
    """A loop with a branch, around captured data, too many to stand in the graph as constants."""
    held = tf.constant(data)

    @tf.function(autograph=False)
    def inner(value):
        return tf.cond(value[0] > 0.0, lambda: value + factor * held, lambda: value - held)

    def function(value, number):
        return tf.while_loop(
            lambda i, v: i < number, lambda i, v: (i + 1, inner(v)), (tf.constant(0), value)
        )[1]

    return Direct(function, jit_compile=jit_compile)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_what_computes_the_same_shares_a_program_and_keeps_its_own_data(found, jit_compile):
    ones, twos = np.ones(200), np.full(200, 2.0)
    for data in (ones, twos, ones):
        function = steps(data, 0.5, jit_compile)
        np.testing.assert_array_equal(
            function(tf.ones(200, tf.float64), tf.constant(3)), 1.0 + 1.5 * data
        )
    assert found == [False, True, True]


def test_gradients_through_inner_functions_share_a_program(found):
    """TensorFlow names the gradient of an inner function by a number that counts up."""

    def gradient_of(data):
        held = tf.constant(data)
        inner = tf.function(lambda value: tf.exp(value) * held, autograph=False)

        def function(value):
            with tf.GradientTape() as tape:
                tape.watch(value)
                total = tf.reduce_sum(inner(value))
            return tape.gradient(total, value)

        return Direct(function)

    for data in (np.ones(200), np.full(200, 2.0)):
        np.testing.assert_array_equal(gradient_of(data)(tf.zeros(200, tf.float64)), data)
    assert found == [False, True]


def test_what_computes_something_else_does_not(found):
    """Another constant, shape or type, another order of arguments, data that stand in the graph,
    code of Python.
    """
    ones = np.ones(200)
    made = [steps(ones, 0.5), steps(ones, 0.25), steps(ones, 0.5, jit_compile=False)]
    for function in made:
        function(tf.ones(200, tf.float64), tf.constant(3))
    for size in (3, 5):
        values = Direct(lambda x: x * tf.cast(tf.raw_ops.Size(input=x), x.dtype))(tf.ones(size))
        np.testing.assert_array_equal(values, np.full(size, size))
    a, b = tf.ones(200, tf.float64), tf.fill((200,), tf.constant(3.0, tf.float64))
    assert Direct(lambda x, y: x - y)(a, b)[0] == -2.0
    assert Direct(lambda x, y: y - x)(a, b)[0] == 2.0
    assert Direct(lambda x, y: (x - y, y))(a, b)[0][0] == -2.0
    assert Direct(lambda x, y: (y, x - y))(a, b)[0][0] == 3.0
    for few in (1.0, 2.0):
        assert Direct(lambda x, few=few: x * tf.constant([few], tf.float64))(a)[0] == few
        assert (
            Direct(lambda x, few=few: tf.numpy_function(lambda v: few * v, [x], tf.float64))(a)[0]
            == few
        )
    assert not any(found)


def test_programs_keep_no_data_alive_and_those_of_long_ago_go(monkeypatch):
    monkeypatch.setattr(programs, "_programs", type(programs._programs)())
    monkeypatch.setattr(programs, "_MOST", 4)
    function = steps(np.ones(200), 0.5)
    held = weakref.ref(function._function.__closure__[0].cell_contents)
    function(tf.ones(200, tf.float64), tf.constant(1))
    del function
    gc.collect()
    assert programs._programs
    assert held() is None
    for factor in range(programs._MOST + 2):
        steps(np.ones(200), float(factor))(tf.ones(200, tf.float64), tf.constant(1))
    assert len(programs._programs) == programs._MOST


def simulation(seed: int) -> Simulation:
    # Targets that are not of order one are standardized; of fewer than 128 numbers TensorFlow makes
    # constants.
    generator = np.random.default_rng(seed)
    data = generator.normal(size=(200, 3)), 10.0 * generator.normal(size=200)
    return Simulation(data=data, hidden=[4], seed=seed, verbose=0)


@pytest.mark.parametrize("batch_size", [None, pytest.param(20, marks=pytest.mark.slow)])
def test_runs_from_other_seeds_and_data_share_their_programs_and_change_no_byte(
    found, tmp_path, batch_size
):
    options = {
        "sampler": "BAOAB",
        "step_size": 0.01,
        "friction": 1.0,
        "num_steps": 40,
        "execution": "xla",
    }
    options |= {"batch_size": batch_size}
    simulation(1).sample(output=tmp_path / "first", **options)
    del found[:]
    simulation(2).sample(output=tmp_path / "shared", **options)
    assert found
    assert all(found)
    programs._programs.clear()
    del found[:]
    simulation(2).sample(output=tmp_path / "alone", **options)
    assert not any(found)
    for name in ("run.csv", "averages.csv", "trajectory.csv"):
        alone = (tmp_path / "alone" / name).read_bytes()
        assert (tmp_path / "shared" / name).read_bytes() == alone
        assert (tmp_path / "first" / name).read_bytes() != alone
