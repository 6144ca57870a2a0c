"""The code blocks of README and userguide run, page by page, as a reader would run them."""

from __future__ import annotations

import importlib
import re
import shlex
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", *sorted(f"userguide/{page.name}" for page in (ROOT / "userguide").glob("*.md"))]
BLOCK = re.compile(r'^```(python|console)(?: title="([^"]+)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[tuple[str, str, str]]:
    """Language, the file that the reader is to save it as (or an empty text), and the text itself."""
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


def run_command(line: str) -> None:
    program, *arguments = shlex.split(line)
    command = importlib.import_module(f"tati_re.cli.{program.removeprefix('tati-').replace('-', '_')}")
    assert command.main(arguments) == 0, line


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names: dict = {"__name__": "__main__"}
    for kind, file, text in blocks(page):
        if file:
            Path(file).write_text(text, encoding="utf-8")
            monkeypatch.delitem(sys.modules, Path(file).stem, raising=False)
        elif kind == "python":
            exec(compile(text, page, "exec"), names)
        else:
            for line in text.splitlines():
                run_command(line.removeprefix("$ "))


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            assert ((ROOT / page).parent / target).exists(), f"{page} points at {target}"
