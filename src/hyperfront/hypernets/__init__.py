"""Hypernetworks: one file per architecture; ``KINDS`` lists them by the name that checkpoints keep."""

from collections.abc import Callable

from hyperfront.hypernets.architecture import Architecture, MakeAssembly, architecture
from hyperfront.hypernets.base import Hypernet, OwnHypernet
from hyperfront.hypernets.chunked import ChunkedHypernet
from hyperfront.hypernets.inner import inner_products
from hyperfront.hypernets.linear import LinearHypernet
from hyperfront.hypernets.mlp import MLPHypernet
from hyperfront.hypernets.separate import SeparateHypernet

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
