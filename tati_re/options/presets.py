"""Methods that are known by a name of their own, each a set of options: `--sampler RENHD` stands
for its parts. `tati-sample --sampler RENHD --print-config` shows them; an option that is given goes
before the preset's.
"""

from collections.abc import Mapping, Sized
from typing import Any

from tati_re.core.errors import InputError

_LADDER = {"num_replicas": 12, "temperature_ratio": 1.2}
_COMPENSATED = {"swap_rule": "barker_compensated", "exchange_every": 200}
_PAIR = {"num_replicas": 2, "swap_rule": "corrected", "swap_schedule": "all_pairs"}

PRESETS: dict[str, dict[str, Any]] = {
    "RENHD": {"sampler": "BADODAB", "thermostat_bath": "noise", **_LADDER, **_COMPENSATED},
    "renhd_euler": {"sampler": "SGNHT", **_LADDER, **_COMPENSATED},
    "RELD": {"sampler": "SGLD", **_LADDER, **_COMPENSATED},
    "reSGLD": {"sampler": "SGLD", **_PAIR, "temperature_ratio": 10.0, "exchange_every": 1},
    "reSGHMC": {"sampler": "SGHMC", **_PAIR, "temperature_ratio": 5.0, "exchange_every": 10},
    "RE-HMC": {
        **{"sampler": "HMC", "num_replicas": 16, "temperature": 0.01, "max_temperature": 1.0},
        **{
            "replica_start": "descent",
            "prior": "box",
            "prior_bound": 50.0,
            "prior_scaling": "fan_in",
        },
        **{
            "mass": "fan_in",
            "num_leapfrog_steps": 100,
            "target_acceptance": 0.65,
            "step_size_tuning": "baldock",
        },
        **{"exchange_every": 1, "swap_schedule": "random_neighbours"},
    },
    "MILE": {
        **{
            "sampler": "MCLMC",
            "num_walkers": 8,
            "walker_start": "fit",
            "mass": "fisher",
            "target_bias": 0.36,
        },
        **{"num_burnin_steps": 50_000, "num_steps": 60_000},
    },
    "SMS-UBU": {
        "sampler": "UBU",
        "batch_size": 200,
        "batch_sampling": "symmetric",
        "control_variate": True,
        "num_walkers": 4,
        "walker_start": "fit",
        "prior_std": 0.2,
        "friction": 5.0,
        "step_size": 1.25e-4,
    },
    "simulated_tempering": {
        "sampler": "BAOAB",
        "num_replicas": 6,
        "temperature_ratio": 1.2,
        "exchange": "tempering",
    },
    "EQN": {
        "sampler": "BAOAB",
        "num_walkers": 8,
        "walker_start": "jitter",
        "covariance_blending": 10.0,
    },
    "WTE": {
        "sampler": "BAOAB",
        "num_replicas": 4,
        "temperature_ratio": 1.5,
        "bias": "well_tempered",
    },
}
"""Options by the name of a preset."""

NOTES = {
    "RENHD": "replica exchange Nosé-Hoover dynamics (Luo et al. 2019), integrated by BADODAB "
    "instead of Euler steps; compensated swap rule with a noise variance of 1 (in the "
    "paper 0.2)",
    "renhd_euler": "algorithm 2 of RENHD as published, with Euler steps; its configurational "
    "temperature is too low by half the friction of a step",
    "RELD": "a baseline of RENHD, here SGLD on the same ladder. The paper freezes the thermostat "
    "of its step; the distribution of that update is not known",
    "reSGLD": "Deng et al. 2020: two SGLD chains at temperatures 1 and 10, corrected swap rule",
    "reSGHMC": "Deng et al. 2020: two SGHMC chains, the second five times as hot; F is correction_factor, step_sizes "
    "sets the step size of each chain, temperature_schedule the annealing",
    "RE-HMC": "Baldock and Marzari 2019: 16 temperatures from 0.01 to 1, step sizes tuned for each "
    "and then frozen; uniform prior |θ| < 50/sqrt(k) and masses k, with k = fan-in + 1; "
    "each replica starts at the end of a separate descent",
    "MILE": "Sommer et al., ICLR 2025: microcanonical chains from the members of a deep "
    "ensemble. The step is large: an energy error of 0.1 per parameter and step bounds "
    "the error of variances by 36 %. The paper uses no mass",
    "SMS-UBU": "Paulin, Whalley, Chada, Leimkuhler and Zygalakis, AISTATS 2025: UBU on symmetric sweeps of "
    "mini-batches, with a control variate at the start; prior precision 25, friction its square root. The authors "
    "start at averaged weights (SWA), the center of their prior; here chains start at fits, and the prior is around 0",
    "simulated_tempering": "Marinari and Parisi 1992: every walker moves on the ladder independently",
    "EQN": "ensemble quasi-Newton (Leimkuhler, Matthews and Weare 2018): eight walkers of BAOAB, each preconditioned by "
    "the covariance of the others",
    "WTE": "well-tempered ensemble (Bonomi and Parrinello 2010) on a ladder of four temperatures. A bias on the "
    "potential energy grows in the burn-in and makes neighboring rungs overlap",
}
"""A note on each preset."""

NAMES = ("auto", *PRESETS)
"""Values of the option `preset`."""

_BY_NAME = {name.upper(): name for name in PRESETS}


def note_of(name: Any) -> str | None:
    known = _BY_NAME.get(name.upper()) if isinstance(name, str) else None
    return known and f"{known}: {NOTES[known]}"


def _is_one_of(value: Any, *texts: str) -> bool:
    """Whether a value that nobody has checked yet is one of some texts."""
    return isinstance(value, str) and value in texts


def _is_filled(value: Any) -> bool:
    """Whether a value that nobody has checked yet is given, and not an empty sequence."""
    return value is not None and not (isinstance(value, Sized) and len(value) == 0)


def expanded(values: Mapping[str, Any]) -> dict[str, Any]:
    """The options with the preset that `preset` or `sampler` names put in place of it; what else is
    given goes first. A ladder that is given in another way takes the place of the preset's; so does
    another temperature or prior.
    """
    name = values.get("preset")
    name = _BY_NAME.get(name.upper(), name) if isinstance(name, str) else name
    if isinstance(name, str) and name in NAMES:
        if values.get("sampler") is not None:
            problem = "preset and sampler both name the sampler."
            raise InputError(problem, f"{name} and {values['sampler']}", "one of the two")
        values = {
            **{key: value for key, value in values.items() if key != "preset"},
            "sampler": name,
        }
    name = values.get("sampler")
    preset = PRESETS.get(_BY_NAME.get(name.upper(), ""), {}) if isinstance(name, str) else {}
    if _is_one_of(
        values.get("bias"), "WTE"
    ):  # the bias of the preset, on its ladder where none is given
        ladder = {**PRESETS["WTE"], **({"sampler": name} if isinstance(name, str) else {})}
        preset = {**ladder, **preset}
        values = {**values, "bias": "well_tempered"}
    if not preset:
        return dict(values)
    left_out = {"sampler"}
    if _is_filled(values.get("temperatures")):
        left_out |= {"num_replicas", "temperature_ratio", "max_temperature", "temperature"}
    if values.get("max_temperature") is not None:
        left_out.add("temperature_ratio")
    if values.get("temperature_ratio") is not None:
        left_out.add("max_temperature")
    if _is_one_of(values.get("tempering"), "likelihood"):
        left_out |= {"temperature_ratio", "max_temperature"}
    if values.get("inverse_temperature") is not None:
        left_out.add("temperature")
    if not _is_one_of(values.get("prior", "box"), "box"):
        left_out |= {"prior_bound", "prior_scaling"}
    if _is_one_of(values.get("exchange"), "none", "infinite"):
        left_out |= {"swap_rule", "swap_schedule"}
    settings = {
        key: value for key, value in preset.items() if key not in left_out or key == "sampler"
    }
    return {**settings, **values, "sampler": preset["sampler"]}
