"""Each function behind which a private name of TensorFlow or Keras stands: a version that changes
one fails here.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path

import keras
import numpy as np

import tati_re
from tati_re.core import backend
from tati_re.core.backend import tf

PRIVATE = re.compile(
    r"\bkeras\.src\b|\btensorflow\.(python|compiler)\b"
    r"|\._(keras_history|inbound_nodes|flatten_layers|inputs_struct|build_shapes_dict|learning_rate|numpy)\b"
)


def test_private_names_of_tensorflow_and_keras_are_in_one_file():
    package = Path(tati_re.__file__).parent
    found = [path for path in package.rglob("*.py") if PRIVATE.search(path.read_text())]
    assert [path.relative_to(package).as_posix() for path in found] == ["core/backend.py"]


def test_slices_whose_begin_is_known_only_inside_of_what_xla_compiles():
    values = np.arange(12.0).reshape(4, 3)

    @tf.function(jit_compile=True)
    def both(values, first, new):
        begin = tf.stack([first, 0])
        return backend.dynamic_slice(values, begin, [2, 3]), backend.dynamic_update_slice(
            values, begin, new
        )

    for first in (0, 2):
        part, changed = both(tf.constant(values), tf.constant(first), tf.zeros((2, 3), tf.float64))
        wanted = values.copy()
        wanted[first : first + 2] = 0.0
        np.testing.assert_array_equal(part, values[first : first + 2])
        np.testing.assert_array_equal(changed, wanted)


def test_a_vector_whose_memory_is_written_is_what_a_compiled_call_sees():
    """Within XLA and a graph; one that were a copy would give zeros, and on some devices no
    error.
    """
    for compiled in (True, False):
        given, memory = backend.refilled(70)
        called = backend.Direct(
            lambda vector: (vector, tf.reverse(vector, [0])), jit_compile=compiled
        )
        results = []
        for number in range(3):
            memory[:] = np.arange(70.0) + number
            results.append([value.numpy() for value in called(given)])
        for number, (same, turned) in enumerate(results):
            np.testing.assert_array_equal(same, np.arange(70.0) + number)
            np.testing.assert_array_equal(turned, np.arange(70.0)[::-1] + number)


def refused() -> bool:
    """Whether random numbers without a seed are refused, as under op determinism."""
    try:
        tf.random.Generator.from_non_deterministic_state()
    except RuntimeError:
        return True
    return False


def test_op_determinism_is_of_a_run_and_is_given_back():
    before = refused()
    with backend.deterministic():
        assert refused()
        with backend.deterministic():
            assert refused()
        assert refused()
    assert refused() == before


def test_runs_side_by_side_are_deterministic_until_the_last_one_ends():
    """Whichever of two threads ends first, and both settings are given back."""

    def settings() -> tuple[bool, bool]:
        return refused(), tf.config.optimizer.get_experimental_options().get(
            "arithmetic_optimization", True
        )

    before = settings()
    first, second = backend.deterministic(), backend.deterministic()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert settings() == (True, False)
    second.__exit__(None, None, None)
    assert settings() == before


def test_layers_inside_of_layers():
    inner = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="a")], name="inner")
    model = keras.Sequential([keras.Input((3,)), inner, keras.layers.Dense(1, name="b")])
    assert [layer.name for layer in backend.layers_of(model, recursive=False)][1:] == ["inner", "b"]
    assert {layer.name for layer in backend.layers_of(model)} >= {"inner", "a", "b"}


def test_the_layer_that_made_a_tensor():
    start = keras.Input((3,))
    dense = keras.layers.Dense(2)
    once, second = dense(start), keras.layers.Dense(2)
    twice = second(once)
    layer, call = backend.origin_of(twice)
    assert layer is second
    assert call.input_tensors[0] is once and call.arguments.args[0] is once
    assert backend.origin_of(once)[0] is dense


def test_functions_that_the_package_traces_anew_are_not_warned_of_but_a_users_own_are():
    """TensorFlow would say so at the fifth run of a process; which function it means is not always
    in what it says.
    """
    said = "5 out of the last 5 calls to <Function object> triggered tf.function retracing."
    record = logging.LogRecord("tensorflow", logging.WARNING, "", 0, said, (), None)
    within = {"keep": lambda: bool(tf.get_logger().filter(record))}
    inside = compile("keep()", str(Path(tati_re.__file__).parent / "engine" / "loop.py"), "eval")
    assert within["keep"]()
    assert not eval(inside, within)
