"""Hypernetworks: one file per architecture; ``KINDS`` lists them by the name that ``hyperfront.wrap`` takes."""

from hyperfront.hypernets.base import Hypernet, OwnHypernet
from hyperfront.hypernets.mlp import MLPHypernet

KINDS: dict[str, type[MLPHypernet]] = {MLPHypernet.kind: MLPHypernet}

__all__ = ["KINDS", "Hypernet", "MLPHypernet", "OwnHypernet"]
