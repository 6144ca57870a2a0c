"""`tati-quickstart`: train a network on handwritten digits and sample its Bayesian posterior."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tati_re.cli.arguments import Parser, entry_point, free_folder, remove_if_empty
from tati_re.core.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from tati_re.analysis import PosteriorAverage
    from tati_re.simulation.run import Run
    from tati_re.simulation.simulation import Simulation

NUM_STEPS = 60_000
NUM_FIT_STEPS = 1_000
SMALLEST_NUM_STEPS = 200
RECORD_EVERY = 20
STORED_DRAWS = 250
"""Positions of each walker that are kept for predictions."""

SYSTEM = {"data": "digits", "hidden": [32], "activation": "relu", "prior": "gaussian", "num_walkers": 4}
FIT = {"optimizer": "adam", "learning_rate": 0.01, "batch_size": 100}
SAMPLE = {"sampler": "BAOAB", "step_size": 0.008, "friction": 8.0, "inverse_temperature": 1.0, "batch_size": 719}
"""Small steps and large batches: half of the data at a time heats the system by less than 0.1 %."""


def _body(argv: list[str]) -> None:
    typed = _parser().parse(argv)
    num_steps = typed.get("num_steps", NUM_STEPS)
    if num_steps < SMALLEST_NUM_STEPS:
        raise InputError("--num-steps is too small.", num_steps, f"at least {SMALLEST_NUM_STEPS}")
    from tati_re.runs.run_folder import prepare

    output = typed.get("output")
    folder = prepare(output) if output is not None else free_folder("quickstart")
    try:
        run_quickstart(folder, num_steps, typed.get("seed", 0), verbose=0 if typed.get("quiet") else 1)
    finally:
        if output is None:
            remove_if_empty(folder)


def _parser() -> Parser:
    parser = Parser(
        prog="quickstart",
        description="Train a 64-32-10 network on handwritten digits with Adam, sample its posterior with BAOAB, and "
        "compare the predictions of the optimum with those of the posterior average.",
    )
    steps = f"sampling steps, the first fifth is burn-in; default {NUM_STEPS:,}"
    parser.add_argument("--num-steps", type=int, metavar="N", help=steps)
    parser.add_argument("--output", metavar="DIR", help="run folder, new or empty; default runs/quickstart-1, -2, ...")
    parser.add_argument("--seed", type=int, metavar="S", help="seed of every random number; default 0")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the table at the end")
    return parser


def run_quickstart(folder: Path, num_steps: int, seed: int, verbose: int) -> None:
    """Trains, samples, predicts, prints the table and writes the figures.

    Args:
        folder: Run folder, new or empty.
        num_steps: Sampling steps; the first fifth is burn-in.
        seed: Seed of every random number.
        verbose: 0 or 1.
    """
    from tati_re.analysis import posterior_average
    from tati_re.plotting import plot_calibration, plot_traces
    from tati_re.simulation.simulation import Simulation

    began = time.monotonic()
    sim = Simulation(**SYSTEM, seed=seed, verbose=verbose)
    data = sim.dataset
    sim.fit(num_steps=NUM_FIT_STEPS, **FIT)
    optimum = sim.predict_probabilities(data.test_inputs, walker_index=0)
    num_burnin_steps = num_steps // 5
    run = sim.sample(
        num_steps=num_steps,
        num_burnin_steps=num_burnin_steps,
        record_every=max(1, min(RECORD_EVERY, num_steps // 100)),
        trajectory_every=max(1, (num_steps - num_burnin_steps) // STORED_DRAWS),
        output=str(folder),
        **SAMPLE,
    )
    if verbose:
        print("Predicting with the stored positions ...", flush=True)
    chosen = (range(len(data.test_targets)), data.test_targets)
    average = posterior_average(
        _parameters(run),
        lambda vector: sim.predict_probabilities(data.test_inputs, vector),
        observe=lambda probabilities: probabilities[chosen],
    )
    plot_traces(run.run_info, sim.num_parameters(), num_burnin_steps, folder / "traces.png")
    plot_calibration(optimum, average.mean, data.test_targets, folder / "calibration.png")
    print(("\n" if verbose else "") + _report(sim, run, num_burnin_steps, optimum, average, time.monotonic() - began))


def _parameters(run: Run) -> Iterator[np.ndarray]:
    from tati_re.analysis import stored_positions

    return (position.parameters for position in stored_positions(run))


def _report(
    sim: Simulation, run: Run, num_burnin_steps: int, optimum: np.ndarray, average: PosteriorAverage, seconds: float
) -> str:
    from tati_re.analysis import chains_of, effective_sample_size, r_hat, temperatures
    from tati_re.analysis.format import table
    from tati_re.report.summary import convergence_notes, temperature_note, temperature_text

    potential = chains_of(run.run_info, "potential", num_burnin_steps)
    hat, size = r_hat(potential), effective_sample_size(potential)
    measured = temperatures(run.run_info, sim.num_parameters(), num_burnin_steps)
    notes = convergence_notes("the potential", hat, size)
    notes += [note for temperature in measured if (note := temperature_note(temperature))]
    lines = [
        *_scores(sim.dataset.test_targets, optimum, average),
        ("", ""),
        ("effective sample size", f"{size:,.0f} of the potential"),
        ("R-hat", f"{hat:.3f} of the potential, {_r_hat_of_predictions(sim, average)}"),
        *((f"{one.kind} temperature", temperature_text(one)) for one in measured),
        ("", ""),
        ("time", f"{seconds:.0f} s"),
        ("run folder", str(run.folder)),
        ("figures", "traces.png, calibration.png in it"),
    ]
    return "\n".join([*(f"Warning: {note}" for note in notes), *([""] if notes else []), table(lines)])


def _scores(labels: np.ndarray, optimum: np.ndarray, average: PosteriorAverage) -> list[tuple[str, str]]:
    from tati_re.analysis import accuracy, calibration, negative_log_likelihood

    def row(label: str, score: Any) -> tuple[str, str]:
        return label, f"{score(optimum, labels):<12.4f}{score(average.mean, labels):.4f}"

    return [
        (f"{len(labels)} test images", f"{'optimum':<12}average of {average.num_draws:,} posterior draws"),
        row("test accuracy", accuracy),
        row("negative log likelihood", negative_log_likelihood),
        row("calibration error", lambda values, right: calibration(values, right, num_bins=10).error),
    ]


def _r_hat_of_predictions(sim: Simulation, average: PosteriorAverage) -> str:
    """Median and 95 % quantile over test images of the R-hat of the right class's probability."""
    import numpy as np

    from tati_re.analysis import r_hat
    from tati_re.analysis.convergence import MINIMUM_DRAWS

    draws = np.asarray(average.observed).reshape(-1, sim.num_walkers(), len(sim.dataset.test_targets))
    if len(draws) < MINIMUM_DRAWS:
        return f"too few of the {len(draws)} stored draws for that of predictions"
    values = [r_hat(chains) for chains in draws.transpose(2, 1, 0)]
    return f"{np.nanmedian(values):.3f} of predictions (median; 95 % below {np.nanquantile(values, 0.95):.3f})"


main = entry_point("quickstart", _body)


if __name__ == "__main__":
    sys.exit(main())
