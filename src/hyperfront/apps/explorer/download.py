"""The plain network at one ray, as a file to take away."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from torch import Tensor

from hyperfront import export
from hyperfront.model import ParetoModel


def plain_model(model: ParetoModel, ray: Tensor) -> bytes:
    """The tensors of ``model.at(ray)`` as a safetensors file; its header describes them."""
    with TemporaryDirectory() as folder:
        weights, _ = export.weights(model, ray, Path(folder) / "model.safetensors")
        return weights.read_bytes()
