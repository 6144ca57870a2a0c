"""The time of a plane: `python -m benchmarks.landscape [--points 41] [--examples 55000]`. Reported,
never asserted.

A softmax perceptron of 7,850 parameters (784-10) on random images of 784 bytes, a plane of 41 x 41
points, once for blocks of points of several sizes, and one point at a time for comparison (a few
points only, scaled up).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np

BLOCKS = (32, 64, 128)
SINGLE = 8


def seconds(surface, grid, count: int) -> float:
    """Seconds for the first `count` points of a grid."""
    positions = grid.positions(grid.coordinates(0, count)[:, 1:])
    surface.values(positions[: surface.points])
    start = time.perf_counter()
    surface.values(positions)
    return time.perf_counter() - start


def main(argv: Sequence[str] | None = None) -> int:
    """Prints one line a block size."""
    parser = argparse.ArgumentParser(description="The time of a plane of 784-10.")
    parser.add_argument("--points", type=int, default=41, help="points of an axis, default 41")
    parser.add_argument("--examples", type=int, default=55_000, help="images, default 55,000")
    arguments = parser.parse_args(argv)
    import tati_re
    from tati_re.landscape import Grid, Surface, random_directions

    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (arguments.examples, 28, 28), dtype=np.uint8)
    labels = generator.integers(0, 10, arguments.examples)
    sim = tati_re.Simulation(data=(images, labels), verbose=0)
    directions = random_directions(sim.parameters, [(784, 10), (10,)], 2)
    grid = Grid(sim.parameters, directions, [(-1, 1, arguments.points)] * 2)
    for size in (*BLOCKS, 1):
        surface = Surface(sim, points=size)
        count = grid.num_points if size > 1 else SINGLE
        taken = seconds(surface, grid, count) * grid.num_points / count
        print(
            f"{grid.num_points} points, {arguments.examples:,} images, blocks of {size:3}: {taken:6.1f} s",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
