"""How far mini-batch noise heats a mode of frequency ω, for three orders of the batches, against m
h ω.

One epoch has m batches. Drawn with replacement, their noise is white and heats every mode alike; in
shuffled epochs and in symmetric sweeps it sums to zero, so that modes that move little during a
sweep, m h ω below 1, hardly feel it. The curves are exact: linear algebra on one step of BAOAB in a
harmonic well, with γ = ω and h ω = 0.1.

    python examples/batch_orders.py [--output results/batch_orders]

Writes batch_orders.csv and batch_orders.png, in seconds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import tati_re
from tati_re.analysis import relative_heating
from tati_re.samplers import Splitting

ORDERS = {
    "replacement": "drawn with replacement",
    "epochs": "shuffled epochs",
    "symmetric": "symmetric sweeps",
}
STEP_SIZE = 0.1
NUM_BATCHES = np.unique(np.geomspace(2, 1000, 40).astype(int))


def shares(step_size: float, num_batches: Sequence[int] | np.ndarray, order: str) -> np.ndarray:
    """The heating of a mode of ω = 1 with so many batches an epoch, over that by white noise,
    hV/(2γT) for small h.
    """
    method = Splitting("BAOAB", friction=1.0)
    found = [
        relative_heating(method, step_size, 1.0, [1.0], 1.0, order, 1, int(m)).position[0]
        for m in num_batches
    ]
    return (
        np.array(found)
        / relative_heating(method, step_size, 1.0, [1.0], 1.0, "replacement", 1, 2).position[0]
    )


def draw(reach: np.ndarray, table: dict[str, np.ndarray], path: Path) -> None:
    """Draws the shares of all orders against m h ω."""
    from tati_re.plotting import COLORS, GRAY, legend_above, new_figure, plain, save

    figure = new_figure(6.0, 3.6)
    axes = figure.subplots()
    for (name, values), color in zip(table.items(), (GRAY, *COLORS), strict=False):
        axes.plot(reach, values, color=color, label=ORDERS[name])
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("m h ω, steps of an epoch in units of 1/(h ω)")
    axes.set_ylabel("heating, share of hV/(2γT)")
    plain(axes)
    legend_above(axes)
    save(figure, path)


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the table and the figure; the exit status is 2 for a folder that cannot be written."""
    parser = argparse.ArgumentParser(
        description="Heating by mini-batch noise for three orders of the batches."
    )
    parser.add_argument(
        "--output", type=Path, default=Path("results/batch_orders"), metavar="DIR", help="folder"
    )
    output = parser.parse_args(argv).output
    reach = STEP_SIZE * NUM_BATCHES
    table = {order: shares(STEP_SIZE, NUM_BATCHES, order) for order in ORDERS}
    try:
        output.mkdir(parents=True, exist_ok=True)
        rows = np.column_stack([reach, *table.values()])
        np.savetxt(
            output / "batch_orders.csv",
            rows,
            delimiter=",",
            header=",".join(["m_h_omega", *table]),
            comments="",
        )
    except OSError as error:
        print(
            f"error: {tati_re.InputError('The results cannot be written.', output, error.strerror)}",
            file=sys.stderr,
        )
        return 2
    draw(reach, table, output / "batch_orders.png")
    better = reach[table["epochs"] < table["symmetric"]].min()
    print(
        f"Symmetric sweeps heat less below m h ω = {better:.2g}, epochs above. {output / 'batch_orders.png'}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
