"""How far the noise of mini-batches heats a sampler, from one step of it on harmonic wells, without
a simulation.

A step that is linear on U = ω²x²/2 is a map z -> M z + b c, c the noise of its gradient. The noise
at two steps of a sweep has a known covariance, so that the covariance of z, and with it the
temperature, is a sum.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.evaluate import Clock, Energy, Evaluate, Rung
from tati_re.core.front_door import front_door
from tati_re.core.method import Method

MOST_OF_ONE = 0.1
"""Relative error of a single direction's variance above which a mean over all directions hides it."""

MOST_PLACES = 128
"""Steps of a sweep over which temperatures are averaged."""
_FORGOTTEN = 1e-12
_EVALUATED = ("potential", "loss", "log_prior", "rung")
_TOLERANCE = 1e-9


class Heating(NamedTuple):
    """Relative increase by mini-batch noise, one entry per frequency; 0.04 is 4 %.

    Attributes:
        position: Increase of ω² times the variance of the position, the temperature of the
            parameter distribution.
        virial: Increase of x times the sampler's gradient, which the configurational temperature
            averages. In sweeps it exceeds the value for positions, because they remember the
            batches of the sweep.
        kinetic: Increase of the squared momentum; nan for a sampler without momenta.
    """

    position: np.ndarray
    virial: np.ndarray
    kinetic: np.ndarray


class LinearStep(NamedTuple):
    """One step of a sampler on wells of several frequencies, z -> matrix z + push c, c the noise of
    the gradient: `matrix` `(wells, n, n)`, `push` `(wells, n)`, and which entry of z is the
    `momentum`; the position is the first.
    """

    matrix: np.ndarray
    push: np.ndarray
    momentum: int | None


@front_door
def relative_heating(
    method: Method,
    step_size: float,
    temperature: float,
    omega: Sequence[float] | np.ndarray,
    variance: Sequence[float] | np.ndarray | float,
    order: str,
    batch_size: int,
    num_examples: int,
    record_every: int = 1,
    most_places: int = MOST_PLACES,
) -> Heating:
    """Computes how much mini-batch gradient noise heats modes of frequency ω, within milliseconds.

    A tuner tries several step sizes and frictions. The heating grows with the step size h and falls
    with the friction. It is proportional to the variance and to 1/T.

    Args:
        method: A sampler whose step is linear in a harmonic well, with its friction.
        step_size: h, below the stability limit of every ω.
        temperature: T, above 0.
        omega: Frequencies, the square roots of curvatures of U, `(wells,)`.
        variance: Variance of the gradient of one step along each mode, `(wells,)` or one number.
        order: Order of the batches, "epochs", "symmetric" or "replacement".
        batch_size: Number of examples in a batch.
        num_examples: N, the number of all examples.
        record_every: Steps between the recorded steps. In sweeps it matters which steps are
            recorded. Default: 1.
        most_places: The steps of a sweep that are averaged over at most, evenly spaced. Default:
            128.

    Returns:
        The heating of each mode.

    Raises:
        InputError: The step is not linear, or unstable.

    Examples:
        >>> from tati_re.samplers import Splitting
        >>> found = relative_heating(Splitting("BAOAB", 8.0), 0.3 / 8, 1.0, [8.0], 100.0, "replacement", 16, 64)
        >>> float(found.position[0].round(3))  # h V / (2 γ T) = 0.234 for white noise
        0.242
    """
    omega = np.asarray(omega, np.float64)
    step = linear_step(method, step_size, temperature, omega**2)
    spread = noise_covariance(step, order, batch_size, num_examples, record_every, most_places)
    share = np.asarray(variance, np.float64) / temperature
    hot = omega**2 * spread.position
    return Heating(share * hot, share * (hot + spread.virial), share * spread.kinetic)


def noise_covariance(
    step: LinearStep,
    order: str,
    batch_size: int,
    num_examples: int,
    record_every: int = 1,
    most_places: int = MOST_PLACES,
) -> Heating:
    """Variances and covariances of a step on harmonic wells per unit of gradient noise.

    With replacement the noise is white. A sweep of m batches without replacement has the covariance
    C = s (δ/n - 1/N) between two batches of n of N examples. Thus it sums to zero. Symmetric sweeps
    see each batch twice, the second time in reverse order.

    Args:
        step: The linear step.
        order: Order of the batches, "epochs", "symmetric" or "replacement".
        batch_size: Number of examples in a batch.
        num_examples: N, the number of all examples.
        record_every: Steps between the recorded steps. Default: 1.
        most_places: Steps of a sweep that are averaged over at most. Default: 128.

    Returns:
        Three numbers for each well, shape (wells,) each. `position` is the variance of the
        position. `virial` is its covariance with the noise of the step. `kinetic` is the variance
        of the momentum, nan without momenta.

    Raises:
        InputError: The steps are unstable.
    """
    wells, size = step.push.shape
    # The noise of the step itself is one more entry of z.
    matrix = np.zeros((wells, size + 1, size + 1))
    push = np.ones((wells, size + 1))
    matrix[:, :size, :size] = step.matrix
    push[:, :size] = step.push

    if (np.abs(np.linalg.eigvals(matrix)).max(-1) >= 1).any():
        raise InputError("step_size: the steps are unstable in the stiffest direction.")
    if order == "replacement":
        covariance = _stationary(matrix, push[:, :, None] * push[:, None])
    else:
        covariance = _over_a_sweep(
            matrix,
            push,
            twice=order == "symmetric",
            batch_size=batch_size,
            num_examples=num_examples,
            record_every=record_every,
            most_places=most_places,
        )

    kinetic = (
        np.full(wells, np.nan)
        if step.momentum is None
        else covariance[:, step.momentum, step.momentum]
    )
    return Heating(covariance[:, 0, 0], covariance[:, 0, -1], kinetic)


def _over_a_sweep(
    matrix: np.ndarray,
    push: np.ndarray,
    twice: bool,
    batch_size: int,
    num_examples: int,
    record_every: int,
    most_places: int,
) -> np.ndarray:
    """The covariance of z per unit of one batch's variance, over the places of a sweep that are
    looked at, `(wells, n, n)`.
    """
    num_batches = -(-num_examples // batch_size)
    if num_batches == 1:
        return np.zeros_like(matrix)
    length = 2 * num_batches if twice else num_batches
    mean_size = num_examples / num_batches if twice else batch_size
    last = num_examples - (num_batches - 1) * batch_size
    kicks = np.zeros((length, *push.shape))
    kicks[0] = push
    reach = 1
    while reach < length and np.abs(kicks[reach - 1]).max() > _FORGOTTEN:
        kicks[reach] = (matrix @ kicks[reach - 1][:, :, None])[:, :, 0]
        reach += 1
    squares = np.cumsum(_outer(kicks, kicks), axis=0)
    sums = np.cumsum(kicks, axis=0)

    def fresh(place: int) -> np.ndarray:
        """What the noise of the first steps of a sweep brings."""
        total = squares[place - 1] / mean_size
        again = place - num_batches
        if twice and 0 < again < reach:
            late = kicks[again : 2 * again][::-1]
            pairs = np.einsum("kwi,kwj->wij", late, kicks[:again]) / mean_size
            total = total + pairs + pairs.swapaxes(1, 2)
        if not twice and place == length:  # the last batch may be short
            total = total + (1 / last - 1 / mean_size) * _outer(push, push)
        return total - _outer(sums[place - 1], sums[place - 1]) / num_examples

    start = _stationary(np.linalg.matrix_power(matrix, length), fresh(length))
    # Rows are those of steps record_every, 2 record_every, ...; the first batch is that of the
    # start, before step 1.
    stride = math.gcd(record_every, length)
    count = length // stride
    looked_at = (
        np.arange(count)
        if count <= most_places
        else (np.arange(most_places) + 0.5) * count / most_places
    )
    step_numbers = 1 + stride * looked_at.astype(int)
    total = np.zeros_like(matrix)
    for place in map(int, step_numbers):
        power = np.linalg.matrix_power(matrix, place)
        total += power @ start @ power.swapaxes(1, 2) + fresh(place)
    return total / len(step_numbers) / (1 / mean_size - 1 / num_examples)


def _outer(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Products of all entries, `(..., n, n)` from `(..., n)`."""
    return left[..., :, None] * right[..., None, :]


def _stationary(matrix: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """S = M S M' + Q, of each well."""
    wells, size, _ = matrix.shape
    both = np.einsum("wij,wkl->wikjl", matrix, matrix).reshape(wells, size**2, size**2)
    covariance = np.linalg.solve(np.eye(size**2) - both, noise.reshape(wells, size**2, 1))
    return covariance.reshape(wells, size, size)


def memory_steps(
    method: Method,
    step_size: float,
    temperature: float,
    omega: Sequence[float] | np.ndarray,
) -> np.ndarray:
    """The steps within which modes of frequency ω forget where they were.

    Args:
        method: A sampler whose step is linear in a harmonic well, with its friction.
        step_size: h, below the stability limit of every ω.
        temperature: T, above 0.
        omega: Frequencies, the square roots of curvatures of U, `(wells,)`.

    Returns:
        The steps after which a deviation has fallen by the factor e, `(wells,)`; at least 1.

    Raises:
        InputError: The step is not linear, or unstable.

    Examples:
        >>> from tati_re.samplers import Splitting
        >>> steps = memory_steps(Splitting("BAOAB", 20.0), 0.01, 1.0, [1.0])
        >>> int(steps[0])  # γ/(ω² h) = 2,000 steps, overdamped
        1988
    """
    omega = np.asarray(omega, np.float64)
    matrix = linear_step(method, step_size, temperature, omega**2).matrix
    radius = np.abs(np.linalg.eigvals(matrix)).max(-1)
    if (radius >= 1).any():
        raise InputError("step_size: the steps are unstable in the stiffest direction.")
    return np.maximum(1.0, -1.0 / np.log(np.maximum(radius, 1e-300)))


def slowest_frequency(
    method: Method, step_size: float, temperature: float, fastest: float, num_steps: int
) -> float:
    """The lowest frequency at which a deviation falls by the factor e within some number of steps.

    Args:
        method: A sampler whose step is linear in a harmonic well.
        step_size: h.
        temperature: T, above 0.
        fastest: The highest frequency; returned if no frequency relaxes.
        num_steps: The number of steps.
    """
    omega = fastest * np.logspace(-6, 0, 121)
    radius = np.abs(
        np.linalg.eigvals(linear_step(method, step_size, temperature, omega**2).matrix)
    ).max(-1)
    relaxed = num_steps * np.log(np.maximum(radius, 1e-300)) <= -1
    return float(omega[np.argmax(relaxed)]) if relaxed.any() else fastest


def linear_step(
    method: Method, step_size: float, temperature: float, stiffness: np.ndarray
) -> LinearStep:
    """The sampler's step on wells U = k x²/2, without its random numbers.

    One call moves a walker from each unit vector of the state. One call starts from zero with a
    unit of gradient noise. Two more calls show whether the step is linear, and whether something
    adapts.

    Args:
        method: The sampler.
        step_size: h.
        temperature: T, above 0.
        stiffness: k of each well, shape (wells,).

    Raises:
        InputError: The step is not linear, or does not run on NumPy arrays.
    """
    clause = method.against_noise
    refuse_if(clause is not None, f"{method.name}: {clause}")
    try:
        with np.errstate(all="ignore"):
            return _linear_step(method, step_size, temperature, np.asarray(stiffness, np.float64))
    except InputError as error:
        raise InputError(f"{method.name}: {error}") from None
    except Exception as error:  # the code of others, which may know tensors only
        raise InputError(
            f"{method.name}: its step does not run on NumPy arrays ({type(error).__name__})."
        ) from error


def _linear_step(
    method: Method, step_size: float, temperature: float, stiffness: np.ndarray
) -> LinearStep:
    state = method.init(
        np.zeros((len(stiffness), 1)),
        _Wells(stiffness[:, None], step_size, temperature),
        _Silence(),
    )
    alike = [
        name for name, value in state._asdict().items() if np.shape(value) == (len(stiffness), 1)
    ]
    names = ["position", *(name for name in alike if name != "position")]
    size = len(names)
    tried = np.zeros(
        (size + 3, size + 1)
    )  # rows: units, noise, a mixture of all, nothing; columns: state, noise
    tried[: size + 1] = np.eye(size + 1)
    tried[size + 1] = 0.3 + 0.7 * np.cos(np.arange(size + 1.0))
    rows = np.tile(tried, (len(stiffness), 1))
    wells = _Wells(np.repeat(stiffness, size + 3)[:, None], step_size, temperature)
    state = method.init(np.zeros((len(rows), 1)), wells, _Silence())
    state = state._replace(**{name: rows[:, [i]] for i, name in enumerate(names)})
    wells.noise = rows[:, [size]]
    state = method.step(state, wells, _Silence())[0]
    after = np.concatenate([np.asarray(getattr(state, name), np.float64) for name in names], 1)
    after = after.reshape(len(stiffness), size + 3, size)
    others = [value for name, value in state._asdict().items() if name not in (*names, *_EVALUATED)]
    same = all(
        np.ptp(np.asarray(value, np.float64).reshape(len(rows), -1), axis=0).max() == 0
        for value in others
    )
    mixed = np.einsum("j,wji->wi", tried[size + 1], after[:, : size + 1])
    bound = _TOLERANCE * np.abs(after).max(axis=(1, 2))
    linear = (np.abs(after[:, -2] - mixed).max(1) <= bound) & (np.abs(after[:, -1]).max(1) <= bound)
    refuse_if(not (same and linear.all()), "its step adapts, or is nonlinear in the gradient.")
    momentum = names.index("momentum") if "momentum" in names else None
    return LinearStep(after[:, :size].swapaxes(1, 2), after[:, size], momentum)


class _Silence:
    def normal(self, shape):
        return np.zeros(tuple(shape))

    def uniform(self, shape):
        return np.full(tuple(shape), 0.5)


class _Wells(Evaluate):
    """U = k x²/2 of each walker, `(walkers, 1)`, with `noise` added to the gradients of
    mini-batches.
    """

    scale = 1.0
    num_examples = 1
    exact = False

    def __init__(self, stiffness: np.ndarray, step_size: float, temperature: float) -> None:
        self.stiffness = stiffness
        self.noise = np.zeros_like(stiffness)
        ones = np.ones(len(stiffness))
        self.rung = Rung(ones / temperature, ones, ones * step_size)
        self.clock = Clock(np.int64(1), np.bool_(False), np.int32(0))

    def __call__(self, position) -> Energy:
        return self._energy(position, self.noise)

    def full(self, position) -> Energy:
        return self._energy(position, 0.0)

    def _energy(self, position, noise) -> Energy:
        values = self.mean_loss(position)
        return Energy(values, self.stiffness * position + noise, values, 0 * values)

    def mean_loss(self, position):
        return 0.5 * (self.stiffness * np.asarray(position) ** 2)[:, 0]

    def log_prior(self, position):
        return np.zeros(len(position))

    def part(self, *_: Any) -> Any:
        raise InputError("its step uses more than the gradient.")

    validation = gradient_variance = examples = drawn_from_prior = part
