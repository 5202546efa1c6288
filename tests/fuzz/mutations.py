"""Changes of bytes and of JSON documents."""

from __future__ import annotations

import json
from random import Random
from typing import Any

BYTES = (b"", b"\0", b"\xff\xfe", b"NaN", b"1e999", b"-1", b'"', b"{", b"[", b"\n", b"\r\n", b",", b"\xed\xa0\x80")
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 10**6, 10**12, 2**63, 10**30, 0.5, -0.5, 1e308, float("nan"), float("inf")),
    *("", "a", "b", "x" * 3000, "\0", "\ud800", "é", "../x", "weights"),
    *([], {}, [[]], [None], {"a": 1}, [0.5, 0.5], [1e999]),
)
KEYS = ("", "a", "name", "shape", "schema", "kind", "\ud800", "x" * 300)


def of_bytes(draw: Random, data: bytes) -> bytes:
    """Flip, cut, repeat, remove or insert bytes, a few times."""
    found = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 5, 20))):
        at = draw.randrange(len(found) + 1)
        size = draw.choice((1, 2, 8, 64, 1024))
        how = draw.randrange(6)
        if how == 0 and at < len(found):
            found[at] ^= 1 << draw.randrange(8)
        elif how == 1:
            del found[at:]
        elif how == 2:
            del found[at : at + size]
        elif how == 3:
            found[at:at] = found[at : at + size]
        elif how == 4:
            found[at:at] = draw.choice(BYTES)
        else:
            found[at : at + size] = draw.randbytes(min(size, len(found) - at))
    return bytes(found)


def of_json(draw: Random, document: Any) -> Any:
    """Change one or a few places of a document, which stays as it is."""
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        document = _changed(draw, document)
    return document


def _changed(draw: Random, node: Any) -> Any:
    children = list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
    if not children or draw.random() < 0.15:
        return _replaced(draw, node)
    where = draw.choice(children)
    made: Any = dict(node) if isinstance(node, dict) else list(node)
    how = draw.random()
    if how < 0.6:
        made[where] = _changed(draw, made[where])
    elif how < 0.75:
        del made[where]
    elif isinstance(made, dict):
        made[draw.choice((*KEYS, *children))] = made.pop(where) if how < 0.9 else draw.choice(VALUES)
    else:
        made.insert(where, draw.choice((made[where], *VALUES)))
    return made


def _replaced(draw: Random, node: Any) -> Any:
    how = draw.randrange(6)
    if how == 0 and isinstance(node, int | float) and not isinstance(node, bool):
        return draw.choice((-node, node + 1, node * 1000, str(node)))
    if how == 1 and isinstance(node, str):
        return draw.choice(
            (node[:-1], node * 2, node.upper(), node + "\0", node.encode("utf-8", "surrogatepass").hex())
        )
    if how == 2:
        return draw.choice(([node], {"a": node}, [node, node], deep(draw)))
    return draw.choice(VALUES)


def deep(draw: Random) -> Any:
    """A deep list."""
    found: list[Any] = []
    for _ in range(draw.choice((10, 200, 800))):
        found = [found]
    return found


def dumped(draw: Random, document: Any) -> bytes:
    """The bytes of a document, sometimes of a kind that no program of ours writes."""
    text = json.dumps(document, indent=draw.choice((None, None, 2)), ensure_ascii=draw.random() < 0.8)
    if draw.random() < 0.02:
        text = text.replace("{", '{"a": 1, "a": 2, ', 1).replace(", }", "}")
    return text.encode("utf-8", "surrogatepass")
