"""Choices that are of no use: a model that says nearly the same of every row keeps many limits, such as gaps of 0."""

from __future__ import annotations

from collections.abc import Mapping

from hyperfront.errors.signatures import checked

SHARE = 0.97
"""A model that decides more than this share of both classes alike ignores its inputs."""


@checked
def near_constant(values: Mapping[str, float]) -> str | None:
    """Say what is wrong with losses and scores of a table at a ray, if the model there is nearly constant.

    >>> near_constant({"fpr": 0.99, "fnr": 0.0})
    'the chosen model says the positive class for nearly every row, so that it is of no use'
    >>> near_constant({"fpr": 0.1, "fnr": 0.2, "error": 0.15})
    """
    positive, negative = values.get("fpr"), values.get("fnr")
    if positive is not None and negative is not None:
        for share, other, name in ((positive, 1 - negative, "positive"), (1 - positive, negative, "negative")):
            if min(share, other) > SHARE:
                return f"the chosen model says the {name} class for nearly every row, so that it is of no use"
    if values.get("r2", 1.0) < 1 - SHARE:
        return "the chosen model predicts little better than the mean of the target, so that it is of little use"
    return None
