"""Fronts: measured right, round-tripped, searched between the sampled rays."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

import hyperfront as hf
from hyperfront import indicators
from hyperfront.errors import CheckpointError, ProblemError, SelectionError
from hyperfront.preferences import das_dennis
from hyperfront.problem import Gathered, SetLoss
from hyperfront.problem.registry import build
from tests.helpers.modules import mlp
from tests.helpers.runs import Net

RAYS = torch.tensor([[0.5, 0.5], [0.9, 0.1]])


def quarter_circle(rays: torch.Tensor) -> hf.Front:
    """The front l1^2 + l2^2 = 1, met exactly by every ray of the inverse convention."""
    losses = 1 / rays
    return hf.Front(
        objectives=("a", "b"),
        rays=rays,
        losses=losses / losses.norm(dim=1, keepdim=True),
        scores={"accuracy": 1 - rays[:, 0]},
        reference=(1.1, 1.1),
        provenance={"problem": "circle"},
        evaluator=quarter_circle,
    )


class Identity(nn.Module):
    """Adds a generated number to its input."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x + self.shift


@pytest.mark.parametrize("batch_size", [1, 3, 7, 100])
def test_losses_over_a_split_do_not_depend_on_how_it_is_cut_into_batches(batch_size):
    torch.manual_seed(0)
    x, group = torch.randn(10, 1), torch.arange(10) % 3 == 0
    gap = SetLoss(
        lambda output, batch: torch.stack([(output[:, 0] * batch[1]).sum(), batch[1].sum().to(output)]),
        lambda s: (s[0] / s[1]).abs(),
    )
    middle = Gathered(lambda output, batch: (output[:, 0] - batch[0][:, 0]).median().abs() + output.max())
    problem = hf.supervised(
        (x, group),
        losses={"mean": lambda output, batch: output.square().mean(), "gap": gap, "all": middle},
        scores={"largest": hf.Score(Gathered(lambda output, batch: output.max()), maximize=True)},
    )
    model = hf.wrap(Identity(), ["mean", "gap", "all"], hidden=4)
    front = hf.evaluate(model, problem.train, rays=4, batch_size=batch_size)
    for r, ray in enumerate(front.rays):
        output = model(x, ray)[0].double()
        shift = (output - x)[0, 0].item()
        expected = [output.square().mean().item(), output[group].mean().abs().item(), abs(shift) + output.max().item()]
        assert front.losses[r].tolist() == pytest.approx(expected, rel=1e-5)
        assert front.scores["largest"][r].item() == pytest.approx(output.max().item())


def test_losses_are_reported_in_the_units_that_were_trained():
    x = torch.randn(6, 1)
    problem = hf.supervised(
        (x,),
        losses={"error": lambda output, batch: output.square().mean(), "gain": lambda output, batch: output.mean()},
        scale={"gain": 2.0},
        ideal={"gain": 5.0},
        maximize=["gain"],
    )
    model = hf.wrap(Identity(), ["error", "gain"])
    front = hf.evaluate(model, problem.train, rays=RAYS)
    expected = (5 - model(x, RAYS).mean((1, 2))) / 2
    torch.testing.assert_close(front.losses[:, 1], expected.double().detach(), rtol=1e-5, atol=1e-6)


def test_evaluation_leaves_the_model_as_it_was():
    model = hf.wrap(mlp(), ["a", "b"]).train()
    problem = hf.supervised(
        (torch.randn(4, 5),),
        losses={"a": lambda o, b: o.square().mean(), "b": lambda o, b: (o - 1).square().mean()},
    )
    front = hf.evaluate(model, problem.train)
    assert model.training
    assert len(front) == 25
    assert not front.losses.requires_grad


def test_json_keeps_everything_but_the_evaluator(tmp_path):
    front = quarter_circle(hf.rays(7, m=2))
    front.save(tmp_path / "front.json")
    again = hf.Front.load(tmp_path / "front.json")
    assert torch.equal(again.rays, front.rays)
    assert torch.equal(again.losses, front.losses)
    assert torch.equal(again.scores["accuracy"], front.scores["accuracy"])
    assert (again.objectives, again.reference, again.convention) == (front.objectives, front.reference, "inverse")
    assert again.provenance == {"problem": "circle"}
    assert again.hypervolume() == front.hypervolume()


@pytest.mark.parametrize(
    "change",
    [
        {"rays": [[-0.5, 1.5], [0.5, 0.5]]},
        {"rays": [[float("nan"), 1.0], [0.5, 0.5]]},
        {"rays": [[3.0, 4.0], [0.5, 0.5]]},
        {"losses": [[float("nan"), 1.0], [1.0, 1.0]]},
        {"losses": [[1.0, float("inf")], [1.0, 1.0]]},
        {"objectives": ["a", "a"]},
        {"scores": {"a": [1.0, 2.0]}},
        {"scores": {"s": [1.0, float("nan")]}},
        {"truth": [[float("nan"), 1.0]]},
        {"reference": [float("nan"), 1.0]},
        {"reference": ["a", 1.0]},
        {"convention": "x"},
    ],
)
def test_a_file_with_wrong_numbers_or_names_holds_no_front(change, tmp_path):
    rays = torch.tensor([[0.25, 0.75], [0.5, 0.5]], dtype=torch.float64)
    document = hf.Front(("a", "b"), rays, rays).document()
    (tmp_path / "front.json").write_text(json.dumps(document))
    assert len(hf.Front.load(tmp_path / "front.json")) == 2
    (tmp_path / "front.json").write_text(json.dumps(document | change))
    with pytest.raises(CheckpointError, match=r"front\.json"):
        hf.Front.load(tmp_path / "front.json")


def test_csv_has_a_row_for_each_ray(tmp_path):
    front = quarter_circle(hf.rays(7, m=2))
    front.save(tmp_path / "front.csv")
    with (tmp_path / "front.csv").open() as file:
        header, *rows = csv.reader(file)
    assert header == ["ray a", "ray b", "a", "b", "accuracy"]
    assert [[float(cell) for cell in row] for row in rows] == torch.cat(
        [front.rays, front.losses, front.scores["accuracy"][:, None]], dim=1
    ).tolist()


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"format": "hyperfront-front", "schema": 1}', "\x00\x01"])
def test_a_file_that_holds_no_front_is_refused(tmp_path, content):
    (tmp_path / "front.json").write_text(content)
    with pytest.raises(CheckpointError):
        hf.Front.load(tmp_path / "front.json")


class TestHypervolume:
    def test_a_reference_that_no_point_beats_is_an_error(self):
        with pytest.raises(ProblemError, match="no point of the front"):
            quarter_circle(hf.rays(5, m=2)).hypervolume(reference=(0.05, 0.05))

    def test_a_missing_or_misfit_reference_is_an_error(self):
        front = hf.Front(("a", "b"), RAYS, RAYS)
        with pytest.raises(ProblemError, match="needs a reference point"):
            front.hypervolume()
        with pytest.raises(ProblemError, match="does not fit"):
            front.hypervolume(reference=(1, 1, 1))
        with pytest.raises(ProblemError, match="not numbers"):  # at once, without counting to a trillion
            front.hypervolume(reference=range(10**12))

    def test_a_dense_front_approaches_the_exact_hypervolume(self):
        exact = 1.1**2 - math.pi / 4
        volume = quarter_circle(das_dennis(2, 2000).clamp_min(1e-9)).hypervolume()
        assert exact - 2e-3 < volume <= exact


class TestSelect:
    def test_the_limit_is_met_between_the_sampled_rays(self):
        front = quarter_circle(hf.rays(9, m=2))
        ray = front.select(minimize="a", subject_to={"b": 0.6}).ray
        a, b = quarter_circle(ray[None]).losses[0].tolist()
        assert b <= 0.6
        assert a == pytest.approx(0.8, abs=1e-4)
        assert min((front.losses[:, 0] - 0.8).abs()) > 0.01  # no sampled point is that good

    def test_scores_can_be_limited_from_below(self):
        ray = quarter_circle(hf.rays(9, m=2)).select(minimize="a", subject_to={"accuracy": (">=", 0.37)}).ray
        assert 1 - ray[0] >= 0.37
        assert ray[0].item() == pytest.approx(0.63, abs=1e-3)

    def test_limits_that_cannot_be_kept_name_the_nearest_that_can(self):
        with pytest.raises(SelectionError, match="nearest point has b = ") as caught:
            quarter_circle(hf.rays(9, m=2)).select(minimize="a", subject_to={"b": -0.5})
        assert 0 <= float(str(caught.value.expected).rsplit(" = ", 1)[1]) < 1e-3  # b goes down to 0

    def test_unknown_names_are_listed(self):
        with pytest.raises(SelectionError, match="a, b, accuracy"):
            quarter_circle(hf.rays(9, m=2)).select(minimize="c")

    def test_a_loaded_front_selects_among_its_points_and_says_so(self, tmp_path):
        front = quarter_circle(hf.rays(9, m=2))
        front.save(tmp_path / "front.json")
        with pytest.warns(UserWarning, match="its own points"):
            ray = hf.Front.load(tmp_path / "front.json").select(minimize="a", subject_to={"b": 0.6}).ray
        assert any(torch.equal(ray, known) for known in front.rays)

    def test_the_operating_point_of_a_trained_model_keeps_its_limit(self):
        problem = build("vlmop2")
        torch.manual_seed(0)
        run = hf.fit(problem.model(hidden=32), problem, epochs=8, rays_per_step=16, lr=3e-3, callbacks=[])
        ray = run.front.select(minimize="l1", subject_to={"l2": 0.5}).ray
        chosen = hf.evaluate(run.model, problem, rays=ray)
        t = -1 + math.sqrt(-math.log(0.5))  # where l2 = 1 - exp(-(t + 1)^2) is 1/2
        assert chosen.losses[0, 1] <= 0.5
        assert chosen.losses[0, 0].item() == pytest.approx(1 - math.exp(-((t - 1) ** 2)), abs=5e-3)
        point = run.model.at(ray)()
        torch.testing.assert_close(problem.function(point).double().detach(), chosen.losses[0], atol=1e-6, rtol=1e-5)


def test_model_and_problem_must_agree():
    problem = hf.supervised(
        (torch.randn(4, 4),), losses={"a": lambda o, b: o.square().mean(), "b": lambda o, b: o.abs().mean()}
    )
    model = hf.wrap(Net(), ["a", "c"])
    with pytest.raises(ProblemError, match="different objectives"):
        hf.evaluate(model, problem.train)
    with pytest.raises(ProblemError, match="different objectives"):
        hf.fit(model, problem, callbacks=[])
    with pytest.raises(ProblemError, match=r"problem\.val"):
        hf.evaluate(hf.wrap(Net(), ["a", "b"]), problem)


def test_uniformity_is_the_mean_over_the_rays():
    front = quarter_circle(hf.rays(5, m=2))
    assert front.uniformity() == pytest.approx(1)
    off = hf.Front(("a", "b"), front.rays, front.losses.flip(1))
    assert off.uniformity(base=2) == pytest.approx(indicators.uniformity(off.losses, off.rays, base=2).mean().item())
    assert off.uniformity(base=2) < 1


class TestScores:
    @staticmethod
    def problem(score):
        return hf.supervised(
            (torch.randn(4, 4),),
            losses={"a": lambda o, b: o.square().mean(), "b": lambda o, b: (o - 1).square().mean()},
            scores={"score": hf.Score(score, maximize=True)},
        )

    def test_a_limit_on_a_score_needs_a_direction(self):
        with pytest.raises(SelectionError, match="no direction"):
            quarter_circle(hf.rays(9, m=2)).select(minimize="a", subject_to={"accuracy": 0.9})

    def test_a_score_that_is_no_number_is_named_before_training(self):
        model = hf.wrap(Net(), ["a", "b"])
        for score in (lambda o, b: o.square(), lambda o, b: 0.5):
            with pytest.raises(hf.HyperfrontError, match="'score' is not a single number"):
                hf.fit(model, self.problem(score), epochs=1, batch_size=4, callbacks=[])

    def test_a_score_cannot_have_the_name_of_a_loss(self):
        with pytest.raises(ProblemError, match="name of a loss"):
            hf.supervised(
                (torch.randn(4, 4),),
                losses={"a": lambda o, b: o.mean(), "b": lambda o, b: o.mean()},
                scores={"a": hf.Score(lambda o, b: o.mean(), maximize=True)},
            )


def test_numbers_in_the_statistics_of_a_set_loss_add_up():
    x = torch.randn(40, 1)
    mean = SetLoss(lambda output, batch: (output.square().sum(), len(output)), lambda s: s[0] / s[1])
    problem = hf.supervised((x,), losses={"set": mean, "mean": lambda output, batch: output.square().mean()})
    model = hf.wrap(Identity(), ["set", "mean"])
    for batch_size in (40, 7, 1):
        losses = hf.evaluate(model, problem.train, rays=RAYS, batch_size=batch_size).losses
        torch.testing.assert_close(losses[:, 0], losses[:, 1], atol=1e-6, rtol=1e-5)


def test_uniformity_of_a_front_along_its_own_directions_is_one():
    rays = hf.rays(5, m=2)
    assert hf.Front(("a", "b"), rays, 3 * rays, convention="direction").uniformity() == pytest.approx(1)


def test_copies_of_a_point_count_once_among_those_that_nothing_dominates():
    front = quarter_circle(hf.rays(4, m=2).double())
    assert front.nondominated_share() == 1
    losses = torch.tensor([[0.2, 0.8], [0.2, 0.8], [0.8, 0.2], [0.9, 0.9]])
    assert replace(front, losses=losses).nondominated_share() == 2 / 4
    assert replace(front, losses=losses[:1].expand(4, 2)).nondominated_share() == 1 / 4


def test_a_problem_may_have_nothing_but_losses_of_all_outputs():
    x = torch.randn(10, 1)
    middle, largest = (Gathered(lambda o, b, of=of: of(o)) for of in (torch.median, torch.max))
    problem = hf.supervised((x,), losses={"middle": middle, "largest": largest})
    model = hf.wrap(Identity(), ["middle", "largest"])
    once, cut = (hf.evaluate(model, problem.train, rays=RAYS, batch_size=size).losses for size in (10, 3))
    assert once.dtype == cut.dtype == torch.float64
    torch.testing.assert_close(once, cut)


def test_sums_over_a_split_lose_no_row_to_rounding():
    x = torch.cat([torch.full((1, 1), 2.0**24), torch.ones(9, 1)])
    total = SetLoss(lambda output, batch: batch[0].sum(), lambda s: s)
    problem = hf.supervised((x,), losses={"a": total, "b": total})
    front = hf.evaluate(hf.wrap(Identity(), ["a", "b"]), problem.train, rays=RAYS, batch_size=1)
    assert front.losses.unique().tolist() == [2.0**24 + 9]


def test_a_model_is_evaluated_at_rest_and_left_as_it_was():
    losses = {"a": lambda o, b: o.square().mean(), "b": lambda o, b: (o - 1).square().mean()}
    problem = hf.supervised((torch.ones(64, 2),), losses=losses)
    model = hf.wrap(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)), ["a", "b"])
    at_rest = hf.evaluate(model.eval(), problem.train, rays=RAYS).losses
    assert torch.equal(hf.evaluate(model.train(), problem.train, rays=RAYS).losses, at_rest) and model.training


def test_a_front_with_all_its_parts_comes_back_from_its_file(tmp_path):
    front = replace(quarter_circle(hf.rays(3, m=2)), truth=torch.rand(7, 2, dtype=torch.float64))
    front.save(tmp_path / "front.json")
    assert hf.Front.load(tmp_path / "front.json").document() == front.document()


@pytest.mark.parametrize("change", [{"objectives": ["a", 1]}, {"truth": [[0.1, 0.2, 0.3]]}, {"reference": [1.0]}])
def test_a_file_whose_parts_do_not_fit_together_is_no_front(change, tmp_path):
    document = quarter_circle(hf.rays(3, m=2)).document() | change
    (tmp_path / "front.json").write_text(json.dumps(document))
    with pytest.raises(CheckpointError, match="does not hold a front"):
        hf.Front.load(tmp_path / "front.json")


def test_a_search_leaves_the_front_as_it_is():
    rays = hf.rays(5, m=2)
    front = hf.Front(("a", "b"), rays, 1 / rays, evaluator=lambda more: hf.Front(("a", "b"), more, 1 / more + 1e-9))
    before = front.losses.clone()
    front.select(minimize="a", subject_to={"b": 5.0}, rounds=0)
    assert torch.equal(front.losses, before)
