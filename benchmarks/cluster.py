"""What workers gain: `python -m benchmarks.cluster [--seconds 8] [--repeats 3] [--workers 1 2 4]`.

Independent walkers and ladders with swaps; for each the time of a step with one loop, and with 1, 2 and more workers
over pipes, in turn, medians, and the seconds before the first step. Figures are reported, never asserted.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from tati_re import Simulation

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(2000, 784)).astype("float32")
LABELS = RNG.integers(0, 10, 2000)
SYSTEMS: dict[str, tuple[dict, int]] = {
    "784-10 x 8": ({"hidden": []}, 8),
    "784-100-10 x 8": ({"hidden": [100]}, 8),
    "conv x 4": ({"conv": 8}, 4),
}
KINDS = {
    "independent": {"batch_size": 550, "step_size": 1e-4},
    "swaps": {"max_temperature": 4.0, "exchange_every": 20, "step_size": 1e-4},
}


def simulation(system: dict, walkers: int) -> Simulation:
    given = {"num_walkers": walkers, "seed": 1, "verbose": 0}
    if "conv" not in system:
        return Simulation(data=(IMAGES, LABELS), **system, **given)
    import keras

    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((28, 28, 1)), layers.Conv2D(system["conv"], 3), layers.Flatten(), layers.Dense(10)]
    )
    return Simulation(model, data=(IMAGES.reshape(-1, 28, 28, 1), LABELS), **given)


def measured(name: str, kind: str, workers: int | None, seconds: float) -> dict[str, float]:
    """Milliseconds of a step of all walkers after the first checkpoint, and the seconds before the first step."""
    system, walkers = SYSTEMS[name]
    options = dict(KINDS[kind])
    if kind == "swaps":
        options["num_replicas"], walkers = walkers, 1
        options["batch_size"] = None
    options = {key: value for key, value in options.items() if value is not None}
    times: list[tuple[float, int]] = []

    def seen(folder: Path, step: int) -> None:
        times.append((time.monotonic(), step))

    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        simulation(system, walkers).sample(
            num_steps=10**8,
            max_time=seconds,
            checkpoint_seconds=seconds / 4,
            record_every=100,
            trajectory_every=0,
            output=Path(folder) / "run",
            callbacks=[seen],
            **options,
            **({} if workers is None else {"workers": workers}),
        )
    (first, a), (last, b) = times[0], times[-1]
    return {"ms": 1e3 * (last - first) / max(b - a, 1), "start": first - began - seconds / 4}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description="What workers gain.")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4])
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for name in SYSTEMS:
        for kind in KINDS:
            found: dict[int | None, list[dict[str, float]]] = {}
            for _ in range(given.repeats):
                for workers in (None, *given.workers):
                    blocks = SYSTEMS[name][1] // (1 if kind == "swaps" else 4)
                    if workers is None or workers <= blocks:
                        found.setdefault(workers, []).append(measured(name, kind, workers, given.seconds))
            today = statistics.median(each["ms"] for each in found[None])
            for workers, each in found.items():
                ms, start = (statistics.median(one[key] for one in each) for key in ("ms", "start"))
                spread = f"{min(one['ms'] for one in each):.2f} to {max(one['ms'] for one in each):.2f}"
                who = "one loop" if workers is None else f"{workers} worker(s)"
                words = f"{ms:.2f} ms a step ({spread}), {today / ms:.2f} x, start {start:.0f} s"
                print(f"{name}, {kind}, {who}: {words}", flush=True)


if __name__ == "__main__":
    main()
