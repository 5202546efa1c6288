"""Rays that mean what they say on unseen data."""

from __future__ import annotations

import dataclasses

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

import hyperfront as hf
from hyperfront import export
from hyperfront.errors import CheckpointError, HyperfrontError
from hyperfront.preferences import das_dennis
from hyperfront.storage import checkpoint
from hyperfront.training import Callback, Progress
from hyperfront.training.step import Step


def skewed(gap: float) -> hf.Problem:
    """Two targets for one number, ``0`` and ``1``; on validation data the first loss is larger by a factor."""
    x = torch.zeros(8, 1)

    def near(goal: float, first: bool):
        return lambda output, batch: (output - goal).square().mean() * (1 + first * gap * batch[1].mean())

    train, val = ((x, torch.full((8,), float(seen))) for seen in (False, True))
    return hf.supervised(
        train, val, losses={"zero": near(0.0, True), "one": near(1.0, False)}, reference=(9, 9), make_target=None
    )


@pytest.fixture(scope="module")
def trained() -> tuple[hf.ParetoModel, hf.Problem]:
    torch.manual_seed(0)
    problem = skewed(3.0)
    model = hf.wrap(nn.Linear(1, 1), ["zero", "one"], hidden=20)
    hf.fit(
        model,
        problem,
        epochs=2000,
        batch_size=8,
        lr=3e-3,
        rays_per_step=8,
        share_batch=True,
        validate_every=2000,
        callbacks=[],
    )
    return model, problem


def test_alignment_puts_validation_losses_on_the_rays(trained):
    model, problem = trained
    model.alignment = model.alignment[:0]
    before, where = hf.evaluate(model, problem.val, 15), hf.evaluate(model, problem.train, 15)
    hf.align(model, problem.val)
    after = hf.evaluate(model, problem.val, 15)
    assert where.uniformity() > 0.995  # EPO has done its work where it could see
    assert before.uniformity() < 0.9
    assert after.uniformity() > 0.99
    assert after.hypervolume() > before.hypervolume()
    # the network is the same, only asked elsewhere: its points lie on the curve sqrt(l1 / 4) + sqrt(l2) = 1
    curve = (after.losses / torch.tensor([4.0, 1.0])).sqrt().sum(1)
    torch.testing.assert_close(curve, torch.ones(15).double(), atol=0.02, rtol=0)


def test_aligned_rays_are_rays_and_move_the_way_they_are_asked(trained):
    model, problem = trained
    hf.align(model, problem.val)
    asked = das_dennis(2, 50)
    given = model.prepare(asked)
    torch.testing.assert_close(given.sum(-1), torch.ones(51))
    assert (given >= 0).all() and (given[:-1, 0] >= given[1:, 0] - 1e-6).all()
    assert torch.equal(model.check(asked), asked.float())


def test_an_alignment_is_kept_with_the_model_and_can_be_taken_away(trained, tmp_path):
    model, problem = trained
    hf.align(model, problem.val)
    model.save(tmp_path / "model.safetensors")
    loaded = hf.load(tmp_path / "model.safetensors", nn.Linear(1, 1))
    assert torch.equal(loaded.alignment, model.alignment) and len(loaded.alignment)
    rays = [[0.3, 0.7]]
    assert torch.equal(loaded(torch.ones(1, 1), rays), model(torch.ones(1, 1), rays))
    plain = loaded.at(rays[0])
    assert torch.equal(plain(torch.ones(1, 1)), model(torch.ones(1, 1), rays)[0])
    loaded.alignment = loaded.alignment[:0]
    assert not torch.equal(loaded.weights(rays), model.weights(rays))


def test_a_model_that_is_trained_again_begins_without_its_alignment():
    torch.manual_seed(0)
    model, settings = hf.wrap(nn.Linear(1, 1), ["zero", "one"], hidden=4), {"batch_size": 8, "callbacks": []}
    hf.fit(model, skewed(3.0), epochs=1, align=True, **settings)
    assert model.alignment.any()
    run = hf.fit(model, skewed(3.0), solver=hf.LS(), epochs=1, **settings)
    assert not len(model.alignment)
    rays = hf.rays(25, m=2)  # the front is that of the weights as they were trained
    torch.testing.assert_close(run.front.losses, hf.evaluate(model, skewed(3.0).val, rays).losses)


def test_an_alignment_of_another_grid_is_refused(trained, tmp_path):
    model, _ = trained
    tensors = {**model.state_dict(), "alignment": torch.zeros(5, 2)}
    checkpoint.write(tmp_path / "model.safetensors", tensors, {"model": model.document()})
    with pytest.raises(CheckpointError, match="does not fit the model"):
        hf.load(tmp_path / "model.safetensors", nn.Linear(1, 1))


def test_a_step_sees_the_rays_that_it_is_given(trained):
    """Alignment is for those who ask, not for training, which would chase it."""
    model, problem = trained
    hf.align(model, problem.val)
    rays, batch = torch.tensor([[0.3, 0.7]]), (torch.zeros(8, 1), torch.zeros(8))
    found = Step(model, problem, hf.LS(), share_batch=True)(rays, batch).losses
    with torch.no_grad():
        output = float(model.target.network(model.hypernet(rays)[0])(torch.zeros(1, 1)))
    torch.testing.assert_close(found, Tensor([[output**2, (output - 1) ** 2]]))


def test_a_finished_run_holds_the_aligned_model_and_can_be_resumed(tmp_path):
    torch.manual_seed(0)
    settings = {"epochs": 20, "batch_size": 8, "lr": 5e-3, "validation_rays": 5, "callbacks": [], "align": True}
    runs = []
    for resume in (False, True):
        model = hf.wrap(nn.Linear(1, 1), ["zero", "one"], hidden=5)
        runs.append(hf.fit(model, skewed(1.0), out=tmp_path / "run", resume=resume, **settings))
    loaded = hf.load(tmp_path / "run", nn.Linear(1, 1))
    assert len(loaded.alignment) and torch.equal(loaded.alignment, runs[0].model.alignment)
    torch.testing.assert_close(runs[1].front.losses, runs[0].front.losses)


def test_callbacks_hear_of_every_turn_after_the_last_step():
    heard = []

    class Hears(Callback):
        def finished(self):
            heard.append("finished")

        def aligned(self, *, turn, turns):
            heard.append((turn, turns))

    model = hf.wrap(nn.Linear(1, 1), ["zero", "one"], hidden=4)
    hf.fit(model, skewed(3.0), epochs=1, batch_size=8, callbacks=[Hears(), Progress()], align=True)
    turns = heard[1][1]
    assert heard == ["finished", *((turn, turns) for turn in range(1, turns + 1))]


@pytest.mark.parametrize(
    ("solver", "parts", "message"), [(hf.LS(), ("train", "val"), "balance of losses"), (hf.EPO(), ("train",), "no val")]
)
def test_what_cannot_be_aligned_is_said_before_the_first_step(solver, parts, message):
    problem = skewed(1.0)
    problem = dataclasses.replace(problem, sources={name: problem.sources[name] for name in parts})
    model, steps = hf.wrap(nn.Linear(1, 1), ["zero", "one"], hidden=5), []
    model.hypernet.register_forward_hook(lambda *_: steps.append(1))
    with pytest.raises(HyperfrontError, match=message):
        hf.fit(model, problem, solver=solver, epochs=1, batch_size=8, align=True, callbacks=[])
    assert not steps


def test_rays_that_are_weights_cannot_be_aligned(trained):
    model, problem = trained
    kept, model.record = model.record, {**model.record, "convention": "weights"}
    try:
        with pytest.raises(HyperfrontError, match="balance of losses"):
            hf.align(model, problem.val)
    finally:
        model.record = kept


def test_exported_networks_are_the_aligned_ones(trained, tmp_path):
    model, problem = trained
    hf.align(model, problem.val)
    ray, x = [0.3, 0.7], torch.ones(2, 1)
    with torch.no_grad():
        expected = model(x, [ray])[0]
    weights, _ = export.weights(model, ray, tmp_path / "net.safetensors")
    net = nn.Linear(1, 1)
    net.load_state_dict(safetensors.torch.load_file(weights))
    torch.testing.assert_close(net(x).detach(), expected)
    traced = torch.export.load(export.pt2(model, tmp_path / "front.pt2", like=x)).module()
    torch.testing.assert_close(traced(torch.tensor(ray), x).detach(), expected)


def test_a_loss_that_is_zero_asks_for_no_infinite_change_of_its_rays():
    x = torch.randn(8, 2)
    problem = hf.supervised((x,), (x,), losses={"a": lambda o, b: 0 * o.mean(), "b": lambda o, b: o.square().mean()})
    model, seen = hf.wrap(nn.Linear(2, 1), ["a", "b"]), []
    hf.align(model, problem.val, turned=lambda turn, turns: seen.append(model.alignment))
    assert torch.stack([*seen, model.alignment]).isfinite().all()
