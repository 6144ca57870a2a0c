"""Options and run folder from the arguments of a command that starts a run."""

from collections.abc import Callable, Iterable
from typing import Any

from tati_re.cli.arguments import Parser, loading, output_folder
from tati_re.core.errors import InputError
from tati_re.core.process.exit_status import FINISHED
from tati_re.core.process.interruption import stopping
from tati_re.options.make import (
    OPTIONS,
    Options,
    make_options,
    options_from_flags,
    read_toml,
    to_toml,
)
from tati_re.options.presets import note_of
from tati_re.options.trust import TRUST


def with_config(typed: dict[str, Any]) -> Options:
    """Makes options from the file of `--config`, then the flags that `Parser.parse` returned, then
    `--quiet`.
    """
    flags = {
        name: value
        for name, value in typed.items()
        if name not in ("config", "print_config", "changed", "quiet")
    }
    if "changed" in typed and "print_config" not in typed:
        raise InputError("--changed needs --print-config.", expected="both, or none")
    if typed.get("quiet"):
        if flags.get("verbose", "0") != "0":
            raise InputError(
                "--quiet and --verbose contradict each other.", flags["verbose"], "one of the two"
            )
        flags["verbose"] = "0"
    return options_from_flags(flags, read_toml(typed["config"]) if "config" in typed else None)


def add_trust(parser: Parser) -> None:
    parser.add_argument("--trust", action="store_true", help=f"--resume: {TRUST}")


def refuse_trust(typed: dict[str, Any]) -> None:
    if "trust" in typed:
        raise InputError(
            "--trust applies only with --resume.",
            expected="no --trust: code named on the command line is trusted",
        )


def _note_of_preset(typed: dict[str, Any]) -> str | None:
    """What is known of the preset that the flags, or the file of `--config`, name."""
    named = {**(read_toml(typed["config"]) if "config" in typed else {}), **typed}
    if named.get("bias") == "WTE":
        return note_of("WTE")
    return note_of(named.get("sampler")) or note_of(named.get("preset"))


def start(
    parser: Parser,
    argv: list[str],
    name: str,
    groups: Iterable[str],
    action: Callable[[Options], Any],
) -> int:
    """Runs a command that makes a run folder.

    Args:
        parser: The parser of the command.
        argv: The arguments, without the command's name.
        name: Without `--output` the folder is the next one of this name under `runs`. An empty one
            is removed at the end.
        groups: Groups of options that `--print-config` prints.
        action: Starts the run with the options, and returns it.

    Returns:
        The exit status.

    Raises:
        InputError: An option is wrong, or the data are missing.
    """
    typed = parser.parse(argv)
    options = with_config(typed)
    note = _note_of_preset(typed)
    if typed.get("print_config"):
        if note:
            print(f"# {note}")
        print(to_toml(options, groups, "changed" in typed), end="")
        return FINISHED
    if options.data is None and not options.is_target:
        raise InputError("--data is missing.", expected=OPTIONS["data"].description)
    if note and options.verbose > 0:
        print(note)
    with output_folder(options.output, name) as folder, stopping(options.requeue_signal):
        loading(options.verbose)
        run = action(
            options if options.output is not None else make_options(options, output=str(folder))
        )
    return int(run.exit_status)
