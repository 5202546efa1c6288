"""Intervals: the population's value is inside as often as they promise, in the units of the front, everywhere shown."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import hyperfront as hf
from hyperfront.errors import HyperfrontError, ProblemError, SelectionError
from hyperfront.export import card
from hyperfront.front import bootstrap
from hyperfront.front.evidence import BoundedGap, BoundedMean, Scale
from hyperfront.front.intervals import UNKNOWN, Interval, Intervals, _interval, _prepared, interval_document
from hyperfront.problem import Gap, SetLoss
from hyperfront.problem.registry import build

RAY = [0.5, 0.5]


def rows(count: int, seed: int = 0) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 3, generator=generator)
    return x, (x[:, 0] > 0).float(), x[:, 1] > 0.3


def wrong(output, batch):
    return ((output[:, 0] > 0) != (batch[1] > 0)).float().mean()


def problem(scores=None, **options) -> hf.Problem:
    gap = Gap(lambda output, batch: (output[:, 0] > 0).to(output), lambda batch: torch.stack([batch[2], ~batch[2]]))
    return hf.supervised(
        rows(100),
        rows(200, 1),
        rows(300, 2),
        losses={
            "log loss": lambda o, b: F.binary_cross_entropy_with_logits(o[:, 0], b[1]),
            "brier": hf.Loss(lambda o, b: (o[:, 0].sigmoid() - b[1]).square().mean(), bounds=(0, 1)),
        },
        scores={
            "error": hf.Score(wrong, maximize=False, bounds=(0, 1)),
            "gap": hf.Score(gap, maximize=False, bounds=(0, 1)),
            **(scores or {}),
        },
        scale={"brier": 0.5},
        reference=(2, 2),
        make_target=lambda: torch.nn.Linear(3, 1),
        **options,
    )


@pytest.fixture(scope="module")
def model() -> hf.ParetoModel:
    torch.manual_seed(0)
    return problem().model(hidden=8)


def test_every_loss_and_score_has_an_interval_around_its_value_on_the_front(model):
    asked = problem()
    found = hf.intervals(model, asked.test, RAY)
    measured = hf.evaluate(model, asked.test, [RAY]).columns()
    assert [*found] == ["log loss", "brier", "error", "gap"] and (found.rows, found.split) == (300, "test")
    for name, each in found.items():
        assert each.value == pytest.approx(measured[name].item(), abs=1e-5)
        assert each.low <= each.value <= each.high and each.low < each.high
    assert {name: each.method for name, each in found.items()} == {
        "log loss": "asymptotic",
        "brier": "exact",
        "error": "exact",
        "gap": "exact",
    }
    assert found["brier"].test == "Hoeffding-Bentkus" and "95% intervals from 300 rows (test)" in repr(found)


def test_more_confidence_widens_and_a_quick_gap_is_called_asymptotic(model):
    split = problem().test
    narrow, wide = (hf.intervals(model, split, RAY, confidence=c, exact_gaps=False) for c in (0.8, 0.99))
    for name in narrow:
        assert wide[name].low <= narrow[name].low and narrow[name].high <= wide[name].high
    assert narrow["gap"].method == "asymptotic" and narrow["error"].method == "exact"


@pytest.mark.parametrize("kind", ["zero or one", "between"])
def test_the_mean_of_the_population_is_inside_as_often_as_promised(kind):
    """150 samples of 80 rows: at 90 %, 135 are expected, and fewer than 124 have a probability below 1e-3."""
    generator, inside = np.random.default_rng(0), 0
    for _ in range(150):
        values = (generator.random(80) < 0.3).astype(float) if kind == "zero or one" else generator.beta(2, 5, 80)
        found = _interval(_prepared(BoundedMean(values, (0.0, 1.0), "binomial")), Scale(), 0.05)
        inside += found.low <= (0.3 if kind == "zero or one" else 2 / 7) <= found.high
    assert inside >= 124


def test_the_gap_of_the_population_is_inside_as_often_as_promised():
    generator, inside = np.random.default_rng(1), 0
    members = np.stack([np.arange(120) < 50, np.arange(120) >= 50])
    for _ in range(40):
        values = (generator.random(120) < np.where(members[0], 0.5, 0.2)).astype(float)
        sample = BoundedGap(values, (0.0, 1.0), "binomial", members)
        inside += not any(sample.passes(sign, 0.3, 0.05) for sign in ("<=", ">="))
    assert inside >= 31  # fewer have a probability below 1e-2 at 90 %, and exact tests hold more often


def test_an_interval_turns_with_the_direction_of_its_loss():
    values = np.array([0.0, 1, 1, 1] * 20)
    found = _interval(BoundedMean(values, (0.0, 1.0), "binomial"), Scale(ideal=1, slope=-2), 0.05)
    assert found.value == pytest.approx(0.5) and 0 < found.low < 0.5 < found.high < 1


def test_rows_that_cannot_give_intervals_are_refused_with_the_reason(model):
    split = problem().test
    for wrong_split, ray in ((problem(), RAY), (split, [RAY, RAY])):
        with pytest.raises(HyperfrontError):
            hf.intervals(model, wrong_split, ray)  # pyrefly: ignore[bad-argument-type]
    with pytest.raises(SelectionError, match=r"between \.5 and 1"):
        hf.intervals(model, split, RAY, confidence=95)
    toy = build("vlmop2")
    formula = toy.model(hidden=8)
    with pytest.raises(ProblemError, match="no rows"):
        hf.intervals(formula, toy.val, RAY)
    assert "no rows" in interval_document(formula, toy.val, RAY)["reason"]


def test_a_model_whose_answers_are_all_the_same_has_words_or_bounds_and_no_infinite_end(model):
    scores = {
        "constant": hf.Score(SetLoss(lambda o, b: 0 * o[:, 0].sum(), lambda total: total + 1), maximize=True),
        "share": hf.Score(
            SetLoss(lambda o, b: 0 * o[:, 0].sum(), lambda total: total), maximize=False, bounds=(0.0, 1.0)
        ),
    }
    same = problem(scores=scores)
    sure = hf.intervals(model, same.test, RAY)
    assert sure["constant"].between("{:.2f}".format) == UNKNOWN and UNKNOWN in str(sure["constant"])
    assert sure["share"].between("{:.2f}".format) == "0.00 to 1.00"
    text = card(model, hf.evaluate(model, same.test, rays=[RAY]), problem=same, intervals=[sure])
    assert UNKNOWN in text and " inf" not in text and "-inf" not in text
    one_sided = Interval(0.5, -math.inf, 0.7, "asymptotic", "bootstrap")
    assert one_sided.between(str) == "at most 0.7" and replace(one_sided, low=0.2).between(str) == "0.2 to 0.7"


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 40), st.integers(1, 30), st.sampled_from([1, 64, 2**23]))
def test_sums_over_resamples_are_those_of_their_rows_however_many_are_drawn_at_once(rows, resamples, cells):
    each = torch.randn(rows, 2, 3, generator=torch.Generator().manual_seed(rows)).double()
    weights = bootstrap.sums(torch.eye(rows), resamples)
    assert torch.equal(weights.sum(1), torch.full((resamples,), float(rows)).double())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bootstrap, "CELLS", cells)
        found = bootstrap.sums(each, resamples)
    assert torch.allclose(found, torch.einsum("sn,nij->sij", weights, each), atol=1e-9)


def test_documents_and_cards_have_the_intervals_and_their_kind(model):
    asked = problem()
    found = hf.intervals(model, asked.test, RAY, exact_gaps=False)
    document = json.loads(json.dumps(found.document(), allow_nan=False))
    assert document["intervals"]["error"]["method"] == "exact" and document["rows"] == 300
    endless = replace(found["error"], high=float("inf"))
    unbounded = Intervals({"error": endless}, found.meanings, 0.95, 300, "test").document()
    assert unbounded["intervals"]["error"]["high"] is None
    text = card(model, None, ray=RAY, intervals=[hf.intervals(model, asked.val, RAY, exact_gaps=False), found])
    assert "## Uncertainty" in text and "| loss or score | validation, 200 rows | test, 300 rows |" in text
    assert "exact, binomial test" in text and "asymptotic, bootstrap" in text
