"""Precision: the rounding of products in a training step.

=========== ==============================================================================================
``float32`` products of float32 tensors are not rounded further
``tf32``    a GPU may round the factors of products to 10 bits (TF32), for speed
``bf16``    the target's forward pass and the losses run under ``torch.autocast`` in bfloat16
=========== ==============================================================================================

Everything else keeps the precision of the model's parameters: the hypernetwork, the Gram matrix, the solver, the
optimizer, validation and predictions.
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
    """Set whether a GPU rounds the factors of float32 products to TF32 within the ``with`` block; None keeps PyTorch's
    setting."""
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
    """Compute products in ``dtype`` within the ``with`` block. Casts are not cached, since weights change."""
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype, cache_enabled=False)


def widened(loss: Tensor) -> Tensor:
    """Convert a loss of lower precision to single precision."""
    return loss.float() if loss.dtype in (torch.bfloat16, torch.float16) else loss


def refuse_autocast(what: str) -> None:
    """Raise an error inside ``torch.autocast``, which caches the casts of weights until its end."""
    if torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu"):
        raise HyperfrontError(
            f"{what} was called inside torch.autocast, which would train with the casts of old weights",
            expected="a call outside of torch.autocast",
            fix='hyperfront.fit(..., precision="bf16")',
        )
