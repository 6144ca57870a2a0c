"""Odd values: of each option by its type, of data files, of TOML files and of arguments in
Python.
"""

from __future__ import annotations

import datetime
import io
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import numpy as np
from hypothesis import strategies as st

from tati_re.options.make import OPTIMIZE, OPTIONS, SAMPLE, options_of

ROWS = [
    (0.5, -1.25, 1),
    (1.5, 0.25, 0),
    (-0.75, 2.0, 1),
    (0.1, 0.2, 0),
    (2.5, -0.5, 1),
    (-1.0, 1.0, 0),
]
TEXTS = [
    "",
    " ",
    "none",
    "auto",
    "all",
    "a",
    "1",
    "-",
    "--",
    "x=1",
    "ä",
    "\u202e",
    "𝒩",
    "a\nb",
    "a\tb",
    "\x1b[1m",
    "*",
    "%s",
]
TEXTS += [".", "data.csv", "data.csv/a", "folder", "a" * 300, "{}", "[1]", "a:b", "\udc80"]
NUMBERS = [
    "0",
    "1",
    "2",
    "3",
    "-1",
    "0.5",
    "1e-3",
    "1e-320",
    "1e300",
    "nan",
    "inf",
    "-inf",
    "1_000",
    "0x10",
    "٣",
    "1e",
    "²",
]
NUMBERS += [
    str(2**31),
    str(2**63 - 1),
    str(2**63),
    "9" * 40,
    "-" + "9" * 40,
    "1,5",
    "true",
    "1.0",
    "+2",
    "1e18",
    "1e19",
]
# Long runs and large networks are no odd values: their cost is that of what was asked for.
LONG = {"num_steps", "max_time", "descent_steps", "threads"}
NOT = {"resume", "overwrite"}

texts = st.one_of(st.sampled_from(TEXTS), st.sampled_from(NUMBERS), st.text(max_size=12))
numbers = st.one_of(
    st.sampled_from(NUMBERS), st.integers(-3, 9).map(str), st.floats(width=32).map(repr)
)


def names(annotation: Any) -> list[str]:
    """The words that an option takes."""
    if get_origin(annotation) is Literal:
        return [
            str(value).lower() if isinstance(value, bool) else str(value)
            for value in get_args(annotation)
        ]
    if get_origin(annotation) in (Union, types.UnionType, Annotated):
        return [name for part in get_args(annotation) for name in names(part)]
    return ["true", "false"] if annotation is bool else []


def is_number(annotation: Any) -> bool:
    parts = get_args(annotation)
    return annotation in (int, float) or any(
        is_number(part) for part in parts if not isinstance(part, str)
    )


def values_of(name: str) -> st.SearchStrategy[str]:
    """What may be typed for an option."""
    annotation = OPTIONS[name].annotation
    known = names(annotation)
    kinds = [texts, numbers, numbers] if is_number(annotation) else [texts]
    kinds = kinds + ([st.sampled_from(known)] * 2 if known else [])
    # Nothing outside of the folder of the test is written.
    found = st.one_of(*kinds).filter(
        lambda text: not text.startswith(("/", "~")) and ".." not in text
    )
    if name in LONG:
        return found.filter(lambda text: not text.strip().lstrip("+").replace("_", "")[1:])
    if is_number(annotation):  # a few, or more than any computer has
        return found.filter(lambda text: not 50 < (number(text) or 0) < 1e12)
    return found


def number(text: str) -> float | None:
    try:
        return abs(float(text))
    except ValueError:
        return None


@st.composite
def options_typed(draw: Any, groups: tuple[str, ...] = SAMPLE) -> list[list[str]]:
    """One to three options as they are typed, each a flag with its values."""
    chosen = draw(
        st.lists(
            st.sampled_from(sorted(set(options_of(groups)) - NOT)),
            min_size=1,
            max_size=3,
            unique=True,
        )
    )
    typed = []
    for name in chosen:
        flag = "--" + name.replace("_", "-")
        many = "list" in str(OPTIONS[name].annotation)
        values = draw(st.lists(values_of(name), min_size=1, max_size=3 if many else 1))
        if len(values) == 1 and draw(st.booleans()):
            typed.append([f"{flag}={values[0]}"])
        else:
            typed.append([flag, *values])
    return typed


commands = st.one_of(
    st.tuples(st.just("sample"), options_typed()),
    st.tuples(st.just("optimize"), options_typed(OPTIMIZE)),
)

# Data files

CELLS = [
    "",
    " ",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "1e308",
    "x",
    "0x1",
    "1,5",
    "٣",
    "1_0",
    '"',
    '""',
    '"a',
    "'",
    "\x00",
    "#",
    "-",
    "+",
]
CELLS += [
    "true",
    "1;2",
    "1 2",
    "\t",
    "ä",
    "=1+1",
    "9" * 400,
    "7" * 300_000,
    "1" + "0" * 5000,
    "1e",
    "--1",
    "\ufeff1",
    "\u2028",
    "\r",
]
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "latin-1", "utf-32", "cp037"]


@st.composite
def tables(draw: Any) -> bytes:
    """A text file of columns with some damage."""
    rows = [list(map(str, row)) for row in draw(st.sampled_from([ROWS, ROWS[:1], ROWS * 4, []]))]
    header = draw(
        st.sampled_from(
            [["x1", "x2", "label"], ["a", "a", "label"], ["", "b", "c"], ["=1+1", "@x", "y"], []]
        )
    )
    lines = ([header] if header else []) + rows
    for _ in range(draw(st.integers(0, 3))):
        if not lines:
            break
        i = draw(st.integers(0, len(lines) - 1))
        kind = draw(st.sampled_from(["cell", "cell", "cell", "fewer", "more", "empty", "twice"]))
        if kind == "cell" and lines[i]:
            lines[i][draw(st.integers(0, len(lines[i]) - 1))] = draw(
                st.one_of(st.sampled_from(CELLS), st.text(max_size=5))
            )
        elif kind == "fewer":
            lines[i] = lines[i][:-1]
        elif kind == "more":
            lines[i] = [*lines[i], "1"]
        elif kind == "empty":
            lines.insert(i, [])
        else:
            lines.insert(i, list(lines[i]))
    comma = draw(st.sampled_from([",", ",", ",", ";", "\t", " ", "|", ", "]))
    end = draw(st.sampled_from(["\n", "\n", "\n", "\r\n", "\r", "\n\n"]))
    content = (
        end.join(comma.join(line) for line in lines) + draw(st.sampled_from([end, ""]))
    ).encode(draw(st.sampled_from(["utf-8", "utf-8", "utf-8", *ENCODINGS])), "replace")
    return damaged(draw, content)


def damaged(draw: Any, content: bytes) -> bytes:
    """Bytes as they are, cut short, or with some that are others."""
    kind = draw(st.sampled_from(["none", "none", "none", "cut", "byte", "nul"]))
    place = draw(st.integers(0, len(content)))
    if kind == "cut":
        return content[:place]
    if kind in ("byte", "nul"):
        instead = bytes([draw(st.integers(0, 255))]) if kind == "byte" else bytes(8)
        return content[:place] + instead + content[place + 1 :]
    return content


ARRAYS = [
    np.array([row[:2] for row in ROWS]),
    np.array([row[2] for row in ROWS]),
    np.array([row[2] for row in ROWS], np.uint64) + np.uint64(2**63),
    np.zeros((6, 0)),
    np.zeros((0, 2)),
    np.zeros(()),
    np.zeros((6, 2, 2, 1), np.uint8),
    np.full((6, 2), np.nan),
    np.full((6, 2), 1e300),
    np.zeros((6, 2), complex),
    np.array([["a", "b"]] * 6),
    np.array([[b"a"]] * 6),
    np.zeros(6, [("a", float)]),
    np.arange(6).astype("M8[D]"),
    np.eye(6, 3),
    np.ones((6, 2), np.float16),
    np.ones((6, 2), np.longdouble),
    np.ones((6, 2), ">f4"),
    np.array([0, 57] * 3),
    np.array([0, 1, -1] * 2),
    np.ones(6, bool),
]


@st.composite
def archives(draw: Any) -> bytes:
    """An NPZ file with odd arrays, perhaps under other names, perhaps damaged."""
    keys = draw(
        st.sampled_from(
            [["x_train", "y_train"], ["x_train"], ["a", "b"], ["x_train", "y_train", "x_test"], []]
        )
    )
    first = [draw(st.sampled_from(ARRAYS)) for _ in keys]
    if draw(st.booleans()):
        first[:2] = ARRAYS[:2][: len(first)]
    if keys and draw(st.integers(0, 9)) == 0:
        first[0] = np.array([None, {}], object)
    file = io.BytesIO()
    np.savez(file, **dict(zip(keys, first, strict=True)))
    return damaged(draw, file.getvalue())


VALUES = [
    "[]",
    "[1, 2]",
    "{}",
    "{a = 1}",
    "1979-05-27",
    "07:32:00",
    '"a"',
    "''",
    "[[1]]",
    '["a", 1]',
    "0xff",
    "1e1000",
]


@st.composite
def tomls(draw: Any) -> bytes:
    """A TOML file of options, with values of wrong types and damage."""
    lines = []
    for _ in range(draw(st.integers(0, 3))):
        name = draw(st.sampled_from(sorted(set(options_of(SAMPLE)) - NOT - LONG)))
        value = draw(
            st.one_of(
                values_of(name),
                st.sampled_from(
                    [
                        "[]",
                        "[1, 2]",
                        "{}",
                        "{a = 1}",
                        "1979-05-27",
                        "07:32:00",
                        '"a"',
                        "''",
                        "[[1]]",
                        '["a", 1]',
                        "0xff",
                        "1e1000",
                        "inf",
                    ]
                ),
            )
        )
        quoted = draw(st.sampled_from([value, value, repr(value), f'"{value}"', f"[{value}]"]))
        lines.append(
            draw(
                st.sampled_from(
                    [f"{name} = {quoted}"] * 4 + [f"[{name}]", f"[[{name}]]", name, f"{name} = "]
                )
            )
        )
    return damaged(draw, "\n".join(lines).encode("utf-8", "surrogateescape"))


files = st.one_of(
    st.tuples(st.sampled_from(["a.csv", "a.csv", "a.txt"]), tables()),
    st.tuples(st.just("a.npz"), archives()),
    st.tuples(st.just("a.toml"), tomls()),
    st.tuples(
        st.sampled_from(["a.parquet", "a.tfrecord", "a.csv", "a.npz", "a.keras"]),
        st.binary(max_size=60),
    ),
)

# Arguments in Python


class Strange:
    """An object with nothing that is asked for."""

    def __repr__(self) -> str:
        return "Strange()"


OBJECTS: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2**70,
    0.5,
    float("nan"),
    float("inf"),
    1j,
    "",
    "a",
    "none",
    b"a",
]
OBJECTS += [
    (),
    [],
    {},
    set(),
    [[]],
    [None],
    {"a": 1},
    {"a": "b"},
    {1: 2},
    dict,
    int,
    object(),
    Strange(),
    Strange,
]
OBJECTS += [
    print,
    len,
    lambda: 1,
    lambda x: x,
    lambda x, y: 1.0,
    lambda *x: 1 / 0,
    range(3),
    datetime.date(2020, 1, 1),
]
OBJECTS += [
    np.float32(0.5),
    np.int64(2),
    np.bool_(True),
    np.nan,
    np.array(3),
    *ARRAYS,
    np.ma.masked,
    ...,
]
OBJECTS += [
    np.ma.masked_array([1.0, 2.0], [0, 1]),
    [1, [2, 3]],
    [np.zeros(2), np.zeros(3)],
    "\0",
    "\udc80",
    "a" * 5000,
]
FREE = sorted(set(OPTIONS) - NOT - LONG)
IN_A_CALL = [
    "observables",
    "callbacks",
    "starts",
    "sampler",
    "optimizer",
    "loss",
    "prior",
    "directions",
    "mass",
]
IN_A_CALL += ["step_schedule", "temperature_schedule", *FREE]
OF_A_VALUE = ["predict", "parameters", "momenta", "load", "resume", "from_folder"]

objects = st.sampled_from(OBJECTS)
arguments = st.one_of(
    st.tuples(st.just("Simulation"), st.sampled_from(FREE), objects),
    st.tuples(
        st.sampled_from(["sample", "fit"]),
        st.sampled_from([*IN_A_CALL, *sorted(set(OPTIONS) - NOT - LONG)]),
        objects,
    ),
    st.tuples(st.just("data"), st.sampled_from(["x", "y", "pair", "test", "weights"]), objects),
    st.tuples(
        st.sampled_from(["predict", "parameters", "momenta", "load", "resume", "from_folder"]),
        st.just(""),
        objects,
    ),
)
