"""EPO's weights on a GPU: one Triton program for each ray, which reads nothing back, so that a step can be captured.

Two objectives have the closed form of :func:`hyperfront.solvers.epo.two_objectives`. For more objectives, two programs
for each ray hold a table of :mod:`hyperfront.solvers.linalg.linprog` in registers and make the same dual pivots: one
solves equation (4) of EPO, the other (6), or both solve (5). The fallbacks are the same as on the CPU: an infeasible
restriction is dropped, and if rounding makes even the relaxed program fail, the weights are the exact min-norm weights.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

LN2 = tl.constexpr(0.6931471805599453)
RAY_FLOOR = tl.constexpr(1e-6)
LOSS_FLOOR = tl.constexpr(1e-30)
TIE = tl.constexpr(1e-12)
ROUNDING = tl.constexpr(1e-14)
VIOLATED = tl.constexpr(1e-12)
ACCEPTED = tl.constexpr(1e-9)
PIVOT = tl.constexpr(1e-11)
SLACK = tl.constexpr(1e-11)
INFEASIBLE = tl.constexpr(1e-6)
TINY = tl.constexpr(1e-300)
HUGE = tl.constexpr(1e300)
RIDGE = tl.constexpr(1e-14)
MISSED = tl.constexpr(1e-11)
RELAXED = tl.constexpr(1)
MIN_NORM = tl.constexpr(2)
FLOORED = tl.constexpr(3)
INVALID = tl.constexpr(4)


@triton.jit
def _log_sigmoid(x):
    return tl.where(x < 0, x, 0.0) - tl.log(1 + tl.exp(-tl.abs(x)))


@triton.jit
def _two(losses, rays, gram, floor, weights, status, count, tolerance, descent, BLOCK: tl.constexpr):
    ray = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = ray < count
    l1 = tl.load(losses + 2 * ray, here, 1.0).to(tl.float64)
    l2 = tl.load(losses + 2 * ray + 1, here, 1.0).to(tl.float64)
    given1, given2 = tl.load(rays + 2 * ray, here, 0.5), tl.load(rays + 2 * ray + 1, here, 0.5)
    c11, c12 = tl.load(gram + 4 * ray, here, 1.0), tl.load(gram + 4 * ray + 1, here, 0.0)
    c22 = tl.load(gram + 4 * ray + 3, here, 1.0)
    least = tl.where(l1 < l2, l1, l2)
    valid = least + 0 * (l1 + l2 + c11 + c12 + c22) >= 0
    f1, f2 = tl.load(floor).to(tl.float64), tl.load(floor + 1).to(tl.float64)
    f1, f2 = tl.where(f1 > LOSS_FLOOR, f1, LOSS_FLOOR), tl.where(f2 > LOSS_FLOOR, f2, LOSS_FLOOR)
    floored = (l1 < f1) | (l2 < f2)
    l1, l2 = tl.where(l1 < f1, f1, l1), tl.where(l2 < f2, f2, l2)
    r1, r2 = given1.to(tl.float64), given2.to(tl.float64)
    r1, r2 = tl.where(r1 < RAY_FLOOR, RAY_FLOOR, r1), tl.where(r2 < RAY_FLOOR, RAY_FLOOR, r2)
    total = r1 + r2
    r1, r2 = r1 / total, r2 / total

    gap = tl.log(l1 * r1) - tl.log(l2 * r2)
    gap = tl.where(tl.abs(gap) <= TIE, 0.0, gap)
    s1, s2 = _log_sigmoid(gap), _log_sigmoid(-gap)
    p1, p2 = tl.exp(s1), tl.exp(s2)
    balance = p1 * s1 + p2 * s2 + LN2 > tolerance  # in float64, which the argument is not
    a1, a2 = gap * r1 * p2, -gap * r2 * p1
    q1, q2 = c11 * a1 + c12 * a2, c22 * a2 + c12 * a1
    free = c12 >= 0
    least1, least2 = c11 / (c11 - c12), c22 / (c22 - c12)  # caps of dominance and descent, then of balance
    cap1, cap2 = (c11 - q1) / (c11 - c12), (c22 - q2) / (c22 - c12)
    lo, hi = 1 - tl.where(free | (least1 > 1), 1.0, least1), tl.where(free | (least2 > 1), 1.0, least2)
    low, high = 1 - tl.where(free | (cap1 > 1), 1.0, cap1), tl.where(free | (cap2 > 1), 1.0, cap2)
    end, balanced = tl.where(c11 > c22, hi, lo), tl.where(q1 > q2, high, low)
    lowered = tl.where(c11 * p1 + c12 * p2 > c22 * p2 + c12 * p1, hi, lo)
    slope, most = q1 - q2, tl.where(q1 > q2, q1, q2)
    need = tl.where(most < 0, most, 0.0) - q2
    broken = slope * end < need
    cut = need / slope
    cut = tl.where(cut < lo, lo, cut)
    cut = tl.where(cut > hi, hi, cut)
    t = tl.where(balance, balanced + descent * (lowered - balanced), tl.where(broken, cut, end))
    tl.store(weights + 2 * ray, tl.where(valid, t.to(tl.float32), given1.to(tl.float32)), here)
    tl.store(weights + 2 * ray + 1, tl.where(valid, (1 - t).to(tl.float32), given2.to(tl.float32)), here)
    kind = tl.where(valid, tl.where(floored, FLOORED, 0), INVALID)
    tl.store(status + ray, kind.to(tl.uint8), here)


@triton.jit
def _program(losses, rays, gram, floor, table, status, count, tolerance, m: tl.constexpr, MB: tl.constexpr):
    """Write the rows of linprog's matrix as columns of ``table [m, 2 m + 3]``, from equations (1) to (6) of EPO.

    The first ``count`` programs write (4) or (5), the others (6) or (5).
    """
    ray, place = tl.program_id(0) % count, tl.program_id(0)
    j, k = tl.arange(0, MB), tl.arange(0, MB)  # objectives, as rows and as columns
    n: tl.constexpr = 2 * m + 3
    table += place * (m * n)
    here, both = j < m, (j < m)[:, None] & (k < m)[None, :]
    loss = tl.load(losses + ray * m + j, here, 1.0).to(tl.float64)
    share = tl.load(rays + ray * m + j, here, 0.0).to(tl.float64)
    low = tl.load(floor + j, here, 0.0).to(tl.float64)
    c = tl.load(gram + ray * (m * m) + j[:, None] * m + k[None, :], both, 0.0)
    valid = tl.min(loss, 0) + 0 * (tl.sum(loss, 0) + tl.sum(tl.sum(c, 1), 0)) >= 0
    low = tl.where(low > LOSS_FLOOR, low, LOSS_FLOOR)
    floored = tl.max(tl.where(here & (loss < low), 1, 0), 0)
    tl.store(status + place, tl.where(valid, tl.where(floored > 0, FLOORED, 0), INVALID).to(tl.uint8))
    c = tl.where(valid, c, 0.0)
    loss = tl.where(valid, tl.where(loss < low, low, loss), 1.0)

    share = tl.where(here, tl.where(share < RAY_FLOOR, RAY_FLOOR, share), 0.0)
    share = share / tl.sum(share, 0)
    logs = tl.log(tl.where(here, loss * share, 1.0))
    logs -= tl.max(tl.where(here, logs, -HUGE), 0)
    logs = tl.where(logs > -TIE, 0.0, logs)
    above = logs - tl.log(tl.sum(tl.where(here, tl.exp(logs), 0.0), 0) / m)  # ln(m p)
    mu = tl.sum(tl.where(here, tl.exp(above) * above, 0.0), 0) / m
    dominance = tl.where(mu <= tolerance, 1, 0)
    lower = tl.where(place >= count, 1, dominance)  # whether losses are lowered
    diagonal = j[:, None] == k[None, :]
    part = tl.where(here, tl.exp(above) / m, 0.0)  # p
    others = tl.sum(tl.where(diagonal, logs[:, None], 0.0), 0)  # logs and p, as rows
    parts = tl.sum(tl.where(diagonal, part[:, None], 0.0), 0)
    anchor = tl.where(here, share * tl.sum(parts[None, :] * (logs[:, None] - others[None, :]), 1), 0.0)
    terms = c * anchor[:, None]  # the Gram matrix is symmetric: its columns are added up
    across = tl.sum(terms, 0)
    across = tl.where(tl.abs(across) <= ROUNDING * tl.sum(tl.abs(terms), 0), 0.0, across)
    q = tl.sum(tl.where(diagonal, across[None, :], 0.0), 1)  # as a column
    most = tl.max(tl.where(here, q, -HUGE), 0)
    level = (lower > 0) | (most <= 0) | (anchor > 0)
    limit = tl.where(level, 0.0, tl.where(q > 0, -HUGE, q))
    restriction = tl.where(dominance > 0, tl.where(most < 0, most, 0.0), -HUGE)
    weight = tl.where(here & (dominance == 0), tl.exp(above), 1.0)  # m p; of dominance 1
    across = tl.sum(c * weight[:, None], 0)
    cost = tl.where(lower > 0, tl.sum(tl.where(j[:, None] == k[None, :], across[None, :], 0.0), 1), q)

    scale = tl.max(tl.abs(c), 1)
    scale = tl.where(scale > TINY, scale, TINY)
    limit = limit / scale
    limit = tl.where(limit < -2, -2.0, limit)
    widest = tl.max(tl.abs(q), 0)
    widest = tl.where(widest > TINY, widest, TINY)
    restriction = restriction / widest
    restriction = tl.where(restriction < -2, -2.0, restriction)
    dearest = tl.max(tl.where(here, tl.abs(cost), 0.0), 0)
    dearest = tl.where(dearest > TINY, dearest, TINY)
    tl.store(table + j[:, None] * n + k[None, :], tl.where(j[:, None] == k[None, :], 1.0, 0.0).to(tl.float64), both)
    tl.store(table + k[None, :] * n + m + j[:, None], c / scale[:, None] - limit[:, None], both)
    tl.store(table + j * n + 2 * m, q / widest - restriction, here)
    tl.store(table + j * n + 2 * m + 1, tl.zeros((MB,), tl.float64) - VIOLATED, here)
    tl.store(table + j * n + 2 * m + 2, -cost / dearest, here)


@triton.jit
def _min_norm(c, k, i, m: tl.constexpr, LIMIT: tl.constexpr):
    """Compute the exact min-norm weights along ``i`` from the Gram matrix ``c`` with rows ``k`` and columns ``i``.

    In the words of :func:`hyperfront.solvers.linalg.minnorm.active_set`: ``K x - 1 = w`` with ``x, w >= 0`` and
    ``x^T w = 0``. Murty (1974) exchanges the first ``x_j`` and ``w_j`` that is negative, which ends for every positive
    definite ``K``. The table holds what is not exchanged as rows, and its constants in column ``m``.
    """
    inside, diagonal = (k < m)[:, None] & (i < m)[None, :], k[:, None] == i[None, :]
    squares = tl.sum(tl.where(diagonal, c, 0.0), 1)
    least = tl.min(tl.where(k < m, squares, HUGE), 0)
    shortest = tl.argmin(tl.where(k < m, squares, HUGE), 0)
    unit = tl.where(least > 0, least, tl.max(squares, 0))
    unit = tl.where(unit > 0, unit, 1.0)
    t = tl.where(inside, c / unit + 1 + tl.where(diagonal, RIDGE * c / unit, 0.0), 0.0)
    t = tl.where((i == m)[None, :] & (k < m)[:, None], -1.0, t)
    slack = MISSED * (1 + tl.sqrt(tl.where(squares > 0, squares / unit, 0.0)))
    exchanged = k < 0
    count = 0
    while count < LIMIT:
        constants = tl.sum(tl.where((i == m)[None, :], t, 0.0), 1)
        first = tl.min(tl.where((k < m) & (constants < -slack), k, m), 0)
        done = first == m
        row = tl.sum(tl.where((k == first)[:, None], t, 0.0), 0)
        column = tl.sum(tl.where((i == first)[None, :], t, 0.0), 1)
        pivot = tl.sum(tl.where(i == first, row, 0.0), 0)
        pivot = tl.where(pivot > 0, pivot, 1.0)
        here, there = (k == first)[:, None], (i == first)[None, :]
        changed = t - column[:, None] * row[None, :] / pivot
        changed = tl.where(here, -row[None, :] / pivot, tl.where(there, column[:, None] / pivot, changed))
        changed = tl.where(here & there, 1 / pivot, changed)
        t = tl.where(done, t, changed)
        exchanged = exchanged != ((k == first) & (done == 0))
        count = tl.where(done, LIMIT, count + 1)
    constants = tl.sum(tl.where((i == m)[None, :], t, 0.0), 1)
    x = tl.sum(tl.where(diagonal & exchanged[:, None], constants[:, None], 0.0), 0)
    alpha = x / tl.sum(x, 0)
    fine = tl.min(tl.where((alpha >= 0) & (alpha <= 1), 1, 0), 0)
    return tl.where(fine == 1, alpha, tl.where(i == shortest, 1.0, 0.0).to(tl.float64))


@triton.jit
def _pivots(
    table, gram, rays, weights, status, count, m: tl.constexpr, KB: tl.constexpr, NB: tl.constexpr, MOST: tl.constexpr
):
    """Make dual pivots on the table: rows ``k`` are moves, row ``k = m`` the constants; columns ``i`` are rows of M."""
    ray, place, n = tl.program_id(0) % count, tl.program_id(0), 2 * m + 3
    k, i = tl.arange(0, KB), tl.arange(0, NB)
    last, move_row, wall = (i == n - 1)[None, :], (k < m)[:, None], (k == m)[:, None]
    given = tl.load(table + place * (m * n) + k[:, None] * n + i[None, :], move_row & (i < n)[None, :], 0.0)
    kind = tl.load(status + place).to(tl.int32)
    cost = tl.sum(tl.where(last, given, 0.0), 1)
    start = tl.argmin(tl.where(k < m, cost, HUGE), 0)
    constants = tl.zeros((NB,), tl.float64)
    costs = tl.zeros((KB,), tl.float64)
    relaxed = 0
    attempts = 0
    while attempts < 2:
        t = tl.where((i == 2 * m)[None, :] & (relaxed == 1), 0.0, given)
        first = tl.sum(tl.where((k == start)[:, None], t, 0.0), 0)
        t = tl.where(move_row, t - first[None, :], tl.where(wall, first[None, :], 0.0))
        pivots = 0
        while pivots < MOST:
            constants = tl.sum(tl.where(wall, t, 0.0), 0)
            costs = tl.sum(tl.where(last, t, 0.0), 1)
            leaving = tl.argmin(tl.where(i < n - 1, constants, HUGE), 0)
            if pivots >= MOST // 2:  # Bland: always the lowest number
                leaving = tl.min(tl.where((constants < -VIOLATED) & (i < n - 1), i, leaving), 0)
            row = tl.sum(tl.where((i == leaving)[None, :], t, 0.0), 1)
            usable = (row > PIVOT) & (k < m)
            ratios = tl.where(usable, (costs + SLACK) / tl.where(usable, row, 1.0), HUGE * 10)
            ratios = tl.where((k == start) & (row <= PIVOT), HUGE, ratios)
            entering = tl.argmin(ratios, 0)
            pivot = tl.sum(tl.where(k == entering, row, 0.0), 0)
            pivot = tl.where(pivot > PIVOT, pivot, PIVOT)
            move = tl.sum(tl.where((k == entering)[:, None], t, 0.0), 0)
            done = entering == start
            changed = tl.where(
                (k == entering)[:, None], (move / pivot)[None, :], t - (row / pivot)[:, None] * move[None, :]
            )
            t = tl.where(done, t, changed)
            pivots = tl.where(done, MOST, pivots + 1)
        constants = tl.sum(tl.where(wall, t, 0.0), 0)
        costs = tl.sum(tl.where(last, t, 0.0), 1)
        worst = tl.min(tl.where(i < n - 2, constants, 0.0), 0)
        infeasible = (worst < -INFEASIBLE) & (relaxed == 0)
        relaxed = tl.where(infeasible, 1, relaxed)
        attempts = tl.where(infeasible, 1, 2)
    worst = tl.min(tl.where(i < n - 2, constants, 0.0), 0)
    solved = (worst >= -ACCEPTED) & (tl.min(tl.where(k < m, costs, 0.0), 0) >= -ACCEPTED)
    alpha = tl.where((i < m) & (constants > 0), constants, 0.0)
    alpha = alpha / tl.sum(alpha, 0)
    answer = tl.where(relaxed == 1, RELAXED, kind)
    if solved == 0:
        answer = tl.where(solved, answer, MIN_NORM)
        c = tl.load(gram + ray * (m * m) + k[:, None] * m + i[None, :], move_row & (i < m)[None, :], 0.0)
        alpha = _min_norm(c, k, i, m, LIMIT=32 * m)
    fallback = tl.load(rays + ray * m + i, i < m, 0.0).to(tl.float64)
    alpha = tl.where(kind == INVALID, fallback, alpha)
    tl.store(weights + place * m + i, alpha, i < m)
    tl.store(status + place, tl.where(kind == INVALID, INVALID, answer).to(tl.uint8))


def epo_on_gpu(
    losses: Tensor, rays: Tensor, gram: Tensor, floor: Tensor, tolerance: float, descent: float
) -> tuple[Tensor, Tensor]:
    """Compute weights float32 ``[R, m]`` and status uint8 ``[R]``, with ``gram [R, m, m]`` in float64, ``floor
    [m]``."""
    count, m = losses.shape
    inputs = (losses.contiguous(), rays.contiguous(), gram.contiguous(), floor.contiguous())
    if m == 2:
        weights = torch.empty(count, m, dtype=torch.float32, device=losses.device)
        status = torch.empty(count, dtype=torch.uint8, device=losses.device)
        grid = (triton.cdiv(count, 64),)
        _two[grid](*inputs, weights, status, count, tolerance, descent, BLOCK=64, num_warps=2)
        return weights, status
    n, block = 2 * m + 3, triton.next_power_of_2(m)
    table = torch.empty(2 * count, m, n, dtype=torch.float64, device=losses.device)
    weights = torch.empty(2 * count, m, dtype=torch.float64, device=losses.device)
    status = torch.empty(2 * count, dtype=torch.uint8, device=losses.device)
    _program[(2 * count,)](*inputs, table, status, count, tolerance, m=m, MB=block, num_warps=1)
    rows, columns = triton.next_power_of_2(m + 1), triton.next_power_of_2(n)
    _pivots[(2 * count,)](
        table, inputs[2], inputs[1], weights, status, count, m=m, KB=rows, NB=columns, MOST=8 * (m + 1), num_warps=1
    )
    balanced, lowered = weights.split(count)
    kind, its_kind = status.split(count)
    return balanced.lerp(lowered, descent).float(), torch.where(its_kind == MIN_NORM.value, its_kind, kind)
