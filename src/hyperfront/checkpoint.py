"""Files that hold no code: one safetensors file, with a JSON document in its header, written atomically.

The document always has ``format`` and ``schema``. Nested states (of an optimiser, a schedule) are split into a JSON
tree and a flat table of tensors by :func:`pack` and put together again by :func:`unpack`.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from hyperfront.errors import CheckpointError

FORMAT, SCHEMA = "hyperfront", 1


def write(path: Path, tensors: dict[str, Tensor], document: dict[str, Any]) -> None:
    """Write tensors and document to ``path``; a reader sees the old file or the new one, never half of it."""
    text = _dumps({"format": FORMAT, "schema": SCHEMA, **document})
    # clone: tensors that share memory cannot be stored; one metadata key: its bytes do not depend on an order
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    write_bytes(path, save(plain, metadata={"hyperfront": text}))


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors (on the CPU) and the document of a checkpoint."""
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
            fix="use another copy of it, or remove the folder of the run, which is then trained anew",
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
    if document.get("schema") != SCHEMA:
        raise CheckpointError(
            "the checkpoint has a schema that this version does not read",
            got=document.get("schema"),
            expected=SCHEMA,
            fix="use the version of hyperfront that wrote it",
        )
    return tensors, document


def write_bytes(path: Path, data: bytes) -> None:
    """Atomic write: a temporary file beside ``path``, flushed to disk, then renamed over it."""
    path = Path(path)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = file.name
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())  # temporary files are private, results are not
        os.replace(temporary, path)
    except OSError as error:
        raise CheckpointError(
            "cannot write", got=f"{path}: {error.strerror or error}", fix="choose a folder that you may write to"
        ) from error
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)  # gone already, unless something went wrong


def make_folder(path: Path) -> None:
    """The folder and those above it, where they are not there yet."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(
            "cannot make the folder", got=f"{path}: {error.strerror}", fix="choose one that you may write to"
        ) from None


def refuse_unwritable(path: Path, *, again: bool = False) -> None:
    """An error for a file that could not be written later, or that exists and is not to be written again."""
    nearest = next(parent for parent in path.absolute().parents if parent.exists())
    if path.is_dir() or not nearest.is_dir() or not os.access(nearest, os.W_OK):
        why = f"{path} is a folder" if path.is_dir() else f"{nearest} is no folder that may be written to"
        raise CheckpointError("cannot write", got=f"{path}: {why}", fix="choose another place")
    if path.exists() and not again:
        raise CheckpointError("the file exists already", got=path, fix="choose another name, or remove it")


def write_json(path: Path, document: Any) -> None:
    write_bytes(path, (_dumps(document, indent=2) + "\n").encode())


def _dumps(document: Any, indent: int | None = None) -> str:
    try:
        return json.dumps(document, indent=indent, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CheckpointError(
            "this cannot be stored as JSON", got=error, expected="texts and finite numbers", fix="look for NaN losses"
        ) from None


def read_json(path: Path) -> Any:
    try:
        return json.loads(Path(path).read_text())
    except FileNotFoundError:
        raise CheckpointError("there is no such file", got=path) from None
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError("the file is not readable as JSON", got=f"{path}: {error}") from None


def pack(state: Any, prefix: str, tensors: dict[str, Tensor]) -> Any:
    """``state`` as JSON, with its tensors moved into the table under names that begin with ``prefix``.

    >>> table = {}
    >>> pack({0: {"step": torch.ones(1)}, "lr": [0.1]}, "opt", table)
    {'dict': [[0, {'dict': [['step', {'tensor': 'opt.0.step'}]]}], ['lr', [0.1]]]}
    """
    if isinstance(state, Tensor):
        while prefix in tensors:  # keys that read alike, such as 0 and "0"
            prefix += "'"
        tensors[prefix] = state
        return {"tensor": prefix}
    if isinstance(state, dict):  # as pairs, since JSON has no integer keys
        return {"dict": [[key, pack(value, f"{prefix}.{key}", tensors)] for key, value in state.items()]}
    if isinstance(state, list):
        return [pack(value, f"{prefix}.{index}", tensors) for index, value in enumerate(state)]
    if isinstance(state, tuple):
        return {"tuple": pack(list(state), prefix, tensors)}
    if state is None or isinstance(state, bool | int | float | str):
        return state
    raise CheckpointError(
        "the training state holds something that is neither a number, a text nor a tensor",
        got=f"{type(state).__name__} at {prefix}",
        fix="use an optimiser and a schedule with plain states",
    )


def unpack(tree: Any, tensors: dict[str, Tensor]) -> Any:
    """The inverse of :func:`pack`."""
    if isinstance(tree, list):
        return [unpack(value, tensors) for value in tree]
    if isinstance(tree, dict):
        (kind, content), *_ = tree.items()
        if kind == "tensor":
            return tensors[content]
        if kind == "tuple":
            return tuple(unpack(content, tensors))
        return {key: unpack(value, tensors) for key, value in content}
    return tree


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def load_into(module: torch.nn.Module, tensors: dict[str, Tensor]) -> None:
    """Load a state dict; or an error that names what does not fit, with the module as it was."""
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
