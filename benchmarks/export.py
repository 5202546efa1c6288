"""How far an exported front is from PyTorch, and what int8 heads save and cost: the paper's four targets on their data.

Short trainings through the command line, then for each front, on validation rows and several rays:

- ONNX in onnxruntime against PyTorch: the largest difference of any output, and how many differ by more than 1e-5
  (absolute, and relative to the largest output);
- the same for PyTorch against itself in float64, which tells rounding from mistakes;
- sizes of the file with heads in float32 and in int8, and the hypervolume that int8 costs.

    python benchmarks/export.py --data-dir FOLDER [--runs FOLDER]       the second keeps the trained runs
"""

from __future__ import annotations

import argparse
import copy
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import hyperfront as hf
from hyperfront import export, metrics
from hyperfront.batches import map_tensors, tensors
from hyperfront.export import agreement, files
from hyperfront.runs import RunFolder, recorded_problem

TRAININGS = {
    "LeNet": "multi-mnist --preset quick --epochs 3 --arguments rows=18000",
    "ResNet18, chunked": "multi-mnist --preset resnet18-1m --epochs 2 --batch-size 32 --rays 3 --arguments rows=2048",
    "ENet": "nyuv2 --preset quick --epochs 4 --arguments rows=200",
    "fairness MLP": "adult --preset quick",
}


def train(words: str, out: Path) -> None:
    code = "from hyperfront.cli import main; main()"
    command = [sys.executable, "-c", code, "train", *words.split(), "--device", "cpu", "--out", str(out)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ)


class Gaps:
    """Differences of two lists of outputs, kept as their largest and as counts."""

    def __init__(self):
        self.absolute, self.relative, self.beyond, self.count = 0.0, 0.0, 0, 0

    def add(self, first: list[torch.Tensor], second: list[torch.Tensor]) -> None:
        for a, b in zip(first, second, strict=True):
            gap = (a.double() - b.double()).abs()
            self.absolute = max(self.absolute, float(gap.max()))
            self.relative = max(self.relative, float(gap.max() / a.abs().max().clamp_min(1)))
            self.beyond += int((gap > 1e-5).sum())
            self.count += gap.numel()

    def __str__(self) -> str:
        return f"{self.absolute:.1e} | {self.relative:.1e} | {self.beyond:,} of {self.count:,}"


def measure(folder: Path, out: Path, rows: int, rays: int) -> str:
    model = hf.load(folder)
    problem = recorded_problem(model.record, most=model.target.n)
    graph = export.graph(model, problem)
    file = files.write_onnx(graph, out / "front.onnx")
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
    small_file = files.write_onnx(export.graph(small, problem), out / "small.onnx")
    front = hf.Front.load(RunFolder(folder).front)
    after = hf.evaluate(small, problem.val, front.rays)
    before, volume = (metrics.hypervolume(f.losses, front.reference) for f in (front, after))
    sizes = [f"{path.stat().st_size / 1e6:.2f}" for path in (file, small_file)]
    lost = f"{before - volume:.1e} ({(before - volume) / before:.3%})"
    return " | ".join([str(onnx), str(rounding), *sizes, f"{before:.5f}", lost])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", default=os.environ.get("HYPERFRONT_DATA"))
    parser.add_argument("--runs", type=Path, help="where trained runs are kept")
    parser.add_argument("--rows", type=int, default=64, help="validation rows to compare on")
    parser.add_argument("--rays", type=int, default=5, help="rays to compare at")
    options = parser.parse_args()
    if options.data_dir is None:
        print("this needs the data: --data-dir FOLDER, or HYPERFRONT_DATA (see `hyperfront data list`)")
        return
    os.environ["HYPERFRONT_DATA"] = str(options.data_dir)
    torch.set_num_threads(1)
    gaps = ["largest", "relative", "beyond 1e-5"]
    header = ["target", *(f"ONNX: {name}" for name in gaps), *(f"float64: {name}" for name in gaps)]
    print("| " + " | ".join([*header, "MB", "int8 MB", "hypervolume", "lost by int8"]) + " |")
    print("|" + "---|" * 11)
    with tempfile.TemporaryDirectory() as scratch:
        for name, words in TRAININGS.items():
            folder = (options.runs or Path(scratch)) / name.split(",")[0].replace(" ", "-").lower()
            if not (folder / "front.json").exists():
                train(words, folder)
            print(f"| {name} | {measure(folder, Path(scratch), options.rows, options.rays)} |", flush=True)


if __name__ == "__main__":
    main()
