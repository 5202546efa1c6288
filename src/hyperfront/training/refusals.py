"""Errors of a step: for wrong solvers, losses that a solver cannot use, and reentrant activation checkpointing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from hyperfront.errors import HyperfrontError, LossError, TargetError, shown
from hyperfront.solvers import Solver
from hyperfront.solvers.base import per_objective
from hyperfront.storage.batches import Batch
from hyperfront.storage.nests import leaves


@contextmanager
def explained() -> Iterator[None]:
    """Turn PyTorch's error about reentrant activation checkpointing within the ``with`` block into one with a fix."""
    try:
        yield
    except RuntimeError as error:
        if "use_reentrant" not in str(error):
            raise
        raise TargetError(
            "reentrant activation checkpointing cannot give the gradients of generated tensors",
            got="torch.utils.checkpoint.checkpoint(..., use_reentrant=True)",
            fix="use_reentrant=False; in transformers gradient_checkpointing_enable({'use_reentrant': False})",
        ) from error


def check_solver(solver: Solver) -> Solver:
    """Return the solver, or raise an error for a name or a class in its place."""
    if isinstance(solver, Solver):
        return solver
    raise HyperfrontError("solver= is no solver", got=shown(solver), expected="an instance, such as hyperfront.EPO()")


SHIFT = "shift it: supervised(..., ideal={{{name!r}: its smallest possible value}})"


def check_losses(
    losses: Tensor, objectives: tuple[str, ...], solver: Solver, *, where: str, shift: str = SHIFT, batch: Batch = None
) -> None:
    """Raise an error that names the objective, if the solver cannot use a loss; ``shift`` is the fix for a loss that is
    too low. A loss that is not finite gets the tensors of ``batch`` named that are not finite either."""
    faults = {"NaN": losses.isnan(), "infinite": losses.isinf()}
    least = None if solver.least is None else per_objective("ideal", solver.least, losses)
    if least is not None:
        faults["negative" if not least.any() else "below its ideal"] = losses < least
    for fault, mask in faults.items():
        if mask.any():
            row, column = (int(i) for i in mask.nonzero()[0])
            name, bound = objectives[column], "" if least is None else f"{least[column].item():g}"
            low = fault not in ("NaN", "infinite")
            raise LossError(
                f"the objective {name!r} is {fault} {where}",
                got=f"{losses[row, column].item():g}{'' if low else _data(batch)}",
                expected=f"a finite number{f' >= {bound}, as {type(solver).__name__} needs' if bound else ''}",
                fix=shift.format(name=name)
                if low
                else "lower the learning rate, check the data for NaN, or clip inside the loss",
            )


def _data(batch: Batch) -> str:
    """The words about the tensors of a batch that have entries that are not finite."""
    found = [("][".join(path), leaf) for path, leaf in leaves(batch) if isinstance(leaf, Tensor)]
    known = [(name, leaf) for name, leaf in found if leaf.layout == torch.strided and not leaf.is_nested]
    names = [f"batch[{name}]" if name else "the batch" for name, leaf in known if not leaf.isfinite().all()]
    return f", with NaN or infinite numbers in {', '.join(names)}" if names else ""
