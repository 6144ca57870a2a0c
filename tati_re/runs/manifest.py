"""The manifest of a run as TOML: method, data, options and versions."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from tati_re.core.errors import AnyPath, InputError, nearest, pasted
from tati_re.core.regular import check_regular
from tati_re.core.structured import read_toml_file
from tati_re.options.make import make_options
from tati_re.options.table import OPTIONS
from tati_re.options.trust import asked_of
from tati_re.runs import checkpoint
from tati_re.runs.digests import lasting
from tati_re.runs.files import FILES, MANIFEST, MODEL
from tati_re.runs.storage import write_whole

SCHEMA_VERSION = 1
_SETTLED = (
    "batch_sampling",
    "execution",
    "num_steps",
    "trajectory_every",
)  # Options that each start settles anew.
_OF_DATA = ("standardize", "noise_std")


def write(folder: AnyPath, content: Mapping[str, Any]) -> None:
    """Writes `manifest.toml` atomically, `schema_version` first. TOML has no None: such keys are
    left out.
    """
    text = tomli_w.dumps(plain({"schema_version": SCHEMA_VERSION, **content}, MANIFEST))
    write_whole(Path(folder) / MANIFEST, text.encode())


_OTHER_COMMANDS = {
    "landscape.toml": "tati-landscape",
    "inputspace.toml": "tati-inputspace",
    "exploration.toml": "tati-explore",
    "evidence.toml": "tati-evidence",
}
"""Files that commands leave in folders which are no run folders."""


def _not_a_run(folder: Path) -> InputError:
    """The error about a path that is given in place of a run folder."""
    expected = "the folder of a run of tati-sample or tati-optimize"
    if not folder.exists():
        beside = [entry.name for entry in folder.parent.iterdir()] if folder.parent.is_dir() else []
        return InputError(f"There is no run folder {folder}.{nearest(folder.name, beside)}")
    if not folder.is_dir():
        return InputError(f"{folder} is a file, not the folder of a run.", expected=expected)
    what = f"The folder {folder} is not the folder of a run: it has no {MANIFEST}."
    for file, command in _OTHER_COMMANDS.items():
        if (folder / file).exists():
            return InputError(what, f"a folder of {command}", expected)
    return InputError(what)


def read(folder: AnyPath) -> dict[str, Any]:
    """The content of `manifest.toml`; refuses one of a later version, or that lacks what the
    checkpoint knows of it.
    """
    path = Path(folder) / MANIFEST
    try:
        content = read_toml_file(path)
        for file in FILES:
            check_regular(Path(folder) / file.name)
    except (FileNotFoundError, NotADirectoryError):
        raise _not_a_run(Path(folder)) from None
    version = content.get("schema_version")
    if version is None:
        received = (
            f"no schema_version beside {', '.join(list(content)[:3])}"
            if content
            else "an empty file"
        )
        raise InputError(
            f"The file {path} is not the manifest of a run.",
            received,
            "the file as the run wrote it",
        )
    if not isinstance(version, int) or not 1 <= version <= SCHEMA_VERSION:
        what = f"The file {path} was written by another version of the package."
        raise InputError(what, f"schema_version = {version}", f"schema_version = {SCHEMA_VERSION}")
    known = _known(folder)
    if lost := min(known.keys() - lasting(content) - content.keys(), default=None):
        raise InputError(
            f"The file {path} is cut: {lost.removeprefix('options.')} is missing.",
            expected=known[lost],
        )
    return content


def _known(folder: AnyPath) -> dict[str, str]:
    return next((meta["manifest"] for meta in checkpoint.metas(folder) if "manifest" in meta), {})


def changes(folder: AnyPath, content: Mapping[str, Any]) -> list[str]:
    """Sentences on what a manifest says now and its checkpoint does not: whoever edits it means it,
    a disk does not.
    """
    known = _known(folder)
    found = lasting(content) if known else {}
    return [
        f"{MANIFEST} was changed after its checkpoint: {name.removeprefix('options.')} = {value}, which was "
        f"{known.get(name, 'not there')}."
        for name, value in found.items()
        if known.get(name) != value and name != "workers"  # a resume may have other ones
    ]


def given_options(content: Mapping[str, Any]) -> dict[str, Any]:
    """The options that a run was given: more than the same values by default, for which a rule may
    have no use; and those that it had by default, or found by itself, where the default is
    another.
    """
    options = content["options"]
    had = {
        name
        for name, field in OPTIONS.items()
        if name in options and options[name] != field.default
    }
    had -= {*_SETTLED, *(_OF_DATA if content["dataset"].get("potential") else ())}
    had |= (
        {"prior"} & {*options} if options.get("potential") == "mean_loss" else set()
    )  # none by default, but not once
    had -= set() if content.get("loss", {}).get("loss") == "gaussian" else {"noise_std"}
    given = {
        name: value
        for name, value in options.items()
        if name in had or name in content.get("given", options)
    }
    if content.get("loss", {}).get("noise_std") == "sampled" and "noise_prior_scale" not in options:
        given["noise_prior_scale"] = "deviation"  # of runs from before it was 0.3 of it
    return given


def counted_classes(content: Mapping[str, Any]) -> dict[str, int]:
    """The option `num_classes` with which labels are numbered as in a run whose loss was given.

    Such a run may be older than the names of integer labels: its classes are the numbers from 0 to
    the largest label. Without a given loss the outputs of its model say so.

    Args:
        content: The manifest of the run.
    """
    data, options = content["dataset"], content["options"]
    numbered = data.get("task") == "classification" and not {"class_names", "places"} & {*data}
    given = "loss" in options or "loss" in content.get("objects", [])
    if not (numbered and given) or "num_classes" in options:
        return {}
    return {"num_classes": data["num_classes"]}


def going_on(folder: Path, num_steps: int | None = None) -> str:
    """How a run goes on: from Python, with what is to be given again, and by a command where
    nothing is.
    """
    said = read(folder)
    kept = {"directions"} | ({"model"} if (folder / MODEL).exists() else set())
    trusts = bool(asked_of(make_options(given_options(said)), folder).keys() - kept)
    again = [f"{name}=..." for name in sorted({*said.get("objects", [])} - kept)]
    steps = [] if num_steps is None else [str(num_steps)]
    trust = ["trust=True"] if trusts else []
    call = ", ".join([repr(os.fspath(folder)), *steps, *again, *trust])

    flags = " --trust" if trusts else ""
    flags += "".join(f" --num-steps {number}" for number in steps)
    command = "" if again else f"tati-sample --resume {pasted(folder)}{flags}, or "
    return f"{command}Simulation.resume({call})"


def check_data(content: Mapping[str, Any], dataset: Any, who: AnyPath) -> None:
    """Refuses data that are not those of the run with this manifest; `who` is the run, or what
    needs them.
    """
    if dataset.fingerprint() != content["dataset"]["fingerprint"]:
        potential = content["dataset"].get("potential")
        what = f"{os.fspath(who)}: {'the potential differs' if potential else 'the data differ'} from the run's."
        raise InputError(what, dataset.name, f"{content['dataset']['name']}, unchanged")


def plain(value: Any, where: str) -> Any:
    """A value as TOML gives it back; `where` it is, for messages."""
    if isinstance(value, Mapping):
        return {
            str(key): plain(item, f"{where}: {key}")
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item, where) for item in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (str, bool, int, float)):
        return value
    raise TypeError(f"{where} cannot hold a {type(value).__name__}")


def sees_batches(manifest: dict[str, Any]) -> bool:
    options = manifest.get("options", {})
    whole = manifest.get("dataset", {}).get("num_examples")
    size = options.get("batch_size")
    return size is not None and (size != whole or options.get("batch_sampling") == "replacement")
