"""Completion of flags and values by bash and zsh, written by shtab from a command's own parser."""

import argparse

from tati_re.core.errors import refuse_if
from tati_re.likelihoods.registry import LIKELIHOODS, LOSSES
from tati_re.options.families import WORDS, families
from tati_re.options.flags import choices
from tati_re.options.presets import PRESETS
from tati_re.options.table import OPTIONS

SHELLS = ("bash", "zsh")
AND_FILES = ("sampler", "loss", "step_schedule", "temperature_schedule")
"""Options that take a name or a file."""


def offered() -> dict[str, tuple[str, ...]]:
    """Returns names that options which take any text mostly have."""
    return {
        "sampler": (*WORDS, *families(), *PRESETS),
        "optimizer": (
            "adam",
            "sgd",
            "rmsprop",
            "gradient_descent",
            "barzilai_borwein",
            "fire",
            "annealing",
        ),
        "activation": (
            "relu",
            "tanh",
            "sigmoid",
            "softplus",
            "softsign",
            "elu",
            "relu6",
            "gelu",
            "silu",
            "linear",
        ),
        "output_activation": ("linear", "softmax", "sigmoid", "tanh"),
        "loss": (*LOSSES, *LIKELIHOODS),
        "step_schedule": ("constant", "polynomial", "cyclical"),
        "temperature_schedule": ("constant", "annealing"),
        "print_completion": SHELLS,
    }


class PrintCompletion(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None) -> None:
        print(script(parser, values))
        parser.exit()


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The completion script of a command, for `source <(tati-sample --print-completion bash)`.

    Args:
        parser: The parser of the command. It cannot parse afterwards: names that are only offered
            become its choices.
        shell: "bash" or "zsh".

    Raises:
        InputError: It is another shell.
    """
    refuse_if(
        shell not in SHELLS,
        "--print-completion: this shell is not supported.",
        shell,
        " or ".join(SHELLS),
    )
    import shtab

    names = offered()
    for action in parser._actions:
        if action.nargs == 0:
            continue
        words = names.get(action.dest) or (
            choices(OPTIONS[action.dest]) if action.dest in OPTIONS else action.choices
        )
        if action.dest in AND_FILES:
            function = f"_{action.dest}_or_file"
            body = f'{function}() {{ compgen -W "{" ".join(words or ())}" -- "$1"; compgen -f -- "$1"; }}'
            vars(action)["complete"] = {
                "bash": function,
                "zsh": "_files",
                "preamble": {"bash": body},
            }
        elif words:
            action.choices = words
        elif action.metavar not in ("N", "X"):
            vars(action)["complete"] = shtab.FILE
    return shtab.complete(parser, shell)
