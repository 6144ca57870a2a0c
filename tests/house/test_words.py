"""The language of guide and package: no new turns of translated text, and no new long sentence.

words.toml has the numbers of each page, and of the strings of each room, that had some when the
count began. They only fall.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.strings import PACKAGE, counts, phrases, strings
from tests.words import LONGEST, sentences, turns, words

ROOT = Path(__file__).parents[2]
KNOWN = ROOT / "tests" / "words.toml"
MADE = {"userguide/options.md", "userguide/api.md"}
"""Pages that programs write from the texts of the package."""
PAGES = [
    "README.md",
    *sorted(
        name
        for path in (ROOT / "userguide").rglob("*.md")
        if (name := str(path.relative_to(ROOT))) not in MADE
    ),
]


def allowed(kind: str) -> dict[str, int]:
    return tomllib.loads(KNOWN.read_text(encoding="utf-8"))[kind]


@pytest.mark.parametrize("page", PAGES)
def test_no_new_turns_of_translated_text(page):
    """Say it plainly, see the table in words.py; where turns went, lower the number of the page."""
    found = turns((ROOT / page).read_text(encoding="utf-8"))
    listed = "\n".join(f"{name}: {sentence}" for name, sentence in found)
    assert len(found) <= allowed("turns").get(page, 0), listed


@pytest.mark.parametrize("page", PAGES)
def test_no_new_long_sentence(page):
    """Split it; where long sentences went, lower the number of the page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [sentence for sentence in sentences(text) if words(sentence) > LONGEST]
    assert len(found) <= allowed("long").get(page, 0), "\n\n".join(found)


@pytest.mark.parametrize("kind", ["turns", "long"])
def test_no_new_turns_and_long_sentences_in_strings(kind):
    """`python -m tests.strings` prints the numbers; where they fell, lower them in words.toml."""
    counts_of_strings = dict(zip(("turns", "long"), counts(), strict=False))[kind]
    known = tomllib.loads(KNOWN.read_text(encoding="utf-8"))["strings"][kind]
    assert set(known) <= set(counts_of_strings), "rooms without any: leave them out"
    above = {room: n for room, n in counts_of_strings.items() if n > known.get(room, 0)}
    assert above == {}


def test_strings_are_literals_that_people_read(tmp_path):
    path = tmp_path / "some.py"
    path.write_text(
        '"""A docstring of five words, and more."""\n'
        "def f(n):\n"
        '    """Another docstring of more than five words."""\n'
        '    print(f"It has to run {n} more steps. Then it ends.")\n'
        '    return "too short", "one two three four five; six"\n'
    )
    assert strings(path) == [
        "It has to run x more steps",
        "Then it ends.",
        "one two three four five",
        "six",
    ]


def avoided() -> list[str]:
    """The words of the last column of the glossary's table of terms."""
    text = (ROOT / "userguide" / "glossary.md").read_text(encoding="utf-8")
    table = text.partition("| term | means | not |\n|---|---|---|\n")[2].partition("\n\n")[0]
    return [word for row in table.splitlines() for word in row.split(" | ")[2][:-2].split(", ")]


TITLES = {"userguide/glossary.md", "userguide/bibliography.md"}
"""Pages that quote words of others."""


TITLES_OF_ARTICLES = (r"an efficient minibatch acceptance test",)
"""Words of others in docstrings."""


def avoided_in(text: str) -> list[str]:
    """The words that the glossary avoids and a text has, in the singular or the plural."""
    return [
        word
        for word in avoided()
        if re.search(rf"\b{re.escape(word)}s?\b", text, flags=re.IGNORECASE)
    ]


@pytest.mark.parametrize("page", [page for page in PAGES if page not in TITLES])
def test_one_term_for_each_thing(page):
    assert avoided_in(" ".join(sentences((ROOT / page).read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize(
    "room",
    sorted(path.name for path in PACKAGE.iterdir() if path.name not in ("__pycache__", "py.typed")),
)
def test_one_term_for_each_thing_in_strings(room):
    """Also in the messages, helps, labels and docstrings of the package."""
    files = sorted((PACKAGE / room).rglob("*.py")) or [PACKAGE / room]
    text = "\n".join(phrase for path in files if path.suffix == ".py" for phrase in phrases(path))
    for title in TITLES_OF_ARTICLES:
        text = re.sub(title, "", text, flags=re.IGNORECASE)
    assert avoided_in(text) == []


def test_avoided_words_are_found(tmp_path):
    path = tmp_path / "some.py"
    path.write_text(
        '"""Runs on the full\n    batch."""\n'
        'NAME = "warmup"\n'
        'def f(n):\n    return f"{n} rows of two test parts", "a long warm-up"\n'
    )
    assert avoided_in("\n".join(phrases(path))) == ["warm-up", "full batch", "test part"]
    assert avoided_in("The test parts a curtain; a full batchwise pass.") == ["test part"]


def test_the_table_of_terms_is_read():
    assert len(avoided()) > 15
    assert {"warm-up", "sample path", "verdict table"} <= set(avoided())


def test_the_list_names_no_page_that_is_gone():
    for kind in ("turns", "long"):
        assert set(allowed(kind)) <= set(PAGES)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("The error is that of the mean.", "that of"),
        ("It stands beside the others.", "beside"),
        ("Nobody chose it.", "nobody"),
        ("The run is told when to end.", "is told"),
        ("A step has to be short.", "has to"),
        ("Each has a seed of its own.", "of its own"),
        ("Of a ladder the rows are cold.", "Of a ladder"),
        ("| value | those of the target |", "those of"),
    ],
)
def test_a_turn_is_found(text, name):
    assert [found for found, _ in turns(text)] == [name]


def test_code_and_addresses_are_not_read():
    text = "```python\n# that of a\n```\n\n    beside\n\nSee [here](that of.md) and `is told`.\n"
    assert turns(text) == [] and sentences(text) == ["See here and `code`."]


def test_a_long_sentence_is_found_wherever_it_stands():
    long = " ".join(["word"] * 36)
    for text in (long, f"- {long}", f"| {long} | b |\n|---|---|", f"# {long}", f"Short. {long}"):
        text = text.replace("Short. word", "Short. Word")
        assert sum(words(sentence) > LONGEST for sentence in sentences(text)) == 1, text


def test_sentences_end_at_their_stops():
    text = "U is large. It falls, e.g. in 3.5 steps: see below. λ stays! 30 remain. One · two"
    assert len(sentences(text)) == 6
