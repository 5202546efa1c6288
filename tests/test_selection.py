"""Selection: the constrained optimum of fronts that are known in closed form."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize
from torch import Tensor

from hyperfront.errors import SelectionError
from hyperfront.front.selection import best, check, search
from hyperfront.preferences import das_dennis, rays


def sphere(points: Tensor) -> dict[str, Tensor]:
    """The unit sphere, met by every ray of the inverse convention; ``score`` is better when ``l2`` is smaller."""
    losses = 1 / points.clamp_min(1e-12)
    losses = losses / losses.norm(dim=1, keepdim=True)
    return {f"l{j + 1}": column for j, column in enumerate(losses.T)} | {"score": 1 - losses[:, 1]}


def paraboloids(points: Tensor) -> dict[str, Tensor]:
    """Squared distances to the corners of a simplex, met by every ray that weighs them: a convex front."""
    losses = (points[:, None] - torch.eye(points.shape[1], dtype=points.dtype)).square().sum(-1) / 2
    return {f"l{j + 1}": column for j, column in enumerate(losses.T)}


def found(front, limits: dict, *, m: int, count: int = 25, rounds: int = 8) -> dict[str, float]:
    """The columns at the ray that the search returns."""
    start = rays(count, m)
    ray = search(front, start, front(start), "l1", limits, rounds=rounds)
    assert ray.shape == (m,) and (ray >= 0).all() and float(ray.sum()) == pytest.approx(1)
    return {name: float(column) for name, column in front(ray[None]).items()}


limit = st.floats(0.25, 0.9)
searches = settings(max_examples=12, deadline=None, derandomize=True)


@given(st.integers(2, 4).flatmap(lambda m: st.lists(limit, min_size=m - 1, max_size=m - 1)))
@settings(searches, max_examples=30)
def test_on_a_sphere_the_optimum_has_every_limit_exhausted(limits):
    square = sum(x * x for x in limits)
    if not 0.1 < square < 0.95:
        limits = [x * math.sqrt(0.6 / square) for x in limits]
        square = 0.6
    result = found(sphere, {f"l{j + 2}": ("<=", x) for j, x in enumerate(limits)}, m=len(limits) + 1)
    assert 0 <= result["l1"] - math.sqrt(1 - square) < (1e-4 if len(limits) < 3 else 1e-3)
    assert all(result[f"l{j + 2}"] <= x for j, x in enumerate(limits))


@given(st.lists(st.floats(0.35, 0.7), min_size=1, max_size=3))
@searches
def test_on_a_convex_front_the_optimum_is_that_of_a_nonlinear_programme(limits):
    m = len(limits) + 1
    limits = [max(x, 0.5 * (m - 1) / m + 0.02) for x in limits]  # attainable: the centre keeps them

    def value(x, j):
        return sum((x[i] - (i == j)) ** 2 for i in range(m)) / 2

    programme = optimize.minimize(
        value,
        [1 / m] * m,
        args=(0,),
        bounds=[(0, 1)] * m,
        constraints=[
            {"type": "eq", "fun": lambda x: sum(x) - 1},
            *({"type": "ineq", "fun": lambda x, j=j: limits[j - 1] - value(x, j)} for j in range(1, m)),
        ],
        options={"ftol": 1e-8},
    )
    assert programme.success
    result = found(paraboloids, {f"l{j + 2}": ("<=", x) for j, x in enumerate(limits)}, m=m)
    assert -1e-5 < result["l1"] - programme.fun < 2e-3


@pytest.mark.parametrize("m", [2, 3, 4])
def test_limits_may_be_lower_bounds_of_scores(m):
    result = found(sphere, {"score": (">=", 0.6), **{f"l{j}": ("<=", 0.5) for j in range(3, m + 1)}}, m=m)
    assert result["score"] >= 0.6
    assert 0 <= result["l1"] - math.sqrt(1 - 0.4**2 - 0.25 * (m - 2)) < 1e-3


def test_rays_on_the_faces_coinciding_rays_and_broken_points_do_no_harm():
    start = torch.cat([das_dennis(3, 5), das_dennis(3, 2)])
    columns = sphere(start)
    columns["l1"][2] = columns["l3"][3] = math.nan
    ray = search(sphere, start, columns, "l1", {"l2": ("<=", 0.6), "l3": ("<=", 0.6)}, rounds=8)
    assert float(sphere(ray[None])["l1"]) == pytest.approx(math.sqrt(1 - 0.72), abs=1e-3)


def test_columns_in_steps_are_searched_to_a_step():
    def stepped(points: Tensor) -> dict[str, Tensor]:
        return {name: (column * 1000).round() / 1000 for name, column in sphere(points).items()}

    result = found(stepped, {"l2": ("<=", 0.5), "l3": ("<=", 0.7)}, m=3)
    assert result["l1"] == pytest.approx(math.sqrt(1 - 0.25 - 0.49), abs=3e-3)


def test_the_search_repeats_itself_and_never_loses_to_its_starting_points():
    start = rays(25, 3)
    limits = {"l2": ("<=", 0.5), "l3": ("<=", 0.7)}
    first, again = (search(sphere, start, sphere(start), "l1", limits, rounds=3) for _ in range(2))
    assert torch.equal(first, again)
    values = [
        float(sphere(search(sphere, start, sphere(start), "l1", limits, rounds=k)[None])["l1"]) for k in (0, 1, 4)
    ]
    assert values[0] == float(sphere(start)["l1"][best(sphere(start), "l1", limits)])
    assert values[0] >= values[1] >= values[2]


@pytest.mark.parametrize("m", [2, 3, 4])
def test_without_limits_the_best_point_is_the_smallest(m):
    start = rays(25, m)
    columns = paraboloids(start)
    assert best(columns, "l1", {}) == int(columns["l1"].argmin())
    assert found(paraboloids, {}, m=m)["l1"] < 1e-3  # the corner of the first objective, where it is 0


def test_among_points_the_best_keeps_the_limits_if_any_does_and_is_the_nearest_if_none_does():
    columns = {"a": torch.tensor([1.0, 2.0, 3.0, math.nan]), "b": torch.tensor([4.0, 3.0, 2.5, 1.0])}
    assert best(columns, "a", {"b": ("<=", 3.5)}) == 1
    assert best(columns, "a", {"b": (">=", 3.5)}) == 0
    assert best(columns, "b", {"a": ("<=", 0.5)}) == 0
    assert best(columns, "b", {"a": (">=", 9.0)}) == 2
    check(columns, 1, {"b": ("<=", 3.0)})


@pytest.mark.parametrize("m", [2, 3, 4])
def test_limits_that_cannot_be_kept_are_answered_with_the_nearest_that_can(m):
    # on the sphere some loss is at least 1 / sqrt(m), twice the limits
    x = 0.5 / math.sqrt(m)
    limits = {f"l{j + 1}": ("<=", x) for j in range(m)}
    start = rays(25, m)
    with pytest.raises(SelectionError, match="no ray") as caught:
        search(sphere, start, sphere(start), "l1", limits, rounds=8)
    named = [float(part.split(" = ")[1]) for part in caught.value.expected.split("has ")[1].split(", ")]
    over = sum(max(0.0, value - x) for value in named)
    # the sum of the losses beyond their limits is least in a corner of the sphere with all but one loss at its limit
    least = math.sqrt(1 - (m - 1) * x * x) - x
    assert len(named) == m and least - 1e-6 <= over < least + 0.02


def test_an_unattainable_single_limit_names_the_extreme_value_of_the_front():
    start = rays(25, 2)
    with pytest.raises(SelectionError, match="relax the limits") as caught:
        search(paraboloids, start, paraboloids(start), "l1", {"l2": ("<=", -0.1)}, rounds=8)
    assert float(caught.value.expected.split("l2 = ")[1]) == pytest.approx(0, abs=1e-3)
    assert caught.value.got == "l2 <= -0.1"


def test_a_limit_of_zero_can_be_kept_and_others_count_by_their_size():
    columns = {"a": torch.tensor([1.0, 2.0, 3.0]), "b": torch.tensor([0.1, 0.0, 0.0])}
    assert best(columns, "a", {"b": ("<=", 0.0)}) == 1
    columns = {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([1010.0, 1000.0]), "c": torch.tensor([1.0, 2.0])}
    assert best(columns, "a", {"b": ("<=", 1000.0), "c": ("<=", 1.0)}) == 0  # by 1 % rather than 100 %
