"""Tensors as the protocol describes them: datatypes, and the shapes of inputs and outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from hyperfront.errors import HyperfrontError

DATATYPES: dict[str, np.dtype] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype("<u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("<i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
}
"""The protocol's names of the types that tensors and arrays share; modules take no texts (BYTES)."""
_OF_TORCH = {torch.from_numpy(np.zeros(1, dtype)).dtype: name for name, dtype in DATATYPES.items()}


@dataclass(frozen=True)
class TensorMetadata:
    """An input or output: its name, datatype, and the shape of one row, with -1 for a free size.

    >>> TensorMetadata("x", "FP32", (1, 36, 36)).metadata()
    {'name': 'x', 'datatype': 'FP32', 'shape': [-1, 1, 36, 36]}
    """

    name: str
    datatype: str
    shape: tuple[int, ...]

    @cached_property
    def dtype(self) -> np.dtype:
        return DATATYPES[self.datatype]

    def metadata(self) -> dict[str, Any]:
        return {"name": self.name, "datatype": self.datatype, "shape": [-1, *self.shape]}

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether a tensor of that shape, rows first, is valid for this input."""
        own, given = self.shape, tuple(shape[1:])
        return len(shape) > 0 and (
            given == own or (len(given) == len(own) and all(a in (-1, b) for a, b in zip(own, given)))
        )

    def zeros(self, rows: int, *, free: int = 1) -> torch.Tensor:
        """Rows of zeros, with the size ``free`` in free dimensions."""
        return torch.from_numpy(np.zeros([rows, *(free if size < 0 else size for size in self.shape)], self.dtype))

    @cached_property
    def size(self) -> int:
        """Numbers in one row."""
        return math.prod(self.shape)


def datatype(dtype: torch.dtype, what: str) -> str:
    """The protocol's name of a type, or an error that names the tensor that cannot be served."""
    if dtype not in _OF_TORCH:
        raise HyperfrontError(
            f"{what} cannot be served", got=dtype, expected="one of " + ", ".join(map(str, _OF_TORCH))
        )
    return _OF_TORCH[dtype]


def parse(text: str) -> TensorMetadata:
    """Parse an input from the command line: name, datatype, and sizes of one row.

    >>> parse("x:FP32:1,36,-1")
    TensorMetadata(name='x', datatype='FP32', shape=(1, 36, -1))
    """
    name, kind, sizes = (*text.split(":"), "", "", "")[:3]
    try:
        shape = tuple(int(size) for size in sizes.split(",") if size)
        if not name or kind not in DATATYPES or text.count(":") != 2 or any(s < 1 and s != -1 for s in shape):
            raise ValueError
    except ValueError:
        raise HyperfrontError(
            "an input has the wrong form",
            got=repr(text),
            expected="NAME:DATATYPE:SIZES of one row, such as x:FP32:1,36,36, with -1 for a size that is free",
        ) from None
    return TensorMetadata(name, kind, shape)
