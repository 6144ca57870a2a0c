"""Control variates: mini-batch gradients with less noise, for any sampler."""

from __future__ import annotations

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.evaluate import Delegating, Energy
from tati_re.core.front_door import front_door
from tati_re.core.method import Wrapper
from tati_re.core.ops import replaced_if, rows
from tati_re.core.protocol import fields_of
from tati_re.samplers.splitting import Splitting
from tati_re.samplers.wrappers.coordinates import extend, inner_of


class ControlVariate(Wrapper):
    """A sampler with variance-reduced mini-batch energies and gradients, corrected at a center.

    U and ∇U on all data are known at the center.

    Targets exp(-β U) as the sampler inside does, by unbiased U and ∇U whose variance falls towards
    the center c,

        ∇U~(θ) = ∇U_S(θ) - ∇U_S(c) + ∇U(c),   variance (N²/n) Var(∇l_i(θ) - ∇l_i(c)) (1 - n/N),

    S the mini-batch of the step; the same for U. The center must not depend on S: it is the
    starting point of the walker. With `refresh_every` it moves to the walker at the beginning of
    every such step (SVRG).

    Cost: two gradients on the mini-batch for each of the sampler inside, and one on all data at
    each refresh. Source: Baker, Fearnhead, Fox and Nemeth, Statistics and Computing 29 (2019);
    SVRG-LD: Dubey et al., NeurIPS 2016.

    Args:
        inner: Any sampler for mini-batches. Default: BAOAB.
        refresh_every: Steps between two moves of the center; 0 keeps it at the start. Default: 0.

    Raises:
        InputError: The sampler inside uses all data in every step, which has no noise to reduce.

    Examples:
        >>> ControlVariate(Splitting("BAOAB"), refresh_every=100).get_config()["control_variate_every"]
        100
    """

    @front_door
    def __init__(self, inner=None, refresh_every: int = 0) -> None:
        super().__init__(inner or Splitting())
        if self.inner.full_batch:
            raise InputError(
                "control_variate: the sampler already uses all data.",
                self.inner.name,
                "such as BAOAB",
            )
        refuse_if(
            refresh_every < 0, "control_variate_every: negative.", refresh_every, "0 or more steps"
        )
        self.refresh_every = int(refresh_every)
        self.against_noise = (
            "the control variate removes the noise that walker and center share; the rest grows with "
            "their distance and heats."
        )
        self.gradients_per_step = 2.0 * self.inner.gradients_per_step

    def init(self, position, evaluate, noise):
        state = self.inner.init(position, evaluate, noise)
        return extend(
            state, **dict(zip(_FIELDS, _centre(evaluate.full(position), position), strict=True))
        )

    def step(self, state, evaluate, noise):
        centre = tuple(fields_of(state, _FIELDS).values())
        if self.refresh_every:
            due = (evaluate.clock.step - 1) % self.refresh_every == 0
            centre = replaced_if(
                due, lambda *_: _centre(evaluate.full(state.position), state.position), centre
            )
        fields = dict(zip(_FIELDS, centre, strict=True))
        new, info = self.inner.step(
            inner_of(state), ControlVariateEvaluate(evaluate, fields), noise
        )
        return type(state)(**new._asdict(), **fields), info

    def get_config(self) -> dict:
        return {
            **self.inner.get_config(),
            "control_variate": True,
            "control_variate_every": self.refresh_every,
        }


_FIELDS = ("centre", "centre_gradient", "centre_potential", "centre_loss")


def _centre(energy: Energy, position) -> tuple:
    return position, energy.gradient, energy.potential, energy.loss


class ControlVariateEvaluate(Delegating):
    """The potential with the control variate of a center.

    Args:
        evaluate: The evaluation without it, on the mini-batch of the step.
        centre: `centre`, the center of each walker, shape (walkers, parameters); and on all data
            there `centre_gradient`, `centre_potential` and `centre_loss`.
    """

    def __init__(self, evaluate, centre: dict) -> None:
        super().__init__(evaluate)
        self.centre = centre

    def __call__(self, position) -> Energy:
        current = self.evaluate(position)
        there = self.evaluate(self.centre["centre"])
        return Energy(
            current.potential - there.potential + self.centre["centre_potential"],
            current.gradient - there.gradient + self.centre["centre_gradient"],
            current.loss - there.loss + self.centre["centre_loss"],
            current.log_prior,
        )

    def gradient_variance(self, position):
        problem = (
            "control_variate: this sampler estimates the gradient's variance from single examples."
        )
        raise InputError(problem, expected="a sampler that does not, such as BAOAB or BADODAB")

    def part(self, first, count: int) -> ControlVariateEvaluate:
        return ControlVariateEvaluate(
            self.evaluate.part(first, count),
            {name: rows(value, first, count) for name, value in self.centre.items()},
        )
