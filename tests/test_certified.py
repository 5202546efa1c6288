"""Certified limits: the evidence of rows, the order of candidates, and how often a certified limit is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import hyperfront as hf
from hyperfront.errors import HyperfrontError, ProblemError, SelectionError, UnattainableError
from hyperfront.front.bootstrap import Bootstrap, sums
from hyperfront.front.certification import Candidate, Certifier, _path
from hyperfront.front.evidence import BoundedGap, BoundedMean, Resampled, Scale
from hyperfront.front.question import Question
from hyperfront.front.rows import evidence
from hyperfront.problem import Gap, Gathered, SetLoss


def people(count: int, seed: int) -> tuple[torch.Tensor, ...]:
    """Inputs, labels and groups; one group has the label more often."""
    generator = torch.Generator().manual_seed(seed)
    group, x = torch.rand(count, generator=generator) < 0.4, torch.randn(count, 4, generator=generator)
    label = torch.rand(count, generator=generator) < (1.5 * x[:, 0] + x[:, 1] + 1.2 * group).sigmoid()
    return torch.cat([x, group[:, None].float()], dim=1), label.float(), group


def decision(output: torch.Tensor) -> torch.Tensor:
    return (output[:, 0] > 0).to(output)


def groups(batch):
    return torch.stack([batch[2], ~batch[2]]) & (batch[1] == 0)


GAP = Gap(lambda output, batch: decision(output), groups)
SMOOTH = Gap(lambda output, batch: (3 * output[:, 0]).sigmoid(), groups)


def log_loss(output, batch):
    return F.binary_cross_entropy_with_logits(output[:, 0], batch[1])


def right(output, batch):
    return (decision(output) == batch[1]).float().mean()


SCORES = {
    "accuracy": hf.Score(right, maximize=True, bounds=(0, 1)),
    "fpr_gap": hf.Score(GAP, maximize=False, bounds=(0, 1)),
    "free accuracy": hf.Score(right, maximize=True),
    "free gap": hf.Score(GAP, maximize=False),
    "brier": hf.Score(lambda o, b: (o[:, 0].sigmoid() - b[1]).square().mean(), maximize=False, bounds=(0, 1)),
    "rms": hf.Score(
        SetLoss(
            lambda o, b: {"s": (o[:, 0].sigmoid() - b[1]).square().sum(), "n": len(o)},
            lambda s: (s["s"] / s["n"]).sqrt(),
        ),
        maximize=False,
    ),
    "median": hf.Score(Gathered(lambda o, b: o[:, 0].median()), maximize=True),
}


def problem(**options) -> hf.Problem:
    given = {
        "losses": {"log loss": log_loss, "smooth gap": hf.Loss(SMOOTH, bounds=(0, 1))},
        "scores": SCORES,
        "scale": {"smooth gap": 4.0},
        "reference": (1, 1),
        "calibration": people(1000, 2),
    } | options
    return hf.supervised(people(4000, 0), people(2000, 1), people(500, 3), **given)


@pytest.fixture(scope="module")
def model() -> hf.ParetoModel:
    """A front between accuracy and equal error rates."""
    torch.manual_seed(0)
    found = hf.wrap(nn.Linear(5, 1), ["log loss", "smooth gap"], hidden=16)
    options = {"epochs": 30, "batch_size": 1000, "rays_per_step": 4, "lr": 1e-2, "callbacks": [], "validate_every": 30}
    hf.fit(found, problem(), solver=hf.LS(), preferences=hf.Dirichlet(1.0), **options)
    return found


@pytest.fixture(scope="module")
def front(model) -> hf.Front:
    return hf.evaluate(model, problem().val, rays=15)


# ---- the evidence of rows --------------------------------------------------------------------------------------------


def test_the_evidence_of_rows_has_the_values_of_the_front_and_the_method_that_their_bounds_allow(model):
    asked, ray = problem(), torch.tensor([0.6, 0.4])
    there = hf.evaluate(model, asked.calibration, rays=ray[None]).columns()
    found = evidence(model, asked.calibration, ray, there, batch_size=700)
    for name, each in found.items():
        units = Scale(0.0, 1 / 4) if name == "smooth gap" else Scale()
        assert units.shown(each.value) == pytest.approx(there[name].item(), rel=1e-5), name
        assert each.rows == 1000 and 0 < each.error < 0.1
        assert each.bound(">=", 0.05) < each.value < each.bound("<=", 0.05) or "gap" in name
    exact = {name for name, each in found.items() if each.method == "exact"}
    assert exact == {"smooth gap", "accuracy", "fpr_gap", "brier"}
    assert found["accuracy"].test == found["fpr_gap"].test == "binomial"
    assert found["smooth gap"].test == found["brier"].test == "betting"
    for free, bounded in (("free accuracy", "accuracy"), ("free gap", "fpr_gap")):
        assert found[free].error == pytest.approx(found[bounded].error, rel=0.1)
        assert found[free].bound("<=", 0.05) == pytest.approx(found[bounded].bound("<=", 0.05), abs=0.01)


def test_a_function_with_a_condition_on_values_is_taken_row_by_row(model):
    def right_or_wrong(output, batch):
        return right(output, batch) if float(output.sum()) > -1e9 else output.sum()

    asked = problem(
        scores={"accuracy": hf.Score(right_or_wrong, maximize=True, bounds=(0, 1))}, calibration=people(60, 5)
    )
    ray = torch.tensor([0.5, 0.5])
    there = hf.evaluate(model, asked.calibration, rays=ray[None])
    found = evidence(model, asked.calibration, ray, ["accuracy"])["accuracy"]
    assert isinstance(found, BoundedMean) and set(found.values) == {0.0, 1.0}
    assert found.value == pytest.approx(there.scores["accuracy"].item())


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (hf.Score(lambda o, b: o.std(), maximize=True, bounds=(0, 9)), "not the sum or mean over its rows"),
        (hf.Score(SetLoss(lambda o, b: o.std(), lambda s: s), maximize=True), "not the sum or mean over its rows"),
        (hf.Score(lambda o, b: o.square().mean(), maximize=True, bounds=(0, 1e-3)), "beyond its bounds"),
    ],
)
def test_what_is_no_sum_over_rows_or_beyond_its_bounds_is_refused(model, score, message):
    asked = problem(scores={"s": score})
    with pytest.raises(ProblemError, match=message):
        evidence(model, asked.calibration, torch.tensor([0.5, 0.5]), ["s"])


def test_rows_that_cannot_be_told_apart_are_refused(model):
    batches = [people(10, seed) for seed in range(4)]
    losses = {"log loss": log_loss, "smooth gap": SMOOTH}
    counted = hf.supervised(batches, batches[:2], losses=losses, rows=lambda batch: 10, calibration=batches[2:])
    with pytest.raises(ProblemError, match="single rows"):
        hf.evaluate(model, counted.val, rays=3).select(
            minimize="log loss", subject_to={"smooth gap": 9}, confidence=0.9
        )


def test_units_turn_limits_of_the_front_into_limits_of_the_function():
    assert Scale().raw("<=", 0.5) == ("<=", 0.5)
    assert Scale(4.0, 0.5).raw("<=", 1.0) == ("<=", 6.0) and Scale(4.0, 0.5).shown(6.0) == 1.0
    assert Scale(4.0, -0.5).raw("<=", 1.0) == (">=", 2.0) and Scale(4.0, -0.5).shown(2.0) == 1.0


# ---- the bootstrap ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", ["<=", ">="])
def test_bounds_by_the_bootstrap_hold_nearly_as_often_as_they_say(sign):
    """For the mean of a skewed quantity without bounds."""
    random, weights = np.random.default_rng(0), sums(torch.eye(200)) / 200
    samples = torch.from_numpy(random.exponential(size=(600, 200)))
    wrong = 0
    for sample in samples:
        without = (sample.sum() - sample) / 199
        bound = Bootstrap.of(sample.mean(), weights @ sample, without).bound(sign, 0.9)
        wrong += bound < 1 if sign == "<=" else bound > 1
    assert 0.07 < wrong / 600 < 0.14


def test_rows_that_say_nothing_have_no_bound():
    constant = Bootstrap.of(torch.tensor(0.0), torch.zeros(50), torch.zeros(9))
    assert constant.bound("<=", 0.9) == np.inf and constant.bound(">=", 0.9) == -np.inf
    assert not Resampled(0.0, 9, (constant,), absolute=True).passes("<=", 0.5, 0.05)


# ---- the order of candidates, and their tests ------------------------------------------------------------------------


def test_candidates_are_ordered_by_safety_and_each_is_better_than_all_safer_ones():
    safety = torch.tensor([3.0, 5.0, 1.0, 2.95, 4.0, 0.5])
    cost = torch.tensor([0.5, 0.9, 0.1, 0.4, 0.95, 0.2])
    assert _path(safety, cost, torch.ones(6, dtype=torch.bool), 0.0) == [1, 0, 3, 2]
    assert _path(safety, cost, safety > 2, 0.0) == [1, 0, 3]
    assert _path(safety, cost, torch.zeros(6, dtype=torch.bool), 0.0) == []


def gaps(*differences: float, rows: int = 40_000) -> list[BoundedGap]:
    """A population for each candidate, with that difference between the rates of two groups."""
    place, members = np.arange(rows) // 2 / (rows / 2), np.arange(rows) % 2 == np.arange(2)[:, None]
    rates = [np.where(members[0], 0.2 + difference, 0.2) for difference in differences]
    return [BoundedGap((place < rate).astype(float), (0.0, 1.0), "binomial", members) for rate in rates]


@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_certified_limits_are_violated_at_most_as_often_as_the_confidence_allows(front, confidence):
    """The candidates go beyond the limit: the population value of the fourth and later ones is above it."""
    populations = gaps(0.02, 0.05, 0.08, 0.1005, 0.12, 0.2)
    true = [population.value for population in populations]
    assert true[2] < 0.1 < true[3]
    certifier = Certifier(front.origin, Question("accuracy", {"fpr_gap": ("<=", 0.1)}, True), confidence)
    candidates = [Candidate(torch.ones(2) / 2, 0.0, {}, index) for index in range(len(populations))]
    random, violations, draws = np.random.default_rng(1), 0, 200
    for _ in range(draws):
        rows = random.choice(40_000, 1500, replace=False)

        def sampled(candidate, rows=rows):
            known = populations[int(candidate.safety)]
            return {"fpr_gap": replace(known, values=known.values[rows], members=known.members[:, rows])}

        violations += len(certifier.walk(candidates, sampled)) > 3
    level = 1 - confidence
    assert violations <= draws * level + 3 * (draws * level * confidence) ** 0.5
    assert violations >= draws * level / 3  # the test is sharp


def test_a_selection_with_confidence_keeps_its_limits_on_calibration_rows_with_room(front):
    plain = front.select(maximize="accuracy", subject_to={"fpr_gap": 0.2})
    sure = front.select(maximize="accuracy", subject_to={"fpr_gap": 0.2}, confidence=0.9, rounds=4)
    limit = sure.certificate.limits["fpr_gap"]
    assert limit.value < limit.bound <= 0.2 + 1e-3 and limit.method == sure.certificate.method == "exact"
    assert sure.values["accuracy"] <= plain.values["accuracy"] and sure.values["fpr_gap"] <= 0.2
    assert plain.certificate is None and sure.certificate.rows == 1000
    assert 1 <= sure.certificate.passed <= sure.certificate.candidates
    price = sure.certificate.price
    assert price.without >= price.certified == pytest.approx(sure.values["accuracy"]) and price.limits["fpr_gap"] > 0
    assert price.rows is None or price.rows >= 1000
    again = front.select(maximize="accuracy", subject_to={"fpr_gap": 0.2}, confidence=0.9, rounds=4)
    assert torch.equal(again.ray, sure.ray) and json.dumps(again.document()) == json.dumps(sure.document())
    assert "certified" in str(sure) and "0.2" in str(sure)


def test_several_limits_in_both_directions_are_certified_together(front):
    limits = {"accuracy": 0.6, "smooth gap": 0.08, "rms": ("<=", 0.6), "median": (">=", -3.0)}
    sure = front.select(minimize="log loss", subject_to=limits, confidence=0.8, rounds=2)
    certified = sure.certificate.limits
    assert {name: each.method for name, each in certified.items()} == {
        "accuracy": "exact",
        "smooth gap": "exact",
        "rms": "asymptotic",
        "median": "asymptotic",
    }
    assert certified["accuracy"].bound >= 0.6 - 1e-6 and certified["median"].bound >= -3
    assert certified["smooth gap"].bound <= 0.08 + 1e-3 and sure.certificate.method == "asymptotic"


def test_new_rows_need_more_room_than_the_population(front):
    asked = {"maximize": "accuracy", "subject_to": {"fpr_gap": 0.25}, "confidence": 0.8, "rounds": 2}
    population, few, many = (front.select(**asked, future_rows=rows) for rows in (None, 800, 10**9))
    limits = [choice.certificate.limits["fpr_gap"] for choice in (population, few, many)]
    assert limits[1].tested < limits[2].tested <= limits[0].tested == 0.25
    assert limits[1].method == "asymptotic" and few.certificate.future_rows == 800
    mean = front.select(minimize="log loss", subject_to={"accuracy": 0.6}, confidence=0.8, future_rows=500, rounds=2)
    assert mean.certificate.method == "exact" and mean.certificate.limits["accuracy"].tested > 0.6


def test_limits_that_no_rows_can_certify_are_answered_with_the_smallest_that_they_can(front):
    with pytest.raises(UnattainableError, match="certify no ray") as refused:
        front.select(maximize="accuracy", subject_to={"fpr_gap": 0.03, "accuracy": 0.6}, confidence=0.95, rounds=2)
    smallest = dict(part.rsplit(" ", 2)[::2] for part in refused.value.expected.split(" are ")[1].split(", "))
    relaxed = {name: float(value) for name, value in smallest.items()}
    assert relaxed["fpr_gap"] > 0.03 and relaxed["accuracy"] == 0.6
    assert front.select(maximize="accuracy", subject_to=relaxed, confidence=0.95, rounds=2).certificate.passed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda front: front.select(maximize="accuracy", confidence=0.9), "no limit to certify"),
        (lambda front: front.select(maximize="accuracy", subject_to={"fpr_gap": 0.2}, confidence=1.0), "probability"),
        (lambda front: front.select(maximize="accuracy", subject_to={"fpr_gap": 0.2}, future_rows=9), "needs a conf"),
        (
            lambda front: front.select(maximize="accuracy", subject_to={"fpr_gap": 1}, confidence=0.9, future_rows=0),
            "future_rows is",
        ),
        (
            lambda front: replace(front, origin=None).select(
                minimize="log loss", subject_to={"rms": 1}, confidence=0.9
            ),
            "a model and data",
        ),
    ],
)
def test_questions_that_nothing_can_certify_are_refused(front, change, message):
    with pytest.raises(SelectionError, match=message):
        change(front)


def test_the_rows_must_be_there_and_must_have_chosen_nothing(model):
    asked = {"maximize": "accuracy", "subject_to": {"fpr_gap": 0.2}, "confidence": 0.9}
    with pytest.raises(SelectionError, match="no calibration split"):
        hf.evaluate(model, problem(calibration=None).val, rays=3).select(**asked)
    with pytest.raises(SelectionError, match="calibration rows would choose"):
        hf.evaluate(model, problem().calibration, rays=3).select(**asked)
    exact = hf.analytic(lambda theta: theta.square(), variables=2, objectives=["a", "b"])
    with pytest.raises(HyperfrontError, match="a model and data"):
        hf.evaluate(exact.model(hidden=4), exact, rays=3).select(minimize="a", subject_to={"b": 1}, confidence=0.9)


def test_the_documented_numbers_are_those_that_the_script_printed():
    root = Path(__file__).parents[1]
    printed = (root / "docs/seen/certified-limits.md").read_text().splitlines()
    shown = [line for line in (root / "docs/limits.md").read_text().splitlines() if line.startswith("| 0.")]
    assert len(shown) == 9 and set(shown) <= set(printed)
