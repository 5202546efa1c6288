"""Architectures by the names that :func:`hyperfront.wrap` takes: a hypernetwork, and an assembly for its output.

name         hypernetwork   assembly    generated
mlp          mlp            Replace     the weights themselves; the paper's
chunked      chunked        Replace     the weights, in chunks from a few matrices; the paper's for large targets
low_rank     mlp            LowRank     factors of low-rank additions to shared weights
  linear     linear         LowRank     the same, linear in the ray (PaLoRA)
film         mlp            Film        scale and shift of features (YOTO)
separate     separate       Replace     nothing: the weights of one model for each of a few rays, side by side
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from torch import nn

from hyperfront.errors import unknown_name
from hyperfront.model.assemblies import Assembly, Film, LowRank, Replace
from hyperfront.model.roles import Rest

NAMES = ("mlp", "chunked", "low_rank", "film", "separate")
MakeAssembly = Callable[[nn.Module, Sequence[str]], Assembly]


class Architecture(NamedTuple):
    """The kind of a hypernetwork, its options, and the assembly that makes tensors of its output."""

    kind: str
    options: dict[str, Any]
    assembly: MakeAssembly


def architecture(name: str, m: int, rest: Rest, options: dict[str, Any]) -> Architecture:
    """Find the architecture of this name. The default of ``base``, an option of low_rank and film, is ``rest``.

    >>> architecture("low_rank", 3, "train", {"rank": 2, "linear": True}).kind
    'linear'
    """
    options = dict(options)
    if name == "low_rank":
        linear = options.pop("linear", False)
        rank, base = options.pop("rank", None), options.pop("base", rest)
        orthogonal = options.pop("orthogonal", False)
        assembly = partial(LowRank, rank=rank, base=base, terms=m if linear else 1, orthogonal=orthogonal)
        return Architecture("linear" if linear else "mlp", options if linear else {"hidden": 32} | options, assembly)
    if name == "film":
        return Architecture("mlp", options, partial(Film, base=options.pop("base", rest)))
    if name not in NAMES:
        raise unknown_name("hypernetwork", name, NAMES)
    return Architecture(name, options, Replace)
