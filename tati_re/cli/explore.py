"""`tati-explore`: find minima and valleys from a starting point, and the barriers between them."""

import argparse
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tati_re.cli import arguments
from tati_re.cli.tati_tools import explorer, write_exploration
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.process.exit_status import FINISHED, OUT_OF_TIME
from tati_re.core.process.interruption import saying, stopping
from tati_re.options.make import OPTIONS, options_from_flags, options_of
from tati_re.options.table import Options
from tati_re.options.tati_names import ALIASES, EXPLORER, EXPLORER_FILES, MARK, NOT_OF_EXPLORER
from tati_re.options.trust import TRUST

GROUPS = ("data", "model", "posterior", "sampler")
MORE = ("seed", "threads", "execution", "requeue_signal")
INTEGERS = {
    "leg_steps": ("N", "steps per leg; default 2,000"),
    "num_legs": ("N", "legs per round; default 4"),
    "num_candidates": ("N", "descents per leg; default 5"),
    "max_rounds": ("N", "maximum number of rounds; default 10"),
    "patience": ("N", "stop after this many rounds without a new minimum; default 3"),
    "num_connected": (
        "N",
        "number of lowest minima between all of which barriers are searched for; default 8",
    ),
    "num_processes": (
        "N",
        "number of processes that run legs in parallel; default 0: only this one",
    ),
}
OWN: dict[str, tuple[Any, str]] = {
    **INTEGERS,
    "heats": ("X,X,...", "temperatures of the legs relative to the target's, in turn; default 1,4"),
    "directions": (
        "WORD",
        "space in which new starts are far from old ones: covariance (default), diffusion_map",
    ),
    "centre": ("WORD", "starting point in RUN: mean, last, best, or a stored step"),
    "parameters": ("FILE", "starting point: a file of parameters"),
    "parameters_step": ("N", "row with this step in that file"),
    "max_time": (
        "SECONDS",
        "stop after this many seconds with status 75; called again it continues; default no limit",
    ),
    "output": (
        "DIR",
        "output folder; the same command continues from stored parts; default the next "
        "of runs/explore-1, ...",
    ),
    "no_figures": (None, "tables only"),
    "trust": (None, f"of the run: {TRUST}"),
}


def parser_of_command() -> arguments.Parser:
    description = (
        "Find minima of U around a run, whose trajectory is the first leg, or around a model "
        "given by --data."
    )
    parser = arguments.Parser("tati-explore", "tati-explore [RUN] [options]", description)
    parser.add_argument("run", nargs="?", metavar="RUN", help="run folder")
    parser.add_table(OWN)
    for group in GROUPS:
        title = f"{group}, replacing the run's; --dtype is float64 by default"
        parser.add_options(title, [name for name in options_of([group]) if name not in OWN])
    parser.add_options("more", MORE)
    groups = ("data", "prior", "model", "sampler", "train")
    parser.add_names_of_tati(
        (*groups, *EXPLORER, "restore_model", "inter_ops_threads", "intra_ops_threads")
    )
    hidden = {*EXPLORER, *NOT_OF_EXPLORER, *EXPLORER_FILES, "max_legs", "diffusion_map_method"}
    parser.add_argument("-v", dest="v", action="count", help=argparse.SUPPRESS)
    for name in sorted(hidden - {action.dest for action in parser._actions}):
        parser.add_argument(f"--{name}", dest=name, help=argparse.SUPPRESS)
    return parser


def _choices(typed: dict[str, Any]) -> dict[str, Any]:
    choices: dict[str, Any] = {
        name: arguments.number_typed(name, typed[name]) for name in INTEGERS if name in typed
    }
    if "leg_steps" in choices:
        choices["num_steps"] = choices.pop("leg_steps")
    if "heats" in typed:
        choices["heats"] = tuple(
            arguments.number_typed("heats", part, float, 0) for part in typed["heats"].split(",")
        )
    if "max_time" in typed:
        choices["max_time"] = arguments.number_typed("max_time", typed["max_time"], float)
    return choices | {name: typed[name] for name in ("directions",) if name in typed}


def _source(typed: dict[str, Any], options: Options) -> dict[str, Any]:
    """The options of the system: the run, with the typed options where they differ."""
    # The run's own seed says which examples are for testing.
    of_run = "run" in typed and "data" not in typed
    names = options.explicit - ({"seed"} if of_run else set())
    source: dict[str, Any] = {"dtype": "float64", **options.values_of(names)}
    if options.tati:
        source |= MARK
    source |= {"run": typed["run"]} if "run" in typed else {"verbose": 0}
    if "trust" in typed:
        source["trust"] = True
    return source


def _start(typed: dict[str, Any], sim: Any) -> tuple[Any, Any]:
    """The starting point, and the positions that are the first leg, or `None`."""
    import numpy as np

    from tati_re.landscape.request import centre_of
    from tati_re.landscape.scan import path_of
    from tati_re.launch.run import load
    from tati_re.runs.parameters import read_parameters

    if "parameters" in typed:
        step = arguments.integer_of(typed, "parameters_step")
        read = read_parameters(typed["parameters"], step, names=sim.parameter_names())
        return read.positions[0], None
    if "run" not in typed:
        return np.asarray(sim.parameters, np.float64), None
    start, _ = centre_of(typed["run"], typed.get("centre", "auto"))
    try:
        stored = [point.parameters for point in path_of(load(typed["run"]), 200)]
    except InputError:  # the run has no trajectory
        return start, None
    return start, np.stack(stored)


def _print_head(system: Any, path: Any, explicit: Collection[str]) -> None:
    """Says what is explored, and which options the legs do not use."""
    from tati_re.launch.description import unused

    sim = system.trajectories.sim
    first = "the run's trajectory is the first leg" if path is not None else "no trajectory yet"
    about = f"{sim.num_parameters()} parameters on {sim.dataset.name}"
    print(f"{about}, temperature {system.temperature:g}; {first}")
    idle = [name for name in unused(system.trajectories.request) if name in explicit]
    if idle:
        print(f"Not used by the legs: {', '.join(idle)}.")


def _written(exploration: Any, folder: Path, figures: bool) -> list[str]:
    """Draws the figures that were asked for, and names all files of the folder."""
    from tati_re.plotting.exploration import plot_disconnectivity, plot_exploration

    names = ["minima.csv", "minima.npz"]
    if exploration.paths:
        names += ["barriers.csv", "paths.csv", "tree.csv"]
    if figures and len(exploration.minima):
        plot_exploration(exploration, folder / "exploration.png")
        names.append("exploration.png")
        if exploration.paths:
            plot_disconnectivity(exploration, folder / "disconnectivity.png")
            names.append("disconnectivity.png")
    return names


def _print_tables(exploration: Any) -> None:
    """Prints the first twenty minima and barriers."""
    columns = [
        "number",
        "kind",
        "potential",
        "gradient_norm",
        "hessian_index",
        "distance",
        "ln_volume",
        "times_found",
    ]
    style: dict[str, Any] = {"index": False, "float_format": "{:.5g}".format}
    if len(exploration.minima):
        print(exploration.minima[columns].head(20).to_string(**style, na_rep=""))
    else:
        print("No descent reached a minimum: use longer legs, or more of them.")
    if len(exploration.barriers):
        print(exploration.barriers.head(20).to_string(**style))


def _explore(typed: dict[str, Any], folder: Path) -> int:
    quiet = "quiet" in typed
    choices = _choices(typed)
    flags = {
        name: value
        for name, value in typed.items()
        if (name in OPTIONS or name in ALIASES) and name not in (*OWN, *EXPLORER_FILES)
    }
    options = options_from_flags(flags)

    from tati_re.exploration import explore
    from tati_re.exploration.jobs import system_of

    source = _source(typed, options)
    system = system_of(source)
    sim = system.trajectories.sim
    start, path = _start(typed, sim)
    if not quiet:
        _print_head(system, path, options.explicit)
    is_parallel = choices.get("num_processes", 0) > 1
    if is_parallel and "run" in typed:
        # Other processes may be in another folder. Messages name the run as it was typed.
        source["run"] = os.path.abspath(typed["run"])
    exploration = explore(
        source if is_parallel else system,
        start,
        path=path,
        seed=options.seed,
        output=folder,
        say=None if quiet else lambda text: print(text, flush=True),
        **choices,
    )
    write_exploration(exploration, typed, sim.parameter_names())
    written = _written(exploration, folder, figures="no_figures" not in typed)
    if not quiet:
        _print_tables(exploration)
        print(f"{exploration.reason}; written to {folder}: {', '.join(written)}")
    return OUT_OF_TIME if exploration.out_of_time else FINISHED


def _body(argv: list[str]) -> int:
    raw = parser_of_command().parse(argv)
    typed = explorer(raw)
    if not {"run", "data", "batch_data_files", "potential"} & {*typed}:
        raise InputError(
            "tati-explore needs a run folder or --data.", expected="tati-explore RUN [options]"
        )
    away = "run" not in typed or "parameters" in typed
    refuse_if(
        "centre" in typed and away,
        "--centre needs RUN.",
        typed.get("centre"),
        "RUN, no --parameters",
    )
    arguments.loading(not typed.get("quiet"))
    of_tati = {new for name in {*raw} & {*ALIASES} - {*OPTIONS} for new in ALIASES[name].new}
    named = {*OWN, "num_steps"} - of_tati  # which messages have by the names that were typed
    notice = "Interrupted: {} legs are kept in {}. The same command continues."
    with (
        arguments.flags_named(named, {"num_steps": "leg_steps"}),
        arguments.output_folder(typed.get("output"), "explore") as folder,
        stopping(arguments.requeue_signal_of(typed)),
        saying(lambda: notice.format(len([*folder.glob("jobs/*.npz")]), folder)),
    ):
        return _explore(typed, folder)


main = arguments.entry_point("tati-explore", _body, __name__, writes_files=True)
