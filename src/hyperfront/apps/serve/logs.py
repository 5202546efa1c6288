"""Logs as lines of JSON on stderr: one line for each request and for each event of the server."""

from __future__ import annotations

import logging
import sys
import time
from functools import lru_cache
from typing import Any

import orjson

logger = logging.getLogger("hyperfront.apps.serve")


_EMPTY = vars(logging.makeLogRecord({"name": logger.name}))


class Line(logging.LogRecord):
    """A record without the place in the source, which takes longer to find than a small network to run."""

    def __init__(self, what: str, level: int, fields: dict[str, Any]):
        now = time.time()
        vars(self).update(
            _EMPTY, msg=what, levelno=level, levelname=logging.getLevelName(level), fields=fields, created=now
        )
        self.msecs = now % 1 * 1000


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object, with the fields of ``extra={"fields": {...}}``."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = f"{_second(int(record.created))}.{int(record.msecs):03d}Z"
        line: dict[str, Any] = {"time": stamp, "level": record.levelname.lower(), "event": record.getMessage()}
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


@lru_cache(1)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def set_up(level: str) -> None:
    """Send our messages and uvicorn's to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name in ("hyperfront.apps", "uvicorn.error"):
        log = logging.getLogger(name)
        log.handlers.clear()
        log.addHandler(handler)
        log.propagate = False
        log.setLevel(level.upper())


def event(what: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """Write a line."""
    if logger.isEnabledFor(level):
        logger.handle(Line(what, level, fields))
