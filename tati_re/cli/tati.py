"""`tati`: all commands under one name, `tati sample` for `tati-sample`, and one completion for
both.
"""

import argparse
import importlib

from tati_re._version import __version__
from tati_re.cli.arguments import Parser, entry_point
from tati_re.cli.completion import script
from tati_re.core.errors import InputError, nearest

COMMANDS = {
    "sample": "sample a posterior, or resume a run",
    "fit": "train a network and record the run (tati-optimize)",
    "predict": "predictions and scores, averaged over the draws or fits of a run",
    "export": "a few draws as one small file, a Keras model or arrays",
    "analyse": "averages with errors, covariances, free energies: tables and figures",
    "report": "a one-page HTML report on a run",
    "evidence": "the evidence of a model, or of several",
    "landscape": "the loss along directions, planes and paths",
    "explore": "minima, and barriers between them",
    "inputspace": "predictions over a plane of inputs",
    "dataset": "make a data set, or inspect a file",
    "compare": "compare two runs, or verify one",
    "quickstart": "train and sample a network on handwritten digits",
}
"""What each does; `optimize` is another name of `fit`."""
_MODULES = {"fit": "optimize"}


def module_of(command: str):
    return importlib.import_module(f"tati_re.cli.{_MODULES.get(command, command)}")


def _completion(shell: str) -> str:
    """A script that completes `tati` and the commands with names of their own."""
    parser_of_all = argparse.ArgumentParser("tati")
    parts = parser_of_all.add_subparsers(metavar="COMMAND")
    scripts = []
    for name, text in COMMANDS.items():
        parser: Parser = module_of(name).parser_of_command()
        command_script = script(parser, shell)
        parts.add_parser(
            name, parents=[parser], add_help=False, help=text, conflict_handler="resolve"
        )
        if name != "quickstart":
            scripts.append(command_script)
    import shtab

    return "\n".join([*scripts, shtab.complete(parser_of_all, shell)])


def _body(argv: list[str]) -> int:
    name, arguments = (argv[0], argv[1:]) if argv else ("--help", [])
    if name in ("-h", "--help"):
        rows = "\n".join(f"  {name:<12}{text}" for name, text in COMMANDS.items())
        print(f"usage: tati COMMAND [options]\n\n{rows}\n\ntati COMMAND --help explains a command.")
    elif name in ("-V", "--version"):
        print(f"tati {__version__}")
    elif name == "--print-completion":
        print(_completion(arguments[0] if arguments else "nothing"))
    elif name in COMMANDS or name == "optimize":
        return module_of(name).main(arguments)
    else:
        raise InputError(
            f"tati has no command {name}.{nearest(name, COMMANDS)}", expected=", ".join(COMMANDS)
        )
    return 0


main = entry_point("tati", _body, __name__)
