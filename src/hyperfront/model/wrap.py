"""Turn any ``nn.Module`` into a model of its whole Pareto front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, Literal

import torch
from torch import nn

from hyperfront.errors import HyperfrontError, ProblemError, TargetError, shown, unknown_name
from hyperfront.errors.signatures import checked_except
from hyperfront.model.assemblies import Replace
from hyperfront.model.hypernets import KINDS, Architecture, Hypernet, MakeAssembly, OwnHypernet, architecture
from hyperfront.model.pareto_model import ParetoModel
from hyperfront.model.roles import Generate, Rest
from hyperfront.model.sharded import refuse_sharded
from hyperfront.model.target import Target


@checked_except("module", "objectives")
def wrap(
    module: nn.Module,
    objectives: Sequence[str],
    *,
    hypernet: str | nn.Module = "mlp",
    generate: Generate = "*",
    rest: Rest = "train",
    assembly: MakeAssembly | None = None,
    batching: Literal["auto", "loop", "vmap"] = "auto",
    batchnorm: Literal["grid", "batch", "shared"] = "grid",
    **options: Any,
) -> ParetoModel:
    """Turn any ``nn.Module`` into a model of its whole Pareto front.

    ``hypernet`` is the name of an architecture, with its ``options``, or your own module ``rays [R, m] -> theta
    [R, n]``, with an ``assembly`` for its output (by default, the output holds the weights themselves). The names are

    - ``"mlp"``, the paper's: ``hidden``, ``initialization``;
    - ``"chunked"``, for large targets: ``hidden``, ``chunk``, ``matrices``, ``chunks``, ``initialization``;
    - ``"low_rank"``, additions ``W0 + B A``: ``rank``, ``base="train" | "freeze"``, ``orthogonal``, ``hidden``, or
      ``linear=True``;
    - ``"film"``, scale and shift of features: ``hidden``, ``base``;
    - ``"separate"``, no hypernetwork but a model for each of the ``rays`` (:mod:`hyperfront.comparison.baselines`).

    ``generate`` chooses the generated tensors by a pattern, patterns, or a predicate of name and parameter. ``rest``
    says whether the other parameters are trained directly (``"train"``) or frozen (``"freeze"``). ``batching`` runs
    several rays one after the other (``"loop"``) or together (``"vmap"``). ``batchnorm`` stores statistics for each ray
    (``"grid"``), one average for all rays (``"shared"``), or none (``"batch"``).

    >>> model = wrap(nn.Linear(3, 1), objectives=["cost", "risk"], hidden=8)
    >>> model(torch.zeros(5, 3), rays=[[0.5, 0.5], [0.9, 0.1]]).shape
    torch.Size([2, 5, 1])
    """
    if not isinstance(module, nn.Module):
        made = isinstance(module, type) and issubclass(module, nn.Module)
        raise TargetError(
            "only a module can be wrapped",
            got=f"the class {module.__name__}" if made else type(module).__name__,
            fix=f"{module.__name__}(...), an instance of it" if made else "put it into an nn.Module",
        )
    refuse_sharded(module, "wrap")
    objectives = check_objectives(objectives)
    m, plan = len(objectives), None
    if isinstance(hypernet, str):
        if assembly and hypernet not in KINDS:
            raise unknown_name("hypernetwork for an assembly of your own", hypernet, KINDS)
        plan = Architecture(hypernet, options, assembly) if assembly else architecture(hypernet, m, rest, options)
        assembly = plan.assembly
    target = Target(
        module, generate=generate, rest=rest, assembly=assembly or Replace, batching=batching, batchnorm=batchnorm
    )
    made = _named(plan, m, target) if plan else own_hypernet(hypernet, options, m, target)
    return ParetoModel(target, made, objectives).to(next(module.parameters()).device)


def _named(plan: Architecture, m: int, target: Target) -> Hypernet:
    try:
        return KINDS[plan.kind](m, target.n, start=target.start(), sizes=target.sizes, **plan.options)
    except TypeError as error:
        raise HyperfrontError(
            "the hypernetwork does not take these options", got=error, fix="help(hyperfront.wrap) lists them for each"
        ) from None


def own_hypernet(hypernet: Any, options: dict[str, Any], m: int, target: Target) -> Hypernet:
    if options:
        raise HyperfrontError("options belong to a hypernetwork given by name", got=sorted(options))
    try:
        shape = list(hypernet(torch.full((1, m), 1 / m).to(next(hypernet.parameters()))).shape)
    except (RuntimeError, TypeError, ValueError, StopIteration) as error:
        shape = error
    if shape != [1, target.n]:
        raise TargetError(
            "the hypernetwork does not generate the weights of this target",
            got=shape,
            expected=f"rays [R, {m}] -> theta [R, {target.n}]",
        )
    return OwnHypernet(hypernet, m, target.n)


def check_objectives(objectives: Sequence[str]) -> tuple[str, ...]:
    """Return the objectives as a tuple, or raise an error unless they are at least two different names."""
    listed = isinstance(objectives, Sequence | Set | Mapping) and not isinstance(objectives, str | range)
    names = tuple(objectives) if listed else (objectives,)
    if len(names) < 2 or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise ProblemError(
            "a Pareto front needs at least two objectives with different names",
            got=list(names) if listed else shown(objectives),
            expected='for example ["left", "right"]',
            fix="train a single objective without hyperfront: it has no trade-off" if len(names) == 1 else None,
        )
    return names
