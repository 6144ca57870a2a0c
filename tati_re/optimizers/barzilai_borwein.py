"""Gradient descent with the step of Barzilai and Borwein."""

import math

from tati_re.core.errors import refuse_if
from tati_re.core.method import Optimizer
from tati_re.core.ops import absolute, column, sqrt, sum_of_products, where
from tati_re.core.protocol import Info, chosen, with_energy
from tati_re.samplers.mala import MALA
from tati_re.samplers.wrappers.coordinates import extend

STEPS = ("long", "short")
_SMALLEST = 1e-10
_LARGEST = 1e10
_BACK = 0.1


class BarzilaiBorwein(Optimizer):
    """Gradient descent with the inverse curvature along its last step as learning rate.

    It needs all data in every step.

    Targets the minimum of U. For a quadratic with condition number κ it needs about sqrt(κ) steps,
    not κ; U may rise temporarily.

    Rule, for each walker on its own, with s = θₖ - θₖ₋₁ and y = (∇Uₖ - ∇Uₖ₋₁)/scale:

        θ <- θ - a ∇U/scale,    a = s·s / s·y ("long") or s·y / y·y ("short");    the first a is the learning rate
        where s·y <= 0 (U is not convex along s):    a = sqrt(s·s / y·y), between the two in size
        where a is outside of [1e-10, 1e10], as when nothing moves any more:    a stays as it was
        where U or ∇U is not finite at the new θ:    θ stays as it was, a <- a/10

    Cost: one gradient of all data per step. Without a line search, the long step may cycle far from
    a quadratic. It does so on Rosenbrock's function, whose minimum the short step finds in 67
    steps. Source: Barzilai and Borwein, IMA J. Numer. Anal. 8, 141 (1988), equations 5 and 6; the
    step where s·y <= 0: Dai, Al-Baali and Yang, Numerical Analysis and Optimization (2015), 59-75.
    TATi: the short step of each tensor, with abs(s·y).

    Args:
        step: "long" or "short", which is never longer than the long one. Default: "short".

    Examples:
        >>> BarzilaiBorwein("long").get_config()["barzilai_borwein_step"]
        'long'
    """

    name = "barzilai_borwein"
    full_batch = True
    settings = ("barzilai_borwein_step",)

    def __init__(self, step: str = "short") -> None:
        refuse_if(
            step not in STEPS,
            "barzilai_borwein_step: unknown name.",
            repr(step),
            " or ".join(STEPS),
        )
        self.barzilai_borwein_step = step

    def init(self, position, evaluate, noise):
        """The state before the first step, with the next learning rate, `step_size`.

        Args:
            position: Positions, shape (walkers, parameters).
            evaluate: Computes U and its gradient on all data.
            noise: Random numbers of this step.
        """
        return extend(MALA.init(self, position, evaluate, noise), step_size=evaluate.rung.step_size)

    def step(self, state, evaluate, noise):
        rate = column(state.step_size, state.position) / evaluate.scale
        position, _ = evaluate.confine(state.position - rate * state.gradient, None)
        energy = evaluate.full(position)
        moved = position - state.position
        turned = energy.gradient - state.gradient
        ss, sy, yy = (
            sum_of_products(*pair) for pair in ((moved, moved), (moved, turned), (turned, turned))
        )
        # A comparison with nan is false.
        finite = (absolute(energy.potential) < math.inf) & (yy < math.inf)
        rate = self._rate(ss, sy, yy) * evaluate.scale
        usable = (rate >= _SMALLEST) & (rate <= _LARGEST)
        rate = where(finite, where(usable, rate, state.step_size), _BACK * state.step_size)
        new = chosen(
            finite,
            with_energy(state, energy)._replace(position=position),
            state,
            state._fields[:-2],
        )
        return state._replace(**new, step_size=rate), Info()

    def _rate(self, ss, sy, yy):
        """The step in units of 1/∇²U; 0 where there is none."""
        convex = sy > 0
        curved = yy > 0
        safe_yy = where(curved, yy, 1.0)
        rate = ss / where(convex, sy, 1.0) if self.barzilai_borwein_step == "long" else sy / safe_yy
        return where(curved, where(convex, rate, sqrt(ss / safe_yy)), 0.0)
