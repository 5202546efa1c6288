"""How much of a front is left when one of two losses is smaller than the other one (hyperfront.training.scales.RATIO).

python benchmarks/scales.py          # minutes on one core
"""

from __future__ import annotations

import argparse

import torch

import hyperfront as hf
from hyperfront import solvers

CENTER = 10**-0.5
SOLVERS = (hf.EPO(), solvers.Tchebycheff(), solvers.SmoothTchebycheff(), hf.LS(), solvers.HVMax())


def reached(solver: hf.EPO, ratio: float, epochs: int) -> float:
    """Hypervolume at 25 even rays, in units in which both losses reach up to 1."""
    sizes = torch.tensor([1 / ratio, 1.0])

    def losses(x: torch.Tensor) -> torch.Tensor:
        return sizes * (1 - torch.exp(-torch.stack([(x - CENTER).square().sum(), (x + CENTER).square().sum()])))

    problem = hf.analytic(losses, variables=10, reference=tuple(sizes.tolist()))
    torch.manual_seed(0)
    model = problem.model()
    hf.fit(model, problem, solver=solver, epochs=epochs, rays_per_step=16, lr=3e-3, callbacks=[])
    return hf.evaluate(model, problem, 25).hypervolume() / sizes.prod().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only to see that it runs")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    names = [type(solver).__name__ for solver in SOLVERS]
    print(f"| ratio | {' | '.join(names)} |")
    print("|---" * (len(names) + 1) + "|")
    alone: list[float] = []
    for ratio in (1, 10) if quick else (1, 10, 100, 1000):
        found = [reached(solver, ratio, epochs=1 if quick else 6) for solver in SOLVERS]
        alone = alone or found
        print(f"| {ratio:,} | " + " | ".join(f"{a / b:.2f}" for a, b in zip(found, alone)) + " |", flush=True)


if __name__ == "__main__":
    main()
