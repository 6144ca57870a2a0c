"""The strings that a room of the package shows to people: all literals of five words and more.

Docstrings are left out. Parts of an f-string that are computed count as one word.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

from tests.words import PATTERNS, words

PACKAGE = Path(__file__).parents[1] / "tati_re"
FEWEST = 5
"""Words from which on a literal is a sentence for people."""
_STYLE = re.compile(r"\{[^{}]*: [^{}]*;")
"""A rule of a style sheet."""
LONGEST = 25
"""Words that a sentence of a message has at most."""


def _docstrings(tree: ast.AST) -> set[int]:
    """The ids of the nodes that are docstrings, those of attributes among them."""
    found = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", [])
        for part in body if isinstance(body, list) else []:
            if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):
                found.add(id(part.value))
    return found


def _text(node: ast.expr) -> str | None:
    """The text of a literal; None if the node is none."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "x" for part in node.values)
        return "".join(map(str, parts))
    return None


def _lists_of_words(tree: ast.AST) -> set[int]:
    """The ids of literals that the program splits at spaces: units, names of layers."""
    split = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "split"
    ]
    names = {node.id for node in split if isinstance(node, ast.Name)}
    named = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id in names
    ]
    return {id(node) for node in split + named}


def _literals(tree: ast.AST) -> list[ast.expr]:
    """All literals of a file, f-strings whole and without their parts."""
    inner = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node
    }
    return [node for node in ast.walk(tree) if isinstance(node, ast.expr) and id(node) not in inner]


def strings(path: Path) -> list[str]:
    """The sentences of a file: literals of at least five words, split at full stops.

    Docstrings, lists of words and style sheets are left out.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    left_out = _docstrings(tree) | _lists_of_words(tree)
    literals = [
        text
        for node in _literals(tree)
        if id(node) not in left_out
        if (text := _text(node)) is not None and words(text) >= FEWEST and not _STYLE.search(text)
    ]
    return [part for text in literals for part in text.replace("; ", ". ").split(". ") if part]


def phrases(path: Path) -> list[str]:
    """All literals of two words and more: messages, labels, titles, helps and docstrings.

    A single word is the name of an option or a file, or a word that a program of others expects.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    texts = [
        " ".join(text.split()) for node in _literals(tree) if (text := _text(node)) is not None
    ]
    return [text for text in texts if words(text) > 1]


def counts() -> tuple[Counter[str], Counter[str], int]:
    """Turns and long sentences of each room of the package, and the number of all sentences."""
    turns: Counter[str] = Counter()
    long: Counter[str] = Counter()
    number = 0
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for sentence in strings(path):
            number += 1
            turns[room] += sum(len(pattern.findall(sentence)) for pattern in PATTERNS.values())
            long[room] += words(sentence) > LONGEST
    return +turns, +long, number


if __name__ == "__main__":
    of_turns, of_long, total = counts()
    print(f"{total} sentences, {of_turns.total()} turns, {of_long.total()} long")
    print("[strings.turns]", *(f"{room} = {n}" for room, n in sorted(of_turns.items())), sep="\n")
    print("\n[strings.long]", *(f"{room} = {n}" for room, n in sorted(of_long.items())), sep="\n")
