"""Solve many tiny linear programs at once, exactly, on the device of their numbers.

    maximize  c . alpha    subject to    alpha in the simplex,  A alpha >= b                                    (1)

On the simplex ``b_i = b_i sum_j alpha_j``, so that everything is linear in ``alpha``: the variables, the slacks and the
negated objective are the rows of one matrix ``M = [I; A - b 1^T; -c]``, and all but the last must be >= 0. At a vertex,
``m - 1`` of these rows vanish. With them and the row ``1^T`` as the square matrix ``N``,

    T = M N^-1                                                                                                  (2)

writes every row as a constant (the column of ``1^T``) plus a multiple of each vanishing row. At ``e_j``, the optimum
over the bare simplex if ``j = argmax c``, the costs (the multiples in the last row) are >= 0. Dual pivots (Lemke, 1954)
keep them >= 0 and repair the negative constants one by one: there is no first phase, and without conflict no pivot. All
problems pivot in lock-step. Since pivots accumulate rounding errors, (2) is computed again from ``M`` at the end, and
pivoting continues if another constant turns out to be negative.
"""

from __future__ import annotations

import torch
from torch import Tensor

VIOLATED = 1e-12  # a constant below -VIOLATED is repaired
ACCEPTED = 1e-9  # but one above -ACCEPTED is accepted where no pivot can repair it
PIVOT = 1e-11  # smaller multiples, of rows scaled to 1, count as rounding errors
SLACK = 1e-11  # costs may fall so far below 0, to allow larger pivots (as Harris, 1973)
ROUNDING = 2e-15  # entries of (2) smaller than this share of the largest one in their row are zero
INFEASIBLE = 1e-6  # a constant below -INFEASIBLE that cannot be repaired is infeasible, not a rounding error
ROUNDS = 3  # computations of (2) before giving up
PIVOTS = 8  # times m: pivots between them
BLAND = 4  # times m: pivots before the rule that cannot cycle, and is slower


def maximize(c: Tensor, A: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Solve (1) for ``c [R, m]``, ``A [R, q, m]``, ``b [R, q]``; a row with ``b = -inf`` does not constrain.

    Returns ``alpha [R, m]`` float64 and ``solved`` bool ``[R]``: whether ``alpha`` is optimal, with constraints met to
    1e-9 of the largest entry of their row. Where not (no feasible point, or too many pivots), all weights are equal.
    The tests of convergence read from the device, so this cannot be captured in a CUDA graph.

    >>> c, A, b = torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[[-1.0, 1.0, 0.0]]]), torch.tensor([[0.0]])
    >>> maximize(c, A, b)
    (tensor([[0.5000, 0.5000, 0.0000]], dtype=torch.float64), tensor([True]))
    """
    return _solve(c, A, b, optional=False)[:2]


def maximize_or_relax(c: Tensor, A: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Solve (1), but drop the last row of ``A`` where it leaves no feasible point; also returns ``kept`` bool ``[R]``.

    Where it is infeasible by rounding only, the row is kept, and the problem may be left unsolved.
    """
    return _solve(c, A, b, optional=True)


def _solve(c: Tensor, A: Tensor, b: Tensor, optional: bool) -> tuple[Tensor, Tensor, Tensor]:
    m = c.shape[1]
    columns = _columns(c, A, b)
    each, start = torch.arange(len(c), device=c.device), c.argmax(1)
    table, vanishing = _start(columns, start, each)
    pivoted = _pivot(table, vanishing, start, each)
    kept = table[:, m, :-1].amin(1) >= -INFEASIBLE
    if optional and not kept.all():
        columns[..., -3].masked_fill_(~kept[:, None], 0)
        again = _start(columns, start, each)
        table = torch.where(kept[:, None, None], table, again[0])
        vanishing = torch.where(kept[:, None], vanishing, again[1])
        pivoted |= _pivot(table, vanishing, start, each)
    for _ in range(ROUNDS):
        if not pivoted:
            break
        table = _table(columns, vanishing, start, each)
        pivoted = _pivot(table, vanishing, start, each)
    solved = (table[:, m, :-1].amin(1) >= -ACCEPTED) & (table[:, :m, -1].amin(1) >= -ACCEPTED)
    alpha = table[:, m, :m].clamp_min(0)
    alpha = alpha / alpha.sum(1, keepdim=True)
    return alpha.masked_fill(~solved[:, None], 1 / m), solved, kept


def _columns(c: Tensor, A: Tensor, b: Tensor) -> Tensor:
    """Make ``M^T``, with rows of ``M`` scaled to a largest entry of 1, and a constant row -VIOLATED before the last."""
    R, m = c.shape
    cost, A, b = c.to(torch.float64)[..., None], A.to(torch.float64), b.to(torch.float64)[..., None]
    tiny = torch.finfo(torch.float64).tiny
    scale = A.abs().amax(2, keepdim=True).clamp_min(tiny)
    # no scaled row falls below -1, so a bound of -2 never binds
    slack = A / scale - (b / scale).clamp_min(-2)
    cost = cost / -cost.abs().amax(1, keepdim=True).clamp_min(tiny)
    eye = torch.eye(m, dtype=torch.float64, device=c.device).expand(R, m, m)
    return torch.cat([eye, slack.mT, torch.full_like(cost, -VIOLATED), cost], 2)


def _start(columns: Tensor, start: Tensor, each: Tensor) -> tuple[Tensor, Tensor]:
    """Make the table (``T^T``, the constants last) at vertex ``start``, and the numbers of the vanishing rows.

    Column j of ``M`` minus column ``start`` is the move from that vertex towards ``e_j``, along which all other
    variables vanish. The move towards ``e_start`` is zero, and remains zero.
    """
    constant = columns[each, start, None]
    number = torch.arange(columns.shape[1] + 1, device=columns.device)
    return torch.cat([columns - constant, constant], 1), number.expand(len(columns), -1).clone()


def _table(columns: Tensor, vanishing: Tensor, start: Tensor, each: Tensor) -> Tensor:
    """Compute ``T^T`` of equation (2); the constants are moved to the end, and zeros take their place."""
    m = columns.shape[1]
    square = columns.gather(2, vanishing[:, None, :m].expand(-1, m, -1))  # N^T
    square[each, :, start] = 1
    # each column of the inverse is as exact as possible; the column of the constants is alpha
    table = torch.linalg.inv_ex(square.mT)[0].mT @ columns
    size = table.abs()
    table = table.masked_fill(size <= ROUNDING * size.amax(1, keepdim=True), 0)
    constant = table[each, start, None]
    table[each, start] = 0
    return torch.cat([table, constant], 1)


def _pivot(table: Tensor, vanishing: Tensor, idle: Tensor, each: Tensor) -> bool:
    """Pivot ``table`` in place until no problem can continue, update the numbers of the vanishing rows, and return
    whether there was a pivot.

    A solved problem chooses the constant row -VIOLATED, which has no positive multiple, as an infeasible problem
    chooses its infeasible row. Without a positive multiple, a problem makes its ``idle`` move, which changes nothing.
    """
    R, width, n = table.shape
    costs, constants = table[..., -1], table[:, -1, :-1]
    if bool((constants[:, :-1].amin(1) >= -VIOLATED).all()):
        return False
    otherwise = table.new_full((R, width), torch.inf)
    otherwise[each, idle] = torch.finfo(table.dtype).max
    for count in range(PIVOTS * width):
        leaving = constants.argmin(1)
        bland = count >= BLAND * width  # Bland (1977): always the lowest numbers
        if bland:
            number = torch.arange(n - 1, device=table.device)
            leaving = torch.where(constants < -VIOLATED, number, leaving[:, None]).amin(1)
        row = table[each, :, leaving]
        ratios = torch.where(row > PIVOT, (costs + SLACK) / row, otherwise)
        entering = ratios.argmin(1)
        if bland:
            entering = torch.where(ratios <= ratios.amin(1, keepdim=True), vanishing, n).argmin(1)
        if bool((entering == idle).all()):
            return count > 0
        pivot = row[each, entering, None].clamp_min(PIVOT)
        move = table[each, entering]
        table.addcmul_((row / pivot)[..., None], move[:, None], value=-1)
        table[each, entering] = move / pivot
        vanishing[each, entering] = leaving
    return True
