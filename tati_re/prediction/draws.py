"""Stored positions at one temperature as weighted draws for predictions, in blocks."""

from collections.abc import Iterator

import numpy as np

from tati_re.analysis.convergence import MINIMUM_DRAWS, rows_that_count
from tati_re.analysis.until import weighted
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.files.regular import open_regular
from tati_re.runs import files
from tati_re.runs.positions import Positions
from tati_re.runs.run import RunFiles

_COLUMNS = 64
_TRACE = 1e-12

CACHED_BYTES = 1 << 27
"""Bytes of parameters, float64, that draws hold in memory between predictions at most."""


DRAWS, FITS, ENDS, VECTORS = "draws", "fits", "ends", "vectors"
"""What predictions average: posterior draws, the fits of a run, the end points of an optimization, or
vectors of parameters that were passed.
"""
BOTH = "both"
"""Posterior draws and the fits of a run, with half of the weight each."""


class Draws:
    """The weighted draws of one rung in a run's trajectory.

    Args:
        run: A run that sampled and stored parameters.
        rung: The rung, counted from the target. Default: 0, the target.
        burnin: Steps to leave out. Default: None, the burn-in of the run.
        thin: Keep one in this many stored positions. Default: 1.
        walker: The walker whose positions count. Default: None, all walkers.

    Attributes:
        step: Step of each draw, shape (draws,).
        walker: Walker of each draw, shape (draws,).
        weight: Weight of each draw, above 0, shape (draws,); 1 where the run has no weights.
        loss: Loss of each draw on the mini-batch of its step, shape (draws,).

    Raises:
        InputError: The run is a fit, has no such rung, stored projections, or has no draws.
    """

    def __init__(
        self,
        run: RunFiles,
        rung: int = 0,
        burnin: int | None = None,
        thin: int = 1,
        walker: int | None = None,
    ) -> None:
        if run.manifest.is_fit:
            raise InputError(
                f"{run.folder} is the run of an optimizer.", expected="a run that sampled"
            )
        self.kind = FITS if run.manifest.has_fits_alone else DRAWS
        with open_regular(run.folder / files.ROWS) as file:
            has_rungs = b"rung" in file.readline().rstrip().split(b",")
        if rung and not has_rungs:
            raise InputError(
                f"The run {run.folder} has no ladder.", f"rung {rung}", "rung 0, the only one"
            )
        self._positions = Positions(run, burnin, thin, walker, rung)
        self.burnin = self._positions.burnin
        refuse_if(
            self._positions.projected, f"The run {run.folder} stored projections, not parameters."
        )
        parts = []
        for block in self._positions.blocks():
            has_draws = block.counts > 0
            parts.append(
                (
                    block.step[has_draws],
                    block.walker[has_draws],
                    block.counts[has_draws],
                    block.loss[has_draws],
                )
            )
        self.step, self.walker, self.weight, self.loss = (
            np.concatenate(part) for part in zip(*parts, strict=True)
        )
        refuse_if(
            not len(self.step),
            f"No stored position of {run.folder} has a positive weight at rung {rung}.",
        )

        self._cached: np.ndarray | None = None
        self.independent: float | None = None
        """Independent draws of the outputs that were predicted last; None before."""

    def __len__(self) -> int:
        return len(self.step)

    @property
    def in_memory(self) -> bool:
        """Whether predictions read no file."""
        return self._cached is not None

    def cache(self) -> None:
        """Keeps the parameters in memory if they fit into `CACHED_BYTES`, so that no file is read."""
        size = 8 * len(self) * self._positions.num_parameters
        if self._cached is None and size <= CACHED_BYTES:
            self._cached = np.concatenate([values for _, values in self.blocks(len(self))])

    def weigh_walkers(self, weights: np.ndarray) -> None:
        """Gives the draws of each walker a share of all weight.

        Args:
            weights: Shares of the walkers with the sum 1, shape (walkers,); of 0 a trace is left,
                as weights of draws are above 0.
        """
        total = len(self.step)
        for walker in np.unique(self.walker):
            is_of_walker = self.walker == walker
            share = max(float(weights[walker]), _TRACE)
            self.weight[is_of_walker] *= share * total / self.weight[is_of_walker].sum()

    def blocks(self, most: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yields the number of the first draw of a block and its parameters, `(up to most,
        parameters)`.
        """
        if self._cached is not None:
            yield from _pieces(self._cached, most)
            return
        done = 0
        for block in self._positions.blocks():
            values = block.values if block.weight is None else block.values[block.weight > 0]
            for first, piece in _pieces(values, most):
                yield done + first, piece
            done += len(values)

    def independent_of(self, series: np.ndarray) -> float:
        """The number of independent draws that have the error of these draws.

        Args:
            series: Some numbers that the draws predict, shape (draws, numbers).
        """
        return independent_draws(series, self.step, self.walker, self.weight)


def _pieces(values: np.ndarray, most: int) -> Iterator[tuple[int, np.ndarray]]:
    """Pieces of at most so many rows, each with the number of its first one."""
    for first in range(0, len(values), most):
        yield first, values[first : first + most]


def independent_draws(
    values: np.ndarray, step: np.ndarray, walker: np.ndarray, weight: np.ndarray
) -> float:
    """The number of independent draws that have the error of the draws of one run.

    It follows from the weights and the autocorrelation along each walker. It is the median over up
    to 64 of the predicted numbers.

    Args:
        values: Numbers that the draws predict, shape (draws, ...).
        step: Step of each draw, shape (draws,).
        walker: Walker of each draw, shape (draws,).
        weight: Weight of each draw, shape (draws,).

    Returns:
        The number, or nan where walkers have fewer than 8 draws, too few for an autocorrelation, or
        no number changes.
    """
    most = float(weight.sum() ** 2 / (weight**2).sum())
    chosen, counted = rows_that_count(step, walker, weight)
    columns = series_of(values)
    moving = [
        column[chosen]
        for column in columns.T
        if np.isfinite(column).all() and np.ptp(column[chosen]) > 0
    ]
    if chosen.shape[1] < 2 * MINIMUM_DRAWS or not moving:
        return float("nan")
    return min(most, float(np.median([weighted(series, counted)[1] for series in moving])))


def series_of(values: np.ndarray) -> np.ndarray:
    """A copy of up to 64 of the numbers that draws predict, evenly among all.

    Args:
        values: Shape (draws, ...).

    Returns:
        Shape (draws, at most 64).
    """
    flat = values.reshape(len(values), -1)
    return flat[:, np.unique(np.linspace(0, flat.shape[1] - 1, _COLUMNS).astype(int))]


def resampled(weight: np.ndarray) -> np.ndarray:
    """Numbers of as many draws that count alike, in their order.

    Systematic resampling: a draw with the share w comes floor(S w) or ceil(S w) times among S.

    Args:
        weight: Weights of the draws, shape (S,).

    Returns:
        Numbers of draws, shape (S,); each once where all weights are the same.
    """
    count = len(weight)
    if np.ptp(weight) == 0:
        return np.arange(count)
    quantiles = (np.arange(count) + 0.5) / count
    return np.minimum(np.searchsorted(np.cumsum(weight) / weight.sum(), quantiles), count - 1)


class Members:
    """Fixed vectors of parameters in place of draws: an optimum, or the members of an ensemble.

    Args:
        vectors: Parameters, shape (members, P) or (P,).
        walkers: Numbers of the walkers whose moving statistics the members have, shape (members,).
            Default: None, 0.
        weights: Weights of the members, shape (members,). Default: None, 1 each.
        kind: Which vectors they are: `DRAWS`, `FITS`, `BOTH`, `ENDS` or `VECTORS`. Default:
            `VECTORS`.
    """

    def __init__(
        self,
        vectors: np.ndarray,
        walkers: np.ndarray | None = None,
        weights: np.ndarray | None = None,
        kind: str = VECTORS,
    ) -> None:
        self.kind = kind
        self.vectors = np.atleast_2d(vectors)
        count = len(self.vectors)
        self.walker = np.zeros(count, np.int64) if walkers is None else np.asarray(walkers)
        self.step = np.zeros(count, np.int64)
        self.weight = np.ones(count) if weights is None else np.asarray(weights, np.float64)

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def in_memory(self) -> bool:
        """Whether predictions read no file."""
        return True

    def blocks(self, most: int) -> Iterator[tuple[int, np.ndarray]]:
        yield from _pieces(self.vectors, most)

    def independent_of(self, series: np.ndarray) -> float:
        """The number of vectors, each of which counts.

        Args:
            series: Not used.
        """
        del series
        return float(len(self))


class DrawsAndFits:
    """Draws of a run beside the fits that its chains began from, with half of the weight each.

    Args:
        draws: The draws, with their weights.
        fits: The fits, which count alike.

    Attributes:
        step: Step of each draw, and 0 for each fit, shape (draws + fits,).
        walker: Walker of each draw and of each fit, shape (draws + fits,).
        weight: Weight of each draw and of each fit, shape (draws + fits,).
    """

    kind = BOTH

    def __init__(self, draws: Draws | Members, fits: Members) -> None:
        self.draws = draws
        self.fits = fits
        self.step = np.concatenate([draws.step, fits.step])
        self.walker = np.concatenate([draws.walker, fits.walker])
        weight_of_a_fit = draws.weight.sum() / len(fits)
        self.weight = np.concatenate([draws.weight, np.full(len(fits), weight_of_a_fit)])

    def __len__(self) -> int:
        return len(self.draws) + len(self.fits)

    @property
    def in_memory(self) -> bool:
        """Whether predictions read no file."""
        return self.draws.in_memory

    def blocks(self, most: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yields the number of the first vector of a block and its parameters, `(up to most,
        parameters)`; first the draws, then the fits.
        """
        if self.in_memory and most >= len(self):
            parts = [*self.draws.blocks(most), *self.fits.blocks(most)]
            yield 0, np.concatenate([values for _, values in parts])
            return
        yield from self.draws.blocks(most)
        for first, values in self.fits.blocks(most):
            yield len(self.draws) + first, values

    def independent_of(self, series: np.ndarray) -> float:
        """The number of independent vectors that have the error of the mixture.

        Each half contributes a quarter of its own variance.

        Args:
            series: Some numbers that draws and fits predict, shape (draws + fits, numbers).
        """
        of_draws = self.draws.independent_of(series[: len(self.draws)])
        return 4 / (1 / of_draws + 1 / len(self.fits))


AnyDraws = Draws | DrawsAndFits | Members
"""What a prediction averages."""
