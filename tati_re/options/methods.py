"""Options that belong to one method, in a table of their own: `[sampler.pSGLD] decay = 0.99` in
TOML, `sampler={"pSGLD": {"decay": 0.99}}` in Python, `--set decay=0.99` on the command line. Each
is also an option under a name of its own, here `preconditioner_decay`.
"""

import argparse
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from tati_re.core.errors import InputError, nearest
from tati_re.options.families import FAMILIES, WORDS, families, family, options_of_family
from tati_re.options.flags import add_field, flag, toml_line
from tati_re.options.table import OPTIONS

_LETTERS = "ABOUDC"
"""Of splitting words."""

SHARED = ("friction", "max_temperature", "momentum", "noise_std", "prior_std", "prior_scale")
"""Options of methods that are so common that they stay with the options of a run."""

_OF_SWAP = {"variance": "swap_variance"}
_OF_CORRECTED = {
    "factor": "correction_factor",
    "decay": "correction_decay",
    "growth": "correction_growth",
    "variance_gain": "variance_gain",
    "variance_every": "variance_every",
}

OF_SAMPLERS: dict[str, tuple[str, ...]] = {
    "pSGLD": (
        "preconditioner",
        "preconditioner_decay",
        "preconditioner_offset",
        "preconditioner_correction",
    ),
    "SGHMC": ("friction", "gradient_noise"),
    "SGNHT": ("friction", "thermal_mass"),
    "CCAdL": ("friction", "thermal_mass", "covariance_window"),
    "HMC": ("num_leapfrog_steps", "leapfrog_jitter", "walls"),
    "HMC1": ("num_leapfrog_steps", "leapfrog_jitter", "walls"),
    "GHMC": ("friction", "num_leapfrog_steps"),
    "MCLMC": ("friction", "integrator"),
    "MAMS": ("num_leapfrog_steps", "leapfrog_jitter", "walls", "integrator"),
    "TACT-HMC": (
        "friction",
        "thermal_mass",
        "tempering_plateau",
        "tempering_steps",
        "tempering_nodes",
        "max_temperature",
    ),
}
"""Parameters of the constructors of the samplers of this package that are options; the help lists
them without loading the samplers, and a test compares both.
"""

DECLARED: dict[str, dict[str, dict[str, str]]] = {
    "preset": {
        "EQN": {
            "blending": "covariance_blending",
            "after_steps": "covariance_after_steps",
            "scheme": "ensemble_scheme",
        },
    },
    "step_schedule": {
        "polynomial": {"delay": "schedule_delay", "power": "schedule_power"},
        "cyclical": {
            "cycle_steps": "cycle_steps",
            "exploration_fraction": "exploration_fraction",
        },
    },
    "temperature_schedule": {"annealing": {"start": "temperature_start"}},
    "swap_rule": {
        "penalty": _OF_SWAP,
        "barker_compensated": _OF_SWAP,
        "corrected": _OF_SWAP | _OF_CORRECTED,
        "naive": _OF_SWAP,
    },
    "bias": {
        "well_tempered": {
            "factor": "bias_factor",
            "rate": "bias_rate",
            "width": "bias_width",
            "energies": "bias_energies",
        },
    },
    "replica_start": {"descent": {"steps": "descent_steps"}},
    "walker_start": {"fit": {"steps": "fit_steps"}},
    "optimizer": {
        "barzilai_borwein": {"step": "barzilai_borwein_step"},
        "annealing": {
            "start_temperature": "annealing_start_temperature",
            "cooling": "annealing_cooling",
            "stage_steps": "annealing_stage_steps",
            "validations": "annealing_validations",
            "momentum": "momentum",
        },
    },
    "method": {
        "smc": {
            "particles": "num_particles",
            "populations": "num_populations",
            "moves": "num_moves",
            "fraction": "particle_fraction",
        },
    },
    "loss": {
        "gaussian": {
            "std": "noise_std",
            "std_prior": "noise_prior",
            "prior_scale": "noise_prior_scale",
            "prior_shape": "noise_prior_shape",
        },
        "heteroscedastic_gaussian": {"rounding": "rounding"},
        "student_t": {"degrees_of_freedom": "degrees_of_freedom", "rounding": "rounding"},
        "laplace": {"rounding": "rounding"},
        "log_normal": {"rounding": "rounding"},
        "gamma": {"rounding": "rounding"},
        "beta": {"rounding": "rounding"},
        "censored_normal": {"rounding": "rounding"},
        "censored_log_normal": {"rounding": "rounding"},
        "censored_weibull": {"rounding": "rounding"},
    },
    "prior": {
        "gaussian": {"std": "prior_std"},
        "laplace": {"scale": "prior_scale"},
        "student_t": {"scale": "prior_scale", "degrees": "prior_degrees"},
        "hierarchical": {"scale": "prior_scale", "degrees": "prior_degrees"},
        "box": {"bound": "prior_bound"},
    },
}
"""Short names of the options of each method that is no sampler, by the option that names it."""

KINDS = ("sampler", *DECLARED)
"""Options that name a method."""


def methods_of(kind: str) -> list[str]:
    """The names of the methods that have options of their own.

    Args:
        kind: The option that names a method, one of `KINDS`.
    """
    if kind != "sampler":
        return [*DECLARED[kind]]
    of_others = [name for name in families() if name not in FAMILIES and _of_sampler(name)]
    return [*OF_SAMPLERS, *of_others, *WORDS]


def options_of_method(kind: str, name: str) -> dict[str, str]:
    """The options of one method, by the names that they have in its table.

    Args:
        kind: The option that names a method, one of `KINDS`.
        name: The name of the method, in any case.

    Returns:
        Short names and the names of the options, in the order of the constructor; empty for a
        method without such options, or an unknown one.
    """
    if kind == "sampler":
        return _of_sampler(name)
    known = {method.upper(): options for method, options in DECLARED[kind].items()}
    return known.get(name.upper(), {})


def _of_sampler(name: str) -> dict[str, str]:
    where = name if ":" in name else family(name)
    if where is not None:
        known = next((sampler for sampler, its in FAMILIES.items() if its == where), None)
        names = options_of_family(where) if known is None else OF_SAMPLERS.get(known, ())
        return dict(zip(_shortened(names), names, strict=True))
    if name not in WORDS and not {*name.upper()} <= {*_LETTERS}:
        return {}
    with_thermostat = "D" in name.upper()
    names = ["friction", *(["thermal_mass", "thermostat_bath"] if with_thermostat else [])]
    return {option: option for option in names}


def _shortened(names: Sequence[str]) -> list[str]:
    """The names of a constructor's options, without a first word that several of them share."""
    first = [name.partition("_")[0] for name in names]
    shared = {word for word in first if first.count(word) > 1}
    return [
        rest if word in shared and rest else name
        for name, word, rest in ((name, *name.partition("_")[::2]) for name in names)
    ]


def options_of_methods() -> set[str]:
    """The options that belong to methods of this package, including those that several share."""
    of_samplers = {option for options in OF_SAMPLERS.values() for option in options}
    of_words = {option for word in WORDS for option in options_of_method("sampler", word).values()}
    of_others = {
        option
        for methods in DECLARED.values()
        for options in methods.values()
        for option in options.values()
    }
    return of_samplers | of_words | of_others


def help_of_method(name: str) -> str:
    """The help of the options of all methods of a name.

    Args:
        name: The name of a method, in any case, such as pSGLD or annealing.

    Raises:
        InputError: No method of this name has options of its own.
    """
    parts = []
    for kind in KINDS:
        for method in [name, *methods_of(kind)] if ":" in name else methods_of(kind):
            if method.upper() == name.upper():
                parts.append(_help_of(kind, method))
    if not parts:
        names = [method for kind in KINDS for method in methods_of(kind)]
        problem = (
            f"--help-method: no method with this name has its own options.{nearest(name, names)}"
        )
        raise InputError(problem, name, ", ".join(dict.fromkeys(names)))
    return "\n".join(parts)


def _help_of(kind: str, method: str) -> str:
    known = options_of_method(kind, method)
    parser = argparse.ArgumentParser(add_help=False)
    section = parser.add_argument_group(f"{flag(kind)} {method}")
    for name in known.values():
        add_field(section, name, OPTIONS[name])
    lines = parser.format_help().splitlines()
    begin = next(i for i, line in enumerate(lines) if line == f"{flag(kind)} {method}:")
    table = [f"  {short} = {_example(name)}" for short, name in known.items()]
    return "\n".join([*lines[begin:], "", f"  [{kind}.{method}]", *table]) + "\n"


def _example(name: str) -> str:
    value = OPTIONS[name].get_default(call_default_factory=True)
    return toml_line(name, value).partition(" = ")[2] or "..."


def list_of_methods(prog: str, names: Collection[str]) -> str:
    """A list of the methods whose options `--help-all` leaves out.

    Args:
        prog: The name of the command.
        names: The options of the command.
    """
    lines = ["options of one method:"]
    for kind in KINDS:
        methods = [
            method
            for method in methods_of(kind)
            if ({*options_of_method(kind, method).values()} - {*SHARED}) & {*names}
        ]
        if methods and kind in names:
            text = f"{flag(kind)} {', '.join(methods)}"
            lines.append(textwrap.fill(text, 78, initial_indent="  ", subsequent_indent="    "))
    lines.append(f"{prog} --help-method NAME explains them.")
    return "\n".join(lines) + "\n"


def table_of_methods() -> str:
    """The options of methods as Markdown."""
    rows = ["| table | its options |", "|---|---|"]
    for kind in KINDS:
        for method in methods_of(kind):
            known = options_of_method(kind, method)
            options = ", ".join(
                f"`{short}`" if short == name else f"`{short}` (`{name}`)"
                for short, name in known.items()
            )
            rows.append(f"| `[{kind}.{method}]` | {options} |")
    parts = [
        "## Options of one method",
        "The options of a method may also stand in a table that names the method:",
        "```toml\n[sampler.pSGLD]\ndecay = 0.99\n```",
        'In Python this is `sampler={"pSGLD": {"decay": 0.99}}`, on the command line '
        "`--sampler pSGLD --set decay=0.99`. Each is also an option under the name in parentheses. "
        "`tati-sample --help-method pSGLD` explains them.",
        "\n".join(rows),
    ]
    return "\n\n".join(parts)


def tables_with(option: str) -> list[str]:
    """Where an option stands in the tables of methods, as `[sampler.pSGLD] decay`.

    Args:
        option: The name of an option; of the common ones, `SHARED`, no table is listed.
    """
    if option in SHARED:
        return []
    return [
        f"[{kind}.{method}] {short}"
        for kind in KINDS
        for method in methods_of(kind)
        for short, name in options_of_method(kind, method).items()
        if name == option
    ]


def is_table_of_methods(kind: str, value: Any) -> bool:
    """Whether the value of an option is a table of methods with tables of their options.

    Args:
        kind: Name of the option, a kind of method such as "sampler".
        value: Its value.
    """
    return (
        kind in KINDS
        and isinstance(value, Mapping)
        and bool(value)
        and all(isinstance(settings, Mapping) for settings in value.values())
    )


def flattened(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with options in place of tables of methods.

    Args:
        values: Options by name; one of `KINDS` may be a table such as `{"pSGLD": {"decay": 0.9}}`,
            which names the method, too.

    Returns:
        Options by name, without such tables.

    Raises:
        InputError: Two methods where there is one, an unknown method or option of it, or an option
            that is given twice.
    """
    flat: dict[str, Any] = {}
    for kind, value in values.items():
        if not is_table_of_methods(kind, value):
            flat[kind] = value
            continue
        several = kind == "method"
        if len(value) > 1 and not several:
            problem = f"{kind}: the tables name several methods."
            raise InputError(problem, ", ".join(value), f"one table, [{kind}.NAME]")
        flat[kind] = [*value] if several else next(iter(value))
        for name, settings in value.items():
            _add(flat, values, kind, name, settings)
    return flat


def _add(
    flat: dict[str, Any],
    values: Mapping[str, Any],
    kind: str,
    name: str,
    settings: Mapping[str, Any],
) -> None:
    """Adds the options of one table of a method to the others."""
    known = options_of_method(kind, name)
    if settings and not known:
        problem = f"[{kind}.{name}]: {name} has no options of this kind."
        raise InputError(
            problem, ", ".join(settings), f"{kind} = {name!r}, or a table of {_listed(kind)}"
        )
    for short, value in settings.items():
        option = known.get(short, short if short in known.values() else None)
        if option is None:
            problem = f"[{kind}.{name}] {short} is not an option of {name}.{nearest(short, known)}"
            raise InputError(problem, expected=", ".join(known))
        if option in values or option in flat:
            problem = f"[{kind}.{name}] {short} and {option} are two names for the same option."
            raise InputError(problem, expected="one of the two")
        flat[option] = value


def _listed(kind: str) -> str:
    return ", ".join(methods_of(kind))


def meanings(text: str) -> set[str]:
    """The options that the name of one `--set NAME=VALUE` may mean, of whatever methods.

    Args:
        text: What was typed.
    """
    name = text.partition("=")[0].replace("-", "_")
    method, dot, short = name.rpartition(".")
    method = method.rpartition(".")[2]
    if not dot and name in options_of_methods():
        return {name}
    candidates = {
        options_of_method(kind, method_name).get(short)
        for kind in KINDS
        for method_name in methods_of(kind)
        if not dot or method_name.upper() == method.upper()
    }
    return {option for option in candidates if option is not None}


def option_set(text: str, chosen: Callable[[str], Any]) -> tuple[str, str]:
    """The option and the value of one `--set NAME=VALUE`.

    Args:
        text: What was typed. NAME is the name of an option in the table of a method, of the methods
            of this run; `pSGLD.decay` names the method; the full name of an option goes too.
        chosen: A function from a kind of `KINDS` to the method, or the list of methods, of the run.

    Returns:
        The name of the option, and the value as it was typed.

    Raises:
        InputError: No such option, of none of these methods, or of several.
    """
    typed, equals, value = text.partition("=")
    if not equals or not typed:
        raise InputError("--set needs a name and a value.", text, "NAME=VALUE, as decay=0.99")
    name = typed.replace("-", "_")
    method, dot, short = name.rpartition(".")
    method = method.rpartition(".")[2]
    if not dot and name in options_of_methods():
        return name, value

    of_run = {
        (kind, method_name): options_of_method(kind, method_name)
        for kind in KINDS
        for method_name in _names(chosen(kind))
        if not dot or method_name.upper() == method.upper()
    }
    if dot and not of_run:
        of_run = {
            (kind, method_name): options_of_method(kind, method_name)
            for kind in KINDS
            for method_name in methods_of(kind)
            if method_name.upper() == method.upper()
        }
    matches = {options[short] for options in of_run.values() if short in options}
    if len(matches) == 1:
        return matches.pop(), value
    if matches:
        where = [
            f"{method_name}.{short}"
            for (_, method_name), options in of_run.items()
            if short in options
        ]
        raise InputError(f"--set {typed}: several methods have this option.", text, _or(where))
    raise _not_found(typed, short, of_run)


def _names(chosen: Any) -> list[str]:
    """The names of one method, of several, or of a table of patterns."""
    if isinstance(chosen, str):
        return [chosen]
    return [*chosen.values()] if isinstance(chosen, Mapping) else [*(chosen or [])]


def _or(names: Iterable[str]) -> str:
    return " or ".join(names)


def _not_found(typed: str, short: str, of_run: Mapping[tuple[str, str], Any]) -> InputError:
    elsewhere = [
        f"{kind} = {method_name}"
        for kind in KINDS
        for method_name in methods_of(kind)
        if short in options_of_method(kind, method_name)
    ]
    if elsewhere:
        problem = f"--set {typed}: this run does not use the method of this option."
        return InputError(problem, expected=_or(elsewhere))
    known = sorted({name for options in of_run.values() for name in options})
    problem = f"--set {typed}: the methods of this run have no such option.{nearest(short, known)}"
    return InputError(problem, expected=", ".join(known) or "an option of a method of this run")
