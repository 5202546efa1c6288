"""The limits and the settings of a server."""

from __future__ import annotations

from dataclasses import dataclass

from hyperfront.apps.shared.bodies import BodyLimits
from hyperfront.errors import HyperfrontError


@dataclass(frozen=True)
class Limits(BodyLimits):
    """What one request may cost, and all of them together; more is refused with a reason.

    ``seconds`` counts from the first byte of a request to its answer.
    """

    elements: int = 2**24
    """The most numbers in one tensor, of the inputs or of the outputs."""
    json_elements: int = 2**18
    """The most numbers, lists and objects in a request or response as JSON; parsing holds up all other requests."""
    rows: int = 4096
    """The most rows in one request."""
    concurrency: int = 256
    """Requests that are worked on or wait at the same time, in each worker."""


@dataclass(frozen=True)
class ServiceOptions:
    """How a service is offered."""

    limits: Limits = Limits()
    batch_rows: int = 64
    """Requests that wait are answered together, up to that many rows."""
    api_key: str | None = None
    """If there is one, requests must carry it (``Authorization: Bearer KEY``), apart from health checks."""
    cors: tuple[str, ...] = ()
    """Origins of pages that may call the server from a browser."""

    def __post_init__(self) -> None:
        if self.batch_rows < 1:
            raise HyperfrontError("a batch has at least one row", got=self.batch_rows)
        if self.api_key is not None and not (self.api_key.isascii() and self.api_key.strip() == self.api_key != ""):
            raise HyperfrontError("the API key is not usable", expected="ASCII characters, without spaces around them")
