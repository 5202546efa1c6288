"""Pieces of a page: HTML that needs no script, no network and no other file. All texts are escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources

from reproduction.item_result import Claim, Table


def page(title: str, sections: Mapping[str, tuple[str, Iterable[str]]]) -> str:
    """The whole page; ``sections`` by id, with heading and pieces."""
    style = resources.files("reproduction").joinpath("page.css").read_text()
    links = "\n".join(f'<a href="#{name}">{escape(heading)}</a>' for name, (heading, _) in sections.items())
    body = "\n".join(
        f'<section id="{name}"><h2>{escape(heading)}</h2>\n' + "\n".join(pieces) + "\n</section>"
        for name, (heading, pieces) in sections.items()
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"<header><h1>{escape(title)}</h1></header>\n<nav>\n{links}\n</nav>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def paragraph(text: str, *, kind: str = "plain", link: tuple[str, str] | None = None) -> str:
    """Text between backquotes is code."""
    after = f' <a href="{escape(link[1])}">{escape(link[0])}</a>' if link else ""
    return f'<p class="{kind}">{_text(text)}{after}</p>'


def lead(text: str, state: str) -> str:
    """What an item shows, and how complete it is."""
    return f'<p class="lead">{_text(text)} <span class="state {state}">{state}</span></p>'


def table(content: Table, *, link_first: bool = False, stacked: bool = False) -> str:
    """A table in a box that scrolls sideways; the paper's columns look different. On a narrow screen the cells of a
    ``stacked`` one are below each other."""
    kinds = ["paper" if name.startswith("paper") else "" for name in content.columns]
    texts = [_is_text(content, index) for index in range(len(content.columns))]
    head = "".join(_cell("th", name, kind, words) for name, kind, words in zip(content.columns, kinds, texts))
    rows = "".join(
        "<tr>"
        + "".join(
            _cell("td", cell, kind, words, link=link_first and index == 0, label=name if stacked else None)
            for index, (name, cell, kind, words) in enumerate(zip(content.columns, row, kinds, texts))
        )
        + "</tr>\n"
        for row in content.rows
    )
    inside = f"<caption>{escape(content.title)}</caption><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>"
    box = "wide stacked" if stacked else "wide"
    return f'<div class="{box}" tabindex="0"><table>{inside}</table></div>'


def _is_text(content: Table, column: int) -> bool:
    """Whether a column holds words rather than numbers."""
    cells = [row[column] for row in content.rows if row[column] not in ("", "-", "missing")]
    return column == 0 or not all(cell[:1].isdigit() or cell[:1] in "-(." for cell in cells)


def _cell(tag: str, text: str, kind: str, words: bool, *, link: bool = False, label: str | None = None) -> str:
    known = {"missing": "gap"} | {name: name for name in ("yes", "no", "close", "open", "complete", "partial", "smoke")}
    classes = " ".join(filter(None, [kind, "words" if words else "", known.get(text, "") if tag == "td" else ""]))
    inner = f'<a href="#{escape(text)}">{escape(text)}</a>' if link else _text(text)
    attributes = (f' class="{classes}"' if classes else "") + (f' data-label="{escape(label)}"' if label else "")
    return f"<{tag}{attributes}>{inner}</{tag}>"


def figure(address: str, caption: str) -> str:
    image = f'<div class="wide"><img src="{address}" alt="{escape(caption)}"></div>'
    return f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>"


def claims(known: Sequence[Claim]) -> str:
    """A list with yes, no and close."""
    lines = (
        f'<li><span class="{c.verdict}">{c.verdict}</span> {_text(c.text)}: {_text(c.numbers)}</li>' for c in known
    )
    return '<ul class="claims">' + "\n".join(lines) + "</ul>"


def items(texts: Iterable[str]) -> str:
    return "<ul>" + "\n".join(f"<li>{_text(text)}</li>" for text in texts) + "</ul>"


def folded(heading: str, content: str) -> str:
    return f"<details><summary>{escape(heading)}</summary>{content}</details>"


def command(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def _text(text: str) -> str:
    """Escaped, with code between backquotes and the sign of plus or minus.

    >>> _text("1 +- 2 < `x`")
    '1 ± 2 &lt; <code>x</code>'
    """
    plain, *rest = escape(text).replace("+-", "±").split("`")
    return plain + "".join(f"<code>{part}</code>" if index % 2 == 0 else part for index, part in enumerate(rest))
