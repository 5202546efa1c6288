"""How numbers are rounded in the products of a training step.

=========== ==============================================================================================
``float32`` products of float32 tensors are not rounded further
``tf32``    a GPU may round the factors of products to 10 bits (TF32), for speed
``bf16``    the target's forward pass and the losses run under ``torch.autocast`` in bfloat16
=========== ==============================================================================================

The hypernetwork, the Gram matrix, the solver and the optimizer keep the precision of the model's parameters, and so do
validation and predictions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal

import torch
from torch import Tensor

from hyperfront.errors import HyperfrontError

Precision = Literal["float32", "tf32", "bf16"]


@contextmanager
def products(precision: Precision | None) -> Iterator[None]:
    """Inside, a GPU rounds the factors of float32 products to TF32, or does not; None leaves PyTorch's setting."""
    if precision is None:
        yield
        return
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


def cast(device: torch.device, dtype: torch.dtype | None) -> AbstractContextManager:
    """Inside, products are computed in ``dtype``, and weights are cast anew for every call, since they change."""
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype, cache_enabled=False)


def widened(loss: Tensor) -> Tensor:
    """A loss in single precision, if it was computed in less."""
    return loss.float() if loss.dtype in (torch.bfloat16, torch.float16) else loss


def refuse_autocast(what: str) -> None:
    """Raise an error inside ``torch.autocast``, which keeps the casts of weights for as long as it is open."""
    if torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu"):
        raise HyperfrontError(
            f"{what} was called inside torch.autocast, which would train with the casts of old weights",
            expected="a call outside of torch.autocast",
            fix='hyperfront.fit(..., precision="bf16")',
        )
