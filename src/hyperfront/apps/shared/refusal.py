"""The error that a request gets instead of a result."""

from __future__ import annotations

from hyperfront.errors import HyperfrontError


class Refusal(HyperfrontError):
    """Raised for a request that cannot be answered, with its HTTP status.

    >>> Refusal("too many rows", got=9, expected="at most 4").reason
    'too many rows (got: 9; expected: at most 4)'
    """

    def __init__(
        self,
        what: str,
        *,
        got: object = None,
        expected: object = None,
        fix: object = None,
        status: int = 400,
        retry_after: int | None = None,
    ):
        super().__init__(what, got=got, expected=expected, fix=fix)
        self.status, self.retry_after = status, retry_after

    @property
    def reason(self) -> str:
        return one_line(self)


def headers(error: HyperfrontError) -> dict[str, str]:
    """The headers of the response: the time after which to retry, if a retry helps."""
    seconds = getattr(error, "retry_after", None)
    return {} if seconds is None else {"retry-after": str(seconds)}


def one_line(error: HyperfrontError) -> str:
    """The error as the text of a response."""
    parts = {"got": error.got, "expected": error.expected, "fix": error.fix}
    details = "; ".join(f"{label}: {value}" for label, value in parts.items() if value is not None)
    return f"{error.what} ({details})" if details else error.what
