"""From the largest curvature of the potential to the step sizes at which samplers are stable."""

from __future__ import annotations

import math
from typing import NamedTuple

_PART_OF_LIMIT = {True: 0.25, False: 0.1}


class StepSizeAdvice(NamedTuple):
    """What the curvature at one place says about step sizes.

    A method with momenta (all words with A and B, HMC) is stable for h < 2/ω_max, ω_max² the largest eigenvalue k_max
    of ∇²U, one without (SGLD, LM, MALA) for h < 2/k_max. A quarter of the first makes the kinetic energy along the
    steepest direction wrong by 1.6 % at most under BAOAB (its positions are right to this order); a tenth of the
    second, the variance there by 11 % under SGLD.

    Source: Leimkuhler and Matthews (2015), Molecular Dynamics, chapters 2 and 7, for a harmonic potential.

    Attributes:
        curvature: k_max, the largest eigenvalue of ∇²U.
        with_momentum: Limit of stability of methods with momenta, 2/ω_max.
        without_momentum: Limit of methods without, 2/k_max.
    """

    curvature: float
    with_momentum: float
    without_momentum: float

    def suggested(self, has_momentum: bool) -> float:
        """A step size for a method with, or without, momenta: a quarter, or a tenth, of the limit."""
        limit = self.with_momentum if has_momentum else self.without_momentum
        return _PART_OF_LIMIT[has_momentum] * limit

    def __str__(self) -> str:
        if not math.isfinite(self.with_momentum):
            return f"The largest eigenvalue of the Hessian of U is {self.curvature:.4g}: it sets no limit here."
        return (
            f"The largest eigenvalue of the Hessian of U is {self.curvature:.4g}. BAOAB and other methods with momenta "
            f"are stable below step_size {self.with_momentum:.3g} (2/ω_max), try {self.suggested(True):.2g}; SGLD and "
            f"others without below {self.without_momentum:.3g} (2/k_max), try {self.suggested(False):.2g}."
        )


def advice(curvature: float) -> StepSizeAdvice:
    """The advice that a largest eigenvalue gives; without a positive one there is no limit."""
    if not curvature > 0:
        return StepSizeAdvice(curvature, math.inf, math.inf)
    return StepSizeAdvice(curvature, 2 / math.sqrt(curvature), 2 / curvature)
