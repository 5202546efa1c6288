"""Files that hold no code: one safetensors file, with a JSON document in its header, written atomically.

The document always has ``format`` and ``schema``. Since schema 3 a line with the document's checksum follows it, and
the document holds the checksum of every tensor (:mod:`hyperfront.storage.checksums`); every read verifies all of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from hyperfront.errors import CheckpointError, DamagedError
from hyperfront.storage import checksums
from hyperfront.storage.files import dumps, write_bytes
from hyperfront.storage.schemas import Format, respell

FORMAT = Format("hyperfront", steps=(respell, lambda document: document))
SCHEMA = FORMAT.schema
CHECKED = 3
"""The first schema with checksums."""


def write(path: Path, tensors: dict[str, Tensor], document: dict[str, Any], *, previous: Path | None = None) -> None:
    """Write tensors and document to ``path`` atomically: a reader sees the old file or the new one.

    The old file is kept as ``previous``, if that is given.
    """
    from hyperfront.storage.parts import parts_of  # which only files that are written need

    plain = {name: tensor.detach().cpu().resolve_conj().resolve_neg().contiguous() for name, tensor in tensors.items()}
    text = dumps(FORMAT.stamp({"checksums": checksums.of_tensors(plain), **document}))
    checked = f"{text}\n{checksums.of_text(text)}"
    write_bytes(path, parts_of(plain, {"hyperfront": checked}), previous=previous)


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors (on the CPU) and the document of a checkpoint, and compare them with their checksums."""
    path = Path(path)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except FileNotFoundError:
        raise CheckpointError("there is no checkpoint", got=path, fix="check the path of the run") from None
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise _damage("the checkpoint is damaged or not a safetensors file", f"{path}: {error}") from None
    if "hyperfront" not in metadata:
        raise DamagedError(  # a flipped bit in the key looks the same as a file of another program
            "the file is a safetensors file, but not a hyperfront checkpoint, or it is damaged",
            got=f"{path} with metadata {sorted(metadata)}",
            expected="a file written by ParetoModel.save or hyperfront.fit",
        )
    document = _document(metadata["hyperfront"], path)
    if (stored := document.pop("checksums", None)) is not None and (wrong := _wrong(tensors, stored)):
        raise _damage("the checkpoint is damaged: tensors differ from their checksums", f"{path}: {wrong}")
    return tensors, FORMAT.upgrade(document, path)


def _document(checked: str, path: Path) -> dict[str, Any]:
    """The document in the header, compared with its checksum; older schemas have none."""
    text, line, checksum = checked.rpartition("\n")
    if line and checksums.of_text(text) != checksum:
        raise _damage("the checkpoint is damaged: its document differs from its checksum", path)
    try:
        document = json.loads(text if line else checked)
        if document["format"] != FORMAT.name:
            raise ValueError(f"format {document['format']!r}")
        if not line and isinstance(document.get("schema"), int) and document["schema"] >= CHECKED:
            raise ValueError("no checksum")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise _damage("the document of the checkpoint is damaged", f"{path}: {error!r}") from None
    return document


def _wrong(tensors: dict[str, Tensor], stored: Any) -> str:
    """The tensors that differ from their checksums, as a text."""
    names = checksums.damaged(tensors, stored) if isinstance(stored, dict) else ["all of them"]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _damage(what: str, got: object) -> DamagedError:
    return DamagedError(
        what, got=got, fix="use another copy of the file; hyperfront.fit(resume=True) continues from the previous one"
    )


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
