"""What the folder of a run asks for beyond itself: code to run and files to write. A folder may
come from someone else. Its options are made here, and what they ask for is done where the caller
says that the folder is trusted, or names it again.
"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.options.families import FAMILIES
from tati_re.options.make import make_options
from tati_re.options.table import Options
from tati_re.options.user_code import is_code

CODE = ("sampler", "model", "potential", "simulate")
"""Options that may name code: a file or module, a colon, and a name in it."""
WRITTEN = ("run_file", "averages_file", "trajectory_file", "save_model", "tensorboard")
"""Options that name what a run writes beside its folder."""
TRUST = (
    "run code named in the run folder and write the files it names outside, as for a folder "
    "of your own"
)
"""Help of the flag --trust."""


def options_of_folder(
    values: Mapping[str, Any],
    folder: AnyPath,
    who: str,
    trust: bool = False,
    again: Collection[str] = (),
    **overrides: Any,
) -> Options:
    """The options of a run folder, unless they name code or outside files that are not trusted.

    Args:
        values: The stored options by name.
        folder: The folder.
        who: The call, which begins the message.
        trust: Whether the caller trusts the folder. Default: False.
        again: Names of options that the caller has given again, which are therefore known. Default:
            none.
        **overrides: Options in place of the stored ones.

    Raises:
        InputError: The options name code or files outside of the folder, or `trust` is not a
            boolean.
    """
    refuse_if(
        not isinstance(trust, bool), "trust has the wrong type.", repr(trust), "True or False"
    )
    options = make_options(values, **overrides)
    if not trust:
        code_options = outside_references(options, Path(folder))
        refuse_untrusted(
            {name: text for name, text in code_options.items() if name not in again}, folder, who
        )
    return options


def outside_references(options: Options, folder: Path) -> dict[str, str]:
    """Code, and files outside of the folder that a run would write, by the option that names them.

    A sampler that an installed package has registered has a name without a module. The user who
    installed the package chose it, so it is not listed.

    Args:
        options: The options of the run.
        folder: The folder of the run.
    """
    code_options = {
        n: t
        for n, t in options.values_of(CODE).items()
        if is_code(t) and t not in FAMILIES.values()
    }
    inside = folder.resolve()
    for name, text in options.values_of(WRITTEN).items():
        if text is not None and not Path(text).resolve().is_relative_to(inside):
            code_options[name] = text
    return code_options


def refuse_untrusted(code_options: Mapping[str, str], folder: AnyPath, who: str) -> None:
    """Refuses a folder that asks for code or outside files.

    Args:
        code_options: What the folder names, by option, and is neither known nor trusted. Nothing is
            refused if it is empty.
        folder: The folder, for the message.
        who: The call, which begins the message.

    Raises:
        InputError: `code_options` has entries.
    """
    if not code_options:
        return
    kinds = ["code to run"] if set(code_options) & set(CODE) else []
    kinds += ["files to write outside of it"] if set(code_options) & set(WRITTEN) else []
    problem = f"{who}: the folder {os.fspath(folder)} names {' and '.join(kinds)}."
    expected = f"trust=True (--trust) if you trust it, or {' and '.join(code_options)} given again"
    raise InputError(
        problem,
        received=", ".join(f"{name} = {text!r}" for name, text in code_options.items()),
        expected=expected,
    )
