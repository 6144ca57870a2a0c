"""Counter-based random numbers: functions of seed, purpose, draw, step and walker; normal, uniform
and never shared.

Laws: N(0, 1) and U(0, 1), by the Kolmogorov-Smirnov distance and by moments and correlations of
400,000 numbers. At 5.5 standard errors they resolve 0.9 % of a standard deviation in the mean, 1.2
% in the variance, 0.009 in a correlation, and 0.0044 in the distribution function.
"""

from __future__ import annotations

import math
from functools import partial

import keras
import numpy as np
import pytest
from scipy.stats import norm

from tati_re import Simulation
from tati_re.core.backend import tf
from tati_re.engine import noise
from tati_re.engine.noise import (
    Draw,
    Drawing,
    RecordingNoise,
    StepNoise,
    bits_of_blocks,
    draw_bits,
    draw_blocks,
    draw_numbers,
    numbers_of,
    open_uniform,
    parts_of,
    philox_key,
    philox_keys,
    standard_normals,
)
from tests.scenarios import TOLERANCE

DTYPES = pytest.mark.parametrize("dtype", [tf.float32, tf.float64], ids=lambda dtype: dtype.name)
# sqrt(n) times the largest distance exceeds 2.78 with probability 2 exp(-2 * 2.78²) = 4e-7.
KOLMOGOROV = 2.78


def draws_of(dtype, walkers=3, parameters=5) -> list[Draw]:
    return [
        Draw("normal", (walkers, parameters), dtype),
        Draw("uniform", (), tf.float64),
        Draw("uniform", (walkers,), tf.float64),
    ]


def arrays(*arguments, first_walker=0) -> list[np.ndarray]:
    draws, seed, purpose, *steps = arguments
    return [
        values.numpy()
        for values in draw_bits(draws, philox_keys(draws, seed, purpose), *steps, first_walker)
    ]


# -------------------------------------------------------------------------------------------------------------
# the bits


def philox(key: int, low: int, high: int) -> list[int]:
    """Ten rounds of Philox 4x32 in plain integers (Salmon et al. 2011)."""
    word = 2**32 - 1
    a, b, c, d = low & word, low >> 32, high & word, high >> 32
    for number in range(10):
        first, second = (
            ((key & word) + number * 0x9E3779B9) & word,
            ((key >> 32) + number * 0xBB67AE85) & word,
        )
        left, right = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = (right >> 32) ^ b ^ first, right & word, (left >> 32) ^ d ^ second, left & word
    return [a, b, c, d]


@pytest.mark.parametrize("first_walker", [0, 3, 2**33 + 1])
def test_the_high_word_of_a_counter_is_the_walker(first_walker):
    """Against plain integers, which give the published answer for zeros."""
    assert philox(0, 0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    draw, key = Draw("normal", (2, 5), tf.float32), philox_key(7, "step/0")
    (bits,) = arrays([draw], 7, "step", 4, 2, first_walker=first_walker)
    for step in range(2):
        for walker in range(2):
            words = [
                philox(key, (4 + step) * 2 + block, first_walker + walker) for block in range(2)
            ]
            np.testing.assert_array_equal(bits[step, walker].view(np.uint32), np.concatenate(words))


@DTYPES
@pytest.mark.parametrize("cuts", [(4, 6), (1, 9), (1, 1, 1, 7), (9, 1)])
def test_the_bits_of_a_chunk_are_those_of_its_parts(dtype, cuts):
    draws = draws_of(dtype)
    whole = arrays(draws, 7, "step", 41, 10)
    first, parts = 41, []
    for size in cuts:
        parts.append(arrays(draws, 7, "step", tf.constant(first, tf.int64), size))
        first += size
    for number, values in enumerate(whole):
        np.testing.assert_array_equal(values, np.concatenate([part[number] for part in parts]))


@DTYPES
def test_the_bits_are_the_same_eagerly_and_in_a_graph(dtype):
    draws = draws_of(dtype)
    keys = philox_keys(draws, 7, "step")
    compiled = tf.function(lambda first: draw_bits(draws, keys, first, 4))
    for eager, graph in zip(
        draw_bits(draws, keys, 1_000_003, 4),
        compiled(tf.constant(1_000_003, tf.int64)),
        strict=True,
    ):
        np.testing.assert_array_equal(eager, graph)


@DTYPES
@pytest.mark.parametrize(
    ("first", "walkers", "first_walker"),
    [
        pytest.param(0, 3, 0, marks=pytest.mark.slow),
        pytest.param(1, 20, 5, marks=pytest.mark.slow),
        (10**12, 3, 2**33),
    ],
)
def test_the_blocks_that_xla_makes_are_the_bits_of_the_kernel(dtype, first, walkers, first_walker):
    draws = draws_of(dtype, walkers, parameters=7)
    keys = philox_keys(draws, 7, "step")
    made = tf.function(
        lambda first, walker: draw_blocks(draws, keys, first, 4, walker), jit_compile=True
    )
    blocks = made(tf.constant(first, tf.int64), tf.constant(first_walker, tf.int64))
    for draw, words, bits in zip(
        draws, blocks, draw_bits(draws, keys, first, 4, first_walker), strict=True
    ):
        np.testing.assert_array_equal(bits_of_blocks(draw, words, 4), bits)


@DTYPES
def test_the_numbers_of_a_walker_do_not_depend_on_the_others(dtype):
    """Nor on how walkers are cut into blocks; 70 are drawn by a compiled program. A shared number
    is of no block.
    """
    whole = arrays(draws_of(dtype, 70), 7, "step", 5, 3)
    for first, walkers in ((0, 1), (0, 2), (0, 8), (0, 17), (1, 1), (7, 17), (69, 1)):
        block = arrays(draws_of(dtype, walkers), 7, "step", 5, 3, first_walker=first)
        for values, part in zip(whole, block, strict=True):
            np.testing.assert_array_equal(
                values[:, first : first + walkers] if values.shape[1] > 1 else values, part
            )


@pytest.mark.parametrize(
    "how", ["xla", pytest.param("compiled for a graph", marks=pytest.mark.slow)]
)
def test_a_run_under_xla_takes_the_numbers_of_the_graph(monkeypatch, how):
    """8 walkers of 310 parameters in float64: enough bits a step for the loop to have XLA make
    them. For a graph it makes those of large networks, here of this one.
    """
    made = []
    monkeypatch.setattr(
        noise, "draw_blocks", lambda *arguments: made.append(arguments) or draw_blocks(*arguments)
    )
    generator = np.random.default_rng(0)
    data = generator.normal(size=(20, 30)), generator.integers(0, 10, 20)
    found = {}
    for name, execution in (("graph", "graph"), (how, "xla" if how == "xla" else "graph")):
        if name.startswith("compiled"):
            monkeypatch.setitem(noise._COMPILED_FROM_BYTES, "graph", 2**14)
        model = keras.Sequential([keras.Input((30,)), keras.layers.Dense(10, activation="softmax")])
        model.set_weights([np.zeros((30, 10)), np.zeros(10)])
        options = {
            "num_walkers": 8,
            "num_steps": 6,
            "step_size": 1e-2,
            "trajectory_every": 2,
            "dtype": "float64",
        }
        sim = Simulation(model, data=data, execution=execution, **options)
        found[name] = sim.sample(sampler="BAOAB").trajectory.to_numpy(np.float64)
        assert bool(made) == (name != "graph")
        made.clear()
        np.testing.assert_allclose(found[name], found["graph"], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "sampler",
    [
        "BAOAB",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("HMC", "SGLD", "SGHMC", "SGNHT", "CCAdL")
        ),
    ],
)
def test_a_walker_goes_the_same_way_whoever_is_beside_it(sampler):
    """Its start, first momenta, mini-batches and noise; to rounding, since walkers are evaluated in
    one product. What walkers share is left out: step sizes that are tuned, temperatures visited in
    turn, ensembles, swaps.
    """
    generator = np.random.default_rng(0)
    data = generator.normal(size=(20, 3)), generator.integers(0, 2, 20)
    options = {
        "num_steps": 24,
        "step_size": 1e-2,
        "trajectory_every": 4,
        "dtype": "float64",
        "execution": "graph",
    }
    paths = []
    for walkers in (1, 20):
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, activation="softmax")])
        model.set_weights([np.zeros((3, 2)), np.zeros(2)])
        options |= {"batch_size": None if "HMC" in sampler else 5, "num_walkers": walkers}
        sim = Simulation(model, data=data, walker_start="jitter", seed=7, **options)
        momenta = np.atleast_2d(sim.momenta)[:1]
        trajectory = sim.sample(sampler=sampler).trajectory
        path = trajectory[trajectory["walker"] == 0].filter(like="dense").to_numpy()
        paths.append(np.concatenate([momenta, path]))
    assert paths[0].shape == (7, 8) and np.diff(paths[0], axis=0).any(axis=1).sum() > 4
    for path in paths[1:]:
        np.testing.assert_allclose(path, paths[0], rtol=1e-9, atol=1e-12)


@DTYPES
def test_the_bits_far_along_a_run_go_on(dtype):
    """Counters are 64 bits: step 10^12 is neither a repetition nor an overflow."""
    draws = draws_of(dtype)
    far = 10**12
    whole = arrays(draws, 7, "step", far, 4)
    again = arrays(draws, 7, "step", far + 2, 2)
    early = arrays(draws, 7, "step", far % 2**32, 4)
    for number in range(len(draws)):
        np.testing.assert_array_equal(whole[number][2:], again[number])
        assert (whole[number] != early[number]).any()


def repeated_blocks(walkers: int, parameters: int, dtype, cuts=(0,)) -> int:
    """128-bit blocks of 3 draws and 500 steps that are not the first of their kind; two random ones
    would agree with probability 1e-30. The same draws are made again for the walkers of further
    blocks of a run.
    """
    draws = [
        Draw("normal", (walkers, parameters), dtype),
        Draw("normal", (walkers, parameters), dtype),
        Draw("uniform", (walkers,), tf.float64),
    ]
    made = [
        values for first in cuts for values in arrays(draws, 0, "step", 1, 500, first_walker=first)
    ]
    blocks = np.concatenate([values.reshape(-1).view(np.uint32).reshape(-1, 4) for values in made])
    assert len(blocks) == len(cuts) * 500 * walkers * sum(draw.counters() for draw in draws)
    return len(blocks) - len(np.unique(blocks, axis=0))


@DTYPES
@pytest.mark.parametrize("parameters", [1, 2, 3, 4, 5, 7])
def test_no_counter_serves_twice(dtype, parameters):
    """Padding makes blocks whole, so that a block belongs to one walker."""
    assert repeated_blocks(4, parameters, dtype, cuts=(0, 4, 1_000)) == 0
    for draw in draws_of(dtype, 4, parameters):
        walkers, numbers = draw.padded
        assert numbers >= math.prod(draw.shape[1:]) and numbers * draw.bit_type.size % 16 == 0
        assert draw.bytes() == 16 * walkers * draw.counters()


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("high_words", lambda draw, first_walker: tf.constant([0, 0, 0], tf.uint64)),
        ("high_words", lambda draw, first_walker: tf.constant([0, 0, 1], tf.uint64)),
        ("counters", lambda draw: 1),
    ],
    ids=["one word for all", "one word for two", "steps that overlap"],
)
def test_counters_that_overlap_are_found(monkeypatch, name, wrong):
    right = Draw.counters
    draws = [Draw("normal", (3, 7), tf.float64)]
    monkeypatch.setattr(Draw, name, wrong)
    blocks = np.concatenate([arrays(draws, 0, "step", first, 5)[0] for first in (1, 6)]).reshape(
        -1, 2
    )
    monkeypatch.undo()
    assert right(draws[0]) == 4
    assert len(np.unique(blocks, axis=0)) < len(blocks)


def test_seeds_and_purposes_have_keys_of_their_own():
    keys = [
        philox_key(seed, purpose)
        for seed in range(200)
        for purpose in ("init", "step", "init/0", "step/0", "step/1", "step/10")
    ]
    assert len(set(keys)) == len(keys)
    assert all(0 <= key < 2**64 for key in keys)
    assert philox_key(0, "step/0") == philox_key(0, "step/0")
    draws = draws_of(tf.float64)
    for other in (
        arrays(draws, 8, "step", 1, 4),
        arrays(draws, 7, "init", 1, 4),
        arrays(draws, 7, "step", 5, 4),
    ):
        for values, different in zip(arrays(draws, 7, "step", 1, 4), other, strict=True):
            assert not set(values.ravel()) & set(different.ravel())


# -------------------------------------------------------------------------------------------------------------
# the laws


def sample(dtype, shape=(200, 500), num_steps=4) -> np.ndarray:
    """(steps, walkers, parameters) normals, as steps see them."""
    draws = [Draw("normal", shape, dtype)]
    return draw_numbers(draws, 12, "step", 1, num_steps)[0].numpy()


def distance(values: np.ndarray, distribution) -> float:
    """sqrt(n) times the Kolmogorov-Smirnov distance."""
    values = np.sort(values.ravel())
    grid = np.arange(len(values) + 1) / len(values)
    law = distribution(values)
    return math.sqrt(len(values)) * max(np.abs(law - grid[1:]).max(), np.abs(law - grid[:-1]).max())


@DTYPES
def test_normals_are_normal(dtype):
    """Distance, the first four moments, and correlations between neighboring parameters, walkers
    and steps.
    """
    values = sample(dtype)
    assert values.dtype == dtype.as_numpy_dtype
    values = values.astype(np.float64)
    n = values.size
    assert distance(values, norm.cdf) < KOLMOGOROV
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((values**power).mean() - mean) < TOLERANCE * math.sqrt(variance / n), power
    for axis in range(3):
        ahead = np.take(values, range(1, values.shape[axis]), axis)
        behind = np.take(values, range(values.shape[axis] - 1), axis)
        for power in (1, 2):
            product = (ahead**power - (power == 2)) * (behind**power - (power == 2))
            assert abs(product.mean()) < TOLERANCE * power / math.sqrt(product.size), (axis, power)


@DTYPES
def test_pairs_go_all_round(dtype):
    """The angle of a pair is uniform, and tells nothing of its radius; half a circle would be
    seen.
    """
    cosines, sines = np.split(sample(dtype).astype(np.float64), 2, axis=-1)
    angle, square = np.arctan2(sines, cosines), (cosines**2 + sines**2) / 2 - 1
    assert distance(angle, lambda x: (x + np.pi) / (2 * np.pi)) < KOLMOGOROV
    for wave in (
        np.cos(angle),
        np.sin(angle),
        np.cos(2 * angle),
        np.cos(4 * angle),
        np.sin(4 * angle),
    ):
        assert abs((wave * square).mean()) < TOLERANCE / math.sqrt(2 * wave.size)
    assert (
        distance(np.arctan2(sines, np.abs(cosines)), lambda x: (x + np.pi) / (2 * np.pi))
        > KOLMOGOROV
    )


@DTYPES
def test_wrong_normals_are_rejected(dtype):
    """The same distance sees a scale that is 3 % off, and a mean that is off by 0.02."""
    values = sample(dtype)
    assert distance(1.03 * values, norm.cdf) > KOLMOGOROV
    assert distance(values + 0.02, norm.cdf) > KOLMOGOROV


def test_uniforms_are_uniform_and_float64():
    shape = (100_000,)
    draws = [Draw("uniform", shape, tf.float64)]
    values = draw_numbers(draws, 12, "step", 1, 4)[0].numpy()
    assert values.dtype == np.float64
    assert distance(values, lambda x: x) < KOLMOGOROV
    product = (values[1:] - 0.5) * (values[:-1] - 0.5)
    assert abs(product.mean()) < TOLERANCE / 12 / math.sqrt(product.size)


@DTYPES
@pytest.mark.parametrize("execution", ["eager", "graph", "xla"])
def test_ranges_are_open_at_the_extreme_bits(dtype, execution):
    """No bits give an end of the interval, whose logarithm would be infinite, in any execution: a
    model of 10^5 parameters meets the last few bits within some hundred steps. Normals end at the
    same value on both sides.
    """
    integers = Draw("normal", (1, 1), dtype).bit_type
    info = np.iinfo(integers.as_numpy_dtype)
    near = np.arange(4096)
    bits = tf.constant([*(info.min + near), -1, 0, 1, *(info.max - near[::-1])], integers)
    compile_as = {
        "eager": lambda f: f,
        "graph": tf.function,
        "xla": partial(tf.function, jit_compile=True),
    }[execution]
    uniform = compile_as(open_uniform)(bits, dtype).numpy()
    assert (
        (uniform > 0).all()
        and (uniform < 1).all()
        and (np.diff(uniform[bits.numpy() >= 0]) >= 0).all()
    )
    few = tf.constant([*(info.min + near[:40]), *range(-4, 5), *(info.max - near[:40])], integers)
    normals = compile_as(standard_normals)(
        tf.repeat(few, len(few)), tf.tile(few, [len(few)]), dtype
    )
    normal = np.concatenate([values.numpy() for values in normals])
    assert np.isfinite(normal).all()
    assert normal.max() == pytest.approx(-normal.min(), abs=0.01)
    assert 6.6 < normal.max() < 6.7 if dtype == tf.float32 else 9.3 < normal.max() < 9.5


def test_uniform_numbers_are_open_at_the_extreme_bits():
    draw = Draw("uniform", (8,), tf.float64)
    info = np.iinfo(np.int64)
    bits = np.array(
        [info.min, info.min + 1, info.min + 2000, -1, 0, info.max - 2000, info.max - 1, info.max]
    )[:, None]
    values = numbers_of(draw, [tf.constant(bits)[None]]).numpy()
    assert (values > 0).all() and (values < 1).all()


# ---------------------------------------------------------------------------------------------------------
# the requests


@DTYPES
def test_requests_are_noted_and_answered_in_order(dtype):
    recording = RecordingNoise(dtype)
    asked = [recording.normal((3, 5)), recording.uniform(()), recording.uniform((3,))]
    assert recording.draws == draws_of(dtype)
    noise = StepNoise(
        recording.draws, [values[0] for values in draw_numbers(recording.draws, 0, "step", 1, 1)]
    )
    given = [noise.normal((3, 5)), noise.uniform(()), noise.uniform((3,))]
    for noted, value in zip(asked, given, strict=True):
        assert (noted.shape, noted.dtype) == (value.shape, value.dtype)
    assert [value.dtype for value in given] == [dtype, tf.float64, tf.float64]


@pytest.mark.parametrize(
    "ask", [lambda noise: noise.normal((3, 4)), lambda noise: noise.uniform((3, 5))]
)
def test_a_step_that_asks_for_something_else_is_told(ask):
    draws = draws_of(tf.float64)
    noise = StepNoise(draws, [values[0] for values in draw_numbers(draws, 0, "step", 1, 1)])
    with pytest.raises(
        RuntimeError, match=r"same random numbers each time. Received: .* Expected: normal \(3, 5\)"
    ):
        ask(noise)


@DTYPES
def test_parameters_have_numbers_of_their_own_walker(dtype):
    """In plain float64: the bits of a row, whose padding is nobody's, make those of that walker,
    two a radius and an angle. Seven numbers take two blocks of four in float32, four of two in
    float64.
    """
    draws = [Draw("normal", (4, 7), dtype)]
    (bits,) = draw_bits(draws, philox_keys(draws, 0, "step"), 1, 1)
    radius, angle = (values.numpy() for values in parts_of(draws[0], bits))
    most = np.iinfo(radius.dtype).max
    length = np.sqrt(-2 * np.log(((radius & most) + 0.5) / (most + 1.0)))
    x = 0.25 * np.pi * angle / (most + 1.0)
    cosine, sine = np.where(angle & 2, np.cos(x), -np.cos(x)), np.sin(x)
    cosine, sine = np.where(angle & 1, sine, cosine), np.where(angle & 1, cosine, sine)
    found = numbers_of(draws[0], [tf.constant(radius), tf.constant(angle)])
    expected = np.concatenate([length * cosine, length * sine], axis=-1)[..., :7]
    np.testing.assert_allclose(
        found, expected, rtol=1e-12 if dtype == tf.float64 else 1e-5, atol=1e-6
    )


@DTYPES
def test_numbers_do_not_depend_on_where_a_chunk_begins(dtype):
    """To the last bit: the end of an array is rounded as its middle is."""
    draws = [Draw("normal", (1, 97), dtype), Draw("uniform", (3,), tf.float64)]
    for whole, later in zip(
        draw_numbers(draws, 5, "step", 1, 7), draw_numbers(draws, 5, "step", 4, 4), strict=True
    ):
        np.testing.assert_array_equal(whole[3:], later)


@pytest.mark.parametrize(
    "dtype",
    [pytest.param(tf.float32, marks=pytest.mark.slow), tf.float64],
    ids=lambda dtype: dtype.name,
)
def test_nor_do_those_that_are_compiled_for_a_graph(dtype):
    draws = [Draw("normal", (4, 2**16 + 1), dtype), Draw("uniform", (3,), tf.float64)]
    whole, later = (Drawing(draws, count, "graph") for count in (5, 3))
    keys = philox_keys(draws, 5, "step")
    numbers = [each.numbers(each.drawn(keys, first, 0)) for each, first in ((whole, 1), (later, 3))]
    for one, other, made in zip(*numbers, draw_numbers(draws, 5, "step", 1, 5), strict=True):
        np.testing.assert_array_equal(one[2:], other)
        np.testing.assert_allclose(
            one, made, rtol=0, atol=1e-4 if one.dtype == np.float32 else 1e-9
        )
