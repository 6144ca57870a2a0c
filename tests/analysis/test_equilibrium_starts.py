"""Chains from equilibrium draws against chains from other starts: level, power, and no verdict."""

import numpy as np
import pytest

from tati_re.analysis.equilibrium_starts import LIMIT, compare_starts
from tati_re.analysis.until import Quantity


def quantities(random, centers, draws=400, count=8, memory=0.0, scale=1.0):
    """Autoregressive chains about the centers, one for each chain, of independent quantities."""
    found = []
    for number in range(count):
        noise = random.standard_normal((len(centers), draws))
        values = noise.copy()
        for step in range(1, draws):
            values[:, step] = memory * values[:, step - 1] + np.sqrt(1 - memory**2) * noise[:, step]
        shifted = scale * values + (np.array(centers)[:, None] if number == 0 else 0.0)
        found.append(Quantity(f"q{number}", shifted))
    return found


def verdict(result):
    if result.rhat >= LIMIT and result.rhat > result.by_chance:
        return "failed"
    return "passed" if max(result.rhat, result.by_chance) < LIMIT else "not measured"


def test_chains_of_one_law_agree():
    """Each of 10 pairs of runs exceeds what chance allows in at most 1 of 100 cases."""
    random = np.random.default_rng(1)
    above = 0
    for _ in range(10):
        result = compare_starts(
            quantities(random, [0.0] * 4, memory=0.5), quantities(random, [0.0] * 4, memory=0.5)
        )
        assert verdict(result) == "passed"
        above += result.rhat > result.by_chance
    # Three or more of 10 have a probability of 1e-4.
    assert above < 3


def test_one_chain_in_another_mode_is_enough():
    random = np.random.default_rng(2)
    result = compare_starts(
        quantities(random, [0.0] * 4), quantities(random, [0.0, 0.0, 20.0, 0.0])
    )
    assert verdict(result) == "failed"
    assert result.rhat_of == "q0"


def test_another_width_about_the_same_center_is_seen():
    random = np.random.default_rng(3)
    result = compare_starts(quantities(random, [0.0] * 4), quantities(random, [0.0] * 4, scale=0.1))
    assert verdict(result) == "failed"


@pytest.mark.parametrize("memory", [0.0, 0.97])
def test_a_difference_is_seen_if_there_are_enough_draws(memory):
    random = np.random.default_rng(4)
    result = compare_starts(
        quantities(random, [0.0] * 4, memory=memory),
        quantities(random, [1.5] * 4, memory=memory),
    )
    assert verdict(result) == ("failed" if memory == 0.0 else "not measured")


def test_few_draws_are_no_verdict():
    random = np.random.default_rng(5)
    few = compare_starts(
        quantities(random, [0.0] * 4, draws=30), quantities(random, [0.0] * 4, draws=30)
    )
    assert verdict(few) == "not measured"
    assert compare_starts([], []).why == "no quantity was stored by both groups of chains"
    short = quantities(random, [0.0] * 4, draws=5)
    assert compare_starts(short, short).why == "too few draws"


def test_weights_and_numbers_that_are_not_finite_are_no_verdict():
    draws = np.random.default_rng(6).standard_normal((2, 50))
    plain = [Quantity("a", draws)]
    weighted = [Quantity("a", draws, np.arange(100.0).reshape(2, 50))]
    assert compare_starts(plain, weighted).why == "the draws have weights"
    assert (
        compare_starts(plain, [Quantity("a", np.full((2, 50), np.inf))]).why
        == "a quantity is not finite"
    )
