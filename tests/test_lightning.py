"""Training with Lightning is training with hyperfront.backward, with Lightning's loaders, checkpoints and logs."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import hyperfront as hf
from hyperfront.errors import HyperfrontError
from hyperfront.solvers import NormalizeByStart, chain
from tests.helpers import runs

pytest.importorskip("lightning")
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from hyperfront.lightning import ParetoModule

pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning's advice

ADAM = partial(torch.optim.Adam, lr=3e-3)


def trainer(folder, **options) -> Trainer:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    return Trainer(default_root_dir=folder, **quiet, **options)


def module(problem: hf.Problem | None = None, target: nn.Module | None = None, **options) -> ParetoModule:
    torch.manual_seed(0)
    model = hf.wrap(target or runs.Net(), ["sum", "product"], generate="body.*", hidden=8)
    defaults = {"batch_size": 16, "rays_per_step": 2, "optimizer": ADAM, "validation_rays": 5}
    return ParetoModule(model, problem or runs.problem(), **(defaults | options))


def still() -> nn.Module:
    """Without dropout, whose random numbers are not in Lightning's checkpoints."""
    net = runs.Net()
    net.body[-1] = nn.Identity()
    return net


class Sees(hf.Dirichlet):
    """Remembers the rays it has drawn."""

    def sample(self, *args):
        rays = super().sample(*args)
        vars(self).setdefault("seen", []).append(rays)
        return rays


@pytest.mark.parametrize("solver", [hf.LS(), hf.EPO()], ids=["LS", "EPO"])
def test_a_step_has_the_gradient_of_backward_at_the_rays_it_drew(solver, tmp_path):
    problem, batches = runs.problem(), []
    x, y = (t[:16] for t in problem.train.source.data)

    class Trained(ParetoModule):
        def on_train_batch_end(self, outputs, batch, index):
            batches.append((batch, [p.grad.clone() for p in self.model.parameters()]))

    torch.manual_seed(0)
    model = hf.wrap(still(), ["sum", "product"], generate="body.*", hidden=8)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    preferences = Sees()
    optimizer = partial(torch.optim.SGD, lr=0.0)
    settings = {"preferences": preferences, "batch_size": 16, "rays_per_step": 2}
    own = Trained(model, problem, solver=solver, optimizer=optimizer, **settings)
    trainer(tmp_path, max_steps=1, limit_val_batches=0).fit(own, DataLoader(TensorDataset(x, y), batch_size=16))
    ((batch, found),) = batches
    assert torch.equal(batch[0], x)
    assert model.record["convention"] == solver.convention
    model.load_state_dict(start)
    model.train().zero_grad()
    losses = lambda net: problem.each_loss(net, (x, y))  # noqa: E731
    hf.backward(model, preferences.seen[0], losses, solver=solver)
    for ours, theirs in zip(found, model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs.grad)


def test_each_validation_logs_the_front_and_the_best_model_can_be_kept(tmp_path):
    kept = []

    class Looks(ParetoModule):
        def on_validation_end(self):
            kept.append((self.front.hypervolume(), self.front.uniformity(), dict(self.trainer.callback_metrics)))

    torch.manual_seed(0)
    model = hf.wrap(runs.Net(), ["sum", "product"], generate="body.*", hidden=8)
    own = Looks(model, runs.problem(), batch_size=16, optimizer=ADAM)
    best = ModelCheckpoint(tmp_path, monitor="hypervolume", mode="max")
    trainer(tmp_path, max_epochs=4, num_sanity_val_steps=0, callbacks=[best]).fit(own)
    assert len(kept) == 4
    for volume, uniformity, logged in kept:
        assert logged["hypervolume"] == pytest.approx(volume, rel=1e-6)
        assert logged["uniformity"] == pytest.approx(uniformity, rel=1e-6)
    assert best.best_model_score == pytest.approx(max(volume for volume, _, _ in kept), rel=1e-6)
    assert own.model.training and own.model.target.skeleton.training  # as before the validation


def test_training_lowers_the_losses(tmp_path):
    own = module()
    first = hf.evaluate(calibrated(own), own.problem.val, rays=5).hypervolume()
    trainer(tmp_path, max_epochs=15, num_sanity_val_steps=0).fit(own)
    assert own.front.hypervolume() > 1.2 * first


def calibrated(own: ParetoModule) -> hf.ParetoModel:
    own.model.calibrate([own.problem.train.source.data[0]])
    return own.model


@pytest.mark.parametrize("solver", [hf.EPO(), chain(NormalizeByStart(steps=20), hf.LS())], ids=["EPO", "stateful"])
def test_a_run_resumes_through_lightning_s_checkpoints(tmp_path, solver):
    def train(epochs: int, **options) -> ParetoModule:
        if isinstance(solver, hf.solvers.Stateful):
            solver.load({})
        own = module(target=still(), solver=solver)
        trainer(tmp_path, max_epochs=epochs, callbacks=[ModelCheckpoint(tmp_path, save_last=True)]).fit(own, **options)
        return own

    whole = train(4)
    train(2)
    resumed = train(4, ckpt_path=tmp_path / "last.ckpt", weights_only=True)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], value), name
    assert torch.equal(resumed.front.losses, whole.front.losses)
    assert resumed.model.record == whole.model.record


def test_the_model_of_a_checkpoint_predicts_the_same_after_it_was_calibrated(tmp_path):
    own = module()
    fitted = trainer(tmp_path, max_epochs=1)
    fitted.fit(own)
    fitted.save_checkpoint(tmp_path / "model.ckpt")
    fresh = module()
    ParetoModule.load_from_checkpoint(
        tmp_path / "model.ckpt", model=fresh.model, problem=fresh.problem, weights_only=True
    )
    x = torch.randn(3, 4)
    fresh.model.eval(), own.model.eval()
    assert torch.equal(fresh.model(x, [[0.3, 0.7]]), own.model(x, [[0.3, 0.7]]))
    fitted.validate(own, verbose=False)
    assert not own.model.target.statistics.is_inference()  # though Lightning validates in inference mode


def test_mixed_precision_is_for_the_network_alone(tmp_path):
    seen = []

    class Looks(nn.Linear):
        def forward(self, x):
            output = super().forward(x)
            seen.append(output.dtype)
            return output

    net = still()
    net.head = Looks(8, 1)
    own = module(target=net, rays_per_step=1)
    theta = own.model.hypernet.register_forward_hook(lambda layer, args, output: seen.append(output.dtype))
    trainer(tmp_path, max_steps=1, limit_val_batches=0, precision="bf16-mixed").fit(own)
    theta.remove()
    assert set(seen[:2]) == {torch.float32, torch.bfloat16}  # weights, and the layer's output


@pytest.mark.parametrize(
    ("options", "message"),
    [({"devices": 2, "strategy": "ddp"}, "2 processes"), ({"precision": "64-true"}, "bf16-mixed")],
)
def test_what_would_train_wrongly_is_refused(tmp_path, options, message):
    own = module()
    own.trainer = trainer(tmp_path, **options)
    with pytest.raises(HyperfrontError, match=message):
        own.setup("fit")


def test_validation_data_of_the_trainer_are_refused(tmp_path):
    own = module()
    with pytest.raises(HyperfrontError, match="val=loader"):
        trainer(tmp_path, max_epochs=1).fit(own, val_dataloaders=[torch.zeros(2, 4)])


def test_a_module_of_one_s_own_trains_in_training_mode_after_a_validation(tmp_path):
    """Lightning sets the flag ``training`` of every module it knows, without a call of ``train``."""
    modes = []

    class Mine(LightningModule):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False
            self.model = hf.wrap(Asks(4, 1), ["small", "near"], hidden=4)

        def training_step(self, batch, index):
            losses = lambda net: [net(batch).square().mean(), (net(batch) - 1).square().mean()]  # noqa: E731
            hf.backward(self.model, [[0.5, 0.5]], losses, solver=hf.LS())
            self.optimizers().step()

        def validation_step(self, batch, index):
            self.model(batch, [[0.5, 0.5]])

        def configure_optimizers(self):
            return torch.optim.SGD(self.model.parameters(), lr=0.1)

    class Asks(nn.Linear):
        def forward(self, x):
            modes.append(self.training)
            return super().forward(x)

    loader = DataLoader(torch.ones(2, 4), batch_size=2)
    trainer(tmp_path, max_epochs=2, num_sanity_val_steps=0).fit(Mine(), loader, loader)
    assert modes == [True, True, False, True, True, False]


def test_importing_it_without_lightning_is_an_error_with_the_line_that_installs_it():
    code = "import sys; sys.modules['lightning'] = None; import hyperfront; import hyperfront.lightning"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode and "HyperfrontError: Lightning is not installed" in done.stderr
    assert "pip install 'hyperfront[lightning]'" in done.stderr
