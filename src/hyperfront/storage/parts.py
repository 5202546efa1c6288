"""The parts of a safetensors file, one after another, without a copy of its tensors.

The library makes the whole file in memory, from a copy of every tensor: three times the size of a checkpoint, which has
the weights four times (with Adam's two averages and the best weights so far). The format is simple: the length of the
header as a 64-bit number, the header as JSON, the bytes of the tensors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

NAMES = {
    torch.complex64: "C64",
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e4m3fnuz: "F8_E4M3FNUZ",
    torch.float8_e5m2: "F8_E5M2",
    torch.float8_e5m2fnuz: "F8_E5M2FNUZ",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""The names of types in the format."""
ALIGNED = 8
"""The header's length is a multiple of this, so that every tensor starts at a multiple of its item size."""


def parts_of(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> Iterator[bytes | memoryview]:
    """Yield the parts of a file with these contiguous tensors of the CPU; equal content makes equal bytes.

    >>> file = b"".join(parts_of({"x": torch.ones(2)}, {"made": "here"}))
    >>> from safetensors.torch import load
    >>> load(file)
    {'x': tensor([1., 1.])}
    """
    order = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))  # the widest first: all are aligned
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name in order:
        tensor, start = tensors[name], end
        end += tensor.nbytes
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNED)
    yield len(text).to_bytes(8, "little")
    yield text
    for name in order:
        yield tensors[name].reshape(-1).view(torch.uint8).numpy().data
