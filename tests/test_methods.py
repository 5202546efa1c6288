"""What all solvers have in common, and what each of them promises to first order."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cosine_similarity, normalize

import hyperfront as hf
from hyperfront.errors import HyperfrontError
from hyperfront.indicators import nonuniformity
from hyperfront.solvers import COSMOS, MGDA, PBI, PMTL, HVMax, SmoothTchebycheff, Tchebycheff
from hyperfront.solvers.epo import program
from hyperfront.solvers.linalg.minnorm import min_norm
from hyperfront.solvers.pmtl import _rows
from tests.helpers.programs import floored, gradients, instances, kinds, objectives, quick, seeds

CONVEX = [hf.LS(), hf.EPO(), Tchebycheff(ideal=0.01), SmoothTchebycheff(0.05, ideal=0.01), MGDA()]
SIGNED = [PBI(ideal=0.01), COSMOS(2.0, ideal=0.01), PMTL(), HVMax()]
ALL = [*CONVEX, *SIGNED]
every_solver = st.sampled_from(ALL)


def named(solver: object) -> str:
    return type(solver).__name__


@quick
@given(every_solver, kinds, objectives, seeds)
def test_weights_have_the_promised_sum_and_sign(solver: hf.LS, kind: str, m: int, seed: int) -> None:
    losses, rays, gram = instances(kind, 9, m, seed)
    weights, status = solver(losses, rays, gram)
    assert weights.shape == (9, m) and weights.dtype == losses.dtype and status.dtype == torch.uint8
    assert torch.allclose(weights.abs().sum(-1), torch.ones(9, dtype=torch.float64))
    assert solver in SIGNED or (weights >= 0).all()
    assert status.le(1).all()


@quick
@given(every_solver, st.integers(2, 5), seeds)
def test_the_order_of_the_objectives_does_not_matter(solver: hf.LS, m: int, seed: int) -> None:
    losses, rays, gram = instances("generic", 6, m, seed)
    order = torch.randperm(m, generator=torch.Generator().manual_seed(seed))
    weights, _ = solver(losses, rays, gram)
    shuffled, _ = solver(losses[:, order], rays[:, order], gram[:, order][:, :, order])
    assert torch.allclose(weights[:, order], shuffled, atol=1e-6)


@quick
@given(every_solver, st.integers(2, 5), seeds)
def test_the_order_of_the_rays_does_not_matter(solver: hf.LS, m: int, seed: int) -> None:
    losses, rays, gram = instances("generic", 6, m, seed)
    order = torch.randperm(6, generator=torch.Generator().manual_seed(seed))
    weights, _ = solver(losses, rays, gram)
    assert torch.allclose(weights[order], solver(losses[order], rays[order], gram[order])[0], atol=1e-9)


@quick
@given(st.sampled_from([MGDA(), PMTL()]), kinds, objectives, seeds, st.integers(-60, 60))
def test_the_scale_of_the_gram_matrix_does_not_matter(solver: MGDA, kind: str, m: int, seed: int, power: int):
    losses, rays, gram = instances(kind, 6, m, seed)
    assert torch.equal(solver(losses, rays, gram)[0], solver(losses, rays, gram * 2.0**power)[0])


@quick
@given(kinds, st.integers(2, 12), seeds)
def test_mgda_raises_no_objective_to_first_order(kind: str, m: int, seed: int) -> None:
    losses, rays, gram = instances(kind, 10, m, seed)
    weights, _ = MGDA()(losses, rays, gram)
    falls = (gram @ weights[..., None])[..., 0]
    length = gram.diagonal(dim1=1, dim2=2).sqrt()
    assert (falls >= -1e-8 * (length * length.amax(-1, keepdim=True)).clamp_min(1e-300)).all()


@pytest.mark.parametrize("m", [2, 3, 7])
def test_epo_does_not_raise_mu_to_first_order_where_its_optimum_is_not_negative(m: int, record_property) -> None:
    losses, rays, gram = instances("generic", 4000, m, seed=m)
    losses, rays, gram = losses[1::2], floored(rays[1::2]), gram[1::2]  # the half that is off its ray
    weights, _ = hf.EPO()(losses, rays, gram)
    leaf = losses.clone().requires_grad_()
    (slope,) = torch.autograd.grad(nonuniformity(leaf, rays).sum(), leaf)
    rises = -(slope * (gram @ weights[..., None])[..., 0]).sum(-1)  # along the step -G^T alpha
    optimum = (program((rays * losses).log(), rays, gram, hf.EPO().tolerance)[0] * weights).sum(-1)
    balance = nonuniformity(losses, rays) > hf.EPO().tolerance
    assert balance.double().mean() > 0.99
    size = (slope.abs() * gram.abs().sum(-1)).sum(-1)
    assert (rises <= 1e-9 * size)[balance & (optimum >= 0)].all()
    assert (rises > 0)[balance & (optimum < -1e-9 * size)].all()
    share = (optimum < 0)[balance].double().mean().item()
    record_property("share of instances where mu may rise", share)
    assert 0.01 < share < 0.4


# the scalarizations


@quick
@given(st.integers(2, 6), seeds)
def test_smooth_tchebycheff_tends_to_tchebycheff_and_has_its_closed_form(m: int, seed: int) -> None:
    losses, rays, _ = instances("generic", 8, m, seed)
    z = 0.01
    weights, _ = SmoothTchebycheff(0.2, ideal=z)(losses, rays)
    formula = rays * (rays * (losses - z) / 0.2).softmax(-1)
    assert torch.allclose(weights, formula / formula.sum(-1, keepdim=True))
    sharp, cold = Tchebycheff(ideal=z), SmoothTchebycheff(1e-3, ideal=z)
    above = cold.value(losses, rays) - sharp.value(losses, rays)
    assert (above >= -1e-12).all() and (above <= 1e-3 * math.log(m) + 1e-12).all()


@quick
@given(st.integers(2, 6), seeds)
def test_tchebycheff_puts_all_weight_on_the_worst_product(m: int, seed: int) -> None:
    losses, rays, _ = instances("generic", 8, m, seed)
    weights, _ = Tchebycheff()(losses, rays)
    assert torch.equal(weights.argmax(-1), (rays * losses).argmax(-1)) and (weights.amax(-1) == 1).all()


@quick
@given(st.integers(2, 6), seeds)
def test_pbi_is_the_length_on_the_ray_and_grows_off_it(m: int, seed: int) -> None:
    losses, rays, _ = instances("generic", 8, m, seed)
    u = normalize(rays, dim=-1)
    on = 3 * u
    assert torch.allclose(PBI(7.0).value(on, rays), torch.full((8,), 3.0, dtype=torch.float64))
    angle = torch.acos(cosine_similarity(losses, u).clamp(-1, 1))
    length = losses.norm(dim=-1)
    assert torch.allclose(PBI(2.0).value(losses, rays), length * (angle.cos() + 2 * angle.sin()), atol=1e-5)


@quick
@given(st.integers(2, 6), seeds)
def test_cosmos_between_its_limits(m: int, seed: int) -> None:
    losses, rays, _ = instances("generic", 8, m, seed)
    assert torch.allclose(COSMOS(0.0)(losses, rays)[0], rays)
    pull, _ = COSMOS(1e12)(losses, rays)  # the cosine alone: at right angles to the losses
    assert ((pull * losses).sum(-1).abs() <= 1e-6 * losses.norm(dim=-1)).all()
    assert ((pull * rays).sum(-1) <= 1e-6).all()


# PMTL


@quick
@given(st.integers(2, 5), seeds)
def test_pmtl_does_what_each_phase_promises(m: int, seed: int) -> None:
    losses, rays, gram = instances("generic", 7, m, seed)
    weights, _ = PMTL()(losses, rays, gram)
    falls = gram @ weights[..., None]  # the rate at which each loss falls
    u = normalize(rays, dim=-1)
    apart = u - u[:, None]
    distance = (normalize(apart, dim=-1) @ normalize(losses, dim=-1)[..., None])[..., 0]
    tolerance = 1e-8 * gram.abs().amax((1, 2))
    for ray in range(7):
        rates = (apart[ray] @ falls[ray])[:, 0]
        if (distance[ray] > 1e-3).any():  # outside: all violations fall
            assert (rates >= -tolerance[ray])[distance[ray] > 1e-3].all()
        else:  # inside: all losses fall, and no constraint near by is violated
            assert (falls[ray] >= -tolerance[ray]).all()
            assert (rates >= -tolerance[ray])[(distance[ray] >= -1e-3) & (apart[ray].norm(dim=-1) > 1e-6)].all()


def test_pmtl_well_inside_a_cone_is_mgda() -> None:
    rays = hf.rays(5, m=2)
    G = gradients("generic", 5, 2, torch.Generator().manual_seed(0))
    gram = G @ G.mT
    assert torch.allclose(PMTL()(3 * rays, rays, gram)[0], min_norm(gram))
    fixed = PMTL(references=rays.tolist())
    one = fixed(3 * rays[:1], rays[:1], gram[:1])[0]  # one ray a step is enough with fixed references
    assert torch.allclose(one, min_norm(gram[:1]))


def test_copies_of_a_row_leave_the_shortest_combination_as_it_is() -> None:
    losses, rays, gram = instances("generic", 6, 3, seed=3)
    u = normalize(rays, dim=-1)
    for rows, C in zip(_rows(losses, u, u, 1e-3), gram):
        lengths = []
        for table in (rows, torch.cat([rows.unique(dim=0)] * 2)):
            combined = min_norm((table @ C @ table.mT)[None])[0] @ table
            lengths.append((combined @ C @ combined).item())
        assert lengths[0] == pytest.approx(lengths[1], rel=1e-6, abs=1e-12)


# bad input


@pytest.mark.parametrize("solver", ALL, ids=named)
def test_a_loss_that_is_not_finite_spoils_its_own_ray_only(solver: hf.LS) -> None:
    losses, rays, gram = instances("generic", 5, 3, seed=0)
    for bad in (math.nan, math.inf):
        losses[2, 1] = bad
        weights, status = solver(losses, rays, gram)
        assert status.tolist() == [0, 0, 4, 0, 0] and torch.equal(weights[2], rays[2])
        assert weights.isfinite().all()


@pytest.mark.parametrize("solver", ALL, ids=named)
@pytest.mark.parametrize("shape", [(4, 1), (4,)])
def test_fewer_than_two_objectives_are_an_error(solver: hf.LS, shape: tuple[int, ...]) -> None:
    with pytest.raises(HyperfrontError, match=rf"{named(solver)} needs one loss[\s\S]*m >= 2"):
        solver(torch.rand(shape), torch.rand(shape), torch.rand(4, 1, 1))


@pytest.mark.parametrize("solver", [MGDA(), PMTL()], ids=named)
def test_a_missing_gram_matrix_is_an_error(solver: MGDA) -> None:
    with pytest.raises(HyperfrontError, match=rf"{named(solver)} needs the Gram matrix[\s\S]*\[4, 3, 3\]"):
        solver(torch.rand(4, 3), torch.rand(4, 3))


def points_for(m: int) -> tuple[float, ...]:
    return (0.0,) * m


@pytest.mark.parametrize(
    "solver",
    [
        Tchebycheff(ideal=points_for(2)),
        SmoothTchebycheff(ideal=points_for(4)),
        PBI(ideal=points_for(2)),
        COSMOS(1.0, ideal=points_for(2)),
        HVMax(reference=(1.0, 1.0)),
    ],
    ids=named,
)
def test_a_point_with_another_number_of_objectives_is_an_error(solver: PBI) -> None:
    with pytest.raises(HyperfrontError, match="one number, or 3"):
        solver(torch.rand(4, 3), torch.rand(4, 3))


def test_references_with_another_number_of_objectives_are_an_error() -> None:
    with pytest.raises(HyperfrontError, match=r"\[R, 3\]"):
        PMTL(references=((0.5, 0.5),))(torch.rand(4, 3), torch.rand(4, 3), torch.eye(3).expand(4, 3, 3))


@pytest.mark.parametrize("solver", [HVMax(), PMTL()], ids=named)
def test_methods_that_compare_rays_refuse_a_single_one(solver: HVMax) -> None:
    with pytest.raises(HyperfrontError, match="rays_per_step=16"):
        solver(torch.rand(1, 2), torch.rand(1, 2), torch.eye(2)[None])


def test_parameters_that_make_no_sense_are_errors() -> None:
    for make in (lambda: SmoothTchebycheff(0.0), lambda: PBI(-1.0)):
        with pytest.raises(HyperfrontError, match="expected"):
            make()
    with pytest.raises(TypeError, match="weight"):
        COSMOS()  # pyrefly: ignore


def test_solvers_say_what_they_need() -> None:
    conventions = {named(solver): solver.convention for solver in ALL}
    assert conventions == {
        "LS": "weights",
        "EPO": "inverse",
        "Tchebycheff": "inverse",
        "SmoothTchebycheff": "inverse",
        "MGDA": "weights",
        "PBI": "direction",
        "COSMOS": "direction",
        "PMTL": "direction",
        "HVMax": "direction",
    }
    assert {named(solver) for solver in ALL if solver.needs_gram} == {"EPO", "MGDA", "PMTL"}


def test_scalarizations_take_losses_of_any_sign() -> None:
    losses, rays, _ = instances("generic", 6, 3, seed=1)
    z = tuple((losses.amin(0) - 5).tolist())
    moved = losses - torch.tensor(z, dtype=torch.float64)
    for at_zero, elsewhere in (
        (Tchebycheff(), Tchebycheff(ideal=z)),
        (PBI(), PBI(ideal=z)),
    ):
        assert torch.allclose(elsewhere(losses, rays)[0], at_zero(moved, rays)[0])


def test_two_rays_divide_the_loss_space():
    losses, rays = torch.tensor([[2.0, 1.0], [1.0, 2.0]]), torch.tensor([[0.8, 0.2], [0.2, 0.8]])
    weights, status = PMTL()(losses, rays, torch.eye(2).repeat(2, 1, 1))
    assert weights.isfinite().all() and status.tolist() == [0, 0]


def test_rounding_below_zero_on_the_diagonal_is_a_gradient_that_vanishes():
    solver, losses, ray = PMTL(references=((0.5, 0.5), (0.1, 0.9))), torch.ones(1, 2), torch.full((1, 2), 0.5)
    found = [solver(losses, ray, torch.tensor([[[own, 0.0], [0.0, 1.0]]]))[0] for own in (0.0, -1e-18)]
    assert torch.allclose(*found)
