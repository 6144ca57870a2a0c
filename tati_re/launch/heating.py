"""What a run with mini-batches expects of their noise, from one short measurement at its start and
at its end.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tati_re.analysis.format import percent
from tati_re.analysis.heating import (
    MOST_OF_ONE,
    linear_step,
    relative_heating,
    slowest_frequency,
)
from tati_re.core.backend import tf
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.facets import temperatures_of
from tati_re.core.method import Method
from tati_re.core.protocol import step_size_of
from tati_re.launch.request import Request
from tati_re.posterior.noise_spectrum import COST, NoiseSpectrum, noise_spectrum
from tati_re.samplers.wrappers.coordinates import Coordinates, Diagonal

_PURPOSE = 0x4854
_PART_OF_RUN = 0.01
_FEW = 256
_MOST = 512
_LARGEST = 2**22
_SMALLEST = 1_000.0
_AIM = 0.75  # Of the heating that is allowed: elsewhere there is more noise.
ROOM = 3.0
"""Times its length a step may become before one looks again."""


def settings_of(method: Method, state, first: int) -> dict[str, Any]:
    """The `step_size` and `friction` of a walker, and its `coordinates` where masses are
    measured.
    """
    values = state._asdict()
    values.setdefault("step_size", step_size_of(state, state.rung))
    tuned_names = [name for name in ("step_size", "friction") if name in values]
    settings: dict[str, Any] = {
        name: float(np.asarray(values[name])[first]) for name in tuned_names
    }
    coordinates = method.coordinates(state)
    if coordinates is not None:
        settings["coordinates"] = coordinates.part(first, 1)
    return settings


def expected_heating(
    request: Request, position: np.ndarray, auxiliary: tuple, tuned: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The heating that is expected of the noise around a position `(parameters,)`, for the
    manifest. Relative rises of temperatures, 0.04 is 4 %: of the `slowest` directions that the run
    is long enough for, of the `stiffest`, of the `mean` over all, each as the positions have it;
    `virial`, by which the configurational temperature will be above its target, and `kinetic`, the
    same of the kinetic one. `frequencies` are ω of the slowest, of the noise's mean and of the
    stiffest directions, `gradient_variance` is the mean over the parameters for one step. Where no
    number can be had, only `not_predicted`, a sentence that says why. `tuned` is what a run has
    found, see `settings_of`.
    """
    try:
        predict, count = _prediction(request, position, auxiliary, tuned or {})
        step = (
            request.copies
            * request.potential.batches.batch_size
            * request.method.gradients_per_step
        )
        return {**predict(tuned or {}), "num_examples": count, "steps": COST * count / step}
    except InputError as error:
        return {"not_predicted": str(error)}


def cool_enough(
    request: Request,
    position: np.ndarray,
    auxiliary: tuple,
    tuned: dict[str, Any],
    room: float = 1.0,
) -> dict[str, float]:
    """Factors of a state's `friction` and `step_factor`, of those that the run tunes, at which the
    heating `mean`, the rise of the variances of all directions together, is at most 3/4 of
    `target_bias`: the friction is raised up to 1/h, which costs no energy error, then h lowered
    with it. With a `room` above 1 also that of the longest step that is cool, in `step_limit`,
    where that is below so many times h. Empty where nothing is to be changed, or helps.
    """
    h = tuned["step_size"]
    rate = tuned.get("friction", 0.0)
    adapts = isinstance(request.options.step_size, str)

    def heating_factors(step: float) -> dict[str, float]:
        steep = math.log(1 / (step * rate)) if 0 < step * rate < 1 else 0.0
        most = steep + (math.log(_SMALLEST) if adapts else 0.0)

        def factors(along: float) -> dict[str, float]:
            shorter = {"step_factor": math.exp(min(0.0, steep - along))} if most > steep else {}
            return shorter | ({"friction": math.exp(along)} if rate else {})

        def too_hot(along: float) -> bool:
            factor = factors(along)
            settings = {"step_size": step * factor.get("step_factor", 1.0)}
            settings |= {"friction": rate * factor["friction"]} if rate else {}
            try:
                return predict(settings)["mean"] > _AIM * request.options.target_bias
            except InputError:
                # Not stable: new masses have made directions stiff.
                return True

        low = 0.0
        high = most
        if not too_hot(low) or too_hot(high):
            return {}
        while high - low > 0.02:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if too_hot(middle) else (low, middle)
        return factors(high)

    try:
        predict, _ = _prediction(request, position, auxiliary, tuned)
    except InputError:
        return {}
    factors = heating_factors(h)
    if room > 1 and "step_factor" in (longest := heating_factors(room * h)):
        factors["step_limit"] = room * longest["step_factor"]
    return factors


def _prediction(
    request: Request, position: np.ndarray, auxiliary: tuple, tuned: dict[str, Any]
) -> tuple[Callable[[dict[str, Any]], dict[str, Any]], int]:
    """What tells the heating at a step size and friction, from one measurement, and the number of
    examples in that.
    """
    method, coordinates = _linear_part(request, tuned.get("coordinates"))

    def of(settings: dict[str, Any]) -> Method:
        return method.at_friction(settings["friction"]) if "friction" in settings else method

    linear_step(
        of(tuned),
        tuned.get("step_size", request.options.first_step_size),
        request.options.kT,
        np.ones(1),
    )
    indices = _examples(request)
    maps = (coordinates.forward, coordinates.transposed)
    seen = request.potential.spectra
    some = np.random.default_rng(0).standard_normal((1, len(position)))
    key = b"".join(
        np.asarray(part).tobytes() for part in (position, *auxiliary, indices, maps[0](some))
    )
    try:
        if key not in seen:
            seen = {key: noise_spectrum(request.potential, position, auxiliary, indices, *maps)}
            request.potential.spectra = seen
    except (tf.errors.OpError, LookupError, NotImplementedError) as error:
        raise InputError(
            f"the model has no second derivatives here ({type(error).__name__})."
        ) from error
    return lambda settings: _predicted(
        request, of(settings), seen[key], settings.get("step_size")
    ), len(indices)


def heating_sentence(heating: dict[str, Any], order: str) -> str:
    """What a run says at its start."""
    if "not_predicted" in heating:
        return f"Heating by mini-batch noise is not predicted: {heating['not_predicted']}"
    return (
        f"Mini-batch noise ({order}) is expected to raise the temperature of the slowest "
        f"directions by {percent(heating['slowest'])}, of the stiffest by "
        f"{percent(heating['stiffest'])}, on average by {percent(heating['mean'])}. The "
        f"configurational temperature will read {percent(heating['virial'])} higher. "
        f"Measured on {heating['num_examples']:,} examples in {heating['steps']:,.3g} steps."
    )


def heating_warning(heating: dict[str, Any], target_bias: float, tuned: bool) -> str:
    """What is wrong with the expected heating: its mean, or that of single directions.

    Args:
        heating: What `expected_heating` returned.
        target_bias: The largest mean that is wanted, as a relative rise of variances.
        tuned: Whether the run has reduced the heating by its step size and friction.

    Returns:
        Sentences; empty if nothing is wrong, or if nothing was predicted.
    """
    problems = []
    if heating.get("mean", 0.0) > target_bias:
        problems.append(f"The mean exceeds target_bias = {target_bias:g}.")

    single = {name: heating.get(name, 0.0) for name in ("stiffest", "slowest", "hottest")}
    hot = {name: rise for name, rise in single.items() if rise > MOST_OF_ONE}
    if hot:
        worst = max(hot, key=hot.__getitem__)
        problems.append(
            f"Mini-batch noise raises variances in the {worst} directions by "
            f"{percent(hot[worst])}; the certificate allows {percent(MOST_OF_ONE)} in a "
            "single direction."
        )

    if not problems:
        return ""
    remedy = "Larger batches" if tuned else "Larger batches, smaller steps or more friction"
    return " ".join([*problems, f"{remedy} reduce the heating."])


def _linear_part(request: Request, measured: Coordinates | None) -> tuple[Method, Coordinates]:
    """The sampler at the target, and the coordinates in which it moves."""
    method = request.method
    options = request.options
    ladder = temperatures_of(method)
    refuse_if(
        request.potential.training,
        "batch_norm: batch statistics tie the examples of a mini-batch together.",
    )
    if options.step_schedule != "constant" or "step_schedule" in request.objects:
        raise InputError("step_schedule: the heating depends on the step size, which changes.")
    refuse_if(
        not options.shuffle, "shuffle: the noise of batches in the order of the data is not random."
    )
    refuse_if(ladder.bias is not None, "bias: the bias on the energies changes the frequencies.")
    inside, coordinates = method.linear_part(measured)
    return inside, Diagonal(np.ones(1)) if coordinates is None else coordinates


def _examples(request: Request) -> np.ndarray:
    """The examples that are looked at: all, or as many as cost a hundredth of the run, or a batch,
    or little.
    """
    potential = request.potential
    options = request.options
    part = int(
        _PART_OF_RUN * options.num_steps * request.copies * potential.batches.batch_size / COST
    )
    few = min(_FEW, _LARGEST // potential.num_parameters)
    count = min(
        potential.num_examples, max(potential.batches.batch_size, min(max(part, few), _MOST))
    )
    random = np.random.default_rng([options.seed, _PURPOSE])
    chosen = np.sort(random.permutation(potential.num_examples)[:count]).astype(np.int32)
    refuse_if(count < 2, "batch_size: the variance of a single example is undefined.")
    return chosen


def _predicted(
    request: Request, method: Method, spectrum: NoiseSpectrum, tuned_step: float | None
) -> dict[str, Any]:
    potential = request.potential
    options = request.options
    batches = potential.batches
    count = potential.num_examples
    size = potential.num_parameters
    step_size = options.first_step_size
    temperature = options.kT
    rungs = temperatures_of(request.method).rungs
    if rungs is not None:
        beta, _, steps = (np.asarray(column, np.float64).ravel()[0] for column in rungs)
        step_size = float(steps)
        temperature = float(1 / beta)
    step_size = tuned_step or step_size
    largest = float(spectrum.curvature[-1])
    refuse_if(
        not (math.isfinite(largest) and largest > 0),
        "no direction has positive curvature at the start.",
    )
    white = batches.sampling == "replacement"
    # Of the mean over a batch, from that of one example; without replacement all examples together
    # have none.
    examples = (
        count / batches.steps_per_epoch if batches.sampling == "symmetric" else batches.batch_size
    )
    of_batch = (1 - 1 / count if white else 1 - examples / count) / examples
    slowest = slowest_frequency(
        method, step_size, temperature, math.sqrt(largest), options.num_steps
    )
    curvature = np.append(spectrum.curvature, spectrum.rest_curvature)
    variance = of_batch * np.append(spectrum.variance, spectrum.rest_variance)
    lowest = (
        spectrum.curvature[0]
        if spectrum.rest == 0
        else min(spectrum.curvature[0], spectrum.rest_curvature)
    )
    omega = np.sqrt(np.maximum(np.append(curvature, lowest), slowest**2))
    of_lowest = of_batch * (
        spectrum.rest_variance / spectrum.rest if spectrum.rest else spectrum.variance[0]
    )
    heating = relative_heating(
        method,
        step_size,
        temperature,
        omega,
        np.append(variance, of_lowest),
        order=batches.sampling,
        batch_size=batches.batch_size,
        num_examples=count,
        record_every=request.record_every,
    )
    # Of the directions of the rest together there is a mean alone.
    single = heating.position[:-1] / np.append(np.ones(len(spectrum.curvature)), spectrum.rest or 1)
    total = float(variance.sum())
    mean_curvature = float(variance @ omega[:-1] ** 2) / total if total else 0.0
    return {
        "slowest": float(heating.position[-1]),
        "stiffest": float(heating.position[len(spectrum.curvature) - 1]),
        "hottest": float(max(single.max(), heating.position[-1])),
        "mean": float(heating.position[:-1].sum()) / size,
        "virial": float(heating.virial[:-1].sum()) / size,
        "kinetic": float(heating.kinetic[:-1].sum()) / size,
        "frequencies": [float(omega[-1]), math.sqrt(mean_curvature), math.sqrt(largest)],
        "gradient_variance": total / size,
    }
