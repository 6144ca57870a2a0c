"""The reader of TOML, and of JSON, for files that others may have made: with a limit for the size,
for nesting, and for what would take far more memory than the file has bytes.
"""

import json
import re
import tomllib
from typing import Any

from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.files.regular import regular_bytes

MOST_TOML = 16_000_000
"""Bytes of a TOML file."""
MOST_JSON = 256_000_000
"""Bytes of a JSON text, such as the configuration of a model or what a checkpoint says of a run."""
DEEPEST = 64
"""Levels of tables and arrays inside each other, and parts of a dotted key."""
MOST_TABLES = 200_000
"""Tables, arrays and parts of keys in a file, each of which takes up to a kilobyte."""
MOST_VALUES = 1_000_000
"""Values that commas separate, each of which takes some microseconds and a hundred bytes."""
MOST_BITS = 1024
"""Bits of an integer: what is larger has no floating-point number."""

_KEY = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]++|\\.)*+"|'[^'\n]*+')"""
_TOKEN = re.compile(
    r"(?P<skip>\#[^\n]*+"
    r'|"""(?:[^"\\]++|\\[\s\S]|"(?!""))*+(?:"{3,5}|\Z)'
    r"|'''(?:[^']++|'(?!''))*+(?:'{3,5}|\Z))"
    rf"|(?P<key>{_KEY}(?:[ \t]*+\.[ \t]*+{_KEY})*+)(?P<equals>[ \t]*+=)?+"
    r"|(?P<open>[\[{])|(?P<close>[\]}])|(?P<comma>,)"
)
_STRINGS = re.compile(r""""(?:[^"\\\n]++|\\.)*+"|'[^'\n]*+'""")


def read_toml_file(path: AnyPath, size: int = MOST_TOML) -> dict[str, Any]:
    """The content of a TOML file.

    Args:
        path: The file.
        size: Most bytes that it may have. Default: 16 MB.

    Returns:
        Its tables and values.

    Raises:
        InputError: The file is not a regular one, too large, nested too deeply, not in UTF-8, or
            not valid TOML.
        OSError: It is missing, or may not be read.
    """
    content = regular_bytes(path, size)
    try:
        return toml_of(content.decode())
    except (ValueError, RecursionError) as error:
        problem = f"The file {path} cannot be read: {reason_of(error)}."
        raise InputError(problem, expected="valid TOML in UTF-8") from None


def toml_of(text: str) -> dict[str, Any]:
    """The content of a TOML text; a `ValueError` where it is not valid or beyond the limits. Lines
    may also end as in old files of Macs.
    """
    if "\r" in text and "\n" not in text:
        text = text.replace("\r", "\n")
    _check_nesting(text)
    content = tomllib.loads(text)
    _check_values(content)
    return content


def json_of(content: str | bytes, most: int = MOST_JSON) -> Any:
    """The content of a JSON text.

    Args:
        content: The text, in UTF-8 where it is bytes.
        most: Largest length. Default: 256 MB.

    Returns:
        Lists, dictionaries, texts and numbers.

    Raises:
        ValueError: It is too long, nested too deeply, or not valid.
    """
    if len(content) > most:
        raise ValueError(f"its JSON has {len(content):,} bytes; the limit is {most:,}")
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None


def read_json_object(path: AnyPath) -> dict[str, Any]:
    """The object in a JSON file, of 16 MB at most; errors as those of `read_toml_file`."""
    content = regular_bytes(path, MOST_TOML)
    try:
        parsed = json_of(content)
    except ValueError as error:
        raise InputError(
            f"The file {path} cannot be read: {reason_of(error)}.", expected="valid JSON in UTF-8"
        ) from None
    refuse_if(not isinstance(parsed, dict), f"The file {path} holds no JSON object.")
    return parsed


def reason_of(error: BaseException) -> str:
    """Why a text was not read, in a few words."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if "integer string conversion" in str(error):
        return "an integer has thousands of digits"
    return str(error).split("\n")[0].rstrip(".")


def _check_nesting(text: str) -> None:
    """Counts tables, keys and values before they are made: the parser takes the square of the parts
    of a dotted key in time and memory, and a kilobyte for each table.
    """
    depth = tables = values = 0
    for token in _TOKEN.finditer(text):
        if token["open"]:
            depth += 1
            tables += 1
        elif token["close"]:
            depth -= 1
        elif token["key"]:
            dots = _dots(token["key"])
            if dots >= DEEPEST:
                raise ValueError(f"a key has more than {DEEPEST} parts")
            if token["equals"]:
                tables += dots + 1
            elif dots > 1:  # a single dot may be that of a number
                tables += dots
        elif token["comma"]:
            values += 1
        if depth > DEEPEST:
            raise ValueError(f"tables or arrays are nested more than {DEEPEST} times")
        if tables > MOST_TABLES:
            raise ValueError(f"it has more than {MOST_TABLES:,} tables, arrays and parts of keys")
        if values > MOST_VALUES:
            raise ValueError(f"its lists have more than {MOST_VALUES:,} values")


def _dots(key: str) -> int:
    if '"' in key or "'" in key:
        key = _STRINGS.sub("", key)
    return key.count(".")


def _check_values(value: Any) -> None:
    """Refuses integers that no floating-point number is near to: to print them fails."""
    if isinstance(value, dict):
        for item in value.values():
            _check_values(item)
    elif isinstance(value, list):
        for item in value:
            _check_values(item)
    elif isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise ValueError(f"an integer has {value.bit_length():,} bits, more than {MOST_BITS:,}")
