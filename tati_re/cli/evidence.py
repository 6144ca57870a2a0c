"""`tati-evidence`: log Z of one or several models, by one or several methods."""

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tati_re.cli.arguments import Parser, entry_point, loading, make_parser, output_folder
from tati_re.cli.run import add_trust, refuse_trust, with_config
from tati_re.core.errors import InputError, pasted, refuse_if
from tati_re.core.files.structured import read_json_object
from tati_re.core.process.interruption import saying, stopping
from tati_re.distributed.jobs import SideBySide
from tati_re.options.flags import flag
from tati_re.options.make import EVIDENCE, OPTIONS, Options, to_toml
from tati_re.options.table import NOT_OF_EVIDENCE
from tati_re.options.trust import options_of_folder

if TYPE_CHECKING:
    import numpy as np

    from tati_re.data.dataset import Dataset

KEPT = "kept"
MODELS = "models.json"
BESIDE_RESUME = ("resume", "trust", "workers", "verbose", "quiet")


def _models(typed: dict[str, Any]) -> dict[str, Options]:
    files = typed.pop("compare", None)
    refuse_trust(typed)
    if files is None:
        return {"": with_config(typed)}
    refuse_if(
        "config" in typed,
        "--compare and --config both name files of options.",
        expected="one of the two",
    )
    refuse_if(
        len(files) < 2, "--compare needs several models.", " ".join(files), "two TOML files or more"
    )
    stems = [Path(file).stem for file in files]
    names = stems if len(set(stems)) == len(stems) else [str(file) for file in files]
    refuse_if(
        len(set(names)) < len(names),
        "--compare: a file appears twice.",
        " ".join(files),
        "different files",
    )
    return {
        name: with_config({**typed, "config": file})
        for name, file in zip(names, files, strict=True)
    }


def _of_folder(typed: dict[str, Any]) -> dict[str, Options]:
    for name in typed:
        expected = "with it only --workers, --verbose or --quiet"
        refuse_if(
            name not in BESIDE_RESUME,
            f"{flag(name)} cannot be changed by --resume.",
            expected=expected,
        )
    folder = typed.pop("resume")
    trust = typed.pop("trust", False)
    path = Path(folder) / KEPT / MODELS
    try:
        entries = read_json_object(path)
    except OSError:
        raise InputError(
            "--resume: this folder holds no evidence estimate.",
            folder,
            "the --output of an earlier call",
        ) from None
    for name, entry in entries.items():
        expected = "the file as originally written"
        refuse_if(
            not isinstance(entry, dict),
            f"{path} contains no options.",
            f"{name} = {entry}",
            expected,
        )
    now = with_config(typed)
    changed = now.values_of(name for name in ("verbose", "workers") if name in now.explicit)
    return {
        name: options_of_folder(
            {**entry, "output": folder}, folder, "--resume", trust=trust, **changed
        )
        for name, entry in entries.items()
    }


def _head(name: str) -> str:
    return f"{name.replace('/', '_')}-" if name else ""


def _jobs(models: dict[str, Options], folder: Path) -> list[tuple[Options, Path, str]]:
    """One for each model and each of its methods with energies of its own: what `sample_parts` is
    called with.
    """
    jobs: list[tuple[Options, Path, str]] = []
    for name, options in models.items():
        families = {
            method if method in ("smc", "frenkel_ladd") else "prior": method
            for method in options.method
        }
        folder_of = folder / KEPT / (_head(name) + "parts")
        jobs += [(options, folder_of, method) for method in families.values()]
    return jobs


def _begin(models: dict[str, Options], folder: Path) -> None:
    from tati_re.runs.storage import storing, write_whole

    parts_folder = folder / KEPT
    with storing(folder):
        parts_folder.mkdir(parents=True, exist_ok=True)
        for part in parts_folder.rglob("*.npz"):
            part.unlink()
    stored_options = {
        name: options.model_dump(mode="json", include=set(options.explicit))
        for name, options in models.items()
    }
    for name, options in models.items():
        write_whole(folder / f"{_head(name)}options.toml", to_toml(options, EVIDENCE).encode())
    write_whole(parts_folder / MODELS, json.dumps(stored_options, indent=1).encode())


def _check(models: dict[str, Options]) -> None:
    for name, options in models.items():
        if options.data is None and not options.is_target:
            raise InputError(
                f"{name}: --data is missing." if name else "--data is missing.",
                expected=OPTIONS["data"].description,
            )
    if len({str(options.data) for options in models.values()}) > 1:
        problem = (
            "--compare: the models have different data, so their evidences cannot be compared."
        )
        raise InputError(
            problem, " and ".join(str(options.data) for options in models.values()), "one data set"
        )
    if len({tuple(options.method) for options in models.values()}) > 1:
        raise InputError(
            "--compare: the models have different methods.", expected="--method, which goes for all"
        )
    jobs = len(_jobs(models, Path()))
    for options in models.values():
        problem = "--workers: more workers than independent estimates."
        refuse_if(
            (options.workers or 1) > jobs,
            problem,
            options.workers,
            f"1 to {jobs}, or more models or methods",
        )


def _labels(dataset: "Dataset") -> "np.ndarray":
    """The targets as the data have them, shape (n, columns), float64."""
    import numpy as np

    is_numbered = dataset.task == "classification"
    targets = dataset.as_labels(dataset.targets) if is_numbered else dataset.targets
    return np.asarray(targets, np.float64).reshape(len(targets), -1)


def _check_targets(sims: dict[str, Any]) -> None:
    """Refuses models of different targets, whose evidences cannot be compared."""
    targets = {_labels(sim.dataset).tobytes() for sim in sims.values() if sim.system.has_data}
    if len(targets) < 2:
        return
    received = ", ".join(
        f"{sim.dataset.num_examples} examples of {name}" for name, sim in sims.items()
    )
    expected = "the same examples: test_fraction, seed and label_columns must agree"
    problem = "--compare: the models have different training targets."
    raise InputError(problem, received, expected)


def _caution(has_density: dict[str, bool]) -> list[str]:
    """A line where some models have a density of the targets, and others probabilities.

    Args:
        has_density: Whether the evidence of a model is a density, by its name.
    """
    if len({*has_density.values()}) < 2:
        return []
    densities = ", ".join(name for name, is_density in has_density.items() if is_density)
    others = ", ".join(name for name, is_density in has_density.items() if not is_density)
    return [
        "",
        f"These factors compare densities of the targets ({densities}) with probabilities "
        f"({others}): they hold only where a density hardly changes between neighboring labels.",
    ]


def _report(models: dict[str, Options], folder: Path, resumed: bool) -> str:
    import pandas as pd

    from tati_re.analysis.format import SHORT
    from tati_re.evidence import bayes_factors
    from tati_re.evidence.methods import prepared, sample_parts
    from tati_re.launch.workers import check_gpus
    from tati_re.plotting.evidence import plot_evidence
    from tati_re.runs.csv_table import frame_text
    from tati_re.runs.storage import write_whole
    from tati_re.simulation.simulation import Simulation

    first = next(iter(models.values()))
    check_gpus(first)
    evidences = {}
    lines = []
    tables = []
    sims = {name: Simulation.from_options(options) for name, options in models.items()}
    _check_targets(sims)
    estimations = {name: prepared(sim) for name, sim in sims.items()}
    if not resumed:
        _begin(models, folder)
    for name, now in estimations.items():
        now.keep(folder / KEPT / (_head(name) + "parts"), overwrite=not resumed)
    has_density = {name: now.has_density for name, now in estimations.items()}
    if first.workers:
        team = SideBySide(
            lambda: lambda job: sample_parts(*job),
            first.workers,
            first.threads or 1,
            first.worker_gpus,
        )
        with closing(team):
            team.run(_jobs(models, folder), lambda *_: None)
    for name in models:
        evidences[name] = estimations.pop(name).estimates()
        tables.append(evidences[name].table.assign(model=name or "model"))
        lines += [*([f"{name}:"] if name else []), evidences[name].summary()]
    if len(models) > 1:
        factors = []
        for method in next(iter(models.values())).method:
            table = bayes_factors(
                {name: estimates[method] for name, estimates in evidences.items()}
            )
            factors.append(table.assign(method=method))
            lines += ["", f"log Bayes factors by {method.replace('_', ' ')}, the best model first:"]
            for row in table.to_dict("records"):
                mark = SHORT if row["short"] and row["factor_error"] else ""
                factor = f"{row['log_bayes_factor']:,.2f} ± {row['factor_error']:.2f}{mark}"
                lines.append(f"  {row['model']}  {factor}  probability {row['probability']:.3g}")
        lines += _caution(has_density)
    write_whole(folder / "evidence.csv", frame_text(pd.concat(tables)))
    if len(models) > 1:
        write_whole(folder / "bayes_factors.csv", frame_text(pd.concat(factors)))
    for name, estimates in evidences.items():
        for estimate in estimates:
            write_whole(folder / f"{_head(name)}{estimate.method}.csv", frame_text(estimate.curve))
    flat = [(name, estimate) for name, estimates in evidences.items() for estimate in estimates]
    labels = [f"{name} {estimate.method}".strip().replace("_", " ") for name, estimate in flat]
    plot_evidence([estimate for _, estimate in flat], folder / "evidence.png", labels)
    return "\n".join([*lines, f"tables and figure: {folder}"])


def _stopped(folder: Path) -> str:
    if not (folder / KEPT / MODELS).exists():
        return f"Interrupted before {folder} was created."
    parts = len([*(folder / KEPT).rglob("*.npz")])
    return (
        f"Interrupted: {parts} finished parts are kept in {folder}. Continue with: "
        f"tati-evidence --resume {pasted(folder)}"
    )


def parser_of_command() -> Parser:
    description = "Estimate log Z of a model, or compare models (--compare a.toml b.toml)."
    parser = make_parser("tati-evidence", description, EVIDENCE, NOT_OF_EVIDENCE)
    text = "TOML files of options, one model each, on the same data; flags override all of them"
    parser.add_argument("--compare", nargs="+", metavar="FILE", help=text)
    text = "folder of an earlier call to resume; only --workers, --verbose or --quiet may be added"
    parser.add_argument("--resume", metavar="DIR", help=text)
    add_trust(parser)
    return parser


def _body(argv: list[str]) -> int | None:
    typed = parser_of_command().parse(argv)
    resumed = "resume" in typed
    wants_config = typed.get("print_config") and not resumed
    changed = "changed" in typed
    models = _of_folder(typed) if resumed else _models(typed)
    if wants_config:
        print("\n".join(to_toml(options, EVIDENCE, changed) for options in models.values()), end="")
        return None
    _check(models)
    first = next(iter(models.values()))
    loading(first.verbose)
    from tati_re.runs.lock import entries, writing
    from tati_re.runs.storage import remove_leftovers

    with output_folder(first.output, "evidence") as folder, writing(folder):
        remove_leftovers(folder)
        is_occupied = folder.exists() and (not folder.is_dir() or entries(folder))
        if is_occupied and not first.overwrite and not resumed:
            raise InputError(
                "--output is not empty.", folder, "a new folder, --resume, or --overwrite"
            )
        with stopping(first.requeue_signal), saying(lambda: _stopped(folder)):
            text = _report(models, folder, resumed)
    if first.verbose > 0:
        print(text)
    return None


main = entry_point("tati-evidence", _body, __name__, writes_files=True)
