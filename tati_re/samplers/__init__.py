"""Samplers: pure-Python steps, one scheme or family a file.

`make_sampler(name, ...)` turns an option into a sampler: a splitting word (BAOAB, OBABO, GLA2, ...), SGLD, or one with
a Metropolis test (HMC, GHMC, MALA, ...). Adding a family touches one new file (copy `skeleton.py`) and one line of
`FAMILIES`.
"""

from __future__ import annotations

from tati_re.core.errors import InputError, nearest
from tati_re.core.protocol import Energy, Info, Rung, Sampler, State
from tati_re.samplers.ccadl import CCAdL
from tati_re.samplers.first_order_hmc import FirstOrderHMC
from tati_re.samplers.ghmc import GeneralizedHMC
from tati_re.samplers.hmc import HamiltonianMonteCarlo
from tati_re.samplers.importing import imported
from tati_re.samplers.leimkuhler_matthews import LeimkuhlerMatthews
from tati_re.samplers.mala import MALA
from tati_re.samplers.psgld import PreconditionedSGLD
from tati_re.samplers.rwmh import RandomWalkMetropolis
from tati_re.samplers.sghmc import SGHMC
from tati_re.samplers.sgld import SGLD
from tati_re.samplers.sgnht import SGNHT
from tati_re.samplers.splitting import ALIASES, LETTERS, LangevinState, Splitting, expand, parse_word
from tati_re.samplers.tact_hmc import TactHMC
from tati_re.samplers.wrappers.control_variate import ControlVariate
from tati_re.samplers.wrappers.eqn import EnsembleQuasiNewton
from tati_re.samplers.wrappers.mass import Massive
from tati_re.samplers.wrappers.simulated_tempering import SimulatedTempering
from tati_re.samplers.wrappers.step_size_tuning import StepSizeTuning

__all__ = [
    "MALA",
    "SGHMC",
    "SGLD",
    "SGNHT",
    "CCAdL",
    "ControlVariate",
    "Energy",
    "EnsembleQuasiNewton",
    "FirstOrderHMC",
    "GeneralizedHMC",
    "HamiltonianMonteCarlo",
    "Info",
    "LangevinState",
    "LeimkuhlerMatthews",
    "Massive",
    "PreconditionedSGLD",
    "RandomWalkMetropolis",
    "Rung",
    "Sampler",
    "SimulatedTempering",
    "Splitting",
    "State",
    "StepSizeTuning",
    "TactHMC",
    "make_sampler",
    "parse_word",
    "tuned",
]

FAMILIES = {
    "SGLD": lambda options: SGLD(),
    "LM": lambda options: LeimkuhlerMatthews(),
    "pSGLD": lambda options: PreconditionedSGLD(
        options.preconditioner,
        options.preconditioner_decay,
        options.preconditioner_offset,
        options.preconditioner_correction,
    ),
    "SGHMC": lambda options: SGHMC(options.friction, options.gradient_noise),
    "SGNHT": lambda options: SGNHT(options.friction, options.thermal_mass),
    "CCAdL": lambda options: CCAdL(options.friction, options.thermal_mass, options.covariance_window),
    "HMC": lambda options: HamiltonianMonteCarlo(options.num_leapfrog_steps, options.leapfrog_jitter, options.walls),
    "HMC1": lambda options: FirstOrderHMC(options.num_leapfrog_steps, options.leapfrog_jitter, options.walls),
    "GHMC": lambda options: GeneralizedHMC(options.friction, options.num_leapfrog_steps),
    "MALA": lambda options: MALA(),
    "RWMH": lambda options: RandomWalkMetropolis(),
    "TACT-HMC": lambda options: TactHMC(
        options.friction,
        options.thermal_mass,
        (options.max_temperature or 6.0 * options.kT) / options.kT,
        options.tempering_plateau,
        options.tempering_steps,
        options.tempering_nodes,
    ),
}
NAMED_WORDS = ("BAOAB", "ABOBA", "OBABO", "OABAO", "BADODAB", *ALIASES)


def make_sampler(name: str, options) -> Sampler:
    """Returns the sampler that an option names, with its step size tuned where `options.target_acceptance` is given.

    Args:
        name: A splitting word, GLA1, GLA2, mCCAdL, or a name of `FAMILIES`, in any case; or `my_module:MySampler`,
            see `tati_re.samplers.importing`.
        options: Where the options of the sampler are looked up.

    Raises:
        InputError: No such sampler (with the nearest names), a word that is no method (with the reason), or a module
            that brings no sampler.
    """
    return tuned(_of_name(name, options), options)


def tuned(sampler: Sampler, options) -> Sampler:
    """The sampler with its step size tuned where `options.target_acceptance` is given.

    Raises:
        InputError: The sampler has no Metropolis test, or tunes itself.
    """
    target = getattr(options, "target_acceptance", None)
    if target is None:
        return sampler
    if getattr(sampler, "adapts", False):
        raise InputError(
            "target_acceptance: the sampler tunes itself.", received=target, expected="one of the two: leave it out"
        )
    return StepSizeTuning(sampler, target, options.step_size_tuning)


def _of_name(name: str, options) -> Sampler:
    if ":" in name:
        return imported(name, options)
    upper = name.upper()
    families = {family.upper(): make for family, make in FAMILIES.items()}
    if upper in families:
        return families[upper](options)
    looks_like_word = len(set(upper) - set(LETTERS)) <= 1 and sum(letter in LETTERS for letter in upper) >= 2
    if upper in map(str.upper, ALIASES) or (looks_like_word and not nearest(name, FAMILIES)):
        if "D" not in expand(name):
            return Splitting(name, options.friction)
        noise = None if options.thermostat_bath == "friction" else options.friction * options.kT
        return Splitting(name, options.friction, options.thermal_mass, noise)
    names = [*FAMILIES, *NAMED_WORDS]
    raise InputError(
        f"sampler: there is none of this name.{nearest(name, names)}",
        received=repr(name),
        expected=f"{', '.join(names)}, another splitting word over A, B, O, C, D, or my_module:MySampler",
    )
