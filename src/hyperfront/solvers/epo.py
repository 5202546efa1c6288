"""Exact Pareto optimal search: go to the point of the front where ``r_1 l_1 = ... = r_m l_m``.

Mahapatra and Rajan (ICML 2020) find, for every step, the weights ``alpha`` of the objectives by a linear program. With
``u_j = r_j l_j``, ``p = u / sum u``, the gradients ``G [m, n]`` and their Gram matrix ``C = G G^T``:

    mu  = sum_j p_j ln(m p_j)            non-uniformity: 0 on the ray, where all u_j are equal                  (1)
    a_j = r_j (ln(m p_j) - mu)           the anchor: a = (sum u) d mu / d l                                     (2)
    q   = C a                            a step along -G^T a lowers mu, and loss j at the rate q_j              (3)

A step along ``-G^T alpha`` lowers loss ``j`` at the rate ``(C alpha)_j``. Over ``alpha`` in the simplex:

    balance, mu > tolerance:      max q . alpha      s.t.  (C alpha)_j >= 0    where a_j > 0
                                                           (C alpha)_j >= q_j  where a_j <= 0 and q_j <= 0      (4)
                                                           (no q_j > 0: C alpha >= 0)
    dominance, mu <= tolerance:   max 1^T C alpha    s.t.  C alpha >= 0,  q . alpha >= min(max_j q_j, 0)        (5)
    descent:                      max p^T C alpha    s.t.  C alpha >= 0                                         (6)

On the ray the weights are the optimum of (5). Off the ray they are ``(1 - descent)`` times the optimum of (4) plus
``descent`` times the optimum of (6). The paper uses (4) alone, and bounds only the largest product in it.

Why (6): where a ray cannot be met, some products stay below the others, and (4) tends to raise their losses. Nothing
lowers them, so that a point off the front can stay there, or a hypernetwork can drift there at no cost. (6) lowers all
losses where that is possible. On the front ``G^T lambda = 0`` for some ``lambda`` in the simplex, hence
``lambda^T C alpha = 0``, and (6) changes no loss with ``lambda_j > 0``: (4) alone decides the place on the front. Only
a loss that does not bind, ``lambda_j = 0``, may fall further, at no first-order cost to the others. ``p`` gives the
largest weight to the largest products. With equal weights, (6) would lower a small loss to its minimum on the way to
the front, where its vanishing gradient would keep it, even at a ray that can be met.

Why ``a_j > 0`` in (4): these products are above the average, and balance means lowering them. So no step raises the
largest product, nor any other product above the average. For ``m = 2`` this is the paper's rule.

Programs (4) and (6) are always feasible, since the min-norm weights satisfy their constraints. The last constraint of
(5) can be infeasible for ``m >= 3`` (a few per cent of random instances); it is then dropped, and the ray counted as
relaxed. A ray that cannot be met counts as solved, since no single step can detect it: (4) and (6) are solved there
as at any ray.

The weights do not change with the scale of the Gram matrix. They do change with the scale of the rays, since ``a``
grows with ``r`` and ``q`` is a bound in (4): that is why rays are points of the simplex here.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from hyperfront.errors import check_number
from hyperfront.errors.signatures import checked
from hyperfront.kernels import on_gpu
from hyperfront.solvers.base import Solver, Status, check_gram, check_space
from hyperfront.solvers.linalg.linprog import maximize, maximize_or_relax
from hyperfront.solvers.linalg.linprog_plain import maximize_one
from hyperfront.solvers.linalg.minnorm import min_norm

DESCENT = 0.2  # the share of (6), from three objectives on: two have a front that nearly every ray meets
RAY_FLOOR = 1e-6  # 0 has no logarithm: smaller entries of a ray are raised to this, and the ray renormalized
LOSS_FLOOR = 1e-30  # likewise for losses; a training step, which knows their typical size, raises them earlier
FEW = 4  # rays for which plain numbers are faster than tensors (benchmarks/epo_forms.py)
TIE = 1e-12  # ln u_j this close to the largest equals the largest, so that rounding does not decide between ties
ROUNDING = 1e-14  # a sum this small beside the sum of its terms' sizes is zero


@dataclass(frozen=True)
class EPO(Solver):
    """Exact Pareto optimal search (PHN-EPO): equations (1) to (6) of :mod:`hyperfront.solvers.epo`.

    ``space`` chooses the gradients of the Gram matrix: ``"weights"`` as in Algorithm 1 of the paper, or
    ``"hypernetwork"`` as in its code. ``tolerance`` is the ``mu`` above which a step balances the losses instead of
    lowering all of them. ``descent`` is the share of the weights that lowers all losses even then: a larger share keeps
    rays that cannot be met closer to the front, and balances all rays less exactly in a training of given length. Its
    default is 0.2 from three objectives on, and 0 for two.

    Four pieces of code compute the same weights, each where it is the fastest (``benchmarks/epo_forms.py``): plain
    numbers for a few rays on a CPU; for more rays the closed form of two objectives, or the batched program of
    :mod:`hyperfront.solvers.linalg.linprog` for more objectives; one Triton program for each ray on a GPU. All have the
    same fallbacks: they drop the restriction of (5) where it is infeasible, and where rounding makes even the relaxed
    program fail, they take the exact min-norm weights.

    >>> losses, rays, gram = torch.tensor([[2.0, 1.0]]), torch.tensor([[0.5, 0.5]]), torch.eye(2)[None]
    >>> weights, status = EPO()(losses, rays, gram)  # no conflict: all on the worse of r_j l_j
    >>> weights
    tensor([[1., 0.]])
    """

    space: Literal["weights", "hypernetwork"] = "weights"  # pyrefly: ignore[bad-override] (frozen)
    tolerance: float = 1e-4
    descent: float | None = None

    needs_gram = True
    joint = False
    positive = True
    convention = "inverse"

    def __post_init__(self) -> None:
        check_space(self)
        check_number("tolerance of EPO", self.tolerance, 0)
        if self.descent is not None:
            check_number("descent of EPO", self.descent, 0, 1)

    def __call__(self, losses: Tensor, rays: Tensor, gram: Tensor | None = None) -> tuple[Tensor, Tensor]:
        gram, losses = check_gram(self, losses, rays, gram), losses.detach()
        descent = self.share_of_descent(losses.shape[-1])
        if len(losses) <= FEW and losses.device.type == "cpu":
            each = zip(losses.tolist(), rays.tolist(), gram.tolist())
            found = [one_ray(*numbers, self.tolerance, descent) for numbers in each]
            if all(alpha is not None for alpha in found):
                return losses.new_tensor(found), torch.zeros(len(found), dtype=torch.uint8)
        least = losses.amin(-1)
        # 0 times anything that is not finite is NaN, and NaN >= 0 is false
        valid = least + 0 * (losses.sum(-1) + gram.sum((-1, -2))) >= 0
        share = rays.detach().to(torch.float64).clamp_min(RAY_FLOOR)
        share = share / share.sum(-1, keepdim=True)
        logs = (losses.to(torch.float64).clamp_min(LOSS_FLOOR) * share).log()
        status = (least < LOSS_FLOOR) * int(Status.FLOORED)
        if losses.shape[-1] == 2:
            alpha = two_objectives(logs, share, gram, self.tolerance, descent)
        else:
            gram = gram.masked_fill(~valid[:, None, None], 0)  # an invalid ray must not cost pivots
            with torch.inference_mode():  # autograd's bookkeeping would be a sixth of the time
                alpha, status = _many(logs, share, gram, self.tolerance, descent, status)
        weights = torch.where(valid[:, None], alpha.to(losses.dtype), rays.to(losses.dtype))
        return weights, status.masked_fill(~valid, Status.INVALID).to(torch.uint8)

    @checked
    def share_of_descent(self, m: int) -> float:
        """Return ``descent``, or its default for ``m`` objectives."""
        return (DESCENT if m > 2 else 0.0) if self.descent is None else self.descent

    def floored(self, losses: Tensor, rays: Tensor, gram: Tensor | None, floor: Tensor) -> tuple[Tensor, Tensor]:
        if not on_gpu(losses):
            return super().floored(losses, rays, gram, floor)
        from hyperfront.kernels.gpu.epo import epo_on_gpu  # needs Triton

        gram = check_gram(self, losses, rays, gram)
        return epo_on_gpu(losses.detach(), rays, gram, floor, self.tolerance, self.share_of_descent(losses.shape[-1]))


def two_objectives(logs: Tensor, rays: Tensor, gram: Tensor, tolerance: float, descent: float) -> Tensor:
    """Compute the weights for ``m = 2`` in closed form: every optimum is ``(t, 1 - t)`` at one end of an interval.

    With ``gap = ln u_1 - ln u_2`` the shares are ``p_1 = sigmoid(gap)`` and ``p_2 = sigmoid(-gap)``, and the anchor is
    ``a = gap (r_1 p_2, -r_2 p_1)``. Objective ``j`` bounds the weight of the other one only in conflict, by

        f_j = 1 if c12 >= 0 else min(1, (c_jj - b_j) / (c_jj - c12)),        1 - f_1 <= t <= f_2,

    with ``b = q`` for balance (the objective with the larger ``u`` is never the one that binds) and ``b = 0`` for
    descent and dominance, where the restriction cuts the interval once more (never to nothing, since
    ``c12^2 <= c11 c22``). The objective decides for the upper end if ``q_1 > q_2`` (balance), ``(C p)_1 > (C p)_2``
    (descent) or ``c11 > c22`` (dominance).
    """
    gap = F.hardshrink(logs - logs.flip(-1), TIE)
    log_share = F.logsigmoid(gap)
    share = log_share.exp()
    balance = (share * log_share).sum(-1, keepdim=True) > tolerance - math.log(2)  # mu > tolerance

    anchor = gap * rays * share.flip(-1)
    own, cross = gram.diagonal(dim1=-2, dim2=-1), gram[:, :1, 1]
    q = own * anchor + cross * anchor.flip(-1)
    bound = torch.stack([q, torch.zeros_like(q)])
    cap = ((own - bound) / (own - cross)).clamp_max(1).masked_fill(cross >= 0, 1)
    lower, upper = 1 - cap[..., 0], cap[..., 1]  # [2, R]: of balance, and of descent
    first, second = torch.stack([q, own * share + cross * share.flip(-1)]).unbind(-1)  # q and C p
    ends = torch.where(first > second, upper, lower)
    longer = torch.where(own[:, 0] > own[:, 1], upper[1], lower[1])

    q1, q2 = q.unbind(-1)
    slope, need = q1 - q2, q.amax(-1).clamp_max(0) - q2  # the restriction: slope t >= need
    broken = slope * longer < need
    dominance = torch.where(broken, (need / slope).clamp(lower[1], upper[1]), longer)
    t = torch.where(balance[:, 0], ends[0].lerp(ends[1], descent), dominance)
    return torch.stack([t, 1 - t], -1)


def program(logs: Tensor, rays: Tensor, gram: Tensor, tolerance: float) -> tuple[Tensor, Tensor, Tensor]:
    """Make ``c [R, m]``, ``A [R, m + 1, m]``, ``b [R, m + 1]`` of (4) or (5); the last row is the restriction of
    (5)."""
    logs = logs - logs.amax(-1, keepdim=True)
    logs = logs.masked_fill(logs > -TIE, 0)
    log_share = logs - logs.exp().mean(-1, keepdim=True).log()  # ln(m p)
    mu = (log_share.exp() * log_share).mean(-1, keepdim=True)
    dominance = mu <= tolerance

    # ln(m p_j) - mu = sum_k p_k (ln p_j - ln p_k), which does not cancel where one objective has nearly all of p
    share = log_share.exp() / logs.shape[-1]
    above = (share[:, None] * (logs[:, :, None] - logs[:, None])).sum(-1)
    terms = gram * (rays * above)[:, None]  # C_jk a_k
    q = terms.sum(-1)
    q = q.masked_fill(q.abs() <= ROUNDING * terms.abs().sum(-1), 0)
    most = q.amax(-1, keepdim=True)
    level = dominance | (most <= 0) | (above > 0)
    limit = q.masked_fill(q > 0, -torch.inf).masked_fill(level, 0)  # controlled ascent
    restriction = torch.where(dominance, most.clamp_max(0), -torch.inf)
    c = torch.where(dominance, gram.sum(-1), q)
    return c, torch.cat([gram, q[:, None]], 1), torch.cat([limit, restriction], 1)


def one_ray(
    losses: list[float], ray: list[float], gram: list[list[float]], tolerance: float, descent: float
) -> list[float] | None:
    """Compute the weights of one ray in plain numbers. Return None if a loss must be raised or refused, a constraint
    relaxed, or the program solved with more care."""
    if not all(LOSS_FLOOR <= loss < math.inf for loss in losses):
        return None
    if not all(math.isfinite(entry) for row in gram for entry in row):
        return None
    share = [max(entry, RAY_FLOOR) for entry in ray]
    total = sum(share)
    share = [entry / total for entry in share]
    logs = [math.log(loss * entry) for loss, entry in zip(losses, share)]
    top = max(logs)
    logs = [log - top if log - top <= -TIE else 0.0 for log in logs]
    mean = math.log(sum(map(math.exp, logs)) / len(logs))
    log_share = [log - mean for log in logs]  # ln(m p)
    mu = sum(math.exp(log) * log for log in log_share) / len(logs)

    p = [math.exp(log) / len(logs) for log in log_share]
    anchor = [entry * sum(map(operator.mul, p, (log - other for other in logs))) for entry, log in zip(share, logs)]
    terms = [[entry * a for entry, a in zip(row, anchor)] for row in gram]  # C_jk a_k
    q = [sum(row) if abs(sum(row)) > ROUNDING * sum(map(abs, row)) else 0.0 for row in terms]
    most = max(q)
    if mu <= tolerance:
        return maximize_one([sum(row) for row in gram], [*gram, q], [0.0] * len(q) + [min(most, 0.0)])
    level = [most <= 0 or a > 0 for a in anchor]
    bounds = [(row, 0.0 if flat else rate) for row, rate, flat in zip(gram, q, level) if flat or rate <= 0]
    balanced = maximize_one(q, *zip(*bounds))
    if balanced is None or not descent:
        return balanced
    lowered = maximize_one([sum(map(operator.mul, row, p)) for row in gram], gram, [0.0] * len(q))
    if lowered is None:
        return None
    return [(1 - descent) * one + descent * other for one, other in zip(balanced, lowered)]


def _many(
    logs: Tensor, rays: Tensor, gram: Tensor, tolerance: float, descent: float, status: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute the weights, from (5) alone or from (4) and (6), and the status, if it is worse than the given one."""
    c, A, b = program(logs, rays, gram, tolerance)
    off = ((b[:, -1] == -torch.inf) & (descent > 0)).nonzero()[:, 0]  # rays that (4) balances
    bound = F.pad(torch.zeros_like(gram[off, 0]), (0, 1), value=-torch.inf)
    cost = (gram * logs.softmax(-1)[:, None]).sum(-1)  # C p
    c, b = torch.cat([c, cost[off]]), torch.cat([b, bound])
    which = torch.cat([torch.arange(len(logs), device=off.device), off])
    alpha, kind = _solved(c, A[which], b, gram[which], status[which])
    alpha, lowered = alpha.split([len(logs), len(off)])
    kind, its_kind = kind.split([len(logs), len(off)])
    alpha[off] = alpha[off].lerp(lowered, descent)
    kind[off] = torch.where(its_kind == Status.MIN_NORM, its_kind, kind[off])
    return alpha, kind


def _solved(c: Tensor, A: Tensor, b: Tensor, gram: Tensor, status: Tensor) -> tuple[Tensor, Tensor]:
    """Solve restricted, then relaxed programs, then take min-norm weights; return the status too, if it is worse than
    the given one."""
    alpha, solved, kept = maximize_or_relax(c, A, b)
    status = status.masked_fill(~kept, Status.RELAXED)
    if not solved.all():
        left = (~solved).nonzero()[:, 0]
        alpha[left], solved = maximize(c[left], A[left, :-1], b[left, :-1])
        status[left] = torch.where(solved, Status.RELAXED, Status.MIN_NORM)
        left = left[~solved]
        alpha[left] = min_norm(gram[left])
    return alpha, status
