"""``/v1/select``: the ray with the best of one loss, within limits on others."""

from __future__ import annotations

import warnings
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from hyperfront.apps.serve.refusal import Refusal, one_line
from hyperfront.errors import SelectionError
from hyperfront.front import Front

Limit = FiniteFloat | tuple[Literal["<=", ">="], FiniteFloat]


class Choice(BaseModel):
    """What to minimize, and the limits: a number that a loss may not exceed, or a pair such as ``[">=", 0.9]``."""

    model_config = ConfigDict(extra="forbid", strict=True)
    minimize: Annotated[str, Field(description="The name of a loss or score")]
    subject_to: Annotated[dict[str, Limit], Field(description="Limits by name of loss or score")] = {}


def parse(body: bytes | bytearray) -> Choice:
    """The choice in the body of a request."""
    try:
        return Choice.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise Refusal("the request is not understood", got=f"{place or 'the body'}: {first['msg']}") from None


def choose(front: Front, choice: Choice) -> dict[str, Any]:
    """The ray, and what is known of the point there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the response says where it looked
        try:
            ray = front.select(choice.minimize, choice.subject_to)
        except SelectionError as error:
            raise Refusal(one_line(error), status=422 if "keeps the limits" in error.what else 400) from None
    point = front.evaluator(ray[None]) if front.evaluator else front
    row = 0 if front.evaluator else int((front.rays == ray).all(1).nonzero()[0])
    return {
        "ray": ray.tolist(),
        "losses": dict(zip(front.objectives, point.losses[row].tolist())),
        "scores": {name: values[row].item() for name, values in point.scores.items()},
        "refined": front.evaluator is not None,
    }
