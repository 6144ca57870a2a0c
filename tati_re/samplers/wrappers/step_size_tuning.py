"""Tuning of the step size to a target acceptance during the burn-in."""

import math
from typing import Any

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.facets import BurninAround, BurninTuning, tuning_of
from tati_re.core.front_door import front_door
from tati_re.core.method import Wrapper
from tati_re.core.ops import as_float64, exp, sqrt, where
from tati_re.core.protocol import attributes_of, fields_of
from tati_re.samplers.hmc import HamiltonianMonteCarlo
from tati_re.samplers.wrappers.coordinates import extend, inner_of
from tati_re.samplers.wrappers.metered import first_factor, rung_mean, timed_at

_NEAR = 0.1
"""Difference from the wanted acceptance at which the step size counts as settled."""


class DualAveraging:
    """Nesterov's dual averaging with the constants of Hoffman and Gelman (2014): γ = 0.05, t₀ = 10,
    κ = 0.75.

    Rule, m the number of the step, α its acceptance, δ the wanted one, x the logarithm of the
    factor, x₀ = ln 10:

        E <- (1 - 1/(m + t₀)) E + (δ - α)/(m + t₀)
        x <- x₀ - E sqrt(m)/γ
        mean <- (1 - m^-κ) mean + m^-κ x

    The burn-in moves with x, what follows with its mean.
    """

    fields = ("tuning_error", "tuning_mean")

    def update(self, factor, memory: tuple, acceptance, target: float, number):
        """Updates the factor of the step size.

        Args:
            factor: The factor of this step, shape (walkers,); not used.
            memory: What the rule remembers, in the order of `fields`, shape (walkers,) each.
            acceptance: Acceptance of this step, averaged over the rung, shape (walkers,).
            target: The wanted acceptance.
            number: Number of the step, float64.

        Returns:
            The factor of the next step, and the memory after this one.
        """
        error, mean = memory
        error = error + (target - acceptance - error) / (number + 10.0)
        logarithm = math.log(10.0) - error * sqrt(number) / 0.05
        mean = mean + number**-0.75 * (logarithm - mean)
        return exp(logarithm), (error, mean)

    def frozen(self, factor, memory: tuple):
        """The factor after the burn-in, shape (walkers,).

        Args:
            factor: The factor of the last step, shape (walkers,); not used.
            memory: What the rule remembers, in the order of `fields`.
        """
        return exp(memory[1])


class Windowed:
    """The rule of Baldock and Marzari (2019): every 10 steps the step size is multiplied by 0.9
    where their mean acceptance is below the wanted one - 0.05, divided by 0.9 above it + 0.05. The
    burn-in ends with the last one.
    """

    fields = ("tuning_sum",)
    every = 10
    half_width = 0.05
    change = 0.9

    def update(self, factor, memory: tuple, acceptance, target: float, number):
        """Updates the factor of the step size.

        Args:
            factor: The factor of this step, shape (walkers,).
            memory: What the rule remembers, in the order of `fields`, shape (walkers,) each.
            acceptance: Acceptance of this step, averaged over the rung, shape (walkers,).
            target: The wanted acceptance.
            number: Number of the step, float64.

        Returns:
            The factor of the next step, and the memory after this one.
        """
        total = memory[0] + acceptance
        mean = total / self.every
        changed = where(mean < target - self.half_width, factor * self.change, factor)
        changed = where(mean > target + self.half_width, factor / self.change, changed)
        due = number % self.every == 0.0 * total
        return where(due, changed, factor), (where(due, 0.0 * total, total),)

    def frozen(self, factor, memory: tuple):
        """The factor after the burn-in, shape (walkers,).

        Args:
            factor: The factor of the last step, shape (walkers,).
            memory: What the rule remembers, in the order of `fields`; not used.
        """
        return factor


RULES: dict[str, type[DualAveraging] | type[Windowed]] = {
    "dual_averaging": DualAveraging,
    "baldock": Windowed,
}


class BurninOfAcceptance(BurninAround):
    """The burn-in of a method whose step size is tuned to an acceptance.

    Args:
        inner: That of the method inside.
        target_acceptance: Between 0 and 1.
    """

    def __init__(self, inner: BurninTuning, target_acceptance: float) -> None:
        super().__init__(inner)
        self.target_acceptance = target_acceptance

    def step_settled(self, state: Any, acceptance: Any, weights: Any) -> bool:
        of_rung = acceptance.mean((1, 2))
        return bool((np.abs(of_rung - self.target_acceptance) < _NEAR).all())


class StepSizeTuning(Wrapper):
    """A Metropolis method with its step size tuned to a target acceptance during the burn-in.

    The step size is frozen afterwards.

    Targets exp(-β U) like the sampler inside, after the burn-in; the burn-in itself is not exact.

    Rule: the step size is h f, with h the step size of the rung. f starts at 1 and follows the
    acceptance probability, averaged over all walkers of the same rung (the same temperature,
    likelihood weight and step size), which share it: "dual_averaging" (`DualAveraging`) or
    "baldock" (`Windowed`).

    f is the field `step_factor` of the state; it belongs to the rung. With the random trajectory
    lengths of HMC, the acceptance is the mean over the lengths. The cost is the cost of the sampler
    inside. The burn-in must have steps: some hundreds if the initial step size is wrong by a factor
    of 10. A single walker needs more steps than many walkers. Source: Hoffman and Gelman, Journal
    of Machine Learning Research 15, 1593 (2014), eq. (6) and algorithm 5; Baldock and Marzari
    (2019).

    Args:
        inner: A sampler with a Metropolis test. Default: HMC.
        target_acceptance: Between 0 and 1. Default: 0.8.
        step_size_tuning: "dual_averaging" or "baldock". Default: "dual_averaging".
        from_curvature: Whether h follows from the largest curvature at the start instead of the
            rung, see `Metered`; it is the step size of the rung times `first_factor`. Default:
            False.

    Raises:
        InputError: The sampler has no Metropolis test, there is no such rule, or a value is out of
            range.

    Examples:
        >>> StepSizeTuning(HamiltonianMonteCarlo(5), target_acceptance=0.65, step_size_tuning="baldock").name
        'HMC'
    """

    @front_door
    def __init__(
        self,
        inner=None,
        target_acceptance: float = 0.8,
        step_size_tuning: str = "dual_averaging",
        from_curvature: bool = False,
    ) -> None:
        super().__init__(inner or HamiltonianMonteCarlo())
        problem = "target_acceptance: the sampler has no Metropolis test."
        refuse_if(not self.inner.metropolis, problem, self.inner.name, "such as HMC, GHMC or MALA")
        if not 0 < target_acceptance < 1:
            raise InputError(
                "target_acceptance: out of range.",
                received=target_acceptance,
                expected="between 0 and 1",
            )
        if step_size_tuning not in RULES:
            raise InputError(
                "step_size_tuning: unknown value.", repr(step_size_tuning), " or ".join(RULES)
            )
        self.target_acceptance = float(target_acceptance)
        self.step_size_tuning = step_size_tuning
        self.rule = RULES[step_size_tuning]()
        self.from_curvature = from_curvature
        curvature_fields = ("first_factor",) if from_curvature else ()
        self.adapts = True
        self.burnin = BurninOfAcceptance(tuning_of(self.inner), self.target_acceptance)
        self.of_rung = (
            "step_factor",
            "next_factor",
            *self.rule.fields,
            *curvature_fields,
            *self.inner.of_rung,
        )

    def init(self, position, evaluate, noise):
        state = self.inner.init(position, evaluate, noise)
        zeros = 0.0 * state.potential
        wrapper_fields = dict.fromkeys(self.rule.fields, zeros)
        first = zeros + 1.0
        if self.from_curvature:
            wrapper_fields["first_factor"] = first = first_factor(
                self.inner, state, evaluate, noise
            )
            state = state._replace(**timed_at(state, first))
        return extend(state, step_factor=first, next_factor=zeros + 1.0, **wrapper_fields)

    def step(self, state, evaluate, noise):
        adapting = evaluate.clock.adapting
        number = as_float64(evaluate.clock.step)
        memory = tuple(fields_of(state, self.rule.fields).values())
        factor = where(adapting, state.next_factor, self.rule.frozen(state.next_factor, memory))
        used = factor * state.first_factor if self.from_curvature else factor
        rung = state.rung._replace(step_size=state.rung.step_size * used)
        new, info = self.inner.step(inner_of(state)._replace(rung=rung), evaluate, noise)
        shared, _ = rung_mean(state.rung, info.acceptance, 0.0 * info.acceptance + 1.0)
        following, learnt = self.rule.update(factor, memory, shared, self.target_acceptance, number)
        wrapper_fields = {
            name: where(adapting, *pair)
            for name, *pair in zip(self.rule.fields, learnt, memory, strict=True)
        }
        wrapper_fields |= {"first_factor": state.first_factor} if self.from_curvature else {}
        wrapper_fields |= {
            "step_factor": used,
            "next_factor": where(adapting, following, state.next_factor),
        }
        return type(state)(**{**new._asdict(), "rung": state.rung}, **wrapper_fields), info

    def get_config(self) -> dict:
        return {
            **self.inner.get_config(),
            **attributes_of(self, "target_acceptance", "step_size_tuning"),
        }
