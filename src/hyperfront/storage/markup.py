"""HTML for the output of a notebook's cell, by day and by night.

Every function escapes its arguments, except :class:`Markup`, which only these functions make. Styles are inline, since
some pages that show notebooks drop style sheets. Text has the colors of the surrounding page.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape

NAME = 40
"""Characters of a name that are shown."""
COLUMNS = 16
"""Columns of a table that are shown."""
PLAIN = 'style="background: none"'
LINE = "1px solid rgba(128, 128, 128, 0.35)"


class Markup(str):
    """Text that is HTML already."""


def shorten(text: object, most: int = NAME) -> str:
    """The text in one line, cut in its middle.

    >>> shorten("a name that is much too long", 11)
    'a nam… long'
    """
    line = " ".join(str(text).split())
    half = (most - 1) // 2
    return line if len(line) <= most else f"{line[: most - 1 - half]}…{line[len(line) - half :]}"


def number(value: float) -> str:
    """Format a number with four digits."""
    return f"{value:.4g}"


def block(title: str, *parts: str) -> Markup:
    """Join parts below a title."""
    heading = f'<div style="font-weight: 600; margin-bottom: 0.4em">{escape(title)}</div>'
    style = "margin: 0.3em 0; line-height: 1.4; overflow-wrap: anywhere"
    return Markup(f'<div style="{style}">{heading}{"".join(map(_html, parts))}</div>')


def beside(*parts: str) -> Markup:
    """Place parts side by side, or below each other where there is no room."""
    style = "display: flex; flex-wrap: wrap; gap: 0.6em 1.8em; align-items: flex-start"
    return Markup(f'<div style="{style}">{"".join(map(_item, parts))}</div>')


def note(text: str) -> Markup:
    """Small print."""
    return Markup(f'<div style="opacity: 0.75; font-size: 0.9em; margin-top: 0.3em">{_html(text)}</div>')


def facts(known: Mapping[str, str]) -> Markup:
    """Names and values, a line for each."""
    name = 'style="text-align: left; vertical-align: top; padding: 1px 1.2em 1px 0; font-weight: normal; opacity: 0.75"'
    value = 'style="text-align: left; padding: 1px 0"'
    lines = (f"<tr {PLAIN}><th {name}>{escape(k)}</th><td {value}>{_html(v)}</td></tr>" for k, v in known.items())
    return Markup(f'<table style="border: 0; margin: 0 0 0.5em; background: none">{"".join(lines)}</table>')


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, words: Collection[int] = (0,)) -> Markup:
    """Make a table whose columns ``words`` are aligned to the left. A table that is too wide can be scrolled."""
    side = [f"text-align: {'left' if column in words else 'right'}" for column in range(COLUMNS)]
    cell = "padding: 1px 0.7em; font-variant-numeric: tabular-nums; white-space: nowrap"
    names = "".join(f'<th style="{cell}; {s}; border-bottom: {LINE}">{_html(n)}</th>' for s, n in zip(side, head))
    lines = ("".join(f'<td style="{cell}; {s}">{_html(v)}</td>' for s, v in zip(side, row)) for row in rows)
    body = "".join(f"<tr {PLAIN}>{line}</tr>" for line in lines)
    left = len(head) - COLUMNS
    more = note(f"and {left} more columns") if left > 0 else ""
    style = "border: 0; border-collapse: collapse; margin: 0; background: none"
    inner = f'<table style="{style}"><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>'
    return Markup(f'<div style="overflow-x: auto; max-width: 100%">{inner}</div>{more}')


def folded(title: str, part: str) -> Markup:
    """A part that opens when its title is clicked."""
    return Markup(f'<details><summary style="cursor: pointer">{escape(title)}</summary>{_html(part)}</details>')


def picture(png: bytes, description: str, *, width: int) -> Markup:
    """Embed an image in the text, ``width`` pixels wide where there is room."""
    style = f"width: {width}px; max-width: 100%; border-radius: 6px; margin: 0"
    data = base64.b64encode(png).decode()
    return Markup(f'<img alt="{escape(description)}" src="data:image/png;base64,{data}" style="{style}">')


def bar(done: int, total: int, text: str) -> Markup:
    """Make a progress bar with a text beside it."""
    meter = f'<progress max="{total}" value="{done}" style="width: 12em; vertical-align: middle"></progress>'
    words = f'<span style="font-variant-numeric: tabular-nums; margin-left: 0.7em">{escape(text)}</span>'
    return Markup(f'<div style="line-height: 1.6">{meter}{words}</div>')


def _item(part: str) -> str:
    return f'<div style="min-width: 0; max-width: 100%">{_html(part)}</div>'


def _html(value: str) -> str:
    return value if isinstance(value, Markup) else escape(value)
