"""Gradients of linear layers that are handed to the optimizer as factors, without writing them down.

At ``R`` rays the gradient of a layer's matrix is a sum of ``R`` outer products, ``dW = sum_r g_r x_r^T``: of the last
layer of a hypernetwork, with a row for every generated weight, the factors are a hundred times smaller than the sum.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import NamedTuple

from torch import Tensor

_ON: ContextVar[bool] = ContextVar("outer gradients", default=False)


class Outer(NamedTuple):
    """``dW = sum_r g_r x_r^T`` and ``db = sum_r g_r`` for the bias that belongs to ``W``."""

    bias: Tensor
    g: Tensor
    x: Tensor


@contextlib.contextmanager
def outer_gradients() -> Iterator[None]:
    """Within, whoever takes a step promises to ask for :func:`handed_over` gradients."""
    token = _ON.set(True)
    try:
        yield
    finally:
        _ON.reset(token)


def handing_over() -> bool:
    return _ON.get()


def hand_over(weight: Tensor, bias: Tensor, g: Tensor, x: Tensor) -> None:
    weight.__dict__["outer"] = Outer(bias, g, x)


def handed_over(weight: Tensor) -> Outer | None:
    """The factors for this matrix, once."""
    return weight.__dict__.pop("outer", None)
