"""Simulated tempering: each walker moves independently on a ladder of temperatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tati_re.core import ops
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.facets import BurninAround, Temperatures, tuning_of, turns_of
from tati_re.core.front_door import front_door
from tati_re.core.method import Method, Wrapper
from tati_re.core.protocol import (
    Evaluate,
    Rung,
    attributes_of,
    fields_of,
    sums_at_rung,
    with_energy,
)
from tati_re.samplers.splitting import Splitting
from tati_re.samplers.wrappers.coordinates import extend, inner_of

FLAT = 0.8
"""Visits are even when the rarest rung has this share of the mean (Wang and Landau 2001)."""

_LEARNT = ("log_weights", "visits", "increment", "moves")
_OWN = (*_LEARNT, "rung_index", "temperature", "weight")


class Visited(Temperatures):
    """The rungs that each walker visits by itself.

    Args:
        method: The method that moves the walkers.
    """

    def __init__(self, method: SimulatedTempering) -> None:
        self.method = method
        self.visited = method.num_rungs

    def bound(self, state: Any, evaluate: Evaluate) -> Any:
        return evaluate.at(self.method.rung_of(evaluate.rung, state.rung_index))

    def used_options(self) -> set[str]:
        return {"exchange", "exchange_every"}


class LearntWeights(BurninAround):
    """The burn-in of a method that learns the weights of its rungs."""

    def tuned(self, state: Any) -> str:
        values = ", ".join(f"{value:.6g}" for value in np.asarray(state.log_weights)[0])
        return f"log_weights [{values}], {self.inner.tuned(state)}".removesuffix(", ")


class SimulatedTempering(Wrapper):
    """A sampler whose walkers change their temperatures independently, at intervals.

    Targets exp(-u_k(θ) + g_k) over positions and rungs, u_k = β_k (λ_k L + V): at each rung
    exp(-u_k) for any numbers g, with the step-size bias of the sampler inside. Steps that end at
    rung 0, with 1 in the column `weight` of run.csv, are draws from the target. All rungs are
    visited equally if g_k = -ln Z_k.

    Rule, every `move_every` steps, at fixed θ:

        l = k + 1 or k - 1 with probability 1/2 each;  stay where there is no such rung
        accept with probability min(1, exp(u_k - u_l + g_l - g_k)), and p <- p sqrt(T_l/T_k)

    In the burn-in, with M rungs and f_k the share of the walkers at k after the n-th move,

        g_k <- g_k - M δ f_k,    δ = max(δ_WL, 1/(M + n))

    δ_WL starts at 1/M and is halved when the visits since the last time are even (and at least 10 M
    moves). Afterwards g is frozen, so that the distribution is exact. Walkers of one temperature of
    the run share g; it starts from the energies where they are, g_k = u_k - u_0. Each walker has a
    thermostat for each rung, frozen while it is elsewhere.

    u must be free of noise, so moves use all data. The cost is the cost of the sampler inside, plus
    one forward pass over all data per move if it uses mini-batches. About 1/M of the steps count.
    Source: Marinari and Parisi, Europhys. Lett. 19, 451 (1992); Wang and Landau, Phys. Rev. Lett.
    86, 2050 (2001); the 1/n that follows: Belardinelli and Pereyra, Phys. Rev. E 75, 046701 (2007).

    Args:
        inner: A sampler whose walkers are at one temperature. Default: BAOAB.
        inverse_temperatures: β of the rungs relative to the run, above 0; the first, 1, is the
            target. Default: 1, 1/2, 1/4.
        likelihood_weights: λ of the rungs in units of the run's, at least 0; the first is 1.
            Default: all 1.
        move_every: Steps between two moves, at least 1. Default: 10.
        log_weights: Initial g, one per rung. Default: None, from the energies at the start.

    Raises:
        InputError: Numbers are out of range or have different lengths, or the sampler inside
            tempers or moves walkers in turn.

    Examples:
        >>> SimulatedTempering(Splitting("BAOAB"), [1.0, 0.6, 0.4], move_every=20).num_rungs
        3
    """

    @front_door
    def __init__(
        self,
        inner=None,
        inverse_temperatures: Sequence[float] = (1.0, 0.5, 0.25),
        likelihood_weights: Sequence[float] | None = None,
        move_every: int = 10,
        log_weights: Sequence[float] | None = None,
    ) -> None:
        super().__init__(inner or Splitting())
        self.inverse_temperatures = _ladder("inverse_temperatures", inverse_temperatures)
        self.num_rungs = len(self.inverse_temperatures)
        self.tempers_likelihood = likelihood_weights is not None
        self.likelihood_weights = [1.0] * self.num_rungs
        if likelihood_weights is not None:
            self.likelihood_weights = _ladder(
                "likelihood_weights", likelihood_weights, self.num_rungs, lowest=True
            )
        self.log_weights = None if log_weights is None else [float(value) for value in log_weights]
        if log_weights is not None and not (
            len(log_weights) == self.num_rungs and np.isfinite(log_weights).all()
        ):
            raise InputError(
                "log_weights: one for each rung.",
                received=log_weights,
                expected=f"{self.num_rungs} numbers",
            )
        refuse_if(move_every < 1, "move_every: too few steps.", move_every, "1 or more")
        problem = (
            "simulated tempering: an ensemble whose halves take turns needs a single temperature."
        )
        refuse_if(
            turns_of(self.inner).groups > 1, problem, self.inner.name, "no covariance_blending"
        )
        problem = "simulated tempering: the inner sampler has its own temperatures."
        refuse_if(self.label_names, problem, self.inner.name, "such as BAOAB or HMC")
        self.move_every = int(move_every)
        self.adapts = self.adapts or log_weights is None
        self.label_names = ("rung", "weight")
        base = self.inner
        while isinstance(base, Wrapper):
            base = base.inner
        # What adapts learns from all rungs, and variances of gradients are those of the last step.
        shared = {"gradient_variance", *(base.of_rung if base.adapts else ())} - {"thermostat"}
        self.copied = tuple(name for name in base.of_rung if name not in shared)
        self.ladder = Visited(self)
        self.burnin = LearntWeights(tuning_of(self.inner))

    def rung_of(self, base: Rung, index) -> Rung:
        """Returns temperature and step size of each walker at its place on the ladder.

        Args:
            base: Temperature and step size of the run.
            index: Rung of each walker, shape (walkers,).

        Returns:
            The rungs of the walkers.
        """
        is_at = self._at(index, base.inverse_temperature)
        beta, weight = (
            ops.sum_of_products(is_at, is_at * ops.constant(np.array([values]), is_at))
            for values in (self.inverse_temperatures, self.likelihood_weights)
        )
        return Rung(
            base.inverse_temperature * beta, base.likelihood_weight * weight, base.step_size
        )

    def labels(self, state) -> dict:
        """The last columns of run.csv: where on the ladder, and 1 at the target, else 0,
        `(walkers,)` each.
        """
        return {"rung": state.rung_index, "weight": state.weight}

    def linear_part(self, coordinates: Any) -> tuple[Method, Any]:
        return self.inner.linear_part(coordinates)

    def _at(self, index, like):
        """1 at the walker's rung and 0 elsewhere, `(walkers, rungs)`, float64."""
        rungs = ops.constant(np.arange(self.num_rungs)[None, :], like)
        return ops.as_float64(ops.as_float64(index)[:, None] == rungs)

    def _reduced(self, base: Rung, scaled_loss, penalty):
        """u of every rung, `(walkers, rungs)`, float64; `scaled_loss` is L at the λ of 1, `penalty`
        is V.
        """
        tables = np.array([self.inverse_temperatures]), np.array([self.likelihood_weights])
        beta, weight = (ops.constant(values, ops.as_float64(scaled_loss)) for values in tables)
        weight = base.likelihood_weight[:, None] * weight
        return (
            base.inverse_temperature[:, None]
            * beta
            * (weight * scaled_loss[:, None] + penalty[:, None])
        )

    def _energies(self, inner, evaluate):
        """L at λ = 1 and V of all walkers on all data, `(walkers,)`, float64."""
        known = self.current and (self.full_batch or evaluate.exact)
        loss = inner.loss if known else evaluate.mean_loss(inner.position)
        log_prior = inner.log_prior if known else evaluate.log_prior(inner.position)
        return evaluate.scale * ops.as_float64(loss), -ops.as_float64(log_prior)

    def init(self, position, evaluate, noise):
        """Starts all walkers at rung 0, as the sampler inside does.

        Args:
            position: Positions, shape (walkers, parameters).
            evaluate: Computes U and its gradient on the first mini-batch.
            noise: Random numbers of this step.
        """
        state = self.inner.init(position, evaluate, noise)
        zeros = 0.0 * ops.as_float64(state.potential)
        if self.log_weights is None:
            reduced = self._reduced(evaluate.rung, *self._energies(state, evaluate))
            weights = reduced - reduced[:, :1]
        else:
            weights = zeros[:, None] + ops.constant(
                np.array([self.log_weights]) - self.log_weights[0], zeros
            )
        wrapper_fields = {
            "log_weights": weights,
            "visits": 0.0 * weights,
            "increment": zeros + 1.0 / self.num_rungs,
        }
        wrapper_fields |= {"moves": zeros, "rung_index": ops.as_int32(zeros)}
        wrapper_fields |= {"temperature": evaluate.rung.temperature + zeros, "weight": zeros + 1.0}
        for name, value in fields_of(state, self.copied).items():
            wrapper_fields[f"{name}s"] = value[:, None] + _wide(0.0 * weights, value)
        return extend(state, **wrapper_fields)

    def step(self, state, evaluate, noise):
        wrapper_fields = fields_of(state, [*_OWN, *(f"{name}s" for name in self.copied)])
        rung = self.rung_of(state.rung, state.rung_index)
        uniform = noise.uniform(state.potential.shape)
        inner, info = self.inner.step(inner_of(state)._replace(rung=rung), evaluate.at(rung), noise)
        before = fields_of(inner, self._changing(inner))
        due = evaluate.clock.step % self.move_every == 0
        changed, wrapper_fields = ops.cond(
            due,
            lambda: self._moved(inner, wrapper_fields, evaluate, uniform),
            lambda: (before, wrapper_fields),
        )
        return type(state)(
            **{**inner._asdict(), **changed, "rung": state.rung}, **wrapper_fields
        ), info

    def _changing(self, inner) -> list[str]:
        """The fields of the state inside that a move may change."""
        names = ["momentum", *self.copied]
        if self.tempers_likelihood:
            names += [
                "gradient",
                "potential",
                "loss",
                "log_prior",
                "gradient_variance",
                "variance_before",
            ]
        return [name for name in names if name in inner._fields]

    def _moved(self, inner, wrapper_fields: dict, evaluate, uniform):
        """The fields of the state inside that change, and the wrapper's own, after one move."""
        old = wrapper_fields["rung_index"]
        weights = wrapper_fields["log_weights"]
        reduced = self._reduced(evaluate.rung, *self._energies(inner, evaluate))
        up = uniform < 0.5
        proposal = ops.as_float64(old) + ops.where(up, 0.0 * uniform + 1.0, 0.0 * uniform - 1.0)
        possible = (proposal >= 0.0) & (proposal < float(self.num_rungs))
        is_at_old = self._at(old, reduced)
        there = self._at(proposal, reduced)
        # What is left of the number that chose the direction.
        left = ops.maximum(
            ops.where(up, 2.0 * uniform, 2.0 * uniform - 1.0), 1e-300 + 0.0 * uniform
        )
        accepted = possible & (
            ops.log(left) < ops.sum_of_products(is_at_old - there, reduced - weights)
        )
        index = ops.as_int32(ops.where(accepted, proposal, ops.as_float64(old)))
        moved = self._at(index, reduced)
        rung = self.rung_of(evaluate.rung, index)
        changed = self._changed(inner, self.rung_of(evaluate.rung, old), rung, evaluate)
        before = {name: wrapper_fields[name] for name in _LEARNT}
        wrapper_fields = {
            **wrapper_fields,
            **ops.cond(
                evaluate.clock.adapting,
                lambda: self._learnt(wrapper_fields, moved, evaluate),
                lambda: before,
            ),
        }
        for name, value in fields_of(inner, self.copied).items():
            at = _wide(is_at_old, value)
            copies = wrapper_fields[f"{name}s"] = (
                at * value[:, None] + (1.0 - at) * wrapper_fields[f"{name}s"]
            )
            changed[name] = ops.reshape(ops.sum_over(_wide(moved, value) * copies, 1), value.shape)
        wrapper_fields |= {
            "rung_index": index,
            "temperature": rung.temperature,
            "weight": ops.as_float64(index == 0),
        }
        return changed, wrapper_fields

    def _changed(self, inner, before: Rung, after: Rung, evaluate) -> dict:
        """Momenta at the new temperature, energies at the new λ."""
        if self.has_momentum:
            factor = ops.sqrt(before.inverse_temperature / after.inverse_temperature)
            inner = inner._replace(momentum=ops.column(factor, inner.momentum) * inner.momentum)
        if self.tempers_likelihood:
            bound = evaluate.at(after)
            inner = with_energy(inner, (bound.full if self.full_batch else bound)(inner.position))
            variances = [
                name for name in ("gradient_variance", "variance_before") if name in inner._fields
            ]
            if variances:
                inner = inner._replace(
                    **dict.fromkeys(variances, bound.gradient_variance(inner.position))
                )
        return fields_of(inner, self._changing(inner))

    def _learnt(self, wrapper_fields: dict, moved, evaluate) -> dict:
        """g and what its adaptation remembers, after a visit."""
        number = wrapper_fields["moves"] + 1.0
        walkers = sums_at_rung(evaluate.rung, 0.0 * number[:, None] + 1.0)
        share = sums_at_rung(evaluate.rung, moved) / walkers
        weights = sums_at_rung(evaluate.rung, wrapper_fields["log_weights"]) / walkers
        least = 1.0 / (self.num_rungs + number)
        weights = (
            weights
            - self.num_rungs * ops.maximum(wrapper_fields["increment"], least)[:, None] * share
        )
        visits = wrapper_fields["visits"] + share
        total = ops.sum_of_products(visits, 0.0 * visits + 1.0)
        even = (-ops.largest(-visits, -1) >= FLAT * total / self.num_rungs) & (
            total >= 10.0 * self.num_rungs - 0.5
        )
        visits = ops.where(even[:, None], 0.0 * visits, visits)
        increment = wrapper_fields["increment"]
        increment = ops.where(even, 0.5 * increment, increment)
        return dict(
            zip(_LEARNT, (weights - weights[:, :1], visits, increment, number), strict=True)
        )

    def get_config(self) -> dict:
        likelihood = list(self.likelihood_weights) if self.tempers_likelihood else None
        ladder = {
            "simulated_tempering": list(self.inverse_temperatures),
            "likelihood_weights": likelihood,
        }
        return {
            **self.inner.get_config(),
            **ladder,
            **attributes_of(self, "move_every", "log_weights"),
        }


def _wide(at, value):
    """`at`, `(walkers, rungs)`, in the type of a field, `(walkers, ...)`, and beside a copy of it
    for each rung.
    """
    return ops.as_type(at if len(value.shape) == 1 else at[:, :, None], value)


def _ladder(
    name: str, values: Sequence[float], length: int | None = None, lowest: bool = False
) -> list[float]:
    numbers = np.asarray(values, np.float64)
    fits = (
        numbers.ndim == 1 and len(numbers) >= 2 and np.isfinite(numbers).all() and numbers[0] == 1.0
    )
    if not (fits and (numbers >= 0 if lowest else numbers > 0).all()):
        problem = f"{name} is not a ladder in units of the run's temperature."
        raise InputError(
            problem,
            values,
            f"two or more numbers, the first 1, {'none below' if lowest else 'all above'} 0",
        )
    if length is not None and len(numbers) != length:
        raise InputError(
            f"{name}: one for each rung.", received=f"{len(numbers)} numbers", expected=str(length)
        )
    return numbers.tolist()
