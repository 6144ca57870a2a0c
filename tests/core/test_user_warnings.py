"""Each warning names the user's line, whatever stands between it and the package."""

import ast
import contextlib
import inspect
import types
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from joblib import Parallel, delayed

import tati_re
from tati_re.core import user_warnings
from tati_re.core.front_door import front_door

PACKAGE = Path(tati_re.__file__).parent

_INSIDE = """
import contextlib
from tati_re.core.user_warnings import warn_user

def warn():
    warn_user("a warning")

def deep(times):
    warn() if times == 0 else deep(times - 1)

@contextlib.contextmanager
def managed():
    warn()
    yield

def in_a_manager():
    with managed():
        pass

def calls(function):
    return function()
"""


@pytest.fixture(scope="module")
def inside() -> types.ModuleType:
    """A module of the package that warns in several ways."""
    module = types.ModuleType("tati_re.of_a_test")
    exec(compile(_INSIDE, str(PACKAGE / "of_a_test.py"), "exec"), vars(module))
    return module


def place_of(action: Callable[[], object]) -> tuple[str, int]:
    """File and line of the only warning of an action."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        action()
    assert len(seen) == 1
    return seen[0].filename, seen[0].lineno


@pytest.mark.parametrize(
    "between",
    [
        lambda inside: inside.warn(),
        lambda inside: inside.deep(7),
        lambda inside: inside.in_a_manager(),
        lambda inside: front_door(inside.warn)(),
        lambda inside: contextlib.ExitStack().enter_context(inside.managed()),
        lambda inside: Parallel(n_jobs=1)(delayed(inside.warn)() for _ in range(1)),
    ],
    ids=["direct", "deep", "context manager", "front door", "standard library", "library"],
)
def test_a_warning_names_the_line_of_the_user(inside, between):
    line = between.__code__.co_firstlineno
    assert place_of(lambda: between(inside)) == (__file__, line)


def test_the_innermost_line_of_the_user_is_named(inside):
    """A callback that leads to a warning is nearer than the call of the run that called it."""

    def callback():
        inside.deep(2)

    line = callback.__code__.co_firstlineno + 1
    assert place_of(lambda: inside.calls(callback)) == (__file__, line)


def test_a_thread_without_a_line_of_the_user_warns_too(inside):
    def run() -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(inside.warn).result()

    name, _ = place_of(run)
    assert not name.startswith(str(PACKAGE))


def test_a_warning_comes_once_for_each_line(inside):
    """By the default filter of Python, which asks for text and line."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in range(3):
            inside.warn()
        inside.warn()
    assert len(seen) == 2


def test_no_other_place_of_the_package_warns():
    """`warnings.warn` with a level counted by hand named a line of the package."""
    calls = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if path == Path(inspect.getfile(user_warnings)):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            is_warning = isinstance(node, ast.Attribute) and node.attr in ("warn", "warn_explicit")
            if is_warning and ast.unparse(node.value) == "warnings":
                calls.append(f"{path.name}:{node.lineno}")
            if isinstance(node, ast.ImportFrom) and node.module == "warnings":
                calls += [
                    f"{path.name}:{node.lineno}" for name in node.names if name.name == "warn"
                ]
    assert calls == []
