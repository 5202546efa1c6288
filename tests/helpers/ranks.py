"""What one process of several does that train together by `hyperfront.backward`."""

from __future__ import annotations

import importlib.util
from itertools import product

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import hyperfront as hf
from hyperfront import solvers
from hyperfront.errors import HyperfrontError

SOLVERS = {"LS": hf.LS(), "EPO": hf.EPO(), "HVMax": solvers.HVMax()}
CASES = list(product(SOLVERS, ["*", "2.*"], ["loop", "auto"]))
STEPS, ROWS = 4, 16


def trained(
    solver: str, generate: str, batching: str, *, rank: int = 0, size: int = 1, wrapped: bool = False
) -> Tensor:
    """The parameters after a few steps, of which each rank sees a part of the rows."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
    model = hf.wrap(net, ["left", "right"], hidden=6, generate=generate, batching=batching).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    used = DistributedDataParallel(model) if wrapped else model
    generator = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        x = torch.randn(ROWS, 4, generator=generator, dtype=torch.float64)[rank::size]
        rays = hf.Dirichlet(0.5).sample(3, 2, generator)

        def losses(network, x=x) -> tuple[Tensor, Tensor]:
            output = network(x)[:, 0]
            return (output - x[:, 0] * x[:, 1]).square().mean(), (output - x[:, 2]).square().mean()

        optimizer.zero_grad()
        hf.backward(used, rays, losses, solver=SOLVERS[solver])
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def accelerated(*, prepared: bool = True) -> Tensor:
    """The parameters after a loop of `accelerate`, which shares the rows of a loader; or after the same loop alone."""
    torch.manual_seed(0)
    model = hf.wrap(nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1)), ["left", "right"], hidden=6).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(torch.randn(3 * ROWS, 4, dtype=torch.float64), batch_size=ROWS)
    used = model
    if prepared:
        from accelerate import Accelerator
        from accelerate.utils import DataLoaderConfiguration

        accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(split_batches=True))
        used, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        assert isinstance(used, DistributedDataParallel)
    for x in loader:
        losses = lambda network, x=x: ((network(x)[:, 0] - x[:, 0]).square().mean(), network(x).square().mean())  # noqa: E731
        optimizer.zero_grad()
        hf.backward(used, [0.3, 0.7], losses, solver=hf.EPO())
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


class Running(nn.Module):
    """Keeps a running mean of what it sees, in place, and a maximum, by assignment."""

    def __init__(self):
        super().__init__()
        self.f = nn.Linear(4, 1)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("most", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean.lerp_(x.mean(0), 0.1)
            self.most = torch.maximum(self.most, x.amax(0))
        return self.f(x - self.mean) / (1 + self.most.sum())


def buffers(rank: int, *, rays: int, broadcast: bool = True) -> Tensor:
    """What the buffers of a module are after a few steps with other rows on each rank."""
    torch.manual_seed(0)
    model = hf.wrap(Running(), ["left", "right"], hidden=6)
    used = model if broadcast else DistributedDataParallel(model, broadcast_buffers=False)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(STEPS):
        x = torch.randn(8, 4, generator=generator) + rank
        losses = lambda network, x=x: (network(x).square().mean(), (network(x) - 1).square().mean())  # noqa: E731
        hf.backward(used, hf.rays(rays, m=2), losses, solver=hf.LS())
    plain = model.at([0.5, 0.5])
    return torch.cat([plain.mean, plain.most])


def gathered(tensor: Tensor) -> list[Tensor]:
    everywhere = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(everywhere, tensor)
    return everywhere


def refused(function) -> str:
    try:
        function()
    except HyperfrontError as error:
        return str(error)
    return ""


def ends() -> dict[str, Tensor]:
    """The parameters after the steps of all cases."""
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    found = {}
    for case in CASES:
        for wrapped in (False, True):
            own = trained(*case, rank=rank, size=size, wrapped=wrapped)
            assert all(torch.equal(own, other) for other in gathered(own)), case
            found[" ".join([*case, str(wrapped)])] = own
    if importlib.util.find_spec("accelerate"):
        found["accelerate"] = accelerated()
    for rays in (1, 3):
        first, other = gathered(buffers(rank, rays=rays))
        assert torch.equal(first, other)
    assert not torch.equal(*gathered(buffers(rank, rays=1, broadcast=False)))
    model = hf.wrap(nn.Linear(1, 1), ["left", "right"])
    losses = lambda network: (network(torch.ones(2, 1)).square().mean(), network(torch.ones(2, 1)).mean())  # noqa: E731
    ray = [0.5, 0.5] if rank else [0.4, 0.6]
    assert "different rays" in refused(lambda: hf.backward(model, ray, losses, solver=hf.LS()))
    dist.destroy_process_group()
    return found
