"""`tati-inputspace`: predictions over a grid of inputs, and their spread over sampled
parameters.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tati_re.cli.arguments import (
    Parser,
    entry_point,
    flags_named,
    integer_of,
    loading,
    output_folder,
)
from tati_re.cli.tati_tools import sample_inputs_as_tati, scans
from tati_re.core.errors import InputError, refuse_if

TABLE = "inputspace.csv"
FIGURE = "inputspace.png"
SPECIFICATION = "inputspace.toml"
OWN: dict[str, tuple[Any, str]] = {
    "range": (
        "LOW:HIGH:POINTS",
        "range of all inputs, or one for each, joined by commas; default the range of "
        "the data, 15 %% wider",
    ),
    "along": (
        ("INPUT",),
        "one to three inputs that vary, by name or number from 1; the others stay at "
        "their training means; default all if there are up to three, else the first two",
    ),
    "inputs": ("FILE", "inputs from a .npy, .npz or .csv file instead of a grid"),
    "which": (
        ("WORD",),
        "parameters: all that were sampled (default), mean, last, or numbers of stored steps",
    ),
    "parameters": (
        "FILE",
        "file of parameters to use instead of the run's: a trajectory, .npz, .keras or run folder",
    ),
    "parameters_step": ("N", "row with this step in that file; default the last"),
    "walker": ("N", "one walker of the run; default all"),
    "thin": ("N", "use every N-th sampled position; default 1"),
    "output": (
        "DIR",
        f"folder for {TABLE} and {FIGURE}, new or empty; default the next of "
        "runs/inputspace-1, ...",
    ),
    "overwrite": (None, "replace existing files in it"),
    "no_figures": (None, "write the table only"),
}


def parser_of_command() -> Parser:
    description = "Predict over a grid of inputs with one, many or all sampled parameters of a run."
    parser = Parser("tati-inputspace", "tati-inputspace RUN [options]", description)
    parser.add_argument("run", nargs="?", metavar="RUN", help="run folder")
    parser.add_table(OWN)
    return parser


def _which(words: Sequence[str]) -> str | list[int]:
    if len(words) == 1 and not words[0].isdigit():
        return words[0]
    if not all(word.isdigit() for word in words):
        raise InputError(
            "--which has the wrong form.",
            " ".join(words),
            "all, mean, last, or numbers of stored steps",
        )
    return [int(word) for word in words]


def _predict(typed: dict[str, Any], folder: Path) -> None:
    import tomli_w

    from tati_re.landscape.inputspace import input_space, read_inputs
    from tati_re.launch.run import load
    from tati_re.runs.csv_table import frame_text
    from tati_re.runs.storage import made, write_whole

    run = load(typed["run"])
    parameters = None
    if "parameters" in typed:
        from tati_re.models.names import parameter_names
        from tati_re.runs.parameters import read_parameters

        stored = run.manifest.parameters
        names = parameter_names(stored.names, stored.shapes)
        parameters = read_parameters(
            typed["parameters"], integer_of(typed, "parameters_step"), names=names
        ).positions
    inputs = read_inputs(typed["inputs"], run) if "inputs" in typed else None
    ranges = typed["range"].split(",") if "range" in typed else None
    space = input_space(
        run,
        ranges,
        along=typed.get("along"),
        inputs=inputs,
        which=_which(typed.get("which", ["all"])),
        parameters=parameters,
        walker=integer_of(typed, "walker"),
        thin=integer_of(typed, "thin", 1, 1),
    )
    made(folder)
    existing = [folder / name for name in (TABLE, FIGURE) if (folder / name).exists()]
    if existing and "overwrite" not in typed:
        raise InputError("--output is there already.", existing[0], "a new folder, or --overwrite")
    frame = space.frame()
    write_whole(folder / TABLE, frame_text(frame))
    write_whole(
        folder / SPECIFICATION,
        tomli_w.dumps({"run": os.path.relpath(typed["run"], folder)}).encode(),
    )
    written = [TABLE]
    if "no_figures" not in typed and space.axes is not None and len(space.axes) <= 2:
        from tati_re.plotting.inputs import plot_input_space

        plot_input_space(space, folder / FIGURE)
        written.append(FIGURE)
    if "quiet" not in typed:
        print(f"{len(frame):,} inputs, {space.prediction.num_draws:,} vectors of parameters")
        if space.others:
            varied = " and ".join(space.names[k] for k in space.along)
            print(f"{varied} {'varies' if len(space.along) == 1 else 'vary'}; {space.others}")
        columns = [name for name in ("predicted", "mean") if name in frame]
        if columns == ["predicted"]:
            shares = frame["predicted"].value_counts(normalize=True).sort_index()
            print(
                "classes predicted: "
                + ", ".join(f"{name} on {share:.1%}" for name, share in shares.items())
            )
        print(f"written to {folder}: {', '.join(written)}")


def _body(argv: list[str]) -> None:
    if scans(argv):
        return sample_inputs_as_tati(argv)
    typed = parser_of_command().parse(argv)
    refuse_if(
        "run" not in typed,
        "tati-inputspace needs a run folder.",
        expected="tati-inputspace RUN [options]",
    )
    for name in ("which", "walker", "thin") if "parameters" in typed else ():
        refuse_if(
            name in typed,
            f"--{name} selects from the run's parameters.",
            typed.get(name),
            "no --parameters",
        )
    loading(not typed.get("quiet"))
    from tati_re.runs.lock import writing

    with (
        flags_named(OWN),
        output_folder(typed.get("output"), "inputspace") as folder,
        writing(folder),
    ):
        _predict(typed, folder)


main = entry_point("tati-inputspace", _body, __name__, writes_files=True)
