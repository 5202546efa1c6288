"""Assemblies make the tensors of a module from ``theta``; one file each, listed by name in ``ASSEMBLIES``.

Replace     W = theta               theta holds the chosen tensors
LowRank     W = W0 + B A            theta holds the factors
Film        w' = s w, b' = s b + t  theta holds scales and shifts
"""

from hyperfront.model.assemblies.base import Assembly, Part
from hyperfront.model.assemblies.film import Film
from hyperfront.model.assemblies.low_rank import LowRank
from hyperfront.model.assemblies.replace import Replace

ASSEMBLIES: dict[str, type[Assembly]] = {kind.kind: kind for kind in (Replace, LowRank, Film)}

__all__ = ["ASSEMBLIES", "Assembly", "Film", "LowRank", "Part", "Replace"]
