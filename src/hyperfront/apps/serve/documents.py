"""The bytes of a request: JSON, bounded in its bytes and its values, and the binary tensors that follow it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import orjson

from hyperfront.apps.serve.options import Limits
from hyperfront.apps.shared.refusal import Refusal

COUNTED_AT_ONCE = 2**20
"""Bytes of JSON whose values are counted at a time."""


class Blobs:
    """The binary data after the JSON, taken in order."""

    def __init__(self, body: bytes | bytearray, start: int):
        self.body, self.place = body, start

    @property
    def left(self) -> int:
        return len(self.body) - self.place

    def take(self, size: int) -> int:
        place, self.place = self.place, self.place + size
        return place


def read(body: bytes | bytearray, header_length: str | None, limits: Limits) -> tuple[dict[str, Any], Blobs]:
    """Read the JSON object and the bytes after it; ``header_length`` is the length of the JSON."""
    end = len(body)
    if header_length is not None:
        if not re.fullmatch("[0-9]{1,12}", header_length) or int(header_length) > len(body):
            raise Refusal(
                "the header Inference-Header-Content-Length is wrong",
                got=header_length[:40],
                expected=f"the length of the JSON in front of the binary data, at most {len(body)}",
            )
        end = int(header_length)
    if end > limits.json_bytes:
        raise Refusal(
            "the JSON is too large",
            got=f"{end} bytes",
            expected=f"at most {limits.json_bytes} bytes",
            fix="send tensors as binary data",
            status=413,
        )
    _check_elements(memoryview(body)[:end], limits.json_elements)
    try:
        found = orjson.loads(memoryview(body)[:end])
    except orjson.JSONDecodeError as error:
        raise Refusal("the request is not JSON", got=error) from None
    if not isinstance(found, dict):
        raise Refusal("the request is not a JSON object", got=type(found).__name__)
    return found, Blobs(body, end)


def _check_elements(text: memoryview, most: int) -> None:
    """Refuse JSON with more values than ``most``, by counting the characters that precede values.

    This takes milliseconds where parsing takes seconds. Such characters inside texts are counted too.
    """
    if len(text) <= most:  # every value but the last takes two characters
        return
    found, letters = 0, np.frombuffer(text, np.uint8)
    for start in range(0, len(letters), COUNTED_AT_ONCE):
        part = letters[start : start + COUNTED_AT_ONCE]
        found += sum(int(np.count_nonzero(part == letter)) for letter in b",[{")
        if found > most:
            raise Refusal(
                "the JSON has too many values",
                expected=f"at most {most} numbers, lists and objects",
                fix="send tensors as binary data",
                status=413,
            )
