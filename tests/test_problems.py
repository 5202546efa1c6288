"""Problems and the truth they carry: formulas, fronts, hypervolumes, distances, units."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import hyperfront as hf
from hyperfront.errors import HyperfrontError, LossError, ProblemError
from hyperfront.indicators import hypervolume
from hyperfront.preferences import das_dennis
from hyperfront.problem import Point
from hyperfront.problem.registry import build, problems

CASES = {
    "fonseca": {"variables": 7},
    "vlmop2": {"variables": 3},
    "zdt1": {"variables": 6},
    "zdt2": {"variables": 6},
    "zdt3": {"variables": 6},
    "dtlz2": {"m": 3, "distance_variables": 4},
    "dtlz2 with two objectives": {"m": 2, "distance_variables": 1},
    "dtlz2 with four objectives": {"m": 4, "distance_variables": 2},
    "problem2": {},
}
CURVES = [name for name in CASES if name.partition(" ")[0] != "dtlz2"]
BOXES = {"fonseca": (-3.0, 3.0), "vlmop2": (-2.0, 2.0)}  # fonseca is unbounded: a box around its optimal points
every_case = pytest.mark.parametrize("case", CASES)


def problem_of(case: str) -> hf.Problem:
    return build(case.partition(" ")[0], **CASES[case])


def box(case: str) -> tuple[float, float]:
    return BOXES.get(case, (0.0, 1.0))


def losses_at(problem: hf.Problem, x: Tensor) -> Tensor:
    """Losses ``[K, m]`` of points ``[K, variables]``."""
    return problem.units.apply(torch.stack([problem.function(row) for row in x]))


def variables(problem: hf.Problem) -> int:
    return problem.make_target().z.numel()


def optimal(case: str, losses: Tensor) -> Tensor:
    """The optimal points ``[K, variables]`` that reach the points ``losses [K, m]`` of the front."""
    problem = problem_of(case)
    count, m, n = len(losses), problem.m, variables(problem)
    if case in ("fonseca", "vlmop2"):  # on the line between the two wells
        t = 1 - (-torch.log1p(-losses[:, 0])).sqrt()
        return t[:, None].expand(count, n) / math.sqrt(n)
    if case == "problem2":
        return torch.stack([torch.zeros(count, dtype=torch.float64), losses[:, 1]], dim=1)
    if case.startswith("zdt"):
        return torch.cat([losses[:, :1], torch.zeros(count, n - 1, dtype=torch.float64)], dim=1)
    angles = [torch.atan2(losses[:, m - k], losses[:, : m - k].norm(dim=1)) for k in range(1, m)]
    middle = torch.full((count, n - m + 1), 0.5, dtype=torch.float64)
    return torch.cat([torch.stack(angles, dim=1) * 2 / math.pi, middle], dim=1)


# where the pieces of ZDT3 begin and end, as its literature gives them
ZDT3 = [
    (0.0, 0.0830015349),
    (0.1822287280, 0.2577623634),
    (0.4093136748, 0.4538821041),
    (0.6183967944, 0.6525117038),
    (0.8233317983, 0.8518328654),
]


def pieces(case: str, count: int) -> list[Tensor]:
    """The pieces of the front of a curve, by ``count`` points each, laid out independently of the package."""
    t = torch.linspace(0, 1, count, dtype=torch.float64)
    if case in ("fonseca", "vlmop2"):
        return [1 - torch.exp(-torch.stack([2 * t - 2, 2 * t], dim=1).square())]
    if case == "problem2":
        return [torch.stack([(1 - t * t) / 3, t], dim=1)]
    if case == "zdt2":
        return [torch.stack([t, 1 - t * t], dim=1)]
    if case == "zdt1":
        return [torch.stack([t * t, 1 - t], dim=1)]
    roots = [math.sqrt(a) + t * (math.sqrt(b) - math.sqrt(a)) for a, b in ZDT3]
    return [torch.stack([s * s, 2 - s - s * s * torch.sin(10 * math.pi * s * s)], dim=1) for s in roots]


# ---- formulas, written again ---------------------------------------------------------------------------------------


def formula(case: str, x: np.ndarray) -> list[float]:
    d = len(x)
    if case in ("fonseca", "vlmop2"):
        return [1 - np.exp(-sum((xi - s / np.sqrt(d)) ** 2 for xi in x)) for s in (1, -1)]
    if case == "problem2":
        return [((x[0] - 1) * x[1] ** 2 + 1) / 3, x[1]]
    if case.startswith("dtlz2"):
        m, angle = CASES[case]["m"], x * np.pi / 2
        g = sum((xi - 0.5) ** 2 for xi in x[m - 1 :])
        values = []
        for j in range(1, m + 1):
            value = 1 + g
            for k in range(m - j):
                value *= np.cos(angle[k])
            values.append(value * np.sin(angle[m - j]) if j > 1 else value)
        return values
    g = 1 + 9 * sum(x[1:]) / (d - 1)
    ratio = x[0] / g
    wave = ratio * np.sin(10 * np.pi * x[0])
    return [x[0], {"zdt1": g * (1 - ratio**0.5), "zdt2": g * (1 - ratio**2), "zdt3": g * (1 - ratio**0.5 - wave)}[case]]


@every_case
def test_functions_follow_their_formulas(case):
    problem, (low, high) = problem_of(case), box(case)
    points = low + (high - low) * torch.rand(
        200, variables(problem), dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    points[0], points[1] = low, high
    found = torch.stack([problem.function(x) for x in points])
    expected = torch.tensor(np.array([formula(case, x) for x in points.numpy()]))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1.1e-6 if case in ("zdt1", "zdt3") else 1e-12)
    # the roots of ZDT1 and ZDT3 are flat below 1e-12, where their slope would be infinite: 1e-6 at x1 = 0


# ---- fronts --------------------------------------------------------------------------------------------------------


@every_case
def test_no_feasible_point_dominates_the_front(case):
    problem, (low, high), generator = problem_of(case), box(case), torch.Generator().manual_seed(0)
    truth, n = problem.truth.points, variables(problem)
    anywhere = low + (high - low) * torch.rand(1000, n, dtype=torch.float64, generator=generator)
    faces = anywhere.clone()
    faces[torch.rand(1000, n, generator=generator) < 0.4] = low
    faces[torch.rand(1000, n, generator=generator) < 0.2] = high
    optima = optimal(case, truth)
    near = optima + 10 ** (-1 - 3 * torch.rand(len(optima), 1, generator=generator)) * torch.randn(
        len(optima), n, dtype=torch.float64, generator=generator
    )
    losses = losses_at(problem, torch.cat([anywhere, faces, near.clamp(low, high)]))
    assert not (losses[:, None] + 1e-9 <= truth).all(-1).any()
    assert (losses >= 0).all()


@every_case
def test_known_optimal_points_reach_the_front(case):
    problem, (low, high) = problem_of(case), box(case)
    points = optimal(case, problem.truth.points)
    assert (points >= low).all() and (points <= high).all()
    torch.testing.assert_close(losses_at(problem, points), problem.truth.points, rtol=0, atol=1.1e-6)


@every_case
def test_points_of_the_front_do_not_dominate_each_other(case):
    points = problem_of(case).truth.points
    assert not (points[:, None] + 1e-9 <= points).all(-1).any()


@pytest.mark.parametrize("case", CURVES)
def test_the_exact_hypervolume_is_the_limit_from_below_for_curves(case):
    problem = problem_of(case)
    gaps = [
        problem.truth.hypervolume - hypervolume(torch.cat(pieces(case, count)), problem.reference)
        for count in (1000, 10_000, 100_000)
    ]
    assert 0 < gaps[2] < 2e-5
    assert gaps[1] < gaps[0] / 5 and gaps[2] < gaps[1] / 5


@pytest.mark.parametrize(
    ("case", "partitions"),
    [("dtlz2 with two objectives", 1000), ("dtlz2", 60), ("dtlz2 with four objectives", 12)],
)
def test_the_exact_hypervolume_is_the_limit_from_below_for_spheres(case, partitions):
    problem = problem_of(case)
    exact, found = problem.truth.hypervolume, []
    for h in (partitions // 2, partitions):
        rays = das_dennis(problem.m, h)
        found.append(hypervolume(rays / rays.norm(dim=1, keepdim=True), problem.reference))
    assert found[0] < found[1] < exact
    # the gap is of first order in the distance of the points, and so vanishes when extrapolated
    assert abs(2 * found[1] - found[0] - exact) < 0.2 * (exact - found[1])


# ---- distances -----------------------------------------------------------------------------------------------------


@every_case
def test_the_distance_vanishes_on_the_front(case):
    problem = problem_of(case)
    assert problem.truth.distance(problem.truth.points).max() < 1e-7
    if case in CURVES:
        assert problem.truth.distance(torch.cat(pieces(case, 211))).max() < 1e-7


@pytest.mark.parametrize("case", CURVES)
def test_points_moved_off_a_curve_along_its_normal_are_that_far_away(case):
    truth = problem_of(case).truth
    for points in pieces(case, 401):
        tangent, middle = points[2:] - points[:-2], points[1:-1]
        inner = torch.minimum((middle - points[0]).norm(dim=1), (middle - points[-1]).norm(dim=1)) > 1e-3
        normal = torch.nn.functional.normalize(tangent.flip(1) * torch.tensor([-1.0, 1.0]), dim=1)
        for offset in (1e-4, -2e-4):  # less than the radius of curvature
            moved = (middle + offset * normal)[inner]
            expected = torch.full_like(moved[:, 0], abs(offset))
            torch.testing.assert_close(truth.distance(moved), expected, rtol=0, atol=1e-6)


@every_case
def test_the_distance_is_that_to_the_nearest_of_many_points(case):
    problem = problem_of(case)
    m = problem.m
    losses = 2 * torch.rand(60, m, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) - 0.4
    losses[0] = 0.0
    if case in CURVES:
        dense, resolution = torch.cat(pieces(case, 50_000)), 1e-4
    else:
        rays = das_dennis(m, {2: 5000, 3: 120, 4: 30}[m])
        dense, resolution = rays / rays.norm(dim=1, keepdim=True), {2: 1e-3, 3: 0.02, 4: 0.08}[m]
    nearest = torch.cdist(losses, dense).amin(1)
    distance = problem.truth.distance(losses.float())
    assert (distance <= nearest + 1e-6).all() and (distance >= nearest - resolution).all()


# ---- the point in its box ------------------------------------------------------------------------------------------


@given(st.floats(-5, 5), st.floats(0.1, 10), st.integers(0, 1000))
@settings(max_examples=50)
def test_a_bounded_point_covers_its_box_and_moves_almost_everywhere(low, width, seed):
    point = Point(1000, (low, low + width)).double()
    low, width = float(point.low[0]), float(point.width[0])
    generator = torch.Generator().manual_seed(seed)
    point.z.data = 10 * torch.randn(1000, dtype=torch.float64, generator=generator)
    x = point()
    assert (x >= low - 1e-9).all() and (x <= low + width + 1e-9).all()
    x.sum().backward()
    assert (point.z.grad != 0).all() and (point.z.grad.abs() <= width + 1e-9).all()
    point.z.data = torch.linspace(-math.pi / 4, math.pi / 4, 1000, dtype=torch.float64)
    x = point().detach()
    assert (x.diff() > 0).all() and x.diff().max() < 2 * width / 1000
    assert [float(x[0]), float(x[-1])] == pytest.approx([low, low + width], abs=1e-9)


def test_a_point_starts_in_the_middle_of_its_own_box():
    assert Point(2, ([0.0, -1.0], [1.0, 5.0]))().tolist() == pytest.approx([0.5, 2.0])
    assert Point(3)().tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("bounds", [([0.0] * 3, [1.0] * 3), (1.0, 0.0), (0.0, math.nan)])
def test_bounds_that_make_no_box_are_refused(bounds):
    with pytest.raises(ProblemError):
        hf.analytic(lambda x: x, variables=2, bounds=bounds)


# ---- arguments -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("fonseca", {"variables": 0}),
        ("vlmop2", {"variables": -1}),
        ("zdt1", {"variables": 1}),
        ("zdt2", {"variables": 2.5}),
        ("zdt3", {"variables": "3"}),
        ("dtlz2", {"m": 1}),
        ("dtlz2", {"m": 1001}),
        ("dtlz2", {"distance_variables": 0}),
    ],
)
def test_arguments_that_make_no_problem_are_refused(name, arguments):
    (argument,) = arguments
    with pytest.raises(ProblemError, match=f"{argument} is out of range"):
        build(name, **arguments)


@pytest.mark.parametrize("m", [400, 1000])
def test_with_many_objectives_the_ball_has_no_volume_beside_the_cube(m):
    assert build("dtlz2", m=m).truth.hypervolume == pytest.approx(1.1**m)


def test_unknown_problems_and_arguments_are_named():
    with pytest.raises(HyperfrontError, match="did you mean 'fonseca'"):
        build("Fonsecca")
    with pytest.raises(HyperfrontError, match="has no argument"):
        build("problem2", variables=3)


@pytest.mark.parametrize("name", [name for name in problems() if name != "table"])
def test_built_in_problems_know_how_to_be_built_again(name):
    problem = build(name)
    again = build(problem.identity["problem"], **problem.identity["arguments"])
    assert again.identity == problem.identity and again.objectives == problem.objectives
    assert problem.model(hidden=2).target.n == sum(p.numel() for p in again.make_target().parameters())


# ---- problems with data --------------------------------------------------------------------------------------------

X = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
MEASURES = {"error": lambda output, batch: output.mean(), "gain": lambda output, batch: output.std()}


def supervised(**options) -> hf.Problem:
    return hf.supervised((X,), losses=MEASURES, **options)


@given(
    st.lists(st.floats(0.01, 100), min_size=2, max_size=2),
    st.lists(st.floats(-10, 10), min_size=2, max_size=2),
    st.sets(st.sampled_from(["error", "gain"])),
)
@settings(max_examples=50)
def test_solvers_see_how_far_a_value_is_from_the_ideal_in_its_unit(scale, ideal, maximize):
    problem = supervised(scale=dict(zip(MEASURES, scale)), ideal=dict(zip(MEASURES, ideal)), maximize=sorted(maximize))
    losses = problem.losses(lambda x: x.double(), (X,))
    values = [X.double().mean().item(), X.double().std().item()]
    for j, name in enumerate(MEASURES):
        behind = ideal[j] - values[j] if name in maximize else values[j] - ideal[j]
        assert losses[j].item() == pytest.approx(behind / scale[j], rel=1e-6, abs=1e-6)


def test_without_units_losses_are_the_values_themselves():
    found = supervised().losses(lambda x: x, (X,))
    assert torch.equal(found, torch.stack([X.mean(), X.std()]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": {"errror": 2.0}}, "errror"),
        ({"ideal": {"loss": 0.0}}, "loss"),
        ({"maximize": ["accuracy"], "ideal": {"gain": 1.0}}, "accuracy"),
        ({"maximize": ["gain"]}, "gain is maximized"),
        ({"scale": {"gain": 0.0}}, "positive"),
        ({"scale": {"gain": -1.0}}, "positive"),
        ({"scale": {"gain": math.nan}}, "positive"),
        ({"scale": {"gain": math.inf}}, "scale"),
        ({"ideal": {"gain": math.nan}}, "ideal"),
        ({"reference": (1.0,)}, "error, gain"),
        ({"reference": (1.0, 2.0, 3.0)}, "error, gain"),
        ({"reference": (1.0, math.inf)}, "error, gain"),
        ({"reference": (math.nan, 1.0)}, "error, gain"),
    ],
)
def test_units_and_reference_must_fit_the_objectives(options, message):
    with pytest.raises(ProblemError, match=message):
        supervised(**options)


@pytest.mark.parametrize("scores", [5, ["error"], hf.Score(torch.sum, maximize=True)])
def test_scores_without_names_are_refused(scores):
    with pytest.raises(ProblemError, match="scores are not understood"):
        hf.supervised((X,), losses=MEASURES, scores=scores)


def test_one_objective_is_no_trade_off():
    with pytest.raises(ProblemError, match="at least two objectives"):
        hf.supervised((X,), losses={"error": MEASURES["error"]})
    with pytest.raises(ProblemError, match="different names"):
        hf.analytic(lambda x: x, variables=2, objectives=["a", "a"])


def test_a_split_that_was_not_given_is_named():
    problem = hf.supervised((X,), test=(X,), losses=MEASURES)
    assert problem.test.name == "test" and problem.train.problem is problem
    with pytest.raises(ProblemError, match="no val split"):
        problem.val


@pytest.mark.parametrize(
    ("bad", "message"), [(lambda o, b: o[:, 0], "'bad' is not a single"), (lambda o, b: 1.0, "float")]
)
def test_a_loss_that_is_not_one_number_is_named(bad, message):
    problem = hf.supervised((X,), losses={"good": MEASURES["error"], "bad": bad})
    with pytest.raises(LossError, match=message):
        problem.losses(lambda x: x, (X,))


def test_a_function_with_the_wrong_number_of_objectives_is_refused():
    problem = hf.analytic(lambda x: x[:1], variables=3)
    with pytest.raises(LossError, match="l1, l2"):
        problem.losses(lambda: torch.zeros(3), ())


def test_inputs_say_what_the_module_takes():
    problem = hf.supervised({"x": X, "y": X}, losses=MEASURES)
    with pytest.raises(ProblemError, match="inputs=lambda"):
        problem.losses(lambda x: x, {"x": X, "y": X})
    problem = hf.supervised({"x": X, "y": 2 * X}, losses=MEASURES, inputs=lambda batch: batch["y"])
    assert problem.losses(lambda x: x, {"x": X, "y": 2 * X})[0] == (2 * X).mean()


class Flat(torch.nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)[:, 0]


@pytest.mark.parametrize("flat", ["output", "target"])
def test_a_loss_of_all_pairs_of_rows_is_refused_and_its_fix_works(flat):
    x = torch.randn(32, 3, generator=torch.Generator().manual_seed(0))
    module = Flat(3, 1) if flat == "output" else torch.nn.Linear(3, 1)
    target = x[:, :1] if flat == "output" else x[:, 0]

    def fit(first) -> hf.Run:
        losses = {"first": first, "second": lambda output, batch: (output + 1).square().mean()}
        model = hf.wrap(module, list(losses), hidden=8)
        return hf.fit(model, hf.supervised((x, target), losses=losses), epochs=1, batch_size=16, callbacks=[])

    with pytest.raises(LossError, match=r"targets of all rows[\s\S]*batch_1"):
        fit(lambda output, batch: (output - batch[1]).square().mean())
    fit(lambda output, batch: (output.flatten() - batch[1].flatten()).square().mean())
    fit(lambda output, batch: torch.nn.functional.mse_loss(output.flatten(), torch.zeros(len(output))))
