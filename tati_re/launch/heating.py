"""What a run with mini-batches expects of their noise, from one short measurement at its start and
at its end.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tati_re.analysis.format import percent
from tati_re.analysis.heating import (
    MOST_OF_ONE,
    MOST_PLACES,
    linear_step,
    memory_steps,
    relative_heating,
    slowest_frequency,
)
from tati_re.core.backend import tf
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.facets import temperatures_of
from tati_re.core.method import Method
from tati_re.core.protocol import step_size_of
from tati_re.launch.noise_search import NoiseSearch, NoisySteps
from tati_re.launch.request import Request
from tati_re.posterior.noise_spectrum import COST, NoiseSpectrum, noise_spectrum
from tati_re.samplers.wrappers.coordinates import Coordinates, Diagonal

_PURPOSE = 0x4854
_PART_OF_RUN = 0.01
_FEW = 256
_MOST = 512
_LARGEST = 2**22
_PRICE = 5.0
"""Times as many steps as the mean heating alone asks for that single directions may cost."""
_PART_OF_INFORMATION = 0.1
_FEW_PLACES = 16
_AIM = 0.75  # Of the heating that is allowed: elsewhere there is more noise.
ROOM = 3.0
"""Times its length a step may become before one looks again."""


def settings_of(method: Method, state, first: int) -> dict[str, Any]:
    """What a walker has found, as arguments of the predictions.

    Args:
        method: The sampler.
        state: The state of all walkers.
        first: Index of the walker.

    Returns:
        Its `step_size`, its `friction` if the state has one, and its `coordinates` where masses are
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
    """The heating that is expected of the noise around a position.

    Args:
        request: The request of the run.
        position: Where the noise is measured, shape (parameters,).
        auxiliary: Non-trainable variables there, shape (1, ...) each.
        tuned: What the run has found, see `settings_of`. Default: None, step size and friction of
            the options.

    Returns:
        Entries of the manifest.

        Relative rises of temperatures in the positions, where 0.04 is 4 %: `slowest`, of the
        slowest directions that the run is long enough for; `stiffest`; `hottest`, the largest of a
        single direction; and `mean`, over all directions. `virial` and `kinetic` are the mean
        relative rises of the configurational and the kinetic temperature.

        `frequencies` are ω of the slowest, of the noise's mean and of the stiffest directions.
        `gradient_variance` is the mean over the parameters for one step. `memory` is the number of
        steps within which predictions forget, `memory_epochs` the same in epochs. `num_examples`
        and `steps` are the examples of the measurement, and its cost in steps of the run.

        Where no number can be had, the only entry is `not_predicted`, a sentence that says why.
    """
    try:
        prediction = _prediction(request, position, auxiliary, tuned or {})
        count = prediction.num_examples
        step = (
            request.copies
            * request.potential.batches.batch_size
            * request.method.gradients_per_step
        )
        heating = prediction.heating(tuned or {})
        heating["memory"] = prediction.memory(tuned or {})
        heating["memory_epochs"] = heating["memory"] / request.potential.batches.steps_per_epoch
        return {**heating, "num_examples": count, "steps": COST * count / step}
    except InputError as error:
        return {"not_predicted": str(error)}


def cool_enough(
    request: Request,
    position: np.ndarray,
    auxiliary: tuple,
    tuned: dict[str, Any],
    room: float = 1.0,
) -> dict[str, float]:
    """Factors of the friction and the step of a state at which mini-batch noise heats little.

    Nothing changes where the heating `mean`, the rise of the variances of all directions together,
    is at most 3/4 of `target_bias`, and that of each direction 3/4 of what the certificate allows.
    Elsewhere friction and step become those at which predictions forget fastest among all that are
    cool enough. Where single directions would cost more than five times as many steps, the mean
    alone decides.

    Args:
        request: The request of the run.
        position: Where the noise is measured, shape (parameters,).
        auxiliary: Non-trainable variables there.
        tuned: What the run has found, see `settings_of`.
        room: Times its length that the step may become before one looks again.

    Returns:
        Factors `friction` and `step_factor` of those that the run tunes; with a `room` above 1 also
        `step_limit`, that of the longest step that is wanted, where it is below `room`. Empty where
        nothing is to be changed, or helps.
    """
    try:
        prediction = _prediction(request, position, auxiliary, tuned)
    except InputError:
        return {}
    bias = request.options.target_bias
    both = _CoolSteps(prediction, tuned, _AIM * bias, _AIM * max(bias, MOST_OF_ONE))
    mean = _CoolSteps(prediction, tuned, _AIM * bias, math.inf)

    def steps_at(longest: float) -> NoisySteps | None:
        if both.is_cool_now(longest):
            return None
        adapts = isinstance(request.options.step_size, str)
        of_mean = mean.search(adapts).best(longest, both.friction)
        if of_mean is None or both.is_cool(of_mean.step_size, of_mean.friction):
            return of_mean
        of_both = both.search(adapts).best(longest, both.friction)
        affordable = of_both is not None and of_both.memory <= _PRICE * of_mean.memory
        if affordable:
            return of_both
        return None if mean.is_cool_now(longest) else of_mean

    h = tuned["step_size"]
    longest = steps_at(room * h)
    now = longest
    if room > 1 and (longest is None or longest.step_size > h):
        now = steps_at(h)
    factors = {} if now is None else _factors(now, h, both.friction)
    if room > 1 and longest is not None and longest.step_size < room * h * (1 - 1e-9):
        factors["step_limit"] = longest.step_size / h
    return factors


def _factors(steps: NoisySteps, step_size: float, friction: float) -> dict[str, float]:
    """What a step size and a friction are multiplied by."""
    factors = {}
    if steps.step_size < step_size * (1 - 1e-9):
        factors["step_factor"] = steps.step_size / step_size
    if friction:
        factors["friction"] = steps.friction / friction
    return factors


class _CoolSteps:
    """Which steps are cool enough, by predictions.

    Args:
        prediction: Heating and memory at some settings.
        tuned: The settings now.
        most_mean: The largest mean over the directions.
        most_single: The largest of one direction.
    """

    def __init__(
        self,
        prediction: NoisePrediction,
        tuned: dict[str, Any],
        most_mean: float,
        most_single: float,
    ) -> None:
        self._prediction = prediction
        self.friction = tuned.get("friction", 0.0)
        self._most_mean = most_mean
        self._most_single = most_single

    def is_cool_now(self, step_size: float) -> bool:
        """Whether nothing has to change at this step size."""
        return self.is_cool(step_size, self.friction)

    def search(self, adapts: bool) -> NoiseSearch:
        """The search among the settings that the run tunes."""
        return NoiseSearch(
            is_cool=self.is_cool,
            memory=self._memory,
            has_friction=bool(self.friction),
            has_steps=adapts,
        )

    def _settings(self, step_size: float, friction: float) -> dict[str, Any]:
        settings = {"step_size": step_size}
        if self.friction:
            settings["friction"] = friction
        return settings

    def is_cool(self, step_size: float, friction: float) -> bool:
        """Whether the heating is allowed at a step size and friction."""
        try:
            heating = self._prediction.heating(self._settings(step_size, friction), _FEW_PLACES)
        except InputError:  # unstable: new masses have made directions stiff
            return False
        single = max(heating.get("hottest", 0.0), heating.get("slowest", 0.0))
        return heating["mean"] <= self._most_mean and single <= self._most_single

    def _memory(self, step_size: float, friction: float) -> float:
        return self._prediction.memory(self._settings(step_size, friction))


class NoisePrediction:
    """What the noise at one place does at any step size and friction.

    Args:
        request: The request of the run.
        method: The sampler at the target.
        spectrum: The noise by direction, from one measurement.
    """

    def __init__(self, request: Request, method: Method, spectrum: NoiseSpectrum) -> None:
        self._request = request
        self._method = method
        self._spectrum = spectrum
        self.num_examples = spectrum.num_examples

    def heating(self, settings: dict[str, Any], most_places: int = MOST_PLACES) -> dict[str, Any]:
        """The entries of `expected_heating` from `slowest` to `gradient_variance`.

        Args:
            settings: What the run has found, see `settings_of`. Without step size or friction the
                values of the request count.
            most_places: Largest number of steps of a sweep that the heating is averaged over.
                Default: `MOST_PLACES`.

        Raises:
            InputError: The steps are unstable, or no direction has positive curvature.
        """
        method = _at(self._method, settings)
        step_size = settings.get("step_size")
        return _predicted(self._request, method, self._spectrum, step_size, most_places)

    def memory(self, settings: dict[str, Any]) -> float:
        """The steps within which predictions forget, at a `step_size` and `friction`."""
        method = _at(self._method, settings)
        return _memory(self._request, method, self._spectrum, settings.get("step_size"))


def _at(method: Method, settings: dict[str, Any]) -> Method:
    return method.at_friction(settings["friction"]) if "friction" in settings else method


def _prediction(
    request: Request, position: np.ndarray, auxiliary: tuple, tuned: dict[str, Any]
) -> NoisePrediction:
    """What tells the heating at a step size and friction, from one measurement."""
    method, coordinates = _linear_part(request, tuned.get("coordinates"))
    linear_step(
        _at(method, tuned),
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
    return NoisePrediction(request, method, seen[key])


def heating_sentence(heating: dict[str, Any], order: str) -> str:
    """What a run says at its start about the expected heating.

    Args:
        heating: What `expected_heating` returned.
        order: The option `batch_sampling`.
    """
    if "not_predicted" in heating:
        return f"Heating by mini-batch noise is not predicted: {heating['not_predicted']}"
    return (
        f"Mini-batch noise ({order}) is expected to raise the temperature of the slowest "
        f"directions by {percent(heating['slowest'])}, of the stiffest by "
        f"{percent(heating['stiffest'])}, on average by {percent(heating['mean'])}. The "
        f"configurational temperature will read {percent(heating['virial'])} higher. "
        f"Measured on {heating['num_examples']:,} examples in {heating['steps']:,.3g} steps. "
        f"{memory_sentence(heating)}"
    )


def memory_sentence(heating: dict[str, Any]) -> str:
    """Within how many epochs predictions are expected to decorrelate.

    Args:
        heating: What `expected_heating` returned.
    """
    return (
        "Predictions are expected to decorrelate within "
        f"{heating['memory_epochs']:,.2g} epochs ({heating['memory']:,.0f} steps)."
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
    request: Request,
    method: Method,
    spectrum: NoiseSpectrum,
    tuned_step: float | None,
    most_places: int,
) -> dict[str, Any]:
    potential = request.potential
    options = request.options
    batches = potential.batches
    count = potential.num_examples
    size = potential.num_parameters
    step_size, temperature = _target(request, tuned_step)
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
        most_places=most_places,
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


def _target(request: Request, tuned_step: float | None) -> tuple[float, float]:
    """Step size and temperature of the target."""
    options = request.options
    step_size = options.first_step_size
    temperature = options.kT
    rungs = temperatures_of(request.method).rungs
    if rungs is not None:
        beta, _, steps = (np.asarray(column, np.float64).ravel()[0] for column in rungs)
        step_size = float(steps)
        temperature = float(1 / beta)
    return tuned_step or step_size, temperature


def _memory(
    request: Request, method: Method, spectrum: NoiseSpectrum, tuned_step: float | None
) -> float:
    """Mean number of steps within which directions forget, weighted by what they do to predictions.

    The gradients of single examples along a direction vary as much as predictions change along it.
    So with curvature k a direction has the share V/k of the variance of predictions.
    """
    step_size, temperature = _target(request, tuned_step)
    curvature = np.append(spectrum.curvature, spectrum.rest_curvature)
    variance = np.append(spectrum.variance, spectrum.rest_variance)
    # The gradients of all examples bring V/N of information, about the curvature of the data.
    least = _PART_OF_INFORMATION * variance / request.potential.num_examples
    seen = variance > 0
    curvature = np.maximum(curvature, least)[seen]
    if not seen.any():
        return math.nan
    shares = variance[seen] / curvature
    steps = memory_steps(method, step_size, temperature, np.sqrt(curvature))
    return float(shares @ steps / shares.sum())
