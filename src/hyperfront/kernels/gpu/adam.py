"""Adam's update of all parameters in one Triton launch, at the speed of memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 2048
AT_ONCE = 16  # parameters of one launch


@triton.jit
def _correction(steps, log):
    """Compute ``1 - beta^steps`` from ``log(beta)``: by a series near zero, where the difference would lose digits."""
    x = steps * log
    series = x * (1 + x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5))))
    return -tl.where(x > -0.1, series, tl.exp(x) - 1)


@triton.jit
def _update(p, g, m, v, n, block, rate, c1, c2, share1, share2, epsilon, decay, BLOCK: tl.constexpr):
    at = block * BLOCK + tl.arange(0, BLOCK)
    here = at < n
    grad = tl.load(g + at, here, 0.0)
    value = tl.load(p + at, here, 0.0)
    first = tl.load(m + at, here, 0.0)
    second = tl.load(v + at, here, 0.0)
    grad += decay * value
    first += share1 * (grad - first)
    second += share2 * (grad * grad - second)
    value -= rate / c1 * first / (tl.sqrt(second) / tl.sqrt(c2) + epsilon)
    tl.store(p + at, value, here)
    tl.store(m + at, first, here)
    tl.store(v + at, second, here)


@triton.jit
def _adam(ps, gs, ms, vs, ns, starts, steps, rate, log1, log2, share1, share2, epsilon, decay, BLOCK: tl.constexpr):
    """Program ``starts[i] + b`` updates block ``b`` of parameter ``i``."""
    program = tl.program_id(0)
    lr = tl.load(rate)
    for i in tl.static_range(len(ps)):
        block = program - starts[i]
        if (block >= 0) & (block * BLOCK < ns[i]):
            count = tl.load(steps[i])  # includes this step
            c1, c2 = _correction(count, log1), _correction(count, log2)
            _update(ps[i], gs[i], ms[i], vs[i], ns[i], block, lr, c1, c2, share1, share2, epsilon, decay, BLOCK)


def adam_on_gpu(
    parameters: Sequence[Tensor],
    gradients: Sequence[Tensor],
    first: Sequence[Tensor],
    second: Sequence[Tensor],
    steps: Sequence[Tensor],
    lr: Tensor,
    *,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
) -> None:
    """Take one step of Adam in place; ``steps`` (which include this one) and ``lr`` are float32 scalars on the GPU."""
    for at in range(0, len(parameters), AT_ONCE):
        some = slice(at, at + AT_ONCE)
        sizes = [tensor.numel() for tensor in parameters[some]]
        blocks = [triton.cdiv(size, BLOCK) for size in sizes]
        starts = [sum(blocks[:i]) for i in range(len(blocks))]
        lists = (parameters[some], gradients[some], first[some], second[some], sizes, starts, steps[some])
        _adam[(sum(blocks),)](
            *(tuple(items) for items in lists),
            lr,
            *(math.log(beta) for beta in betas),
            *(1 - float(beta) for beta in betas),
            eps,
            weight_decay,
            BLOCK=BLOCK,
        )
