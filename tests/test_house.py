"""The house itself: which room may import which, and what every file keeps to."""

from __future__ import annotations

from pathlib import Path

from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[1]


def test_a_room_imports_only_rooms_below_it(capsys, monkeypatch):
    """The contract stands in pyproject.toml, with the view methods that are its only exceptions."""
    monkeypatch.chdir(ROOT)
    status = lint_imports(config_filename="pyproject.toml", no_cache=True, no_logo=True)
    assert status == 0, capsys.readouterr().out
