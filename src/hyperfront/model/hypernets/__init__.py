"""Hypernetworks: one file per architecture; ``KINDS`` lists them by the name that checkpoints keep."""

from collections.abc import Callable

from hyperfront.model.hypernets.architecture import Architecture, MakeAssembly, architecture
from hyperfront.model.hypernets.base import Hypernet, OwnHypernet
from hyperfront.model.hypernets.chunked import ChunkedHypernet
from hyperfront.model.hypernets.inner import inner_products
from hyperfront.model.hypernets.linear import LinearHypernet
from hyperfront.model.hypernets.mlp import MLPHypernet
from hyperfront.model.hypernets.separate import SeparateHypernet

KINDS: dict[str, Callable[..., Hypernet]] = {
    kind.kind: kind for kind in (MLPHypernet, ChunkedHypernet, LinearHypernet, SeparateHypernet)
}

__all__ = [
    "KINDS",
    "Architecture",
    "ChunkedHypernet",
    "Hypernet",
    "LinearHypernet",
    "MLPHypernet",
    "MakeAssembly",
    "OwnHypernet",
    "SeparateHypernet",
    "architecture",
    "inner_products",
]
