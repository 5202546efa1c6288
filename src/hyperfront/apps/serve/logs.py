"""Logs as lines of JSON on stderr: one line for each request and for each event of the server."""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

import orjson

logger = logging.getLogger("hyperfront.apps.serve")


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object, with the fields of ``extra={"fields": {...}}``."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        line: dict[str, Any] = {"time": stamp, "level": record.levelname.lower(), "event": record.getMessage()}
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


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
        logger.log(level, what, extra={"fields": fields})
