"""Requests of the Open Inference Protocol v2: from bytes to tensors.

A body is JSON, or (Triton's binary extension) JSON followed by raw little-endian tensors: the header
``Inference-Header-Content-Length`` gives the length of the JSON, and each tensor its ``binary_data_size``. Anything
invalid is refused with a reason. Memory for a shape is allocated only after its data have arrived.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
import torch

from hyperfront.apps.serve.documents import Blobs, read
from hyperfront.apps.serve.options import Limits
from hyperfront.apps.serve.predictor import Query
from hyperfront.apps.serve.service import RAY, Service
from hyperfront.apps.serve.tensors import DATATYPES, TensorMetadata
from hyperfront.apps.shared.rays import numbers
from hyperfront.apps.shared.refusal import Refusal

HEADER_LENGTH = "inference-header-content-length"
DIMENSIONS = 32
"""The most dimensions of a tensor, and levels of lists in JSON."""
_NUMBERS, _FLOATS = frozenset((int, float, bool)), frozenset((float,))


@dataclass(frozen=True)
class Asked:
    """A decoded request."""

    query: Query
    outputs: list[tuple[int, bool]]
    """The outputs to send, each with a flag for binary data."""
    id: str
    """The id of the request, which the response repeats."""
    seconds: float = math.inf
    """The time for the answer that the client asks for."""


def decode(service: Service, limits: Limits, body: bytes | bytearray, header_length: str | None) -> Asked:
    """Decode the request in ``body``, or raise a :class:`Refusal`."""
    document, blobs = read(body, header_length, limits)
    parameters = _parameters(document, "the request")
    specs = service.by_name
    arrays: dict[str, np.ndarray] = {}
    for entry in _entries(document.get("inputs", []), "inputs"):
        spec = specs.get(entry["name"])
        if spec is None:
            raise Refusal("unknown input", got=repr(entry["name"])[:80], expected="one of " + ", ".join(specs))
        if spec.name in arrays:
            raise Refusal("an input is given twice", got=spec.name)
        arrays[spec.name] = _array(entry, spec, limits, blobs)
    if blobs.left:
        raise Refusal("bytes are left over after the last tensor", got=f"{blobs.left} bytes")
    rays = read_rays(service, arrays.pop(RAY, None), parameters.get(RAY))
    missing = [spec.name for spec in service.inputs if spec.name not in arrays]
    if missing:
        raise Refusal("an input is missing", got=sorted(arrays), expected=missing[0])
    inputs = [arrays[spec.name] for spec in service.inputs]
    query = Query(rays, tuple(torch.from_numpy(array) for array in inputs), _rows(service, inputs, rays, limits))
    outputs = _outputs(document.get("outputs", []), service, parameters)
    for index, _ in outputs:
        size = service.all_outputs[index].size
        if size > 0 and query.rows * size > limits.elements:  # a free size is negative
            raise Refusal("an output would be too large", got=query.rows * size, expected=limits.elements, status=413)
    name = document.get("id", "")
    if not isinstance(name, str):
        raise Refusal("the id of a request is a text", got=type(name).__name__)
    return Asked(query, outputs, name, _seconds(parameters))


def _seconds(parameters: Mapping[str, Any]) -> float:
    """The time for the answer: the parameter ``timeout`` in microseconds, as Triton has it; 0 means no limit."""
    found = parameters.get("timeout", 0)
    if type(found) is not int or found < 0:
        raise Refusal("the timeout of a request is wrong", got=repr(found)[:40], expected="microseconds, at least 0")
    return found / 1e6 or math.inf


def check_index(body: bytes | bytearray, limits: Limits) -> None:
    """Check a request for the list of models: it is empty, or has the flag ``ready``."""
    asked = read(body, None, limits)[0] if body else {}
    if not isinstance(asked.get("ready", True), bool):
        raise Refusal("ready is neither true nor false", got=str(asked["ready"])[:40])


def _parameters(holder: dict[str, Any], what: str) -> dict[str, Any]:
    parameters = holder.get("parameters", {})
    if not isinstance(parameters, dict):
        raise Refusal(f"the parameters of {what} are not an object", got=type(parameters).__name__)
    if shared := [name for name in parameters if name.startswith("shared_memory")]:
        raise Refusal("shared memory is not supported", got=shared[0], fix="send the data in the request")
    return parameters


def _entries(listed: Any, what: str) -> list[dict[str, Any]]:
    if not isinstance(listed, list):
        raise Refusal(f"{what} is not a list", got=type(listed).__name__)
    for entry in listed:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise Refusal(f"an entry of {what} is not an object with a name")
    return listed


def _array(entry: dict[str, Any], spec: TensorMetadata, limits: Limits, blobs: Blobs) -> np.ndarray:
    shape, kind = entry.get("shape"), entry.get("datatype", "")
    allowed = ("FP32", "FP64") if spec.name == RAY else (spec.datatype,)
    if kind not in allowed:
        raise Refusal(f"{spec.name} has the wrong datatype", got=repr(kind)[:40], expected=" or ".join(allowed))
    if (
        not isinstance(shape, list)
        or len(shape) > DIMENSIONS
        or not all(type(s) is int and 0 <= s < 2**40 for s in shape)
    ):
        raise Refusal(f"the shape of {spec.name} is not a list of sizes", got=str(shape)[:80])
    if not (spec.fits(shape) or (spec.name == RAY and spec.fits([1, *shape]))):
        raise Refusal(f"{spec.name} has the wrong shape", got=shape, expected=spec.metadata()["shape"])
    count = math.prod(shape)
    if count > limits.elements:
        raise Refusal(f"{spec.name} is too large", got=f"{count} numbers", expected=f"<= {limits.elements}", status=413)
    size = _parameters(entry, spec.name).get("binary_data_size")
    if size is None:
        return _from_json(entry.get("data"), DATATYPES[kind], spec.name, count).reshape(shape)
    dtype = DATATYPES[kind]
    if "data" in entry:
        raise Refusal(f"{spec.name} has both data and binary_data_size", expected="one of them")
    if type(size) is not int or size != count * dtype.itemsize or size > blobs.left:
        raise Refusal(
            f"the binary_data_size of {spec.name} is wrong",
            got=f"{str(size)[:40]}, with {blobs.left} bytes left in the body",
            expected=f"{count * dtype.itemsize} bytes for {shape} of {kind}",
        )
    raw = np.frombuffer(blobs.body, dtype if kind != "BOOL" else np.uint8, count, blobs.take(size))
    if kind == "BOOL" and (raw > 1).any():
        raise Refusal(f"{spec.name} holds bytes that are neither 0 nor 1")
    return raw.astype(dtype).reshape(shape)  # a copy, aligned for its type


def _from_json(data: Any, dtype: np.dtype, name: str, count: int) -> np.ndarray:
    """Read numbers from one flat list or nested lists; the datatype must be able to represent each."""
    if not isinstance(data, list):
        raise Refusal(f"{name} has no data", expected="a list under data, or binary_data_size")
    found = _numbers(data, name, count)
    kinds = {"b": "b", "f": "iuf"}.get(dtype.kind, "iu")
    if count and found.dtype.kind not in kinds:
        raise Refusal(f"the data of {name} have the wrong type", got=found.dtype, expected=dtype)
    if count and found.dtype == np.float64 and dtype.kind == "f":
        most = _most(dtype)
        if -most < np.minimum.reduce(found) and np.maximum.reduce(found) < most:  # the usual case, in half of the time
            return found.astype(dtype)
    with np.errstate(over="ignore"):
        made = found.astype(dtype)
    exact = np.isfinite(made).all() if dtype.kind == "f" else (made == found).all()
    if not exact:
        raise Refusal(f"the data of {name} are out of range", expected=f"numbers of the range of {dtype}")
    return made


@lru_cache
def _most(dtype: np.dtype) -> float:
    return float(np.finfo(dtype).max)


def _numbers(data: list, name: str, count: int) -> np.ndarray:
    """Flatten nested lists of equal lengths, level by level, to ``count`` numbers.

    Nothing but numbers reaches NumPy: it would pad every text of a list to the length of the longest.
    """
    for _ in range(DIMENSIONS):
        types = set(map(type, data))
        if types <= _NUMBERS:
            break
        if types != {list}:
            other = next(type(value) for value in data if type(value) not in _NUMBERS)
            raise Refusal(f"the data of {name} have the wrong type", got=other.__name__, expected="numbers")
        if len(set(map(len, data))) > 1:
            raise Refusal(f"the data of {name} are no tensor", got="lists of different lengths")
        data = list(chain.from_iterable(data))
    else:
        raise Refusal(f"the data of {name} are nested too deeply", expected=f"at most {DIMENSIONS} levels")
    if len(data) != count:
        raise Refusal(f"{name} has the wrong number of elements", got=len(data), expected=count)
    return np.array(data, np.float64 if types <= _FLOATS else None)  # a stated type saves half of the time


def read_rays(service: Service, tensor: np.ndarray | None, parameter: Any) -> np.ndarray:
    """Read rays ``[R, m]`` from the input or the parameter, a list or a text such as ``"0.3, 0.7"``; a request without
    one gets the default ray of the server, if it has one."""
    objectives = service.objectives
    if tensor is None and parameter is None and service.default_ray is not None:
        return service.default_ray
    if (tensor is None) == (parameter is None):
        raise Refusal(
            "a request needs a ray" if tensor is None else "a request has two rays",
            expected=f"an input {RAY!r} with {len(objectives)} numbers for each row or for all, or a parameter {RAY!r}",
        )
    if tensor is None:
        return _ray(objectives, tuple(numbers(parameter, objectives)))
    return _checked(objectives, tensor)


@lru_cache(1024)
def _ray(objectives: tuple[str, ...], ray: tuple[float, ...]) -> np.ndarray:
    return _checked(objectives, np.array(ray, dtype=np.float64))


def _checked(objectives: tuple[str, ...], tensor: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        rays = tensor.reshape(-1, len(objectives)).astype(np.float32)
    for row in rays.tolist() if len(rays) == 1 else ():
        if all(0 <= entry < math.inf for entry in row) and any(row):
            return rays
    wrong = ~((rays >= 0) & (rays < np.inf)).all(1) | ~rays.any(1)
    if wrong.any():
        raise Refusal(
            f"ray {int(wrong.argmax())} is no preference",
            got=dict(zip(objectives, rays[wrong.argmax()].tolist())),
            expected="non-negative numbers that sum to 1",
        )
    return rays


def _rows(service: Service, inputs: list[np.ndarray], rays: np.ndarray, limits: Limits) -> int:
    counts = {len(array) for array in inputs} or {len(rays)}
    rows = counts.pop()
    if counts:
        raise Refusal("the inputs have different numbers of rows", got=sorted({rows, *counts}))
    if not 1 <= rows <= limits.rows:
        raise Refusal("wrong number of rows", got=rows, expected=f"1 to {limits.rows}", status=413 if rows else 400)
    if len(rays) not in (1, rows):
        raise Refusal("the number of rays is wrong", got=f"{len(rays)} rays, {rows} rows", expected="one, or as many")
    return rows


def _outputs(asked: Any, service: Service, parameters: Mapping[str, Any]) -> list[tuple[int, bool]]:
    names = [spec.name for spec in service.all_outputs]
    default = parameters.get("binary_data_output", False)
    entries = _entries(asked, "outputs")
    if not entries:
        return [(index, default is True) for index in range(len(service.outputs))]
    chosen = []
    for entry in entries:
        if entry["name"] not in names:
            raise Refusal("unknown output", got=repr(entry["name"])[:80], expected="one of " + ", ".join(names))
        wanted = _parameters(entry, entry["name"])
        if wanted.get("classification"):
            raise Refusal("the classification extension is not supported", fix="ask for the output itself")
        chosen.append((names.index(entry["name"]), wanted.get("binary_data", default) is True))
    if len({index for index, _ in chosen}) < len(chosen):
        raise Refusal("an output is asked for twice")
    return chosen
