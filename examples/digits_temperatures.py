"""Loss against temperature on handwritten digits: the cold-posterior curve, and where cooling
should stop.

A 64-32-10 network with the prior N(0, 1), sampled by BAOAB at falling temperatures, each run from
where the one before arrived. The optimum of the training loss is the limit T = 0; the Bayesian
posterior is T = 1. The rule is that of R. Baldock and N. Marzari, Bayesian Neural Networks at
Finite Temperature (2019): cool until the validation error rises, then go back. Half of the test
images validate, the other half tests.

    python examples/digits_temperatures.py [--num-steps 4000] [--num-train 1438] [--output DIR]

Writes temperatures.csv and figure.png.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import tati_re
from tati_re.data import load_data

TEMPERATURES = tuple(10.0 ** np.linspace(-2.5, 1, 8))
SMALLEST = {"num_steps": 40, "num_train": 10}


def cooled(typed: argparse.Namespace) -> tati_re.prediction.TemperatureStudy:
    """The runs at all temperatures.

    Raises:
        InputError: Steps or images are too few, or the seed is out of range.
    """
    for name, smallest in SMALLEST.items():
        if getattr(typed, name) < smallest:
            flag = f"--{name.replace('_', '-')}"
            raise tati_re.InputError(
                f"{flag} is too small.", getattr(typed, name), f"{smallest} at least"
            )
    data = load_data("digits", seed=typed.seed)
    data = replace(
        data, inputs=data.inputs[: typed.num_train], targets=data.targets[: typed.num_train]
    )
    sim = tati_re.Simulation(data=data, hidden=[32], num_walkers=4, seed=typed.seed, verbose=0)
    sim.fit(
        optimizer="adam", learning_rate=0.01, num_steps=300, batch_size=min(100, typed.num_train)
    )
    typed.output.mkdir(parents=True, exist_ok=True)
    return tati_re.temperature_study(
        sim,
        TEMPERATURES,
        early_stopping=False,
        sampler="BAOAB",
        step_size=0.006,
        friction=8.0,
        batch_size=data.num_examples // 2,
        num_steps=typed.num_steps,
        num_burnin_steps=typed.num_steps // 2,
        record_every=20,
        trajectory_every=max(1, typed.num_steps // 200),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the study."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--num-steps", type=int, default=4000, help="at each temperature, half of them burn-in"
    )
    parser.add_argument(
        "--num-train", type=int, default=1438, help="training images, the first ones"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("results/digits_temperatures"))
    typed = parser.parse_args(argv)
    try:
        study = cooled(typed)
    except (tati_re.InputError, tati_re.SamplingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    study.frame.to_csv(typed.output / "temperatures.csv", index=False)
    study.plot(typed.output / "figure.png")
    print(study.frame.to_string(index=False, float_format=lambda value: f"{value:.4g}"))
    rose = "never rises" if study.stopped_at is None else f"has risen at T = {study.stopped_at:.3g}"
    print(
        f"cooling down, the validation loss is lowest at T = {study.best_temperature:.3g}, and {rose}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
