"""What one process of a job does; `torchrun -m together.member KIND FILE STEPS ...` writes what rank 0 found."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from together.cases import CASES, Case, fitted

DTYPES = {"float64": torch.float64, "float32": torch.float32}


def trained(chosen: list[Case], steps: int) -> dict[str, torch.Tensor]:
    """Train all cases in both precisions; return what each found, by name."""
    found = {}
    for case in chosen:
        for name, dtype in DTYPES.items():
            _, values = fitted(case, steps=steps, dtype=dtype)
            found |= {" ".join([*map(str, case), name, key]): value for key, value in values.items()}
    return found


def main() -> None:
    file, steps, *numbers = sys.argv[1:]
    torch.set_num_threads(1)
    found = trained([CASES[int(number)] for number in numbers], int(steps))
    if int(os.environ.get("RANK", 0)) == 0:
        save_file(found, Path(file))


if __name__ == "__main__":
    main()
