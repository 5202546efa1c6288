"""How far an exported front is from PyTorch, and what int8 heads save and cost: the paper's four targets on their data.

Short trainings, then for each front, on validation rows and several rays:

- ONNX in onnxruntime against PyTorch: in how many rows (at all rays) no output differs by more than 1e-5, and the
  largest difference in these and in the others;
- the same for PyTorch against itself in float64, which tells rounding from mistakes;
- sizes of the file with heads in float32 and in int8, and the hypervolume that int8 costs.

    python benchmarks/export.py --data-dir FOLDER [--runs FOLDER]       the second keeps the trained runs
"""

from __future__ import annotations

import argparse
import copy
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import hyperfront as hf
from hyperfront import export, indicators
from hyperfront.export import agreement, formats
from hyperfront.problem.registry import build, recipe
from hyperfront.storage.nests import map_tensors, tensors
from hyperfront.training.loading import recorded_problem
from hyperfront.training.runs import RunFolder

# target: problem, preset, and what is changed to make it short
TRAININGS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "LeNet": ("multi-mnist", "quick", {"epochs": 3}, {"rows": 18_000}),
    "ResNet18, chunked": (
        "multi-mnist",
        "resnet18-1m",
        {"epochs": 1, "batch_size": 32, "warmup": 10, "evaluation_rays": 3},
        {"rows": 3840},
    ),
    "ENet": ("nyuv2", "quick", {"epochs": 4}, {"rows": 200}),
    "fairness MLP": ("adult", "quick", {}, {}),
}
QUICK = {"fairness MLP": ("adult", "smoke", {"epochs": 1}, {})}


def train(name: str, preset: str, changes: dict[str, Any], arguments: dict[str, Any], out: Path) -> None:
    settings = replace(recipe(name, preset), **changes)
    problem = build(name, **{**settings.arguments, **arguments})
    torch.manual_seed(0)
    hf.fit(
        problem.model(**settings.model),
        problem,
        preferences=hf.Dirichlet(settings.alpha),
        epochs=settings.epochs,
        rays_per_step=settings.rays_per_step,
        batch_size=settings.batch_size,
        lr=settings.lr,
        schedule=settings.schedule,
        warmup=settings.warmup,
        validate_every=settings.epochs,
        validation_rays=settings.evaluation_rays,
        out=out,
    )


class Gaps:
    """Differences of two lists of outputs ``[B, ...]``: the largest of each row."""

    def __init__(self):
        self.rows: list[float] = []
        self.size = 0.0

    def add(self, first: list[torch.Tensor], second: list[torch.Tensor]) -> None:
        gaps = [(a.double() - b.double()).abs().reshape(len(a), -1).amax(1) for a, b in zip(first, second, strict=True)]
        self.rows += torch.stack(gaps).amax(0).tolist()
        self.size = max(self.size, *(float(a.abs().max()) for a in first))

    def __str__(self) -> str:
        within = [gap for gap in self.rows if gap <= 1e-5]
        beyond = [f"{max(self.rows):.1e}" if len(within) < len(self.rows) else "-"]
        return " | ".join([f"{len(within)} of {len(self.rows)}", f"{max(within):.1e}", *beyond])


def measure(folder: Path, out: Path, rows: int, rays: int) -> str:
    model = hf.load(folder)
    problem = recorded_problem(model.record, most=model.target.n)
    graph = export.graph(model, problem)
    file = formats.write_onnx(graph, out / "front.onnx")
    run = agreement.runner(graph, file)
    exact = copy.deepcopy(model).double()
    x = problem.inputs(next(iter(problem.val.source.batches(rows, torch.device("cpu")))))
    x = map_tensors(lambda t: t[:rows], x)
    wide = map_tensors(lambda t: t.double() if t.is_floating_point() else t, x)
    onnx, rounding = Gaps(), Gaps()
    for ray in hf.rays(rays, m=model.m):
        with torch.no_grad():
            ours = tensors(map_tensors(lambda t: t[0], model(x, ray)))
            reference = tensors(map_tensors(lambda t: t[0], exact(wide, ray)))
        onnx.add(ours, run(dict(zip(graph.inputs, [ray.float(), *tensors(x)]))))
        rounding.add(ours, reference)
    small = export.int8(model)
    small_file = formats.write_onnx(export.graph(small, problem), out / "small.onnx")
    front = hf.Front.load(RunFolder(folder).front)
    after = hf.evaluate(small, problem.val, front.rays)
    before, volume = (indicators.hypervolume(f.losses, front.reference) for f in (front, after))
    sizes = [f"{path.stat().st_size / 1e6:.2f}" for path in (file, small_file)]
    lost = f"{before - volume:.1e} ({(before - volume) / before:.3%})" if before else "-"
    change = f"{(after.losses - front.losses).abs().max():.1e}"
    return " | ".join([f"{onnx.size:.1f}", str(onnx), str(rounding), *sizes, f"{before:.5f}", lost, change])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", default=os.environ.get("HYPERFRONT_DATA"))
    parser.add_argument("--runs", type=Path, help="where trained runs are kept")
    parser.add_argument("--rows", type=int, default=64, help="validation rows to compare on")
    parser.add_argument("--rays", type=int, default=5, help="rays to compare at")
    parser.add_argument("--quick", action="store_true", help="smallest settings: shows in seconds that the script runs")
    options = parser.parse_args()
    if options.data_dir is None:
        print("this script needs the data: --data-dir FOLDER, or HYPERFRONT_DATA (see `hyperfront data list`)")
        return
    os.environ["HYPERFRONT_DATA"] = str(options.data_dir)
    torch.set_num_threads(1)
    gaps = ["rows within 1e-5", "largest of these", "of the others"]
    header = ["target", "largest output", *(f"ONNX: {name}" for name in gaps), *(f"float64: {name}" for name in gaps)]
    header += ["MB", "int8 MB", "hypervolume", "lost by int8", "largest change of a loss"]
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    with tempfile.TemporaryDirectory() as scratch:
        for name, training in (QUICK if options.quick else TRAININGS).items():
            folder = (options.runs or Path(scratch)) / name.split(",")[0].replace(" ", "-").lower()
            if not (folder / "front.json").exists():
                train(*training, folder)
            print(f"| {name} | {measure(folder, Path(scratch), options.rows, options.rays)} |", flush=True)


if __name__ == "__main__":
    main()
