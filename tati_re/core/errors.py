"""Names of files, and the errors that users see, each one sentence: what is wrong, was received,
was expected.
"""

import difflib
import os
import shlex
from collections.abc import Callable, Iterable
from typing import Any

from tati_re.core.printable import is_printable, printable
from tati_re.core.renamed import renamed_arguments

AnyPath = str | os.PathLike[str]
"""A file or folder."""


_LONG = 2000  # Letters of a sentence.


class InputError(ValueError):
    """Invalid input, reported in one sentence before any work starts.

    Args:
        problem: What is wrong, with the option's name as the user typed it. It ends with a full stop.
        received: The invalid value, printed as *Received: ...*. Default: None, not printed.
        expected: A valid value, printed as *Expected: ...*. Default: None, not printed.
    """

    @renamed_arguments(what="problem")
    def __init__(self, problem: str, received: object = None, expected: object = None) -> None:
        text = (
            problem
            if len(problem) < _LONG
            else f"{problem[: _LONG // 2]}...{problem[-_LONG // 2 :]}"
        )
        for word, value in (("Received", received), ("Expected", expected)):
            if value is not None:  # in place of what a sentence inside of this one says
                text = f"{text.split(f' {word}: ')[0]} {word}: {abbreviated(value, 300 if word == 'Received' else 3000)}."
        super().__init__(printable(text, keep=""))


class InputTypeError(InputError, TypeError):
    """Input of a kind that cannot be used; callers that expect a `TypeError` catch it as well."""


def refuse_if(
    wrong: object, problem: str, received: object = None, expected: object = None
) -> None:
    """Raises an `InputError` if something is wrong.

    Args:
        wrong: What is wrong; any true value raises the error.
        problem: What is wrong in words, with the option's name. It ends with a full stop.
        received: The invalid value. Default: None, not printed.
        expected: A valid value. Default: None, not printed.

    Raises:
        InputError: `wrong` is true.
    """
    if wrong:
        raise InputError(problem, received, expected)


class SamplingError(RuntimeError):
    """A run had to stop: the potential is no longer finite, or the dynamics is unstable.

    Args:
        message: What happened and what to do, in one or two sentences.
        step: The step at which it happened.
        walker: The walker to which it happened, counted from 0.
    """

    def __init__(self, message: str, step: int, walker: int) -> None:
        super().__init__(printable(message, keep=""))
        self.step = step
        self.walker = walker


class WorkersLost(SamplingError):
    """Workers died repeatedly at the same step, or disagree; the dynamics is not at fault."""


class CertificateWarning(UserWarning):
    """A run failed checks of its certificate, so its averages and predictions may be wrong.

    It is issued once for each run and process: at the end of the run, or when the run is opened,
    exported or used for predictions. `warnings.simplefilter("ignore", tati_re.CertificateWarning)`
    silences it.
    """


def abbreviated(value: object, most: int, write: Callable[[Any], str] = str) -> str:
    """A value as text for a sentence, on one line.

    Args:
        value: Any value.
        most: Number of letters after which the text is cut; "..." then follows.
        write: Writes the value as text. Default: `str`.
    """
    try:
        text = write(value)
        text = " ".join(text.split()) if "\n" in text else text
    except ValueError:
        text = "an integer with thousands of digits"
    return text if len(text) <= most else f"{text[:most]}..."


def pasted(path: AnyPath) -> str:
    """A path as it can be pasted behind a command in a shell.

    Args:
        path: A file or folder, of any name.

    Returns:
        The path, quoted where the shell would read it in another way; one that begins like an
        option begins with `./`.
    """
    text = os.fspath(path)
    text = f"./{text}" if text.startswith("-") else text
    if is_printable(text):
        return shlex.quote(text)
    written = "".join(map(_for_shell, text))
    return f"$'{written}'"


def check_utf8(path: AnyPath, option: str = "") -> None:
    """Refuses a path that is not text in UTF-8, as manifests and reports are.

    Args:
        path: A file or folder.
        option: The option that named it, for the message. Default: none.

    Raises:
        InputError: A name in another encoding.
    """
    text = os.fspath(path)
    try:
        text.encode() if isinstance(text, str) else text.decode()
    except UnicodeError:
        start = f"{option}: the" if option else "The"
        problem = f"{start} the name of this file or folder is not in UTF-8."
        received = pasted(os.fsdecode(text))
        raise InputError(problem, received, "a name in UTF-8; rename it with mv") from None


def _for_shell(character: str) -> str:
    """A character inside of `$'...'`."""
    if character.isascii() and character.isprintable() and character not in "'\\":
        return character
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))


def nearest(name: str, names: Iterable[str]) -> str:
    """Suggests the known name closest to a misspelled one.

    Args:
        name: The unknown name.
        names: The known names. Upper and lower case are not distinguished.

    Returns:
        `" Did you mean 'x'?"` with a leading space, or an empty string if no name is close.
    """
    lowered = {str(n).lower(): str(n) for n in names}
    matches = difflib.get_close_matches(str(name).lower(), list(lowered), n=1, cutoff=0.6)
    return f" Did you mean '{lowered[matches[0]]}'?" if matches else ""
