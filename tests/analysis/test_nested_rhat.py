"""Nested R-hat of short chains, against its definition and where plain R-hat fails."""

import math

import numpy as np
import pytest

from tati_re.analysis import nested_r_hat
from tati_re.core.errors import InputError


def by_definition(chains, groups):
    """Margossian and others, equations 3.1 to 3.3, term by term."""
    parts = np.split(chains, groups)
    means = [part.mean() for part in parts]
    total = np.mean(means)
    between = sum((mean - total) ** 2 for mean in means) / (groups - 1)
    within = 0.0
    for part, mean in zip(parts, means, strict=True):
        own = [chain.mean() for chain in part]
        within += sum((one - mean) ** 2 for one in own) / (len(part) - 1)
        within += np.mean([chain.var(ddof=1) for chain in part])
    return math.sqrt(1 + between / (within / groups))


def short_chains(random, groups, chains, draws, phi):
    """Autoregressive chains of variance 1; each group starts at a place from N(0, 9)."""
    state = np.repeat(3 * random.standard_normal(groups), chains)
    rows = []
    for _ in range(draws):
        noise = random.standard_normal(len(state))
        state = phi * state + math.sqrt(1 - phi**2) * noise
        rows.append(state)
    return np.stack(rows, axis=1)


def test_agrees_with_the_definition():
    chains = short_chains(np.random.default_rng(1), 4, 8, 5, 0.5)
    assert nested_r_hat(chains, 4).value == pytest.approx(by_definition(chains, 4), rel=1e-12)


def test_chains_of_one_draw_can_be_judged():
    """Independent draws of 4 groups of 200 chains: the excess is 1/200, and 3 times it is rare."""
    random = np.random.default_rng(2)
    assert nested_r_hat(random.standard_normal((800, 1)), 4).value < 1.01
    stuck = short_chains(random, 4, 200, 1, 0.95)
    found = nested_r_hat(stuck, 4)
    assert found.value > 2
    assert found.factor > 100


def test_factor_says_how_many_more_chains():
    """With 10 chains of one draw the limit of 1.01 takes about 5 times as many."""
    random = np.random.default_rng(3)
    factors = [nested_r_hat(random.standard_normal((500, 1)), 50).factor for _ in range(40)]
    assert np.mean(factors) == pytest.approx(0.1 / (1.01**2 - 1), rel=0.25)


def test_chains_that_never_move_have_no_value():
    assert math.isnan(nested_r_hat(np.ones((4, 3)), 2).value)
    assert nested_r_hat(np.repeat([0.0, 1.0], 2)[:, None] * np.ones(3), 2).value == math.inf


@pytest.mark.parametrize(
    ("chains", "groups", "words"),
    [
        (np.zeros(4), 2, "chains: wrong shape"),
        (np.zeros((0, 4)), 2, "chains: wrong shape"),
        (np.full((4, 4), np.nan), 2, "not all draws are finite"),
        (np.zeros((4, 4)), 3, "cannot be split"),
        (np.zeros((4, 4)), 1, "cannot be split"),
        (np.zeros((4, 4)), 2.0, "cannot be split"),
        (np.zeros((4, 4)), "a", "cannot be split"),
        (np.zeros((2, 1)), 2, "one draw has no variance"),
    ],
)
def test_hostile_input_gets_one_sentence(chains, groups, words):
    with pytest.raises(InputError, match=words):
        nested_r_hat(chains, groups)
