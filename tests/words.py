"""Sentences of a page of Markdown, and the turns that mark translated text."""

from __future__ import annotations

import re

LONGEST = 35
"""Words that a sentence of the guide has at most."""

TURNS = {
    "that of": r"\bthat of\b",
    "those of": r"\bthose of\b",
    "beside": r"\bbeside\b",
    "likewise": r"\blikewise\b",
    "of its own": r"\bof (?:its|their|one's) own\b",
    "nobody": r"\b(?:nobody|somebody)\b",
    "is told": r"\b(?:is|are|was|were|be) told\b",
    "is said": r"\b(?:is|are|was|were|be) said\b",
    "tells of": r"\btells? of\b",
    "what is": r"\bwhat (?:is|are|was|were)\b",
    "which is none": r"\bwhich (?:is|are) none\b",
    "anew": r"\banew\b",
    "by itself": r"\bby (?:itself|themselves)\b",
    "has to": r"\b(?:has|have|had) to\b",
    "is no": r"(?<!there )\b(?:is|are) no\b(?! (?:longer|more|less|larger|smaller|better))",
    "as it stands": r"\bas (?:it stands|they stand|it comes|they come)\b",
    "hands on": r"\bhands? on\b",
    "goes by": r"\b(?:goes|go) by\b",
    "lifts": r"\blifts?\b",
    "Of a ladder": r"(?:^|[.!?] )Of (?:a|an|the|all|these|such)\b",
}
"""The turns that the guide avoids, and how they are found (in any case of letters)."""

END = r"(?<=[.!?])[\"*)]*\s+(?=[A-Z0-9α-ωΑ-Ω`*\"(\[])| · "
"""Where a sentence ends. A dot in the middle separates links."""

PATTERNS = {
    name: re.compile(pattern, 0 if name == "Of a ladder" else re.IGNORECASE)
    for name, pattern in TURNS.items()
}


def without_code(text: str) -> str:
    """A page without fenced blocks, indented blocks, figures and the addresses of links.

    Inline code counts as one word.
    """
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"(?:\A|\n)(?:\n    [^\n]*)+(?=\n)", "\n", text)
    text = re.sub(r"!?\[((?:[^\]`]|`[^`]*`)*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"`[^`]*`", "`code`", text)


def paragraphs(text: str) -> list[str]:
    """Paragraphs, items of lists, headings, and cells of tables, each on one line."""
    found = []
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=#+ )", without_code(text)):
        lines = [line.strip() for line in block.strip().splitlines()]
        rows = [line for line in lines if line.startswith("|")]
        for row in rows:
            found += [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        found.append(" ".join(line for line in lines if not line.startswith("|")))
    return [re.sub(r"^(?:[-*]|\d+\.|#+) ", "", part) for part in found if part]


def sentences(text: str) -> list[str]:
    """The sentences of a page, in order."""
    return [
        sentence
        for paragraph in paragraphs(text)
        for sentence in re.split(END, paragraph)
        if re.search(r"\w", sentence)
    ]


def words(sentence: str) -> int:
    """The words of a sentence; a formula between spaces counts as it is written."""
    return sum(1 for part in sentence.split() if re.search(r"\w", part))


def turns(text: str) -> list[tuple[str, str]]:
    """Each listed turn that a page has, with the sentence that it stands in."""
    return [
        (name, sentence)
        for sentence in sentences(text)
        for name, pattern in PATTERNS.items()
        for _ in pattern.findall(sentence)
    ]
