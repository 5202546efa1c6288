"""Described losses and scores, gaps between groups, and the split that certifies limits."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import hyperfront as hf
from hyperfront.errors import CheckpointError, ProblemError
from hyperfront.problem import Gathered, Meaning, SetLoss
from hyperfront.problem.registry import problems

X, Y = torch.randn(24, 4, generator=torch.Generator().manual_seed(0)), torch.arange(24.0)[:, None]


def error(output, batch):
    return (output - batch[1]).square().mean()


def size(output, batch):
    return output.square().mean()


def problem(**options):
    return hf.supervised(
        (X, Y), (X + 1, Y + 1), **{"losses": {"error": error, "size": size}, "reference": (9, 9), **options}
    )


# ---- meanings --------------------------------------------------------------------------------------------------------


def test_losses_and_scores_carry_their_meaning_to_the_front_and_its_file(tmp_path):
    asked = problem(
        losses={"error": hf.Loss(error, label="squared error", unit="m²", bounds=(0, 4)), "size": size},
        scores={"within": hf.Score(size, maximize=True, bounds=[0, 1]), "far": hf.Score(error, maximize=False)},
    )
    front = hf.evaluate(hf.wrap(nn.Linear(4, 1), ["error", "size"], hidden=4), asked.val, rays=3)
    front.save(tmp_path / "front.json")
    for meanings in (asked.meanings, front.meanings, hf.Front.load(tmp_path / "front.json").meanings):
        assert meanings == {
            "error": Meaning("squared error", "m²", False, (0.0, 4.0)),
            "size": Meaning("size", "", False, None),
            "within": Meaning("within", "", True, (0.0, 1.0)),
            "far": Meaning("far", "", False, None),
        }


def test_the_meaning_of_a_loss_is_in_the_units_of_the_front():
    gain = hf.Loss(size, label="gain", unit="dollars", bounds=(-2, 6))
    asked = problem(losses={"error": error, "gain": gain}, scale={"gain": 2}, ideal={"gain": 4}, maximize=["gain"])
    assert asked.meaning("gain") == Meaning("gain", "", False, (-1.0, 3.0))
    moved = problem(losses={"error": error, "gain": gain}, ideal={"gain": 4})
    assert moved.meaning("gain") == Meaning("gain", "dollars", False, (-6.0, 2.0))


def test_a_front_of_an_older_schema_has_scores_of_unknown_direction(tmp_path):
    """The file as version 0.1.0 wrote it."""
    old = {
        "format": "hyperfront-front", "schema": 1, "objectives": ["a", "b"], "reference": [2, 2],
        "convention": "inverse", "scores": {"accuracy": [0.5, 0.75]}, "provenance": {"problem": "p"},
        "rays": [[0.5, 0.5], [0.9, 0.1]], "losses": [[1.0, 1.0], [0.2, 1.8]], "truth": None,
    }  # fmt: skip
    (tmp_path / "old.json").write_text(json.dumps(old))
    front = hf.Front.load(tmp_path / "old.json")
    assert {name: meaning.maximize for name, meaning in front.meanings.items()} == {
        "a": False,
        "b": False,
        "accuracy": None,
    }
    assert front.scores["accuracy"].tolist() == [0.5, 0.75]
    front.save(tmp_path / "new.json")
    assert hf.Front.load(tmp_path / "new.json").meanings == front.meanings


@pytest.mark.parametrize("change", [{"maximize": 1}, {"label": 3}, {"bounds": [1, 0]}, {"more": 1}, {"bounds": "ab"}])
def test_a_damaged_meaning_is_refused(tmp_path, change):
    front = hf.Front(("a", "b"), hf.rays(3, m=2), hf.rays(3, m=2), scores={"c": torch.zeros(3).double()})
    document = front.document()
    document["meanings"]["c"] |= change
    (tmp_path / "front.json").write_text(json.dumps(document))
    with pytest.raises(CheckpointError):
        hf.Front.load(tmp_path / "front.json")


@pytest.mark.parametrize("given", [error, SetLoss(error, sum), Gathered(error), hf.Loss(error)])
def test_a_score_without_direction_is_refused_with_the_line_that_fixes_it(given):
    with pytest.raises(ProblemError) as refused:
        problem(scores={"accuracy": given})
    assert "'accuracy': hf.Score(f, maximize=True)" in str(refused.value)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: problem(losses={"error": hf.Score(error, maximize=True), "size": size}),
        lambda: hf.Loss(hf.Loss(error)),
        lambda: hf.Loss(3),
        lambda: hf.Loss(error, bounds=(1, 1)),
        lambda: hf.Score(error, maximize=True, bounds=(0, float("inf"))),
        lambda: hf.Score(error, maximize=True, bounds=3),
        lambda: problem().meaning("accuracy"),
    ],
)
def test_what_describes_nothing_is_refused(wrong):
    with pytest.raises(ProblemError):
        wrong()


@pytest.mark.parametrize("of", [error, Gathered(error), SetLoss(lambda o, b: o.sum(), lambda s: s / 2)])
def test_a_described_measure_is_evaluated_as_the_measure_itself(of):
    model = hf.wrap(nn.Linear(4, 1), ["error", "size"], hidden=4)
    plain = hf.evaluate(model, problem(losses={"error": of, "size": size}).val, rays=3, batch_size=7)
    described = problem(
        losses={"error": hf.Loss(of, label="x"), "size": size}, scores={"s": hf.Score(of, maximize=True)}
    )
    front = hf.evaluate(model, described.val, rays=3, batch_size=7)
    assert torch.equal(front.losses, plain.losses) and torch.equal(front.scores["s"], plain.losses[:, 0])


def test_rows_that_a_function_counts_weigh_described_functions_too():
    batches = [(X[:4], Y[:4]), (X[4:], Y[4:])]
    asked = hf.supervised(
        batches, losses={"error": error, "size": size}, scores={"s": hf.Score(error, maximize=False)}, rows=lambda b: 3
    )
    model = hf.wrap(nn.Linear(4, 1), ["error", "size"], hidden=4)
    front = hf.evaluate(model, asked.train, rays=hf.rays(3, m=2)[:1])
    parts = [error(model(x, front.rays)[0], (x, y)).item() for x, y in batches]
    assert front.scores["s"].item() == pytest.approx(sum(parts) / 2, rel=1e-5)
    assert front.losses[0, 0].item() == front.scores["s"].item()


def test_every_score_of_a_built_in_problem_has_a_direction():
    scores = {name: entry.make().scores for name, entry in problems().items() if name != "table"}
    directions = {name: {key: score.maximize for key, score in found.items()} for name, found in scores.items()}
    assert directions["adult"] == {"accuracy": True, "fpr_gap": False, "fnr_gap": False}
    assert directions["sarcos"] == {"mse": False, "r2": True}
    assert directions["nyuv2"] == {"mIoU": True, "pixel accuracy": True, "relative depth error": False}


# ---- gaps ------------------------------------------------------------------------------------------------------------


def by_group(groups: int) -> hf.Gap:
    return hf.Gap(lambda out, group: out, lambda group: group == torch.arange(groups)[:, None])


@st.composite
def grouped(draw):
    groups, rows = draw(st.integers(1, 5)), draw(st.integers(1, 12))
    values = draw(st.lists(st.floats(-5, 5), min_size=rows, max_size=rows))
    members = draw(st.lists(st.integers(0, groups - 1), min_size=rows, max_size=rows))
    return groups, np.array(values), np.array(members)


@given(grouped())
@settings(max_examples=100)
def test_a_gap_is_the_largest_difference_between_the_means_of_groups_with_rows(drawn):
    groups, values, members = drawn
    gap = by_group(groups)
    statistics = gap.statistics(torch.from_numpy(values), torch.from_numpy(members))
    means = {k: values[members == k].mean() for k in range(groups) if (members == k).any()}
    pairs = [abs(first - second) for first, second in itertools.combinations(means.values(), 2)]
    assert gap.value(statistics).item() == pytest.approx(max(pairs, default=0), abs=1e-12)
    if groups > 1:
        signed = gap.differences(statistics)
        assert signed.abs().max().item() == pytest.approx(max(pairs, default=0), abs=1e-12)
        for (k, l), difference in zip(gap.pairs(groups), signed.tolist(), strict=True):
            assert difference == pytest.approx(means[k] - means[l] if k in means and l in means else 0, abs=1e-12)


def test_the_gradient_of_a_gap_moves_the_two_extreme_groups_only():
    gap, group = by_group(4), torch.tensor([0, 0, 1, 2, 2])  # group 3 has no rows
    output = torch.tensor([1.0, 3.0, 2.5, 7.0, 5.0], requires_grad=True)
    gap(output, group).backward()
    assert output.grad.tolist() == [-0.5, -0.5, 0.0, 0.5, 0.5]
    alone = torch.ones(2, requires_grad=True)
    by_group(3)(alone, torch.tensor([1, 1])).backward()
    assert alone.grad.tolist() == [0.0, 0.0]


def test_gaps_of_many_rays_at_once_are_those_of_each():
    gap, group = by_group(3), torch.arange(9) % 3
    outputs = torch.randn(5, 9, generator=torch.Generator().manual_seed(1))
    together = torch.func.vmap(torch.func.grad_and_value(lambda out: gap(out, group)))(outputs)
    for row, gradient, value in zip(outputs, *together):
        leaf = row.clone().requires_grad_()
        alone = gap(leaf, group)
        alone.backward()
        assert alone.item() == pytest.approx(value.item()) and torch.allclose(leaf.grad, gradient)


def test_counts_of_a_gap_are_exact_in_half_precision():
    gap, group = by_group(2), torch.arange(5000) % 2
    for dtype in (torch.bool, torch.bfloat16, torch.int64):
        statistics = gap.statistics(torch.ones(5000, dtype=dtype), group)
        assert statistics.tolist() == [[2500, 2500], [2500, 2500]]


# ---- the fourth split ------------------------------------------------------------------------------------------------


def test_calibration_rows_are_a_split_of_their_own():
    asked = problem(calibration=(X[:5] + 2, Y[:5] + 2))
    assert asked.calibration.source.rows == 5 and asked.calibration.name == "calibration"
    with pytest.raises(ProblemError, match="no calibration split"):
        problem().calibration


def test_a_loader_may_bring_a_calibration_split_and_is_called_once():
    calls = []

    def load(*more):
        calls.append(1)
        return {name: (X.clone(), Y.clone()) for name in ("train", "val", "test", *more)}

    losses = {"error": error, "size": size}
    with_it = hf.supervised(lambda: load("calibration"), losses=losses)
    assert not calls and list(with_it.sources) == ["train", "val", "test"]
    assert with_it.calibration.source.rows == with_it.val.source.rows == 24 and len(calls) == 1
    with pytest.raises(ProblemError, match="no calibration split"):
        hf.supervised(load, losses=losses).calibration


@pytest.mark.parametrize(
    "shared",
    [
        {"calibration": (X[20:], Y[20:])},
        {"test": (X[1::2].clone(), Y[1::2]), "calibration": (X[1::2].clone(), Y[:12])},
        {"test": (loader := [(X, Y)]), "calibration": loader},
        {"test": {"a": X + 1}, "calibration": {"a": X[:3]}},
    ],
)
def test_calibration_rows_that_another_split_has_are_refused(shared):
    with pytest.raises(ProblemError, match="calibration split has rows of"):
        problem(**shared)


def test_rows_that_alternate_in_memory_are_not_shared():
    data = torch.randn(20, 4)
    losses = {"error": size, "size": size}
    hf.supervised((data[0::2],), losses=losses, calibration=(data[1::2],))
