"""Checksums of a checkpoint's tensors and of its document, which detect damage on disk and in transfer.

A checksum is the CRC-32 of dtype, shape and bytes. It detects every flipped bit, every damaged run of up to 32 bits,
and other damage except once in 2**32 times. CRC-32 reads 2 to 3 GB/s, about ten times as much as BLAKE2. It is no
signature: a forger can compute it as well.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import torch
from torch import Tensor


def of_text(text: str) -> str:
    """The checksum of a text.

    >>> of_text("hyperfront")
    '7657928f'
    """
    return f"{zlib.crc32(text.encode()):08x}"


def of_tensor(tensor: Tensor) -> str:
    """The checksum of a tensor on the CPU: its dtype, shape and bytes."""
    start = zlib.crc32(f"{tensor.dtype} {list(tensor.shape)}".encode())
    content = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data
    return f"{zlib.crc32(content, start):08x}"


def of_tensors(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    return {name: of_tensor(tensor) for name, tensor in tensors.items()}


def damaged(tensors: Mapping[str, Tensor], stored: Mapping[str, str]) -> list[str]:
    """Names of the tensors that differ from their checksums, are missing, or have none."""
    found = of_tensors(tensors)
    return sorted(name for name in found.keys() | stored.keys() if found.get(name) != stored.get(name))
