"""Running averages of the observables after the burn-in, row by row."""

import numpy as np

from tati_re.engine.loop import Loop


class RunningAverages:
    """Sums and counts of each walker, and the rows of averages.csv that follow from them."""

    def __init__(self, loop: Loop, expected: tuple[float, float]) -> None:
        self._columns, self._expected = loop.observables.columns, np.array(expected)
        self._averaged = [self._columns.index(name) for name in loop.observables.averaged]
        self._walkers_at_rung = loop.walkers_at_rung if loop.by_rung else None
        self._counts, self._sums = np.zeros(loop.walkers), np.zeros((loop.walkers, len(self._averaged)))

    def add(self, walkers: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Counts rows `(steps, walkers, columns)` of these walkers; the averages after each, as in averages.csv."""
        values, weights = rows[:, :, self._averaged], np.ones(rows.shape[:2])
        if "weight" in self._columns:
            weights = rows[:, :, self._columns.index("weight")]
        # One running sum: adding the sums of parts would round differently after each interruption.
        values = np.where(weights[:, :, None] == 0.0, 0.0, weights[:, :, None] * values)
        totals = np.cumsum(np.concatenate([self._sums[walkers][None], values]), axis=0)[1:]
        counts = np.cumsum(np.concatenate([self._counts[walkers][None], weights]), axis=0)[1:]
        self._sums[walkers], self._counts[walkers] = totals[-1], counts[-1]
        temperature = rows[:, :, self._columns.index("temperature")]
        with np.errstate(invalid="ignore"):
            parts = [totals / counts[:, :, None], temperature[:, :, None] * self._expected]
        if self._walkers_at_rung is not None:
            rung = walkers // self._walkers_at_rung
            parts.append(np.broadcast_to(rung[:, None], (*temperature.shape, 1)))
        return np.concatenate(parts, axis=-1)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"averages/counts": self._counts, "averages/sums": self._sums}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self._counts, self._sums = arrays["averages/counts"], arrays["averages/sums"]
