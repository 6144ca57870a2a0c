"""Mini-batches: unbiased estimates, complete epochs, and a pure function of seed, walker and
step.
"""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import chi2

from tati_re.core.errors import InputError
from tati_re.data import Batches

N = 6
ORDERINGS = [np.array(order) for order in itertools.permutations(range(N))]


@pytest.fixture(scope="module")
def least_squares():
    """Per-example losses (N,) and gradients (N, 3) of a linear model in float64, at one point."""
    random = np.random.default_rng(7)
    x, y, w = random.normal(size=(N, 3)), random.normal(size=N), random.normal(size=3)
    residual = x @ w - y
    return residual**2, 2 * residual[:, None] * x


class Ordered(Batches):
    """Batches whose epochs have each ordering of the examples in turn."""

    def _at(self, block, walker):
        return SimpleNamespace(permutation=lambda count: ORDERINGS[block])


def estimates(values, batch_size, divide_by_true_size=True):
    """Every batch's estimate of the sum over all examples, over all 720 orderings: (720, batches,
    ...).
    """
    rows, batches = [], Ordered(N, batch_size, 1, seed=0)
    for epoch in range(len(ORDERINGS)):
        indices, sizes = batches.indices(epoch * batches.steps_per_epoch, batches.steps_per_epoch)
        indices, mask = indices[:, 0], np.arange(batch_size) < sizes[:, None]
        sums = (values[indices] * mask.reshape(mask.shape + (1,) * (values.ndim - 1))).sum(1)
        weight = N / (sizes if divide_by_true_size else np.full_like(sizes, batch_size))
        rows.append(sums * weight.reshape(-1, *(1,) * (values.ndim - 1)))
    return np.array(rows)


@pytest.mark.parametrize("batch_size", [1, 2, 4, 5, 6])
def test_loss_and_gradient_are_unbiased_over_all_orderings(least_squares, batch_size):
    for values in least_squares:
        every = estimates(values, batch_size)
        np.testing.assert_allclose(every.mean((0, 1)), values.sum(0), rtol=0, atol=1e-12)
        # Each position in the epoch by itself, the short last batch too.
        for position in every.mean(0):
            np.testing.assert_allclose(position, values.sum(0), rtol=0, atol=1e-12)


def test_a_short_batch_divided_by_the_nominal_size_is_caught(least_squares):
    for values in least_squares:
        wrong = estimates(values, 4, divide_by_true_size=False)
        assert np.abs(wrong.mean((0, 1)) - values.sum(0)).max() > 0.1
        # Where the size divides N there is nothing to get wrong.
        right = estimates(values, 2, divide_by_true_size=False)
        np.testing.assert_allclose(right.mean((0, 1)), values.sum(0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("batch_size", [2, 4])
def test_orderings_of_the_class_are_uniform(batch_size):
    """Each ordering of 3 examples has frequency 1/6; 6,000 epochs resolve 2 % of it (z = 5.5:
    0.027).
    """
    batches = Batches(3, min(batch_size, 2), 1, seed=1)
    indices, _ = batches.indices(0, 6000 * batches.steps_per_epoch)
    orders = indices.reshape(6000, -1)[:, :3]
    counts = np.unique(orders, axis=0, return_counts=True)[1]
    assert len(counts) == 6
    assert np.abs(counts / 6000 - 1 / 6).max() < 5.5 * np.sqrt(5 / 36 / 6000)


@pytest.mark.parametrize(("num_examples", "batch_size"), [(6, 4), (6, 2), (10, 3), (7, 7), (5, 1)])
def test_each_epoch_visits_each_example_once(num_examples, batch_size):
    batches = Batches(num_examples, batch_size, 3, seed=5)
    per_epoch = batches.steps_per_epoch
    indices, sizes = batches.indices(0, 4 * per_epoch)
    assert indices.dtype == sizes.dtype == np.int32
    for epoch, walker in itertools.product(range(4), range(3)):
        steps = range(epoch * per_epoch, (epoch + 1) * per_epoch)
        seen = np.concatenate([indices[s, walker, : sizes[s]] for s in steps])
        assert sorted(seen) == list(range(num_examples))
        assert all((indices[s, walker, sizes[s] :] == 0).all() for s in steps)


def test_epochs_differ_and_walkers_differ():
    indices, _ = Batches(100, 100, 2, seed=0, sampling="replacement").indices(0, 2)
    assert not (indices[:, 0] == indices[:, 1]).all()
    indices, _ = Batches(100, 50, 2, seed=0).indices(0, 4)
    assert not (indices[:2] == indices[2:]).all()
    assert not (indices[:, 0] == indices[:, 1]).all()


def test_shared_batches_are_those_of_the_first_walker():
    own, _ = Batches(100, 30, 4, seed=3).indices(0, 9)
    shared, _ = Batches(100, 30, 4, seed=3, shared=True).indices(0, 9)
    assert shared.shape == (9, 1, 30)
    np.testing.assert_array_equal(shared[:, 0], own[:, 0])


@pytest.mark.parametrize("sampling", ["epochs", "symmetric", "replacement"])
@pytest.mark.parametrize("batch_size", [7, 20, 64])
def test_pure_function_of_the_step(sampling, batch_size):
    long, sizes = Batches(64, batch_size, 3, 11, sampling).indices(0, 2000)
    batches = Batches(64, batch_size, 3, 11, sampling)
    for first, count in [(1500, 3), (0, 1), (7, 900), (3, 40), (1999, 1), (5, 0)]:
        indices, some = batches.indices(first, count)
        np.testing.assert_array_equal(indices, long[first : first + count])
        np.testing.assert_array_equal(some, sizes[first : first + count])


@pytest.mark.parametrize("sampling", ["epochs", "symmetric", "replacement"])
def test_a_walker_does_not_depend_on_how_many_there_are(sampling):
    few, _ = Batches(64, 20, 2, 11, sampling).indices(0, 50)
    many, _ = Batches(64, 20, 5, 11, sampling).indices(0, 50)
    np.testing.assert_array_equal(few, many[:, :2])
    part, _ = Batches(64, 20, 2, 11, sampling).from_walker(3).indices(0, 50)
    np.testing.assert_array_equal(part, many[:, 3:])


def test_what_comes_back_is_the_callers():
    batches = Batches(6, 2, 1, 0)
    first, _ = batches.indices(0, 3)
    kept = first.copy()
    first[:] = -1
    np.testing.assert_array_equal(batches.indices(0, 3)[0], kept)


def test_replacement_draws_uniformly_with_repeats():
    """Frequency of each of 10 examples in 200,000 draws: 0.1 within z = 5.5 (0.0037)."""
    batches = Batches(10, 10, 1, 2, "replacement")
    indices, sizes = batches.indices(0, 20_000)
    assert not batches.full
    assert (sizes == 10).all()
    counts = np.bincount(indices.ravel(), minlength=10) / indices.size
    assert np.abs(counts - 0.1).max() < 5.5 * np.sqrt(0.09 / indices.size)
    assert any(len(set(row)) < 10 for row in indices[:, 0].tolist())


def test_full_batches():
    for batch_size in (None, 6):
        batches = Batches(6, batch_size, 2, 0)
        assert batches.full
        assert batches.batch_size == 6
        indices, sizes = batches.indices(4, 3)
        assert indices.tolist() == [[list(range(6))] * 2] * 3
        assert sizes.tolist() == [6, 6, 6]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"batch_size": 7},
            "batch_size is larger than the data set. Received: 7. Expected: 1 to 6.",
        ),
        ({"batch_size": 0}, "batch_size is not positive"),
        ({"sampling": "epoch"}, "batch_sampling has an unknown value"),
        ({"num_walkers": 0}, "num_walkers"),
        ({"num_examples": 0, "batch_size": None}, "no examples"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_input(arguments, words):
    with pytest.raises(InputError, match=words.replace(".", r"\.")):
        Batches(**({"num_examples": 6, "batch_size": 2, "num_walkers": 1, "seed": 0} | arguments))


def test_batches_in_the_order_of_the_data():
    batches = Batches(5, 2, 3, seed=0, shuffle=False)
    indices, sizes = batches.indices(0, 6)
    assert sizes.tolist() == [2, 2, 1] * 2
    for walker in range(3):
        assert indices[:, walker].tolist() == [[0, 1], [2, 3], [4, 0]] * 2
    assert batches.indices(4, 1)[0][0, 0].tolist() == [2, 3]
    with pytest.raises(
        InputError, match=r"shuffle is off, but batch_sampling draws the examples at random."
    ):
        Batches(5, 2, 1, seed=0, sampling="replacement", shuffle=False)


def sweeps_of(batches, count: int) -> np.ndarray:
    """The batches of `count` sweeps as numbers of equal batches, `(count, 2 m, walkers)`."""
    length = 2 * batches.steps_per_epoch
    indices, sizes = batches.indices(0, count * length)
    seen: dict = {}
    numbers = [
        [
            seen.setdefault((w, frozenset(row[w, :size].tolist())), len(seen))
            for w in range(row.shape[0])
        ]
        for row, size in zip(indices, sizes, strict=True)
    ]
    return np.array(numbers).reshape(count, length, -1)


@pytest.mark.parametrize(
    ("num_examples", "batch_size"), [(64, 16), (10, 3), (7, 4), (5, 1), (9, 7)]
)
def test_symmetric_sweeps_go_forwards_and_backwards_over_one_partition(num_examples, batch_size):
    batches = Batches(num_examples, batch_size, 3, seed=2, sampling="symmetric")
    m = batches.steps_per_epoch
    indices, sizes = batches.indices(0, 40 * m)
    assert indices.shape == (40 * m, 3, batch_size)
    assert sizes.max() - sizes.min() <= 1
    assert all((indices[s, :, sizes[s] :] == 0).all() for s in range(len(sizes)))
    sweeps = sweeps_of(batches, 20)
    np.testing.assert_array_equal(sweeps, sweeps[:, ::-1])
    for walker in range(3):
        # The same m batches in each sweep, that of each example once forwards, and orders that
        # differ.
        assert len(np.unique(sweeps[:, :, walker])) == m
        assert all(len(set(sweep)) == m for sweep in sweeps[:, :m, walker].tolist())
        first = [indices[s, walker, : sizes[s]] for s in range(m)]
        assert sorted(np.concatenate(first)) == list(range(num_examples))
        assert m < 3 or len(np.unique(sweeps[:, :m, walker], axis=0)) > 1
    assert not (indices[:, 0] == indices[:, 1]).all()
    shared = Batches(
        num_examples, batch_size, 3, seed=2, sampling="symmetric", shared=True
    ).indices(0, 40 * m)[0]
    np.testing.assert_array_equal(shared[:, 0], indices[:, 0])


def chi_square(orders) -> float:
    """Of counts of the 24 orders of 4 things, each expected equally often."""
    counts = np.unique(orders, axis=0, return_counts=True)[1]
    expected = len(orders) / 24
    return ((counts - expected) ** 2 / expected).sum() + (24 - len(counts)) * expected


@pytest.mark.parametrize(("num_examples", "batch_size"), [(8, 2), (7, 2), (10, 3)])
def test_orders_of_symmetric_sweeps_are_uniform(num_examples, batch_size):
    """All 24 orders of 4 batches (sizes 2 2 2 2, 2 2 2 1, 3 3 2 2) in 4,800 sweeps of each of 2
    walkers: chi-square with 23 degrees of freedom, below its quantile of 1 - 1e-4. The shuffle that
    swaps each place with any is caught.
    """
    bound = chi2.ppf(1 - 1e-4, 23)
    sweeps = sweeps_of(Batches(num_examples, batch_size, 2, seed=3, sampling="symmetric"), 4800)[
        :, :4
    ]
    for walker in range(2):
        assert chi_square(sweeps[:, :, walker]) < bound
    assert (sweeps[:, :, 0] - sweeps[:, :, 1]).std() > 0
    random, wrong = np.random.default_rng(1), np.tile(np.arange(4), (4800, 1))
    for order in wrong:
        for place in range(4):
            other = random.integers(4)
            order[[place, other]] = order[[other, place]]
    assert chi_square(wrong) > 2 * bound


def test_symmetric_batches_differ_by_one_example_and_their_sums_are_unbiased(least_squares):
    """The sum of a batch over `mean_size`, averaged over a sweep, is the mean over all examples;
    over its own size it would count the examples of shorter batches more, for the whole run.
    """
    batches = Batches(N, 4, 1, seed=0, sampling="symmetric")
    assert batches.mean_size == 3
    batches = Batches(5, 2, 1, seed=0, sampling="symmetric")
    indices, sizes = batches.indices(0, 6)
    assert sorted(sizes.tolist()) == [1, 1, 2, 2, 2, 2]
    values = least_squares[1][:5]
    sums = np.array(
        [values[row[0, :size]].sum(0) for row, size in zip(indices, sizes, strict=True)]
    )
    np.testing.assert_allclose(
        (sums / batches.mean_size).mean(0), values.mean(0), rtol=0, atol=1e-12
    )
    assert np.abs((sums / sizes[:, None]).mean(0) - values.mean(0)).max() > 0.1


def test_symmetric_sweeps_in_the_order_of_the_data():
    batches = Batches(6, 2, 2, seed=0, sampling="symmetric", shuffle=False)
    indices, _ = batches.indices(0, 12)
    for walker in range(2):
        assert indices[:, walker].tolist() == [[0, 1], [2, 3], [4, 5], [4, 5], [2, 3], [0, 1]] * 2
    assert Batches(6, 6, 1, seed=0, sampling="symmetric").full
