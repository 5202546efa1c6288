"""A module that already carries LoRA adapters, made by ``peft``: generate the adapters alone.

The pretrained weights stay frozen and are kept once; a ray costs one set of adapters. ``peft`` is no dependency of
hyperfront: its adapters are parameters with names, and ``generate="*lora_*"`` names them.

    pip install peft
    python examples/peft_adapters.py
"""

from __future__ import annotations

import argparse
import importlib.util

import torch
from torch import Tensor, nn

import hyperfront as hf


class Encoder(nn.Module):
    """Stands for a pretrained network: a Transformer over 16 tokens with one output."""

    def __init__(self, width: int = 64):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x).mean(1))[:, 0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smallest settings: shows in seconds that the script runs")
    options = parser.parse_args()
    if importlib.util.find_spec("peft") is None:
        print("this script needs peft: pip install peft")
        return
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(0)
    adapted = get_peft_model(Encoder(), LoraConfig(r=4, target_modules=["linear1", "linear2", "head"]))
    model = hf.wrap(adapted, objectives=["first", "second"], generate="*lora_*", hidden=32)
    print(model.summary())

    x = torch.randn(256, 16, 64)
    first, second = x[:, :, 0].mean(1), x[:, :, 1].mean(1)  # two things to predict with one output

    def losses(net: nn.Module) -> tuple[Tensor, Tensor]:
        output = 0.25 * net(x)
        return (output - first).square().mean(), (output - second).square().mean()

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    preferences, generator = hf.Dirichlet(0.2), torch.Generator().manual_seed(0)
    for step in range(2 if options.quick else 151):
        optimizer.zero_grad()
        result = hf.backward(model, preferences.sample(2, 2, generator), losses, solver=hf.LS())
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step:3}  mean loss {result.losses.mean():.4f}")

    for ray in ([0.95, 0.05], [0.5, 0.5], [0.05, 0.95]):
        plain = model.at(ray)  # a peft model again, with this ray's adapters
        merged = plain.merge_and_unload()  # and with them merged, the encoder itself
        with torch.no_grad():
            print(ray, type(merged).__name__, *(f"{loss:.4f}" for loss in losses(merged)))


if __name__ == "__main__":
    main()
