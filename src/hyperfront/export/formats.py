"""Graphs as files, written whole or not at all: ``torch.export`` (.pt2) and ONNX."""

from __future__ import annotations

import importlib.util
import io
import json
from pathlib import Path
from typing import Any

import torch

from hyperfront.errors import HyperfrontError
from hyperfront.errors.signatures import checked
from hyperfront.export.graph import Graph, graph
from hyperfront.export.tracing import quiet, reason
from hyperfront.model import ParetoModel
from hyperfront.problem import Problem
from hyperfront.storage import files
from hyperfront.storage.batches import Batch

LARGEST = 2**31 - 2**20  # bytes that fit into one ONNX file, with some to spare for the graph


@checked
def pt2(model: ParetoModel, path: str | Path, like: Batch | Problem, *, ray: Any = None) -> Path:
    """Write the front, or the network at ``ray``, for ``torch.export.load(path).module()``.

    The front is called with ``(ray, *inputs)``, a network with ``(*inputs)``; the batch may have any size. ``like`` is
    a batch of inputs, or the problem (see :func:`hyperfront.export.graph`).
    """
    return write_pt2(graph(model, like, ray), Path(path))


@checked
def onnx(model: ParetoModel, path: str | Path, like: Batch | Problem, *, ray: Any = None) -> Path:
    """Write the front, or the network at ``ray``, as ONNX. Inputs are ``ray`` and the arguments of ``forward``."""
    check_onnx()
    return write_onnx(graph(model, like, ray), Path(path))


def write_pt2(graph: Graph, path: Path) -> Path:
    buffer, program = io.BytesIO(), graph.program
    with quiet():
        torch.export.save(program, buffer, extra_files={"hyperfront.json": json.dumps(graph.document)})
    files.write_bytes(path, buffer.getvalue())
    return path


def write_onnx(graph: Graph, path: Path) -> Path:
    size = sum(t.numel() * t.element_size() for t in [*graph.module.parameters(), *graph.module.buffers()])
    if size > LARGEST:
        raise HyperfrontError(
            "the graph is too large for one ONNX file",
            got=f"{size / 2**30:.1f} GiB of weights",
            expected="less than 2 GiB",
            fix="export to .pt2, or with int8 heads",
        )
    program = graph.program
    try:
        with quiet():
            made = torch.onnx.export(
                program,
                dynamo=True,
                input_names=list(graph.inputs),
                output_names=list(graph.outputs),
                external_data=False,
                verbose=False,
            )
    except Exception as error:  # any error of the exporter in a user's module
        raise HyperfrontError(
            "the module cannot be written as ONNX", got=reason(error), fix="export to .pt2, which holds any graph"
        ) from error
    assert made is not None  # it is None only if the exporter writes the file itself
    _name_batch(made.model, graph)
    made.model.metadata_props["hyperfront"] = json.dumps(graph.document)
    files.write_bytes(path, made.model_proto.SerializeToString())
    return path


def _name_batch(model: Any, graph: Graph) -> None:
    """Name the size of the batch, where the tracer has invented a name."""
    symbols = {str(value.shape[0]) for value in model.graph.inputs if value.name in graph.batched}
    for value in [*model.graph.inputs, *model.graph.outputs]:
        for axis, size in enumerate(value.shape or ()):
            if str(size) in symbols:
                value.shape[axis] = "batch"


def check_onnx() -> None:
    """Raise an error with the install command, if the packages for ONNX are missing."""
    missing = [name for name in ("onnx", "onnxscript", "onnxruntime") if importlib.util.find_spec(name) is None]
    if missing:
        raise HyperfrontError(
            "ONNX files need packages that are not installed",
            got=f"no {', '.join(missing)}",
            fix="pip install 'hyperfront[export]', or export to other formats (--formats pt2)",
        )
