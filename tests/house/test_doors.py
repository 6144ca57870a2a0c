"""Doors between rooms that no import statement shows: what is imported by a string, or by a list of
names. The exceptions of the contract of layers are named here too.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator

from tests.house.test_house import ROOT, imports_of, parsed

CONTRACT = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
LAYERS = CONTRACT[0]["layers"]

WAYS_UP = [
    "tati_re.core.views -> tati_re.plotting",
    "tati_re.analysis -> tati_re.prediction.arviz",
]
"""Imports of a room above, which pyproject.toml names with their reasons."""

STRINGS_UP = {
    # Options ask constructors for the options of a sampler by its name, and load no other sampler.
    ("tati_re.options.families", "samplers"),
}
"""Files whose strings name modules of a room above, and that room."""

IMPORTERS = {
    "tati_re.cli.arguments": "TensorFlow, at the moment when the screen says so",
    "tati_re.cli.tati": "the command that was typed",
    "tati_re.core.lazy": "the public names of a room, from its own list",
    "tati_re.data.readers.registry": "the reader of a suffix, that of another package too",
    "tati_re.distributed.fork_server": "what its parent has imported",
    "tati_re.likelihoods.registry": "the likelihood of a name, that of another package too",
    "tati_re.options.user_code": "classes of users, and samplers by name",
}
"""Files that import a module by a name that they compute, and what they import."""


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def is_above(room: str, other: str) -> bool:
    """Whether a room stands above another one."""
    return LAYERS.index(room) < LAYERS.index(other)


def strings_up(module: str, tree: ast.AST) -> Iterator[tuple[str, str]]:
    """The rooms above a file that its strings name: `tati_re.room.file`, `tati_re.room.file:Name`,
    or the beginning of such a name.
    """
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            continue
        named = re.fullmatch(r"tati_re\.(\w+)[\w.]*(:\w*)?", node.value)
        if named and named[1] in LAYERS and is_above(named[1], room_of(module)):
            yield module, named[1]


def imports_by_name(tree: ast.AST) -> bool:
    """Whether a file calls, or hands on, a function that imports what a string says."""
    doors = ("import_module", "__import__")
    return any(
        (isinstance(node, ast.Attribute) and node.attr in doors)
        or (isinstance(node, ast.Name) and node.id in doors)
        or (isinstance(node, ast.alias) and node.name in doors)
        for node in ast.walk(tree)
    )


def names_its_exports(tree: ast.AST) -> bool:
    """Whether the names of a room are imported on first use, from a list that only types read."""
    return any(isinstance(node, ast.Name) and node.id == "lazy_names" for node in ast.walk(tree))


def in_rooms() -> dict[str, ast.Module]:
    return {name: tree for name, tree in parsed().items() if room_of(name) in LAYERS}


def test_the_ways_up_are_the_ones_that_are_named():
    assert CONTRACT[0]["ignore_imports"] == WAYS_UP


def test_strings_name_modules_of_no_room_above():
    found = {door for name, tree in in_rooms().items() for door in strings_up(name, tree)}
    assert found == STRINGS_UP


def test_files_that_import_by_name_are_known():
    assert {name for name, tree in parsed().items() if imports_by_name(tree)} == {*IMPORTERS}


def test_lists_of_names_take_from_no_room_above():
    """`import tati_re` is quick, since rooms load their names on first use; the linter leaves out
    imports for types, which these lists are.
    """
    modules = parsed()
    lists = {name: tree for name, tree in in_rooms().items() if names_its_exports(tree)}
    assert lists
    for name, tree in lists.items():
        taken = [*imports_of(tree, modules, types=True)]
        above = [each for each in taken if is_above(room_of(each), room_of(name))]
        assert above == [], name


def test_a_door_by_string_is_found():
    up = ast.parse('import importlib\nimportlib.import_module("tati_re.report.page")')
    down = ast.parse('named = {"a": "tati_re.core.views:drawn"}')
    assert [*strings_up("tati_re.runs.run", up)] == [("tati_re.runs.run", "report")]
    assert [*strings_up("tati_re.runs.run", down)] == []
    assert imports_by_name(up)
    assert not imports_by_name(down)
    assert imports_by_name(ast.parse("from importlib import import_module as got"))
