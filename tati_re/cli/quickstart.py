"""`tati-quickstart`: train a network on handwritten digits and sample its Bayesian posterior."""

import warnings
from pathlib import Path

from tati_re.cli.arguments import Parser, entry_point, loading, output_folder
from tati_re.core.errors import CertificateWarning, InputError
from tati_re.runs import files

NUM_FIT_STEPS = 1_000
SMALLEST_NUM_STEPS = 200
SYSTEM = {"data": "digits", "hidden": [32], "num_walkers": 4, "walker_start": "fresh"}
FIT = {"optimizer": "adam", "learning_rate": 0.01, "batch_size": 100}
UNTIL = "rhat<1.01, ess>1000, rhat(weights)<1.1"


def _body(argv: list[str]) -> None:
    typed = parser_of_command().parse(argv)
    num_steps = typed.get("num_steps")
    if num_steps is not None and num_steps < SMALLEST_NUM_STEPS:
        raise InputError("--num-steps is too small.", num_steps, f"at least {SMALLEST_NUM_STEPS}")
    loading(not typed.get("quiet"))
    from tati_re.runs.run_folder import prepare

    output = typed.get("output")
    with output_folder(output, "quickstart") as folder:
        if output is not None:
            prepare(folder)
        run_quickstart(
            folder, num_steps, typed.get("seed", 0), verbose=0 if typed.get("quiet") else 1
        )


def parser_of_command() -> Parser:
    parser = Parser(
        prog="quickstart",
        quiet="no progress, only certificate and predictions at the end",
        description="Train a 64-32-10 network on handwritten digits with Adam, and sample its posterior until it has "
        "converged. Compare predictions of the optimum and of the posterior average.",
    )
    steps = f"upper limit of the sampling steps; default: no limit other than {UNTIL}"
    parser.add_argument("--num-steps", type=int, metavar="N", help=steps)
    parser.add_argument(
        "--output",
        metavar="DIR",
        help="run folder, new or empty; default runs/quickstart-1, -2, ...",
    )
    parser.add_argument(
        "--seed", type=int, metavar="S", help="seed of every random number; default 0"
    )
    return parser


def run_quickstart(folder: Path, num_steps: int | None, seed: int, verbose: int) -> None:
    """Trains, samples and predicts, prints the tables, and writes the figures.

    Args:
        folder: The folder of the run, new or empty.
        num_steps: Upper limit of the sampling steps. None: no limit but the convergence.
        seed: Seed of all random numbers.
        verbose: 1, or 0 for the certificate and predictions alone.
    """
    from tati_re.plotting import plot_traces
    from tati_re.report.prediction import report_predictions
    from tati_re.simulation.simulation import Simulation
    from tati_re.summary.screen import end_screen

    sim = Simulation(**SYSTEM, seed=seed, verbose=verbose)
    optimum = sim.fit(num_steps=NUM_FIT_STEPS, **FIT).passing_on()
    length = {} if num_steps is None else {"num_steps": num_steps}
    with warnings.catch_warnings():
        # The certificate itself stands on the screen.
        warnings.simplefilter("ignore", CertificateWarning)
        run = sim.sample(until=UNTIL, output=str(folder), **length).passing_on()
    predictions = report_predictions([run], folder / files.PREDICTIONS, {"optimum": optimum.folder})
    burnin = run.manifest.num_burnin_steps
    plot_traces(run.run_info, sim.num_parameters(), burnin, folder / "traces.png")
    if not verbose:
        print(end_screen(run))
    print("", predictions, sep="\n")


main = entry_point("quickstart", _body, __name__, writes_files=True)
