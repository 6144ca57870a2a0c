"""The numbers of other people's papers, from published.toml beside this file."""

from __future__ import annotations

import tomllib
from decimal import Decimal
from pathlib import Path

FILE = Path(__file__).with_name("published.toml")


def tables() -> dict:
    """The whole file."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def published(name: str) -> dict:
    """The values of one table, by row: texts, or lists of them, as they are printed there."""
    return tables()[name]["values"]


def number(text: str) -> float:
    """A printed number; a percentage as a part of 1."""
    value = Decimal(text.removesuffix("%").replace(",", ""))
    return float(value / 100 if text.endswith("%") else value)
