"""Completion of flags and values by bash and zsh, from a command's own parser."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from tati_re.core.errors import InputError
from tati_re.options.flags import choices
from tati_re.options.make import OPTIONS

SHELLS = ("bash", "zsh")

VALUES = {
    "sampler": (
        *("BAOAB", "OBABO", "ABOBA", "GLA1", "GLA2", "BADODAB", "mCCAdL", "SGLD", "LM", "pSGLD", "SGHMC", "SGNHT"),
        *("CCAdL", "HMC", "HMC1", "GHMC", "MALA", "RWMH", "TACT-HMC"),
        *("RENHD", "renhd_euler", "RELD", "reSGLD", "reSGHMC", "RE-HMC", "simulated_tempering"),
    ),
    "optimizer": ("adam", "sgd", "rmsprop", "gradient_descent", "barzilai_borwein", "fire", "annealing"),
    "activation": ("relu", "tanh", "sigmoid", "softplus", "softsign", "elu", "relu6", "gelu", "silu", "linear"),
    "output_activation": ("linear", "softmax", "sigmoid", "tanh"),
    "loss": (
        *("sparse_categorical_crossentropy", "categorical_crossentropy", "binary_crossentropy", "gaussian"),
        *("mean_squared_error", "mean_absolute_error"),
    ),
    "step_schedule": ("constant", "polynomial", "cyclical"),
    "temperature_schedule": ("constant", "annealing"),
    "print_completion": SHELLS,
}
"""Names that options which take any text mostly have."""

AND_FILES = ("sampler", "step_schedule", "temperature_schedule")
"""Of these, those that may be files too."""


class PrintCompletion(argparse.Action):
    """Prints the script of a shell and ends the command."""

    def __call__(self, parser, namespace, values, option_string=None) -> None:
        print(script(parser, values), end="")
        parser.exit()


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """What the shell has to read, `source <(tati-sample --print-completion bash)`, to complete a command.

    Args:
        parser: The command's parser.
        shell: "bash" or "zsh".

    Raises:
        InputError: Another shell.
    """
    if shell not in SHELLS:
        raise InputError("--print-completion: there is none for this shell.", shell, " or ".join(SHELLS))
    return _bash(parser) if shell == "bash" else _zsh(parser)


def _flags(parser: argparse.ArgumentParser) -> Iterator[tuple[argparse.Action, list[str]]]:
    """Actions that are shown, with their long flags."""
    for action in parser._actions:
        long = [name for name in action.option_strings if name.startswith("--")]
        if long and action.help != argparse.SUPPRESS:
            yield action, long


def _values(action: argparse.Action) -> tuple[list[str], bool]:
    """Words that a flag may have, and whether files are offered beside them; nothing where it takes no value."""
    if action.nargs == 0:
        return [], False
    field = OPTIONS.get(action.dest)
    words = [*VALUES.get(action.dest, ())] or (choices(field) if field is not None else [])
    words += [str(choice) for choice in action.choices or ()]
    numbers = action.metavar in ("N", "X")
    return words, action.dest in AND_FILES or not (words or numbers)


def _bash(parser: argparse.ArgumentParser) -> str:
    function = "_" + re.sub(r"\W", "_", parser.prog)
    cases, flags = [], []
    for action, names in _flags(parser):
        flags += names
        words, files = _values(action)
        if action.nargs == 0:
            continue
        found = [f'$(compgen -W "{" ".join(words)}" -- "$current")'] if words else []
        found += ['$(compgen -f -- "$current")'] if files else []
        cases.append(f"        {'|'.join(names)}) COMPREPLY=({' '.join(found)}); return ;;")
    return "\n".join(
        [
            f"# Completion of {parser.prog} for bash; made by {parser.prog} --print-completion bash.",
            f"{function}() {{",
            '    local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"',
            '    case "$before" in',
            *cases,
            "    esac",
            '    if [[ "$current" == -* ]]; then',
            f'        COMPREPLY=($(compgen -W "{" ".join(flags)}" -- "$current"))',
            "    else",
            '        COMPREPLY=($(compgen -f -- "$current"))',
            "    fi",
            "}",
            f"complete -o filenames -F {function} {parser.prog}",
            "",
        ]
    )


def _zsh(parser: argparse.ArgumentParser) -> str:
    lines = []
    for action, names in _flags(parser):
        words, files = _values(action)
        text = re.sub(r"([\[\]:\\])", r"\\\1", (action.help or "").split(" (")[0].replace("%%", "%").replace("'", ""))
        value = ""
        if action.nargs != 0:
            offered = f"({' '.join(words)})" if words and not files else "_files" if files else " "
            value = f":{(action.metavar if isinstance(action.metavar, str) else None) or action.dest}:{offered}"
        lines += [f"    '{name}[{text}]{value}' \\" for name in names]
    return "\n".join(
        [
            f"#compdef {parser.prog}",
            f"# Completion of {parser.prog} for zsh; made by {parser.prog} --print-completion zsh.",
            "_arguments -S \\",
            *lines,
            "    '*:file:_files'",
            "",
        ]
    )
