"""Shared memory: refuse tensors that change together, since generated tensors would not."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from hyperfront.errors import TargetError
from hyperfront.model.contents import held, recomputed


class _Span(NamedTuple):
    """The memory from the first element of a tensor to the end of its last one."""

    device: str
    start: int
    stop: int
    name: str
    tensor: Tensor
    kind: str
    """``changing``, ``constant``, or ``attribute`` for a tensor that is not registered."""


def refuse_shared_memory(module: nn.Module, constant: Collection[str]) -> None:
    """Raise an error if a parameter shares memory with another tensor of the module, registered or in an attribute.

    Parameters in ``constant`` may, since they do not change.
    """
    spans, open_ones = sorted(_spans(module, constant), key=lambda span: span[:3]), list[_Span]()
    for span in spans:
        open_ones = [each for each in open_ones if each.device == span.device and each.stop > span.start]
        for other in open_ones:
            if "changing" in (span.kind, other.kind) and _overlap(span, other):
                first, second = sorted((other, span), key=lambda each: each.kind == "attribute")
                raise TargetError(
                    "two tensors of the module share memory, and generated tensors in their place would not",
                    got=f"{first.name} and {second.name}",
                    expected="one parameter in both places (layer.weight = other.weight), or views that are made when "
                    "the module is called",
                    fix=f"compute {second.name} from {first.name} in forward",
                )
        open_ones.append(span)


def _spans(module: nn.Module, constant: Collection[str]) -> Iterator[_Span]:
    buffers = {id(buffer) for buffer in module.buffers()}
    registered: dict[int, Tensor] = {}
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        registered[id(tensor)] = tensor
        changing = id(tensor) not in buffers and name not in constant
        if changing and any(size > 1 and not step for size, step in zip(tensor.shape, tensor.stride())):
            raise TargetError(
                "elements of a parameter share memory, and generated elements would not",
                got=f"{name}, expanded to {list(tensor.shape)}",
                fix="expand it in forward",
            )
        yield from _span(name, tensor, "changing" if changing else "constant")
    for found in held(module):
        if id(found.thing) not in registered and found.path not in recomputed(found.layer):
            yield from _span(found.place, found.thing, "attribute")


def _span(name: str, tensor: Tensor, kind: str) -> Iterator[_Span]:
    """Yield the tensor's memory, if it has some."""
    lost = torch._C._functorch.is_functorch_wrapped_tensor(tensor)  # left by a call under vmap
    if lost or tensor.layout != torch.strided or tensor.is_meta or not tensor.numel():
        return
    extent = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))
    start = tensor.data_ptr()
    yield _Span(str(tensor.device), start, start + extent * tensor.element_size(), name, tensor, kind)


def _overlap(first: _Span, second: _Span) -> bool:
    """Whether the tensors have an element in common; their spans may interlace without one."""
    size, low = first.tensor.element_size(), min(first.start, second.start)
    if first.tensor.dtype != second.tensor.dtype:
        return True
    memory = torch.arange((max(first.stop, second.stop) - low) // size)
    mine, other = (
        memory.as_strided(span.tensor.shape, span.tensor.stride(), (span.start - low) // size).flatten()
        for span in (first, second)
    )
    return bool(torch.isin(mine, other).any())
