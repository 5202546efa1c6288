"""Adam's update of linear layers whose gradients are factors, in one launch of ``outer_adam.cu``."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from hyperfront.kernels.gpu.cuda_source import launch

AT_ONCE = 4  # layers of one launch
BLOCKS = 3168  # 24 for each of the 132 processors of an H200


def outer_adam_on_gpu(
    layers: Sequence[tuple[Tensor, ...]],
    steps: Sequence[Tensor],
    lr: Tensor,
    *,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
) -> None:
    """Take one step in place for layers ``(W, two moments, b, two moments, g, x)`` with equal numbers of steps."""
    for at in range(0, len(layers), AT_ONCE):
        some = layers[at : at + AT_ONCE]
        sizes = {f"{name}{i}": size for i, layer in enumerate(some) for name, size in zip("ND", layer[0].shape)}
        numbers = (*(math.log(beta) for beta in betas), *(1 - beta for beta in betas), eps, weight_decay)
        launch(
            "outer_adam.cu", "adam", (BLOCKS, 1), 256, steps[0], lr, *map(float, numbers),
            *(tensor for layer in some for tensor in layer), R=len(some[0][-1]), LAYERS=len(some), **sizes,
        )  # fmt: skip
