"""The code blocks of README and userguide run, page by page, as a reader would run them."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import shlex
import sys
from functools import reduce
from pathlib import Path

import numpy as np
import pytest

import tati_re
from tati_re.launch import goal
from tati_re.options.make import OPTIONS
from tati_re.options.tati_names import ALIASES

ROOT = Path(__file__).parents[2]
PAGES = [
    "README.md",
    *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "userguide").rglob("*.md")),
]
BLOCK = re.compile(
    r'^```(python|console)(?: title="([^"]+)")?\n(.*?)^```', re.MULTILINE | re.DOTALL
)


def blocks(page: str) -> list[tuple[str, str, str]]:
    """Language, the file that the reader is to save it as (or an empty text), and the text
    itself.
    """
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


def run_command(line: str) -> None:
    program, *arguments = shlex.split(line)
    command = importlib.import_module(
        f"tati_re.cli.{program.removeprefix('tati-').replace('-', '_')}"
    )
    assert command.main(arguments) == 0, line


LONG = {
    f"userguide/{name}.md"
    for name in (
        "analysis",
        "cluster",
        "coming_from_tati",
        "concepts",
        "convergence",
        "data",
        "defaults",
        "densities",
        "deploy",
        "ensemble",
        "evidence",
        "exchange",
        "exploration",
        "gotchas",
        "landscape",
        "learning_coefficient",
        "models",
        "optimizers",
        "others",
        "own_sampler",
        "predict_table",
        "prediction",
        "priors",
        "production",
        "replicas",
        "report",
        "resgld",
        "resume",
        "run_folder",
        "samplers",
        "simulation",
        "sklearn",
        "start",
        "swap_rules",
        "target",
        "tempering",
        "tutorial_images",
        "tutorial_ladder",
    )
}
"""Pages that sample for long; what they call is sampled in the tests of its own."""
WITH_CODE = [page for page in PAGES if blocks(page)]


def write_own_table(path: Path) -> None:
    """Such a table as a reader of README has: two columns and a class, not far from linear."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(120, 2))
    labels = (x @ [1.0, -0.5] + 0.7 * generator.normal(size=120) > 0).astype(int)
    np.savetxt(
        path, np.column_stack([x, labels]), "%.4g", ",", header="width,height,kind", comments=""
    )


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow) if page in LONG else page for page in WITH_CODE],
)
def test_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    if page == "README.md":
        write_own_table(tmp_path / "own.csv")
        monkeypatch.setattr(goal, "MAX_TIME", 10.0)
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


def named(node: ast.AST) -> str:
    """`tati_re.evidence.log_evidence` for such an expression, and nothing for others."""
    if isinstance(node, ast.Name):
        return node.id if node.id == "tati_re" else ""
    inner = named(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{inner}.{node.attr}" if inner else ""


@pytest.mark.parametrize("page", sorted(LONG))
def test_long_pages_name_options_that_exist(page):
    """Their code compiles, each keyword of a simulation or run, each flag, is an option or an
    argument there, and what they import or take from the package is in it.
    """
    for kind, _, text in blocks(page):
        if kind == "console":
            for line in text.splitlines():
                program, *arguments = shlex.split(line.removeprefix("$ "))
                flags = {
                    word.lstrip("-").replace("-", "_")
                    for word in arguments
                    if word.startswith("--")
                }
                assert program != "tati-sample" or flags <= {
                    *OPTIONS,
                    *ALIASES,
                    "quiet",
                    "print_config",
                    "trust",
                }, line
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("tati_re"):
                room = importlib.import_module(str(node.module))
                assert all(hasattr(room, name.name) for name in node.names), ast.unparse(node)
            if name := named(node):
                reduce(getattr, name.split(".")[1:], tati_re)
            if isinstance(node, ast.Call) and (called := ast.unparse(node.func)).endswith(
                (".sample", ".Simulation")
            ):
                rounds = (
                    inspect.signature(tati_re.Game.sample).parameters if "Game(" in called else ()
                )
                known = {"data", "callbacks", "observables", *OPTIONS, *ALIASES, *rounds}
                assert {word.arg for word in node.keywords if word.arg} <= known, called


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            assert ((ROOT / page).parent / target).exists(), f"{page} points at {target}"
