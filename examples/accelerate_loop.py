"""A loop with Hugging Face ``accelerate``: prepared model, optimizer and data, gradient accumulation, saved state.

pip install accelerate
python examples/accelerate_loop.py
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import hyperfront as hf


def train(epochs: range, folder: Path) -> hf.ParetoModel:
    """Train for these epochs, from the state in ``folder`` unless they are the first; save the state there."""
    from accelerate import Accelerator

    torch.manual_seed(0)
    x = torch.randn(256, 4)
    data = TensorDataset(x, torch.stack([x[:, 0] * x[:, 1], x[:, 2] * x[:, 3]], dim=1))
    model: Any = hf.wrap(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), ["left", "right"], hidden=32)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    optimizer: Any = torch.optim.Adam(model.parameters(), lr=3e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=32))
    if epochs.start:
        accelerator.load_state(str(folder))

    preferences, parts = hf.Dirichlet(0.2), accelerator.gradient_accumulation_steps
    for epoch in epochs:
        for index, (inputs, targets) in enumerate(loader):
            with accelerator.accumulate(model):
                update = (epoch * len(loader) + index) // parts  # its micro-batches have one ray
                rays = preferences.sample(1, 2, torch.Generator().manual_seed(update))

                def losses(net: Any, inputs: Tensor = inputs, targets: Tensor = targets) -> Tensor:
                    return (net(inputs) - targets).square().mean(0)  # one loss for each column

                hf.backward(model, rays, losses, solver=hf.LS(), scale=1 / parts)
                optimizer.step()  # these two wait for the last micro-batch
                optimizer.zero_grad()
    accelerator.save_state(str(folder))
    return accelerator.unwrap_model(model)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smallest settings: shows in seconds that the script runs")
    options = parser.parse_args()
    if importlib.util.find_spec("accelerate") is None:
        print("this script needs accelerate: pip install accelerate")
        return
    half = 1 if options.quick else 40
    with tempfile.TemporaryDirectory() as folder:
        train(range(half), Path(folder))
        model = train(range(half, 2 * half), Path(folder))
    x = torch.randn(512, 4)
    targets = torch.stack([x[:, 0] * x[:, 1], x[:, 2] * x[:, 3]], dim=1)
    for ray in hf.rays(3, m=2):
        with torch.no_grad():
            losses = (model.at(ray)(x) - targets).square().mean(0)
        print("ray", [f"{entry:.2f}" for entry in ray.tolist()], "losses", [f"{loss:.3f}" for loss in losses.tolist()])


if __name__ == "__main__":
    main()
