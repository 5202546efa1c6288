"""Teachers: a student's step sees what the teacher says on its own inputs at its own rays, and else is the same."""

from __future__ import annotations

import copy
import functools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import hyperfront as hf
from hyperfront import solvers
from hyperfront.comparison.compare import compare
from hyperfront.comparison.methods import find_method
from hyperfront.comparison.protocol import Protocol
from hyperfront.errors import CheckpointError, HyperfrontError, ProblemError
from hyperfront.preferences import FixedRays
from hyperfront.problem import Gap
from hyperfront.problem.lesson import taught
from hyperfront.problem.mixup import Mixed, Mixup
from hyperfront.problem.recipe import Recipe
from hyperfront.problem.registry import build
from hyperfront.training.runs import RunFolder

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(96, 3, generator=GENERATOR)
Y = torch.stack([X.sum(1), X[:, 0] - X[:, 1]], dim=1)


def errors(column):
    return lambda output, batch: (output[:, column] - batch[1][:, column]).square().mean()


def regression(y=Y, **options):
    losses = {"left": errors(0), "right": errors(1)}
    return hf.supervised((X, y), (X, Y), (X, Y), losses=losses, reference=(9, 9), **options)


def net(outputs=2, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, outputs))


def student(seed=1, **options):
    return hf.wrap(net(seed=seed), ["left", "right"], **({"hidden": 6} | options))


def teacher(seed=5):
    model = student(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn_like(p))
    return model.eval()


QUIET = {"epochs": 2, "batch_size": 24, "callbacks": []}


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("solver", [hf.LS(), hf.EPO(), solvers.PMTL(), solvers.HVMax(), solvers.Tchebycheff()])
def test_a_step_relabels_by_the_teacher_at_the_step_s_own_rays(solver, shared):
    """The oracle: a problem whose losses ask the teacher themselves, at the one pair of rays of all steps."""
    rays, guide = torch.tensor([[0.3, 0.7], [0.8, 0.2]]), teacher()
    options = QUIET | {"solver": solver, "preferences": FixedRays(rays), "rays_per_step": 2, "share_batch": shared}
    options["optimizer"] = functools.partial(torch.optim.SGD, lr=0.05)  # Adam would enlarge what rounding leaves of 0
    if isinstance(solver, solvers.PMTL):
        options["solver"] = solvers.PMTL(references=((0.3, 0.7), (0.8, 0.2)))
    found = student()
    hf.distill(guide, found, regression(), relabel="values", draw="rows", **options)
    labels = guide(X, rays).detach()  # [R, B, 2]

    seen = []

    def rule(batch, output):
        seen.append((batch, output))
        return batch[0], output

    again = student()
    hf.distill(lambda x, ray: guide(x, ray)[0], again, regression(), relabel=rule, draw="rows", **options)
    torch.testing.assert_close(weights(found), weights(again))
    (x, _), output = seen[-1]
    half = len(x) // 2
    for ray, (own, said) in enumerate(zip(x.split(half), output.split(half))):
        rows = [int((row == X).all(1).nonzero()) for row in own]
        torch.testing.assert_close(said, labels[ray, rows])
    assert (x[:half] == x[half:]).all() == shared
    assert (weights(found) - weights(student())).abs().max() > 1e-4


def test_a_module_that_knows_the_labels_teaches_what_the_labels_teach():
    """With a teacher that gives the true labels, distilling is fitting."""

    class Knows(nn.Module):
        def forward(self, x):
            return torch.stack([x.sum(1), x[:, 0] - x[:, 1]], dim=1)

    plain, found, single = student(), student(), student()
    hf.fit(plain, regression(), **QUIET, solver=hf.LS())
    run = hf.distill(
        Knows(), found, regression(torch.full_like(Y, 7.0)), relabel="values", draw="rows", **QUIET, solver=hf.LS()
    )
    torch.testing.assert_close(weights(found), weights(plain))
    other = nn.Linear(3, 2)
    hf.distill([Knows(), Knows()], single, regression(), relabel="values", draw="rows", **QUIET, solver=hf.LS())
    torch.testing.assert_close(weights(single), weights(plain))
    mixed = taught(regression(), [Knows(), other], relabel="values", draw="rows").lesson
    (_, labels) = mixed(regression(), torch.tensor([[0.5, 0.5]]), (X, Y), shared=False)
    torch.testing.assert_close(labels, torch.stack([Y[:, 0], other(X)[:, 1]], dim=1).detach())
    assert run.front is not None and run.front.hypervolume() == pytest.approx(
        hf.evaluate(plain, regression().val).hypervolume()
    )


def test_parts_with_the_names_of_objectives_come_from_the_module_of_that_objective():
    class Says(nn.Module):
        def __init__(self, number):
            super().__init__()
            self.number = number

        def forward(self, x):
            return {"right": x[:, 0] * 0 + self.number, "left": x[:, 0] * 0 + self.number}

    lesson = taught(
        regression(), [Says(1), Says(2)], relabel=lambda batch, output: (batch[0], output), draw="rows"
    ).lesson
    _, said = lesson(regression(), torch.tensor([[0.5, 0.5]]), (X, Y), shared=False)
    assert (said["left"] == 1).all() and (said["right"] == 2).all()


def test_mixup_stays_between_rows_and_codes_stay_codes():
    codes = torch.randint(0, 5, (96, 2), generator=GENERATOR)
    holes = X.clone()
    holes[3, 1] = torch.nan
    data = (holes, codes, Y)
    mixed = Mixed(Mixup(0.5, 0.0), lambda batch: (batch[0], batch[1]), data)
    (x, found, y), real = mixed(data, mixed.draw(96, torch.Generator().manual_seed(1)))
    assert real is data and y is Y
    known = x.isfinite()
    assert (x[known] <= X.max()).all() and (x[known] >= X.min()).all() and 1 <= (~known).sum() <= 2
    assert not torch.equal(x[known], holes[known]) and (found != codes).any()
    rows = {tuple(row) for row in codes.tolist()}
    assert {tuple(row) for row in found.tolist()} <= rows
    still = Mixed(Mixup(0.0, 0.0), lambda batch: batch[0], (X, Y))
    torch.testing.assert_close(still((X, Y), still.draw(96, torch.Generator()))[0][0], X)
    noisy = Mixed(Mixup(0.0, 0.1), lambda batch: batch[0], (X * 100, Y))
    moved = noisy((X * 100, Y), noisy.draw(96, torch.Generator().manual_seed(2)))[0][0] / 100 - X
    assert 0.05 < moved.std() / X.std() < 0.2
    with pytest.raises(ProblemError, match="computed from the batch"):
        Mixed(Mixup(), lambda batch: batch[0] * 2, (X, Y))


def classes(seed=0):
    """Two tasks: a class of three, and yes or no; a gap between groups keeps true labels."""
    three, yes, group = (X[:, 0] > 0).long() + (X[:, 1] > 0), (X[:, 2] > 0).long(), (X[:, 1] > 0).long()
    data = (X, three, yes, group)
    gap = Gap(lambda output, batch: output[:, 3].sigmoid(), lambda batch: torch.stack([batch[3] == 0, batch[3] == 1]))
    losses = {
        "class": lambda output, batch: F.cross_entropy(output[:, :3], batch[1]),
        "yes": lambda output, batch: F.binary_cross_entropy_with_logits(output[:, 3], batch[2].float()),
        "gap": gap,
    }
    return hf.supervised(data, data, data, losses=losses, reference=(3, 3, 1))


@pytest.mark.parametrize("draw", ["auto", "rows"])
@pytest.mark.parametrize("count", [1, 4])
def test_gaps_keep_real_rows_and_prediction_losses_get_probabilities(draw, count):
    problem, guide = classes(), net(4, seed=9)
    seen = []

    def rule(batch, output):
        seen.append(batch)
        return batch[0], output[:, :3].softmax(1), output[:, 3].sigmoid(), batch[3]

    lesson = taught(problem, guide, relabel=rule, draw=draw).lesson
    assert lesson.taught == ("class", "yes") and (lesson.mixup is None) == (draw == "rows")
    model = hf.wrap(net(4), list(problem.objectives), hidden=5)
    run = hf.distill(guide, model, problem, relabel=rule, draw=draw, rays_per_step=count, solver=hf.LS(), **QUIET)
    practice = lesson.practice(problem)
    batch = next(practice.train.source.epoch(24, torch.Generator().manual_seed(0), torch.device("cpu"), 0))
    pair = lesson(problem, torch.tensor([[0.2, 0.3, 0.5]]), batch, shared=False)
    network = model.target.network(model.weights([0.2, 0.3, 0.5])[0])
    found = practice.losses(network, pair)
    expected = [problem.losses(network, part) for part in pair]
    torch.testing.assert_close(found, torch.stack([expected[0][0], expected[0][1], expected[1][2]]))
    assert torch.equal(pair[0][0], pair[1][0]) == (draw == "rows")
    assert all((row == X).all(1).any() for row in pair[1][0])  # real rows
    assert run.front.losses.isfinite().all()


def test_relabelling_names_places_and_words():
    problem = classes()
    data = {"x": X, "left": Y[:, 0], "right": Y[:, 1]}
    by_name = hf.supervised(
        data, data, inputs=lambda batch: batch["x"],
        losses={
            "a": lambda output, batch: (output[0][:, 0] - batch["left"]).square().mean(),
            "b": lambda output, batch: (output[1] - batch["right"]).square().mean(),
        },
    )  # fmt: skip

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 2)

        def forward(self, x):
            return self.a(x)[:, :1], self.a(x)[:, 1]

    lesson = taught(by_name, Two(), relabel=["values", "sigmoid"], labels=["left", "right"], draw="rows").lesson
    with pytest.raises(ProblemError, match=r"(?s)shape of the teacher's output.*\[96, 1\] for labels \[96\]"):
        lesson(by_name, torch.tensor([[0.5, 0.5]]), data, shared=False)
    for wrong, words in (
        ({"relabel": "values", "labels": [1, 2]}, "1 tensors for labels"),
        ({"relabel": "values", "labels": 9}, "no such labels"),
        ({"relabel": "values", "labels": -1}, "from 0"),
        ({"relabel": "value"}, "values"),
        ({"relabel": "values", "objectives": ["nothing"]}, "class, yes, gap"),
        ({"relabel": "values", "draw": "mixing"}, "rows"),
        ({"relabel": "values", "unlabelled": X}, "and kept: gap"),
    ):
        with pytest.raises(HyperfrontError, match=f"(?s){words}"):
            made = taught(problem, net(4), **wrong)
            made.lesson(problem, torch.tensor([[0.2, 0.3, 0.5]]), next(made.lesson.practice(problem).train.source.epoch(
                8, torch.Generator(), torch.device("cpu"), 0)), shared=False)  # fmt: skip
    for guide, words in (
        ([net(), net()], "one for each objective"),
        (teacher(), "other objectives"),
        (3, "cannot teach"),
    ):
        with pytest.raises(ProblemError, match=words):
            taught(problem, guide, relabel="values")
    model = student()
    with pytest.raises(ProblemError, match="teach itself"):
        hf.distill(model, model, regression(), relabel="values", **QUIET)
    with pytest.raises(HyperfrontError, match="not captured as a CUDA graph"):
        hf.distill(net(), model, regression(), relabel="values", engine="graph", **QUIET)


def test_unlabelled_inputs_reach_the_teacher_and_no_held_out_row_does():
    more, asked = torch.full((48, 3), 50.0), []

    def guide(x, ray):
        asked.append(x)
        return x[:, :2]

    held = torch.full_like(X, -70.0)
    losses = {"left": errors(0), "right": errors(1)}
    problem = hf.supervised((X, Y), (held, Y), (held, Y), losses=losses, reference=(9, 9))
    run = hf.distill(guide, student(), problem, relabel="values", draw="rows", unlabelled=more, **QUIET, solver=hf.LS())
    rows = torch.cat(asked)
    assert (rows == 50).any() and not (rows == -70).any()
    assert run.history[-1]["step"] == 2 * (144 // 24)
    with pytest.raises(ProblemError, match="like those of the training rows"):
        taught(problem, guide, relabel="values", unlabelled=more[:, :2])


def test_losses_that_read_labels_which_the_teacher_does_not_give_are_refused_on_rows_without_labels():
    losses = {
        "left": lambda output, batch: (output[:, 0] - batch[1]).square().mean(),
        "right": lambda output, batch: (output[:, 0] - batch[2]).square().mean(),
    }
    problem = hf.supervised((X, Y[:, 0], Y[:, 1]), losses=losses)
    options = QUIET | {"relabel": "values", "draw": "rows", "unlabelled": X, "solver": hf.LS()}
    with pytest.raises(HyperfrontError, match="right"):
        hf.distill(lambda x, ray: x[:, 0], hf.wrap(net(1), [*losses], hidden=4), problem, **options)


def test_a_taught_run_resumes_exactly_and_only_with_the_same_teacher(tmp_path):
    guide = hf.ensemble([teacher(5), teacher(6)], average="values")
    options = {"relabel": "values", "rays_per_step": 2, "solver": hf.LS(), **QUIET, "epochs": 3}

    class Stops(hf.training.Callback):
        def epoch_ended(self, record):
            if record["epoch"] == 1:
                raise KeyboardInterrupt

    whole = student()
    hf.distill(guide, whole, regression(), out=tmp_path / "whole", **options)
    with pytest.raises(KeyboardInterrupt):
        hf.distill(guide, student(), regression(), out=tmp_path / "cut", **(options | {"callbacks": [Stops()]}))
    other = copy.deepcopy(guide)
    with torch.no_grad():
        next(other.parameters()).add_(1e-3)
    with pytest.raises(CheckpointError, match=r"lesson\.teacher\.weights"):
        hf.distill(other, student(), regression(), out=tmp_path / "cut", resume=True, **options)
    again = student()
    hf.distill(guide, again, regression(), out=tmp_path / "cut", resume=True, **options)
    assert torch.equal(weights(again), weights(whole))
    assert RunFolder(tmp_path / "cut").best.read_bytes() == RunFolder(tmp_path / "whole").best.read_bytes()


def test_a_student_of_directions_asks_a_teacher_of_ratios_at_the_same_point():
    guide = teacher()
    guide.record["convention"] = "inverse"
    ray = torch.tensor([[0.2, 0.8]])
    problem = taught(regression(), guide, relabel="values", draw="rows")
    problem.lesson.teacher.ready(student(), "direction")
    _, labels = problem.lesson(problem, ray, (X, Y), shared=False)
    torch.testing.assert_close(labels, guide(X, ray.flip(1))[0].detach())


def test_taught_methods_train_their_teacher_once_and_count_its_time(tmp_path):
    problem = regression(make_target=net, identity={"problem": "mine", "arguments": {}})
    methods = ["phn-ls", "ls", "taught", "taught-separate", "taught-plain"]
    recipe = Recipe(epochs=2, batch_size=24, rays_per_step=2, model={"hidden": 4})
    few = {name: find_method(name).options(members=2) for name in methods[2:]}
    protocol = Protocol("own", recipe, hf.rays(3, m=2), options=few)
    results = compare(problem, methods, protocol, seeds=[0], folder=tmp_path, progress=False)
    for name, result in zip(methods, results):
        assert result.method == name and result.kind.name == name
        if name.startswith("taught"):
            assert result.settings["teaching"]["members"] == 2
            records = [RunFolder(path).seconds() for path in (tmp_path / "runs" / f"{name}-0").glob("member-*")]
            assert len(records) == 2 and result.seconds["teacher"] == pytest.approx(sum(records), abs=0.011)
            assert result.seconds["training"] > result.seconds["teacher"]
    assert results[-1].points == 1 and results[3].points == 3
    again = compare(problem, methods, protocol, seeds=[0], folder=tmp_path, progress=False)
    assert [result.fronts for result in again] == [result.fronts for result in results]
    with pytest.raises(ProblemError, match="needs data"):
        compare(build("fonseca"), ["taught"], protocol, seeds=[0], folder=tmp_path / "toy", progress=False)
