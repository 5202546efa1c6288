"""Sharded parameters: ``fully_shard`` spreads them over several processes."""

from __future__ import annotations

from torch import nn

from hyperfront.errors import TargetError


def refuse_sharded(module: nn.Module, use: str) -> None:
    """Raise an error that names the function ``use``, if parameters are spread over processes."""
    for name, parameter in module.named_parameters():
        if hasattr(parameter, "placements"):  # a DTensor; importing its type takes a second
            raise TargetError(
                f"{use} needs all of a parameter, and this one is spread over processes",
                got=f"{name}: a {type(parameter).__name__}",
                expected="a model without fully_shard or tensor parallelism",
                fix="keep a whole model on each process; hyperfront.backward averages their gradients",
            )
