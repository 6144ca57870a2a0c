"""Names of a room, imported on first use, and what imports leave behind."""

import ast
import gc
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def lazy_names(room: str) -> tuple[Callable[[str], Any], list[str]]:
    """The `__getattr__` and the `__all__`, which `dir` shows, of the package `room`, whose names
    are imported on first use: those that it imports under `if TYPE_CHECKING:`, one list for type
    checkers, the API reference and the running program. No name may be that of another of its
    modules: importing the module would hide the name.
    """
    blocks = [node for node in _tree(room).body if isinstance(node, ast.If)]
    imports = [line for block in blocks for line in block.body if isinstance(line, ast.ImportFrom)]
    homes = {
        alias.asname or alias.name: (str(line.module), alias.name)
        for line in imports
        for alias in line.names
    }

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{room}' has no attribute '{name}'")
        home, original = homes[name]
        value = None if home == room else getattr(importlib.import_module(home), original, None)
        if value is None:
            value = importlib.import_module(f"{home}.{original}")
        setattr(sys.modules[room], name, value)
        return value

    vars(sys.modules[room])["__dir__"] = lambda: sorted(homes)
    return __getattr__, list(homes)


def names_exported(room: str) -> list[str]:
    """The `__all__` of the package `room`, which imports its names at once: those that it imports
    as themselves.
    """
    imports = [node for node in ast.walk(_tree(room)) if isinstance(node, ast.ImportFrom)]
    return sorted(
        alias.name for line in imports for alias in line.names if alias.asname == alias.name
    )


@contextmanager
def left_out(*names: str) -> Iterator[None]:
    """Packages that what is imported here does without, as if they were not installed; not what is
    there already.
    """
    loaded: dict[str, Any] = sys.modules
    absent = [name for name in names if name not in loaded]
    loaded.update(dict.fromkeys(absent))
    try:
        yield
    finally:
        for name in absent:
            del loaded[name]


@contextmanager
def uncollected() -> Iterator[None]:
    """Looks for no garbage meanwhile: TensorFlow is half a million objects, which each full
    collection visits anew.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def settled() -> None:
    """For a process of ours that has its imports: they are no garbage. Nor is most of what tracing
    makes: with Python's thresholds one second in fourteen of it goes into looking for some.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def _tree(room: str) -> ast.Module:
    return ast.parse(Path(str(sys.modules[room].__file__)).read_text(encoding="utf-8"))
