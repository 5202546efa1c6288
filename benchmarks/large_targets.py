"""What a front costs for a large target: one training step of ViT-B/16 (86 million weights), batch 64, two objectives.

Prints time and peak memory of a step with ``low_rank`` and ``chunked``, LS and EPO, one ray a step, against the plain
module trained on the sum of the same two losses in the same precision, and the bars: for LS 1.5 times the time and 1.5
times the memory, for EPO 2.0 and 1.7. They take turns, so that all share what else the machine does; each is alone in
memory when its peak is measured. Without a GPU a tiny ViT stands in, and there is no memory to show.

    python benchmarks/large_targets.py
    python benchmarks/large_targets.py --precision bfloat16
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import hyperfront as hf

BARS = {"LS": (1.5, 1.5), "EPO": (2.0, 1.7)}
Losses = Callable[[Callable[[Tensor], tuple[Tensor, Tensor]]], tuple[Tensor, Tensor]]


class ViT(nn.Module):
    """A vision Transformer of torch.nn alone, with a head for each of two tasks."""

    def __init__(self, *, image: int = 224, patch: int = 16, width: int = 768, depth: int = 12, heads: int = 12):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, (image // patch) ** 2 + 1, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, F.gelu, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, nn.LayerNorm(width), enable_nested_tensor=False)
        self.left, self.right = nn.Linear(width, 10), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        patches = self.patches(x).flatten(2).mT
        x = self.encoder(torch.cat([self.token.expand(len(x), -1, -1), patches], dim=1) + self.positions)[:, 0]
        return self.left(x), self.right(x)


def plain_step(module: nn.Module, losses: Losses) -> Callable[[], None]:
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-5)

    def step() -> None:
        optimizer.zero_grad()
        first, second = losses(module)
        (0.5 * first + 0.5 * second).backward()
        optimizer.step()

    return step


def front_step(module: nn.Module, losses: Losses, hypernet: str, solver: hf.LS | hf.EPO) -> Callable[[], None]:
    model = hf.wrap(module, ["left", "right"], hypernet=hypernet)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)
    preferences, generator = hf.Dirichlet(0.2), torch.Generator().manual_seed(0)

    def step() -> None:
        optimizer.zero_grad()
        hf.backward(model, preferences.sample(1, 2, generator), losses, solver=solver)
        optimizer.step()

    return step


def measure(make: Callable[[], Callable[[], None]], device: str, steps: int) -> tuple[list[float], float]:
    """Milliseconds of each step, and the peak memory in GiB, from parameters to activations."""
    torch.manual_seed(0)
    step, times = make(), []
    for index in range(steps + 3):  # the first three warm up and allocate the optimizer's state
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            torch.cuda.synchronize()
        start = time.perf_counter()
        step()
        if device == "cuda":
            torch.cuda.synchronize()
        if index >= 3:
            times.append(1e3 * (time.perf_counter() - start))
    peak = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else float("nan")
    del step
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
    return times, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cpu", "cuda"])
    parser.add_argument("--precision", default="tf32", choices=["float32", "tf32", "bfloat16"])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="smallest settings: shows in seconds that the script runs")
    options = parser.parse_args()
    if options.quick:
        options.device, options.batch, options.steps, options.turns = "cpu", 4, 2, 1
    small = options.device == "cpu"
    torch.set_float32_matmul_precision("high" if options.precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = options.precision == "tf32"
    sizes = {"image": 32, "patch": 8, "width": 64, "depth": 2, "heads": 2} if small else {}
    x = torch.randn(options.batch, 3, sizes.get("image", 224), sizes.get("image", 224), device=options.device)
    labels = torch.randint(10, (2, options.batch), device=options.device)

    def vit() -> nn.Module:
        with torch.device(options.device):
            return ViT(**sizes)

    def losses(network: Callable[[Tensor], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        with torch.autocast(options.device, torch.bfloat16, enabled=options.precision == "bfloat16"):
            left, right = network(x)
            return F.cross_entropy(left, labels[0]), F.cross_entropy(right, labels[1])

    makers: dict[tuple[str, str], Callable[[], Callable[[], None]]] = {
        ("plain module", ""): lambda: plain_step(vit(), losses)
    }
    for name in ("low_rank", "chunked"):
        for solver in (hf.LS(), hf.EPO()):
            makers[name, type(solver).__name__] = lambda name=name, solver=solver: front_step(
                vit(), losses, name, solver
            )
    times: dict[tuple[str, str], list[float]] = {key: [] for key in makers}
    peaks: dict[tuple[str, str], float] = {}
    for _ in range(options.turns):
        for key, make in makers.items():
            found, peaks[key] = measure(make, options.device, options.steps)
            times[key] += found

    weights = sum(p.numel() for p in vit().parameters())
    where = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    print(f"ViT of {weights:,} weights, batch {options.batch}, {options.precision}, {where}, torch {torch.__version__}")
    print(f"{'step':<20}{'median ms':>10}{'quartiles':>18}{'time':>8}{'bar':>6}{'peak GiB':>10}{'memory':>8}{'bar':>6}")
    plain = statistics.median(times["plain module", ""]), peaks["plain module", ""]
    for key, values in times.items():
        low, middle, high = statistics.quantiles(values, n=4)
        bars = "{:.1f} {:.1f}".format(*BARS[key[1]]).split() if key[1] else ("", "")
        row = (
            f"{' '.join(key):<20}{middle:>10.2f}{f'{low:.2f} .. {high:.2f}':>18}{middle / plain[0]:>7.2f}x{bars[0]:>6}"
        )
        memory = f"{peaks[key]:>10.2f}{peaks[key] / plain[1]:>7.2f}x{bars[1]:>6}" if not small else f"{'-':>10}"
        print(row + memory)


if __name__ == "__main__":
    main()
