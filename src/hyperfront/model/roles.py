"""Roles: every tensor of a module is generated, trained directly, frozen, or a buffer."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from hyperfront.errors import TargetError

Generate = str | Sequence[str] | Callable[[str, nn.Parameter], bool]
Role = Literal["generated", "trained", "frozen", "buffer"]
Rest = Literal["train", "freeze"]


@dataclass(frozen=True)
class TensorSpec:
    """One tensor of the module: its name, shape, type and role."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Role

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def converted(self, fn: Callable[[Tensor], Tensor]) -> TensorSpec:
        """Return the entry after ``fn`` was applied to all tensors."""
        dtype = fn(torch.empty(0, dtype=getattr(torch, self.dtype))).dtype
        return replace(self, dtype=str(dtype).removeprefix("torch."))


def matching(module: nn.Module, generate: Generate) -> list[str]:
    """List the floating-point and complex parameters that a pattern, several patterns, or a predicate of name and
    parameter chooses."""
    parameters = dict(module.named_parameters())
    if not parameters:
        raise TargetError(
            "the target has no parameters, so there is nothing to generate",
            got=type(module).__name__,
            expected="an nn.Module with at least one floating-point parameter",
        )
    lazy = [name for name, p in parameters.items() if isinstance(p, nn.parameter.UninitializedParameter)]
    if lazy:
        raise TargetError(
            "the target has uninitialized (lazy) parameters", got=lazy[0], fix="run the module once before wrapping it"
        )
    patterns = [generate] if isinstance(generate, str) else generate

    def chosen(name: str, parameter: nn.Parameter) -> bool:
        return patterns(name, parameter) if callable(patterns) else any(fnmatch.fnmatch(name, p) for p in patterns)

    everywhere = module.named_parameters(remove_duplicate=False)  # a tied one is chosen by any of its names
    found = {id(p) for name, p in everywhere if (p.is_floating_point() or p.is_complex()) and chosen(name, p)}
    return [name for name, p in parameters.items() if id(p) in found]


def table(module: nn.Module, made: Collection[str], base: Rest | None, rest: Rest) -> tuple[TensorSpec, ...]:
    """List all tensors with their roles. An assembly makes the tensors in ``made`` from their ``base``, or from theta
    alone if it is None.

    Parameters that do not require gradients stay frozen.
    """

    def role(name: str, parameter: nn.Parameter) -> Role:
        if name in made and base is None:
            return "generated"
        wish = base if name in made else rest
        return "trained" if wish == "train" and parameter.requires_grad else "frozen"

    def spec(name: str, tensor: Tensor, role: Role) -> TensorSpec:
        return TensorSpec(name, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), role)

    parameters = [spec(name, parameter, role(name, parameter)) for name, parameter in module.named_parameters()]
    return (*parameters, *(spec(name, buffer, "buffer") for name, buffer in module.named_buffers()))
