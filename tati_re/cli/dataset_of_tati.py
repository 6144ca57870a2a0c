"""`tati-dataset` with the flags of TATi's writer and parser of data sets."""

from typing import Any

from tati_re.cli.arguments import Parser
from tati_re.core.errors import InputError
from tati_re.core.memory import check_free
from tati_re.options.representable import what_instead

WRITER = ("data_type", "dimension", "train_data_files", "test_data_files", "train_test_ratio")
"""Flags that only TATi's writer has; with one of them the command takes those of `TATiDatasetWriter`."""

_NUMBERS = {"data_type": (int, 3), "dimension": (int, 10), "noise": (float, 0.0), "train_test_ratio": (float, 0.5)}


def is_of_tati(argv: list[str]) -> bool:
    return any(text.split("=")[0] in [f"--{name}" for name in WRITER] for text in argv)


def write_as_tati(argv: list[str]) -> None:
    """Makes points of two classes, shuffles them, and writes them to training and test files."""
    typed = _parser().parse(argv)
    values = {name: _number(name, typed.get(name)) for name in _NUMBERS}
    seed = _number("seed", typed.get("seed", "0"), int)
    files = {part: typed.get(f"{part}_data_files", []) for part in ("train", "test")}
    ratio = values["train_test_ratio"]
    if not 0 <= ratio <= 1:
        raise InputError("--train_test_ratio is out of range.", ratio, "a part for training, from 0 to 1")
    count = round(ratio * values["dimension"])
    sizes = {"train": count, "test": values["dimension"] - count}
    for part, size in sizes.items():
        if size < len(files[part]):
            raise InputError(f"--{part}_data_files: fewer points than files.", size, "a larger --dimension")
        if size and not files[part]:
            what = f"--{part}_data_files is missing: --train_test_ratio {ratio:g} leaves {size} points for it."
            raise InputError(what, expected="files for them, or another ratio")
    from tati_re.coming_from_tati import ClassificationDatasets, split_into_files

    features, labels = ClassificationDatasets(seed).generate(values["dimension"], values["noise"], values["data_type"])
    for part, rows in (("train", slice(None, count)), ("test", slice(count, None))):
        if files[part]:
            split_into_files(features[rows], labels[rows], files[part])
            print(f"{sizes[part]} points to {' '.join(files[part])}")


def _parser() -> Parser:
    parser = Parser(prog="tati-dataset")
    for name in (*_NUMBERS, "seed"):
        parser.add_argument(f"--{name}", dest=name)
    for part in ("train", "test"):
        parser.add_argument(f"--{part}_data_files", dest=f"{part}_data_files", nargs="+")
    parser.add_argument("-v", dest="v", action="count")
    return parser


def _number(name: str, text: str | None, kind: Any = None) -> Any:
    kind, default = (kind, 0) if kind is not None else _NUMBERS[name]
    if text is None:
        return default
    try:
        value = kind(text)
    except ValueError:
        words = "an integer" if kind is int else "a number"
        raise InputError(f"--{name} has the wrong type.", text, words) from None
    if instead := what_instead(value, "float32"):
        raise InputError(f"--{name} is out of range.", text, f"a finite number, {instead}")
    if name == "dimension":
        check_free("--dimension", value, 100.0 * value, f"{value:,} points")
    return value
