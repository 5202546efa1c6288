"""How the time of a step grows: with the size of the target, the number of objectives, and the rays of a step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

import hyperfront as hf
from stopwatch.epochs import Epoch, Timing, front, take_turns

SOLVERS = {"LS": hf.LS(), "EPO": hf.EPO()}
INPUTS, BATCH, HIDDEN = 20, 256, 25


class Curve(NamedTuple):
    """Timings against ``what``, of which there are ``sizes``."""

    what: str
    solver: str
    sizes: list[int]
    timings: list[Timing]

    def exponent(self, *, upper: bool = False) -> float:
        """``k`` of the least-squares fit ``time ~ size^k``, of all points or of the upper half of them."""
        first = min(len(self.sizes) // 2, len(self.sizes) - 2) if upper else 0
        return float(np.polyfit(np.log(self.sizes[first:]), np.log([t.median for t in self.timings[first:]]), 1)[0])

    def as_json(self) -> dict[str, Any]:
        exponents = {"exponent": self.exponent(), "exponent of the upper half": self.exponent(upper=True)}
        return {**self._asdict(), "timings": [timing._asdict() for timing in self.timings], **exponents}


def measure(device: torch.device, *, steps: int, turns: int, quick: bool) -> list[Curve]:
    widths = [16, 64] if quick else [32, 64, 128, 256, 512] + ([1024, 2048] if device.type == "cuda" else [])
    objectives = [2, 3] if quick else list(range(2, 11))
    rays = [1, 2] if quick else [1, 2, 4, 8, 16, 32, 64]
    curves = []
    for name, solver in SOLVERS.items():

        def epoch(solver=solver, **changes: int) -> Epoch:
            return _epoch(device, solver, steps, **changes)

        sweeps: dict[str, tuple[Sequence[int], list[Epoch]]] = {
            "weights of the target": ([_weights(width) for width in widths], [epoch(width=width) for width in widths]),
            "objectives": (objectives, [epoch(m=m) for m in objectives]),
            f"rays, {BATCH} rows split among them": (rays, [epoch(rays=count) for count in rays]),
            f"rays, {BATCH} rows for each": (rays, [epoch(rays=count, share_batch=True) for count in rays]),
        }
        for what, (sizes, epochs) in sweeps.items():
            named = {str(size): epoch for size, epoch in zip(sizes, epochs)}
            curves.append(Curve(what, name, list(sizes), take_turns(named, turns=turns, device=device)))
    return curves


def _target(width: int, m: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(INPUTS, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, m))


def _weights(width: int) -> int:
    return sum(parameter.numel() for parameter in _target(width, 2).parameters())


def _epoch(
    device: torch.device,
    solver: hf.LS | hf.EPO,
    steps: int,
    *,
    width: int = 64,
    m: int = 2,
    rays: int = 1,
    share_batch: bool = False,
) -> Epoch:
    """An MLP's regressions on random numbers, one objective for each of its ``m`` outputs."""
    rows = steps * BATCH
    problem = hf.supervised(
        (torch.randn(rows, INPUTS), torch.randn(rows, m)),
        losses={f"l{j}": lambda output, batch, j=j: (output[:, j] - batch[1][:, j]).square().mean() for j in range(m)},
    )
    model = hf.wrap(_target(width, m), problem.objectives, hidden=HIDDEN).to(device)
    return front(model, problem, solver, rays_per_step=rays, share_batch=share_batch)


def show(curves: Sequence[Curve]) -> None:
    for curve in curves:
        whole, upper = curve.exponent(), curve.exponent(upper=True)
        print(f"\n{curve.solver}, {curve.what}: time ~ size^{whole:.2f}; its upper half ~ size^{upper:.2f}")
        print(f"{'size':>12}{'median us':>12}{'quartiles':>22}")
        for size, timing in zip(curve.sizes, curve.timings):
            low, high = timing.quartiles
            spread = f"{low:.0f} .. {high:.0f}"
            print(f"{size:>12,}{timing.median:>12.0f}{spread:>22}")


def plot(curves: Sequence[Curve], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 4, figsize=(16, 4), layout="constrained")
    for axis, what in zip(axes, dict.fromkeys(curve.what for curve in curves)):
        for curve in [curve for curve in curves if curve.what == what]:
            medians = [timing.median for timing in curve.timings]
            label = f"PHN-{curve.solver}, exponent {curve.exponent():.2f}, {curve.exponent(upper=True):.2f} at the end"
            axis.plot(curve.sizes, medians, "o-", label=label)
            linear = [medians[-1] * size / curve.sizes[-1] for size in curve.sizes]
            axis.plot(curve.sizes, linear, ":", color="grey", zorder=0)
        axis.set(xscale="log", yscale="log", xlabel=what)
        axis.legend(fontsize="small")
    axes[0].set_ylabel("microseconds a step (dotted: linear)")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
