"""Each option stands on a page besides the table, each page in the order of the site, and the
version is dated.
"""

from __future__ import annotations

import re
from pathlib import Path

from tati_re import __version__
from tati_re.options.flags import flag
from tati_re.options.table import OPTIONS

ROOT = Path(__file__).parents[1]
TABLES = ("options.md", "api.md", "coming_from_tati.md")


def without_a_page(text: str) -> list[str]:
    return [
        name
        for name in OPTIONS
        if not re.search(rf"(?<![\w-])({name}|{flag(name)})(?![\w-])", text)
    ]


def test_each_option_stands_on_a_page_besides_the_table():
    pages = [path for path in (ROOT / "userguide").glob("*.md") if path.name not in TABLES]
    text = "\n".join(path.read_text(encoding="utf-8") for path in pages)
    assert without_a_page(text) == []
    assert without_a_page(text.replace("schedule_power", "schedule_powers")) == ["schedule_power"]


def test_the_version_is_dated_everywhere():
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    version, date = re.search(r"^## (\S+) - (\d{4}-\d\d-\d\d)$", changes, re.M).groups()
    assert (
        f"version: {version}\n" in cited
        and f"date-released: {date}\n" in cited
        and version == __version__
    )


def test_pages_are_in_the_order_of_the_site_and_the_readme():
    listed = re.findall(r"^      - (\w+)\.md$", (ROOT / "docs" / "mkdocs.yml").read_text(), re.M)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    linked = re.findall(r"userguide/(\w+)\.md\)", readme[readme.index("- First posterior") :])
    own = [name for name in listed if name not in ("contributing", "changes")]
    assert (
        sorted(own)
        == sorted(path.stem for path in (ROOT / "userguide").glob("*.md"))
        == sorted(set(linked))
    )
