"""The step size of methods without a Metropolis test, from the energy error of their steps during
the burn-in.
"""

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from tati_re.core import ops
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.facets import BurninAround, tuning_of, turns_of
from tati_re.core.method import Method, Wrapper
from tati_re.core.protocol import fields_of, same_rung
from tati_re.samplers.splitting import FIRST_RATE, Splitting
from tati_re.samplers.wrappers.coordinates import Diagonal, extend, inner_of, stiffest
from tati_re.samplers.wrappers.fisher import ENDS, is_among

SETTLED = ENDS + ENDS // 2
"""Steps after which a burn-in may be over: mass and step size have had the time since the last of
`ENDS` to agree.
"""
_CHANGED = np.unique(np.concatenate([[5, 10, 20], ENDS[2:] + ENDS[2:] // 16, ENDS + ENDS // 4]))
_CONFIRMED = np.unique(np.concatenate([ENDS, SETTLED]))
BAND = 2.0
_AIM = 0.5
"""Of the wanted energy error: walkers come to steeper places later, and what they measure there
stays in the band.
"""
LEAST = _AIM / BAND
"""An energy error between this and `BAND`, in units of the wanted one, is near enough."""
_OFTEN = 4
RARELY = 100
_MOST_CHANGE = 3.0
UNLIMITED = 1e10
_ABSURD = 100.0
_OF_BATCHES = 10.0
_TOO_MUCH = 100.0
_RARE = 25.0
_RARE_OF_TWO = 1000.0
_CLEAR = 0.01
_IN_A_ROW = 20
_LEAST_CAUTION = 0.2
_HOT = 10.0
PART_OF_LIMIT = {True: 0.25, False: 0.1}


def error_of_bias(bias: float) -> float:
    """The variance of a step's energy error, in units of d T², at which OBABO's variances are wrong
    by this share.
    """
    return 4.0 * bias**3 / (1.0 + bias) ** 2


def wanted_error(bias: float, directions: int = 1) -> float:
    """EEVPD up to which the variances are wrong by this share at most.

    EEVPD is a mean over d directions. At its value for the share, the mean error of the variances
    is below the share. Divided by d it bounds each direction: all of the energy error may be its.

    Args:
        bias: The share.
        directions: 1 to bound the mean; d to bound each of d directions.
    """
    return error_of_bias(bias) / directions


def is_timed(method: Method) -> bool:
    """Whether the step size is a time; else it multiplies the gradient, as half the square of a
    time does.
    """
    timed = method.dynamics.timed
    return method.has_momentum if timed is None else timed


def first_factor(method: Method, state, evaluate, noise):
    """The first factor of the rung's step size, shape (walkers,).

    It leads to a quarter of the limit of stability, or without momenta a tenth, at the largest
    curvature of the rung's walkers. It is 1 where there is no curvature.

    Args:
        method: The method whose step size is found.
        state: Its state at the start.
        evaluate: Computes U and its gradient on the first mini-batch.
        noise: Random numbers of this step; one normal number per parameter is drawn.
    """
    ask = evaluate.full if method.full_batch else evaluate
    units = Diagonal(0.0 * state.position + method.speeds(state))
    curvature = stiffest(
        ask, state.position, state.gradient, units, noise.normal(state.position.shape)
    )
    curvature = ops.where(ops.is_finite(curvature), curvature, 0.0 * curvature)
    largest = ops.largest(same_rung(state.rung) * curvature[None, :], 1)
    known = largest > 0.0
    largest = ops.where(known, largest, 0.0 * largest + 1.0)
    limit = 2.0 / (ops.sqrt(largest) if is_timed(method) else largest)
    return ops.where(
        known, PART_OF_LIMIT[is_timed(method)] * limit / state.rung.step_size, 0.0 * largest + 1.0
    )


def timed_at(state, factor) -> dict:
    """First values of friction and trajectory length for a step size, by the name of the field.

    Args:
        state: The state; fields that it lacks are left out.
        factor: The step size in units of the rung's, shape (walkers,).
    """
    time = state.rung.step_size * factor
    known = {"friction": FIRST_RATE / time, "trajectory_length": 3.0 * time}
    return {name: value for name, value in known.items() if name in state._fields}


class Metered(Wrapper):
    """A method without a Metropolis test whose step size follows from the bias that is allowed, in
    the burn-in.

    Targets exp(-β U) up to the bias of the method inside, once the burn-in is over.

    Rule: ΔE is the energy error of a step of velocity Verlet (OBABO's) from where the walker is,
    both ends on the mini-batch of the step; the method's own where it tells it (`meters`), and for
    methods without momenta, whose step size h multiplies the gradient, that of the time step
    sqrt(2h) and fresh momenta. EEVPD is the mean of ΔE²/(d T²) over a window and all walkers of a
    rung; on a harmonic well whose variance OBABO makes wrong by β it is 4β³/(1+β)², for each
    frequency and friction, and as this is convex in β the mean error over the directions is below
    that of the mean EEVPD. At the end of a window

        h <- h clip((2β³/(1+β)² / EEVPD)^(1/6), 1/3, 3)        (h without momenta: the power 1/3)

    The ΔE² of a step of two gradients that meters itself counts half, and the power is 1/8, between
    1/6 and the 1/10 of an error of fourth order: on a harmonic well the bound holds up to β = .08,
    for the error is smaller than Verlet's. Windows end at 5, 10, 20 and 40 steps, and then at 1,
    1.25, 1.5 and 2 times 40, 80, 160, ...; half of the wanted EEVPD is aimed at, for walkers come
    to steeper places later, and at the ends of the longer ones h stays where EEVPD is between that
    and the wanted one, so that what is frozen was measured at itself or nearly so. From the 40th
    step to the end of the burn-in ΔE² counts as 25 times its wanted mean at most: of a Gaussian ΔE
    that takes 10⁻⁵, of one direction alone, whose ΔE is a product of two Gaussians, 2.5 %, and rare
    large errors do not decide; of a step of two gradients, which is longer and meets them more
    often, it counts as 1,000 times. The first h is a quarter of the limit of stability (without
    momenta a tenth) at the largest curvature of the start. In the burn-in a step to a position,
    gradient or potential that is not finite, or an absurd energy, is undone, momenta turned; the
    walker's step is halved at once, recovers in two steps, and what is measured meanwhile counts as
    what it would be at the whole step. After 20 in a row the potential is nan: the run ends. Later
    nothing is undone.

    The state has, of the rung: `step_factor`, the step size in units of the rung's; `step_limit`,
    which it does not pass; `caution`, the part of it that is in use; `eevpd`, that of the window,
    after the burn-in of all steps since; and its sums. `divergences` counts what was undone. Cost:
    in the burn-in two gradients each 4th step, later each 100th; none where the method meters.
    BAOAB is exact where OBABO has the bias: the bound is a wide one for it. Source: Robnik and
    Seljak, arXiv 2412.08876 (the bound), 2212.08549 (the power).

    Args:
        inner: A method without a Metropolis test that moves all walkers at once. Default: BAOAB.
        target_bias: β, above 0. Default: 0.02.
        bounded_directions: d. The wanted EEVPD is d times smaller, and β bounds each of d
            directions. Default: 1.

    Raises:
        InputError: The method has a Metropolis test or moves groups of walkers in turn, or β is
            not above 0.
    """

    fields = ("step_factor", "step_limit", "eevpd", "error_square", "error_count")

    def __init__(self, inner=None, target_bias: float = 0.02, bounded_directions: int = 1) -> None:
        super().__init__(inner or Splitting())
        if self.inner.metropolis or turns_of(self.inner).groups > 1:
            raise InputError(
                "target_bias applies only to methods without a Metropolis test.",
                self.inner.name,
                "such as BAOAB",
            )
        refuse_if(
            not target_bias > 0,
            "target_bias is not a relative error of variances.",
            target_bias,
            "a number above 0",
        )
        self.target_bias = float(target_bias)
        self.bounded_directions = int(bounded_directions)
        self.wanted = wanted_error(self.target_bias, self.bounded_directions)
        self._meters = self.inner.dynamics.meters
        self.stages = self.inner.gradients_per_step if self._meters else 1.0
        self.rare = _RARE if self.stages == 1.0 else _RARE_OF_TWO
        if self.stages > 1.0:
            order = 8.0
        else:
            order = 6.0 if is_timed(self.inner) else 3.0
        self.power = 1.0 / order
        self.adapts = True
        self.dynamics = replace(self.inner.dynamics, undoes=True)
        self.burnin = MeteredBurnin(self)
        self.of_rung = (*self.fields, *self.inner.of_rung)
        self.shown = (*self.inner.shown, "eevpd", "divergences")

    def init(self, position, evaluate, noise):
        state = self.inner.init(position, evaluate, noise)
        zeros = 0.0 * state.potential
        factor = first_factor(self.inner, state, evaluate, noise)
        state = state._replace(**timed_at(state, factor))
        wrapper_fields = dict.fromkeys((*self.fields, "caution", "divergences", "failures"), zeros)
        return extend(
            state,
            **wrapper_fields
            | {"step_factor": factor, "step_limit": zeros + UNLIMITED, "caution": zeros + 1.0},
        )

    def step(self, state, evaluate, noise):
        adapting = evaluate.clock.adapting
        (factor, limit, eevpd, square, count) = fields_of(state, self.fields).values()
        caution = state.caution
        zeros = 0.0 * factor
        # Where caution is 0 the sums are those of the steps after the burn-in.
        begins = (caution > 0.0) & ~adapting
        square, count = (ops.where(begins, zeros, values) for values in (square, count))
        inside = inner_of(state)
        used = state.rung.step_size * factor * ops.where(adapting, caution, zeros + 1.0)
        inside = inside._replace(rung=state.rung._replace(step_size=used))
        new, info = self.inner.step(inside, evaluate, noise)
        if not self.current:  # its potential is that of a place within the step
            end = new.position
            potential = ops.cond(
                adapting, lambda: copy.copy(evaluate)(end).potential, lambda: new.potential
            )
            new = new._replace(potential=potential)
        error = self._error(inside, info, evaluate, noise)
        bad = adapting & self._is_bad(inside, new, error, evaluate)
        new, failures = self._undone(inside, new, bad, ops.where(bad, state.failures + 1.0, zeros))
        # What was measured at a part of the step, as it is at the whole one; at a small part it may
        # be round-off.
        careful = ops.where(adapting & (caution > 0.0), caution, zeros + 1.0)
        values = ops.where(ops.is_finite(error) & ~bad, error, zeros) ** 2
        values = values / (
            self.stages * float(state.position.shape[1]) * self._hotness(inside) ** 2
        )
        clear = (careful >= _LEAST_CAUTION) | (values > _CLEAR * self.wanted)
        measured = ops.is_finite(error) & ~bad & clear
        # One step in a thousand with an error of its own kind, as at the kinks of ReLU, would
        # settle a mean.
        most = ops.where(
            adapting & (evaluate.clock.step > ENDS[0]),
            zeros + self.rare * self.wanted,
            zeros + _TOO_MUCH,
        )
        values = ops.minimum(values / careful ** (1.0 / self.power), most)
        square = square + ops.where(measured, values, zeros)
        count = count + ops.as_float64(measured)
        eased = ops.where(bad, 0.5 * caution, ops.minimum(2.0**0.5 * caution, zeros + 1.0))
        eevpd = ops.where(count > 0.0, square / ops.maximum(count, zeros + 1.0), eevpd)
        step = evaluate.clock.step
        confirmed = adapting & is_among(step, _CONFIRMED)
        due = confirmed | (adapting & is_among(step, _CHANGED))
        pooled, total = rung_mean(state.rung, square, count)
        changed = ops.minimum(
            ops.maximum(factor * self._change(pooled, confirmed), zeros + 1.0 / UNLIMITED), limit
        )
        tuned = due & (total > 0.0)
        wrapper_fields = {
            "step_factor": ops.where(tuned, changed, factor),
            "step_limit": limit,
            "failures": failures,
        }
        wrapper_fields |= {
            "caution": ops.where(adapting, eased, zeros),
            "divergences": state.divergences + ops.as_float64(bad),
        }
        wrapper_fields |= {
            "eevpd": ops.where(tuned, pooled, eevpd),
            "error_square": ops.where(due, zeros, square),
        }
        wrapper_fields["error_count"] = ops.where(due, zeros, count)
        return type(state)(**{**new._asdict(), "rung": state.rung}, **wrapper_fields), info

    def linear_part(self, coordinates: Any) -> tuple[Method, Any]:
        return self.inner.linear_part(coordinates)

    def shorter(self, state: Any) -> Any:
        """The state with a step whose energy error since the burn-in is as wanted, if it was
        above.
        """
        pooled, _ = rung_mean(state.rung, state.error_square, state.error_count)
        shorter = ops.minimum(self._change(pooled, pooled < 0.0), 0.0 * pooled + 1.0)
        # Caution is 0 after a burn-in; where it is not, the next step begins new sums.
        changed = {"step_factor": state.step_factor * shorter, "caution": state.caution + 1.0}
        return state._replace(**changed)

    def _change(self, pooled, confirmed):
        """The factor of the step size from the EEVPD of a window."""
        ratio = _AIM * self.wanted / ops.maximum(pooled, 1e-30 * self.wanted + 0.0 * pooled)
        most = _MOST_CHANGE ** (6.0 * self.power)
        change = ops.maximum(
            ops.minimum(ratio**self.power, most + 0.0 * ratio), 1.0 / most + 0.0 * ratio
        )
        return ops.where(
            confirmed & (ratio < _AIM * BAND) & (ratio > _AIM), 0.0 * ratio + 1.0, change
        )

    def _due(self, clock):
        """Whether the energy error of a step is measured."""
        often = (clock.step % (1 if self._meters else _OFTEN) == 0) | (clock.step <= ENDS[0])
        return (clock.step % RARELY == 0) | (clock.adapting & often)

    def _time(self, state):
        h = state.rung.step_size
        return h if is_timed(self.inner) else ops.sqrt(2.0 * h)

    def _hotness(self, state):
        """T, or far from equilibrium what momenta and gradients are worth, to which an energy error
        belongs there.
        """
        squares = ops.sum_of_products(state.gradient, state.gradient) * self._time(state) ** 2
        if self.has_momentum:
            squares = ops.maximum(squares, ops.sum_of_products(state.momentum, state.momentum))
        squares = squares / float(state.position.shape[1])
        return ops.where(squares > _HOT * state.rung.temperature, squares, state.rung.temperature)

    def _error(self, state, info, evaluate, noise):
        """ΔE of this step, nan where it is not measured."""
        if self._meters:
            return info.energy_change
        temperature = ops.column(state.rung.temperature, state.position)
        momentum = (
            state.momentum
            if self.has_momentum
            else ops.sqrt(temperature) * noise.normal(state.position.shape)
        )
        unknown = 0.0 * state.potential + np.nan
        return ops.cond(
            self._due(evaluate.clock),
            lambda: self._virtual(state, momentum, evaluate),
            lambda: unknown,
        )

    def _virtual(self, state, momentum, evaluate):
        t = ops.column(self._time(state), state.position) * self.inner.speeds(state)
        # What it was asked last belongs to the step itself.
        evaluate = copy.copy(evaluate)
        start = evaluate(state.position)
        half = momentum - 0.5 * t * start.gradient
        position, half = evaluate.confine(state.position + t * half, half)
        end = evaluate(position)
        last = half - 0.5 * t * end.gradient
        rise = end.potential - start.potential
        error = rise + 0.5 * (
            ops.sum_of_products(last, last) - ops.sum_of_products(momentum, momentum)
        )
        return ops.where(
            ops.is_finite(error) & ~_is_absurd(error, rise, state),
            error,
            0.0 * state.potential + np.inf,
        )

    def _is_bad(self, state, new, error, evaluate):
        """Walkers whose step is to be undone, `(walkers,)`, bool."""
        ones = 0.0 * state.position + 1.0
        rise = new.potential - state.potential
        values = (
            ops.sum_of_products(new.position, ones)
            + ops.sum_of_products(new.gradient, ones)
            + new.potential
        )
        bad = ~ops.is_finite(values) | (ops.absolute(error) == np.inf)
        if self._meters:
            bad = bad | _is_absurd(error, rise, state)
        total = rise
        most = _ABSURD * _thermal(state)
        if self.has_momentum:
            squares = (ops.sum_of_products(end.momentum, end.momentum) for end in (new, state))
            total = rise + 0.5 * (next(squares) - next(squares))
        if not evaluate.exact:
            # Two mini-batches differ without a step.
            most = most + _OF_BATCHES * ops.absolute(state.potential)
        return bad | ((total > most) & (total > 0.5 * ops.absolute(rise)))

    def _undone(self, state, new, bad, failures):
        """The walkers where they were, turned around; without a potential after too many failures
        in a row.
        """
        fields = new._asdict()
        for name, before in state._asdict().items():
            if name != "rung" and fields[name].shape[:1] == bad.shape:
                mask = ops.reshape(bad, (*bad.shape, *[1] * (len(before.shape) - 1)))
                fields[name] = ops.where(mask, before, fields[name])
        if self.has_momentum:
            squares = ops.sum_of_products(state.momentum, state.momentum)
            share = ops.sqrt(_thermal(state) / ops.maximum(squares, 1e-300 + 0.0 * squares))
            turned = -ops.column(share, state.momentum) * state.momentum
            fields["momentum"] = ops.where(bad[:, None], turned, fields["momentum"])
        fields["potential"] = ops.where(
            failures >= _IN_A_ROW, 0.0 * failures + np.nan, fields["potential"]
        )
        return type(new)(**fields), failures

    def get_config(self) -> dict:
        config = {**self.inner.get_config(), "target_bias": self.target_bias}
        if self.bounded_directions == 1:
            return config
        return {**config, "bounded_directions": self.bounded_directions}


class MeteredBurnin(BurninAround):
    """The burn-in of a method whose step size follows from the bias that is allowed.

    Args:
        method: The method.
    """

    def __init__(self, method: Metered) -> None:
        super().__init__(tuning_of(method.inner))
        self.method = method

    def shortened(self, state: Any, step: int) -> Any:
        return self.inner.shortened(self.method.shorter(state), step)

    def step_settled(self, state: Any, acceptance: Any, weights: Any) -> bool:
        # A rung without a likelihood is drawn from the prior.
        share = np.where(weights == 0, 1.0, np.asarray(state.eevpd) / self.method.wanted)
        longest = np.asarray(state.step_factor) >= np.asarray(state.step_limit)
        least = np.where(longest, 0.0, LEAST)
        return bool(((share < BAND) & (share > least)).all())


def rung_mean(rung, square, count):
    """The mean over the rung of each walker and the number of its values, (walkers,) each.

    Args:
        rung: Temperature, likelihood weight and step size of each walker.
        square: Sum of the values of each walker, shape (walkers,).
        count: Number of these values, shape (walkers,), float64.
    """
    same = same_rung(rung)
    total = ops.sum_of_products(same, count[None, :])
    return ops.sum_of_products(same, square[None, :]) / ops.maximum(total, 0.0 * total + 1.0), total


def _thermal(state):
    """d T of each walker."""
    return float(state.position.shape[1]) * state.rung.temperature


def _is_absurd(error, rise, state):
    """An energy error that no stable step has, beside what the potential falls on the way from a
    far start.
    """
    return (error > _ABSURD * _thermal(state)) & (error > 0.5 * ops.absolute(rise))
