"""Small trained runs to be explored."""

from __future__ import annotations

from pathlib import Path

import torch

import hyperfront as hf
from hyperfront.problem.registry import build

NAMES = ("left", "right", "cost", "risk", "heat", "noise", "weight")


def toy(folder: Path, name: str, **arguments) -> Path:
    """A built-in problem without data, trained for a moment."""
    torch.manual_seed(0)
    problem = build(name, **arguments)
    hf.fit(
        problem.model(hidden=16),
        problem,
        epochs=4,
        rays_per_step=16,
        lr=5e-3,
        validation_rays=9,
        out=folder,
        callbacks=[],
        seed=1,
    )
    return folder


def regression(m: int = 2) -> hf.Problem:
    """A problem of nobody's but ours: ``m`` targets, and a network with one output for all."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(240, 4, generator=generator)
    y = torch.stack([(x * torch.randn(4, generator=generator)).sum(1) for _ in range(m)], dim=1)

    def loss(j: int):
        return lambda output, batch: (output[:, 0] - batch[1][:, j]).square().mean() + 0.1

    return hf.supervised(
        (x[:160], y[:160]),
        (x[160:], y[160:]),
        losses={name: loss(j) for j, name in enumerate(NAMES[:m])},
        scores={
            "sharpness": hf.Score(lambda output, batch: -(output[:, 0] - batch[1][:, 0]).abs().mean(), maximize=True)
        },
        reference=(9,) * m,
    )


def network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1))


def own(folder: Path, m: int = 2) -> hf.Run:
    """That problem, trained for a moment."""
    torch.manual_seed(0)
    model = hf.wrap(network(), NAMES[:m], hidden=12)
    return hf.fit(
        model, regression(m), epochs=6, batch_size=32, rays_per_step=4, validation_rays=7, out=folder, callbacks=[]
    )
