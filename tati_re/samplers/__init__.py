"""Samplers: pure-Python steps, one scheme or family a file.

`make_sampler` turns an option into a sampler, such as BAOAB, SGLD or HMC. Adding a family touches
one new file (copy `skeleton.py`) and one line of `tati_re/options/families.py`. An argument out of
the range that its line names is an `InputError`, of every sampler.
"""

from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.facets import BurninTuning as BurninTuning
from tati_re.core.facets import Dynamics as Dynamics
from tati_re.core.facets import Temperatures as Temperatures
from tati_re.core.facets import Turns as Turns
from tati_re.core.front_door import front_door
from tati_re.core.lazy import names_exported
from tati_re.core.method import Method as Method
from tati_re.core.method import Sampler as Sampler
from tati_re.core.method import Wrapper as Wrapper
from tati_re.core.protocol import Energy as Energy
from tati_re.core.protocol import Info as Info
from tati_re.core.protocol import Rung as Rung
from tati_re.core.protocol import State as State
from tati_re.options.families import DEFAULT, FAMILIES, WORDS, check_name, families, family
from tati_re.samplers.ccadl import CCAdL as CCAdL
from tati_re.samplers.first_order_hmc import FirstOrderHMC as FirstOrderHMC
from tati_re.samplers.ghmc import GeneralizedHMC as GeneralizedHMC
from tati_re.samplers.hmc import HamiltonianMonteCarlo as HamiltonianMonteCarlo
from tati_re.samplers.leimkuhler_matthews import LeimkuhlerMatthews as LeimkuhlerMatthews
from tati_re.samplers.mala import MALA as MALA
from tati_re.samplers.mams import MAMS as MAMS
from tati_re.samplers.microcanonical import MCLMC as MCLMC
from tati_re.samplers.psgld import PreconditionedSGLD as PreconditionedSGLD
from tati_re.samplers.rwmh import RandomWalkMetropolis as RandomWalkMetropolis
from tati_re.samplers.sghmc import SGHMC as SGHMC
from tati_re.samplers.sgld import SGLD as SGLD
from tati_re.samplers.sgnht import SGNHT as SGNHT
from tati_re.samplers.splitting import ALIASES, LETTERS, expand
from tati_re.samplers.splitting import LangevinState as LangevinState
from tati_re.samplers.splitting import Splitting as Splitting
from tati_re.samplers.splitting import parse_word as parse_word
from tati_re.samplers.tact_hmc import TactHMC as TactHMC
from tati_re.samplers.user_samplers import imported
from tati_re.samplers.wrappers.control_variate import ControlVariate as ControlVariate
from tati_re.samplers.wrappers.eqn import EnsembleQuasiNewton as EnsembleQuasiNewton
from tati_re.samplers.wrappers.mass import Massive as Massive
from tati_re.samplers.wrappers.simulated_tempering import SimulatedTempering as SimulatedTempering
from tati_re.samplers.wrappers.step_size_tuning import StepSizeTuning as StepSizeTuning

__all__ = [*names_exported(__name__), "make_sampler", "tuned"]


@front_door
def make_sampler(name: str, options) -> Method:
    """Creates the sampler named in the options.

    Its step size is tuned if `options.target_acceptance` is set.

    Args:
        name: A splitting word, GLA1, GLA2, mCCAdL, or a name from `families()`, in any case; or
            `my_module:MySampler`.
        options: The options of the sampler.

    Returns:
        The sampler.

    Raises:
        InputError: There is no such sampler (the message suggests the closest name), the word is
            not a method (the message says why), or the module has no sampler.
    """
    return tuned(_of_name(name, options), options)


@front_door
def tuned(sampler: Method, options) -> Method:
    """Returns the sampler, with a tuned step size if `options.target_acceptance` is set.

    Args:
        sampler: A sampler with a Metropolis test.
        options: The options of the run.

    Returns:
        The sampler, in a `StepSizeTuning` if it is tuned.

    Raises:
        InputError: The sampler has no Metropolis test, or tunes its step size already.
    """
    target = options.target_acceptance
    if target is None:
        return sampler
    if sampler.adapts and not sampler.dynamics.finds_length:
        raise InputError(
            "target_acceptance: the sampler tunes itself.", target, "no target_acceptance"
        )
    return StepSizeTuning(
        sampler, target_acceptance=target, step_size_tuning=options.step_size_tuning
    )


def _of_name(name: str, options) -> Method:
    name = DEFAULT if name.lower() == "auto" else name
    check_name(name)
    where = name if ":" in name else family(name)
    if where is not None:
        if where in FAMILIES.values() and options.thermostat_bath == "noise":
            raise _no_bath(name)
        return imported(where, options)
    nuts_problem = "sampler: NUTS is not available."
    expected = "HMC or MAMS with num_leapfrog_steps auto, or MCLMC, without a Metropolis test"
    refuse_if(name.upper() == "NUTS", nuts_problem, repr(name), expected)
    problem = "sampler: optimizers do not sample."
    refuse_if(
        name.lower() in ("adam", "rmsprop", "sgd"),
        problem,
        repr(name),
        f"sim.fit(optimizer={name!r})",
    )
    if name.upper() == "EQN":
        expected = "covariance_blending above 0, such as 10, with sampler BAOAB and several walkers (num_walkers)"
        raise InputError(
            "sampler: ensemble quasi-Newton preconditions another sampler.",
            repr(name),
            expected,
        )
    upper = name.upper()
    names = [*families(), *WORDS]
    looks_like_word = (
        len(set(upper) - set(LETTERS)) <= 1 and sum(letter in LETTERS for letter in upper) >= 2
    )
    if upper not in map(str.upper, ALIASES) and (not looks_like_word or nearest(name, families())):
        expected = f"{', '.join(names)}, another splitting word over A, B, O, U, C, D, or my_module:MySampler"
        raise InputError(f"sampler: unknown name.{nearest(name, names)}", repr(name), expected)
    thermostatted = "D" in expand(name)
    noise = None
    if options.thermostat_bath == "noise":
        if not thermostatted:
            raise _no_bath(name)
        # "auto" is refused where the word is made.
        noise = None if isinstance(options.friction, str) else options.friction * options.kT
    return Splitting(
        name,
        friction=options.friction,
        thermal_mass=options.thermal_mass if thermostatted else None,
        bath_noise=noise,
    )


def _no_bath(name: str) -> InputError:
    expected = "friction, or a splitting word with D, such as BADODAB"
    return InputError(f"thermostat_bath: {name} has no such choice.", "noise", expected)
