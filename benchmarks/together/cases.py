"""The cases: a target, a solver and a number of objectives, trained by one process or by several."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

import hyperfront as hf
from hyperfront import solvers
from hyperfront.solvers import Solver

ROWS, BATCH = 160, 32
SOLVERS = {"LS": hf.LS, "EPO": hf.EPO, "STCH": solvers.SmoothTchebycheff, "HVMax": solvers.HVMax}


class Case(NamedTuple):
    """A run of :func:`hyperfront.fit`."""

    target: str
    solver: str
    m: int


CASES = [Case(*each) for each in product(("mlp", "cnn", "transformer"), SOLVERS, (2, 3, 7))]


class Tokens(nn.Module):
    """One layer of a transformer over eight tokens, and a head."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 7)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(self.embed(x)).mean(1))


def make_target(name: str) -> nn.Module:
    if name == "mlp":
        return nn.Sequential(nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, 7))
    if name == "transformer":
        return Tokens()
    convolutions = [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.ReLU()]
    return nn.Sequential(*convolutions, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 7))


def make_data(name: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    shape = {"mlp": (6,), "cnn": (1, 8, 8), "transformer": (8,)}[name]
    x = torch.randn(ROWS, *shape, generator=generator, dtype=dtype)
    y = torch.randn(ROWS, 7, generator=generator, dtype=dtype)
    return (x.mul(3).long().remainder(11) if name == "transformer" else x), y


@dataclass(frozen=True)
class Recording(Solver):
    """A solver that keeps the losses and Gram matrices that it is given."""

    solver: Solver
    losses: list[Tensor] = field(default_factory=list)
    grams: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("needs_gram", "space", "positive", "fixed_weights", "joint", "convention"):
            object.__setattr__(self, name, getattr(self.solver, name))

    def __call__(self, losses: Tensor, rays: Tensor, gram: Tensor | None = None) -> tuple[Tensor, Tensor]:
        self.losses.append(losses.detach().clone())
        if gram is not None:
            self.grams.append(gram.detach().clone())
        return self.solver(losses, rays, gram)


def fitted(
    case: Case,
    *,
    steps: int,
    dtype: torch.dtype = torch.float64,
    out: Path | None = None,
    resume: bool = False,
    batch: int = BATCH,
) -> tuple[hf.ParetoModel, dict[str, Tensor]]:
    """Train a case; return the model, and its losses, Gram matrices, weights and front."""
    torch.manual_seed(0)
    objectives = [f"loss {j + 1}" for j in range(case.m)]
    options = {"hypernet": "low_rank", "rank": 2} if case.target == "transformer" else {"hidden": 8}
    model = hf.wrap(make_target(case.target).to(dtype), objectives, **options).to(dtype)

    def distance(j: int):
        return lambda output, batch: (output[:, : j + 1] - batch[1][:, j : j + 1]).square().mean() + 0.1

    data = make_data(case.target, dtype)
    losses = {name: distance(j) for j, name in enumerate(objectives)}
    some = tuple(part[:41] for part in data)
    problem = hf.supervised(train=data, val=some, losses=losses, reference=[9.0] * case.m)
    solver = Recording(SOLVERS[case.solver]())
    epochs = max(1, steps // (ROWS // batch))
    # SGD, since Adam divides by gradients of almost zero, whose rounding then decides
    run = hf.fit(
        model,
        problem,
        solver=solver,
        preferences=hf.Dirichlet(0.5),
        epochs=epochs,
        batch_size=batch,
        rays_per_step=2,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01),
        validate_every=max(1, epochs // 2),
        validation_rays=hf.rays(7, m=case.m),
        out=out,
        resume=resume,
        callbacks=[],
    )
    found = {
        "losses": torch.cat(solver.losses),
        "weights": torch.cat([p.detach().flatten() for p in model.parameters()]),
        "front": run.front.losses,
    }
    return model, found | ({"Gram": torch.cat(solver.grams)} if solver.grams else {})
