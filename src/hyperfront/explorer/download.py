"""The plain network at one ray, as a file to take away."""

from __future__ import annotations

import json

from safetensors.torch import save
from torch import Tensor

from hyperfront.model import ParetoModel


def plain_model(model: ParetoModel, ray: Tensor) -> bytes:
    """The tensors of ``model.at(ray)`` as a safetensors file; the ray is in its header."""
    # clone: tied weights share memory, and a file cannot
    tensors = {name: tensor.cpu().contiguous().clone() for name, tensor in model.at(ray).state_dict().items()}
    ray_by_name = dict(zip(model.objectives, ray.flatten().tolist()))
    return save(tensors, metadata={"ray": json.dumps(ray_by_name)})  # one key: its bytes do not depend on an order
