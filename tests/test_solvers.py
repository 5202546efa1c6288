"""The solvers' theorems, and the linear program against HiGHS."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from torch import Tensor
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode

import hyperfront as hf
from hyperfront.errors import HyperfrontError
from hyperfront.indicators import nonuniformity
from hyperfront.solvers import EPO, LS, PMTL, HVMax, Status, lift
from hyperfront.solvers import epo as epo_module
from hyperfront.solvers.epo import LOSS_FLOOR
from hyperfront.solvers.linalg import linprog as linprog_module
from hyperfront.solvers.linalg.linprog import maximize, maximize_or_relax
from hyperfront.solvers.linalg.linprog_plain import maximize_one
from hyperfront.solvers.linalg.minnorm import active_set, min_norm
from hyperfront.solvers.names import SOLVERS, make_solver
from tests.helpers.programs import (
    HARMLESS,
    floored,
    gradients,
    instances,
    judge,
    kinds,
    lp,
    objectives,
    quick,
    seeds,
)


def highs(c: Tensor, A: Tensor, b: Tensor) -> float | None:
    """The optimum of one program, or None."""
    keep = (b > -torch.inf) & (A != 0).any(-1)
    found = linprog(
        -c.numpy(),
        A_ub=-A[keep].numpy(),
        b_ub=-b[keep].numpy(),
        A_eq=np.ones((1, len(c))),
        b_eq=[1.0],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    return -found.fun if found.status == 0 else None


# EPO


@quick
@given(kinds, objectives, seeds)
def test_weights_are_a_point_of_the_simplex_and_satisfy_their_program(kind: str, m: int, seed: int) -> None:
    losses, rays, gram = instances(kind, 12, m, seed)
    weights, status = EPO()(losses, rays, gram)
    assert weights.dtype == losses.dtype and status.dtype == torch.uint8
    assert (weights >= 0).all() and torch.allclose(weights.sum(-1), torch.ones(12, dtype=torch.float64))
    assert status.le(Status.RELAXED).all()
    assert judge(losses, rays, gram, weights, status)[1].max() < 1e-8


@quick
@given(kinds, objectives, seeds, st.integers(-60, 60))
def test_the_scale_of_the_gram_matrix_does_not_matter(kind: str, m: int, seed: int, power: int) -> None:
    losses, rays, gram = instances(kind, 6, m, seed)
    for ours, scaled in zip(EPO()(losses, rays, gram), EPO()(losses, rays, gram * 2.0**power)):
        assert torch.equal(ours, scaled)  # powers of 2 do not round


@quick
@given(st.sampled_from(HARMLESS), objectives, seeds)
def test_the_order_of_the_objectives_does_not_matter(kind: str, m: int, seed: int) -> None:
    losses, rays, gram = instances(kind, 6, m, seed)
    order = torch.randperm(m, generator=torch.Generator().manual_seed(seed))
    weights, status = EPO()(losses, rays, gram)
    shuffled, its_status = EPO()(losses[:, order], rays[:, order], gram[:, order][:, :, order])
    assert torch.equal(status, its_status)
    ours, theirs = (judge(losses, rays, gram, w, status) for w in (weights, shuffled[:, order.argsort()]))
    assert torch.allclose(ours[0], theirs[0], rtol=0, atol=1e-8) and theirs[1].max() < 1e-8


@quick
@given(kinds, objectives, seeds)
def test_rays_are_solved_independently(kind: str, m: int, seed: int) -> None:
    losses, rays, gram = instances(kind, 7, m, seed)
    weights, status = EPO()(losses, rays, gram)
    alone = [EPO()(losses[i : i + 1], rays[i : i + 1], gram[i : i + 1]) for i in range(7)]
    assert torch.equal(status, torch.cat([s for _, s in alone]))
    for descent in (0, 1):  # several weights may be optimal, so their values are compared
        weights, status = EPO(descent=descent)(losses, rays, gram)
        each = [EPO(descent=descent)(losses[i : i + 1], rays[i : i + 1], gram[i : i + 1])[0] for i in range(7)]
        ours, theirs = (judge(losses, rays, gram, w, status, descent) for w in (weights, torch.cat(each)))
        assert torch.allclose(ours[0], theirs[0], rtol=0, atol=1e-8) and theirs[1].max() < 1e-8


@quick
@given(kinds, seeds)
def test_the_closed_form_for_two_objectives_is_the_linear_program(kind: str, seed: int) -> None:
    losses, rays, gram = instances(kind, 30, 2, seed)
    for descent in (0, 1):
        weights, status = EPO(descent=descent)(losses, rays, gram)
        alpha, solved = maximize(*lp(losses, rays, gram, descent))
        assert solved.all()
        ours, theirs = (judge(losses, rays, gram, w, status, descent) for w in (weights, alpha))
        assert torch.allclose(ours[0], theirs[0], rtol=0, atol=1e-8) and ours[1].max() < 1e-12


@pytest.mark.parametrize("m", [2, 3, 5, 10])
@pytest.mark.parametrize("kind", (*HARMLESS, "duplicate", "zero"))
@pytest.mark.parametrize("descent", [0, 1])
def test_weights_are_the_optimum_that_highs_finds(m: int, kind: str, descent: int) -> None:
    losses, rays, gram = instances(kind, 20, m, seed=m)
    weights, status = EPO(descent=descent)(losses, rays, gram)
    value, violation = judge(losses, rays, gram, weights, status, descent)
    assert violation.max() < 1e-8
    for i, (c, A, b) in enumerate(zip(*lp(losses, rays, gram, descent))):
        if status[i] == Status.RELAXED:
            assert highs(c, A, b) is None
            A, b = A[:-1], b[:-1]
        assert highs(c, A, b) == pytest.approx(value[i].item(), abs=1e-8)


@quick
@given(st.sampled_from(HARMLESS), st.integers(2, 5), seeds)
def test_the_anchor_is_the_gradient_of_the_nonuniformity(kind: str, m: int, seed: int) -> None:
    """Where the optimum of the balance program is positive, a small step brings the losses closer to the ray."""
    losses, rays, gram = instances(kind, 8, m, seed)
    share = floored(rays)
    before = nonuniformity(losses, share)
    weights, status = EPO()(losses, rays, gram)
    value, _ = judge(losses, rays, gram, weights, status)
    slope = (gram @ weights[..., None])[..., 0]
    step = 1e-6 * (losses / slope.abs().clamp_min(1e-300)).amin(-1, keepdim=True)
    closer = nonuniformity(losses - step * slope, share) <= before + 1e-14
    assert closer[(before > 1e-4) & (value > 1e-3)].all()


@quick
@given(kinds, objectives, seeds)
def test_on_the_ray_all_losses_fall(kind: str, m: int, seed: int) -> None:
    losses, rays, gram = (t[::2] for t in instances(kind, 12, m, seed))
    near = nonuniformity(losses, floored(rays)) <= 1e-4
    weights, _ = EPO()(losses, rays, gram)
    fall = (gram @ weights[..., None])[..., 0] / gram.abs().amax(-1).clamp_min(1e-300)
    assert (fall[near] >= -1e-8).all()


@quick
@given(st.sampled_from(["zero", "all zero"]), objectives, seeds)
def test_an_objective_without_gradient_is_always_a_way_out(kind: str, m: int, seed: int) -> None:
    """All weight on it satisfies the restricted program, though without any interior."""
    assert not EPO()(*instances(kind, 12, m, seed))[1].any()


def test_without_conflict_the_worst_product_gets_all_the_weight() -> None:
    losses, rays = torch.tensor([[2.0, 1.0, 1.0], [1.0, 1.0, 4.0]]), torch.full((2, 3), 1 / 3)
    weights, status = EPO(descent=0)(losses, rays, torch.eye(3).expand(2, 3, 3))
    assert weights.tolist() == [[1, 0, 0], [0, 0, 1]] and status.tolist() == [0, 0]
    assert weights.dtype == torch.float32


def test_exactly_on_the_ray_the_restriction_is_vacuous() -> None:
    gram = torch.tensor([[[4.0, 1.0], [1.0, 1.0]]])
    weights, _ = EPO()(torch.ones(1, 2), torch.full((1, 2), 0.5), gram)
    assert weights.tolist() == [[1, 0]]
    gram = torch.tensor([[[4.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]])
    assert EPO()(torch.ones(1, 3), torch.full((1, 3), 1 / 3), gram)[0].tolist() == [[1, 0, 0]]


def test_an_infeasible_restriction_is_dropped_and_reported() -> None:
    G = torch.tensor([[2.0, 1.0], [0.0, -2.0], [1.0, 2.0]], dtype=torch.float64)
    losses, rays = torch.tensor([[1.0, 1.004, 1.008]], dtype=torch.float64), torch.full((1, 3), 1 / 3)
    gram = (G @ G.T)[None]  # q ~ (-1, -2, 1): then a_3 >= a_1 + 2 a_2, but row 2 asks for 2 a_2 >= a_1 + 2 a_3
    c, A, b = lp(losses, rays.double(), gram)
    assert highs(c[0], A[0], b[0]) is None
    weights, status = EPO()(losses, rays, gram)
    assert status.tolist() == [Status.RELAXED]
    assert torch.allclose(weights, torch.tensor([[2 / 3, 1 / 3, 0.0]], dtype=torch.float64))
    # the same products from losses of zero: relaxed is the worse of the two to report
    assert EPO()(torch.zeros(1, 3), losses / losses.sum(), gram)[1].tolist() == [Status.RELAXED]


def test_what_is_no_gram_matrix_ends_in_the_min_norm_weights() -> None:
    gram = torch.stack([torch.eye(3), -torch.eye(3)])
    weights, status = EPO()(torch.ones(2, 3), torch.full((2, 3), 1 / 3), gram)
    assert status.tolist() == [Status.AS_NAMED, Status.MIN_NORM]
    assert torch.allclose(weights.sum(-1), torch.ones(2)) and (weights >= 0).all()


@pytest.mark.parametrize("m", [2, 4])
def test_zero_losses_are_lifted_and_invalid_ones_reported(m: int) -> None:
    rays = torch.full((7, m), 1 / m)
    losses, gram = torch.ones(7, m), torch.eye(m).repeat(7, 1, 1)
    losses[:, 1] = torch.tensor([1.0, 0.0, LOSS_FLOOR / 2, math.nan, math.inf, -1e-3, 1.0])
    gram[6, 0, 1] = math.nan
    weights, status = EPO()(losses, rays, gram)
    assert status.tolist() == [0, Status.FLOORED, Status.FLOORED] + 4 * [Status.INVALID]
    assert torch.equal(weights[3:], rays[3:])
    assert torch.allclose(weights.sum(-1), torch.ones(7))
    assert EPO(descent=0)(losses, rays, gram)[0][1, 1] == 0


@pytest.mark.parametrize("m", [2, 3])
def test_losses_and_rays_of_any_size(m: int) -> None:
    losses = torch.tensor([1e-20, 1e25]).repeat(3, m)[:, :m].double()
    rays = torch.eye(m).double()[torch.arange(3) % m]
    gram = torch.eye(m).double().expand(3, m, m) * 1e-30
    weights, status = EPO()(losses, rays, gram)
    assert weights.isfinite().all() and status.tolist() == [0, 0, 0]


def test_two_objectives_read_nothing_from_the_device() -> None:
    R = epo_module.FEW + 1  # fewer rays are solved in plain numbers on a CPU
    shapes = ((R, 2), (R, 2), (R, 2, 2))
    with FakeTensorMode():  # any value that is asked for raises
        weights, status = EPO()(*(torch.rand(shape) for shape in shapes))
        assert weights.shape == (R, 2) and status.dtype == torch.uint8
        with pytest.raises(DynamicOutputShapeException):
            EPO()(torch.rand(R, 3), torch.rand(R, 3), torch.rand(R, 3, 3))


@pytest.mark.parametrize("m", [2, 3])
def test_the_weights_can_be_used_in_a_graph(m: int) -> None:
    losses, rays, gram = instances("generic", 4, m, seed=0)
    losses.requires_grad_()
    weights, _ = EPO()(losses, rays, gram)
    (weights * losses).sum().backward()
    assert torch.equal(losses.grad, weights)


def test_a_missing_or_misshapen_gram_matrix_is_an_error() -> None:
    losses = rays = torch.rand(4, 3)
    with pytest.raises(HyperfrontError, match=r"expected: \[4, 3, 3\]"):
        EPO()(losses, rays)
    with pytest.raises(HyperfrontError, match=r"got: +\[4, 3, 2\]"):
        EPO()(losses, rays, torch.rand(4, 3, 2))
    with pytest.raises(HyperfrontError, match="both"):
        EPO()(losses, rays[:2], torch.rand(4, 3, 3))


def test_more_than_ten_objectives() -> None:
    losses, rays, gram = instances("generic", 8, 16, seed=0)
    weights, status = EPO()(losses, rays, gram)
    assert judge(losses, rays, gram, weights, status)[1].max() < 1e-8


# rays that cannot be met


def hull(R: int, m: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Losses, rays and gradients of ``|x - e_j|^2`` at points of one face of the front, where ``l_1`` cannot bind.

    The ray asks for a first loss above any on the front, and for the point's own losses among the others.
    """
    generator = torch.Generator().manual_seed(seed)
    inside = torch.rand(R, m - 1, generator=generator, dtype=torch.float64) + 0.1
    place = torch.nn.functional.pad(inside / inside.sum(-1, keepdim=True), (1, 0))
    offsets = place[:, None] - torch.eye(m, dtype=torch.float64)
    losses = offsets.square().sum(-1)
    rays = (1 / losses).index_fill(1, torch.tensor([0]), 1e-2)
    return losses, rays / rays.sum(-1, keepdim=True), 2 * offsets


@quick
@given(st.integers(3, 7), seeds)
def test_where_an_unmet_ray_is_on_the_front_descent_moves_no_loss_that_binds(m: int, seed: int) -> None:
    losses, rays, grads = hull(5, m, seed)
    gram = grads @ grads.mT
    weights, status = EPO(descent=1)(losses, rays, gram)
    fall = (gram @ weights[..., None])[..., 0]
    assert not status.any() and fall[:, 0].min() > -1e-9  # the first loss can fall at no first-order cost
    assert fall[:, 1:].abs().max() < 1e-8


@quick
@given(st.integers(3, 7), seeds)
def test_where_all_losses_bind_descent_is_the_stationary_combination(m: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    place = (torch.rand(5, m, generator=generator, dtype=torch.float64) + 0.1).log().softmax(-1)
    grads = 2 * (place[:, None] - torch.eye(m, dtype=torch.float64))
    losses, rays = grads.square().sum(-1) / 4, torch.rand(5, m, generator=generator, dtype=torch.float64).softmax(-1)
    off = nonuniformity(losses, rays) > 1e-4
    weights, status = EPO(descent=1)(losses, rays, grads @ grads.mT)
    assert not status.any() and torch.allclose(weights[off], place[off], atol=1e-6)


@quick
@given(st.integers(3, 7), seeds, st.floats(1e-3, 0.1))
def test_off_the_front_the_loss_that_does_not_bind_is_lowered_too(m: int, seed: int, far: float) -> None:
    """Beyond the face, away from ``e_1``: the balance program alone would rather have the first loss larger."""
    _, rays, grads = hull(5, m, seed)
    step = torch.full((m,), far / (m - 1), dtype=torch.float64).index_fill(0, torch.tensor([0]), -far)
    grads = grads + 2 * step
    losses, gram = grads.square().sum(-1) / 4, grads @ grads.mT
    lowered, _ = EPO(descent=1)(losses, rays, gram)
    assert ((gram @ lowered[..., None])[..., 0] > -1e-9).all()
    assert (gram @ lowered[..., None])[:, 0, 0].min() > 1e-3 * far
    balanced, _ = EPO(descent=0)(losses, rays, gram)
    mixed, _ = EPO()(losses, rays, gram)
    assert ((gram @ (mixed - balanced)[..., None])[:, 0, 0] > 0).all()


@quick
@given(kinds, objectives, seeds)
def test_no_step_raises_a_product_above_the_average(kind: str, m: int, seed: int) -> None:
    losses, rays, gram = instances(kind, 12, m, seed)
    weights, _ = EPO()(losses, rays, gram)
    share = floored(rays) * losses
    share = share / share.sum(-1, keepdim=True)
    above = share.log() > (share * share.log()).sum(-1, keepdim=True) + 1e-9
    fall = (gram @ weights[..., None])[..., 0] / gram.abs().amax(-1).clamp_min(1e-300)
    off = nonuniformity(losses, floored(rays)) > 1e-4
    assert (fall[off[:, None] & above] >= -1e-8).all()


@quick
@given(kinds, objectives, seeds)
def test_descent_changes_nothing_on_the_ray_and_mixes_two_programs_off_it(kind: str, m: int, seed: int) -> None:
    losses, rays, gram = instances(kind, 9, m, seed)
    off = nonuniformity(losses, floored(rays)) > 1e-4
    (balanced, _), (mixed, _), (lowered, _) = (EPO(descent=d)(losses, rays, gram) for d in (0.0, 0.2, 1.0))
    assert torch.allclose(mixed, 0.8 * balanced + 0.2 * lowered, rtol=0, atol=1e-9)
    assert torch.allclose(balanced[~off], lowered[~off], rtol=0, atol=1e-9)


def test_descent_leaves_a_weakly_optimal_point_of_two_objectives() -> None:
    """``l_1`` is at its minimum and the ray wants it lower still; ``l_2`` can fall without raising it."""
    losses, rays = torch.tensor([[1.0, 1.0]]), torch.tensor([[0.9, 0.1]])
    gram = torch.tensor([[[0.0, 0.0], [0.0, 1.0]]])
    assert EPO(descent=0)(losses, rays, gram)[0].tolist() == [[1, 0]]  # this step has no length
    assert torch.allclose(EPO(descent=0.2)(losses, rays, gram)[0], torch.tensor([[0.8, 0.2]]))


def test_a_share_of_descent_that_is_no_share_is_an_error() -> None:
    for descent in (-0.1, 1.1, math.nan):
        with pytest.raises(HyperfrontError, match="descent"):
            EPO(descent=descent)


# the linear program


def random_programs(R: int, m: int, q: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Integers, so that ties, duplicate rows and degenerate vertices abound."""
    generator = torch.Generator().manual_seed(seed)
    c = torch.randint(-3, 4, (R, m), generator=generator).double()
    A = torch.randint(-2, 3, (R, q, m), generator=generator).double()
    b = torch.randint(-2, 1, (R, q), generator=generator).double()
    b[torch.rand(R, q, generator=generator) < 0.2] = -torch.inf
    A[::4, -1] = A[::4, 0]
    A[1::4, -1] = -A[1::4, 0]
    c[::5] = 0
    return c, A, b


@pytest.mark.parametrize("bland", [0, linprog_module.BLAND])
@pytest.mark.parametrize(("m", "q"), [(2, 2), (3, 5), (5, 5), (7, 9), (10, 12)])
def test_maximize_agrees_with_highs(m: int, q: int, bland: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linprog_module, "BLAND", bland)
    c, A, b = random_programs(80, m, q, seed=m)
    alpha, solved = maximize(c, A, b)
    assert 10 < solved.sum() < 80
    assert torch.allclose(alpha.sum(-1), torch.ones(80, dtype=torch.float64)) and (alpha >= 0).all()
    assert ((A @ alpha[..., None])[..., 0] - b)[solved].min() > -1e-12
    for i in range(80):
        optimum = highs(c[i], A[i], b[i])
        assert (optimum is not None) == bool(solved[i])
        assert optimum is None or optimum == pytest.approx((c[i] @ alpha[i]).item(), abs=1e-10)


@pytest.mark.parametrize(("m", "q"), [(2, 2), (3, 5), (7, 9)])
def test_one_program_in_plain_numbers_is_solved_like_many(m: int, q: int) -> None:
    c, A, b = random_programs(300, m, q, seed=m)
    A[::7, 0], b = 0, b.clamp_min(-3)
    b[::14, 0] = 1  # 0 >= 1
    alpha, solved = maximize(c, A, b)
    found = [maximize_one(*(t[i].tolist() for t in (c, A, b))) for i in range(300)]
    given = torch.tensor([one is not None for one in found])
    assert not (given & ~solved).any() and given.sum() > 0.9 * solved.sum()
    plain = torch.tensor([one or [0.0] * m for one in found], dtype=torch.float64)[given]
    assert torch.allclose((c[given] * plain).sum(-1), (c * alpha)[given].sum(-1), rtol=0, atol=1e-10)
    assert ((A[given] @ plain[..., None])[..., 0] - b[given]).min() > -1e-10


def test_maximize_or_relax_drops_only_the_last_row_and_only_where_it_must() -> None:
    c, A, b = random_programs(300, 4, 5, seed=1)
    b[:, -1] = 1
    alpha, solved, kept = maximize_or_relax(c, A, b)
    strict, relaxed = maximize(c, A, b), maximize(c, A[:, :-1], b[:, :-1])
    assert torch.equal(kept, strict[1]) and torch.equal(solved, relaxed[1])
    expected = torch.where(kept[:, None], strict[0], relaxed[0])
    value, theirs = ((c * w).sum(-1)[solved] for w in (alpha, expected))
    assert torch.allclose(value, theirs) and (solved & ~kept).sum() > 20


def test_maximize_survives_what_makes_no_sense() -> None:
    nan, inf = math.nan, math.inf
    c = torch.tensor([[nan, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    A = torch.zeros(4, 2, 3)
    b = torch.tensor([[0.0, 0.0], [0.0, -inf], [1.0, 0.0], [inf, nan]])
    alpha, solved = maximize(c, A, b)
    assert solved.tolist() == [False, True, False, False]
    assert torch.allclose(alpha.sum(-1), torch.ones(4, dtype=torch.float64))


def test_maximize_gives_up_without_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    c, A, b = random_programs(50, 6, 8, seed=3)
    feasible = maximize(c, A, b)[1]
    monkeypatch.setattr(linprog_module, "PIVOTS", 0)
    alpha, solved = maximize(c, A, b)
    assert (feasible & ~solved).any() and torch.equal(alpha[~solved], torch.full_like(alpha[~solved], 1 / 6))


# the min-norm weights


@quick
@given(kinds, st.integers(2, 12), seeds)
def test_min_norm_satisfies_its_optimality_conditions(kind: str, m: int, seed: int) -> None:
    G = gradients(kind, 10, m, torch.Generator().manual_seed(seed))
    gram = G @ G.mT
    alpha = min_norm(gram)
    assert (alpha >= 0).all() and torch.allclose(alpha.sum(-1), torch.ones(10, dtype=torch.float64))
    slope = (gram @ alpha[..., None])[..., 0]
    length = gram.diagonal(dim1=1, dim2=2).sqrt()
    unit = (length * length.amin(-1, keepdim=True)).clamp_min(1e-12 * gram.abs().amax((1, 2))[:, None])
    assert (slope >= (alpha * slope).sum(-1, keepdim=True) - 1e-8 * unit).all()


@quick
@given(kinds, seeds)
def test_the_active_set_finds_the_closed_form(kind: str, seed: int) -> None:
    G = gradients(kind, 20, 2, torch.Generator().manual_seed(seed))
    short, active = ((w[:, None] @ G).norm(dim=(1, 2)) for w in (min_norm(G @ G.mT), active_set(G @ G.mT)))
    assert torch.allclose(short, active, rtol=0, atol=1e-7)


# the scalarizations


def test_linear_scalarization_is_the_ray_and_its_lift() -> None:
    losses, rays, _ = instances("generic", 9, 3, seed=0)
    weights, status = LS()(losses, rays)
    assert torch.equal(weights, rays) and not status.any()
    lifted = lift(lambda losses, rays: (rays * losses).sum(-1))
    assert torch.allclose(lifted(losses, rays)[0], weights)
    losses[2, 1] = math.nan
    assert LS()(losses, rays)[1].tolist() == lifted(losses, rays)[1].tolist() == [0, 0, 4] + 6 * [0]
    assert torch.equal(lifted(losses, rays)[0][2], rays[2])


def test_lifted_weights_are_the_normalized_derivative() -> None:
    def smooth(losses: Tensor, rays: Tensor) -> Tensor:
        return 0.1 * (rays * losses / 0.1).logsumexp(-1)

    losses, rays, _ = instances("generic", 6, 3, seed=1)
    weights, status = lift(smooth, convention="inverse", positive=True)(losses, rays)
    step = 1e-6 * torch.eye(3, dtype=torch.float64)
    slope = torch.stack([smooth(losses + h, rays) - smooth(losses - h, rays) for h in step], -1) / 2e-6
    assert torch.allclose(weights, slope / slope.sum(-1, keepdim=True), atol=1e-6) and not status.any()


def test_solvers_say_what_they_need() -> None:
    assert (EPO.needs_gram, EPO.positive, EPO.convention) == (True, True, "inverse")
    assert (EPO().space, EPO(space="hypernetwork").space) == ("weights", "hypernetwork")
    assert (LS.needs_gram, LS.positive, LS.convention) == (False, False, "weights")


@quick
@given(st.permutations(range(3)), st.floats(0, 12))
def test_long_gradients_do_not_blur_the_short_ones(order, digits):
    lengths = torch.tensor([1.0, 2.0, 10**digits], dtype=torch.float64)[list(order)]
    wanted = lengths.pow(-2) / lengths.pow(-2).sum()
    assert torch.allclose(min_norm(torch.diag(lengths.square())[None])[0], wanted, rtol=1e-6)


@quick
@given(seeds)
def test_which_of_equal_products_rounds_up_matters_to_one_ray_no_more_than_to_many(seed):
    generator = torch.Generator().manual_seed(seed)
    ray = torch.rand(1, 3, generator=generator, dtype=torch.float64) + 0.1
    ray = ray / ray.sum()
    root = torch.randn(1, 3, 4, generator=generator, dtype=torch.float64)
    alone = torch.tensor([[3.0, 3.0, 1.0]], dtype=torch.float64) / ray, ray, root @ root.mT
    twice = (torch.cat([part, part]) for part in alone)
    assert torch.allclose(EPO()(*alone)[0][0], EPO()(*twice)[0][0], atol=1e-9)


@pytest.mark.parametrize("m", [2, 3, 5])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_one_ray_that_is_not_finite_is_invalid_as_among_others(m, value):
    ray, first = torch.full((1, m), 1 / m), torch.tensor([0])
    for losses, gram in (
        (torch.ones(1, m).index_fill(1, first, value), torch.eye(m)[None]),
        (torch.ones(1, m), torch.eye(m)[None].index_fill(2, first, value)),
    ):
        weights, status = EPO()(losses, ray, gram)
        assert status.tolist() == [Status.INVALID] and torch.equal(weights, ray)


@pytest.mark.parametrize("m", [2, 3, 5])
@pytest.mark.parametrize("R", [1, epo_module.FEW + 1])
@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_objectives_at_their_minimum_do_not_hold_up_the_others(m: int, R: int, unit: float) -> None:
    """Losses of zero with gradients of zero, such as a penalty on increments that start at zero: as one objective then
    has all of the products ``r_j l_j``, a step must lower it."""
    generator = torch.Generator().manual_seed(m)
    rays = torch.rand(R, m, generator=generator) + 0.05
    losses, gram = torch.zeros(R, m), torch.zeros(R, m, m)
    losses[:, -1], gram[:, -1, -1] = unit, 4 * unit
    weights, status = EPO()(losses, rays / rays.sum(-1, keepdim=True), gram)
    assert torch.equal(weights, torch.eye(m)[-1].expand(R, m)) and (status == Status.FLOORED).all()


@pytest.mark.parametrize(("solver", "count"), [(EPO(), 3), (HVMax(), 2), (HVMax(), 3)], ids=str)
def test_training_leaves_a_start_where_losses_are_zero(solver, count: int) -> None:
    """All but the last loss are ``|x|^2``, which is zero with its gradient at the start, ``x = 0``."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([*[x.square().sum()] * (count - 1), (x - 1).square().sum()])

    objectives = [f"l{j}" for j in range(count)]
    problem = hf.analytic(function, variables=4, objectives=objectives, reference=[9] * count)
    torch.manual_seed(0)
    model = problem.model()
    assert model.weights(torch.full((1, count), 1 / count)).abs().max() == 0
    front = hf.fit(model, problem, solver=solver, epochs=2, rays_per_step=8, lr=1e-2, callbacks=[]).front
    middle = front.losses[(front.rays - 1 / count).abs().sum(-1).argmin()]
    assert (middle - 1).abs().max() < 0.5  # |x - (.5, .5, .5, .5)|: all products are equal there


PAIR = ((0.5, 0.5), (0.9, 0.1))


@pytest.mark.parametrize("solver", [*map(make_solver, SOLVERS), PMTL(references=PAIR)], ids=repr)
def test_a_solver_solves_rays_one_by_one_unless_it_is_joint(solver) -> None:
    generator = torch.Generator().manual_seed(0)
    grads = torch.randn(3, 2, 6, generator=generator, dtype=torch.float64)
    losses = torch.rand(3, 2, generator=generator, dtype=torch.float64) + 0.1
    rays, gram = torch.tensor([*PAIR, (0.2, 0.8)], dtype=torch.float64), grads @ grads.mT
    together, status = solver(losses, rays, gram)
    parts = list(zip(losses.split(1), rays.split(1), gram.split(1)))
    if solver.joint:
        with pytest.raises(HyperfrontError):
            solver(*parts[0])
        return
    weights, alone = map(torch.cat, zip(*(solver(*part) for part in parts)))
    torch.testing.assert_close(weights, together)
    assert torch.equal(alone, status)
