"""The well-tempered ensemble: a bias A_r(U) on each rung flattens the energies, so that rungs far
apart exchange.

A rung r samples exp(-β_r (U + A_r(U))). Deposits grow A until A_r(E) = (γ - 1)/γ T_r log π_r(E) +
const, with π_r the density of the energies without bias: those sampled then have the density
π_r^(1/γ), their spread is √γ times as large, and the log ratio of a swap is (1/γ) (β_j - β_k) (U_j
- U_k) (Bonomi and Parrinello 2010; Luo et al., appendix, with the bias in the swap and the sign of
the weights put right). The bias belongs to the rung: it does not travel with replicas.

U should be that of all data. A force -(1 + A'(U_b)) ∇U_b of the mini-batch's energy U_b is on
average that of the potential U + <A(U_b)>, the bias smoothed by the noise of the energies, which is
A only where that noise is small. The gradient of a mini-batch can therefore come with the energies
of all data.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from tati_re.core import ops
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.evaluate import Delegating, Energy, Rung
from tati_re.core.front_door import front_door, front_doors

_OCCUPIED = 1e-4  # Cells with less than this many T of bias may fall off the grid.

_REACH = 4.0  # Kernel widths that have to fit between an energy and the end of the grid.


@front_doors
class Bias(NamedTuple):
    """The bias A_r on a grid of energies for each rung; a field of a sampler's state, float64.

    Attributes:
        heights: A at the cells, `(rungs, cells)`.
        origin: Energy of the first cell, `(rungs,)`.
        width: Energy difference of neighboring cells, `(rungs,)`.
        mean: Running mean of the energies with exponential forgetting, `(rungs,)`.
        variance: Running variance of the energies with exponential forgetting, `(rungs,)`.
        count: Number of energies seen, `(rungs,)`.
        refused: Number of energies that were not deposited, `(rungs,)`.
    """

    heights: Any
    origin: Any
    width: Any
    mean: Any
    variance: Any
    count: Any
    refused: Any


@front_door
def bias_value(bias: Bias, energy, rung):
    """Returns the bias A at some energies.

    It is cubic between the cells and constant outside the grid, with a continuous slope.

    Args:
        bias: The bias.
        energy: U, float64, of any shape.
        rung: The index of its rung, int32, of the same shape.

    Returns:
        A, in the shape of `energy`.
    """
    return _hermite(bias, energy, rung)[0]


@front_door
def force_factor(bias: Bias, energy, rung):
    """Returns 1 + A'(U), the factor that multiplies ∇U.

    Args:
        bias: The bias.
        energy: U, float64, of any shape.
        rung: The index of its rung, int32, of the same shape.

    Returns:
        The factor, in the shape of `energy`.
    """
    return 1.0 + _hermite(bias, energy, rung)[1]


def swap_term(bias: Bias, inverse_temperature, energy_low, energy_high, low, high):
    """Contribution of the bias to the log ratio of a swap.

    It is β_l [A_l(U_l) - A_l(U_h)] + β_h [A_h(U_h) - A_h(U_l)].

    Args:
        bias: The bias of the rungs.
        inverse_temperature: β of all rungs, shape (rungs,).
        energy_low: U of the replica at the colder rung of each pair, float64.
        energy_high: U of the replica at the hotter rung, in the same shape.
        low: The colder rung of each pair, int32, in the same shape.
        high: The hotter rung of each pair, int32, in the same shape.
    """
    at_low = bias_value(bias, energy_low, low) - bias_value(bias, energy_high, low)
    at_high = bias_value(bias, energy_high, high) - bias_value(bias, energy_low, high)
    return (
        ops.take(inverse_temperature, low) * at_low + ops.take(inverse_temperature, high) * at_high
    )


def log_ratio(bias: Bias, inverse_temperature, energy_low, energy_high, low, high):
    """The log ratio of a swap, (β_l - β_h)(U_l - U_h) and the `swap_term`.

    Args:
        bias: The bias of the rungs.
        inverse_temperature: β of all rungs, shape (rungs,).
        energy_low: U of the replica at the colder rung of each pair, float64.
        energy_high: U of the replica at the hotter rung, in the same shape.
        low: The colder rung of each pair, int32, in the same shape.
        high: The hotter rung of each pair, int32, in the same shape.
    """
    plain = (ops.take(inverse_temperature, low) - ops.take(inverse_temperature, high)) * (
        energy_low - energy_high
    )
    return plain + swap_term(bias, inverse_temperature, energy_low, energy_high, low, high)


def noise_factors(bias: Bias, inverse_temperature, energy_low, energy_high, low, high):
    """f and g: noise ε and δ of U_l and U_h moves `log_ratio` by f ε - g δ.

    They are β_l (1 + A_l') - β_h (1 + A_h') at U_l and U_h. Without a bias both are β_l - β_h.

    Args:
        bias: The bias of the rungs.
        inverse_temperature: β of all rungs, shape (rungs,).
        energy_low: U of the replica at the colder rung of each pair, float64.
        energy_high: U of the replica at the hotter rung, in the same shape.
        low: The colder rung of each pair, int32, in the same shape.
        high: The hotter rung of each pair, int32, in the same shape.
    """

    def factor(energy):
        at_low = ops.take(inverse_temperature, low) * force_factor(bias, energy, low)
        return at_low - ops.take(inverse_temperature, high) * force_factor(bias, energy, high)

    return factor(energy_low), factor(energy_high)


@front_doors
class WellTempered:
    """The growth of the bias in a well-tempered ensemble.

    Rule of a deposit at U on rung r, for all cells E:

        A_r(E) += h T_r (1 + n/n₀)^-κ exp(-A_r(U)/((γ - 1) T_r)) exp(-(E - U)²/(2w²))

    with n the number of energies seen; h is a height per deposit, not a rate in time. The
    exponential makes heights fall as 1/n automatically. The width w of the kernel is a fraction of
    the energies' running standard deviation, and at least two cells. Call `deposit` during the
    burn-in only, and keep the bias frozen afterwards.

    The grid has a fixed number of cells. If an energy comes close to its end, the grid is shifted,
    or the width of its cells is doubled, and A is kept at the old cells. If cells have become
    coarse compared with the spread of the energies, after a long descent, their width is halved
    about the mean. Energies that are not finite do not count. An energy `max_jump` standard
    deviations away is not deposited. It enters the running mean and variance at this distance, so
    persistent values are accepted in the end.

    Args:
        bias_factor: γ, above 1, the factor by which the variance of the energies grows.
        height: h, in units of T. Default: 0.5.
        decay: κ, 0 to 1; 0 leaves h constant. Default: 0.
        decay_after: n₀, a number of energies, above 0. Default: 1000.
        cells: Number of cells per rung, at least 32. Default: 512.
        kernel_width: Width of the kernel in standard deviations of the energies. Default: 0.25.
        max_jump: Largest jump in standard deviations of the energies (at least T). Default: 10.
        memory: Number of energies in the running mean and variance. Default: 1000.
    """

    @front_door
    def __init__(
        self,
        bias_factor: float,
        height: float = 0.5,
        decay: float = 0.0,
        decay_after: float = 1000.0,
        cells: int = 512,
        kernel_width: float = 0.25,
        max_jump: float = 10.0,
        memory: float = 1000.0,
    ) -> None:
        if not (math.isfinite(bias_factor) and bias_factor > 1):
            raise InputError(
                "bias_factor is out of range.", bias_factor, "above 1; at 1 there is no bias"
            )
        positive = {"height": height, "decay_after": decay_after, "kernel_width": kernel_width}
        for name, value in (positive | {"max_jump": max_jump, "memory": memory}).items():
            refuse_if(
                not (math.isfinite(value) and value > 0),
                f"{name} is out of range.",
                value,
                "above 0",
            )
        refuse_if(not 0 <= decay <= 1, "decay is out of range.", decay, "from 0 to 1")
        refuse_if(cells < 32, "cells is out of range.", cells, "at least 32")
        self.bias_factor = bias_factor
        self.height = height
        self.decay = decay
        self.decay_after = decay_after
        self.cells = cells
        self.kernel_width = kernel_width
        self.max_jump = max_jump
        self.memory = memory

    def get_config(self) -> dict[str, Any]:
        """Returns plain values that define the bias; they are written to the manifest."""
        return {
            "bias_factor": self.bias_factor,
            "bias_rate": self.height,
            "bias_width": self.kernel_width,
        }

    def init(self, energy, inverse_temperature) -> Bias:
        """Returns the initial bias of zero, on grids with cells T/4 apart.

        Args:
            energy: Approximate energies at each rung, finite, float64 `(rungs,)`.
            inverse_temperature: β of each rung, float64 `(rungs,)`.

        Returns:
            The bias.
        """
        temperature = 1.0 / inverse_temperature
        zeros = 0.0 * energy
        width = zeros + 0.25 * temperature
        heights = zeros[:, None] * np.zeros(self.cells)
        return Bias(
            heights=heights,
            origin=energy - 0.5 * (self.cells - 1) * width,
            width=width,
            mean=energy,
            variance=zeros,
            count=zeros,
            refused=zeros,
        )

    def deposit(self, bias: Bias, energy, rung, inverse_temperature, share: float = 1.0) -> Bias:
        """Returns the bias after counting the energies of all walkers, adapting the grids and
        adding heights.

        All walkers deposit on the bias as it was before the call. Many full heights at once would
        overfill it. With a share of one over the number of walkers per rung, the bias grows with
        the number of calls, for any number of walkers.

        Args:
            bias: The bias.
            energy: U on all data, float64 `(walkers,)`.
            rung: Rungs of the walkers, int32 `(walkers,)`.
            inverse_temperature: β of each rung.
            share: Fraction of h and of n that a walker contributes. Default: 1.

        Returns:
            The new bias; the given one is unchanged.
        """
        rungs = bias.heights.shape[0]
        temperature = 1.0 / inverse_temperature
        finite = ops.is_finite(energy)
        safe = ops.where(finite, energy, ops.take(bias.mean, rung))
        reach = ops.take(self.max_jump * ops.maximum(ops.sqrt(bias.variance), temperature), rung)
        first = ops.take(bias.count, rung) < 1.0
        off = safe - ops.take(bias.mean, rung)
        near = first | (ops.absolute(off) <= reach)
        used = finite & near
        on_rung = ops.as_float64(rung[:, None] == np.arange(rungs, dtype=np.int32))
        clipped = ops.where(
            near, safe, ops.take(bias.mean, rung) + ops.maximum(ops.minimum(off, reach), -reach)
        )
        counted = on_rung * ops.as_float64(used)[:, None]
        bias = self._counted(bias, clipped, on_rung * ops.as_float64(finite)[:, None], counted)
        bias = self._laid(bias, safe, on_rung, used, self._kernel_widths(bias), temperature)
        return self._grown(bias, safe, rung, counted, temperature, share)

    def _counted(self, bias: Bias, energy, finite, used) -> Bias:
        seen = _over_walkers(finite)
        share = seen / ops.maximum(
            ops.minimum(bias.count + seen, ops.maximum(seen, self.memory)), 1.0
        )
        mean = _over_walkers(finite * energy[:, None]) / ops.maximum(seen, 1.0)
        spread = _over_walkers(finite * (energy[:, None] - mean) ** 2) / ops.maximum(seen, 1.0)
        change = ops.where(seen > 0.0, mean - bias.mean, 0.0 * mean)
        variance = (1.0 - share) * (bias.variance + share * change**2) + share * spread
        counts = {"count": bias.count + seen, "refused": bias.refused + seen - _over_walkers(used)}
        return bias._replace(mean=bias.mean + share * change, variance=variance, **counts)

    def _kernel_widths(self, bias: Bias):
        return ops.maximum(self.kernel_width * ops.sqrt(bias.variance), 2.0 * bias.width)

    def _laid(self, bias: Bias, energy, on_rung, used, kernel_width, temperature) -> Bias:
        """The grids laid anew where energies come near their ends, or cells are too coarse."""
        cells = np.arange(self.cells)
        last = self.cells - 1
        is_used = (on_rung > 0.0) & used[:, None]
        margin = _REACH * kernel_width
        far = 0.0 * energy[:, None] + float("inf")
        top = ops.largest(ops.where(is_used, energy[:, None], -far), 0) + margin
        bottom = -ops.largest(ops.where(is_used, -energy[:, None], -far), 0) - margin
        end = bias.origin + last * bias.width
        # The part of the grid that has to be kept: what is occupied; of a coarse grid what is near
        # the mean.
        sd = ops.sqrt(bias.variance)
        coarse = (
            (bias.width > 0.5 * sd)
            & (bias.width > 0.3 * temperature)
            & (bias.count > 0.5 * self.memory)
        )
        occupied = bias.heights > _OCCUPIED * temperature[:, None]
        first_cell = -ops.largest(
            ops.where(occupied, -1.0 * cells + 0.0 * bias.heights, 0.0 * bias.heights - last), 1
        )
        last_cell = ops.largest(
            ops.where(occupied, 1.0 * cells + 0.0 * bias.heights, 0.0 * bias.heights), 1
        )
        low = bias.origin + first_cell * bias.width
        high = bias.origin + last_cell * bias.width
        some = high >= low
        near = 0.1 * self.cells * bias.width
        low = ops.where(coarse, ops.maximum(low, bias.mean - near), low)
        high = ops.where(coarse, ops.minimum(high, bias.mean + near), high)
        low = ops.where(some, ops.minimum(low, bottom), bottom)
        high = ops.where(some, ops.maximum(high, top), top)
        seen = top >= bottom
        low = ops.where(seen, low, bias.origin)
        high = ops.where(seen, high, end)
        leaves = seen & ((bottom < bias.origin) | (top > end))
        width = ops.where(coarse & seen, 0.5 * bias.width, bias.width)
        # Two cells are lost to the alignment below.
        needed = ops.maximum((high - low) / ((last - 2.0) * width), 1.0)
        width = width * ops.exp(
            math.log(2.0) * -ops.floor(-ops.log(needed) / math.log(2.0) + 1e-12)
        )
        # A cell of the new grid lies on each old one, or on each second.
        middle = 0.5 * (low + high) - 0.5 * last * width
        origin = bias.origin + bias.width * ops.floor((middle - bias.origin) / bias.width + 0.5)
        moved = leaves | (coarse & seen)
        width = ops.where(moved, width, bias.width)
        origin = ops.where(moved, origin, bias.origin)
        rung = (
            np.zeros((1, self.cells), np.int32)
            + np.arange(bias.heights.shape[0], dtype=np.int32)[:, None]
        )
        heights = bias_value(bias, origin[:, None] + width[:, None] * cells, rung)
        heights = ops.where(moved[:, None], heights, bias.heights)
        return bias._replace(heights=heights, origin=origin, width=width)

    def _grown(self, bias: Bias, energy, rung, used, temperature, share: float) -> Bias:
        hot = ops.take(temperature, rung)
        count = share * ops.take(bias.count, rung)
        height = (
            share
            * self.height
            * hot
            * ops.exp(-self.decay * ops.log(1.0 + count / self.decay_after))
        )
        height = height * ops.exp(
            -bias_value(bias, energy, rung) / ((self.bias_factor - 1.0) * hot)
        )
        cell = (energy - ops.take(bias.origin, rung)) / ops.take(bias.width, rung)
        across = ops.take(bias.width / self._kernel_widths(bias), rung)
        kernel = ops.exp(-0.5 * ((np.arange(self.cells) - cell[:, None]) * across[:, None]) ** 2)
        return bias._replace(heights=bias.heights + ops.transpose(used * height[:, None]) @ kernel)


def _over_walkers(values):
    return ops.sum_over(values, 0)[0]


def _hermite(bias: Bias, energy, rung):
    """A and A' by cubic interpolation: slopes at the cells are central differences, 0 at the two
    ends.
    """
    rungs, cells = bias.heights.shape
    width = ops.take(bias.width, rung)
    cell = (energy - ops.take(bias.origin, rung)) / width
    inside = ops.maximum(ops.minimum(cell, cells - 1.0), 0.0)
    begin = ops.minimum(ops.floor(inside), cells - 2.0)
    # An energy that is no number has no cell; its bias is no number either, as t below is not.
    begin = ops.where(begin >= 0.0, begin, 0.0 * width)
    t = inside - begin
    flat = ops.reshape(bias.heights, (rungs * cells,))
    offset = rung * cells
    nodes = (
        ops.maximum(ops.minimum(begin + step, cells - 1.0), 0.0) for step in (-1.0, 0.0, 1.0, 2.0)
    )
    at = [ops.take(flat, offset + ops.as_int32(place)) for place in nodes]
    first = ops.where(begin < 0.5, 0.0 * t, 0.5 * (at[2] - at[0]))
    second = ops.where(begin > cells - 2.5, 0.0 * t, 0.5 * (at[3] - at[1]))
    rise = at[2] - at[1]
    curve = 3.0 * rise - 2.0 * first - second
    bend = first + second - 2.0 * rise
    height = at[1] + t * (first + t * (curve + t * bend))
    outside = (cell < 0.0) | (cell > cells - 1.0)
    return height, ops.where(outside, 0.0 * t, (first + t * (2.0 * curve + 3.0 * t * bend)) / width)


class ExactEnergies(Delegating):
    """A mini-batch's gradient with the energies of all data, at the cost of a forward pass over
    them. What a bias makes of such energies is exact, and its force (1 + A'(U)) ∇U_b right on
    average.
    """

    def __init__(self, evaluate) -> None:
        super().__init__(evaluate)
        self.exact = True

    def __call__(self, position) -> Energy:
        loss = self.mean_loss(position)
        log_prior = self.log_prior(position)
        potential = self.rung.likelihood_weight * self.scale * loss - log_prior
        return Energy(potential, self.evaluate(position).gradient, loss, log_prior)

    def around(self, evaluate):
        return ExactEnergies(evaluate)


class Biased(Delegating):
    """U + A_r(U) in place of U, and the gradient (1 + A_r'(U)) ∇U.

    Mean loss and log prior belong to U.

    Args:
        evaluate: The evaluation without the bias.
        bias: The bias of the rungs.
        index: The rung of each walker, shape (walkers,), int32.
    """

    def __init__(self, evaluate, bias: Bias, index) -> None:
        super().__init__(evaluate)
        self.bias = bias
        self.index = index

    def _biased(self, energy: Energy) -> Energy:
        factor = force_factor(self.bias, energy.potential, self.index)
        return energy._replace(
            potential=energy.potential + bias_value(self.bias, energy.potential, self.index),
            gradient=ops.column(factor, energy.gradient) * energy.gradient,
        )

    def __call__(self, position) -> Energy:
        return self._biased(self.evaluate(position))

    def full(self, position) -> Energy:
        return self._biased(self.evaluate.full(position))

    def gradient_variance(self, position):
        problem = "bias: this sampler estimates the gradient's variance from single examples."
        raise InputError(problem, expected="a sampler that does not, such as BAOAB or HMC")

    def at(self, rung: Rung):
        raise InputError(
            "bias: this sampler changes temperatures itself.", expected="such as BAOAB or HMC"
        )

    def part(self, first, count: int):
        raise InputError(
            "bias: this sampler moves only some of the walkers at a time.",
            expected="such as BAOAB or HMC",
        )


def bias_table(bias: Bias, temperature) -> dict:
    """The columns of bias.csv as NumPy arrays.

    They are A and the weight's exponent A/T at the cells of each rung that hold a bias.

    Args:
        bias: The bias of the rungs.
        temperature: T of each rung, shape (rungs,).
    """
    heights, origin, width = (np.asarray(values) for values in bias[:3])
    rung, cell = np.nonzero(heights > 0)
    height = heights[rung, cell]
    energy = origin[rung] + cell * width[rung]
    return {
        "rung": rung,
        "energy": energy,
        "bias": height,
        "log_weight": height / np.asarray(temperature)[rung],
    }
