"""What is called published: every such number of a page, script or docstring stands in
examples/published.toml.

The convention. In a table: the cells of a column whose head, and of a row whose first cell, says
"published" or "paper", and any cell that says so itself. In text: each sentence that says so. All
their numbers have to be values of a table of the file that names the heading or the Python file in
`said_in`; where the words of a row and its column make up the name of a value, of that value.
Years, arXiv numbers, figures, equations, sections and code count for no numbers, nor do 0, 1 and 2
in a sentence.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.scripts import example

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "userguide").rglob("*.md"))]
PROGRAMS = sorted(
    path for room in ("examples", "tati_re", "benchmarks") for path in (ROOT / room).rglob("*.py")
)
SAYS = re.compile(r"\b(published|papers?)\b", re.IGNORECASE)
NUMBER = re.compile(r"(?<![\w.^])\d[\d,]*(?:\.\d+)?(?:e\d+)?(?:·10[⁰¹²³⁴-⁹]+|[⁰¹²³⁴-⁹]+)?(?![\w²])")
NO_NUMBERS = re.compile(
    r"`[^`]*`|\]\([^)]*\)|\b(?:19|20)\d\d\b|\d+(?:-\d+)+|[A-Za-z]-\d+|arXiv \S+|> 0"
    r"|(?:[Ff]igures?|Figs?\.|[Ee]qs?\.|[Ss]ections?|Tables?|[Aa]lgorithm|Res\.) \d[\d.]*(?:(?: to | and |-)\d+)?"
)
POWERS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


def numbers(text: str) -> set[Decimal]:
    """The numbers of a text, without their signs."""
    found = set()
    for token in NUMBER.findall(NO_NUMBERS.sub(" ", text)):
        mantissa, power = re.fullmatch(r"([^·⁰¹²³⁴-⁹]*)(?:·10)?([⁰¹²³⁴-⁹]*)", token).groups()
        base = Decimal(mantissa.rstrip(",").replace(",", ""))
        exponent = int(power.translate(POWERS)) if power else 0
        found.add(base * 10**exponent if "·" in token or not power else base**exponent)
    return found


class Said(NamedTuple):
    """A cell or a sentence that calls numbers published: file and heading, words that say which,
    and the text.
    """

    place: str
    words: frozenset[str]
    text: str


def words(*cells: str) -> frozenset[str]:
    """The parts of cells between commas, colons and semicolons."""
    return frozenset(part.strip(" *`") for cell in cells for part in re.split(r"[,:;]\s", cell))


def in_text(text: str, place: str) -> Iterator[Said]:
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*[-*] )|\n(?=\s+\w+: )", text):
        lines = [line.strip() for line in paragraph.strip().splitlines()]
        if len(lines) > 2 and all(line.startswith("|") for line in lines):
            head, _, *rows = (
                [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines
            )
            for row in rows:
                where = f"examples/{row[0].strip('`')}" if row[0].endswith(".py`") else place
                for title, cell in zip(head, row, strict=True):
                    if SAYS.search(title) or SAYS.search(row[0]) or SAYS.search(cell):
                        yield Said(
                            where, words(title, *(other for other in row if other != cell)), cell
                        )
            continue
        for sentence in re.split(r"(?<=[^A-Z][.!?])\**\s+(?=[A-Z`*\"(])", " ".join(lines)):
            if SAYS.search(sentence):
                yield Said(place, frozenset(), sentence)


def in_page(text: str, name: str) -> Iterator[Said]:
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for part in re.split(r"^(?=#+ )", text, flags=re.MULTILINE):
        heading, _, rest = part.partition("\n")
        yield from in_text(rest, f"{name}#{heading.lstrip('# ')}")


def in_program(text: str, name: str) -> Iterator[Said]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from in_text(node.value, name)


def wrong(said: Said) -> set[Decimal]:
    """Its numbers that are in no table that may be said there, or not those of its row and
    column.
    """
    values = [
        (frozenset(words(key)), numbers(" ".join(value) if isinstance(value, list) else value))
        for table in TABLES.values()
        if said.place in table["said_in"]
        for key, value in (table["values"] | table.get("difference", {})).items()
    ]
    of_its_own = [found for key, found in values if key <= said.words]
    trivial = set() if said.words else {Decimal(0), Decimal(1), Decimal(2)}
    return (
        numbers(said.text) - trivial - set().union(*(of_its_own or (found for _, found in values)))
    )


script = example("published")
TABLES = {name: table for name, table in script.tables().items() if name != "sources"}


def test_published_numbers_are_those_of_the_file():
    found = []
    for path in [*PAGES, *PROGRAMS]:
        find = in_page if path.suffix == ".md" else in_program
        for said in find(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))):
            found += [(said.place, sorted(map(str, wrong(said))), said.text)] if wrong(said) else []
    assert not found, "not in examples/published.toml, or ours in a sentence about theirs"


def test_every_table_has_a_source_and_is_said_somewhere():
    sources = script.tables()["sources"]
    assert {table["source"] for table in TABLES.values()} == set(sources)
    places = {f"{path.relative_to(ROOT)}" for path in PROGRAMS} | {
        f"{path.relative_to(ROOT)}#{heading}"
        for path in PAGES
        for heading in re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    for name, table in TABLES.items():
        assert table["where"] and table["values"], name
        assert set(table["said_in"]) <= places, name
        for rows, value in table.get("difference", {}).items():
            more, less = (Decimal(table["values"][row]) for row in rows.split(" - "))
            assert more - less == Decimal(value), name


def test_scripts_hold_no_copies():
    """What they call published they read; a number in an assignment of that name would be a
    copy.
    """
    for path in (ROOT / "examples").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assign) and "published" in ast.unparse(node.targets[0]).lower():
                kinds = [
                    type(part.value)
                    for part in ast.walk(node.value)
                    if isinstance(part, ast.Constant)
                ]
                assert not {int, float} & set(kinds), f"{path.name}: {ast.unparse(node)}"


LSTM = "## Permuted labels and an LSTM: RENHD's networks, small\n"
TABLE = LSTM + "| | steps | published, % |\n|---|---|---|\n| SGLD | 2,400 | {} |\n"


def page_of(text: str) -> str:
    """The page whose heading a text begins with, as the tables of the file name it."""
    heading = text.partition("\n")[0].lstrip("# ")
    places = {place for table in TABLES.values() for place in table["said_in"]}
    return next(
        (place[: -len(heading) - 1] for place in places if place.endswith(f"#{heading}")), ""
    )


@pytest.mark.parametrize(
    ("text", "caught"),
    [
        (TABLE.format("88.25"), set()),
        (TABLE.format("88.52"), {"88.52"}),
        pytest.param(TABLE.format("88.31"), {"88.31"}, id="of the row above"),
        pytest.param(TABLE.format("87.38"), {"87.38"}, id="of CIFAR-10"),
        (LSTM + "Ours is 3. The published lead is 0.69 points.", set()),
        (LSTM + "The published lead, section 4, is 1.49 points.", {"1.49"}),
        (LSTM + "| published: SGHMC |\n|---|\n| 88.23 |\n", set()),
        (LSTM + "| what | % |\n|---|---|\n| published: SGHMC | 88.24 |\n", {"88.24"}),
        ("## Nowhere\nThe paper has 89.45 %.", {"89.45"}),
        ("## Replica-exchange HMC\n- The paper has it\n  near T = 1.\n- Ours is at 4.4.", set()),
        ("## Replica-exchange HMC\nThe paper has it near T = 3.", {"3"}),
        (
            "# A page\n| script | published |\n|---|---|\n| `resghmc_resnet.py` | 94.62 % (3·10⁵) |\n",
            set(),
        ),
        (
            "# A page\n| script | published |\n|---|---|\n| `resghmc_resnet.py` | 94.62 % (3·10⁴) |\n",
            {"3E+4"},
        ),
    ],
)
def test_wrong_numbers_are_caught(text, caught):
    found = set().union(*(wrong(said) for said in in_page(text, page_of(text))))
    assert found == {Decimal(number) for number in caught}


def test_a_docstring_is_read_as_a_page_is():
    text = (
        '"""Example.\n\nPublished: an LSTM of 129 units, by R. Luo.\n"""\nX = 3\n"""Not so: 7."""\n'
    )
    assert [wrong(said) for said in in_program(text, "examples/renhd_lstm.py")] == [{Decimal(129)}]
