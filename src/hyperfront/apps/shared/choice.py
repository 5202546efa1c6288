"""The operating point that a client asks for: the best value of one loss or score, within limits on others."""

from __future__ import annotations

import warnings
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from hyperfront.apps.shared.refusal import Refusal
from hyperfront.errors import SelectionError, UnattainableError
from hyperfront.front import Front, Selection

Limit = FiniteFloat | tuple[Literal["<=", ">="], FiniteFloat]
BODY_BYTES = 64 * 2**10
"""The most bytes of a choice as JSON."""


class Choice(BaseModel):
    """A loss or score to minimize or maximize, and limits: a number, or a pair such as ``[">=", 0.9]``."""

    model_config = ConfigDict(extra="forbid", strict=True)
    minimize: Annotated[str | None, Field(description="The name of a loss or score; less is better")] = None
    maximize: Annotated[str | None, Field(description="The name of a score; more is better")] = None
    subject_to: Annotated[dict[str, Limit], Field(description="Limits by name of loss or score")] = {}

    confidence: Annotated[float | None, Field(description="Certify the limits with this probability", ge=0.5, lt=1)] = (
        None
    )
    future_rows: Annotated[int | None, Field(description="Certify them for this many new rows", gt=0)] = None

    def select(self, front: Front, *, rounds: int = 8) -> Selection:
        """Find the operating point; ``rounds`` as in :meth:`~hyperfront.front.Front.select`."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the response says whether the point was refined
            try:
                return front.select(**self.model_dump(), rounds=rounds)
            except SelectionError as error:
                raise Refusal(
                    error.what,
                    got=error.got,
                    expected=error.expected,
                    fix=error.fix,
                    status=422 if isinstance(error, UnattainableError) else 400,
                ) from None


def parse(body: bytes | bytearray) -> Choice:
    """Read the choice in the body of a request."""
    try:
        return Choice.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise Refusal("the request is not understood", got=f"{place or 'the body'}: {first['msg']}") from None
