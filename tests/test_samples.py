"""Presentations: sample inputs of a problem, decisions, rates of groups at any threshold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import hyperfront as hf
from hyperfront.errors import HyperfrontError, ProblemError
from hyperfront.problem.samples import Classified, Grouping, TableSamples, make_samples, numbers
from tests.helpers import explored

GUIDE = Path(__file__).parents[1] / "docs" / "explore.md"


def test_rates_of_groups_are_exact_at_every_threshold_of_the_page():
    problem = explored.loans()
    samples = make_samples(problem, problem.val)
    net = problem.model(hidden=8).at([0.4, 0.6])
    (groups,) = samples.predict(net)["groupings"]
    x, y, region = next(iter(problem.val.source.batches(1000, torch.device("cpu"))))
    probability = net(x).detach().sigmoid()
    for k, group in enumerate(groups):
        for threshold in range(1, 100):
            for label in (0, 1):
                mine = (region == k) & (y == label)
                expected = int((probability[mine].double() > threshold / 100).sum())
                assert sum(group["counts"][label][threshold:]) == expected
        assert sum(map(sum, group["counts"])) == int((region == k).sum())


def test_every_group_and_label_is_among_the_rows_shown():
    problem = explored.loans()
    items = make_samples(problem, problem.val).document()["items"]
    assert {(item["truth"], item["groups"][0]) for item in items} == {(y, k) for y in (0, 1) for k in range(3)}
    assert all([*item["fields"]] == ["income", "debt", "region"] for item in items)


@pytest.mark.parametrize("task", ["classes", "regression"])
def test_tables_with_other_targets_have_an_error_for_every_group(task):
    x, group = torch.randn(40, 3), torch.arange(40) % 2
    decision = hf.Decision(lambda output: output.softmax(-1), ("a", "b", "c")) if task == "classes" else None
    y = torch.arange(40) % 3 if decision else x[:, 0]
    problem = hf.supervised(
        (x, y, group), (x, y, group), losses={"a": lambda o, b: o.square().mean(), "b": lambda o, b: o.abs().mean()}
    )
    samples = TableSamples(
        problem.val,
        readable=lambda batch, row: {"x": f"{batch[0][row, 0]:.2f}"},
        labels=lambda batch: batch[1],
        decision=decision,
        groupings=[Grouping("group", ("even", "odd"), lambda batch: batch[2])],
    )
    output = torch.randn(40, 3 if decision else 1)
    wrong = (output.argmax(-1) != y).double() if decision else (output[:, 0] - y).abs()
    for k, rates in enumerate(samples.predict(lambda inputs: output)["groupings"][0]):
        assert rates["error"] == pytest.approx(float(wrong[group == k].mean()), abs=1e-4)
    assert samples.document()["task"] == task


def test_a_decision_needs_classes_and_a_threshold_between_zero_and_one():
    for classes, threshold in ((("yes",), 0.5), (("no", "yes"), 1.0)):
        with pytest.raises(ProblemError):
            hf.Decision(torch.sigmoid, classes, threshold=threshold)


def test_probabilities_are_real_numbers():
    decision = hf.Decision(lambda output: output, ("no", "yes"))
    assert decision.labels(torch.tensor([0.2, 0.7])) == ["no", "yes"]
    for odd in (torch.ones(3, 2, dtype=torch.complex64), torch.ones(3, 2, device="meta"), 1.0):
        with pytest.raises(ProblemError, match="does not give probabilities"):
            decision.labels(odd)


def test_the_example_of_the_guide_shows_texts():
    code = next(
        block for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL) if "Classif" in block
    )
    names: dict = {}
    exec(code, names)
    problem = names["problem"]
    assert problem.presentation.title
    samples = make_samples(problem, problem.val)
    items = samples.document()["items"]
    assert all(" " in item["input"]["text"] for item in items)
    for heads in samples.predict(problem.model(hidden=8).at([0.5, 0.5])):
        assert sum(heads[0]) == pytest.approx(1, abs=1e-3)


def test_probabilities_that_do_not_fit_the_classes_are_refused():
    split = hf.supervised(
        (torch.randn(20, 4), torch.zeros(20).long()),
        losses={name: lambda output, batch: output.mean() for name in "ab"},
        reference=(1, 1),
    ).train
    samples = Classified(
        split,
        classes={"upper": "xy", "lower": "xyz"},
        show=lambda batch, row: numbers(batch[0][row]),
        truth=lambda batch: [batch[1], batch[1]],
    )
    with pytest.raises(HyperfrontError, match=r"(?s)do not fit the classes.*\(9, 5\).*\(9, 2\), \(9, 3\)"):
        samples.predict(lambda x: x.new_zeros(len(x), 5))
    (first, *_) = samples.predict(lambda x: (x.new_zeros(len(x), 2), x.new_zeros(len(x), 3)))
    assert [len(head) for head in first] == [2, 3]
