"""A choice in words: ``minimize error subject to fpr_gap <= .05, accuracy >= .9 with confidence .95``."""

from __future__ import annotations

import re
from typing import Any

from hyperfront.errors import HyperfrontError

EXAMPLE = '"minimize error subject to fpr_gap <= .05"'
_SENTENCE = re.compile(
    r"(?P<way>minimize|maximize)\s+(?P<goal>.+?)"
    r"(?:\s+subject\s+to\s+(?P<limits>.+?))?(?:\s+with\s+confidence\s+(?P<confidence>\S+))?",
    re.IGNORECASE,
)
_LIMIT = re.compile(r"(?P<name>.+?)\s*(?P<sign><=|>=|≤|≥)\s*(?P<bound>\S+)")


def arguments(sentence: str) -> dict[str, Any]:
    """The arguments of :meth:`hyperfront.Front.select` that a sentence states.

    >>> arguments("minimize error subject to fpr_gap <= .05")
    {'minimize': 'error', 'subject_to': {'fpr_gap': ('<=', 0.05)}}
    """
    found = _SENTENCE.fullmatch(" ".join(sentence.split()))
    if found is None:
        raise HyperfrontError("the choice is not understood", got=repr(sentence), expected=EXAMPLE)
    asked: dict[str, Any] = {found["way"].lower(): found["goal"], "subject_to": {}}
    for text in re.split(r"\s*,\s*|\s+and\s+(?=[^,]*[<>≤≥])", found["limits"] or ""):
        limit = _LIMIT.fullmatch(text)
        if text and limit is None:
            raise HyperfrontError("a limit is not understood", got=repr(text), expected="name <= number")
        if limit is not None:
            sign = {"≤": "<=", "≥": ">="}.get(limit["sign"], limit["sign"])
            asked["subject_to"][limit["name"]] = (sign, _number(limit["bound"]))
    if found["confidence"]:
        asked["confidence"] = _number(found["confidence"])
    return asked


def _number(text: str) -> float:
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise HyperfrontError("a choice has a limit that is no number", got=repr(text), expected="0.05 or 5%") from None
