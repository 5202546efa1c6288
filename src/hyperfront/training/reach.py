"""The tensors behind the losses of a step: the generated weights of their ray, and tensors outside of the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from torch import Tensor, nn

from hyperfront.errors import HyperfrontError, LossError
from hyperfront.model import ParetoModel


def leaves(tensors: Iterable[Tensor]) -> Iterator[Tensor]:
    """Yield the tensors at the ends of the graphs behind ``tensors``."""
    for node in _nodes(tensors):
        if isinstance(node, Tensor):
            yield node
        elif (variable := getattr(node, "variable", None)) is not None:
            yield variable


def refuse_unreached(objectives: Sequence[str], losses: Sequence[Tensor], theta: Tensor) -> None:
    """Raise an error for a loss that does not depend on the generated weights ``theta``.

    A constant 0 is legal: a batch may have no rows of the groups that a gap compares.
    """
    for name, loss in zip(objectives, losses):
        constant = not loss.requires_grad
        if any(leaf is theta for leaf in leaves([loss])) or _reruns(loss) or (constant and not loss.any()):
            continue
        raise LossError(
            f"the objective {name!r} does not depend on the generated weights",
            got="a constant" if constant else "gradients for tensors outside of the network alone",
            expected="a loss of the output of the network that losses(network) gets",
            fix="call that network instead of the module that was wrapped, take auxiliary losses from its output, and "
            "do not detach it",
        )


def outside(model: ParetoModel, losses: Sequence[Tensor], theta: Tensor) -> list[Tensor]:
    """Find the trainable tensors behind the losses that neither are in ``theta`` nor belong to the target."""
    known = {id(theta), *map(id, model.target.parameters())}
    found = {id(leaf): leaf for leaf in leaves(losses) if id(leaf) not in known}
    if strange := [found[id(known())] for known in model.target.places.origin if id(known()) in found]:
        raise LossError(
            "the losses depend on the module that was wrapped, whose own weights belong to no ray",
            got=f"gradients for its parameters of shapes {trainable(strange)}",
            expected="losses of the output of the network that losses(network) gets",
            fix="call that network instead, and take auxiliary losses from its output: return them in forward",
        )
    return list(found.values())


def refuse_several_ranks(found: Sequence[Tensor]) -> None:
    """Raise an error for tensors outside of the model in a job of several processes, which may not all have them."""
    if found:
        raise HyperfrontError(
            "in a job of several processes, gradients of tensors outside of the model are not averaged",
            got=f"trainable tensors of shapes {', '.join(str(list(tensor.shape)) for tensor in found[:3])}",
            expected="losses that depend on the model alone",
            fix="make them part of the module that is wrapped (generate= chooses what is generated), or detach them",
        )


def _nodes(tensors: Iterable[Tensor]) -> Iterator[Any]:
    """Leaves among the ``tensors``, and all nodes of the graphs behind the others; the latest come first."""
    nodes: list[Any] = []
    for tensor in tensors:
        if tensor.grad_fn is not None:
            nodes.append(tensor.grad_fn)
        elif tensor.requires_grad:
            yield tensor
    seen = set(nodes)
    while nodes:
        yield (node := nodes.pop())
        for after, _ in node.next_functions:
            if after is not None and after not in seen:
                seen.add(after)
                nodes.append(after)


def _reruns(loss: Tensor) -> bool:
    """Whether the older form of activation checkpointing hides the tensors behind the loss; its error comes later."""
    return any(not isinstance(node, Tensor) and node.name() == "CheckpointFunctionBackward" for node in _nodes([loss]))


def trainable(tensors: Iterable[Tensor]) -> str:
    """List the shapes of the parameters among ``tensors`` in words; the text is empty without parameters.

    >>> trainable([nn.Parameter(Tensor(2, 3)), Tensor(4)])
    '[2, 3]'
    """
    return ", ".join(str(list(tensor.shape)) for tensor in tensors if isinstance(tensor, nn.Parameter))
