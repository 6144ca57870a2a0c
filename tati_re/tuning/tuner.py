"""Where the burn-in ends, and how long the decoherence length is, from rows that the burn-in
keeps.
"""

import math
from typing import Any

import numpy as np

from tati_re.core import ops
from tati_re.core.errors import InputError
from tati_re.core.facets import BurninAround, tuning_of, turns_of
from tati_re.core.method import Method, Wrapper
from tati_re.core.protocol import fields_of, step_size_of
from tati_re.core.rhat import split_rhat
from tati_re.samplers.wrappers.coordinates import extend, inner_of
from tati_re.samplers.wrappers.metered import SETTLED, Metered
from tati_re.tuning.mass_change import (
    buckets,
    mass_change,
    mass_record,
    signs,
    unit_mass,
)

_ROWS = 256
_OWN = ("potential", "acceptance", "inverse_temperature", "likelihood_weight", "step_size", "heat")
_FIELDS = ("tuner_own", "tuner_sums", "tuner_window", "tuner_masses", "tuner_found", "raised")
_RECORD_FIELDS = ("end", "step", "mass", "length", "rhat", "heat")
LENGTHS = ("friction", "trajectory_length")
NOT_SETTLED = "not settled: "
LEARNT = "the ladder or the bias, which are not tested"
"""What is open after the burn-in of a ladder or of a bias, which has no test for it."""
LEARNT_BEFORE = "what a ladder or a bias learns, which is not looked at"
"""The same in manifests of earlier versions."""
LENGTH_NAMES = {"friction": "decoherence length", "trajectory_length": "trajectory length"}
"""What the burn-in calls the length that it tunes, by the name of its option or field."""
FOR_SPEED = ("step size", "masses", *LENGTH_NAMES.values())
"""What costs steps where it has not settled; the bias of the step that was found is measured after
the burn-in.
"""
FOR_SPEED_BEFORE = ("the step size", "the mass", "the length of the momenta's memory")
"""The same in manifests of earlier versions."""
_LONGEST = 1000.0  # Steps of the longest memory.
_PART = 0.4
_PART_ON_SPHERE = 0.65
_PART_OF_PATH = 0.25
_MOST_RHAT = 1.1
_MOST_WITHIN, _FEWEST_WITHIN = 1.05, 1_920.0
"""R-hat within chains and steps after which chains from fits are in equilibrium: a drift of U is
slow beside its fluctuations in a short window.
"""
_HOT = 2.0
_MASS_CHANGE = 0.25
_LENGTH_CHANGE = math.log(1.6)
_DRAWS = 400.0
_TIMES, _FEWEST, _ENOUGH, _UNSEEN = 10.0, 80.0, 2_500.0, 0.2
"""A window that settles a length has this many τ, at least the next number of steps, at most the
third; of what drifts through it τ seems a quarter of it.
"""


class Tuner(Wrapper):
    """A sampler whose burn-in ends where what adapts has settled, and whose friction or trajectory
    length is tuned.

    Targets what the sampler inside does.

    Rule: after 60, 120, 240, ... steps of the burn-in, from rows of the last third: U and 64 random
    projections of the positions (sums of the parameters with random signs, each parameter in one of
    them; below 64 parameters these), and the squares of these about their means. With τ the
    integrated autocorrelation time of the slowest of them, in steps, each walker about its own
    mean, the length of the memory L is moved half of the way, in its logarithm, to 0.4 h τ (a
    trajectory's: 0.25 τ L); the friction is 1/L. Under Langevin dynamics U is slow where the
    friction is low, the projections where it is high. Of momenta of fixed length L is 0.65 h τ at
    once, where τ is the largest beyond the noise of estimates from so few rows, which in early
    windows would double it; and as a long memory costs them little, 0.4 windows at least where τ is
    above a fifth of one. A step is the least of others, and 1,000 are the most; no L grows by a τ
    below two rows that are several steps apart. The burn-in is over when the step size has settled
    (EEVPD of the window between a quarter and twice the wanted one, the acceptance within 0.1), the
    mass has changed by less than a quarter since the last time, its median direction (by twice
    that in a window with 400 draws of U: where weights drift from copy to copy of a minimum, masses never settle), L
    by less than a factor 1.6, or 2.6 where it moves at once, in a window of 10 τ or 2,500 steps
    (what a friction was `raised` by since, to cool the noise of mini-batches, is no change), the
    split R-hat of U over the walkers of each rung is below 1.1, and their kinetic temperature below
    twice T. Cost: little; 256 rows in memory. Source: L = 0.4 h τ: Robnik et al., arXiv 2212.08549.

    Args:
        inner: A sampler that adapts, or has `friction` or `trajectory_length` in its state.
            Default: `Metered`.
        finds_end: Whether the burn-in ends automatically. Default: True.
        within_chains: Whether R-hat compares the halves of each walker alone, whose modes may
            differ. The burn-in then does not wait for what only costs steps: the mass and the
            length of the memory. Default: False.

    Raises:
        InputError: Walkers take turns.
    """

    def __init__(self, inner=None, finds_end: bool = True, within_chains: bool = False) -> None:
        super().__init__(inner or Metered())
        if turns_of(self.inner).groups > 1:
            raise InputError(
                "num_burnin_steps: the burn-in cannot end automatically if walkers take turns.",
                self.name,
            )
        self.adapts = True
        self.burnin = TunedBurnin(self, finds_end=finds_end, within_chains=within_chains)

    def init(self, position, evaluate, noise):
        state = self.inner.init(position, evaluate, noise)
        walkers, parameters = position.shape
        rows = (
            np.zeros((_ROWS, len(_OWN), walkers)),
            np.zeros((_ROWS, walkers, buckets(parameters)[1])),
        )
        values = (
            *rows,
            np.append(_window(0), 0.0),
            unit_mass(state),
            np.full(len(_RECORD_FIELDS), np.nan),
            np.ones(walkers),
        )
        wrapper_fields = {
            name: ops.constant(value, state.potential)
            for name, value in zip(_FIELDS, values, strict=True)
        }
        return extend(state, **wrapper_fields)

    def step(self, state, evaluate, noise):
        records, sums, window, *others = fields_of(state, _FIELDS).values()
        new, info = self.inner.step(inner_of(state), evaluate, noise)
        clock = evaluate.clock
        step = ops.as_float64(clock.step)
        place = step - window[0]
        due = (
            clock.adapting
            & (place > 0.0)
            & (place % window[1] == 0.0)
            & (place <= _ROWS * window[1])
        )

        def tuned(records, sums):
            index = ops.as_int32(place / window[1]) - 1
            row = _own(new, info)[None]
            return ops.with_rows(records, index, row), ops.with_rows(
                sums, index, _sums(new.position)[None]
            )

        records, sums = ops.replaced_if(due, tuned, (records, sums))
        last = ops.constant(np.array([0.0, 0.0, 1.0]), window)
        window = window * (1.0 - last) + step * last
        return type(state)(
            **new._asdict(), **dict(zip(_FIELDS, (records, sums, window, *others), strict=True))
        ), info

    def linear_part(self, coordinates: Any) -> tuple[Method, Any]:
        return self.inner.linear_part(coordinates)


class TunedBurnin(BurninAround):
    """The burn-in of a method whose end, and whose length of memory, follow from its rows.

    Args:
        method: The method.
        finds_end: The burn-in ends by itself.
        within_chains: R-hat compares the halves of each walker alone.
    """

    def __init__(self, method: Tuner, finds_end: bool, within_chains: bool = False) -> None:
        super().__init__(tuning_of(method.inner))
        self.isokinetic = method.dynamics.isokinetic
        self.finds_end = finds_end
        self.within_chains = within_chains
        self.renewals = tuple(sorted({*self.inner.renewals, *map(int, SETTLED)}))

    def renewed(self, state: Any) -> Any:
        """The state at the end of a window: with another length, and with what has settled."""
        start, stride, step = np.asarray(state.tuner_window)
        if step in self.inner.renewals:
            state = self.inner.renewed(state)
        if step not in SETTLED:
            return state
        count = min(_ROWS, int((step - start) // stride))
        records, sums = (
            np.asarray(values)[:count] for values in (state.tuner_own, state.tuner_sums)
        )
        weights = records[-1, 3]
        records, sums = _by_rung(records, sums)
        series = np.concatenate([records[:, :, :, :1], sums], axis=-1)
        # The squares too: where trajectories are half a period long, they are the slowest.
        series = np.concatenate([series, (sums - sums.mean(2, keepdims=True)) ** 2], axis=-1)
        tau, sure = stride * np.median([slowest(rung) for rung in series], axis=0)
        window = stride * count
        masses = mass_record(state)
        change = mass_change(state, np.asarray(state.tuner_masses), masses)
        changed, ratio = self._lengths(
            state, (tau, sure), float(np.median(records[..., 4])), window, stride
        )
        rhat = rhat_of_energies(records[..., 0], self.within_chains)
        heat = float(records[..., 5].mean((1, 2)).max())
        draws = (
            window * records.shape[1] / (stride * max(slowest(rung[..., :1])[0] for rung in series))
        )  # of U
        settled = (
            self.inner.step_settled(state, records[..., 1], weights),
            change < _MASS_CHANGE * (1.0 + (draws > _DRAWS)),
            abs(ratio) < _LENGTH_CHANGE
            and (not changed or window >= min(max(_TIMES * tau, _FEWEST), _ENOUGH)),
            rhat < _MOST_RHAT,
            heat < _HOT,
        )
        needed = (settled[0], *settled[3:]) if self.within_chains else settled
        over = self.finds_end and all(needed)
        if self.within_chains:
            over = over and rhat < _MOST_WITHIN and step >= _FEWEST_WITHIN
        number = int(np.searchsorted(SETTLED, step))
        new = {
            "tuner_window": np.append(_window(number + 1), step),
            "tuner_masses": masses,
            "tuner_found": np.array(
                [step if over else np.nan, *map(float, settled[:3]), rhat, heat]
            ),
            **changed,
        }
        return state._replace(
            **{name: ops.constant(new[name], old) for name, old in fields_of(state, new).items()}
        )

    def _lengths(
        self, state, taus: tuple[float, float], h: float, window: float, stride: float
    ) -> tuple[dict[str, Any], float]:
        """The field `friction` or `trajectory_length` as it is to be, and the change of the
        length's logarithm, from both times of `slowest`, the step size, and the steps of a window
        and between its rows.
        """
        for name, before in fields_of(
            state, [name for name in LENGTHS if name in state._fields]
        ).items():
            before = np.asarray(before)
            (tau, sure) = taus
            length = float(np.mean(1.0 / before if name == "friction" else before))
            on_sphere = self.isokinetic and name == "friction"
            if on_sphere:
                part = least = _PART_ON_SPHERE * h
                new_length = sure * part
                tau = sure
            else:
                part = _PART * h if name == "friction" else _PART_OF_PATH * length
                least = h
                new_length = math.sqrt(length * tau * part)
            if stride > 1 and tau < 2 * stride:
                # Rows too far apart to tell.
                new_length = min(new_length, length)
            if on_sphere and taus[0] > _UNSEEN * window:
                # U moves freely: a memory that is too long costs little, one that is too short
                # much.
                new_length = max(new_length, window * _PART * h)
            new_length = min(max(new_length, least), _LONGEST * h)
            # What was raised to cool the noise of mini-batches is no change of the length that is
            # wanted.
            change = math.log(new_length / (length * float(np.mean(np.asarray(state.raised)))))
            updated = 0.0 * before + (1.0 / new_length if name == "friction" else new_length)
            # Half of a whole move, as of one that goes half of the way.
            return {name: updated}, change / 2 if on_sphere else change
        return {}, 0.0

    def end(self, state: Any) -> int | None:
        end = float(np.asarray(state.tuner_found)[0])
        return int(end) if end > 0 else None

    @property
    def _compared(self) -> str:
        """How R-hat compares the walkers."""
        return "within" if self.within_chains else "between"

    def shortened(self, state: Any, step: int) -> Any:
        state, records = self.inner.shortened(state, step), np.array(state.tuner_found)
        records.reshape(-1, len(_RECORD_FIELDS))[:, 0] = step
        return state._replace(tuner_found=ops.constant(records, state.tuner_found))

    def tuned(self, state: Any) -> str:
        """A line on what was tuned, and on what had not settled when the burn-in was over, in any
        block of walkers.
        """
        values = state._asdict()
        values.setdefault("step_size", step_size_of(state, state.rung))
        names = [name for name in ("step_size", *LENGTHS, "mass_spread") if name in values]
        parts = [f"{name.replace('_', ' ')} {_range(np.asarray(values[name]))}" for name in names]
        records = np.reshape(state.tuner_found, (-1, len(_RECORD_FIELDS)))[:, 1:].T
        length = next((name for name in reversed(LENGTHS) if name in values), LENGTHS[0])
        tuned = ("step size", "masses", LENGTH_NAMES[length])
        open_ = [
            name for name, settled in zip(tuned, records, strict=False) if not (settled > 0).all()
        ]
        if not (rhat := records[3].max()) < _MOST_RHAT:
            open_.append(f"U (R-hat {rhat:.3g} {self._compared} chains)")
        if not records[4].max() < _HOT:
            open_.append("kinetic temperature")
        if np.isnan(records).all():
            open_ = ["nothing was tested: no window of steps was complete"]
        if self.finds_end and open_:
            parts.append(NOT_SETTLED + ", ".join(open_))
        return ", ".join(parts)


def rhat_of_energies(energies: np.ndarray, within_chains: bool) -> float:
    """The worst split R-hat of U over the rungs.

    Args:
        energies: U, shape (rungs, walkers of each, rows).
        within_chains: Each walker is taken about its own mean, so that only its halves differ.
    """
    if within_chains:
        energies = energies - energies.mean(axis=2, keepdims=True)
    return float(max(split_rhat(rung) for rung in energies))


def slowest(series: np.ndarray) -> tuple[float, float]:
    """The largest integrated autocorrelation time of `(walkers, rows, columns)`, each walker about
    its own mean, in rows, at least 1, by Geyer's initial positive sequence of the mean over the
    walkers; and the largest of them over 1 + 0.8 sqrt(2 ln columns) sqrt((4 lags + 2)/draws): by so
    much the largest of as many estimates is too large.
    """
    size = series.shape[1]
    values = series - series.mean(1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(values, 2 * size, axis=1)) ** 2
    covariance = np.fft.irfft(spectrum.mean(0), axis=0)[:size]
    moves = np.isfinite(covariance).all(0) & (covariance[0] > 0)
    if size < 4 or not moves.any():
        return 1.0, 1.0
    rho = covariance[: size // 2 * 2, moves] / covariance[0, moves]
    pairs = rho[0::2] + rho[1::2]
    positive = np.cumprod(pairs > 0, axis=0)
    tau = np.maximum(2.0 * (pairs * positive).sum(0) - 1.0, 1.0)
    noise = np.sqrt((8.0 * positive.sum(0) + 2.0) / values[..., 0].size)
    sure = tau / (1.0 + 0.8 * math.sqrt(2.0 * math.log(len(tau))) * noise)
    return float(tau.max()), max(1.0, float(sure.max()))


def _window(number: int) -> np.ndarray:
    """The step before the first row of a window, and the steps between rows."""
    return np.array(
        [SETTLED[number] // 3 * 2, max(1, -(-(SETTLED[number] // 3) // _ROWS))], np.float64
    )


def _sums(position):
    """Sums of parameters with random signs, `(walkers, projections)`, float64."""
    parameters = position.shape[1]
    size, count = buckets(parameters)
    signed = position[:, : size * count] * ops.constant(signs(parameters), position)
    parts = ops.reshape(signed, (-1, size, count))
    return ops.as_float64(ops.reshape(ops.sum_over(parts, 1), (-1, count)))


def _own(state, info):
    """The columns `_OWN` of a step, `(columns, walkers)`."""
    zeros = 0.0 * state.potential
    rung = state.rung
    acceptance = zeros if info.acceptance is None else info.acceptance
    of_rung = rung.inverse_temperature, rung.likelihood_weight, step_size_of(state, rung)
    heat = zeros
    if "momentum" in state._fields:
        squares = ops.sum_of_products(state.momentum, state.momentum)
        heat = squares * rung.inverse_temperature / float(state.position.shape[1])
    return ops.stack([state.potential, acceptance, *(values + zeros for values in of_rung), heat])


def _by_rung(records: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both as `(rungs, walkers of each, rows, columns)`: where replicas swap rungs, a series is
    that of a rung.
    """
    records = records.transpose(0, 2, 1)
    walkers = records.shape[1]
    counts = np.unique(records[-1, :, 2:4], axis=0, return_counts=True)[1]
    walkers_per_rung = int(counts[0]) if (counts == counts[0]).all() else walkers
    ladder = np.broadcast_to(np.arange(walkers) % walkers_per_rung, records.shape[:2])
    order = np.lexsort((ladder, -records[..., 3], -records[..., 2]), axis=-1)[..., None]
    shape = (len(records), walkers // walkers_per_rung, walkers_per_rung, -1)
    records, sums = (
        np.take_along_axis(values, order, 1).reshape(shape).transpose(1, 2, 0, 3)
        for values in (records, sums)
    )
    return records, sums


def _range(values: np.ndarray) -> str:
    low = values.min()
    high = values.max()
    return f"{low:.3g}" if high <= low * (1 + 1e-9) else f"{low:.3g} to {high:.3g}"
