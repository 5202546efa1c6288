"""Rays: drawn from the distribution they name, laid out on the grids they name, checked, converted, interpolated."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hyperfront.errors import HyperfrontError, RayError
from hyperfront.preferences import (
    Dirichlet,
    FixedRays,
    convert,
    das_dennis,
    interpolation,
    rays,
    shifted_grid,
    through,
    uniform,
    validate,
)

random_inputs = settings(max_examples=60)
objectives = st.integers(2, 5)
seeds = st.integers(0, 2**31)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def simplex(count: int, m: int, seed: int = 0) -> torch.Tensor:
    """Random points of the simplex, some on its faces."""
    generator = seeded(seed)
    points = torch.rand(count, m, dtype=torch.float64, generator=generator).log().neg()
    points[1::3] *= torch.rand(len(points[1::3]), m, generator=generator) < 0.6
    points[points.sum(1) == 0] = 1.0
    return points / points.sum(1, keepdim=True)


# ---- drawing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.2, 1.0, 5.0, (0.1, 0.5, 2.0), (3.0, 1.0, 0.02)])
def test_dirichlet_has_the_mean_and_variance_of_its_concentrations(alpha):
    count, concentration = 100_000, torch.as_tensor(alpha, dtype=torch.float64).expand(3)
    sample, total = Dirichlet(alpha).sample(count, 3, seeded()), concentration.sum()
    mean = concentration / total
    variance = mean * (1 - mean) / (total + 1)
    error = 5 * (variance / count).sqrt()  # also bounds that of the variance, since entries lie in [0, 1]
    assert ((sample.mean(0) - mean).abs() < error).all()
    assert ((sample.var(0) - variance).abs() < error).all()


@pytest.mark.parametrize("alpha", [(0.2, 0.2), (1.0, 1.0, 1.0), (0.3, 2.0, 0.7)])
def test_entries_of_a_dirichlet_ray_follow_beta_distributions(alpha):
    sample = Dirichlet(alpha).sample(20_000, len(alpha), seeded(1))
    for entries, a in zip(sample.T, alpha):
        assert stats.kstest(entries.numpy(), stats.beta(a, sum(alpha) - a).cdf).pvalue > 1e-3


@given(st.one_of(st.floats(1e-3, 100), st.just(1e-3), st.just(1e-8)), objectives, seeds)
@random_inputs
def test_dirichlet_rays_lie_on_the_simplex_however_small_the_concentration(alpha, m, seed):
    sample = Dirichlet(alpha).sample(100, m, seeded(seed))
    assert sample.dtype == torch.float64 and sample.shape == (100, m)
    assert not sample.isnan().any() and (sample >= 0).all()
    torch.testing.assert_close(sample.sum(1), torch.ones(100, dtype=torch.float64))


@pytest.mark.parametrize("preferences", [Dirichlet(0.2), uniform(), FixedRays.of(das_dennis(3, 7))])
def test_the_seed_decides_the_rays(preferences):
    first, again, other = (preferences.sample(50, 3, seeded(seed)) for seed in (7, 7, 8))
    assert torch.equal(first, again) and not torch.equal(first, other)


@pytest.mark.parametrize("alpha", [0.0, -1.0, math.nan, math.inf, (), (0.2, 0.0), [0.2, -0.1]])
def test_concentrations_must_be_positive(alpha):
    with pytest.raises(RayError, match=r"concentrations|alpha"):
        Dirichlet(alpha)


def test_there_must_be_one_concentration_for_each_objective():
    with pytest.raises(RayError, match="2 concentrations for 3 objectives"):
        Dirichlet((0.2, 0.3)).sample(1, 3, seeded())


def test_fixed_rays_are_drawn_evenly_and_nothing_else_is():
    grid = das_dennis(3, 3)
    sample = FixedRays.of(grid).sample(10_000, 3, seeded())
    hits = (sample[:, None] == grid).all(-1)
    assert (hits.sum(1) == 1).all()
    assert stats.chisquare(hits.sum(0).numpy()).pvalue > 1e-3


def test_preferences_survive_json():
    assert Dirichlet([0.2, 0.3]) == Dirichlet((0.2, 0.3))
    assert FixedRays([[0.5, 0.5], [0.1, 0.9]]) == FixedRays(((0.5, 0.5), (0.1, 0.9)))


# ---- grids -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [2, 3, 4, 5])
@pytest.mark.parametrize("partitions", [1, 2, 5, 6])
def test_the_grid_of_das_and_dennis_is_the_lattice(m, partitions):
    lattice = {k for k in itertools.product(range(partitions + 1), repeat=m) if sum(k) == partitions}
    positive = {k for k in lattice if min(k) > 0}
    for wanted, keep in ((lattice, False), (positive, True)):
        if wanted:
            grid = das_dennis(m, partitions, positive=keep) * partitions
            assert {tuple(k) for k in grid.round().long().tolist()} == wanted
            assert len(grid) == len(wanted) and (grid - grid.round()).abs().max() < 1e-12
    assert len(lattice) == math.comb(partitions + m - 1, m - 1)


@pytest.mark.parametrize(("m", "partitions"), [(2, 1), (2, 9), (3, 1), (3, 4), (4, 2), (4, 5), (5, 2), (5, 4)])
def test_no_ray_is_farther_from_the_grid_than_those_of_the_shifted_grid(m, partitions):
    grid, shifted = das_dennis(m, partitions), shifted_grid(m, partitions)
    depth = torch.cdist(shifted, grid).amin(1)
    torch.testing.assert_close(depth, depth[:1].expand_as(depth))
    assert torch.cdist(simplex(20_000, m), grid).amin(1).max() <= depth[0] + 1e-12
    torch.testing.assert_close(shifted.sum(1), torch.ones(len(shifted), dtype=torch.float64))
    assert (shifted > 0).all() and len(shifted.unique(dim=0)) == len(shifted)


@pytest.mark.parametrize("call", [lambda: das_dennis(1, 3), lambda: das_dennis(3, 0), lambda: shifted_grid(4, 1)])
def test_grids_that_do_not_exist_are_refused(call):
    with pytest.raises(RayError, match="no such grid"):
        call()


def test_a_positive_grid_needs_a_partition_for_each_objective():
    assert das_dennis(3, 3, positive=True).tolist() == [[1 / 3] * 3]
    with pytest.raises(RayError, match="partitions >= 3"):
        das_dennis(3, 2, positive=True)


@given(st.integers(1, 300), st.integers(2, 6))
@random_inputs
def test_evaluation_rays_are_as_many_as_asked_different_and_inside_the_simplex(n, m):
    laid = rays(n, m)
    assert laid.shape == (n, m) and len(laid.unique(dim=0)) == n
    assert (laid > 0).all()
    torch.testing.assert_close(laid.sum(1), torch.ones(n, dtype=torch.float64))


@given(st.integers(2, 100))
@random_inputs
def test_two_objectives_get_equal_angles(n):
    angles = torch.atan2(*rays(n, 2).T.flip(0))
    assert float(angles[0]) == pytest.approx(0.1) and float(angles[-1]) == pytest.approx(math.pi / 2 - 0.1)
    torch.testing.assert_close(angles.diff(), angles.diff()[:1].expand(n - 1))


@pytest.mark.parametrize(("n", "partitions"), [(45, 11), (153, 19)])
def test_grid_sizes_give_the_whole_positive_grid(n, partitions):
    assert torch.equal(rays(n, 3), das_dennis(3, partitions, positive=True))


@pytest.mark.parametrize(("n", "m"), [(0, 2), (-1, 3), (5, 1)])
def test_rays_need_a_count_and_two_objectives(n, m):
    with pytest.raises(RayError, match=r"the number of (rays|objectives) is out of range"):
        rays(n, m)


# ---- checking ----------------------------------------------------------------------------------------------------

NAMES = ("cost", "risk", "delay")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([0.5, -0.1, 0.6], "risk = -0.1"),
        ([[0.2, 0.3, 0.5], [0.2, 0.9, -1.0]], "delay = -1"),
        ([math.nan, 0.5, 0.5], "cost = nan"),
        ([0.5, 0.5, math.inf], "delay = inf"),
        ([0.5, -math.inf, 0.5], "risk = -inf"),
        ([0.5, 0.5], "cost, risk, delay"),
        ([0.2, 0.2, 0.2, 0.4], "cost, risk, delay"),
        ([[0.2, 0.3, 0.5], [0.0, 0.0, 0.0]], "ray 1 is all zero"),
        ([], "wrong shape"),
        (torch.zeros(0, 3), "wrong shape"),
        (torch.full((1, 1, 3), 1 / 3), "wrong shape"),
        (1.0, "wrong shape"),
        ("abc", "not numbers"),
        (["a", "b", "c"], "not numbers"),
        ([[0.5, 0.5, 0.0], [1.0]], "not numbers"),
        ([0.5, None, 0.5], "not numbers"),
        (None, "not numbers"),
        ({"cost": 1.0}, "not numbers"),
    ],
)
def test_what_is_not_a_ray_is_refused_by_name(bad, message):
    with pytest.raises(RayError, match=message):
        validate(bad, 3, NAMES)


def test_without_names_the_objective_is_numbered():
    with pytest.raises(RayError, match=r"objective 1 = -0\.5"):
        validate([1.5, -0.5], 2)


@given(objectives, seeds, st.sampled_from([torch.float32, torch.float64]))
@random_inputs
def test_points_of_the_simplex_pass_unchanged(m, seed, dtype):
    points = simplex(7, m, seed).to(dtype)
    assert torch.equal(validate(points, m), points)
    assert torch.equal(validate(points[0], m), points[:1])


@pytest.mark.parametrize("scale", [1e-30, 0.5, 3.0, 1e30, 1e38])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_other_lengths_are_normalized_with_a_notice(scale, dtype):
    points = simplex(50, 4).to(dtype)
    with pytest.warns(UserWarning, match="normalized"):
        torch.testing.assert_close(validate(points * scale, 4), points)


@pytest.mark.parametrize("huge", [torch.tensor([3e38, 3e38]), torch.tensor([1e308, 1e308], dtype=torch.float64)])
def test_huge_entries_are_normalized_without_overflow(huge):
    with pytest.warns(UserWarning, match="normalized"):
        assert validate(huge, 2).tolist() == [[0.5, 0.5]]


def test_integers_are_numbers():
    assert validate([1, 0], 2).tolist() == [[1.0, 0.0]]


# ---- conventions -------------------------------------------------------------------------------------------------


@given(objectives, seeds)
@random_inputs
def test_converting_there_and_back_changes_nothing(m, seed):
    points = simplex(9, m, seed).clamp_min(1e-3)
    points = points / points.sum(1, keepdim=True)
    for a, b in (("inverse", "direction"), ("direction", "inverse")):
        torch.testing.assert_close(convert(convert(points, a, b), b, a), points)
        assert convert(points, a, a) is points


@given(objectives, seeds)
@random_inputs
def test_losses_on_an_inverse_ray_are_parallel_to_its_direction(m, seed):
    inverse = Dirichlet(1.0).sample(9, m, seeded(seed))
    losses = 1 / inverse  # r_1 l_1 = ... = r_m l_m
    torch.testing.assert_close(convert(inverse, "inverse", "direction"), losses / losses.sum(1, keepdim=True))


@given(objectives, seeds)
@random_inputs
def test_the_ray_through_a_point_leads_to_it(m, seed):
    losses = torch.exp(20 * torch.randn(9, m, dtype=torch.float64, generator=seeded(seed)))
    inverse, direction = through(losses), through(losses, "direction")
    products = inverse * losses
    torch.testing.assert_close(products, products[:, :1].expand_as(products), rtol=1e-9, atol=0)
    torch.testing.assert_close(direction, losses / losses.sum(1, keepdim=True))
    torch.testing.assert_close(inverse.sum(1), torch.ones(9, dtype=torch.float64))


def test_zero_entries_convert_to_corners():
    corner = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    assert convert(corner, "inverse", "direction").tolist() == [[pytest.approx(0.0, abs=1e-300), 1.0]]
    assert convert(convert(corner, "inverse", "direction"), "direction", "inverse")[0, 0] == 1.0
    assert through(torch.tensor([3.0, 0.0]), "direction").tolist() == [1.0, 0.0]
    assert through(torch.tensor([3.0, 0.0])).tolist() == [pytest.approx(0.0, abs=1e-30), 1.0]


@pytest.mark.parametrize(("source", "to"), [("weights", "inverse"), ("direction", "weights"), ("inverse", "weights")])
def test_loss_weights_cannot_be_converted(source, to):
    with pytest.raises(HyperfrontError, match="without the front"):
        convert(torch.tensor([[0.5, 0.5]]), source, to)
    with pytest.raises(HyperfrontError, match="loss weights"):
        through(torch.tensor([1.0, 2.0]), "weights")


# ---- interpolation -----------------------------------------------------------------------------------------------


@given(objectives, st.integers(1, 6), seeds, st.sampled_from([torch.float32, torch.float64]))
@settings(max_examples=200)
def test_interpolation_is_exact_for_affine_functions_and_local(m, partitions, seed, dtype):
    points, grid = simplex(20, m, seed).to(dtype), das_dennis(m, partitions).to(dtype)
    weights = interpolation(points, partitions)
    assert weights.dtype == dtype and weights.shape == (20, len(grid))
    assert (weights >= 0).all() and ((weights > 0).sum(1) <= m).all()
    torch.testing.assert_close(weights.sum(1), torch.ones(20, dtype=dtype))
    # every affine function of the ray is a combination of its coordinates; near a grid line it snaps to it
    steps = partitions * points.double().cumsum(1)
    snapped = ((steps - steps.round()).abs()[:, :-1] < 1e-4).any(1)
    error = (weights @ grid - points).abs().amax(1).double()
    assert (error < torch.where(snapped, 1e-4, 50 * torch.finfo(dtype).eps)).all()
    apart = (points[:, None] - grid).abs().amax(-1) * (weights > 0)
    assert apart.max() <= 1 / partitions + 1e-5


@pytest.mark.parametrize("m", [2, 3, 4, 5])
@pytest.mark.parametrize("partitions", [1, 3, 6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_interpolation_reproduces_the_grid(m, partitions, dtype):
    grid = das_dennis(m, partitions).to(dtype)
    assert torch.equal(interpolation(grid, partitions), torch.eye(len(grid), dtype=dtype))


@given(objectives, st.integers(1, 6), seeds)
@random_inputs
def test_interpolation_is_continuous(m, partitions, seed):
    values = torch.randn(len(das_dennis(m, partitions)), dtype=torch.float64, generator=seeded(seed))
    first, second = simplex(2, m, seed)
    path = first + torch.linspace(0, 1, 2001, dtype=torch.float64)[:, None] * (second - first)
    along = interpolation(path, partitions) @ values
    assert along.diff().abs().max() <= 4 * m * partitions * values.abs().max() / 2000 + 1e-4


@pytest.mark.parametrize("m", [2, 3, 7])
def test_one_ray_alone_is_the_central_one(m):
    assert rays(1, m).tolist() == [pytest.approx([1 / m] * m)]
