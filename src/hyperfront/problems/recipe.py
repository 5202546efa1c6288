"""What trains a built-in problem well: its presets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hyperfront.problem import Problem


@dataclass(frozen=True)
class Recipe:
    """Settings for training a Pareto hypernetwork on a built-in problem."""

    epochs: int = 30
    """Passes over the data; an epoch of an analytic problem has 100 steps."""
    rays_per_step: int = 1
    batch_size: int = 256
    lr: float = 1e-3
    schedule: str = "cosine"
    warmup: int = 0
    alpha: float = 0.2
    """Rays are drawn from Dirichlet(alpha)."""
    align: bool = False
    """Whether rays are aligned on the validation data (:func:`hyperfront.align`), where they ask for a balance."""
    evaluation_rays: int = 25
    validate_every: int = 1
    model: Mapping[str, Any] = field(default_factory=dict)
    """Options of :func:`hyperfront.wrap`: the hypernetwork and its size."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the problem, where they differ from its defaults."""


@dataclass(frozen=True)
class Entry:
    """A built-in problem: how it is made, and recipes by name, of which the first is used unless another is asked for.

    Problems with data have four: ``quick`` (minutes on two cores), ``smoke`` (seconds, to see that it runs), ``paper``
    (the settings of its appendix A) and ``best`` (ours).
    """

    make: Callable[..., Problem]
    summary: str
    presets: Mapping[str, Recipe]
