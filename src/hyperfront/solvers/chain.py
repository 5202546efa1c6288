"""Chains: transforms of the losses before a solver, and of the weights after it.

    solver = chain(Normalize(ideal=(0, 0), nadir=(2, 50)), EPO(), Clip(low=0.01))

The solver sees ``l' = t(l)``. With the slopes ``s_j = dl'_j / dl_j``, the objectives' gradients are ``g'_j = s_j g_j``,
so the Gram matrix it sees is ``s_i C_ij s_j``; and its weights ``w'`` of ``l'`` are the weights ``w_j = w'_j s_j`` of
``l``, by the chain rule. The weights ``w`` are not rescaled, so that a step equals a step of the transformed problem;
``|w'|`` sums to 1, also after weight transforms.

A transform may keep state between steps (an average, a first value). Then the chain is not pure. :meth:`Chain.state`
returns all of this state, and training stores it in checkpoints, so that a run resumes exactly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from hyperfront.errors import HyperfrontError
from hyperfront.preferences import Convention
from hyperfront.solvers.base import Solver, check_gram, check_shapes, rescale


class LossTransform(ABC):
    """Before the solver: ``(losses [R, m], rays [R, m]) -> (losses, slopes)``, each ``[R, m]`` or broadcast to it."""

    shifts: bool = False
    """Whether a negative loss may become positive, so that losses may be negative."""
    fixed_slopes: bool = False
    """Whether the slopes are the same for all losses."""
    joint: bool = True
    """Whether the result for a ray may depend on the other rays of a step, or on earlier steps."""

    @abstractmethod
    def __call__(self, losses: Tensor, rays: Tensor) -> tuple[Tensor, Tensor]: ...


class WeightTransform(ABC):
    """After the solver: ``weights [R, m] -> [R, m]``."""

    joint: bool = True
    """Whether the result for a ray may depend on the other rays of a step, or on earlier steps."""

    @abstractmethod
    def __call__(self, weights: Tensor) -> Tensor: ...


@runtime_checkable
class Stateful(Protocol):
    """A solver or transform with state between steps. ``load({})`` resets it."""

    def state(self) -> dict[str, Any]:
        """Return the state: numbers, texts and tensors, in dictionaries and lists."""
        ...

    def load(self, state: dict[str, Any]) -> None: ...


@dataclass(frozen=True)
class Chain(Solver):
    """The result of :func:`chain`."""

    before: tuple[LossTransform, ...]
    solver: Solver
    after: tuple[WeightTransform, ...]
    needs_gram: bool  # pyrefly: ignore[bad-override] (frozen, as the next four)
    space: Literal["weights", "hypernetwork"]  # pyrefly: ignore[bad-override]
    positive: bool  # pyrefly: ignore[bad-override]
    convention: Convention  # pyrefly: ignore[bad-override]
    joint: bool  # pyrefly: ignore[bad-override]

    @property
    def least(self) -> float | Sequence[float] | None:
        """The solver's limit, if the transforms keep the sign of losses."""
        if any(transform.shifts for transform in self.before):
            return None
        return self.solver.least if not self.before or self.solver.least == 0 else None

    @property
    def fixed_weights(self) -> bool:  # pyrefly: ignore[bad-override]
        return self.solver.fixed_weights and all(transform.fixed_slopes for transform in self.before)

    def __call__(self, losses: Tensor, rays: Tensor, gram: Tensor | None = None) -> tuple[Tensor, Tensor]:
        check_shapes(self, losses, rays)
        slopes = torch.ones_like(losses)
        seen = losses.detach()
        for transform in self.before:
            seen, slope = transform(seen, rays)
            slopes = slopes * slope
        if gram is not None:
            check_gram(self, losses, rays, gram)
            gram = slopes[:, :, None] * gram * slopes[:, None]
        weights, status = self.solver(seen, rays, gram)
        for transform in self.after:
            weights = rescale(transform(weights), rays)
        return (weights * slopes).to(losses.dtype), status

    def state(self) -> dict[str, Any]:
        """Return the state of all parts, by their place in the chain."""
        return {str(i): part.state() for i, part in enumerate(self._parts()) if isinstance(part, Stateful)}

    def load(self, state: dict[str, Any]) -> None:
        for i, part in enumerate(self._parts()):
            if isinstance(part, Stateful):
                part.load(state.get(str(i), {}))

    def _parts(self) -> tuple[LossTransform | Solver | WeightTransform, ...]:
        return (*self.before, self.solver, *self.after)


def chain(*parts: LossTransform | Solver | WeightTransform) -> Chain:
    """Make one solver from loss transforms, exactly one solver, and weight transforms, in this order.

    >>> from hyperfront.solvers import LS, Clip, Normalize
    >>> solver = chain(Normalize(nadir=(1.0, 3.0)), LS(), Clip(low=0.0))
    >>> solver(torch.tensor([[1.0, 3.0]]), torch.tensor([[0.5, 0.5]]))[0]
    tensor([[0.5000, 0.1667]])
    """
    kinds = [
        next((name for kind, name in _KINDS.items() if isinstance(part, kind)), type(part).__name__) for part in parts
    ]
    place = kinds.index("solver") if "solver" in kinds else -1
    if place < 0 or set(kinds[:place]) - {"loss transform"} or set(kinds[place + 1 :]) - {"weight transform"}:
        raise HyperfrontError(
            "these parts do not make a chain",
            got=", ".join(kinds) or "nothing",
            expected="loss transforms, exactly one solver, weight transforms, in this order",
            fix="chain(Normalize(nadir=2.0), EPO(), Clip(low=0.01))",
        )
    solver: Any = parts[place]
    before: Any = parts[:place]
    after: Any = parts[place + 1 :]
    positive = solver.positive and not any(transform.shifts for transform in before)
    joint = any(part.joint for part in (*before, solver, *after))
    return Chain(before, solver, after, solver.needs_gram, solver.space, positive, solver.convention, joint)


_KINDS = {LossTransform: "loss transform", Solver: "solver", WeightTransform: "weight transform"}
