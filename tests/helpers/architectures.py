"""Hypernetworks of every kind, small, and a way to move one from where it starts."""

from __future__ import annotations

import torch
from torch import nn

ARCHITECTURES = {
    "mlp": {"hypernet": "mlp", "hidden": 16},
    "chunked": {"hypernet": "chunked", "hidden": 16, "chunk": 9, "matrices": 2},
    "low_rank": {"hypernet": "low_rank", "hidden": 16},
    "low_rank, frozen base": {"hypernet": "low_rank", "rank": 1, "base": "freeze"},
    "low_rank, linear": {"hypernet": "low_rank", "rank": 2, "linear": True},
    "film": {"hypernet": "film", "hidden": 16},
    "film, all frozen": {"hypernet": "film", "rest": "freeze"},
}


def shaken(module: nn.Module, amount: float = 0.05) -> None:
    """Away from the start, where low-rank additions and modulations do nothing yet."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(amount * torch.randn_like(parameter))
