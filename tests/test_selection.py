"""Selection: the constrained optimum of fronts that are known in closed form."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize
from torch import Tensor

import hyperfront as hf
from hyperfront.errors import ProblemError, SelectionError, UnattainableError
from hyperfront.front import search as searching
from hyperfront.front.question import Question
from hyperfront.front.selection import Selection, Spread
from hyperfront.preferences import das_dennis, rays
from hyperfront.problem import Meaning


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


def search(front, start: Tensor, columns: dict, goal: str, limits: dict, *, rounds: int) -> Tensor:
    """The ray that the search returns."""
    return searching.search(front, start, columns, Question(goal, limits), rounds=rounds)[0][0]


def best(columns: dict, goal: str, limits: dict) -> int:
    return searching.best(columns, Question(goal, limits))


limit = st.floats(0.25, 0.9)
searches = settings(max_examples=12)


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
def test_on_a_convex_front_the_optimum_is_that_of_a_nonlinear_program(limits):
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
    searching.check(columns, 1, Question("a", {"b": ("<=", 3.0)}))


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


# ---- Front.select ----------------------------------------------------------------------------------------------------


def front_of(columns, start: Tensor, directions: dict[str, bool | None], split: str | None = None) -> hf.Front:
    """A front with a model: losses ``a`` and ``b``, and the other columns as scores."""

    def measured(points: Tensor) -> hf.Front:
        found = columns(points)
        return hf.Front(
            ("a", "b"),
            points,
            torch.stack([found.pop("a"), found.pop("b")], dim=1),
            scores=found,
            meanings={name: Meaning(name, maximize=better) for name, better in directions.items()},
            evaluator=measured,
            provenance={} if split is None else {"split": split},
        )

    return measured(start)


def rough(seed: int, steps: int, noise: float):
    """Two losses and a score with steps and a noise that is a function of the ray, as an error rate on few rows is."""

    def columns(points: Tensor) -> dict[str, Tensor]:
        x = points[:, 0]
        wave = noise * torch.sin(1e6 * x * (1 + seed))
        return {
            "a": ((1 - x + wave) * steps).round() / steps,
            "b": (((x - 0.3).abs() + wave) * steps).floor() / steps,
            "c": torch.where(x > 0.5 + 0.04 * seed, 0.9, 0.4) + ((x * steps).round() % 3) / 10,
        }

    return columns


@given(st.integers(0, 5), st.sampled_from([7, 40, 1000]), st.sampled_from([0.0, 0.1, 0.5]), st.integers(1, 9))
@settings(searches, max_examples=12)
def test_a_selection_is_never_worse_than_the_grid_and_its_values_are_those_of_its_ray(seed, steps, noise, count):
    columns = rough(seed, steps, noise)
    start = rays(count, 2)
    front = front_of(columns, start, {"c": True})
    for goal, limits in (
        ({"minimize": "a"}, {"b": 0.4, "c": 0.5}),
        ({"maximize": "c"}, {"b": 0.3}),
        ({"minimize": "b"}, {}),
    ):
        (name,) = goal.values()
        sign = -1 if "maximize" in goal else 1
        asked = Question(name, {key: (">=" if key == "c" else "<=", value) for key, value in limits.items()}, sign < 0)
        grid = columns(start)
        known = searching.best(grid, asked)
        kept = all((grid[key] <= x if s == "<=" else grid[key] >= x)[known] for key, (s, x) in asked.limits.items())
        try:
            choice = front.select(**goal, subject_to=limits, rounds=3)
        except UnattainableError:
            assert not kept
            continue
        assert choice.limits == asked.limits
        assert all(
            v <= x if s == "<=" else v >= x for key, (s, x) in choice.limits.items() for v in [choice.values[key]]
        )
        assert choice.values == {key: value.item() for key, value in columns(choice.ray[None]).items()}
        if kept:
            assert sign * choice.values[name] <= sign * grid[name][known].item()
        assert choice.spread.low <= choice.values[name] <= choice.spread.high


def test_scores_are_goals_and_their_limits_have_the_direction_of_their_meaning():
    def columns(points):
        x = points[:, 0]
        return {"a": x, "b": 1 - x, "accuracy": x * (2 - x), "gap": x * x}

    front = front_of(columns, rays(9, 2), {"accuracy": True, "gap": False})
    choice = front.select(maximize="accuracy", subject_to={"gap": 0.25})
    assert choice.limits == {"gap": ("<=", 0.25)} and choice.goal == "accuracy"
    assert choice.values["accuracy"] == pytest.approx(0.75, abs=1e-3)
    least = front.select(minimize="gap", subject_to={"accuracy": 0.5})
    assert least.limits == {"accuracy": (">=", 0.5)}
    assert least.values["gap"] == pytest.approx((1 - 0.5**0.5) ** 2, abs=1e-3)
    turned = front.select(minimize="a", subject_to={"gap": (">=", 0.5)})  # an explicit direction wins
    assert turned.values["gap"] == pytest.approx(0.5, abs=1e-3)


def test_negative_limits_and_values_are_kept():
    front = front_of(lambda points: {"a": points[:, 0] - 2, "b": -points[:, 0]}, rays(5, 2), {})
    choice = front.select(minimize="a", subject_to={"b": -0.3})
    assert choice.values["b"] <= -0.3 and choice.values["a"] == pytest.approx(-1.7, abs=1e-3)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"minimize": "a", "maximize": "b"},
        {"minimize": "accuracy"},
        {"maximize": "a"},
        {"minimize": "c"},
        {"minimize": "a", "subject_to": {"c": 1}},
        {"minimize": "a", "subject_to": {"other": 0.5}},
        {"minimize": "a", "subject_to": {"b": math.nan}},
        {"minimize": "a", "subject_to": {"b": "much"}},
        {"minimize": "a", "subject_to": {"b": ("<", 1.0)}},
        {"minimize": "a", "subject_to": {"b": ("<=", 1.0, 2.0)}},
    ],
)
def test_questions_that_mean_nothing_are_refused(wrong):
    def columns(points):
        return {"a": points[:, 0], "b": points[:, 1], "accuracy": points[:, 0], "other": points[:, 0]}

    with pytest.raises(SelectionError):
        front_of(columns, rays(5, 2), {"accuracy": True, "other": None}).select(**wrong)


def test_a_coarse_grid_shows_in_the_spread():
    def columns(points):  # a narrow second valley, which one half of the grid starts in
        x = points[:, 0]
        return {"a": (x - 0.5).abs() - 0.5 * torch.exp(-(((x - 0.9) / 0.01) ** 2)), "b": x}

    wide = front_of(columns, torch.tensor([[0.5, 0.5], [0.9, 0.1]]).double(), {}).select(minimize="a", rounds=0)
    assert (wide.spread.low, wide.spread.high) == pytest.approx((-0.1, 0.0), abs=1e-6) and wide.values["a"] < 0
    fine = front_of(lambda points: {"a": points[:, 0], "b": points[:, 1]}, rays(25, 2), {}).select(
        minimize="a", subject_to={"b": 0.7}
    )
    assert fine.spread.high - fine.spread.low < 1e-3 and fine.spread.found == 3


def test_a_goal_without_finite_values_is_refused():
    front = front_of(lambda points: {"a": points[:, 0] * math.nan, "b": points[:, 1]}, rays(5, 2), {})
    with pytest.raises(UnattainableError, match="finite"):
        front.select(minimize="a", subject_to={"b": 1.0})
    with pytest.raises(SelectionError, match="nothing to select"):
        hf.Front(("a", "b"), torch.zeros(0, 2), torch.zeros(0, 2)).select(minimize="a")
    with pytest.raises(ProblemError, match="no uniformity without points"):
        hf.Front(("a", "b"), torch.zeros(0, 2), torch.zeros(0, 2)).uniformity()
    for reference in (None, (1.0, 1.0)):
        with pytest.raises(ProblemError, match="no hypervolume without points"):
            hf.Front(("a", "b"), torch.zeros(0, 2), torch.zeros(0, 2)).hypervolume(reference)


STATED = Selection(
    ray=torch.tensor([0.25, 0.75], dtype=torch.float64),
    values={"a": 0.3, "b": 0.65, "c": 2.0},
    question=Question("a", {"b": ("<=", 0.7)}),
    spread=Spread(0.3, 0.3, 2),
    refined=True,
    split="val",
    meanings={name: Meaning(name) for name in "abc"},
)


def test_a_selection_says_goal_limits_values_and_how_sure_they_are():
    assert str(STATED).splitlines() == [
        "Selection: minimize a within b <= 0.7",
        "  ray: 0.25, 0.75",
        "  a: 0.3 (goal)",
        "  b: 0.65 (limit <= 0.7)",
        "  c: 2",
        "  measured on the val split; a is 0.3 in 2 of 3 searches from parts of the grid",
    ]
    rough = replace(STATED, question=Question("a"), spread=Spread(0.25, 0.5, 3), refined=False, split=None)
    assert str(rough).splitlines()[0] == "Selection: minimize a"
    assert str(rough).splitlines()[-2:] == [
        "  measured; a is 0.25 to 0.5 in 3 of 3 searches from parts of the grid",
        "  only the points of the front were searched, since it has no model",
    ]


def test_a_selection_is_json():
    assert json.loads(json.dumps(STATED.document())) == {
        "ray": [0.25, 0.75],
        "goal": "a",
        "maximize": False,
        "limits": {"b": ["<=", 0.7]},
        "values": {"a": 0.3, "b": 0.65, "c": 2.0},
        "spread": {"low": 0.3, "high": 0.3, "found": 2, "searches": 3},
        "refined": True,
        "split": "val",
        "certificate": None,
    }


def test_a_front_without_a_model_is_searched_among_its_points_and_limits_are_checked():
    front = hf.Front(("a", "b"), rays(5, 2), rays(5, 2).flip(1))
    with pytest.warns(UserWarning, match="only its own points"):
        assert front.select(minimize="a", subject_to={"b": 0.6}).values == pytest.approx({"a": 0.5, "b": 0.5})
    with pytest.warns(UserWarning), pytest.raises(UnattainableError, match="b"):
        front.select(minimize="a", subject_to={"b": -1.0})
    with pytest.raises(SelectionError, match="only a front with a model and data can certify limits") as refused:
        front.select(minimize="a", subject_to={"b": 0.6}, confidence=0.9)
    assert "a front from a file" in str(refused.value)
    with pytest.raises(SelectionError, match="future_rows needs a confidence"):
        front.select(minimize="a", future_rows=5)
    with pytest.raises(SelectionError, match="rounds"):
        front.select(minimize="a", rounds=0.5)


def test_a_wrong_question_is_answered_with_the_right_one():
    def columns(points):
        return {"a": points[:, 0], "b": points[:, 1], "accuracy": points[:, 0], "other": points[:, 0]}

    front = front_of(columns, rays(5, 2), {"accuracy": True, "other": None})
    for wrong, words in (
        ({}, "got: *none"),
        ({"minimize": "a", "maximize": "b"}, "minimize='a' and maximize='b'"),
        ({"minimize": "accuracy"}, r"front.select\(maximize='accuracy'\)"),
        ({"maximize": "a"}, r"front.select\(minimize='a'\)"),
        ({"minimize": "a", "subject_to": ["b"]}, "limits are not understood"),
        ({"minimize": "a", "subject_to": {"other": 0.5}}, r'\(">=", 0.5\) or \("<=", 0.5\)'),
    ):
        with pytest.raises(SelectionError, match=words):
            front.select(**wrong)
