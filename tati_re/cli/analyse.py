"""`tati-analyse`: tables and figures of a run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tati_re.cli.arguments import Parser, entry_point, flags_named, loading, number_typed
from tati_re.cli.tati_analyser import analyse_as_tati, analyses
from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.user_warnings import warn_user
from tati_re.options.flags import flag

if TYPE_CHECKING:
    from tati_re.launch.run import Run
    from tati_re.report.modules import Choices, Result

MODULES = {
    "averages": "means with errors, effective sample sizes, R-hat, autocorrelation times",
    "parameters": "mean and standard deviation of each parameter",
    "covariance": "leading eigenpairs of the covariance, with autocorrelation times along them",
    "diffusion_map": "slowest motions of the stored positions, and landmarks",
    "free_energy": "along a coordinate (--along), with error bars",
    "alignment": "hidden units of each walker matched to the first walker; R-hat of the weights "
    "before and after",
    "learning_coefficient": "local learning coefficient of a tethered run, corrected for the tether, and its "
    "curve along a ladder",
    "reweighting": "averages at other temperatures, by MBAR over all rungs",
    "temperatures": "kinetic and configurational temperature of each tensor, layer or kind, with their bands",
}
TO = ("csv", "parquet", "arviz")
WORDS = {
    "by": ("all", "walker", "rung"),
    "groups": ("tensor", "layer", "kind"),
    "method": ("histogram", "kernel"),
}
NUMBERS = {
    "burnin": (0, "steps to exclude; default: the run's own burn-in"),
    "thin": (1, "keep every N-th row and position; default 1"),
    "num_eigenpairs": (1, "covariance: number of eigenpairs; default 16"),
    "num_eigenvectors": (1, "diffusion_map: number of eigenvectors; default 4"),
    "num_points": (10, "diffusion_map: maximum number of positions, evenly spaced; default 2000"),
    "num_landmarks": (1, "diffusion_map: number of landmarks, points far apart; default 5"),
    "num_bins": (2, "free_energy: number of bins, or of points of the kernel estimate; default 40"),
}
OWN: dict[str, tuple[Any, str]] = {
    "modules": (
        ("MODULE",),
        "modules, listed below; default: the figures of a first look for which the run has data",
    ),
    "what": (("MODULE",), "the old name of --modules; will be removed"),
    "by": ("WORD", "by all walkers together, by walker, or by rung; default all"),
    "observables": (("NAME",), "columns of run.csv; default those that vary"),
    **{name: ("N", text) for name, (_, text) in NUMBERS.items()},
    "groups": ("WORD", "temperatures: by tensor, layer or kind; default tensor"),
    "along": (
        "NAME",
        "free_energy: a column of run.csv, a parameter, covariance:1 or diffusion:1; default potential",
    ),
    "method": ("WORD", "free_energy: histogram or kernel; default histogram"),
    "bandwidth": ("X", "diffusion_map: bgh, median, or a number; default bgh"),
    "alpha": ("X", "diffusion_map: its normalization, 0 to 1; default 0.5"),
    "target_measure": (
        None,
        "diffusion_map: weight points by exp(-U/T), whatever their sampling density",
    ),
    "temperatures": (
        ("T",),
        "reweighting: temperatures T of exp(-U/T); default: the ladder's and two between neighbors",
    ),
    "lowest_loss": (
        "X",
        "learning_coefficient: mean loss at the minimum; default: at the center of the tether",
    ),
    "to": ("FORMAT", "csv, parquet, or arviz (a NetCDF file); default csv"),
    "output": ("DIR", "folder for tables and figures; default RUN/analysis"),
    "no_figures": (None, "tables only"),
}
_MOST_ROWS = 24


def parser_of_command() -> Parser:
    parser = Parser(
        prog="tati-analyse",
        usage="tati-analyse RUN [RUN ...] [options]",
        description="Analyse runs: print tables, and write them with figures to the folder analysis "
        "of each run.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="modules:\n" + "\n".join(f"  {name:<20} {text}" for name, text in MODULES.items()),
    )
    parser.add_argument("runs", nargs="*", metavar="RUN", help="run folders; runs in progress too")
    parser.add_table(OWN)
    return parser


def _one_of(name: str, value: str, known: Sequence[str]) -> str:
    refuse_if(
        value not in known,
        f"{flag(name)} has an unknown value.{nearest(value, known)}",
        value,
        ", ".join(known),
    )
    return value


def _choices(typed: dict[str, Any]) -> Choices:
    from tati_re.report.modules import Choices

    choices: dict[str, Any] = {"observables": tuple(typed.get("observables", ()))}
    choices |= {
        name: number_typed(name, typed[name], least=low)
        for name, (low, _) in NUMBERS.items()
        if name in typed
    }
    choices |= {name: typed[name] for name in ("along", "target_measure") if name in typed}
    choices |= {
        name: number_typed(name, typed[name], float)
        for name in ("alpha", "lowest_loss")
        if name in typed
    }
    if "bandwidth" in typed:
        rule = typed["bandwidth"]
        choices["bandwidth"] = (
            rule if rule in ("bgh", "median") else number_typed("bandwidth", rule, float)
        )
    if "temperatures" in typed:
        choices["temperatures"] = tuple(
            number_typed("temperatures", text, float) for text in typed["temperatures"]
        )
    choices |= {
        name: _one_of(name, typed[name], known) for name, known in WORDS.items() if name in typed
    }
    return Choices(**choices)


def _show(name: str, result: Result) -> None:
    from tati_re.analysis.format import marked

    if result.problem:
        print(f"\n{name}", *result.sentences, sep="\n")
        return
    table = result.table
    printed, footnotes = marked(table.head(_MOST_ROWS))
    print(f"\n{name}")
    for sentence in result.sentences:
        print(sentence)
    print(printed.to_string(index=False, float_format=lambda value: f"{value:.5g}", na_rep=""))
    if len(table) > len(printed):
        print(f"... {len(table) - len(printed):,} more rows in the file")
    print(*footnotes, sep="\n", end="\n" if footnotes else "")


def _analyse(
    run: Run, names: list[str], typed: dict[str, Any], choices: Choices, folder: Path
) -> dict[str, Result]:
    from tati_re.prediction.arviz import write_arviz
    from tati_re.report.modules import result_or_problem, write_result
    from tati_re.runs.storage import made

    quiet = typed.get("quiet", False)
    to = typed.get("to", "csv")
    if not quiet:
        print(run.summary())
    made(folder)
    written = (
        [write_arviz(run, folder / "arviz.nc", choices.burnin, choices.thin).name]
        if to == "arviz"
        else []
    )
    results = {}
    for name in names:
        results[name] = result = result_or_problem(run, name, choices)
        if not quiet:
            _show(name, result)
        elif result.problem:
            warn_user(f"{name}: {result.problem}")
        written += write_result(
            name, result, folder, "csv" if to == "arviz" else to, "no_figures" not in typed
        )
    if not quiet and written:
        print(f"\nwritten to {folder}: {', '.join(written)}")
    return results


def _compare(results: dict[str, dict[str, Result]], typed: dict[str, Any]) -> None:
    spectra = {
        name: result["covariance"].table
        for name, result in results.items()
        if "covariance" in result and not result["covariance"].problem
    }
    if (
        len(spectra) < 2
        or "output" not in typed
        or "no_figures" in typed
        or typed.get("by", "all") != "all"
    ):
        return
    from tati_re.plotting.analysis import plot_spectrum

    path = Path(typed["output"]) / "spectra.png"
    plot_spectrum(spectra, path)
    if not typed.get("quiet"):
        print(f"\nspectra of all runs: {path}")


def _rename_what(typed: dict[str, Any]) -> None:
    """Takes `--what`, the old name of `--modules`, with a warning."""
    if "what" not in typed:
        return
    refuse_if(
        "modules" in typed, "Give --modules once: --what means the same.", expected="--modules only"
    )
    warn_user("Use --modules: its old name --what will be removed.", FutureWarning)
    typed["modules"] = typed.pop("what")


def _body(argv: list[str]) -> None:
    if analyses(argv):
        return analyse_as_tati(argv)
    typed = parser_of_command().parse(argv)
    refuse_if(
        not typed.get("runs"),
        "tati-analyse needs a run folder.",
        expected="tati-analyse RUN [RUN ...]",
    )
    _rename_what(typed)
    if "modules" in typed:
        typed["modules"] = [
            _one_of("modules", name.replace("-", "_"), list(MODULES)) for name in typed["modules"]
        ]
    _one_of("to", typed.get("to", "csv"), TO)
    loading(not typed.get("quiet"), f"Reading {', '.join(typed['runs'])}")
    from tati_re.launch.run import load
    from tati_re.report.modules import modules_of, raise_problem, refuse_idle
    from tati_re.runs import files
    from tati_re.runs.lock import writing

    choices = _choices(typed)
    runs = [load(folder) for folder in typed["runs"]]
    arviz = ["arviz"] if typed.get("to") == "arviz" else []
    modules_by_run = [
        typed.get("modules") or ([] if arviz else modules_of(run, choices.burnin)) for run in runs
    ]
    refuse_idle(typed, list(dict.fromkeys(sum(modules_by_run, arviz))), flag)
    names = [run.folder.resolve().name for run in runs]
    if "output" in typed and len(set(names)) < len(names):
        raise InputError(
            "--output: two runs have the same name.",
            ", ".join(names),
            "runs with different names",
        )
    results = {}
    for run, name, modules in zip(runs, names, modules_by_run, strict=True):
        folder = run.folder / files.ANALYSIS
        if "output" in typed:
            folder = Path(typed["output"]) / name if len(runs) > 1 else Path(typed["output"])
        with writing(folder), flags_named((*NUMBERS, "alpha", "bandwidth")):
            results[name] = _analyse(run, modules, typed, choices, folder)
    _compare(results, typed)
    for of_run in results.values():
        with flags_named((*NUMBERS, "alpha", "bandwidth")):
            raise_problem(of_run, typed.get("modules", ()), typed)


main = entry_point("tati-analyse", _body, __name__, writes_files=True)
