"""The tests that the quick suite leaves out, as each takes some seconds."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONG = tomllib.loads((ROOT / "tests" / "long.toml").read_text())


@pytest.mark.parametrize("path", LONG)
def test_long_tests_are_there(path):
    tree = ast.parse((ROOT / path).read_text())
    there = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    listed = {name.split("[")[0] for name in LONG[path]}
    assert listed <= there
