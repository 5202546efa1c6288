"""The mean cross entropy of a small classifier and its gradient in one Triton launch."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from hyperfront.kernels.gpu.rays import merged, merged_unless_shared


@triton.jit
def _kernel(logits, labels, loss, slope, label_ray, B, N: tl.constexpr, BM: tl.constexpr, NB: tl.constexpr):
    ray, n = tl.program_id(0), tl.arange(0, NB)
    total = tl.zeros((BM,), tl.float32)
    for start in range(0, B, BM):
        row = start + tl.arange(0, BM)
        here = row < B
        at = (ray * B + row)[:, None] * N + n[None, :]
        real = here[:, None] & (n < N)[None, :]
        z = tl.load(logits + at, real, -float("inf"))
        label = tl.load(labels + ray * label_ray + row, here, 0)
        z = tl.where(here[:, None], z, 0.0)
        z -= tl.max(z, 1)[:, None]
        e = tl.exp(z)
        norm = tl.sum(e, 1)
        mine = n[None, :] == label[:, None]
        total += tl.where(here, tl.log(norm) - tl.sum(tl.where(mine, z, 0.0), 1), 0.0)
        tl.store(slope + at, (e / norm[:, None] - tl.where(mine, 1.0, 0.0)) / B, real)
    tl.store(loss + ray, tl.sum(total, 0) / B)


class _CrossEntropy(torch.autograd.Function):
    """``logits [R, B, N]``, ``labels [R or 1, B]`` -> losses ``[R]`` and their gradients."""

    @staticmethod
    def forward(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        logits, (R, B, N) = logits.contiguous(), logits.shape
        loss, slope = logits.new_empty(R), torch.empty_like(logits)
        block, rows = max(2, triton.next_power_of_2(N)), min(512, triton.next_power_of_2(B))
        _kernel[(R,)](
            logits, labels.contiguous(), loss, slope, B * (len(labels) > 1), B, N=N, BM=rows, NB=block, num_warps=8
        )
        return loss, slope

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, _: Any) -> tuple[Tensor | None, None]:
        return None if g is None else g[:, None, None] * ctx.saved_tensors[0], None

    @staticmethod
    def vmap(info: Any, dims: tuple, logits: Tensor, labels: Tensor) -> tuple:
        count = info.batch_size
        logits, labels = merged(logits, dims[0], count), merged_unless_shared(labels, dims[1], count)
        loss, slope = _CrossEntropy.apply(logits, labels)
        return (loss.unflatten(0, (count, -1)), slope.unflatten(0, (count, -1))), (0, 0)


def cross_entropy_on_gpu(logits: Tensor, labels: Tensor) -> Tensor:
    """Compute ``F.cross_entropy`` of ``logits [B, N]`` and integer ``labels [B]``."""
    return _CrossEntropy.apply(logits[None], labels[None])[0].squeeze(0)
