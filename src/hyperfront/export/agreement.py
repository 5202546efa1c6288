"""The agreement of an exported file with PyTorch: both run on the same inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hyperfront.errors import HyperfrontError
from hyperfront.export.graph import RAY, Graph
from hyperfront.export.tracing import quiet
from hyperfront.preferences import Dirichlet
from hyperfront.storage.nests import tensors

BAR = 1e-5
Runner = Callable[[dict[str, Tensor]], list[Tensor]]


@dataclass(frozen=True)
class Agreement:
    """Differences of all numbers, relative to the largest number of their output if that is above 1."""

    largest: float
    beyond: float
    """Share of the numbers that differ by more than 1e-5. A network that uses the place of a maximum, as ENet does, may
    find another place if two values are equal up to rounding, and differ around it; other numbers agree."""

    def __str__(self) -> str:
        if not self.largest:
            return "equal to PyTorch"
        if not self.beyond:
            return f"within {self.largest:.1e} of PyTorch"
        return f"within {BAR:g} of PyTorch except for {self.beyond:.1e} of the numbers (at most {self.largest:.1e})"


def compare(graph: Graph, path: Path, inputs: list[dict[str, Tensor]] | None = None) -> Agreement:
    """Compare the file at ``path`` with its graph, on ``inputs`` (by default a few). Raise an error if more than a
    hundredth of the numbers differ."""
    run = runner(graph, path)
    gaps = []
    for values in inputs or _examples(graph):
        for expected, found in zip(graph(values), run(values), strict=True):
            expected, found = expected.double(), found.double()
            gaps.append((expected - found).abs().flatten() / expected.abs().max().clamp_min(1))
    gap = torch.cat(gaps)
    agreement = Agreement(float(gap.max()), float((~(gap <= BAR)).double().mean()))
    if agreement.beyond > 0.01:
        raise HyperfrontError(
            "the exported file computes other numbers than PyTorch",
            got=f"{path.name}: {agreement}",
            fix="use another format, and report the module that was exported",
        )
    return agreement


def runner(graph: Graph, path: Path) -> Runner:
    """Load the file as a function of named inputs, in onnxruntime or in PyTorch."""
    if path.suffix != ".onnx":
        with quiet():
            module = torch.export.load(path).module()

        @torch.no_grad()
        def run(inputs: dict[str, Tensor]) -> list[Tensor]:
            return tensors(module(*inputs.values()))

        return run
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session: Any = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run_onnx(inputs: dict[str, Tensor]) -> list[Tensor]:
        feed = {name: tensor.numpy() for name, tensor in inputs.items()}
        return [torch.from_numpy(array) for array in session.run(list(graph.outputs), feed)]

    return run_onnx


def _examples(graph: Graph) -> list[dict[str, Tensor]]:
    """Example inputs: one row and all rows; for a front, at four rays."""
    m, generator = len(graph.document["objectives"]), torch.Generator().manual_seed(0)
    found = []
    for ray in Dirichlet(1.0).sample(4 if RAY in graph.inputs else 1, m, generator):
        for rows in (1, None):
            inputs = {name: t[:rows] if name in graph.batched else t for name, t in graph.inputs.items()}
            found.append(inputs | ({RAY: ray.to(inputs[RAY])} if RAY in inputs else {}))
    return found
