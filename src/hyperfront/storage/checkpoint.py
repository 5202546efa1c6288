"""Files that hold no code: one safetensors file, with a JSON document in its header, written atomically.

The document always has ``format`` and ``schema``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from hyperfront.errors import CheckpointError
from hyperfront.storage.files import dumps, write_bytes
from hyperfront.storage.schemas import respell, upgrade

FORMAT = "hyperfront"
STEPS = (respell,)
SCHEMA = len(STEPS) + 1


def write(path: Path, tensors: dict[str, Tensor], document: dict[str, Any]) -> None:
    """Write tensors and document to ``path`` atomically: a reader sees the old file or the new one."""
    text = dumps({"format": FORMAT, "schema": SCHEMA, **document})
    # clone: tensors that share memory cannot be stored; one metadata key: the order of keys could differ
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    write_bytes(path, save(plain, metadata={"hyperfront": text}))


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors (on the CPU) and the document of a checkpoint."""
    path = Path(path)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except FileNotFoundError:
        raise CheckpointError("there is no checkpoint", got=path, fix="check the path of the run") from None
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise CheckpointError(
            "the checkpoint is damaged or not a safetensors file",
            got=f"{path}: {error}",
            fix="use another copy of it, or remove the run folder and train again",
        ) from None
    try:
        document = json.loads(metadata["hyperfront"])
        if document["format"] != FORMAT:
            raise ValueError(document["format"])
    except (KeyError, TypeError, ValueError, RecursionError):
        raise CheckpointError(
            "the file is a safetensors file, but not a hyperfront checkpoint",
            got=f"{path} with metadata {sorted(metadata)}",
            expected="a file written by ParetoModel.save or hyperfront.fit",
        ) from None
    return tensors, upgrade(document, STEPS, path)


def load_into(module: torch.nn.Module, tensors: dict[str, Tensor]) -> None:
    """Load a state dict, or raise an error that names the tensors that do not fit and leave the module unchanged."""
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        module.load_state_dict(before)
        raise CheckpointError(
            "the checkpoint does not fit the model",
            got=" ".join(str(error).split("\n")[1:3]).strip(),
            fix="build the target and hypernetwork with the same arguments as in training",
        ) from None
