"""A plain module, called like a network, whose outputs are traced back to parameters."""

from __future__ import annotations

from typing import Any

from torch import nn

from hyperfront.errors import TargetError
from hyperfront.storage import nests
from hyperfront.storage.batches import Batch
from hyperfront.training.reach import leaves


class PlainModule:
    """A plain module, called like :class:`hyperfront.model.substitution.Network`. It remembers its outputs."""

    def __init__(self, module: nn.Module):
        self.module = module
        self.outputs: list[Any] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        output = self.module(*args, **kwargs)
        self.outputs.append(output)
        return output

    def refuse_unregistered(self, batch: Batch) -> None:
        """Raise an error if outputs depend on a parameter that neither the module lists nor the batch depends on."""
        own = dict(self.module.named_parameters())
        known = {id(leaf) for leaf in [*own.values(), *leaves(nests.tensors(batch))]}
        found = leaves(nests.tensors(self.outputs))
        strange = next((leaf for leaf in found if isinstance(leaf, nn.Parameter) and id(leaf) not in known), None)
        if strange is None:
            return
        alike = [name for name, parameter in own.items() if parameter.shape == strange.shape]
        raise TargetError(
            "the module computes with a parameter that it does not register",
            got=f"one of shape {list(strange.shape)}" + (f", as {' and '.join(alike[:3])}" if alike else ""),
            expected="parameters that are attributes of the module or of its layers",
            fix="put layers into nn.ModuleList and parameters into nn.ParameterList, and keep neither in functions "
            "that the constructor makes",
        )
