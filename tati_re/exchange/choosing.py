"""Replica exchange from options: the ladder, the swap rule, and checks."""

import math

from tati_re.core.errors import refuse_if
from tati_re.core.facets import temperatures_of
from tati_re.core.method import Method
from tati_re.core.potential import Prior
from tati_re.exchange.advice import ladder_advice
from tati_re.exchange.correction import Correction
from tati_re.exchange.ladder import Ladder, make_ladder
from tati_re.exchange.replicas import ReplicaExchange
from tati_re.exchange.schedule import make_swap_schedule
from tati_re.exchange.swap_rules import (
    OF_CORRECTION,
    BarkerCompensated,
    Metropolis,
    Penalty,
    make_swap_rule,
)
from tati_re.exchange.well_tempered import WellTempered
from tati_re.options.make import Options
from tati_re.options.representable import LARGEST
from tati_re.samplers.wrappers.simulated_tempering import SimulatedTempering

_EVERY = 20
_OF_LADDER = ("num_replicas", "temperature_ratio", "max_temperature", "temperatures", "step_sizes")
_OF_SWAPS = (
    "adapt_ladder",
    "exchange",
    "swap_rule",
    "swap_schedule",
    "exchange_every",
    "exchange_batch_size",
    "swap_variance",
    *OF_CORRECTION,
    "trajectory_rungs",
)
"""Options that a ladder may use or not."""


def ladder_of(options: Options) -> Ladder | None:
    rise = ((options.num_replicas or 2) - 1) * math.log10(options.temperature_ratio or 1.0)
    problem = "temperature_ratio: the highest temperature exceeds the largest number."
    received = f"10^{rise:.4g} times the lowest"
    refuse_if(
        rise > math.log10(LARGEST[options.dtype]),
        problem,
        received,
        "a smaller one, or fewer replicas",
    )
    ladder_options = {name: value or None for name, value in options.values_of(_OF_LADDER).items()}
    if not any(ladder_options.values()) and options.tempering == "posterior":
        return None
    step_size = None if options.step_sizes else options.first_step_size
    ladder = make_ladder(
        **ladder_options, tempering=options.tempering, temperature=options.kT, step_size=step_size
    )
    refuse_if(
        ladder.num_rungs < 2,
        "num_replicas: a ladder needs at least two rungs.",
        ladder.num_rungs,
        "2 or more temperatures",
    )
    return ladder


def with_replicas(
    sampler: Method, options: Options, exact: bool, prior: Prior, regularized: bool = False
) -> Method:
    """The sampler on the ladder of the options, if they have one.

    Args:
        sampler: A sampler of one temperature, or one with a ladder of its own.
        options: The options of the run.
        exact: Whether the sampler sees all data at every step.
        prior: The prior of the parameters; the hottest rung of likelihood tempering draws from it.
        regularized: Whether V has more terms than the prior.

    Returns:
        The sampler itself, a `ReplicaExchange` or a `SimulatedTempering`.

    Raises:
        InputError: Options that exclude each other.
    """
    if sampler.label_names:
        _check_own_ladder(sampler, options)
        return sampler

    biased = options.bias != "none"
    ladder = ladder_of(options)
    if ladder is None and not biased:
        return sampler

    ladder = ladder or make_ladder(temperature=options.kT, step_size=options.first_step_size)
    if biased:
        _check_bias(options)
    if options.tempering == "likelihood":
        _check_likelihood_ladder(options, ladder, prior)
    if options.adapt_ladder:
        _check_burnin(options, "adapt_ladder: the ladder adapts during the burn-in only.")

    if options.exchange == "tempering":
        return _simulated_tempering(sampler, options, ladder)
    return _replica_exchange(sampler, options, ladder, exact, regularized)


def _check_own_ladder(sampler: Method, options: Options) -> None:
    """Refuses options of a ladder next to a sampler that has one."""
    conflicting = [
        name
        for name, value in options.values_of(_OF_LADDER).items()
        if value and name not in sampler.settings
    ]
    if options.tempering != "posterior":
        conflicting.append("tempering")
    if options.bias != "none":
        conflicting.append("bias")

    problem = f"{', '.join(conflicting)}: the sampler has its own temperatures."
    refuse_if(conflicting, problem, sampler.name, "another sampler, or no ladder and no bias")
    refuse_if(
        isinstance(sampler, ReplicaExchange) and sampler.num_ladders != options.num_walkers,
        "num_walkers: this sampler defines its own temperature ladder.",
        options.num_walkers,
        "their number",
    )


def _check_bias(options: Options) -> None:
    """Refuses what a bias on U cannot be combined with."""
    moves = "exchange tempering" if options.exchange == "tempering" else ""
    if options.tempering == "likelihood":
        moves = "tempering likelihood"

    refuse_if(
        moves,
        "bias: well_tempered acts on U at fixed temperatures.",
        moves,
        "tempering posterior, exchange pairs, infinite or none",
    )
    _check_burnin(options, "bias: it grows during the burn-in only.")


def _check_likelihood_ladder(options: Options, ladder: Ladder, prior: Prior) -> None:
    """Refuses an improper prior on the hottest rung, and a center of one likelihood weight."""
    refuse_if(
        not prior.proper and ladder.draws_prior,
        "tempering: the hottest rung is the prior, which must be proper.",
        f"prior {prior}",
        "a proper prior, such as gaussian",
    )
    refuse_if(
        options.control_variate,
        "control_variate: its center is defined for one likelihood weight only.",
        "tempering likelihood",
        "tempering posterior",
    )


def _simulated_tempering(sampler: Method, options: Options, ladder: Ladder) -> SimulatedTempering:
    """Walkers that move over the rungs by themselves."""
    _check_burnin(
        options, "exchange: tempering learns the weights of the rungs during the burn-in."
    )
    refuse_if(
        options.step_sizes,
        "step_sizes: simulated tempering uses a single step size.",
        options.step_sizes,
        "step_size",
    )

    beta, weight, _ = ladder
    weights = list(weight / weight[0]) if ladder.tempering == "likelihood" else None
    return SimulatedTempering(
        sampler,
        inverse_temperatures=list(beta / beta[0]),
        likelihood_weights=weights,
        move_every=options.exchange_every or 10,
    )


def _replica_exchange(
    sampler: Method, options: Options, ladder: Ladder, exact: bool, regularized: bool
) -> ReplicaExchange:
    """Replicas at the temperatures of a ladder, which swap them."""
    biased = options.bias != "none"
    exact_energies = biased and not exact and options.bias_energies == "full"
    infinite = options.exchange == "infinite"
    rule = _rule(options, exact or biased) if ladder.num_rungs > 1 else None

    batch_size = None
    if rule is not None and not rule.exact and not exact and not exact_energies:
        assert options.batch_size is not None, "a mini-batch sampler needs batches"
        batch_size = options.exchange_batch_size or max(2, options.batch_size)

    schedule = None
    if rule is not None and not infinite:
        schedule = make_swap_schedule(options.swap_schedule, ladder.num_rungs)

    return ReplicaExchange(
        sampler,
        ladder,
        swap_rule=rule,
        swap_schedule=schedule,
        exchange_every=options.exchange_every or (1 if sampler.metropolis else _EVERY),
        num_ladders=options.num_walkers,
        batch_size=batch_size,
        adapt=options.adapt_ladder,
        infinite=infinite,
        bias=_bias_of(options) if biased else None,
        exact_energies=exact_energies,
        draws_prior=not regularized,
    )


def _bias_of(options: Options) -> WellTempered:
    """The bias of the options; its deposits fall with the square root of their number after some
    thousand.
    """
    return WellTempered(
        bias_factor=options.bias_factor,
        height=options.bias_rate,
        decay=0.5,
        decay_after=5000.0,
        kernel_width=options.bias_width,
    )


def _rule(options: Options, exact: bool):
    if options.exchange == "none":
        return None
    if options.exchange == "infinite":
        return Metropolis()
    name = options.swap_rule
    if name == "auto":
        name = "metropolis" if exact else "penalty"
    is_explicit = "swap_variance" in options.explicit
    if name == "penalty":
        return Penalty(target_variance=options.swap_variance if is_explicit else None)
    if name == "barker_compensated":
        return BarkerCompensated(options.swap_variance)
    correction = Correction(
        gain=options.variance_gain,
        every=options.variance_every,
        decay=options.correction_decay,
        growth=options.correction_growth,
    )
    return make_swap_rule(
        name,
        swap_variance=options.swap_variance if is_explicit else None,
        correction_factor=options.correction_factor,
        correction=correction,
    )


def _check_burnin(options: Options, problem: str) -> None:
    received = (
        "num_burnin_steps = 0" if "num_burnin_steps" in options.explicit else "no num_burnin_steps"
    )
    refuse_if(
        not options.burnin,
        problem,
        received,
        "num_burnin_steps of some thousand, and fewer than num_steps",
    )


def ladder_sentences(method, potential) -> list[str]:
    """Sentences about a ladder before a run: rungs, swap rule, expected acceptance.

    Args:
        method: The method of the run.
        potential: Its potential; only the number of parameters counts.

    Returns:
        The sentences; none without a ladder.
    """
    if not isinstance(method, ReplicaExchange) or method.num_rungs < 2:
        return []
    ladder = method.rungs
    rule = method.swap_rule
    if ladder.tempering == "likelihood":
        where = f"likelihood weights 1 to {ladder.likelihood_weight[-1]:g}"
    else:
        where = f"temperatures {ladder.temperature[0]:g} to {ladder.temperature[-1]:.4g}"
    who = (
        "no swaps" if rule is None else f"swaps every {method.exchange_every} step(s), {rule.name}"
    )
    who = who if not method.infinite else f"all assignments every {method.exchange_every} step(s)"
    sentences = [
        f"Ladder of {method.num_rungs} rungs, {where}, {method.num_ladders} walker(s) at each; {who}."
    ]
    if rule is None or ladder.tempering == "likelihood":
        return sentences
    factor = 1.0 if method.bias is None else method.bias.bias_factor
    advice = ladder_advice(ladder, dimensions=potential.num_parameters, bias_factor=factor)
    if advice.hopeless:
        sentences.append(
            f"If all {potential.num_parameters:,} directions are stiff: {advice.sentences[0]}"
        )
        sentences += advice.sentences[1:]
    return sentences


def unused_replica_options(options: Options, sampler: Method) -> list[str]:
    """Options of ladders and swaps that were given and that a run with this sampler does not use.

    Args:
        options: The options of the run.
        sampler: Its sampler.

    Returns:
        Their names.
    """
    ladder = temperatures_of(sampler)
    used = ladder.used_options()
    names = [name for name in _OF_SWAPS if name not in used]
    if not ladder.by_rung:
        names.append("replica_start")
    if not ladder.by_rung or options.replica_start != "descent":
        names.append("descent_steps")
    return [name for name in names if name in options.explicit]
