"""`tati-landscape`: the loss on lines, planes and grids, along a trajectory, and the curvature at a
point.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tati_re.cli import arguments
from tati_re.cli.tati_tools import sample_as_tati, scans
from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.process.interruption import stopping
from tati_re.options.flags import flag
from tati_re.options.make import OPTIONS, options_from_flags, options_of
from tati_re.options.trust import TRUST

GROUPS = ("data", "model", "posterior")
MORE = ("seed", "threads", "requeue_signal")
VTK = "vtk"
HESSIAN = ("extremes", "trace", "density", "full")
OWN: dict[str, tuple[Any, str]] = {
    "parameters": (
        "FILE",
        "center: a trajectory, .npz, .keras or run folder, of tati_re or TATi; not with --centre",
    ),
    "parameters_step": ("N", "row with this step in that file; default the last"),
    "centre": (
        "WORD",
        "center in the run: mean (default of a sampled run), last (of a fit), best, or a "
        "stored step; or zero",
    ),
    "walker": (
        "N",
        "walker for center and trajectory; default all, or the first if the center is one position",
    ),
    "directions": (
        "WORDS",
        "random[:N] (default), trajectory[:N], covariance:1,64, hessian:1,-1, between, FILE",
    ),
    "normalization": ("WORD", "normalization of random directions: filter (default), tensor, none"),
    "to": (
        ("FILE",),
        "between: one or two further files of parameters; vtk: also write landscape.vtk, "
        "for ParaView",
    ),
    "range": (
        "LOW:HIGH:POINTS",
        "range of all axes, or one for each, joined by commas; default -1:1:41",
    ),
    "scales": (
        "N,N,...",
        "powers of 10 that multiply the range, one grid each, such as 1,0,-1,-2",
    ),
    "grid": (
        ("PATTERN=LOW:HIGH:POINTS",),
        "a grid over named parameters around the center, instead of directions",
    ),
    "along": (None, "no plane: loss and accuracy at the stored positions, on all data"),
    "trajectory": ("RUN", "run whose positions are projected; default RUN; none: no trajectory"),
    "trajectory_points": ("N", "number of its positions, equally spaced; default 500"),
    "exclude": (("PATTERN",), "parameters that stay at the center, such as */bias"),
    "fix": (("PATTERN=VALUE",), "parameters held fixed at a value"),
    "hessian": (
        "WORDS",
        "curvature at the center: extremes, trace, density, full, joined by commas; no plane",
    ),
    "probes": ("N", "number of random vectors for trace (default 64) and density (default 8)"),
    "no_test": (None, "without the test set"),
    "quantity": (
        "COLUMN",
        "column to draw; default ln_excess_loss over a plane, the losses along a line",
    ),
    "page": (None, "also write an HTML page with a rotating surface; needs plotly"),
    "no_figures": (None, "tables only"),
    "output": (
        "DIR",
        "output folder; the same command continues from stored parts; default the next "
        "of runs/landscape-1, ...",
    ),
    "overwrite": (None, "replace another landscape in it"),
    "trust": (None, f"of the run: {TRUST}"),
}
DENSITY_STEPS = 60


def parser_of_command() -> arguments.Parser:
    description = (
        "Compute the loss around a point of a run, whose data, model and prior are "
        "known, or of --data and --model with --parameters."
    )
    parser = arguments.Parser("tati-landscape", "tati-landscape [RUN] [options]", description)
    parser.add_argument("run", nargs="?", metavar="RUN", help="run folder")
    parser.add_table(OWN)
    for group in GROUPS:
        parser.add_options(f"{group}, replacing the run's", options_of([group]))
    parser.add_options("more", MORE)
    return parser


def _check(typed: dict[str, Any]) -> None:
    """Refuses flags that exclude each other, and requests that lack something."""
    for check in CHECKS:
        check(typed)


def _ways(typed: dict[str, Any]) -> list[str]:
    """The ways to look around a point that were asked for; none: along directions."""
    return [name for name in ("grid", "along", "hessian") if typed.get(name)]


def _other_points(typed: dict[str, Any]) -> list[str]:
    """The files of --to, without the word that asks for a VTK file."""
    return [word for word in typed.get("to", ()) if word != VTK]


def _one_way(typed: dict[str, Any]) -> None:
    ways = _ways(typed)
    for name in ways[1:]:
        raise InputError(f"{flag(ways[0])} and {flag(name)} exclude each other.")


def _flags_of_the_way(typed: dict[str, Any]) -> None:
    """Flags of directions do not belong to a grid, a trajectory or a Hessian."""
    ways = _ways(typed)
    if not ways:
        return

    unused = {
        "along": ("fix", "exclude", "page", "quantity"),
        "grid": (),
        "hessian": ("page", "quantity", "trajectory", "trajectory_points", "no_test"),
    }
    of_directions = ("directions", "range", "scales", "normalization", "to")
    for name in (*of_directions, *unused[ways[0]]):
        only_vtk = name == "to" and ways == ["grid"] and not _other_points(typed)
        if name in typed and not only_vtk:
            raise InputError(f"{flag(name)} does not apply with {flag(ways[0])}.")


def _normalization(typed: dict[str, Any]) -> None:
    if "normalization" in typed and not typed.get("directions", "random").startswith("random"):
        raise InputError(
            "--normalization applies only to random directions.",
            typed["directions"],
            "--directions random",
        )


def _trajectory_points(typed: dict[str, Any]) -> None:
    of_grid = _ways(typed) == ["grid"]
    if "trajectory_points" in typed and of_grid and "trajectory" not in typed:
        raise InputError(
            "--trajectory-points applies only with a trajectory.",
            expected="--trajectory RUN with --grid",
        )


def _quantity(typed: dict[str, Any]) -> None:
    is_drawn = "no_figures" not in typed or "page" in typed or VTK in typed.get("to", ())
    if "quantity" in typed and not is_drawn:
        raise InputError(
            "--quantity applies only to figures, but --no-figures draws none.",
            expected="one of them",
        )


def _probes(typed: dict[str, Any]) -> None:
    if "probes" in typed and not {"trace", "density"} & {*typed.get("hessian", "").split(",")}:
        raise InputError(
            "--probes applies only to --hessian trace or density.",
            expected="--hessian trace --probes 64",
        )


def _source(typed: dict[str, Any]) -> None:
    if not {"run", "data", "potential"} & {*typed}:
        raise InputError(
            "tati-landscape needs a run folder or --data.", expected="tati-landscape RUN [options]"
        )


def _a_center(typed: dict[str, Any]) -> None:
    if not {"run", "parameters", "model"} & {*typed} and typed.get("centre") != "zero":
        raise InputError(
            "The landscape has no center.",
            expected="a run folder, --parameters FILE, --model FILE.keras, or --centre zero",
        )


def _center_of_a_run(typed: dict[str, Any]) -> None:
    away = "parameters" in typed or ("run" not in typed and typed.get("centre") != "zero")
    refuse_if(
        "centre" in typed and away,
        "--centre needs RUN.",
        typed.get("centre"),
        "RUN, no --parameters; or zero",
    )


def _words_of_the_hessian(typed: dict[str, Any]) -> None:
    if not typed.get("hessian"):
        return
    for word in typed["hessian"].split(","):
        if word not in HESSIAN:
            raise InputError(
                f"--hessian has an unknown word.{nearest(word, HESSIAN)}", word, ", ".join(HESSIAN)
            )


def _points_between(typed: dict[str, Any]) -> None:
    others = _other_points(typed)
    if others and typed.get("directions") != "between":
        raise InputError(
            "--to applies only with --directions between.",
            others[0],
            f"--to {VTK}, or --directions between",
        )
    if typed.get("directions") == "between" and len(others) not in (1, 2):
        raise InputError(
            "--directions between needs one or two other points.", expected="--to FILE [FILE]"
        )


CHECKS = (
    _one_way,
    _flags_of_the_way,
    _normalization,
    _trajectory_points,
    _quantity,
    _probes,
    _source,
    _a_center,
    _center_of_a_run,
    _words_of_the_hessian,
    _points_between,
)
"""What the flags have to fulfil, in the order in which it is said."""


def _system(typed: dict[str, Any], flags: dict[str, Any]) -> Any:
    from tati_re.landscape.request import simulation_of
    from tati_re.simulation.simulation import Simulation

    values = options_from_flags(flags).values_of(flags)
    values.pop("batch_size", None)
    if "run" in typed:
        if "data" not in typed:
            values.pop(
                "seed", None
            )  # of directions and probes; the run's own says which examples are for testing
        return simulation_of(typed["run"], trust="trust" in typed, **values)
    return Simulation(verbose=0, **values)


def _centre(typed: dict[str, Any], sim: Any, walker: int | None) -> tuple[Any, str]:
    import numpy as np

    from tati_re.landscape.request import centre_of
    from tati_re.runs.parameters import read_parameters

    if "parameters" in typed:
        step = arguments.integer_of(typed, "parameters_step")
        parameters = read_parameters(typed["parameters"], step, names=sim.parameter_names())
        row = 0 if walker is None else walker
        if row >= len(parameters.positions):
            raise InputError(
                "--walker: the walker does not exist.", row, f"0 to {len(parameters.positions) - 1}"
            )
        return parameters.positions[row], parameters.source
    if typed.get("centre") == "zero":
        return np.zeros(sim.num_parameters()), "zero"
    if "run" in typed:
        return centre_of(typed["run"], typed.get("centre", "auto"), walker)
    return np.asarray(sim.parameters, np.float64), f"{typed['model']}"


def _say_hessian(
    typed: dict[str, Any], surface: Any, centre: Any, free: Any, folder: Path
) -> list[str]:
    """Prints the curvature at the center and writes it to hessian.csv."""
    import numpy as np
    import pandas

    from tati_re.landscape import hessian_density, hessian_eigenpairs, hessian_matrix, hessian_trace
    from tati_re.plotting.landscape import plot_spectrum_of_hessian
    from tati_re.runs.csv_table import frame_text
    from tati_re.runs.storage import replacing, write_whole

    words = typed["hessian"].split(",")
    seed = typed["seed"]
    rows = []
    files = []
    extremes = None
    if "full" in words:
        matrix = hessian_matrix(surface, centre, free)
        with replacing(folder / "hessian.npy") as file:
            np.save(file, matrix)
        files.append("hessian.npy")
        extremes = np.linalg.eigvalsh(matrix)[::-1]
        rows += [("eigenvalue", number + 1, value, 0.0) for number, value in enumerate(extremes)]
        rows.append(("trace", 0, float(np.trace(matrix)), 0.0))
    if "extremes" in words and "full" not in words:
        pairs = hessian_eigenpairs(surface, centre, 5, 5, free, seed)
        extremes = pairs.values
        numbers = [
            number + 1 if number < 5 else number - len(extremes) for number in range(len(extremes))
        ]
        rows += [
            ("eigenvalue", *row) for row in zip(numbers, pairs.values, pairs.residuals, strict=True)
        ]
    if "trace" in words and "full" not in words:
        trace = hessian_trace(
            surface, centre, arguments.integer_of(typed, "probes", 64, 2), free, seed
        )
        rows.append(("trace", 0, trace.value, trace.standard_error))
    if "density" in words:
        probes = arguments.integer_of(typed, "probes", 8, 1)
        density = hessian_density(surface, centre, probes, DENSITY_STEPS, free, seed)
        width = max(float(np.ptp(density.nodes)) / 150, 1e-12)
        grid = np.linspace(density.nodes.min() - 4 * width, density.nodes.max() + 4 * width, 1001)
        write_whole(
            folder / "density.csv",
            frame_text({"eigenvalue": grid, "density": density.on(grid, width)}),
        )
        files.append("density.csv")
        rows.append(("part_below_zero", 0, *density.share(-np.inf, 0.0)))
        if "no_figures" not in typed:
            plot_spectrum_of_hessian(density, folder / "density.png", extremes, width)
            files.append("density.png")
    frame = pandas.DataFrame(rows, columns=["quantity", "number", "value", "error"])
    if len(frame):
        write_whole(folder / "hessian.csv", frame_text(frame))
        files.insert(0, "hessian.csv")
    if "quiet" not in typed:
        print(
            frame.head(20).to_string(
                index=False, float_format=lambda value: f"{value:.6g}", na_rep=""
            )
        )
    return files


def _draw(typed: dict[str, Any], landscape: Any, folder: Path) -> list[str]:
    from tati_re.plotting.landscape import plot_landscape
    from tati_re.plotting.landscape_files import write_landscape_page, write_vtk

    written: list[str] = []
    axes = len(landscape.names)
    quantity = typed.get("quantity")
    if "no_figures" not in typed and axes <= 2:
        plot_landscape(landscape, folder / "landscape.png", quantity=quantity)
        written.append("landscape.png")
        if axes == 2:
            plot_landscape(landscape, folder / "surface.png", "surface", quantity)
            written.append("surface.png")
    if "page" in typed:
        write_landscape_page(landscape, folder / "landscape.html", quantity or "ln_excess_loss")
        written.append("landscape.html")
    if VTK in typed.get("to", ()):
        written += write_vtk(landscape, folder, quantity)
    return written


def _body(argv: list[str]) -> None:
    if scans(argv):
        return sample_as_tati(argv)
    typed = parser_of_command().parse(argv)
    _check(typed)
    flags = {name: value for name, value in typed.items() if name in OPTIONS and name not in OWN}
    typed["seed"] = options_from_flags(flags).seed  # refused before anything is loaded
    arguments.loading(not typed.get("quiet"))
    place = arguments.output_folder(typed.get("output"), "landscape")
    with arguments.flags_named(OWN), place as folder, stopping(arguments.requeue_signal_of(typed)):
        _look(typed, flags, folder)


@dataclass(frozen=True)
class _View:
    """A point of a potential, and where to look from it.

    Attributes:
        typed: The flags as they were typed.
        folder: Where the tables go.
        sim: The simulation.
        surface: Its potential.
        centre: The point, `(parameters,)`.
        mask: The parameters that stay there, `(parameters,)`.
        walker: The walker that was asked for, if any.
        trajectory: Stored positions of the run, or none.
        words: What is noted about them.
    """

    typed: dict[str, Any]
    folder: Path
    sim: Any
    surface: Any
    centre: Any
    mask: Any
    walker: int | None
    trajectory: list[Any]
    words: dict[str, Any]

    @property
    def overwrite(self) -> bool:
        return "overwrite" in self.typed

    @property
    def quiet(self) -> bool:
        return "quiet" in self.typed

    @property
    def free(self) -> Any:
        """The parameters that may move, `(parameters,)`; None: all."""
        return ~self.mask if self.mask.any() else None


def _look(typed: dict[str, Any], flags: dict[str, Any], folder: Path) -> None:
    """Looks around a point, in the way that was asked for, and says what was written."""
    view = _view(typed, flags, folder)
    if typed.get("hessian"):
        written = _curvature(view)
    elif typed.get("along"):
        written = _along(view)
    else:
        written = _plane(view)
    if not view.quiet:
        print(f"written to {folder}: {', '.join(written)}")


def _view(typed: dict[str, Any], flags: dict[str, Any], folder: Path) -> _View:
    """The point and its surroundings; says which they are."""
    import numpy as np

    from tati_re.landscape import Surface
    from tati_re.landscape.request import fixed

    sim = _system(typed, flags)
    walker = arguments.integer_of(typed, "walker")
    centre, source = _centre(typed, sim, walker)
    batch_size = None
    if "batch_size" in flags:
        batch_size = options_from_flags({"batch_size": flags["batch_size"]}).batch_size

    has_test = sim.dataset.test_inputs is not None
    test = has_test and "no_test" not in typed and not typed.get("hessian")
    surface = Surface(sim, batch_size=batch_size, test=test)
    mask, values = fixed(surface.parameter_names, typed.get("fix", ()), typed.get("exclude", ()))
    centre = np.array(centre, np.float64)
    centre[list(values)] = list(values.values())

    words = {
        "run": os.path.relpath(typed["run"], folder) if "run" in typed else None,
        "centre": source,
        "data": sim.dataset.name,
        "examples": batch_size or sim.dataset.num_examples,
    }
    if "quiet" not in typed:
        examples = sim.dataset.name
        if sim.system.has_data:
            examples = f"{words['examples']:,} examples of {sim.dataset.name}"
        print(f"{surface.num_parameters} parameters, {examples}; centre: {source}")

    return _View(
        typed=typed,
        folder=folder,
        sim=sim,
        surface=surface,
        centre=centre,
        mask=mask,
        walker=walker,
        trajectory=_trajectory(typed, sim, walker),
        words=words,
    )


def _curvature(view: _View) -> list[str]:
    """Writes the curvature at the center."""
    from tati_re.landscape.tables import digest, prepare
    from tati_re.runs.lock import writing

    eigenvalues = view.typed["hessian"]
    about = {"schema_version": 1, **view.words, "hessian": eigenvalues}
    about["digest"] = digest([view.surface.identity, view.centre, view.mask, eigenvalues])
    with writing(view.folder):
        prepare(view.folder, about, view.overwrite)
        return _say_hessian(view.typed, view.surface, view.centre, view.free, view.folder)


def _along(view: _View) -> list[str]:
    """Writes the loss at the stored positions of the run."""
    from tati_re.landscape import along

    refuse_if(not view.trajectory, "--along needs a run with a trajectory.")
    frame = along(
        view.surface,
        view.trajectory,
        output=view.folder,
        overwrite=view.overwrite,
        description=view.words,
    )
    if not view.quiet:
        print(
            frame.describe()
            .loc[["min", "mean", "max"]]
            .to_string(float_format=lambda value: f"{value:.6g}")
        )
    return ["trajectory.csv"]


def _plane(view: _View) -> list[str]:
    """Writes and draws the loss along directions, or over a grid of parameters."""
    from tati_re import landscape as module
    from tati_re.landscape.request import named_axes

    typed = view.typed
    names = None
    ranges: Any = typed.get("range", "-1:1:41").split(",")
    if typed.get("grid"):
        directions, ranges, names = named_axes(view.surface.parameter_names, typed["grid"])
        labels = [f"parameter {name}" for name in names]
    else:
        directions, labels = _directions(view)
    _check_directions(view, len(directions))
    directions = module.project_out(directions, view.mask)
    if not view.quiet:
        for number, sentence in enumerate(labels):
            print(f"c{number}: {sentence}")

    landscape = module.scan(
        view.surface,
        view.centre,
        directions,
        ranges,
        module.parse_scales(typed.get("scales", "0")),
        trajectory=view.trajectory or None,
        names=names,
        output=view.folder,
        overwrite=view.overwrite,
        description={**view.words, "axes": labels},
        progress=None if view.quiet else _progress,
    )
    written = ["landscape.csv"]
    if view.trajectory:
        written.append("trajectory.csv")
    written += _draw(typed, landscape, view.folder)
    if not view.quiet:
        print(f"lowest loss L0 {landscape.lowest:.6g}")
    return written


def _directions(view: _View) -> tuple[Any, list[str]]:
    """The directions that were asked for, with a sentence about each."""
    import numpy as np

    from tati_re.landscape.request import directions_of
    from tati_re.launch.run import load
    from tati_re.runs.parameters import read_parameters

    typed = view.typed
    named = typed.get("trajectory", "none")
    named = typed.get("run") if named == "none" else named
    run = None if named is None else load(named)
    positions = None
    if view.trajectory:
        positions = np.stack([point.parameters for point in view.trajectory])
    known = view.sim.parameter_names()
    others = [read_parameters(file, names=known).positions[0] for file in _other_points(typed)]

    return directions_of(
        typed.get("directions", "random"),
        view.surface,
        view.centre,
        run=run,
        positions=positions,
        others=others,
        free=view.free,
        normalization=typed.get("normalization", "filter"),
        seed=typed["seed"],
        walker=view.walker,
    )


def _check_directions(view: _View, number: int) -> None:
    """Refuses files and columns that so many directions do not have."""
    from tati_re.landscape.tables import EXCESS

    typed = view.typed
    refuse_if(
        "page" in typed and number != 2,
        "--page needs a plane.",
        f"{number} direction(s)",
        "two directions",
    )
    refuse_if(
        VTK in typed.get("to", ()) and number not in (2, 3),
        "--to vtk: a VTK file has two or three coordinates.",
        number,
    )
    known = (*view.surface.columns, EXCESS)
    drawn = typed.get("quantity", known[0])
    refuse_if(
        drawn not in known, "--quantity is not a column of the table.", drawn, ", ".join(known)
    )


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        print(
            f"\r{done:,} of {total:,} points",
            end="\n" if done == total else "",
            file=sys.stderr,
            flush=True,
        )


def _trajectory(typed: dict[str, Any], sim: Any, walker: int | None) -> list[Any]:
    """Stored positions of the run; none if it has none and they were not asked for."""
    from tati_re.landscape import path_of
    from tati_re.launch.run import load
    from tati_re.runs.positions import stored_positions

    named = typed.get("trajectory", typed.get("run", "none"))
    most = arguments.integer_of(typed, "trajectory_points", 500, 1)
    if named == "none" or (typed.get("grid") and "trajectory" not in typed) or typed.get("hessian"):
        return []
    run = load(named)
    other = run.manifest.parameters.all_names() != list(sim.parameter_names())
    refuse_if(
        other,
        "--trajectory is a run of another model.",
        named,
        f"one of {sim.num_parameters()} parameters",
    )
    try:
        stored = next(stored_positions(run), None) is not None
    except InputError:
        stored = "trajectory" in typed or "along" in typed  # the sentence is path_of's
    return path_of(run, most, walker) if stored else []


main = arguments.entry_point("tati-landscape", _body, __name__, writes_files=True)
