"""The manifest of a run as TOML: method, data, options and versions."""

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from tati_re.core.errors import AnyPath, InputError, nearest, pasted
from tati_re.core.files.regular import check_regular
from tati_re.core.files.structured import read_toml_file
from tati_re.core.files.typed_tables import (
    Count,
    FiniteNumber,
    Reader,
    WrongValue,
    entry_of,
    reader_of,
    refuse_wrong_value,
    whole_table,
)
from tati_re.core.process.interruption import in_command
from tati_re.options.make import make_options
from tati_re.options.table import OPTIONS
from tati_re.options.trust import outside_references
from tati_re.runs import checkpoint
from tati_re.runs.digests import lasting
from tati_re.runs.files import FILES, MANIFEST, MODEL
from tati_re.runs.manifest_entries import (
    BurninCut,
    CenteredEntry,
    ChoiceEntry,
    ConvergenceEntry,
    DataEntry,
    HeatingEntry,
    LastPositions,
    LossEntry,
    MethodEntry,
    OptionsEntry,
    ParametersEntry,
    PredictorEntry,
    PriorEntry,
    TeacherEntry,
    UntilEntry,
    WorkersEntry,
)
from tati_re.runs.storage import write_whole

SCHEMA_VERSION = 1
_SETTLED = (
    "batch_sampling",
    "execution",
    "num_steps",
    "trajectory_every",
)  # Options that each start settles anew.
_OF_DATA = ("standardize", "noise_std")
_ROUNDED = (
    "heteroscedastic_gaussian",
    "student_t",
    "laplace",
    "log_normal",
    "gamma",
    "beta",
    "censored_normal",
    "censored_log_normal",
    "censored_weibull",
)  # Losses with the option `rounding`.


@dataclass(frozen=True, eq=False)
class Manifest(Mapping[str, Any]):
    """What `manifest.toml` says: a field for each key.

    It is also the mapping of the file, `run.manifest["options"]["seed"]`, with the keys of other
    versions, which stay when the file is written again. Two are equal if their files are.

    Attributes:
        kind: `"sample"` or `"fit"`.
        given: Names of the options that were given. None: an earlier version did not say.
        objects: Names of what was given in Python, and is not in the folder.
        burnin_open: What had not settled when the burn-in ended. None: an earlier version did not
            say.
        table: The whole file.
    """

    schema_version: int = SCHEMA_VERSION
    kind: str = "sample"
    tati_re: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    options: OptionsEntry = field(default_factory=OptionsEntry)
    given: tuple[str, ...] | None = None
    unused: tuple[str, ...] = ()
    tables: Mapping[str, Any] = field(default_factory=dict)
    fewest_positions: Count = 0
    objects: tuple[str, ...] = ()
    observables: tuple[str, ...] = ()
    seed: Count | None = None
    call: Count = 1
    threads: int | None = None
    threads_between_operations: int | None = None
    workers: WorkersEntry | None = None
    execution: str = "graph"
    walker_evaluation: str = ""
    chunk_steps: int | None = None
    meaning: str = ""
    temperature: FiniteNumber | None = None
    method: MethodEntry = field(default_factory=MethodEntry)
    first_order: bool = False
    loss: LossEntry = field(default_factory=LossEntry)
    prior: PriorEntry = field(default_factory=PriorEntry)
    prior_proper: bool = True
    prior_walled: bool | None = None
    parameters: ParametersEntry = field(default_factory=ParametersEntry)
    dataset: DataEntry = field(default_factory=DataEntry)
    loss_at_center: float | None = None
    choice: ChoiceEntry | None = None
    teacher: TeacherEntry | None = None
    turn: Count | None = None
    burnin_found: str | None = None
    burnin_open: str | None = None
    burnin_cut: BurninCut | None = None
    last_positions: LastPositions | None = None
    predictor: PredictorEntry | None = None
    until: UntilEntry = field(default_factory=UntilEntry)
    convergence: ConvergenceEntry | None = None
    centered: CenteredEntry | None = None
    heating: HeatingEntry = field(default_factory=HeatingEntry)
    stopped: str | None = None
    failed_checks: tuple[str, ...] = ()
    table: Mapping[str, Any] = whole_table()

    @property
    def predicts_with_fits(self) -> bool:
        """Whether predictions average fits: they predict better than the draws, or there are no
        draws.
        """
        return self.prefers_fits or self.has_fits_alone

    @property
    def has_fits_alone(self) -> bool:
        """Whether the run predicts with its fits, as it has no draws."""
        return self.last_positions is not None and self.last_positions.of == "fits"

    @property
    def why_without_draws(self) -> str:
        """Why a run predicts with its fits alone, as the end of a sentence."""
        choice = self.choice
        if choice is not None and choice.trial_steps and not choice.trial_won:
            return "short chains predicted worse than the fits"
        return "max_time left no time for chains"

    @property
    def prefers_fits(self) -> bool:
        """Whether the run predicts with its fits, as they predict better than its draws."""
        return self.predictor is not None and self.predictor.uses == "fits"

    @property
    def mixes_fits(self) -> bool:
        """Whether the run predicts with its fits and its draws, which have half of the weight
        each.
        """
        return self.predictor is not None and self.predictor.uses == "both"

    @property
    def chose_fits(self) -> bool:
        """Whether the run predicts with its fits by choice, alone or with its draws."""
        return self.prefers_fits or self.mixes_fits

    @property
    def averaged(self) -> str:
        """What predictions average: `"draws"`, `"fits"`, or `"both"` with half of the weight each."""
        if self.mixes_fits:
            return "both"
        return "fits" if self.predicts_with_fits else "draws"

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Manifest":
        """The manifest of what a file says; `WrongValue` for a value that does not fit
        its key.
        """
        manifest = entry_of(cls, content)
        _check_options(manifest.options.table)
        _check_parameters(manifest.parameters)
        return manifest

    def __getitem__(self, key: str) -> Any:
        return self.table[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self.table)!r})"

    def __or__(self, entries: Mapping[str, Any]) -> "Manifest":
        """The manifest with other entries; one that is None is taken out."""
        changed = {**self.table, **entries}
        return Manifest.of(plain(changed, MANIFEST))

    @property
    def is_fit(self) -> bool:
        """Whether the run looked for a minimum."""
        return self.kind == "fit"

    @property
    def num_burnin_steps(self) -> int:
        """Steps of the burn-in, as given or as found; 0 for a fit."""
        return 0 if self.is_fit else self.options.num_burnin_steps or 0

    @property
    def sees_batches(self) -> bool:
        """Whether its steps see mini-batches."""
        options = self.options
        size = options.batch_size
        batch_is_all = size == self.dataset.num_examples
        return size is not None and (not batch_is_all or options.batch_sampling == "replacement")

    def is_explicit_option(self, option: str) -> bool:
        """Whether an option was given; False if an earlier version did not say."""
        return option in (self.given or ())


def _check_options(options: Mapping[str, Any]) -> None:
    """Refuses an option of another type than the table of options says."""
    for name, value in options.items():
        if name in OPTIONS:
            _reader_of_option(name)(value, f"options.{name}")


@cache
def _reader_of_option(name: str) -> Reader:
    return reader_of(OPTIONS[name].annotation)


def _check_parameters(parameters: ParametersEntry) -> None:
    """Refuses shapes of tensors that do not fit their names, or the number of parameters."""
    if not parameters.names and not parameters.shapes:
        return
    named = len(parameters.shapes) == len(parameters.names)
    size = sum(math.prod(shape) for shape in parameters.shapes)
    if not named or size != parameters.num:
        received = f"{len(parameters.shapes)} shapes of {size:,} parameters"
        expected = f"{len(parameters.names)} shapes of {parameters.num:,} parameters"
        raise WrongValue("parameters.shapes", received, expected)


def write(folder: AnyPath, content: Mapping[str, Any]) -> None:
    """Writes `manifest.toml` atomically, `schema_version` first.

    Args:
        folder: The run folder.
        content: Entries by key. TOML has no None: such entries are left out.
    """
    text = tomli_w.dumps(plain({"schema_version": SCHEMA_VERSION, **content}, MANIFEST))
    write_whole(Path(folder) / MANIFEST, text.encode())


def note(folder: AnyPath, **entries: Any) -> Manifest:
    """Writes entries of a manifest anew, and leaves the others as they are.

    Args:
        folder: The run folder.
        **entries: What the manifest says from now on, by key; None takes an entry out. Of
            `options`, only those that change.

    Returns:
        The manifest as it is now.
    """
    stored = read(folder)
    if "options" in entries:
        entries["options"] = {**stored.options.table, **entries["options"]}
    changed = stored | entries
    write(folder, changed)
    return changed


_OTHER_COMMANDS = {
    "landscape.toml": "tati-landscape",
    "inputspace.toml": "tati-inputspace",
    "exploration.toml": "tati-explore",
    "evidence.toml": "tati-evidence",
}
"""Files that commands leave in folders which are no run folders."""


def _not_a_run(folder: Path) -> InputError:
    """The error about a path that is given in place of a run folder."""
    expected = "a run folder of tati-sample or tati-optimize"
    if not folder.exists():
        beside = [entry.name for entry in folder.parent.iterdir()] if folder.parent.is_dir() else []
        return InputError(f"The run folder {folder} does not exist.{nearest(folder.name, beside)}")
    if not folder.is_dir():
        return InputError(f"{folder} is a file, not a run folder.", expected=expected)
    problem = f"The folder {folder} is not a run folder: it has no {MANIFEST}."
    for file, command in _OTHER_COMMANDS.items():
        if (folder / file).exists():
            return InputError(problem, f"a folder of {command}", expected)
    return InputError(problem)


def read(folder: AnyPath) -> Manifest:
    """Reads `manifest.toml`.

    Args:
        folder: The run folder.

    Returns:
        The manifest.

    Raises:
        InputError: The folder is not that of a run; the manifest is of a later version, has a
            wrong value, or lacks what the checkpoint knows of it.
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
            f"no schema_version next to {', '.join(list(content)[:3])}"
            if content
            else "an empty file"
        )
        raise InputError(
            f"The file {path} is not the manifest of a run.",
            received,
            "the file as the run wrote it",
        )
    if not isinstance(version, int) or not 1 <= version <= SCHEMA_VERSION:
        problem = f"The file {path} was written by another version of the package."
        raise InputError(
            problem, f"schema_version = {version}", f"schema_version = {SCHEMA_VERSION}"
        )
    try:
        manifest = Manifest.of(content)
    except WrongValue as error:
        raise refuse_wrong_value(error, path) from None
    known = _known(folder)
    if lost := min(known.keys() - lasting(content) - content.keys(), default=None):
        raise InputError(
            f"The file {path} is incomplete: {lost.removeprefix('options.')} is missing.",
            expected=known[lost],
        )
    return manifest


def _known(folder: AnyPath) -> dict[str, str]:
    return next((meta["manifest"] for meta in checkpoint.metas(folder) if "manifest" in meta), {})


def changes(folder: AnyPath, content: Mapping[str, Any]) -> list[str]:
    """Sentences on what a manifest says now and its checkpoint does not.

    A user who edits a manifest intends the change; a disk that damages it does not.

    Args:
        folder: The run folder, whose newest checkpoint knows the earlier entries.
        content: The manifest as it is now.

    Returns:
        One sentence per changed entry; none if no checkpoint knows the manifest.
    """
    known = _known(folder)
    entries = lasting(content) if known else {}
    return [
        f"{MANIFEST} was changed after its checkpoint: {name.removeprefix('options.')} = "
        f"{value} (before: {known.get(name, 'missing')})."
        for name, value in entries.items()
        if known.get(name) != value and name != "workers"  # a resume may have other ones
    ]


def explicit_options(manifest: Manifest) -> dict[str, Any]:
    """The options that a run was given: more than the same values by default, for which a rule may
    have no use; and those that it had by default, or found by itself, where the default is
    another.
    """
    options = manifest.options.table
    had = {
        name
        for name, option in OPTIONS.items()
        if name in options and options[name] != option.default
    }
    had -= {*_SETTLED, *(_OF_DATA if manifest.dataset.potential else ())}
    had |= (
        {"prior"} & {*options} if manifest.options.potential == "mean_loss" else set()
    )  # none by default, but not once
    had -= set() if manifest.loss.loss == "gaussian" else {"noise_std"}
    named = options if manifest.given is None else manifest.given
    explicit = {name: value for name, value in options.items() if name in had or name in named}
    scale = manifest.options.noise_prior_scale
    if manifest.loss.noise_std == "sampled" and scale is None:
        explicit["noise_prior_scale"] = "deviation"  # of runs from before it was 0.3 of it
    if manifest.loss.noise_std == "sampled" and "quantile_level" not in options:
        explicit["noise_std"] = "sampled"  # of runs from before several targets had a noise each
    if "rounding" not in options and manifest.loss.loss in _ROUNDED:
        explicit["rounding"] = "none"  # of runs from before a predicted spread had a bound
    return explicit


def counted_classes(manifest: Manifest) -> dict[str, int]:
    """The option `num_classes` with which labels are numbered as in a run whose loss was given.

    Such a run may be older than the names of integer labels: its classes are the numbers from 0 to
    the largest label. Without a given loss the outputs of its model say so.

    Args:
        manifest: The manifest of the run.
    """
    data = manifest.dataset
    options = manifest.options
    named = data.class_names is not None or data.places is not None
    has_loss = options.loss is not None or "loss" in manifest.objects
    counted = data.task == "classification" and not named and has_loss
    if not counted or options.num_classes is not None or data.num_classes is None:
        return {}
    return {"num_classes": data.num_classes}


def going_on(folder: Path, num_steps: int | None = None) -> str:
    """How to continue a run, as text that can be pasted.

    Args:
        folder: The run folder.
        num_steps: The last step. Default: as planned.

    Returns:
        A command if this process runs one and nothing must be given again as an object; else a
        call from Python.
    """
    stored = read(folder)
    stored_names = {"directions"} | ({"model"} if (folder / MODEL).exists() else set())
    trusts = bool(
        outside_references(make_options(explicit_options(stored)), folder).keys() - stored_names
    )
    again = [f"{name}=..." for name in sorted({*stored.objects} - stored_names)]
    steps = [] if num_steps is None else [str(num_steps)]
    trust = ["trust=True"] if trusts else []
    call = ", ".join([repr(os.fspath(folder)), *steps, *again, *trust])

    flags = " --trust" if trusts else ""
    flags += "".join(f" --num-steps {number}" for number in steps)
    if in_command() and not again:
        return f"tati-sample --resume {pasted(folder)}{flags}"
    return f"tati_re.Simulation.resume({call})"


def check_data(manifest: Manifest, dataset: Any, who: AnyPath) -> None:
    """Refuses data that differ from the data of a run.

    Args:
        manifest: The manifest of the run.
        dataset: The data set, with `fingerprint()` and `name`.
        who: The run folder, or the operation that needs the data, for the message.

    Raises:
        InputError: The fingerprints differ.
    """
    stored = manifest.dataset
    if dataset.fingerprint() != stored.fingerprint:
        differ = "the potential differs" if stored.potential else "the data differ"
        problem = f"{os.fspath(who)}: {differ} from the run's."
        raise InputError(problem, dataset.name, f"{stored.name}, unchanged")


def plain(value: Any, where: str) -> Any:
    """A value as TOML gives it back; `where` it is, for messages.

    Args:
        value: A value of an option or an entry.
        where: The name of the entry, for messages.

    Returns:
        The value with plain types: dicts, lists, text, numbers.
    """
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
