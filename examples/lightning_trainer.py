"""A Lightning trainer: ``hyperfront.lightning.ParetoModule`` is a ``LightningModule`` that validates the front.

pip install 'hyperfront[lightning]'
python examples/lightning_trainer.py
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from functools import partial

import torch
from torch import nn

import hyperfront as hf


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smallest settings: shows in seconds that the script runs")
    options = parser.parse_args()
    if importlib.util.find_spec("lightning") is None:
        print("this script needs Lightning: pip install 'hyperfront[lightning]'")
        return
    from lightning.pytorch import Trainer
    from lightning.pytorch.callbacks import ModelCheckpoint

    from hyperfront.lightning import ParetoModule

    torch.manual_seed(0)
    x = torch.randn(1200, 4)
    y = torch.stack([x[:, 0] * x[:, 1], x[:, 2] * x[:, 3]], dim=1)
    problem = hf.supervised(
        train=(x[:1000], y[:1000]),
        val=(x[1000:], y[1000:]),
        losses={
            "left": lambda output, batch: (output[:, 0] - batch[1][:, 0]).square().mean(),
            "right": lambda output, batch: (output[:, 0] - batch[1][:, 1]).square().mean(),
        },
        reference=(3, 3),
    )
    model = hf.wrap(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), problem.objectives)
    adam = partial(torch.optim.Adam, lr=3e-3)
    module = ParetoModule(model, problem, solver=hf.EPO(), rays_per_step=4, batch_size=100, optimizer=adam)
    with tempfile.TemporaryDirectory() as folder:
        best = ModelCheckpoint(folder, monitor="hypervolume", mode="max")
        settings = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False, "log_every_n_steps": 1}
        Trainer(max_epochs=2 if options.quick else 40, callbacks=[best], **settings).fit(module)
        print("best validation hypervolume:", f"{best.best_model_score:.4f}")
    for ray, losses in zip(module.front.rays.tolist()[::6], module.front.losses.tolist()[::6]):
        print("ray", [f"{entry:.2f}" for entry in ray], "losses", [f"{loss:.3f}" for loss in losses])


if __name__ == "__main__":
    main()
