"""Small trained runs to be explored."""

from __future__ import annotations

from pathlib import Path

import torch

import hyperfront as hf
from hyperfront.problem.registry import build
from hyperfront.problem.samples import Grouping, TableSamples

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


REGIONS = ("north", "south", "west")
PAID = hf.Decision(torch.sigmoid, ("refuse", "lend"))


def lender() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Flatten(-2))


def _encoded(columns) -> torch.Tensor:
    """Incomes and debts in thousands as inputs of the network; no debt is the mean debt."""
    income = [(value - 50) / 20 for value in columns["income"]]
    debt = [(10 - (10 if value is None else value)) / 3 for value in columns["debt"]]
    return torch.tensor([*zip(income, debt)])


def loans(rows: int = 900) -> hf.Problem:
    """A table with three groups of different base rates: log loss against the gap in probability."""
    generator = torch.Generator().manual_seed(0)
    x, noise = (torch.randn(rows, 2, generator=generator) for _ in range(2))
    region = torch.randint(3, (rows,), generator=generator)
    x[:, 1] += 0.7 * region
    y = x[:, 0] + 0.8 * x[:, 1] + 0.8 * noise[:, 0] > 0.5

    def members(batch):
        return torch.stack([(batch[2] == k) & ~batch[1] for k in range(3)])

    def samples(split: hf.problem.Split) -> TableSamples:
        return TableSamples(
            split,
            readable=lambda batch, row: {
                "income": f"{50 + 20 * batch[0][row, 0]:.0f} thousand",
                "debt": f"{10 - 3 * batch[0][row, 1]:.1f} thousand",
                "region": REGIONS[batch[2][row]],
            },
            labels=lambda batch: batch[1],
            decision=PAID,
            groupings=[Grouping("region", REGIONS, lambda batch: batch[2])],
            predicted="pays back",
        )

    half = rows // 3
    parts = [(x[a:b], y[a:b], region[a:b]) for a, b in ((0, half), (half, 2 * half), (2 * half, rows))]
    return hf.supervised(
        parts[0],
        parts[1],
        calibration=parts[2],
        losses={
            "bce": hf.Loss(
                lambda logit, batch: torch.nn.functional.binary_cross_entropy_with_logits(logit, batch[1].to(logit)),
                label="log loss",
                unit="nats",
            ),
            "gap": hf.Loss(
                hf.Gap(lambda logit, batch: logit.sigmoid(), members), label="gap in probability", bounds=(0, 1)
            ),
        },
        scores={
            "accuracy": hf.Score(
                lambda logit, batch: ((logit > 0) == batch[1]).to(logit).mean(), maximize=True, bounds=(0, 1)
            ),
            "fpr_gap": hf.Score(
                hf.Gap(lambda logit, batch: logit > 0, members),
                maximize=False,
                label="gap in false positive rates",
                bounds=(0, 1),
            ),
        },
        reference=(1, 1),
        make_target=lender,
        presentation=hf.Presentation(
            title="Who gets a loan",
            notes="Every point of the front is a model that decides about loans.\n\nAll numbers are invented.",
            samples=samples,
            decision=PAID,
            encode=_encoded,
            columns=("income", "debt"),
            data=("900 invented rows",),
            groups=("by region: north, south, west",),
            use="examples and tests",
        ),
    )


def lent(folder: Path) -> hf.Run:
    """The table, trained for a moment."""
    torch.manual_seed(0)
    problem = loans()
    options = {"epochs": 60, "batch_size": 300, "rays_per_step": 6, "lr": 2e-2, "validation_rays": 9}
    return hf.fit(problem.model(hidden=12), problem, solver=hf.LS(), out=folder, callbacks=[], **options)
