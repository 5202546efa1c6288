"""The paper's hypernetwork for large targets: ``theta`` in chunks, all from the same few matrices (section 7).

    psi_c = MLP(sum_i r_i e_i, chunk embedding_c)             features [hidden] of chunk c
    theta = (A_1 psi_1, ..., A_k psi_1, A_1 psi_2, ...)       the first n entries; A_j [chunk, hidden]

after Ha et al. (2017) and von Oswald et al. (2020). The matrices hold nearly all parameters, so the hypernetwork may be
smaller than the target: ``k`` of them and ``n / (k chunk)`` chunks. All chunks are one matrix product.

Two initializations:

``"plain"``
    the paper's: every parameter is drawn from ``N(0, 0.1^2)``. Generated weights then start at a scale that is
    unrelated to their layer.
``"scaled"`` (default)
    chunks ignore the borders of tensors, so rows of ``A`` cannot have the scale of a layer. Instead ``A psi`` starts
    with unit variance and uncorrelated chunks, and is multiplied by the standard deviation of each tensor in the
    target's own initialization: ``theta = mean + deviation (A psi)``. A constant tensor gets the mean deviation of the
    other tensors, since with zero deviation it could not learn. The ray moves ``psi`` by about a tenth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hyperfront.errors import HyperfrontError
from hyperfront.model.hypernets.base import Hypernet

RAY_SCALE = 0.1
PAPER_DEVIATION = 0.1


class ChunkedHypernet(Hypernet):
    """``rays [R, m] -> theta [R, n]``.

    ``chunk`` is the number of rows of each of the ``matrices``. The default of ``chunks`` is the smallest number that
    covers ``theta``. ``start [n]`` and ``sizes`` are those of :class:`MLPHypernet`, for the scaled initialization.

    >>> hypernet = ChunkedHypernet(2, 11_443_156, matrices=1, chunks=1150, initialization="plain")
    >>> sum(p.numel() for p in hypernet.parameters())  # "1M" of the paper, for its ResNet18
    1103564
    """

    kind = "chunked"
    means: Tensor
    deviations: Tensor

    def __init__(
        self,
        m: int,
        n: int,
        *,
        hidden: int = 100,
        chunk: int | None = None,
        matrices: int = 1,
        chunks: int | None = None,
        embedding: int = 64,
        ray_embedding: int = 32,
        initialization: Literal["scaled", "plain"] = "scaled",
        start: Tensor | None = None,
        sizes: Sequence[int] | None = None,
    ):
        super().__init__()
        chunk = min(10_000, n) if chunk is None else chunk
        if min(hidden, chunk, matrices, embedding, ray_embedding) < 1 or initialization not in ("scaled", "plain"):
            raise HyperfrontError(
                "no such chunked hypernetwork",
                got=f"hidden = {hidden}, chunk = {chunk}, matrices = {matrices}, embedding = {embedding}, "
                f"ray_embedding = {ray_embedding}, initialization = {initialization!r}",
                expected="numbers >= 1 and initialization 'scaled' or 'plain'",
            )
        if chunk * (matrices - 1) >= n or chunk > n:
            raise HyperfrontError(
                "a chunk is larger than the target, so part of the matrices would never be used",
                got=f"{matrices} matrices of {chunk} rows",
                expected=f"at most {n} rows in all, the number of generated weights",
                fix=f"chunk={max(1, n // matrices)}",
            )
        needed = math.ceil(n / (chunk * matrices))
        if chunks is not None and chunks < needed:
            raise HyperfrontError(
                "the chunks do not cover the target",
                got=f"{chunks} chunk(s) of {matrices} x {chunk} weights",
                expected=f"at least {needed} for {n} generated weights",
            )
        self.m, self.n, self.hidden, self.chunk, self.matrices = m, n, hidden, chunk, matrices
        self.chunks, self.initialization = chunks or needed, initialization
        self.ray_embedding = nn.Parameter(torch.empty(m, ray_embedding))
        self.chunk_embedding = nn.Parameter(torch.empty(self.chunks, embedding))
        self.first, self.second, self.third = (
            nn.Linear(ray_embedding + embedding, hidden),
            nn.Linear(hidden, hidden),
            nn.Linear(hidden, hidden),
        )
        self.heads = nn.Linear(hidden, matrices * chunk, bias=False)  # A_1, ..., A_k one above the other
        self.sizes = list(sizes or [n])
        self.register_buffer("means", torch.zeros(len(self.sizes)))
        self.register_buffer("deviations", torch.ones(len(self.sizes)))
        if initialization == "plain":
            for parameter in self.parameters():
                nn.init.normal_(parameter, std=PAPER_DEVIATION)
        else:
            self._start_scaled(None if start is None else start.split(self.sizes))

    @torch.no_grad()
    def _start_scaled(self, start: Sequence[Tensor] | None) -> None:
        width, ray_width = self.chunk_embedding.shape[1], self.ray_embedding.shape[1]
        nn.init.normal_(self.chunk_embedding)
        nn.init.normal_(self.ray_embedding, std=RAY_SCALE * math.sqrt(width / ray_width))
        for layer in (self.first, self.second, self.third):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
        # ReLUs give the features of all chunks a common direction, which would make chunks copies of each other:
        # subtract it, measured on many embeddings since chunks may be few, and scale the remainder to length 1
        psi = self._features(torch.full((1, self.m), 1 / self.m), torch.randn(2048, width))[0]
        length = (psi - psi.mean(0)).square().sum(1).mean().sqrt()
        self.third.weight.div_(length)
        self.third.bias.copy_(-psi.mean(0) / length)
        nn.init.normal_(self.heads.weight)
        if start is None:
            return
        # given psi, an entry of chunk c has variance |psi_c|^2: divide by the average over a tensor's entries
        square = self._features(torch.full((1, self.m), 1 / self.m), self.chunk_embedding)[0].square().sum(1)
        entries = square.repeat_interleave(self.matrices * self.chunk)[: self.n].split(self.sizes)
        unit = torch.stack([part.mean().sqrt() for part in entries])
        own = torch.stack([part.float().std(correction=0) for part in start])
        usual = own[own > 0].mean() if (own > 0).any() else torch.ones(())
        self.deviations.copy_(torch.where(own > 0, own, usual) / unit)
        self.means.copy_(torch.stack([part.float().mean() for part in start]))

    def options(self) -> dict[str, Any]:
        return {
            "hidden": self.hidden,
            "chunk": self.chunk,
            "matrices": self.matrices,
            "chunks": self.chunks,
            "embedding": self.chunk_embedding.shape[1],
            "ray_embedding": self.ray_embedding.shape[1],
            "initialization": self.initialization,
        }

    def _features(self, rays: Tensor, chunk_embedding: Tensor) -> Tensor:
        """Compute ``psi [R, chunks, hidden]``. The first layer is linear in both inputs, so neither is repeated."""
        ray_weight, chunk_weight = self.first.weight.split(
            [self.ray_embedding.shape[1], self.chunk_embedding.shape[1]], dim=1
        )
        from_ray = (rays @ self.ray_embedding) @ ray_weight.T
        from_chunk = chunk_embedding @ chunk_weight.T + self.first.bias
        hidden = torch.relu(from_ray[:, None] + from_chunk)
        return self.third(torch.relu(self.second(hidden)))

    def forward(self, rays: Tensor) -> Tensor:
        raw = self.heads(self._features(rays, self.chunk_embedding)).flatten(1)  # all chunks of all rays at once
        if self.initialization == "plain":
            return raw[:, : self.n]
        # tensor by tensor, the surplus of the last chunk apart: autograd then keeps no second copy of theta
        parts = raw.split([*self.sizes, raw.shape[1] - self.n], dim=1)
        scaled = [torch.addcmul(mean, part, scale) for mean, part, scale in zip(self.means, parts, self.deviations)]
        return torch.cat(scaled, dim=1)
