"""Pieces of a self-contained page: text, tables and figures."""

import base64
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape as escaped
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from tati_re.core.printable import printable

DPI = 120
_LONG = 24
MOST_ROWS = 40
"""Rows of a table that are shown."""


def escape(text: str) -> str:
    """A text of the page; control characters, and those that turn its direction, are written."""
    return escaped(printable(text))


@dataclass
class Section:
    title: str
    anchor: str
    parts: list[str] = field(default_factory=list)

    def html(self) -> str:
        return (
            f'<section id="{escape(self.anchor)}"><h3>{escape(self.title)} <a class="top" href="#top">top</a></h3>\n'
            + "\n".join(self.parts)
            + "</section>"
        )


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of plain text.

    Args:
        text: The text, which is escaped.
        kind: Class of the page's style. Default: none.
    """
    attribute = f' class="{kind}"' if kind else ""
    return f"<p{attribute}>{escape(text)}</p>"


def bullets(
    sentences: Iterable[str], kind: str = "", links: Mapping[str, tuple[str, str]] | None = None
) -> str:
    """A list of sentences.

    Args:
        sentences: The sentences, which are escaped.
        kind: Class of the page's style. Default: none.
        links: By sentence, title and anchor of the part of the page that shows its subject.
            Default: None, no links.
    """
    attribute = f' class="{kind}"' if kind else ""
    after = {
        text: f' <a href="#{escape(place)}">{escape(title)}</a>'
        for text, (title, place) in (links or {}).items()
    }
    items = [escape(text) + after.get(text, "") for text in sentences]
    return f"<ul{attribute}>" + "".join(f"<li>{item}</li>" for item in items) + "</ul>"


def pairs(lines: Iterable[tuple[str, str]]) -> str:
    """Labels and values; double spaces within a value become commas."""
    parts = [
        f"<dt>{escape(label)}</dt><dd>{escape(value.replace('  ', ', '))}</dd>"
        for label, value in lines
    ]
    return "<dl>" + "".join(parts) + "</dl>"


def html_table(table: pd.DataFrame, columns: Sequence[str] | None = None) -> str:
    """A table of up to 40 rows, scrolled sideways if wider than the page.

    Args:
        table: The table.
        columns: Names of the columns to show. Default: None, all.
    """
    visible = table[list(columns)] if columns else table
    head = "".join(f"<th>{escape(str(name).replace('_', ' '))}</th>" for name in visible.columns)
    rows = ["".join(map(_cell, row)) for row in visible.head(MOST_ROWS).itertuples(index=False)]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    more = (
        f"<p class='small'>and {len(visible) - MOST_ROWS:,} more rows</p>"
        if len(visible) > MOST_ROWS
        else ""
    )
    table_html = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide" tabindex="0">{table_html}</div>{more}'


def figure(
    drawn: Figure, caption: str, width: float | None = None, height: float | None = None
) -> str:
    """A figure as an embedded image.

    Args:
        drawn: The figure, which keeps the new size.
        caption: The caption, which is also the text in place of the image.
        width: Width in inches. Default: None, the width of the figure.
        height: Height in inches. Default: None, the height of the figure.
    """
    drawn_size = drawn.get_size_inches()
    drawn.set_size_inches(width or drawn_size[0], height or drawn_size[1])
    content = io.BytesIO()
    drawn.savefig(content, format="png", dpi=DPI)
    return image(content.getvalue(), caption, drawn.get_size_inches()[0] > 6, "drawn")


def image(content: bytes, caption: str, wide: bool = False, kind: str = "found") -> str:
    """An embedded PNG image.

    Args:
        content: The bytes of the PNG file.
        caption: The caption, which is also the text in place of the image.
        wide: Whether the image takes the width of the page. Default: False.
        kind: "drawn" for lines on white, which turn dark with the page, or "found". Default:
            "found".
    """
    data = base64.b64encode(content).decode()
    kind = f"{kind} broad" if wide else kind
    text = escape(caption)
    picture = f'<img alt="{text}" src="data:image/png;base64,{data}">'
    return f'<figure class="{kind}">{picture}<figcaption>{text}</figcaption></figure>'


def figures(drawn: Sequence[str]) -> str:
    return '<div class="figures">' + "\n".join(drawn) + "</div>" if drawn else ""


def fold(title: str, content: str) -> str:
    """A part of a page that opens at a click.

    Args:
        title: The title, which is always visible and is escaped.
        content: The content, HTML.
    """
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def document(title: str, body: str, kind: str = "") -> str:
    """A complete page with its style.

    Args:
        title: The title, which is escaped.
        body: The content, HTML.
        kind: Class of the body in the page's style, such as "two" for two runs. Default: none.
    """
    # In this order: a title or a body may hold the words that stand for what comes later.
    return (
        _PAGE.replace("<body>", f'<body class="{kind}">' if kind else "<body>")
        .replace("BODY", body, 1)
        .replace("STYLE", _STYLE, 1)
        .replace("TITLE", escape(title), 1)
    )


def _cell(value: Any) -> str:
    text = str(value)
    if isinstance(value, float):
        is_integer = value.is_integer() and abs(value) < 1e9
        text = f"{value:,.0f}" if is_integer else f"{value:.4g}"
        if math.isnan(value):
            text = ""
    elif isinstance(value, int) and not isinstance(value, bool):
        text = f"{value:,}"
    return (
        f'<td class="text">{escape(text)}</td>' if len(text) > _LONG else f"<td>{escape(text)}</td>"
    )


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>TITLE</title>
<style>STYLE</style>
</head>
<body>
BODY
</body>
</html>
"""

_STYLE = """
:root { color-scheme: light dark; --page: #fff; --text: #222; --soft: #555; --line: #ddd; --link: #005a8e;
  --bad: #fdf1e7; --good: #e8f5f0; --shade: rgba(0, 0, 0, .28); }
@media (prefers-color-scheme: dark) { :root { --page: #1c1c1c; --text: #e4e4e4; --soft: #aaa; --line: #444;
  --link: #6cbcf0; --bad: #40291a; --good: #163329; --shade: rgba(255, 255, 255, .38); }
  .drawn img { filter: invert(.89) hue-rotate(180deg); }
  .found img { background: #fff; border-radius: 4px; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1160px; padding: 1.2rem 1.2rem 3rem; background: var(--page); color: var(--text);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: anywhere; }
body.two { max-width: 1800px; }
h1 { font-size: 1.6rem; margin: .4rem 0; }
h2 { font-size: 1.35rem; margin: 2.2rem 0 .4rem; border-top: 2px solid #0072B2; padding-top: .8rem; }
h3 { font-size: 1.1rem; margin: 1.6rem 0 .4rem; } .top { font-size: .75rem; font-weight: normal; margin-left: .5rem; }
p { margin: .4rem 0; } .small, figcaption { font-size: .85rem; color: var(--soft); }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1rem; font-size: .95rem; margin: .6rem 0; } a { color: var(--link); }
.warnings { list-style: none; padding: 0; margin: .6rem 0; }
.warnings li { background: var(--bad); border-left: 4px solid #D55E00; padding: .5rem .8rem; margin: .4rem 0; }
.well { background: var(--good); border-left: 4px solid #009E73; padding: .5rem .8rem; }
dl { display: grid; grid-template-columns: minmax(8rem, max-content) 1fr; gap: .15rem 1rem; margin: .5rem 0; }
dt { color: var(--soft); } dd { margin: 0; font-variant-numeric: tabular-nums; }
/* A shadow at the side where there is more: the page's color scrolls with the table and covers it at the ends. */
.wide { overflow-x: auto; background: linear-gradient(to right, var(--page) 30%, transparent) left / 40px 100%,
  linear-gradient(to left, var(--page) 30%, transparent) right / 40px 100%,
  linear-gradient(to right, var(--shade), transparent) left / 14px 100%,
  linear-gradient(to left, var(--shade), transparent) right / 14px 100%;
  background-repeat: no-repeat; background-attachment: local, local, scroll, scroll; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--line); }
td { white-space: nowrap; } td:last-child { white-space: normal; overflow-wrap: normal; min-width: 9ch; }
td.text { min-width: 24ch; }
th { font-weight: 600; vertical-align: bottom; overflow-wrap: normal; }
th:first-child, td:first-child { text-align: left; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 430px), 1fr)); gap: .8rem 1.4rem; }
figure { margin: .4rem 0; overflow-x: auto; } img { max-width: 100%; height: auto; display: block; }
figure.broad { grid-column: 1 / -1; } article { min-width: 0; }
.beside { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: 0 2rem; }
details { margin: .6rem 0; } summary { cursor: pointer; color: var(--link); }
@media (max-width: 600px) { body { padding: .7rem .7rem 2rem; font-size: 15px; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin: 0 0 .4rem; }
  figure.broad img { max-width: none; width: 620px; } }
@media print { details { display: none; } h2 { break-before: auto; } }
"""
