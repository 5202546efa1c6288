"""The CUDA C kernels on a CPU: compiled by g++ with ``emulator.h`` in place of a GPU, and launched the same way."""

from __future__ import annotations

import ctypes
import functools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from hyperfront.kernels.gpu import conv_relu_pool, cuda_source, hypernet, linear

HEADER = Path(__file__).parent / "emulator.h"
FOLDER = Path(tempfile.mkdtemp(prefix="hyperfront-kernels-"))
needs_compiler = pytest.mark.skipif(
    not torch.cuda.is_available() and shutil.which("g++") is None, reason="needs a GPU, or g++ to stand in for one"
)


@functools.cache
def compiled(file: str, **sizes: int) -> ctypes.CDLL:
    """All kernels of a file, each as a function of grid, block and arguments."""
    source = cuda_source.source(file, **sizes)
    expanded = subprocess.run(
        ["g++", "-E", "-P", "-x", "c++", "-DEMULATED", "-D__global__=KERNEL", "-"],
        input=source, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    callers = []
    for name, parameters in re.findall(
        r'extern "C" KERNEL void\s+(?:__launch_bounds__\(\d+\)\s+)?(\w+)\s*\((.*?)\)\s*\{', expanded, re.S
    ):
        names = ", ".join(re.findall(r"\w+", parameter)[-1] for parameter in parameters.split(","))
        callers.append(
            f'extern "C" void run_{name}(int gx, int gy, int size, {parameters}) '
            f"{{ launch(gx, gy, size, [=] {{ {name}({names}); }}); }}"
        )
    stem = FOLDER / f"kernel{compiled.cache_info().currsize}"
    stem.with_suffix(".cpp").write_text(
        "\n".join([f'#include "{HEADER}"', source, *(caller.replace("__restrict__", "") for caller in callers)])
    )
    command = ["g++", "-O1", "-std=c++17", "-w", "-shared", "-fPIC", f"{stem}.cpp", "-o", f"{stem}.so"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return ctypes.CDLL(f"{stem}.so")


def kernel(file: str, name: str, device: torch.device, **sizes: int) -> Callable[..., None]:
    """Stands in for ``cuda_source._kernel``."""
    run = getattr(compiled(file, **sizes), f"run_{name}")

    def argument(value: Any) -> Any:
        if isinstance(value, Tensor):
            assert value.is_contiguous()
            return ctypes.c_void_p(value.data_ptr())
        return ctypes.c_double(value) if isinstance(value, float) else value

    def launch(grid: tuple[int, int, int], block: tuple[int, int, int], args: list) -> None:
        run(grid[0], grid[1], block[0], *map(argument, args))

    return launch


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run kernels in CUDA C where there is no GPU."""
    if not torch.cuda.is_available():
        monkeypatch.setattr(cuda_source, "_kernel", kernel)
        for module in (conv_relu_pool, linear, hypernet):
            monkeypatch.setattr(module, "available", lambda device: True)
