"""Small runs that engines of training are compared by."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

import hyperfront as hf
from tests.helpers.gpu import exact_products


def regression(module: nn.Module, *, m: int = 2, first: Callable | None = None) -> tuple[hf.ParetoModel, hf.Problem]:
    """``m`` targets for one output, by ``module`` of five inputs; ``first`` may stand in for the first loss."""
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randn(64, width, generator=generator) for width in (5, m))

    def loss(j: int) -> Callable:
        return lambda output, batch: (output[:, 0] - batch[1][:, j]).square().mean()

    losses = {f"target {j}": loss(j) for j in range(m)} | ({"target 0": first} if first else {})
    problem = hf.supervised((x, y), (x[:16], y[:16]), losses=losses, reference=(20,) * m)
    return hf.wrap(module, list(losses), hidden=10), problem


def trained(made: Callable, engine: str, **changes) -> hf.Run:
    torch.manual_seed(0)
    model, problem = made()
    settings = {"epochs": 3, "batch_size": 16, "lr": 1e-3, "warmup": 3, "seed": 2, "validation_rays": 5}
    with exact_products():
        return hf.fit(model, problem, engine=engine, device="cuda", **{"callbacks": [], **settings, **changes})


def assert_same(ours: hf.Run, theirs: hf.Run) -> None:
    for mine, other in zip(ours.history, theirs.history, strict=True):
        assert [mine[key] for key in ("step", "lr", "status")] == [other[key] for key in ("step", "lr", "status")]
        pairs = [[list(record["losses"].values()) for record in (mine, other)]]
        pairs += [[record["validation"]["losses"] for record in (mine, other)]] if "validation" in mine else []
        for pair in pairs:
            torch.testing.assert_close(*map(torch.tensor, pair), atol=1e-5, rtol=1e-4)
    if ours.model.target.norms:
        return  # a bias before BatchNorm has no gradient but rounding, which Adam magnifies
    for mine, other in zip(ours.model.parameters(), theirs.model.parameters(), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-3)
