"""Responses of the Open Inference Protocol v2: from tensors to bytes, as JSON or binary data."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from torch import Tensor

from hyperfront.apps.serve.requests import Asked
from hyperfront.apps.serve.service import Service
from hyperfront.apps.shared.refusal import Refusal

WORTH_PACKING = 1024
"""Size in bytes from which a response is compressed."""


@dataclass(frozen=True)
class Reply:
    """The bytes of a response; the first ``header_length`` are JSON, if binary data follow."""

    body: bytes
    header_length: int | None


def encode(service: Service, asked: Asked, outputs: Sequence[Tensor], most: int) -> Reply:
    """Make the response to a request; at most ``most`` numbers may be JSON."""
    if sum(outputs[index].numel() for index, binary in asked.outputs if not binary) > most:
        raise Refusal(
            "the outputs are too large for JSON",
            expected=f"at most {most} numbers",
            fix='ask for them with the parameter "binary_data_output": true',
            status=413,
        )
    entries, blobs = [], []
    for index, binary in asked.outputs:
        spec, array = service.all_outputs[index], outputs[index].numpy()
        entry: dict[str, Any] = {"name": spec.name, "datatype": spec.datatype, "shape": list(array.shape)}
        if binary:
            blobs.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8))  # no copy
            entry["parameters"] = {"binary_data_size": array.nbytes}
        else:
            entry["data"] = _to_json(array, spec.name)
        entries.append(entry)
    document: dict[str, Any] = {"model_name": service.name, "model_version": service.version, "outputs": entries}
    if asked.id:
        document["id"] = asked.id
    text = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    return Reply(b"".join([text, *blobs]), len(text) if blobs else None)


def _to_json(array: np.ndarray, name: str) -> Any:
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.kind == "f" and not np.isfinite(flat).all():
        raise Refusal(
            f"the output {name} at these inputs is NaN or infinite, which JSON cannot represent",
            fix='ask for it with the parameter "binary_data": true',
            status=422,
        )
    return flat if flat.dtype != np.float16 else flat.astype(np.float32)


def pack(body: bytes, accepted: str) -> tuple[bytes, str | None]:
    """Compress the body in an encoding that the client accepts, and name the encoding."""
    if len(body) < WORTH_PACKING:
        return body, None
    offered = {name.partition(";")[0].strip().lower() for name in accepted.split(",")}
    if "gzip" in offered:
        return gzip.compress(body, compresslevel=1, mtime=0), "gzip"
    if "deflate" in offered:
        return zlib.compress(body, 1), "deflate"
    return body, None
