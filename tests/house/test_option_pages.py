"""Each option stands on a page besides the table, each page in the navigation of the site, and the
version is dated.
"""

from __future__ import annotations

import re
from pathlib import Path

from tati_re import __version__
from tati_re.options.flags import flag
from tati_re.options.table import OPTIONS

ROOT = Path(__file__).parents[2]
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


def pages_of_the_site() -> list[str]:
    """The pages of the navigation, without the ending, in its order."""
    site = (ROOT / "docs" / "mkdocs.yml").read_text(encoding="utf-8")
    return re.findall(r"^      - (?:[^:\n]+: )?([\w/]+)\.md$", site, re.M)


def test_each_page_stands_once_in_the_navigation():
    made = ("index", "contributing", "changes")
    listed = [name for name in pages_of_the_site() if name not in made]
    guide = ROOT / "userguide"
    pages = [str(path.relative_to(guide).with_suffix("")) for path in guide.rglob("*.md")]
    assert sorted(listed) == sorted(pages)


def test_the_readme_leads_to_each_part_of_the_navigation():
    site = (ROOT / "docs" / "mkdocs.yml").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"userguide/([\w/]+)\.md", readme))
    parts = re.split(r"^  - ", site[site.index("nav:\n") :], flags=re.M)[1:]
    for part in parts:
        assert linked & set(re.findall(r"([\w/]+)\.md$", part, re.M)), part.partition("\n")[0]
