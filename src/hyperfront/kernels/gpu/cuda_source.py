"""Programs in CUDA C, for operations that Triton's blocks do not express well. NVRTC compiles them for each new
shape."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from importlib import resources
from typing import Any

import torch
from torch import Tensor

SHARED = 48 * 1024  # bytes of shared memory that every block may have


def launch(file: str, name: str, grid: tuple[int, int], block: int, *args: Any, **sizes: int) -> None:
    """Run the kernel ``name`` of ``file`` with ``sizes`` as constants, on the device of its tensors."""
    exact = not torch.backends.cuda.matmul.allow_tf32
    device = next(arg.device for arg in args if isinstance(arg, Tensor))
    with torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext():
        run = _kernel(file, name, device, EXACT=int(exact), **sizes)
        run(grid=(*grid, 1), block=(block, 1, 1), args=list(args))


@functools.cache
def _kernel(file: str, name: str, device: torch.device, **sizes: int) -> Callable[..., None]:
    return torch.cuda._compile_kernel(source(file, **sizes), name)


def source(file: str, **sizes: int) -> str:
    """Return the text of a file after the definitions of its constants."""
    here = resources.files(__package__)
    constants = "".join(f"#define {key} {value}\n" for key, value in sizes.items())
    return constants + here.joinpath("products.cu").read_text() + here.joinpath(file).read_text()


def available(device: torch.device) -> bool:
    """Whether PyTorch has NVRTC, and the GPU has the instructions."""
    return hasattr(torch.cuda, "_compile_kernel") and torch.cuda.get_device_capability(device) >= (8, 0)


def up(count: int, multiple: int) -> int:
    """Return how many times ``multiple`` is needed for ``count``, rounded up."""
    return -(-count // multiple)
