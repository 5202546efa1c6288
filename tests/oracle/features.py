"""The ways in which every module is driven, by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import torch

import hyperfront as hf

RAYS = torch.tensor([[0.5, 0.5], [0.25, 0.75], [0.875, 0.125]], dtype=torch.float64)
"""Rays of the grid on which statistics of BatchNorm are kept."""


@dataclass(frozen=True)
class Feature:
    """One column of the table: what is compared, and how it is set up."""

    compares: Literal["step", "fit", "outputs", "reload", "repeat"] = "step"
    rays: int = 3
    solver: Any = field(default_factory=hf.LS)
    options: dict[str, Any] = field(default_factory=dict)
    """Arguments of :func:`hyperfront.wrap`."""
    half: bool = False
    """Every second tensor is generated; the others are trained directly."""
    checkpointed: bool = False
    """The whole module recomputes its activations in the backward pass."""
    autocast: bool = False
    copied: bool = False
    """The model is deep-copied, and the copy is used."""
    engine: str = "auto"
    streams: bool = True
    """Whether networks on a GPU may run side by side, each on a stream of its own."""
    dtype: torch.dtype = torch.float64


FEATURES = {
    "one ray": Feature(rays=1),
    "loop": Feature(options={"batching": "loop"}),
    "vmap": Feature(options={"batching": "vmap"}),
    "EPO": Feature(solver=hf.EPO()),
    "float32": Feature(dtype=torch.float32),
    "partly generated": Feature(half=True),
    "low rank": Feature(options={"hypernet": "low_rank", "rank": 1}),
    "checkpointing": Feature(checkpointed=True),
    "bf16": Feature(autocast=True, dtype=torch.float32),
    "deepcopy": Feature(copied=True),
    "at(ray)": Feature(compares="outputs"),
    "reload": Feature(compares="reload", dtype=torch.float32),
    "same seed": Feature(compares="repeat"),
    "fit": Feature(compares="fit"),
}
COMPILED = {"compiled": Feature(compares="fit", engine="compiled")}
"""``torch.compile`` takes its time: for the cases that ask for it."""
ON_GPU = {
    "one ray": Feature(rays=1),
    "one after the other": Feature(options={"batching": "loop"}, streams=False),
    "side by side": Feature(options={"batching": "loop"}),
    "vmap": Feature(options={"batching": "vmap"}),
    "auto": Feature(),
    "EPO": Feature(solver=hf.EPO()),
    "EPO side by side": Feature(solver=hf.EPO(), options={"batching": "loop"}),
    "low rank, side by side": Feature(options={"hypernet": "low_rank", "rank": 1, "batching": "loop"}),
    "float32, side by side": Feature(options={"batching": "loop"}, dtype=torch.float32),
    "bf16": Feature(autocast=True, dtype=torch.float32),
    "checkpointing": Feature(checkpointed=True),
    "at(ray)": Feature(compares="outputs"),
    "fit, eager": Feature(compares="fit", engine="eager"),
    "fit, graph": Feature(compares="fit", engine="graph"),
}
"""Every engine and stream setting of a GPU."""
