"""One public path a name: what the manual, the examples and the benchmarks import, and the page
that lists it.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import pkgutil
import re
from pathlib import Path

import pytest

import tati_re

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("api", ROOT / "docs" / "api.py")
api = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(api)

PAGES = [ROOT / "README.md", *sorted((ROOT / "userguide").rglob("*.md"))]
OF_THE_ENGINE = ROOT / "examples" / "ladder_systems.py"
"""Noise of known variance in the engine itself, for tests and two experiments: no public door has
it.
"""
PROGRAMS = sorted(
    path
    for folder in ("examples", "benchmarks")
    for path in (ROOT / folder).glob("*.py")
    if path != OF_THE_ENGINE
)
BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
NOT_PYTHON = ("tati_re.cli",)
"""Commands, which pages and benchmarks start as `python -m`."""


def code_of(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return [text]
    if path.suffix == ".ipynb":
        return [
            "".join(cell["source"])
            for cell in json.loads(text)["cells"]
            if cell["cell_type"] == "code"
        ]
    return BLOCK.findall(text)


def is_public(path: str) -> bool:
    """Whether a dotted path is a room, or a public name of a room, or belongs to such a name."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        room = ".".join(parts[:length])
        if room in api.ROOMS:
            return length == len(parts) or parts[length] in api.exported(room)
    return False


def paths_used(code: str) -> set[str]:
    """Dotted paths below `tati_re` that code imports, or reaches through the name `tati_re`."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tati_re":
            found |= {f"{node.module}.{each.name}" for each in node.names}
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names if each.name.split(".")[0] == "tati_re"}
        elif isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            if re.fullmatch(r"tati_re(\.\w+)+", text):
                found.add(text)
    return found


@pytest.mark.parametrize(
    "path", [*PAGES, *PROGRAMS, *(ROOT / "examples").glob("*.ipynb")], ids=lambda path: path.name
)
def test_only_public_paths_are_used(path):
    used = {each for code in code_of(path) for each in paths_used(code)}
    if path.suffix == ".md":
        used |= set(re.findall(r"`(tati_re(?:\.\w+)+)", path.read_text(encoding="utf-8")))
    assert {
        each for each in used if not is_public(each) and not each.startswith(NOT_PYTHON)
    } == set()


def test_a_deeper_path_would_be_found():
    code = "import tati_re\nfrom tati_re.exchange.ladder import geometric\ntati_re.launch.run.Run"
    used = paths_used(code)
    assert {"tati_re.exchange.ladder.geometric", "tati_re.launch.run.Run"} <= used
    assert is_public("tati_re.exchange.geometric") and is_public("tati_re.Simulation.resume")
    assert not any(is_public(path) for path in used if path != "tati_re")


@pytest.mark.parametrize("room", api.ROOMS)
def test_every_public_name_is_there_and_says_what_it_is(room):
    module = api.module_of(room)
    modules = (
        {found.name for found in pkgutil.iter_modules(module.__path__)}
        if hasattr(module, "__path__")
        else set()
    )
    for name in api.exported(room):
        value = getattr(module, name)
        assert api.line_about(value), f"{room}.{name} has no docstring"
        hidden = (
            name in modules and not isinstance(value, type(ast)) and "lazy_names" in vars(module)
        )
        assert not hidden, f"importing the module {room}.{name} would hide the name"


def test_a_name_has_one_path():
    homes: dict[int, list[str]] = {}
    for room in api.ROOMS:
        for name in api.names_of(room):
            value = getattr(api.module_of(room), name)
            if callable(value) and room != "tati_re.coming_from_tati":
                homes.setdefault(id(value), []).append(f"{room}.{name}")
    assert [paths for paths in homes.values() if len(paths) > 1] == []


def test_the_package_shows_its_public_names_only():
    assert dir(tati_re) == sorted(tati_re.__all__)
    assert dir(tati_re.sklearn) == ["BayesianClassifier", "BayesianRegressor"]


def test_the_page_lists_all_names():
    assert api.PAGE.read_text(encoding="utf-8") == api.page(), "run: python docs/api.py"
