"""Common parts of the commands: flags from the table of options, one-line errors, a free run
folder.
"""

import argparse
import contextlib
import importlib
import io
import re
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tati_re._version import __version__
from tati_re.cli.completion import PrintCompletion
from tati_re.cli.failures import MADE, PRINTS_RESULT, failed, status_of_output
from tati_re.core.errors import InputError, SamplingError, nearest, refuse_if
from tati_re.core.lazy import left_out, settled
from tati_re.core.printable import inner_stream, printable_output
from tati_re.core.process.exit_status import FINISHED, INTERRUPTED
from tati_re.core.process.interruption import BARE, STOPS, Terminated, commanded
from tati_re.core.process.standard_streams import lenient_streams
from tati_re.options.flags import add_field, flag
from tati_re.options.make import ELSEWHERE, OPTIONS, add_arguments, options_from_flags
from tati_re.options.methods import (
    SHARED,
    help_of_method,
    list_of_methods,
    meanings,
    options_of_methods,
)
from tati_re.options.representable import representable_range
from tati_re.options.tati_names import ALIASES
from tati_re.runs.run_folder import free_folder

MAIN = (
    *(
        "data",
        "model",
        "hidden",
        "loss",
        "sampler",
        "optimizer",
        "learning_rate",
        "num_steps",
        "until",
    ),
    *("num_walkers", "output", "resume"),
)
"""What a first call of a command needs, and what `--help` explains where there are many options."""

MOST_VERBOSE = 2
"""The largest value of the option `verbose`."""
SET = "set an option of a method of this run, such as decay=0.99 for pSGLD"
HELP_METHOD = "explain the options of a method, such as pSGLD or annealing, and exit"


class _HelpAll(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None) -> None:
        print(parser.help_of_all(), end="")
        parser.exit()


class _HelpMethod(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None) -> None:
        print(help_of_method(values), end="")
        parser.exit()


def _wide(prog: str) -> argparse.HelpFormatter:
    """A help of the width of the terminal, or of 100 columns where there is none."""
    return argparse.HelpFormatter(prog, width=shutil.get_terminal_size((100, 24)).columns - 2)


class Parser(argparse.ArgumentParser):
    """An argparse parser that raises `InputError`, with the nearest flag for an unknown one.

    Flags are typed in full, and those that are not typed are absent from what `parse` returns. With
    many options, `--help` explains the options in `MAIN` and the command's own flags, and names the
    others by group. `--help-all` explains all.

    Args:
        *args: Arguments of `argparse.ArgumentParser`: the name of the command, its usage, its
            description.
        quiet: Help of the flag `--quiet`; None: there is no such flag. Default: "print errors
            only".
        **kwargs: Further arguments of `argparse.ArgumentParser`, by name.
    """

    def __init__(self, *args: Any, quiet: str | None = "print errors only", **kwargs: Any) -> None:
        super().__init__(
            *args,
            **{
                "allow_abbrev": False,
                "argument_default": argparse.SUPPRESS,
                "formatter_class": _wide,
                **kwargs,
            },
        )
        # argparse takes a negative number with an exponent, or one of a range, for a flag.
        self._negative_number_matcher = re.compile(r"-(inf|nan|\.?\d)", re.IGNORECASE)
        self._of_tati: set[str] = set()
        self.has_only_flags_of_tati = False
        self.of_file = False
        self.has_methods = False
        self.add_argument(
            "--help-all", action=_HelpAll, nargs=0, help="explain all options and exit"
        )
        self.add_argument("--debug", action="store_true", help="show the traceback of errors")
        text = "print the completion script for bash or zsh"
        self.add_argument("--print-completion", metavar="SHELL", action=PrintCompletion, help=text)
        if quiet is not None:
            self.add_argument("--quiet", action="store_true", help=quiet)
        self.add_argument("--version", "-V", action="version", version=f"{self.prog} {__version__}")

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message.removeprefix('argument ')}; see {self.prog} --help.")

    def _print_message(self, message: str, file: Any = None) -> None:
        # A failure of this write is reported as that of all that is printed.
        (file or sys.stderr).write(message)

    def format_help(self) -> str:
        if sum(action.dest in OPTIONS for action in self._actions) < 2 * len(MAIN):
            return super().format_help()
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        other_actions = [action for action in self._actions if action.dest not in OPTIONS]
        main = [action for name in MAIN for action in self._actions if action.dest == name]
        for title, actions in (("options", other_actions), ("main options", main)):
            formatter.start_section(title)
            formatter.add_arguments(actions)
            formatter.end_section()
        others = []
        for group in self._action_groups:
            names = [
                a.option_strings[0]
                for a in group._group_actions
                if a.dest in OPTIONS and a not in main
            ]
            if names := [name for name in names if name not in self._of_tati]:
                how: Any = {
                    "initial_indent": "  ",
                    "subsequent_indent": "  ",
                    "break_on_hyphens": False,
                }
                text = textwrap.fill(" ".join(names), 100, **how)
                others.append(f"{group.title}\n{text}")
        others.append(f"{self.prog} --help-all explains them.")
        return formatter.format_help() + "\n" + "\n".join(others) + "\n"

    def help_of_all(self) -> str:
        """The help of all options, but for those that belong to a method."""
        of_methods = options_of_methods() - {*SHARED} if self.has_methods else set()
        helps = {action.dest: action.help for action in self._actions}
        for action in self._actions:
            if action.dest in of_methods:
                action.help = argparse.SUPPRESS
        try:
            text = argparse.ArgumentParser.format_help(self)
        finally:
            for action in self._actions:
                action.help = helps[action.dest]
        if not self.has_methods:
            return text
        return f"{text}\n{list_of_methods(self.prog, {*helps})}"

    def parse(self, argv: Sequence[str]) -> dict[str, Any]:
        """What was typed, without the command's name, by destination; flags that were not typed are
        absent.
        """
        completed = [self._completed(text) for text in argv]
        known, left = self.parse_known_args(self._with_value_of_verbose(completed))
        vars(known).pop("debug", None)  # for `tati_re.cli.failures`
        if (count := vars(known).pop("v", None)) is not None:
            vars(known).setdefault("verbose", str(min(count, MOST_VERBOSE)))
        if left:
            name = left[0].split("=")[0]
            if not name.startswith("-"):
                raise InputError(
                    f"{name or repr(name)} is not the value of an option.",
                    expected=self._option_for(left[0]),
                )
            raise InputError(
                f"{name} is not a known option of {self.prog}.{self._advice(name.replace('_', '-'))}"
            )
        flags = {action.dest for action in self._actions}
        for text in vars(known).get("set", []):
            meant = meanings(text)
            if meant and not meant & flags:
                problem = f"--set {text.partition('=')[0]} is not an option of {self.prog}."
                raise InputError(problem, text, f"an option that {self.prog} --help names")
        if self.of_file and "parameters_step" in known and "parameters" not in known:
            step = known.parameters_step
            raise InputError(
                "--parameters-step needs --parameters.",
                step,
                "--parameters FILE with it",
            )
        return vars(known)

    def _completed(self, text: str) -> str:
        """A word of the command line, a flag of TATi in full where it has a unique beginning of it.

        TATi's commands took `--parse_step` for `--parse_steps`, as argparse does by default. Flags
        under the names here have to be written out.
        """
        name, equals, value = text.partition("=")
        if not name.startswith("--") or len(name) < 4 or name in self._option_string_actions:
            return text
        longer = [known for known in self._option_string_actions if known.startswith(name)]
        whose = {self._option_string_actions[known].dest for known in longer}
        full = [known for known in longer if "_" in known or self.has_only_flags_of_tati]
        full = full or [known for known in longer if known in self._of_tati]
        return f"{full[0]}{equals}{value}" if len(whose) == 1 and len(full) == 1 else text

    def _option_for(self, word: str) -> str:
        """What is expected in place of a word without an option: a file may be the data."""
        if "--data" in self._option_string_actions and Path(word).is_file():
            return f"--data {word}"
        return "options and their values, such as --seed 1"

    def _with_value_of_verbose(self, argv: Sequence[str]) -> list[str]:
        """What was typed; an option `--verbose` without a number asks for the most."""
        action = self._option_string_actions.get("--verbose")
        if action is None or action.nargs is not None:
            return [*argv]
        followed = [*argv[1:], "-"]
        return [
            f"--verbose={MOST_VERBOSE}" if text == "--verbose" and after.startswith("-") else text
            for text, after in zip(argv, followed, strict=False)
        ]

    def _advice(self, name: str) -> str:
        """Returns a suggested flag: one with this beginning, or the nearest; none for an option of
        another command.
        """
        if name in map(flag, OPTIONS) and name not in self._option_string_actions:
            resume = " Any run, including a fit, is resumed by tati-sample --resume RUN."
            return resume if name == "--resume" else ""
        if advice := ELSEWHERE.get(name.strip("-").replace("-", "_")):
            return f" {advice}"
        flags = [known for known in self._option_string_actions if known not in self._of_tati]
        longer = [known for known in flags if known.startswith(name) and name != "--"]
        return f" Did you mean '{longer[0]}'?" if longer else nearest(name, flags)

    def add_table(self, table: Mapping[str, tuple[Any, str]]) -> None:
        """Adds flags by name: the form of their value, in a tuple if several, None for a switch;
        and their help.
        """
        self.of_file = self.of_file or "parameters_step" in table
        for name, (form, text) in table.items():
            style: dict[str, Any] = {"action": "store_true"} if form is None else {"metavar": form}
            if isinstance(form, tuple):
                style = {"nargs": "+", "metavar": form[0]}
            self.add_argument(flag(name), dest=name, help=text, **style)

    def add_options(self, title: str, names: Iterable[str]) -> None:
        """Adds a group of flags of options.

        Args:
            title: Title of the group in the help.
            names: Names of the options.
        """
        section = self.add_argument_group(title)
        for name in names:
            add_field(section, name, OPTIONS[name])

    def add_names_of_tati(self, groups: Collection[str]) -> None:
        """Adds hidden flags of TATi (`tati_re.options.tati_names`) by name or group:
        `--step_width`, or with dashes.
        """
        for name, alias in ALIASES.items():
            if alias.group not in groups and name not in groups:
                continue
            flags = [
                text
                for text in (f"--{name}", flag(name))
                if text not in self._option_string_actions
            ]
            same = self._option_string_actions.get(flag(name))
            many: dict[str, Any] = {"nargs": "+"} if alias.many else {}
            if same is not None:
                many = {} if same.nargs is None else {"nargs": same.nargs, "action": type(same)}
            if flags:
                self._of_tati |= set(flags)
                self.add_argument(
                    *flags, dest=name, default=argparse.SUPPRESS, help=argparse.SUPPRESS, **many
                )


def make_parser(
    prog: str, description: str, groups: Iterable[str], leave_out: Collection[str] = ()
) -> Parser:
    """Makes the parser of a command from groups of options, with the flags common to all commands.

    Args:
        prog: The name of the command.
        description: What the command does, for the help.
        groups: Names of groups of options.
        leave_out: Names of options without a flag. Default: none.
    """
    quiet = "print errors only; the same as --verbose 0"
    parser = Parser(prog=prog, usage=f"{prog} [options]", description=description, quiet=quiet)
    parser.add_argument("-v", dest="v", action="count", help=argparse.SUPPRESS)
    parser.add_argument(
        "--config", metavar="FILE", help="a TOML file of options; flags override it"
    )
    parser.add_argument(
        "--print-config",
        action="store_true",
        help="print the options as TOML, as they would be used",
    )
    text = "with --print-config: only options that were changed"
    parser.add_argument("--changed", action="store_true", help=text)
    parser.add_argument("--set", action="extend", nargs="+", metavar="NAME=VALUE", help=SET)
    parser.add_argument("--help-method", action=_HelpMethod, metavar="NAME", help=HELP_METHOD)
    parser.has_methods = True
    add_arguments(parser, groups, leave_out)
    of_tati = {
        "data": "data",
        "posterior": "prior",
        "model": "model",
        "run": "common",
        "training": "train",
    }
    parser.add_names_of_tati({of_tati.get(group, group) for group in groups})
    return parser


def loading(verbose: int = 1, activity: str | None = None) -> None:
    """Says what takes seconds, if TensorFlow is not loaded yet; by default loads it.

    It is loaded without scikit-learn and Matplotlib, which saves a fourth of the time. Keras would
    load them for helpers that no command uses.

    Args:
        verbose: Whether to say it: 0 for no. Default: 1.
        activity: What takes seconds, such as "Reading x". Nothing is then loaded. Default: None,
            loading TensorFlow.
    """
    if "tensorflow" in sys.modules:
        return
    if verbose > 0:
        print(f"{activity or 'Loading TensorFlow'} ...", flush=True)
    if activity is None:
        with left_out("sklearn", "matplotlib"):
            importlib.import_module("tati_re.core.backend")
        settled()


@contextlib.contextmanager
def output_folder(folder: str | None, name: str) -> Iterator[Path]:
    """The folder of the results of a command.

    Args:
        folder: The folder of `--output`. None: the next free folder under `runs`. If that is empty
            at the end, it is removed, and an empty `runs` too.
        name: Beginning of the name of the next free folder, which a number follows.

    Yields:
        The folder.
    """
    if folder is not None:
        yield Path(folder)
        return
    made = free_folder(name)
    MADE.set(made)
    try:
        yield made
    finally:
        with contextlib.suppress(OSError):
            made.rmdir()
            made.parent.rmdir()


def number_typed(name: str, text: str, kind: type = int, least: float | None = None) -> Any:
    """Converts what was typed after a flag to a number.

    Args:
        name: Name of the option in Python.
        text: What was typed.
        kind: `int` or `float`. Default: int.
        least: The smallest allowed number. Default: None, no limit.

    Raises:
        InputError: The text is not such a number, or the number is out of range.
    """
    try:
        value = kind(text)
    except ValueError:
        expected = "an integer" if kind is int else "a number"
        raise InputError(f"{flag(name)} has the wrong type.", text, expected) from None
    if instead := representable_range(value, "float32"):
        raise InputError(f"{flag(name)} is out of range.", text, f"a finite number, {instead}")
    refuse_if(
        least is not None and value < least,
        f"{flag(name)} is out of range.",
        text,
        f"{least} or more",
    )
    return value


def integer_of(
    typed: Mapping[str, str], name: str, default: int | None = None, least: int = 0
) -> Any:
    """The integer that was typed after a flag.

    Args:
        typed: What was typed, by option.
        name: Name of the option in Python.
        default: The value if the flag was not typed. Default: None.
        least: The smallest allowed number. Default: 0.

    Raises:
        InputError: The text is not an integer, or it is out of range.
    """
    return number_typed(name, typed[name], least=least) if name in typed else default


def requeue_signal_of(typed: Mapping[str, Any]) -> str | None:
    return options_from_flags(
        {name: typed[name] for name in typed if name == "requeue_signal"}
    ).requeue_signal


@contextlib.contextmanager
def flags_named(names: Collection[str], renamed: Mapping[str, str] | None = None) -> Iterator[None]:
    """Replaces the Python name at the start of an error's message by its flag.

    Args:
        names: Python names that are flags of the command.
        renamed: The name of the flag, for Python names whose flag has another name. Default: None,
            none.
    """
    try:
        yield
    except InputError as error:
        word = str(error).split(" ")[0].rstrip(":")
        if word not in names:
            raise
        raise InputError(
            str(error).replace(word, flag((renamed or {}).get(word, word)), 1)
        ) from None


def as_typed(message: str, flags: Collection[str]) -> str:
    """A message with the options that were typed as flags.

    Args:
        message: The message. A name that is an English word is replaced only at its start.
        flags: Python names of the flags that were typed, TATi's too. Others are ignored.
    """
    named = {name: flag(name) for name in {*flags} & {*OPTIONS}}
    for name in {*flags} & {*ALIASES} - {*OPTIONS}:
        if len(ALIASES[name].new) == 1:
            named.setdefault(ALIASES[name].new[0], f"--{name}")
    for name, typed in named.items():
        start = r"(?<![\w/.'\"-])" if "_" in name else "^"
        message = re.sub(rf"{start}{name}(?![\w/=-]|\.\w)", typed, message)
    return message


_PRINTING = {"--print-config", "--print-completion", "--help-all", "--help-method"}
"""Flags whose result is what is printed, whatever the command writes without them."""


def entry_point(
    prog: str,
    body: Callable[[list[str]], int | None],
    module: str,
    writes_files: bool = False,
) -> Callable[..., int]:
    """Makes a command's `main`, and calls it where it is run.

    Args:
        prog: The name of the command.
        body: A function of the arguments that returns nothing, or an exit status.
        module: The `__name__` of the command's module.
        writes_files: Whether its result is in files, so that it does not depend on what is
            printed. A body whose options decide sets `PRINTS_RESULT` instead. Default: no.
    """

    def main(argv: Sequence[str] | None = None) -> int:
        return command(prog, body, argv, writes_files)

    main.__doc__ = f"Runs `{prog}` with `argv`, by default the arguments of the process, and returns the exit status."
    if module == "__main__":
        sys.exit(main())
    return main


def one_line(message: Warning | str, *_: Any, **__: Any) -> str:
    """A warning as a command prints it: one line, without the place in the code.

    Args:
        message: The warning.
        *_: Category, file and line, which are not printed.
        **__: The line of code, which is not printed.
    """
    return f"Warning: {' '.join(str(message).split())}\n"


def command(
    prog: str,
    body: Callable[[list[str]], int | None],
    argv: Sequence[str] | None,
    writes_files: bool = False,
) -> int:
    """Runs a command's body; errors become one line and a status (`tati_re.cli.failures`).

    An interrupt has the status 130. Standard output that is closed, missing or full ends nothing.
    It changes the status of a command whose result is what it prints.

    Args:
        prog: The name of the command.
        body: A function of the arguments that returns None, or an exit status.
        argv: The arguments, without the command's name. None: the arguments of the process.
        writes_files: Whether the result is in files, so that it does not depend on what is printed.
            Default: False.

    Returns:
        The exit status.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    MADE.set(None)
    PRINTS_RESULT.set(not writes_files)
    if isinstance(stream := inner_stream(sys.stdout), io.TextIOWrapper):
        # Names of files may hold what the terminal has no letter for.
        stream.reconfigure(errors="backslashreplace")
    # What is printed steers no terminal, and what cannot be printed ends nothing.
    with lenient_streams() as (output, _), printable_output():
        try:
            status = _status_of(prog, body, arguments)
        except SystemExit as end:  # of --help and --version
            if end.code not in (None, 0):
                raise
            output.flush()
            PRINTS_RESULT.set(True)
            status = status_of_output(output.failure, FINISHED)
            output.failure = None
            if status != FINISHED:
                return status
            raise
        output.flush()
        if _PRINTING & {text.split("=")[0] for text in arguments}:
            PRINTS_RESULT.set(True)
        status = status_of_output(output.failure, status)
        output.failure = None
        return status


def _status_of(prog: str, body: Callable[[list[str]], int | None], arguments: list[str]) -> int:
    written = warnings.formatwarning
    warnings.formatwarning = one_line
    try:
        with commanded():
            try:
                return body(arguments) or FINISHED
            finally:
                warnings.formatwarning = written
                print(end="", flush=True)
    except (InputError, SamplingError) as error:
        typed = {
            text[2:].split("=")[0].replace("-", "_") for text in arguments if text.startswith("--")
        }
        if isinstance(
            error, SamplingError
        ):  # "loss is not finite" is about the quantity, not about --loss
            typed = {name for name in typed if "_" in name}
        return failed(error, prog, arguments, as_typed(" ".join(str(error).split()), typed))
    except STOPS as stop:
        if isinstance(stop, KeyboardInterrupt) or str(stop):
            print(str(stop) or BARE, file=sys.stderr)
        return stop.status if isinstance(stop, Terminated) else INTERRUPTED
    except Exception as error:
        return failed(error, prog, arguments)
