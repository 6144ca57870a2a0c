"""Samplers: pure-Python steps, one scheme or family a file.

`make_sampler(name, ...)` turns an option into a sampler: a splitting word (BAOAB, OBABO, GLA2, ...), SGLD or HMC.
Adding a family touches
one new file (copy `skeleton.py`) and one line of `FAMILIES`.
"""

from __future__ import annotations

from tati_re.errors import InputError, nearest
from tati_re.samplers.hmc import HamiltonianMonteCarlo
from tati_re.samplers.protocol import Energy, Info, Rung, Sampler, State
from tati_re.samplers.sgld import SGLD
from tati_re.samplers.splitting import ALIASES, LETTERS, LangevinState, Splitting, parse_word

__all__ = [
    "SGLD",
    "Energy",
    "HamiltonianMonteCarlo",
    "Info",
    "LangevinState",
    "Rung",
    "Sampler",
    "Splitting",
    "State",
    "make_sampler",
    "parse_word",
]

FAMILIES = {
    "SGLD": lambda options: SGLD(),
    "HMC": lambda options: HamiltonianMonteCarlo(options.num_leapfrog_steps, options.leapfrog_jitter),
}
NAMED_WORDS = ("BAOAB", "ABOBA", "OBABO", "OABAO", *ALIASES)


def make_sampler(name: str, options) -> Sampler:
    """Returns the sampler that an option names.

    Args:
        name: A splitting word in any case, GLA1, GLA2, SGLD or HMC.
        options: Where `friction`, `num_leapfrog_steps` and `leapfrog_jitter` are looked up.

    Raises:
        InputError: No such sampler (with the nearest names), or a word that is no method (with the reason).
    """
    upper = name.upper()
    if upper in FAMILIES:
        return FAMILIES[upper](options)
    looks_like_word = len(set(upper) - set(LETTERS)) <= 1 and sum(letter in LETTERS for letter in upper) >= 2
    if upper in ALIASES or (looks_like_word and not nearest(name, FAMILIES)):
        return Splitting(name, options.friction)
    names = [*FAMILIES, *NAMED_WORDS]
    raise InputError(
        f"sampler: there is none of this name.{nearest(name, names)}",
        received=repr(name),
        expected=f"{', '.join(names)}, or another splitting word over A, B, O",
    )
