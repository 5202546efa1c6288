"""Gradients of linear layers as factors, which a hypernetwork passes to an optimizer that supports them.

At ``R`` rays the gradient of a layer's matrix is a sum of ``R`` outer products, ``dW = sum_r g_r x_r^T``. For the last
layer of a hypernetwork, with a row for every generated weight, the factors are a hundred times smaller than the sum.

The protocol: an optimizer that supports factors has an attribute ``factors``, a :class:`Factors`. A training step
passes it to :meth:`hyperfront.model.hypernets.Hypernet.factored`, whose backward pass may put layers into it instead of
writing their ``.grad``; the optimizer takes them in its ``step``. All other optimizers get ``.grad``.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Layer(NamedTuple):
    """``dW = sum_r g_r x_r^T`` and ``db = sum_r g_r``, with ``g [R, out]`` and ``x [R, in]``."""

    weight: Tensor
    bias: Tensor
    g: Tensor
    x: Tensor


class Factors:
    """The layers of one step that have no ``.grad``."""

    def __init__(self) -> None:
        self._layers: list[Layer] = []

    def put(self, layer: Layer) -> None:
        self._layers.append(layer)

    def take(self) -> list[Layer]:
        """Remove and return the layers that were put here since the last call."""
        taken, self._layers = self._layers, []
        return taken
