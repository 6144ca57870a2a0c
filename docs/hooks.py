"""What the site has beside the userguide: README, CONTRIBUTING, CHANGELOG, and a page of docstrings
for each room.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))
import api

ROOT = Path(__file__).parent.parent
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
}
COPIED = ("CITATION.cff",)
CODE = re.compile(r"<code>(tati_re(?:\.\w+)+)(\(\))?</code>")


def reference_page(room: str) -> str:
    """The docstrings of all public names of a room."""
    names = [name for name in api.names_of(room) if not name.startswith("__")]
    head = [f"# `{room}`\n", api.module_of(room).__doc__ or ""]
    return "\n".join([*head, *(f"\n::: {room}.{name}" for name in names)])


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, target in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8").replace("](userguide/", "](")
        for name, place in PAGES.items():
            text = text.replace(f"]({name}", f"]({place}")
        files.append(File.generated(config, target, content=text))
    for name in COPIED:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for room in api.ROOMS:
        files.append(File.generated(config, f"reference/{room}.md", content=reference_page(room)))
    return files


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The pages of docstrings are a part of the reading order of their own, made from the list of
    rooms.
    """
    config.nav.insert(-1, {"Docstrings": [f"reference/{room}.md" for room in api.ROOMS]})
    return config


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    for name, place in PAGES.items():
        markdown = markdown.replace(f"](../{name}", f"]({place}")
    if page.file.src_uri == "api.md":
        rows, room = [], ""
        for line in markdown.split("\n"):
            title = re.match(r"## .*`(tati_re[.\w]*)`", line)
            room = title[1] if title else room
            rows.append(re.sub(r"^\| `([a-zA-Z]\w*)` \|", rf"| [`\1`][{room}.\1] |", line))
        markdown = "\n".join(rows)
    return markdown


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """A public name in running text leads to its docstring."""
    return CODE.sub(r'<autoref identifier="\1" optional>\g<0></autoref>', html)
