"""What the table in `options/table.py` makes: keyword arguments of the Python API, flags of all
commands, keys of TOML files, the help and the userguide's reference page (`python -m
tati_re.options > userguide/options.md`).
"""

import argparse
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from tati_re.core.errors import AnyPath, InputError, abbreviated, nearest
from tati_re.core.files.regular import regular_bytes
from tati_re.core.files.structured import MOST_TOML, reason_of, toml_of
from tati_re.core.front_door import front_door
from tati_re.options import tati_names as aliases
from tati_re.options.families import markdown_table as table_of_families
from tati_re.options.families import meaning
from tati_re.options.flags import (
    add_field,
    choices,
    default_text,
    expected,
    flag,
    markdown_table,
    optional,
    toml_line,
)
from tati_re.options.methods import flattened, option_set, table_of_methods, tables_with
from tati_re.options.patterns import is_table
from tati_re.options.presets import expanded
from tati_re.options.representable import is_deep, representable_range
from tati_re.options.stages import sentence as stage_sentence
from tati_re.options.table import COMMANDS_ONLY, GROUPS, OPTIONS, Options, group_of, options_of
from tati_re.options.table import EVIDENCE as EVIDENCE
from tati_re.options.table import OPTIMIZE as OPTIMIZE
from tati_re.options.table import SAMPLE as SAMPLE

ELSEWHERE = {
    "epochs": "num_steps counts steps; an epoch is N / batch_size steps.",
    "lr": "Use learning_rate for an optimizer, step_size for a sampler.",
    "batch": "Use batch_size.",
    **dict.fromkeys(("chains", "num_chains", "n_chains"), "Use num_walkers."),
    **dict.fromkeys(
        ("draws", "num_samples"),
        "num_steps counts all steps, trajectory_every thins the stored ones.",
    ),
    **dict.fromkeys(
        ("x", "X", "y", "x_train", "X_train", "y_train"), "Pass arrays as data=(x, y)."
    ),
    **dict.fromkeys(("tune", "warmup", "num_warmup", "burnin", "burn_in"), "Use num_burnin_steps."),
    "thin": "record_every thins the rows, trajectory_every the positions.",
    "validation_split": "Use test_fraction.",
    "random_seed": "Use seed.",
    "target_accept": "Use target_acceptance.",
    "weight_decay": "Use the prior: prior_std = sqrt(1 / weight_decay) for a summed loss.",
}
"""Words of Keras, PyMC, NumPyro, Stan and others, and what they are here."""


def unknown(name: str, spelled: str | None = None) -> InputError:
    """The error for a name that is not an option, with advice.

    Args:
        name: The name, in the spelling of Python.
        spelled: The name as it was typed, such as a flag. Default: None, `name`.
    """
    advice = f" {ELSEWHERE[name]}" if name in ELSEWHERE else nearest(name, OPTIONS)
    return InputError(f"{spelled or name} is not a known option.{advice}")


OUT_OF_RANGE = (
    "greater_than",
    "greater_than_equal",
    "less_than",
    "less_than_equal",
    "finite_number",
)


def _plain(value: Any) -> Any:
    """Paths as text, tuples and arrays as lists, NumPy numbers as Python numbers; anything else as
    it is.
    """
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [os.fspath(part) if isinstance(part, os.PathLike) else part for part in value]
    return value


def _sentence(
    error: ValidationError, spell: Callable[[str], str], values: Mapping[str, Any], text: bool
) -> InputError:
    """The first complaint of pydantic as one sentence in the user's words; `text` where values were
    typed.
    """
    first = error.errors(include_url=False)[0]
    if first["type"] == "two_temperatures":
        both = [f"{spell(name)} {values[name]}" for name in ("temperature", "inverse_temperature")]
        problem = f"{spell('temperature')} and {spell('inverse_temperature')} are two names for the same quantity."
        return InputError(problem, " and ".join(both), "one of the two")
    name = str(first["loc"][0])
    value = first["input"]
    if name == "stages" and len(first["loc"]) > 1:
        return stage_sentence(first, spell, OPTIONS)
    if first["type"] == "extra_forbidden":
        return unknown(name, spell(name))
    field = OPTIONS[name]
    received = (
        "none"
        if value is None
        else abbreviated(value, 77, str if text and isinstance(value, str) else repr)
    )
    names = choices(field)
    if first["type"] in OUT_OF_RANGE:
        problem = f"{spell(name)} is out of range."
    elif names and isinstance(value, str):
        problem = f"{spell(name)} has an unknown value.{nearest(value, names)}"
    else:
        problem = f"{spell(name)} has the wrong type."
    return InputError(problem, received or "nothing", expected(field))


def _checked(
    values: Mapping[str, Any],
    spell: Callable[[str], str] = str,
    strict: bool = True,
    text: bool = False,
) -> Options:
    _refuse_others(values, spell)
    plain = {name: _plain(value) if name in OPTIONS else None for name, value in values.items()}
    # What errors of pydantic cannot hold either; an empty text may stand where a number belongs.
    filled = {
        name: value for name, value in plain.items() if not (isinstance(value, str) and not value)
    }
    _check_representable(filled, spell)
    try:
        options = Options.model_validate(plain, strict=strict)
    except ValidationError as error:
        raise _sentence(error, spell, plain, text) from None
    dtype = "float64" if options.is_target and "dtype" not in options.explicit else options.dtype
    _check_representable(options.values_of(options.explicit), spell, dtype)
    return options


def _refuse_others(values: Mapping[str, Any], spell: Callable[[str], str]) -> None:
    """Refuses data frames, and other objects that have no truth and cannot be compared; lists that
    hold themselves, or are nested as deeply.
    """
    for name, value in values.items():
        if name not in OPTIONS:
            continue
        plain = _plain(value)
        received = f"a {type(value).__name__}"
        if not _is_comparable(plain):
            raise InputError(
                f"{spell(name)} has the wrong type.", received, expected(OPTIONS[name])
            )
        if is_deep(plain):
            problem = f"{spell(name)} is nested too deeply."
            raise InputError(problem, received, expected(OPTIONS[name]))


def _is_comparable(value: Any) -> bool:
    try:
        return bool(value == "") or bool(value) or True
    except Exception:  # whatever an object of others raises
        return False


def _check_representable(
    values: Mapping[str, Any], spell: Callable[[str], str], dtype: str | None = None
) -> None:
    for name, value in values.items():
        # Seconds, megabytes and fractions of the data enter no arithmetic in the precision of a
        # run.
        enters = name in OPTIONS and group_of(OPTIONS[name]) not in ("data", "run")
        if instead := representable_range(value, dtype if enters else None):
            received = abbreviated(value, 77, repr)
            raise InputError(
                f"{spell(name)} is out of range.", received, f"{expected(OPTIONS[name])}, {instead}"
            )


def _merged(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Both together; a temperature replaces the one before it, however written, and stages the
    number of steps.
    """
    merged = dict(values)
    for name, other in (
        ("temperature", "inverse_temperature"),
        ("inverse_temperature", "temperature"),
    ):
        if overrides.get(name) is not None and other not in overrides:
            merged.pop(other, None)
    if overrides.get("preset") is not None and "sampler" not in overrides:
        merged.pop("sampler", None)
    if _plain(overrides.get("stages")) and "num_steps" not in overrides:
        merged.pop("num_steps", None)
    return merged | dict(overrides)


def make_options(values: Mapping[str, Any] | Options | None = None, /, **overrides: Any) -> Options:
    """Creates checked options from a mapping or earlier options, overridden by keyword arguments.

    Args:
        values: Options by name, or earlier options. From earlier options, only those set explicitly
            are copied. Default: None.
        **overrides: Options by their name here or in TATi. `temperature` replaces
            `inverse_temperature`, and vice versa.

    Returns:
        The options. `.explicit` holds the names that were set.

    Raises:
        InputError: A name is unknown (the message suggests the closest one), a type is wrong, a
            value is out of range, or both temperatures are set.
    """
    _refuse_others(overrides, str)
    overrides = {name: _plain(value) for name, value in flattened(overrides).items()}
    if isinstance(values, Options):
        explicit = values.values_of(
            name for name in OPTIONS if name in values.explicit - values.derived
        )
        before = aliases.Translated(explicit, dict(values.tati), {})
    else:
        first = flattened(values or {})
        _refuse_others(first, str)
        before = aliases.translated({name: _plain(value) for name, value in first.items()})
    now = aliases.translated(overrides)
    merged = _merged(before.values, now.values)
    if merged.get("resume") is not None:
        raise InputError(
            "resume is a flag of the command, not an option.",
            merged["resume"],
            "Simulation.resume(folder)",
        )
    return _complete(
        merged,
        before.tati | now.tati,
        lambda name: now.typed.get(name, before.typed.get(name, name)),
    )


def _complete(
    merged: Mapping[str, Any],
    tati: Mapping[str, Any],
    spell: Callable[[str], str],
    text: bool = False,
) -> Options:
    """The checked options of values in the names of the table, with what follows from the names of
    TATi among them.
    """
    derived = aliases.completed(merged, tati)
    options = _checked(expanded({**merged, **derived}), spell, text=text)
    options._tati = dict(tati)
    options._derived = frozenset(derived)
    return options


def options_from_flags(
    flags: Mapping[str, Any], config: Mapping[str, Any] | None = None
) -> Options:
    """Makes checked options from flags as they were typed, on top of the values of a TOML file.

    Args:
        flags: What was typed, by the names of options; `set` is a list of `NAME=VALUE`, each an
            option of a method (`tati_re.options.methods`).
        config: The values of a file. Default: none.

    Returns:
        The options.

    Raises:
        InputError: As of `make_options`, in the words of the command line.
    """
    if "set" in flags:
        return options_from_flags(_with_set(flags, config), config)
    now = aliases.translated(
        flags, lambda name: "--" + name if name in aliases.ALIASES else flag(name)
    )
    before = aliases.translated(config or {})
    spelled = {name: "--" + typed for name, typed in now.typed.items()}

    def spell(name: str) -> str:
        return spelled.get(name, flag(name))

    values = now.values
    none = {
        name for name, value in values.items() if isinstance(value, str) and value.lower() == "none"
    }
    unset = {name: None for name in none if name in OPTIONS and optional(OPTIONS[name])}
    typed = _checked({**values, **unset}, spell, strict=False, text=True)
    return _complete(
        _merged(before.values, typed.values_of(values)), before.tati | now.tati, spell, text=True
    )


def _with_set(flags: Mapping[str, Any], config: Mapping[str, Any] | None) -> dict[str, Any]:
    """The flags with options in place of `--set`, which are those of the methods of the run."""
    others = {name: value for name, value in flags.items() if name != "set"}
    options = options_from_flags(others, config)

    def chosen(kind: str) -> Any:
        if kind == "preset":
            return "EQN" if options.covariance_blending > 0 else None
        return options.values_of([kind])[kind]

    for text in flags["set"]:
        name, value = option_set(text, chosen)
        if name in others:
            problem = f"--set {text.partition('=')[0]}: {flag(name)} is given twice."
            raise InputError(problem, f"{others[name]} and {value}", "one of the two")
        others[name] = value
    return others


def read_toml(path: AnyPath) -> dict[str, Any]:
    """The checked values of a TOML file by option name; those under names of TATi as they stand in
    the file.
    """
    try:
        values = toml_of(regular_bytes(path, MOST_TOML, typed=True).decode("utf-8-sig"))
    except OSError as error:
        raise InputError(
            f"{os.fspath(path)} cannot be read: {error.strerror}.", expected="a TOML file"
        ) from None
    except InputError as error:
        raise InputError(str(error), expected="a TOML file of at most 16 MB") from None
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{os.fspath(path)} is not valid TOML: {reason_of(error)}.", expected="TOML in UTF-8"
        ) from None
    try:
        values = flattened(values)
    except InputError as error:
        raise InputError(f"{os.fspath(path)}: {error}") from None
    for name, value in values.items():
        if isinstance(value, dict) and not (name in OPTIONS and is_table(OPTIONS[name].metadata)):
            raise InputError(
                f"{os.fspath(path)}: a table may contain only options of a method.",
                f"[{name}]",
                "step_size = 0.001, or [sampler.pSGLD] and decay = 0.99 below it",
            )
    try:
        if "resume" in values:
            make_options(values)
        translation = aliases.translated(values)
        options = _checked(translation.values, lambda name: translation.typed.get(name, name))
    except InputError as error:
        raise InputError(f"{os.fspath(path)}: {error}") from None
    return values | options.values_of(
        name for name in values if name in OPTIONS and name not in translation.tati
    )


def to_toml(options: Options, groups: Iterable[str] = GROUPS, changed: bool = False) -> str:
    """Options as TOML that `read_toml` reads. Defaults that the user did not set are comments.

    Args:
        options: The options.
        groups: Groups of options to write, in this order. Default: all groups.
        changed: Whether to leave out all values that equal the default, and the headings. Default:
            False.
    """
    parts = []
    for group in groups:
        lines = []
        for name, value in options.values_of(
            n for n in options_of([group]) if n not in COMMANDS_ONLY
        ).items():
            usual = value == OPTIONS[name].get_default(call_default_factory=True)
            line = toml_line(name, value)
            is_explicit = name in options.explicit
            if name == "num_steps" and options.stages and not is_explicit:
                line = "# num_steps is the sum of the stages"
            lines.append(
                (
                    usual,
                    f"# {line}" if usual and not is_explicit and not line.startswith("#") else line,
                )
            )
        if changed:
            parts.append("".join(f"{line}\n" for usual, line in lines if not usual))
        else:
            parts.append("\n".join([f"# {group}: {GROUPS[group]}", *(line for _, line in lines)]))
    return "".join(parts) if changed else "\n\n".join(parts) + "\n"


@front_door
def describe(name: str | None = None) -> str:
    """Returns a description of one option, or of all options with one line each.

    Args:
        name: The name of an option. Default: None, all options.

    Returns:
        The description.

    Raises:
        InputError: There is no such option.
    """
    if name is None:
        lines = []
        for group, title in GROUPS.items():
            lines.append(f"{group}: {title}")
            lines += [
                f"  {n} (default {default_text(f)}): {meaning(f)}"
                for n, f in options_of([group]).items()
            ]
        return "\n".join(lines)
    if name not in OPTIONS and name in aliases.ALIASES:
        descriptions = [
            aliases.describe(name),
            *(describe(new) for new in aliases.ALIASES[name].new if new in OPTIONS),
        ]
        return "\n".join(descriptions)
    if name not in OPTIONS:
        raise unknown(name)
    field = OPTIONS[name]
    tables = tables_with(name)
    return (
        f"{name}: {meaning(field)}\n  type and range: {expected(field)}\n  default: {default_text(field)}\n"
        f"  group: {group_of(field)}\n  flag: {flag(name)}"
        + (f"\n  in the table of a method: {', '.join(tables)}" if tables else "")
    )


def add_arguments(
    parser: argparse.ArgumentParser, groups: Iterable[str], leave_out: Collection[str] = ()
) -> None:
    """Adds the flags of groups of options to a parser.

    Typed values arrive as text, and flags that are not typed are absent.

    Args:
        parser: The parser.
        groups: Names of groups of options.
        leave_out: Names of options without a flag. Default: none.
    """
    for group in groups:
        section = parser.add_argument_group(f"{group}: {GROUPS[group]}")
        for name, field in options_of([group]).items():
            if name not in leave_out:
                add_field(section, name, field)


def reference_page() -> str:
    """The userguide's page of all options as Markdown."""
    parts = [
        "# Options",
        "Each option is a keyword argument in Python (`step_size=0.01`), a flag of the commands (`--step-size 0.01`) "
        "and a key of a TOML file (`step_size = 0.01`). `--config run.toml` reads such a file, and `--print-config` "
        "prints one. A flag overrides the file. In Python `model` is also a Keras model, and `data` also arrays.",
        "This page is made from the table in `tati_re/options/table.py` by `python -m tati_re.options`.",
    ]
    for group, title in GROUPS.items():
        parts.append(f"## {group.capitalize()}: {title}\n\n{markdown_table(options_of([group]))}")
        if group == "sampler":
            words = (
                "Splitting words use `friction`; those with D also use `thermal_mass` and "
                "`thermostat_bath`."
            )
            parts += [words, table_of_families()]
    parts.append(table_of_methods())
    return "\n\n".join(parts) + "\n"
