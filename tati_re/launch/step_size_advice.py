"""From the largest curvature of the potential to step sizes at which samplers are stable, and why
one diverged.
"""

import math
from typing import NamedTuple

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import SamplingError
from tati_re.core.facets import temperatures_of, turns_of
from tati_re.data.disk_arrays import blocks
from tati_re.launch.request import Request
from tati_re.posterior.evaluator import Evaluator
from tati_re.posterior.potential import ModelPotential
from tati_re.samplers.wrappers.metered import PART_OF_LIMIT, is_timed

_LOOK = "Look for infinities in the data, the loss or the model at its start."
_LARGEST_INPUT = 20.0


class StepSizeAdvice(NamedTuple):
    """Stable step sizes from the curvature at one position. A method with momenta (all words with A
    and B, HMC) is stable for h < 2/ω_max, ω_max² the largest eigenvalue k_max of ∇²U, one without
    (SGLD, LM, MALA) for h < 2/k_max; the h of RWMH is a time, as with momenta. A quarter of the
    first makes the kinetic energy along the steepest direction wrong by 1.6 % at most under BAOAB
    (its positions are right to this order); a tenth of the second, the variance there by 11 % under
    SGLD. Source: Leimkuhler and Matthews (2015), Molecular Dynamics, chapters 2 and 7, for a
    harmonic potential. `curvature` is k_max, the limits are 2/ω_max and 2/k_max.
    """

    curvature: float
    with_momentum: float
    without_momentum: float

    def limit(self, timed: bool) -> float:
        """The limit of stability of a method whose step size is a time, as with momenta, or
        multiplies the gradient.
        """
        return self.with_momentum if timed else self.without_momentum

    def suggested(self, timed: bool) -> float:
        """A step size for a method of this kind: a quarter, or a tenth, of the limit."""
        return PART_OF_LIMIT[timed] * self.limit(timed)

    def __str__(self) -> str:
        if not math.isfinite(self.with_momentum):
            return f"The largest eigenvalue of the Hessian of U is {self.curvature:.4g}: it sets no limit here."
        return (
            f"The largest eigenvalue of the Hessian of U is {self.curvature:.4g}. Methods "
            "with momenta such as BAOAB are stable below step_size "
            f"{self.with_momentum:.3g} (2/ω_max); try {self.suggested(True):.2g}. Methods "
            f"without momenta such as SGLD are stable below {self.without_momentum:.3g} "
            f"(2/k_max); try {self.suggested(False):.2g}."
        )


def advice(curvature: float) -> StepSizeAdvice:
    """The advice that a largest eigenvalue gives; without a positive one there is no limit."""
    if not curvature > 0:
        return StepSizeAdvice(curvature, math.inf, math.inf)
    return StepSizeAdvice(curvature, 2 / math.sqrt(curvature), 2 / curvature)


def divergence_advice(
    error: SamplingError,
    request: Request,
    potential: ModelPotential,
    position: np.ndarray,
    auxiliary: tuple,
) -> str:
    """Advice on a run that diverges.

    It compares the step size with the limit of stability, and the inputs with 1.

    Args:
        error: The error that ended the run, with step and walker.
        request: The request of the run.
        potential: Its potential.
        position: Positions at the start of the run, shape (copies, parameters).
        auxiliary: Non-trainable variables there, shape (copies, ...) each.
    """
    sentences = [_of_step_size(error, request, potential, position, auxiliary), _of_inputs(request)]
    if error.step and request.samples and request.system.flat.samples_noise:
        sentences.append(
            "The noise is sampled. If a model fits its targets exactly, the noise falls "
            "and U becomes steep. Set noise_std to a number to fix it."
        )
    return " ".join(filter(None, sentences))


def _of_inputs(request: Request) -> str:
    """A sentence about inputs that are far from order 1, in the units that the network sees; else
    empty.
    """
    dataset = request.system.dataset
    plain = request.system.has_data and request.options.standardize == "none" and not dataset.layout
    if not plain or dataset.inputs.dtype.kind not in "iuf":
        return ""
    low = math.inf
    high = 0.0
    for block in blocks(dataset.inputs):
        sizes = np.abs(block[block != 0] * dataset.input_scale)
        low = min(low, sizes.min(initial=math.inf))
        high = max(high, sizes.max(initial=0.0))
    if high <= _LARGEST_INPUT:
        return ""
    return (
        f"The inputs range from {low:.3g} to {high:.3g}: standardize='all' brings them to order 1."
    )


def _of_step_size(
    error: SamplingError,
    request: Request,
    potential: ModelPotential,
    position: np.ndarray,
    auxiliary: tuple,
) -> str:
    walker = error.walker
    engine = Evaluator(potential, False)
    groups = turns_of(request.method).groups
    # One of several groups moves while the others are at step 0.
    moved = groups > 1 and np.isfinite(
        engine.energy(position, engine.batch(0), auxiliary).potential[walker]
    )
    if error.step == 0 and not moved:
        inside = np.isfinite(potential.prior.log_prob(tf.constant(position)))[walker]
        outside = (
            f"The parameters start outside the prior, {potential.prior}. Set them, or "
            "widen the prior."
        )
        return _LOOK if inside else outside
    if not request.samples:
        return "Try a smaller learning_rate."
    if isinstance(request.options.step_size, str) and not request.options.step_sizes:
        return (
            "The burn-in undid and halved the last 20 steps, and none led to a finite "
            "potential. After the burn-in steps are not undone, and this step size would "
            "be too large. Use a smaller target_bias, a longer burn-in, or a sampler "
            "with a Metropolis test such as HMC."
        )
    step_size = request.options.first_step_size
    dynamics = request.method.dynamics
    rungs = temperatures_of(request.method).rungs
    if rungs is not None:  # a walker may be at any rung
        step_size = float(np.max(np.ravel(rungs[2])[np.ravel(rungs[1]) == 1]))
    if dynamics.own_speeds:
        return (
            f"step_size {step_size:g} is too large for the parameters that mass or "
            "preconditioner speed up."
        )
    try:
        curvature = engine.largest_curvature(position, walker, engine.batch(0), auxiliary)
    except tf.errors.OpError:
        curvature = float("nan")
    if not (np.isfinite(curvature) and curvature > 0):
        return _LOOK
    timed = is_timed(request.method)
    limit = advice(curvature).limit(timed)
    rate = "ω_max" if timed else "k_max"
    limit_text = (
        f"the stability limit at the start, 2/{rate} = {limit:.3g} from a few Lanczos steps"
    )
    if step_size >= limit:
        value = f"{2 * step_size / limit:.3g}"
        return (
            f"step_size {step_size:g} is too large: {limit_text}, so h {rate} is {value}, above 2."
        )
    if dynamics.if_unstable:
        return f"step_size {step_size:g} is below {limit_text}, but {dynamics.if_unstable}"
    return (
        f"step_size {step_size:g} is below {limit_text}, but the potential may be steeper "
        "elsewhere. Try a smaller one."
    )
