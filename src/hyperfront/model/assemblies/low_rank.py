"""LowRank: ``theta`` holds low-rank factors, whose products are added to weights that all rays share.

    W(r) = W0 + B(r) A(r)               B [out, k], A [k, in], with k the rank

for every matrix ``W``; a convolution's kernel ``[out, in, h, w]`` is the matrix ``[out, in h w]``. ``W0`` is trained
directly or frozen (Hu et al., 2022, "LoRA"). ``A`` starts with variance ``1 / in``, so that ``A x`` has the scale of
``x``, and ``B`` starts at zero, so that every ray starts with the weights of the user's module.

With ``terms = m`` the addition is a sum, ``W0 + sum_t B_t A_t``: PaLoRA (Dimitriadis et al., 2025) lets ray ``r`` weigh
its terms. ``theta`` holds all ``A``, then all ``B_1``, all ``B_2``, and so on.

With ``orthogonal`` the rows of ``A``, of all terms together, are made orthonormal by Gram-Schmidt (QR), so that no two
terms read the same direction of the input: ``A_s A_t^T = 0`` (Chen and Kwok, 2024, "Efficient Pareto manifold learning
with low-rank structure", asks for this by a penalty; here it holds exactly).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from hyperfront.errors import TargetError, check_flag, unknown_name
from hyperfront.model.assemblies.base import Assembly, Part
from hyperfront.model.roles import Rest

DEFAULT_RANK = 4


class LowRank(Assembly):
    """Adds low-rank products to the chosen matrices, also to frozen ones, but not to vectors and complex tensors.

    ``rank=None`` means 4, or the full rank of a smaller matrix.
    """

    kind, takes = "low_rank", "a parameter with two or more dimensions larger than 1"

    def __init__(
        self,
        module: nn.Module,
        chosen: Sequence[str],
        *,
        rank: int | None = None,
        base: Rest = "train",
        terms: int = 1,
        orthogonal: bool = False,
    ):
        if base not in ("train", "freeze"):
            raise unknown_name("base", str(base), ("train", "freeze"))
        parameters = dict(module.named_parameters())
        check_flag("orthogonal", orthogonal)
        self.rank, self.base, self.terms, self.orthogonal = rank, base, terms, orthogonal
        real = [name for name in chosen if parameters[name].is_floating_point()]
        self._shapes = {name: tuple(parameters[name].shape) for name in real if _matrix(parameters[name].shape)}
        self.names = tuple(self._shapes)
        self._sides = [_matrix(shape) for shape in self._shapes.values()]
        self._ranks = [self._rank(name) for name in self.names]
        for name, sides, k in zip(self.names, self._sides, self._ranks):
            if orthogonal and terms * k > sides[1]:
                raise TargetError(
                    f"the tensor {name!r} has too few inputs for orthogonal factors",
                    got=f"{terms} term(s) of rank {k} for {sides[1]} inputs",
                    expected=f"terms * rank <= {sides[1]}",
                    fix="lower the rank, or choose other tensors with generate=",
                )
        downs = [
            Part(f"{name}:down", (terms * k, sides[1])) for name, sides, k in zip(self.names, self._sides, self._ranks)
        ]
        ups = [
            Part(f"{name}:up{t}", (sides[0], k))
            for t in range(terms)
            for name, sides, k in zip(self.names, self._sides, self._ranks)
        ]
        self.parts = (*downs, *ups)

    def _rank(self, name: str) -> int:
        own = min(_matrix(self._shapes[name]))
        if self.rank is None:
            return min(DEFAULT_RANK, own)
        if not 1 <= self.rank <= own:
            raise TargetError(
                f"the tensor {name!r} has no additions of this rank",
                got=f"rank = {self.rank} for the shape {list(self._shapes[name])}",
                expected=f"1 <= rank <= {own}",
                fix=f"lower the rank, leave it out (rank=None takes min({DEFAULT_RANK}, the layer's own) for each "
                "layer), or choose other tensors with generate=",
            )
        return self.rank

    def options(self) -> dict[str, Any]:
        known = {"rank": self.rank, "base": self.base, "terms": self.terms}
        return known | ({"orthogonal": True} if self.orthogonal else {})

    def start(self, module: nn.Module) -> Tensor:
        downs = [torch.randn(part.shape) / math.sqrt(part.shape[1]) for part in self.parts[: len(self.names)]]
        ups = [torch.zeros(part.shape) for part in self.parts[len(self.names) :]]
        return torch.cat([factor.flatten() for factor in (*downs, *ups)])

    def assemble(self, parts: Sequence[Tensor], shared: dict[str, Tensor]) -> dict[str, Tensor]:
        made, count = {}, len(self.names)
        for index, (name, sides) in enumerate(zip(self.names, self._sides)):
            base, down = shared[name], self.down(parts, index)
            up = torch.cat(list(parts[count + index :: count]), dim=1) if self.terms > 1 else parts[count + index]
            made[name] = torch.addmm(base.reshape(sides), up.to(base), down.to(base)).view(base.shape)
        return made

    def down(self, parts: Sequence[Tensor], index: int) -> Tensor:
        """Return ``A [terms k, in]`` of the tensor of this index."""
        return _orthonormal(parts[index]) if self.orthogonal else parts[index]

    def describe(self) -> str:
        ranks = sorted(set(self._ranks))
        rank = str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]} to {ranks[-1]}"
        terms = f", {self.terms} terms each" if self.terms > 1 else ""
        terms += ", orthogonal" if self.orthogonal else ""
        return f"entries of low-rank factors (rank {rank}{terms}) for {len(self.names)} tensor(s)"


def _matrix(shape: Sequence[int]) -> tuple[int, ...]:
    """Return ``(out, in)`` of a tensor as a matrix, without dimensions of size 1; empty for vectors and numbers."""
    sides = [side for side in shape if side > 1]
    return (sides[0], math.prod(sides[1:])) if len(sides) > 1 else ()


def _orthonormal(rows: Tensor) -> Tensor:
    """Make ``rows [k, in]`` orthonormal: the first keeps its direction, each later one loses that of those before."""
    wide = rows.float() if rows.dtype in (torch.bfloat16, torch.float16) else rows
    basis, triangle = torch.linalg.qr(wide.mT)
    signs = torch.where(triangle.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0).to(wide)
    return (basis * signs[..., None, :]).mT.to(rows)
