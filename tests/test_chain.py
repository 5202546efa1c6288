"""Transforms around a solver: the chain rule, and what is remembered."""

from __future__ import annotations

import pytest
import torch

import hyperfront as hf
from hyperfront.errors import HyperfrontError, RayError
from hyperfront.problem.registry import build
from hyperfront.solvers import (
    MGDA,
    PBI,
    PMTL,
    Average,
    Clip,
    HVMax,
    Normalize,
    NormalizeByStart,
    SmoothTchebycheff,
    Tchebycheff,
    chain,
)
from hyperfront.solvers.base import rescale
from tests.helpers.programs import instances

IDEAL, NADIR = (0.1, -1.0, 0.0), (3.0, 9.0, 0.5)
SOLVERS = [hf.EPO(), MGDA(), PMTL(), PBI(), HVMax()]


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: type(solver).__name__)
def test_a_normalized_problem_is_solved_as_if_it_had_been_stated_so(solver: hf.EPO) -> None:
    losses, rays, _ = instances("generic", 8, 3, seed=0)
    losses = losses + 0.2
    G = torch.randn(8, 3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    ideal, width = (torch.tensor(t, dtype=torch.float64) for t in (IDEAL, [n - z for n, z in zip(NADIR, IDEAL)]))
    weights, status = chain(Normalize(ideal=IDEAL, nadir=NADIR), solver)(losses, rays, G @ G.mT)
    scaled = G / width[:, None]
    direct, its_status = solver((losses - ideal) / width, rays, scaled @ scaled.mT)
    assert torch.allclose(weights, direct / width) and torch.equal(status, its_status)


def test_the_weights_of_a_normalized_scalarization_are_its_derivative() -> None:
    losses, rays, _ = instances("generic", 8, 3, seed=1)
    smooth, normalize = SmoothTchebycheff(0.1), Normalize(ideal=IDEAL, nadir=NADIR)
    leaf = losses.clone().requires_grad_()
    (slope,) = torch.autograd.grad(smooth.value(normalize(leaf, rays)[0], rays).sum(), leaf)
    weights, width = chain(normalize, smooth)(losses, rays)[0], torch.tensor(NADIR) - torch.tensor(IDEAL)
    assert torch.allclose(rescale(weights, rays), rescale(slope, rays))
    assert torch.allclose((weights * width).abs().sum(-1), torch.ones(8, dtype=torch.float64), atol=1e-6)


def test_units_that_are_normalized_away_do_not_change_what_is_learned() -> None:
    fronts = []
    for unit in (1.0, 1000.0):
        problem = build("vlmop2")
        function = problem.function
        scaled = hf.analytic(lambda x: function(x) * torch.tensor([1.0, unit]), variables=2, bounds=(-2.0, 2.0))  # noqa: B023
        torch.manual_seed(0)
        solver = chain(Normalize(nadir=(1.0, unit)), hf.EPO())
        run = hf.fit(scaled.model(hidden=16), scaled, solver=solver, epochs=3, rays_per_step=8, lr=3e-3, callbacks=[])
        fronts.append(run.front.losses / torch.tensor([1.0, unit]))
    torch.testing.assert_close(fronts[0], fronts[1], atol=1e-2, rtol=1e-2)


def test_transforms_apply_in_their_order() -> None:
    losses, rays = torch.tensor([[4.0, 1.0]]), torch.tensor([[0.5, 0.5]])
    both = chain(Normalize(nadir=2.0), Normalize(nadir=(2.0, 1.0)), hf.LS())
    assert torch.allclose(both(losses, rays)[0], torch.tensor([[1 / 8, 1 / 4]]))
    pulled = chain(PBI(), Clip(low=0.0))(losses, rays)[0]
    assert torch.equal(pulled, torch.tensor([[1.0, 0.0]]))
    assert torch.equal(chain(Tchebycheff(), Clip(low=0.25))(losses, rays)[0], torch.tensor([[0.8, 0.2]]))


def test_a_chain_needs_what_its_solver_needs() -> None:
    epo = chain(NormalizeByStart(), hf.EPO(space="hypernetwork"))
    assert (epo.needs_gram, epo.space, epo.positive, epo.convention) == (True, "hypernetwork", True, "inverse")
    assert not chain(Normalize(ideal=-1.0, nadir=2.0), hf.EPO()).positive  # -1 is made 0 before EPO sees it


def test_the_start_is_the_mean_of_the_first_steps() -> None:
    normalize, rays = NormalizeByStart(steps=2), torch.full((2, 2), 0.5)
    for first in (2.0, 6.0, 100.0):
        _, slope = normalize(torch.tensor([[first, 1.0], [first, 3.0]]), rays)
    assert torch.allclose(slope, torch.tensor([0.25, 0.5]))


def test_a_loss_that_starts_at_zero_is_waited_for_and_one_that_stays_there_is_an_error() -> None:
    rays = torch.full((1, 2), 0.5)
    normalize = NormalizeByStart(steps=2)
    assert normalize(torch.tensor([[4.0, 0.0]]), rays)[1].tolist() == [0.25, 1.0]
    assert normalize(torch.tensor([[4.0, 1.0]]), rays)[1].tolist() == [0.25, 2.0]
    for start in (0.0, -2.0):
        with pytest.raises(HyperfrontError, match="zero or negative"):
            NormalizeByStart()(torch.tensor([[4.0, start]]), rays)


def test_losses_that_are_no_numbers_do_not_count_for_the_start() -> None:
    rays = torch.full((2, 2), 0.5)
    normalize, broken = NormalizeByStart(), torch.tensor([[float("nan"), 1.0], [float("inf"), 1.0]])
    assert normalize(broken, rays)[1].tolist() == [1.0, 1.0]
    assert normalize(torch.tensor([[2.0, 4.0], [float("nan"), 1.0]]), rays)[1].tolist() == [0.5, 0.25]
    assert normalize(broken, rays)[1].tolist() == [0.5, 0.25]


def test_the_average_is_each_ray_s_own_and_unbiased() -> None:
    rays = torch.tensor([[0.2, 0.8], [0.5, 0.5], [0.8, 0.2]])
    average, seen = Average(rays.tolist(), decay=0.8), {0: [], 1: [], 2: []}
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        drawn = torch.randint(3, (2,), generator=generator)
        losses = torch.rand(2, 2, generator=generator, dtype=torch.float64)
        smooth, slope = average(losses, rays[drawn])
        assert (slope == 1).all()
        for k in drawn.unique().tolist():  # a ray drawn twice in a step counts once, with the mean
            seen[k].append(losses[drawn == k].mean(0))
        for row, k in zip(smooth, drawn.tolist()):
            share = 0.8 ** torch.arange(len(seen[k]) - 1, -1, -1, dtype=torch.float64)
            expected = (share[:, None] * torch.stack(seen[k])).sum(0) / share.sum()
            assert torch.allclose(row, expected)


def test_what_is_remembered_can_be_stored_loaded_and_forgotten() -> None:
    rays = torch.tensor([[0.25, 0.75], [0.75, 0.25]])

    def make() -> hf.LS:
        return chain(NormalizeByStart(), Average(rays.tolist()), Tchebycheff(), Clip())

    first, second = torch.tensor([[3.0, 1.0], [1.0, 2.0]]), torch.tensor([[1.0, 1.1], [5.0, 2.0]])
    whole, resumed = make(), make()
    whole(first, rays)
    resumed.load(whole.state())
    assert set(whole.state()) == {"0", "1"}
    assert torch.equal(whole(second, rays)[0], resumed(second, rays)[0])
    resumed.load({})
    assert torch.equal(resumed(second, rays)[0], make()(second, rays)[0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: chain(), "nothing"),
        (lambda: chain(Clip()), "exactly one solver"),
        (lambda: chain(hf.LS(), hf.EPO()), "solver, solver"),
        (lambda: chain(Clip(), hf.LS()), "in this order"),
        (lambda: chain(hf.LS(), Normalize(nadir=1.0)), "in this order"),
        (lambda: chain(hf.LS(), 3), "solver, int"),
        (lambda: Normalize(ideal=1.0, nadir=(2.0, 1.0)), "not above"),
        (lambda: Normalize(ideal=(0.0, 0.0, 0.0), nadir=(2.0, 1.0)), "different lengths"),
        (lambda: Clip(low=1.0, high=0.0), "low < high"),
        (lambda: Average([[0.5, 0.5]], decay=1.0), "decay"),
        (lambda: NormalizeByStart(steps=0), "steps"),
    ],
)
def test_parts_that_do_not_fit_are_errors(make, message: str) -> None:
    with pytest.raises(HyperfrontError, match=message):
        make()


def test_a_ray_outside_the_averaged_set_is_an_error() -> None:
    with pytest.raises(RayError, match=r"\[0\.3, 0\.7\][\s\S]*FixedRays"):
        Average([[0.5, 0.5]])(torch.ones(1, 2), torch.tensor([[0.3, 0.7]]))
    with pytest.raises(RayError, match="number of objectives"):
        Average([[0.5, 0.5]])(torch.ones(1, 3), torch.ones(1, 3) / 3)
