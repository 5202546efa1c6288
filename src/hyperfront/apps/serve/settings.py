"""What a server allows, and whom."""

from __future__ import annotations

from dataclasses import dataclass

from hyperfront.errors import HyperfrontError


@dataclass(frozen=True)
class Limits:
    """What one request may cost; more is refused with a reason."""

    body_bytes: int = 64 * 2**20
    """Of a body, as it is sent and once it is unpacked."""
    elements: int = 2**24
    """Numbers in one tensor, of the inputs or of the outputs."""
    rows: int = 4096
    concurrency: int = 256
    """Requests that are worked on or wait at the same time, in each worker."""
    seconds: float = 30.0
    """From the first byte of a request to its answer."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise HyperfrontError(f"the limit {name} is not positive", got=value)


@dataclass(frozen=True)
class Settings:
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
