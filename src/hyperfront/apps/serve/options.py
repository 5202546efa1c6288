"""The limits and the settings of a server."""

from __future__ import annotations

from dataclasses import dataclass

from hyperfront.apps.shared.bodies import BodyLimits
from hyperfront.errors import HyperfrontError


@dataclass(frozen=True)
class Limits(BodyLimits):
    """Limits on one request and on all requests together; a request beyond them is refused with a reason.

    ``seconds`` counts from the first byte of a request to its answer.
    """

    elements: int = 2**24
    """The most numbers in one input or output tensor."""
    json_bytes: int = 2**23
    """The most bytes of JSON in a request. The parser stops all other work of the process."""
    json_elements: int = 2**18
    """The most numbers, lists and objects in a request or response as JSON; parsing delays all other requests."""
    rows: int = 4096
    """The most rows in one request."""
    concurrency: int = 1024
    """The most requests in progress or waiting, in each worker."""


@dataclass(frozen=True)
class ServiceOptions:
    """The settings of a server."""

    limits: Limits = Limits()
    batch_rows: int = 64
    """The most rows of a batch."""
    api_key: str | None = None
    """The API key, which all requests but health checks must carry (``Authorization: Bearer KEY``)."""
    cors: tuple[str, ...] = ()
    """Origins of pages that may call the server from a browser."""
    hosts: tuple[str, ...] = ()
    """The hosts that requests without a key may be addressed to; empty: any."""

    def __post_init__(self) -> None:
        if self.batch_rows < 1:
            raise HyperfrontError("a batch has at least one row", got=self.batch_rows)
        if self.api_key is not None and not (self.api_key.isascii() and self.api_key.strip() == self.api_key != ""):
            raise HyperfrontError(
                "the API key is not usable",
                got="an empty text" if not self.api_key else None,
                expected="ASCII characters, without spaces around them",
                fix="to serve without a key, unset HYPERFRONT_API_KEY",
            )
