"""Comparison of nests of tensors."""

from __future__ import annotations

from typing import Any

import torch

from hyperfront.storage.nests import tensors


def assert_close(first: Any, second: Any, **tolerance: float) -> None:
    """Compare the tensors of two nests; there is at least one."""
    pairs = list(zip(tensors(first), tensors(second), strict=True))
    assert pairs
    for a, b in pairs:
        torch.testing.assert_close(a, b, **tolerance)
