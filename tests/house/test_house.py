"""The house itself: which room may import which, and what every file keeps to."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_a_room_imports_only_rooms_below_it():
    """The contract stands in pyproject.toml, with two exceptions that are named there."""
    # A process of its own: it takes the standard streams of pytest for a terminal.
    program = "from importlinter.cli import lint_imports\nraise SystemExit(lint_imports(no_cache=True, no_logo=True))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@cache
def parsed() -> dict[str, ast.Module]:
    """The files of the package by their module names."""
    found = {}
    for path in sorted((ROOT / "tati_re").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ast.parse(
            path.read_text()
        )
    return found


def imports_of(tree: ast.AST, modules: Collection[str], types: bool = False) -> Iterator[str]:
    """The modules of the package that a file imports, those of its functions too; for the sake of
    `types` as well.
    """
    if not types and isinstance(tree, ast.If) and ast.unparse(tree.test).endswith("TYPE_CHECKING"):
        for node in tree.orelse:
            yield from imports_of(node, modules)
        return
    if isinstance(tree, ast.Import):
        yield from (name.name for name in tree.names if name.name in modules)
    if isinstance(tree, ast.ImportFrom):
        for name in tree.names:
            submodule = f"{tree.module}.{name.name}"
            if (found := submodule if submodule in modules else tree.module) in modules:
                yield found
    for node in ast.iter_child_nodes(tree):
        yield from imports_of(node, modules, types)


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """The groups of files that reach one another."""

    def reached(start: str) -> set[str]:
        seen, waiting = set(), [start]
        while waiting:
            for name in imports[waiting.pop()] - seen:
                seen.add(name)
                waiting.append(name)
        return seen

    reach = {name: reached(name) for name in imports}
    groups = {frozenset(b for b in reach[a] if a in reach[b]) for a in imports if a in reach[a]}
    return sorted(map(sorted, groups))


@pytest.mark.parametrize("types", [False, True])
def test_no_circles_of_files(types):
    """Whoever follows imports, those inside of functions too, comes to an end; for the sake of
    types as well, but for first files of rooms, which list names.
    """
    trees = {name: tree for name, tree in parsed().items() if not types or name.count(".") > 1}
    imports = {name: set(imports_of(tree, trees, types)) for name, tree in trees.items()}
    assert circles(imports) == []


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"d"}}) == [["b", "c"], ["d"]]


def test_a_class_name_stands_once():
    """`Corrected`, `Moments` or `Table` in two files would be told apart by their import lines
    alone.
    """
    names = [
        node.name
        for tree in parsed().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    assert sorted(name for name, count in Counter(names).items() if count > 1) == []


def test_the_top_of_the_package_holds_rooms():
    entries = [path for path in (ROOT / "tati_re").iterdir() if path.name != "__pycache__"]
    files = {path.name for path in entries if path.is_file()}
    assert files == {
        "__init__.py",
        "__main__.py",
        "_version.py",
        "coming_from_tati.py",
        "py.typed",
    }
    # What is left of a room that moved are files of Python's cache.
    rooms = {path for path in entries if path.is_dir() and [*path.glob("*.*")]}
    assert all((room / "__init__.py").exists() for room in rooms)


def test_reading_and_describing_runs_loads_no_tensorflow():
    """Files of runs, analysis, figures and the report start in a second where TensorFlow takes
    several.
    """
    program = (
        "import importlib, pkgutil, sys\n"
        "for room in ('options', 'data', 'runs', 'analysis', 'prediction', 'plotting', 'report'):\n"
        "    package = importlib.import_module(f'tati_re.{room}')\n"
        "    for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        if not module.name.endswith('__main__'):\n"
        "            importlib.import_module(module.name)\n"
        "            if 'tensorflow' in sys.modules:\n"
        "                sys.exit(module.name)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_script_beside_a_checkout_finds_the_package(tmp_path):
    """A checkout is a folder named tati_re, which Python takes for a package without a file."""
    where = importlib.util.find_spec("tati_re").origin
    installed = [sys.executable, "-c", "import importlib.metadata as m; m.version('tati_re')"]
    if subprocess.run(installed, cwd=tmp_path, capture_output=True).returncode:
        pytest.skip("the package is not installed")
    (tmp_path / "tati_re").mkdir()
    script = tmp_path / "script.py"
    script.write_text("import tati_re\nprint(tati_re.__file__)\n")
    done = subprocess.run(
        [sys.executable, script.name], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.strip() == where, done.stderr


def test_answers_are_declared_and_not_looked_for():
    """Methods, potentials and evaluations answer by contract; what is left asks layers of Keras and
    options by name.
    """
    calls = [
        node
        for tree in parsed().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("getattr", "hasattr")
    ]
    assert len(calls) < 70
