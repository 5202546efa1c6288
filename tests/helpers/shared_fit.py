"""One process of several that call `hyperfront.fit` together; `torchrun -m tests.helpers.shared_fit FOLDER`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch import distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import hyperfront as hf
from hyperfront import tabular
from hyperfront.comparison import compare
from hyperfront.problem import SetLoss
from hyperfront.problem.losses import Gathered
from tests.helpers import ranks
from tests.helpers.ranks import gathered, refused

GAP = hf.Gap(
    lambda out, batch: out[:, 0].sigmoid(), lambda batch: torch.stack([batch[0][:, 1] > s for s in (-0.2, 0.9)])
)
RATIO = SetLoss(
    lambda out, batch: [(out[:, 0].square() * (batch[0][:, 0] > 1)).sum(), (batch[0][:, 0] > 1).sum()],
    lambda sums: sums[0] / sums[1].clamp_min(1),
)
ERROR = hf.Loss(lambda out, batch: (out - batch[1]).square().mean())


def data(count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(count, 4, generator=generator, dtype=torch.float64)
    return x, x[:, :1] * x[:, 1:2]


def loader(batch_size: int) -> DataLoader:
    generator = torch.Generator().manual_seed(4)
    return DataLoader(TensorDataset(*data(50)), batch_size=batch_size, shuffle=True, generator=generator)


def uneven() -> list[tuple[Tensor, Tensor]]:
    return [*zip(*(part.split([12, 12, 10]) for part in data(34)))]


TRAIN = {"tensors": lambda: data(50), "loader": lambda: loader(12), "uneven": uneven}
LOSSES = {
    "statistics": {"gap": GAP, "ratio": RATIO},
    "means": {"error": ERROR, "size": lambda out, _: out.square().mean()},
}
CASES = {
    "statistics": ("tensors", "statistics", {"solver": hf.EPO(), "batching": "vmap"}),
    "statistics in turn": ("tensors", "statistics", {"solver": hf.EPO(), "batching": "loop"}),
    "loader": ("loader", "means", {"solver": hf.EPO()}),
    "uneven": ("uneven", "means", {"solver": hf.LS()}),
    "loader, micro-batches": ("loader", "means", {"solver": hf.EPO(), "accumulate": 3, "norm": False}),
    "recomputed": ("tensors", "means", {"solver": hf.EPO(), "checkpoint_activations": True}),
    "aligned": ("tensors", "means", {"solver": hf.EPO(), "align": True}),
}


def fitted(train: str, losses: str, *, batching: str = "auto", norm: bool = True, **options) -> tuple[hf.Run, Tensor]:
    """Train a small network; return its parameters, its alignment and its front."""
    torch.manual_seed(int(os.environ.get("RANK", 0)))  # rank 0 decides where all start
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6) if norm else nn.Identity(), nn.Tanh(), nn.Linear(6, 1))
    model = hf.wrap(net, list(LOSSES[losses]), hidden=6, batching=batching).double()
    problem = hf.supervised(TRAIN[train](), data(31), losses=LOSSES[losses], reference=(3, 3))
    settings = {"epochs": 2, "batch_size": 12, "rays_per_step": 2, "validation_rays": 5, "callbacks": []}
    sgd = lambda parameters: torch.optim.SGD(parameters, lr=0.05)  # noqa: E731
    run = hf.fit(model, problem, optimizer=sgd, **settings | options)
    parts = [*model.parameters(), model.alignment, model.target.statistics, run.front.losses]
    return run, torch.cat([part.detach().double().flatten() for part in parts])


def tabled() -> Tensor:
    """The weights and the front after training on a table with groups, as `hyperfront.tabular` prepares it."""
    rows = range(400)
    people = {"age": [20 + n % 45 for n in rows], "sex": [("f", "m")[n % 2] for n in rows]}
    people["hired"] = [(n * 37 % 100) + age > 90 for n, age in zip(rows, people["age"])]
    problem = tabular.problem(people, target="hired", sensitive="sex")
    torch.manual_seed(0)
    model = problem.model()
    sgd = lambda parameters: torch.optim.SGD(parameters, lr=0.05)  # noqa: E731
    run = hf.fit(model, problem, epochs=1, batch_size=64, optimizer=sgd, callbacks=[])
    return torch.cat([part.detach().double().flatten() for part in (*model.parameters(), run.front.losses)])


def sent(solver: hf.LS | hf.EPO, rays: int) -> tuple[int, int, int]:
    """The floating-point numbers that a rank adds up with the others in a step, the length of theta, and the number of
    messages."""
    model = hf.wrap(nn.Linear(4, 1), ["error", "size"], hidden=6).double()
    problem = hf.supervised(data(12), losses=LOSSES["means"])
    numbers: list[int] = []
    reduce = dist.all_reduce

    def counted(tensor: Tensor) -> None:
        numbers.append(tensor.numel())
        reduce(tensor)

    dist.all_reduce = counted
    try:
        hf.fit(model, problem, solver=solver, epochs=1, batch_size=12, rays_per_step=rays, callbacks=[])
    finally:
        dist.all_reduce = reduce
    return sum(numbers), model.target.n, len(numbers)


def refusals(rank: int, folder: Path) -> dict[str, str]:
    """The errors of wrong jobs, which all ranks must get."""
    model = hf.wrap(nn.Linear(4, 1), ["error", "size"], hidden=6).double()

    def attempt(losses=LOSSES["means"], rows=50, train=None, **options) -> str:
        options = {"epochs": 1, "batch_size": 12, "callbacks": []} | options
        return refused(lambda: hf.fit(model, hf.supervised(train or data(rows), losses=losses), **options))

    worst = {"error": ERROR, "size": lambda out, _: out.square().max()}
    gathered_loss = {"error": ERROR, "size": hf.Loss(Gathered(lambda out, _: out.square().max()))}
    rows = TensorDataset(*data(50))
    sampled = DataLoader(rows, batch_size=12, sampler=DistributedSampler(rows))
    teach = lambda: hf.distill(nn.Linear(4, 1).double(), model, problem, relabel="values", batch_size=12)  # noqa: E731
    problem = hf.supervised(data(50), losses=LOSSES["means"])
    unused: Any = None
    own = folder / f"own{rank}"
    own.mkdir()
    return {
        "rank 1 .*seed differ": attempt(seed=rank),
        "rank 1 .*train data differ": attempt(rows=50 + 2 * rank),
        "evenly": attempt(batch_size=13),
        "2 rays that split it": attempt(batch_size=14, rays_per_step=2),
        "no mean over rows": attempt(worst),
        "all rows at once": attempt(gathered_loss),
        "rank 1 has other weights": attempt(optimizer=lambda each: torch.optim.SGD(each, lr=0.01 + 0.1 * rank)),
        "one by one": attempt(engine="compiled"),
        "other rows.*DistributedSampler": attempt(train=sampled),
        "micro-batches .*of one size": attempt(train=uneven(), accumulate=2),
        "fewer rows for a ray": attempt(accumulate=4, rays_per_step=2),
        "teacher in one process": refused(teach),
        "compare does not share": refused(lambda: compare(problem, ["phn-ls"], unused, seeds=[0], folder=own)),
        "rank 1 .*folder differ": attempt(out=own),
    }


def main() -> None:
    folder = Path(sys.argv[1])
    found = ranks.ends()
    for name, (train, losses, options) in CASES.items():
        _, own = fitted(train, losses, **options)
        assert all(torch.equal(own, other) for other in gathered(own)), name
        found[name] = own
    found["table"] = tabled()
    for solver in (hf.LS(), hf.EPO()):
        for rays in (1, 3):
            found[f"sent {type(solver).__name__} {rays}"] = torch.tensor(sent(solver, rays))
    rank = dist.get_rank()
    for words, message in refusals(rank, folder).items():
        (folder / f"{rank} {words}").write_text(message)
    whole, _ = fitted("tensors", "means", solver=hf.EPO(), epochs=2, out=folder / "run")
    assert len(whole.history) == 2 and whole.front is not None
    if rank == 0:
        save_file(found, folder / "ends.safetensors")


if __name__ == "__main__":
    assert "RANK" in os.environ, "start it with torchrun"
    main()
    sys.stdout.flush()
    os._exit(0)  # threads of gloo may abort a process that PyTorch takes down while DistributedDataParallel lives
