"""Errors of a module or loss on the first batch: they name the layer or objective, and its inputs."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from hyperfront.errors import HyperfrontError, LossError, ProblemError, TargetError
from hyperfront.model.substitution import Network, called
from hyperfront.problem import Problem
from hyperfront.storage.batches import Batch
from hyperfront.storage.nests import leaves

FAULTS = (RuntimeError, TypeError, ValueError, LookupError, AttributeError)
"""The errors that PyTorch raises for tensors of a wrong shape or type, and Python for a name that is not there."""


@contextmanager
def named_failures(problem: Problem, network: Network, batch: Batch) -> Iterator[None]:
    """Turn a failure within the ``with`` block into an error that names its place: run ``network`` part by part."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except FAULTS as error:
        if not isinstance(error, HyperfrontError) or isinstance(error.__cause__, FAULTS):
            _retrace(problem, network, batch)
        raise error  # the network alone does not fail


def _retrace(problem: Problem, network: Network, batch: Batch) -> None:
    with _explained(ProblemError, "inputs= fails", lambda: f"a batch of {shapes(batch)}"):
        x = problem.inputs(batch)
    module, entered = network.target.skeleton, list[str]()
    with _explained(TargetError, "the module fails", lambda: _layer(module, entered, x)), _following(module, entered):
        output = called(network, x)
    if problem.function is not None:
        with _explained(LossError, "the objectives fail", lambda: f"a point of {shapes(output)}"):
            problem.function(output)
    for name, measure in {**problem.measures, **problem.scores}.items():
        words = "score" if name in problem.scores else "objective"
        given = f"an output of {shapes(output)} and a batch of {shapes(batch)}"
        with _explained(LossError, f"the {words} {name!r} fails", lambda: given):  # noqa: B023 (called at once)
            measure(output, batch)


@contextmanager
def _explained(kind: type[HyperfrontError], what: str, given: Any) -> Iterator[None]:
    try:
        yield
    except HyperfrontError:
        raise
    except FAULTS as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "/torch/" not in f.filename]
        line = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        said = f"the key {said} is missing" if isinstance(error, KeyError) else said
        raise kind(
            f"{what} on the first batch: {said}",
            got=given(),
            fix=f"check shapes and types of the data against the module and the losses{line}",
        ) from error


@contextmanager
def _following(module: nn.Module, entered: list[str]) -> Iterator[None]:
    """Keep the names of the layers that have not returned in ``entered``, the innermost last."""

    def leave(*_: Any) -> None:
        entered.pop()

    hooks = []
    for name, layer in module.named_modules():
        hooks.append(layer.register_forward_pre_hook(lambda *_, name=name: entered.append(name)))
        hooks.append(layer.register_forward_hook(leave))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _layer(module: nn.Module, entered: list[str], x: Batch) -> str:
    name = entered[-1] if entered else ""
    layer = f"{name}: {type(module.get_submodule(name)).__name__}, in " if name else ""
    return f"{layer}{type(module).__name__} on {shapes(x)}"


def shapes(nest: Any) -> str:
    """Describe the tensors of a nest in words.

    >>> shapes((torch.zeros(2, 3), {"ids": torch.zeros(2, dtype=torch.long)}))
    '0: float32 [2, 3], 1.ids: int64 [2]'
    """
    found = [(".".join(path), leaf) for path, leaf in leaves(nest)]
    words = [
        (f"{path}: " if path else "")
        + (
            f"{str(leaf.dtype).removeprefix('torch.')} {list(leaf.shape)}"
            if isinstance(leaf, Tensor)
            else type(leaf).__name__
        )
        for path, leaf in found
    ]
    return ", ".join(words) or "nothing"
