"""Indicators: against inclusion-exclusion, moocore, scipy and brute force."""

from __future__ import annotations

import itertools
import math

import moocore
import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from hyperfront.errors import ProblemError
from hyperfront.indicators import (
    attainable_uniformity,
    controllability,
    cross_angle,
    hypervolume,
    igd_plus,
    nondominated,
    nondominated_share,
    nonuniformity,
    spacing,
    uniformity,
)
from hyperfront.preferences import through

random_inputs = settings(max_examples=100)


def tables(low: float, high: float, *, rows: tuple[int, int] = (1, 6), integers: bool = False):
    """Losses ``[R, m]`` with m = 2, 3 or 4."""
    entries = st.integers(int(low), int(high)).map(float) if integers else st.floats(low, high, allow_subnormal=False)
    shapes = st.tuples(st.integers(*rows), st.integers(2, 4))
    return shapes.flatmap(lambda shape: arrays(np.float64, shape, elements=entries)).map(torch.from_numpy)


def pairs():
    """Losses and rays ``[R, m]``, positive."""
    return tables(1e-3, 10).flatmap(
        lambda losses: st.tuples(
            st.just(losses), arrays(np.float64, tuple(losses.shape), elements=st.floats(1e-3, 1)).map(torch.from_numpy)
        )
    )


def volume_of_boxes(points: torch.Tensor, reference: float) -> float:
    """The union of the boxes between the points and the reference, by inclusion and exclusion."""
    total = 0.0
    for size in range(1, len(points) + 1):
        for chosen in itertools.combinations(range(len(points)), size):
            sides = (reference - points[list(chosen)].amax(0)).clamp_min(0)
            total += (-1) ** (size + 1) * float(sides.prod())
    return total


# ---- hypervolume -------------------------------------------------------------------------------------------------


@given(tables(-1, 3))
@random_inputs
def test_hypervolume_is_the_volume_of_the_boxes_up_to_the_reference(losses):
    expected = volume_of_boxes(losses, 2.0)
    assert hypervolume(losses, (2.0,) * losses.shape[1]) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(tables(-1, 3, rows=(2, 20)))
@random_inputs
def test_hypervolume_grows_with_points_and_only_with_nondominated_ones(losses):
    reference = torch.full((losses.shape[1],), 2.0)
    whole = hypervolume(losses, reference)
    assert whole >= hypervolume(losses[1:], reference) - 1e-9
    assert whole == pytest.approx(hypervolume(losses[nondominated(losses)], reference), abs=1e-9)


@pytest.mark.parametrize("change", [torch.Tensor.bfloat16, torch.Tensor.requires_grad_])
def test_indicators_take_losses_in_half_precision_and_with_gradients(change):
    losses = change(torch.tensor([[0.0, 1.0], [1.0, 0.0], [3.0, 3.0]]))
    assert hypervolume(losses, (2, 2)) == 3.0
    assert igd_plus(losses, torch.zeros(1, 2)) == 1.0
    assert spacing(losses) == pytest.approx(np.std([2, 2, 5], ddof=1))
    assert nondominated(losses).tolist() == [True, True, False]


@pytest.mark.parametrize("reference", [(2.0,), (2.0, 2.0, 2.0), 2.0])
def test_the_reference_needs_a_number_for_each_objective(reference):
    with pytest.raises(ProblemError, match="reference point does not fit"):
        hypervolume(torch.zeros(3, 2), reference)


def test_one_point_without_its_row_dimension_is_refused():
    with pytest.raises(ProblemError):
        hypervolume(torch.zeros(2), (2.0, 2.0))


# ---- uniformity --------------------------------------------------------------------------------------------------


@given(pairs())
@random_inputs
def test_nonuniformity_is_the_relative_entropy_to_the_uniform_distribution(pair):
    losses, rays = pair
    expected = [stats.entropy(row, np.ones(losses.shape[1])) for row in (losses * rays).numpy()]
    assert nonuniformity(losses, rays).tolist() == pytest.approx(expected, abs=1e-12)


@given(pairs())
@random_inputs
def test_numbers_of_single_precision_are_measured_in_double_precision(pair):
    single = [part.float() for part in pair]
    for measure in (nonuniformity, uniformity, cross_angle):
        assert torch.equal(measure(*single), measure(*(part.double() for part in single)))


@given(pairs(), st.floats(1.5, 10))
@random_inputs
def test_uniformity_lies_between_one_minus_log_m_and_one_in_every_base(pair, base):
    losses, rays = pair
    least = 1 - math.log(losses.shape[1], base)
    values = uniformity(losses, rays, base=base)
    assert (values >= least - 1e-12).all() and (values <= 1 + 1e-12).all()
    torch.testing.assert_close((1 - values) * math.log(base), nonuniformity(losses, rays))


def test_losses_without_shares_are_never_the_most_uniform():
    losses = torch.tensor([[-1.0, -1.0], [-3.0, 1.0], [1.0, -1.0], [math.nan, 1.0], [0.0, 0.0]])
    negative, mixed, balanced, unknown, nothing = uniformity(losses, torch.full((5, 2), 0.5)).tolist()
    assert negative == mixed == balanced == 1 - math.log(2)
    assert math.isnan(unknown) and nothing == 1.0


@given(tables(1e-3, 10), st.floats(1.01, 100))
@random_inputs
def test_uniformity_is_one_on_the_inverse_ray_and_nowhere_else(losses, factor):
    rays = through(losses)
    assert uniformity(losses, rays).tolist() == pytest.approx([1.0] * len(losses), abs=1e-12)
    losses[:, 0] *= factor
    assert (uniformity(losses, rays) < 1 - 1e-6).all()


@given(pairs(), st.floats(-150, 150))
@random_inputs
def test_uniformity_does_not_depend_on_the_common_scale_of_the_losses(pair, exponent):
    losses, rays = pair
    torch.testing.assert_close(uniformity(losses * 10.0**exponent, rays), uniformity(losses, rays))


@pytest.mark.parametrize("m", [2, 3, 5])
def test_a_single_loss_that_is_not_zero_has_the_least_uniformity(m):
    losses = torch.eye(m)[:1]
    assert uniformity(losses, torch.full((1, m), 1 / m)).item() == pytest.approx(1 - math.log(m))


def test_losses_whose_products_with_the_ray_all_vanish_lie_on_it():
    assert uniformity(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])).tolist() == [1.0]


@given(pairs(), st.integers(0, 1000))
@random_inputs
def test_attainable_is_the_best_of_the_nondominated_and_control_the_ratio_of_entropies_to_it(pair, seed):
    losses, rays = pair
    pool = torch.rand(8, losses.shape[1], generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    best = pool[torch.from_numpy(moocore.is_nondominated(pool.numpy()))]
    expected = [max(uniformity(point[None], ray[None]).item() for point in best) for ray in rays]
    assert attainable_uniformity(rays, pool).tolist() == pytest.approx(expected, abs=1e-12)

    ratios = [
        stats.entropy((point * ray).numpy()) / max(stats.entropy((other * ray).numpy()) for other in best)
        for point, ray in zip(losses, rays)
    ]
    assert controllability(losses, rays, pool).tolist() == pytest.approx(np.minimum(ratios, 1), abs=1e-9)


@given(tables(1e-3, 10, rows=(2, 6)))
@random_inputs
def test_a_front_is_fully_controlled_at_the_rays_through_its_own_points(losses):
    kept = losses[nondominated(losses)]
    assert controllability(kept, through(kept), losses).tolist() == pytest.approx([1.0] * len(kept))


@given(pairs())
@random_inputs
def test_the_cross_angle_is_that_of_the_law_of_cosines(pair):
    losses, rays = pair
    a, b, c = losses.norm(dim=1), rays.norm(dim=1), (losses - rays).norm(dim=1)
    cosine = ((a * a + b * b - c * c) / (2 * a * b)).clamp(-1, 1)
    torch.testing.assert_close(torch.deg2rad(cross_angle(losses, rays)).cos(), cosine, atol=1e-7, rtol=0)
    assert cross_angle(3 * rays, rays).max() < 1e-4 and cross_angle(-3 * rays, rays).min() > 180 - 1e-4


# ---- domination, distances ---------------------------------------------------------------------------------------


@given(tables(0, 3, rows=(1, 12), integers=True))
@random_inputs
def test_nondominated_agrees_with_moocore_and_with_the_definition_also_for_equal_points(losses):
    mask = nondominated(losses)
    assert mask.tolist() == moocore.is_nondominated(losses.numpy(), keep_weakly=True).tolist()
    rows = losses.tolist()
    for kept, point in zip(mask.tolist(), rows):
        beaten = any(all(a <= b for a, b in zip(other, point)) and other != point for other in rows)
        assert kept is not beaten


@given(tables(0, 2, rows=(1, 12), integers=True))
@random_inputs
def test_copies_of_a_point_count_once_in_the_share_of_the_nondominated(losses):
    different = {tuple(row) for row, kept in zip(losses.tolist(), nondominated(losses).tolist()) if kept}
    assert nondominated_share(losses) == len(different) / len(losses)


@given(tables(0, 2, rows=(1, 8)), st.integers(0, 1000))
@random_inputs
def test_igd_plus_is_the_mean_distance_to_the_dominated_region(losses, seed):
    truth = torch.rand(7, losses.shape[1], generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    gaps = [min(math.dist(np.maximum(point, target), target) for point in losses.tolist()) for target in truth.tolist()]
    assert igd_plus(losses, truth) == pytest.approx(sum(gaps) / len(gaps))


@given(tables(0, 2, rows=(1, 8)), st.floats(1e-3, 1))
@random_inputs
def test_igd_plus_is_zero_exactly_where_the_truth_is_reached(losses, shift):
    assert igd_plus(losses, losses) == 0
    assert igd_plus(losses - shift, losses) == 0  # better than the truth is no distance
    assert 0 < igd_plus(losses + shift, losses) <= shift * math.sqrt(losses.shape[1]) + 1e-12


@given(tables(0, 2, rows=(2, 8)))
@random_inputs
def test_spacing_is_the_deviation_of_the_distances_to_the_nearest_neighbor(losses):
    rows = losses.numpy()
    nearest = [min(np.abs(rows[i] - rows[j]).sum() for j in range(len(rows)) if j != i) for i in range(len(rows))]
    assert spacing(losses) == pytest.approx(np.std(nearest, ddof=1), abs=1e-9)


@given(st.integers(2, 30), st.floats(0.1, 10), st.floats(-5, 5))
@random_inputs
def test_evenly_spaced_points_have_no_spacing_wherever_they_are(count, step, offset):
    line = offset + step * torch.arange(count, dtype=torch.float64)
    assert spacing(torch.stack([line, -line], dim=1)) == pytest.approx(0, abs=1e-9)


def test_one_point_has_no_spacing():
    assert spacing(torch.ones(1, 3)) == 0


@given(tables(0, 1, rows=(2, 8)))
@random_inputs
def test_indicators_do_not_depend_on_the_order_of_the_points(losses):
    assume(len(losses.unique(dim=0)) > 1)
    turned, reference = losses.flip(0), (1.5,) * losses.shape[1]
    assert hypervolume(turned, reference) == pytest.approx(hypervolume(losses, reference))
    assert spacing(turned) == pytest.approx(spacing(losses), abs=1e-12)
    assert torch.equal(nondominated(turned), nondominated(losses).flip(0))


def test_a_point_whose_products_vanish_is_as_good_as_any_other_to_the_attainable():
    pool, corner = torch.tensor([[0.0, 5.0], [1.0, 1.0]]), torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    each = torch.stack([uniformity(point.expand(2, -1), corner) for point in pool], -1)
    assert attainable_uniformity(corner, pool).tolist() == each.amax(-1).tolist()


def test_where_nothing_is_attainable_all_is_reached():
    point = torch.tensor([[1.0, 0.0]])
    assert controllability(point, torch.tensor([[0.5, 0.5]]), pool=point).tolist() == [1.0]
