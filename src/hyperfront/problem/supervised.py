"""Problems with data: :func:`supervised`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from hyperfront.errors import ProblemError, shown
from hyperfront.errors.signatures import checked_except
from hyperfront.model import check_objectives
from hyperfront.problem.described import Score, as_loss, as_score
from hyperfront.problem.losses import Measure
from hyperfront.problem.presentation import Presentation
from hyperfront.problem.problem import Problem, check_reference
from hyperfront.problem.sources import Augmentation
from hyperfront.problem.splits import Deferred, as_sources
from hyperfront.problem.units import Units
from hyperfront.storage import batches
from hyperfront.storage.batches import Batch


@checked_except("rows", "scores")
def supervised(
    train: Any,
    val: Any = None,
    test: Any = None,
    *,
    losses: Mapping[str, Measure | Callable[[Any, Batch], Tensor]],
    reference: Sequence[float] | None = None,
    scores: Mapping[str, Score] | None = None,
    calibration: Any = None,
    inputs: Callable[[Batch], Batch] | None = None,
    rows: int | Callable[[Batch], int | Tensor] | None = None,
    augment: Augmentation | None = None,
    scale: Mapping[str, float] | None = None,
    ideal: Mapping[str, float] | None = None,
    maximize: Sequence[str] = (),
    identity: Mapping[str, Any] | None = None,
    make_target: Callable[[], nn.Module] | None = None,
    example: Callable[[], Batch] | None = None,
    presentation: Presentation | None = None,
) -> Problem:
    """Make a problem with data.

    A split is ``(x, y, ...)`` tensors, which are held on the device, or a ``DataLoader``. ``losses`` maps names to
    functions ``f(output, batch) -> scalar``; the module is called on ``inputs(batch)``, by default the first entry of
    the batch. ``scores`` are reported beside the losses and not trained; each declares whether more is better,
    ``hf.Score(f, maximize=True)``. ``hf.Loss`` and ``hf.Score`` take a label, a unit and bounds, too.
    ``augment`` changes training batches (see :class:`hyperfront.problem.sources.Augmentation`).

    ``calibration`` has rows that choose nothing: they certify limits (``Front.select(..., confidence=.95)``). ``train``
    may also be a function that loads all splits when they are first needed, as ``{"train": ..., "val": ..., "test":
    ...}``, with ``"calibration"`` if there is one.

    A batch is any nest of tuples, lists, mappings and dataclasses with tensors, whose first dimension counts rows.
    Where it does not, as in graphs and packed sequences, ``rows`` says how many rows a batch has, or is a function that
    counts them, ``rows=lambda batch: batch.num_graphs``; then a batch cannot be split among rays, so pass
    ``share_batch=True`` or ``rays_per_step=1`` to :func:`hyperfront.fit`.

    ``make_target`` makes the module, for comparisons with other methods (:mod:`hyperfront.comparison.compare`), and
    ``identity``, such as ``{"problem": "mine", "arguments": {"rows": 400}}``, identifies the problem in result files.

    ``presentation`` says how pages and cards show the problem: title, introduction, sample inputs
    (:class:`hyperfront.Presentation`).

    ``scale``, ``ideal`` and ``maximize`` change the units of an objective to ``(value - ideal) / scale`` (see
    :mod:`hyperfront.problem.units`), so ``scale`` is a typical size of the value. These units apply to rays, the losses
    of a front, ``reference``, and the limits of ``Front.select``.

    >>> import torch
    >>> x = torch.randn(64, 3)
    >>> problem = supervised((x, x[:, :1], x[:, 1:2]), losses={
    ...     "first": lambda output, batch: (output - batch[1]).square().mean(),
    ...     "second": lambda output, batch: (output - batch[2]).square().mean()}, reference=(2, 2))
    >>> problem.objectives
    ('first', 'second')
    """
    objectives = check_objectives(tuple(losses))
    if isinstance(make_target, nn.Module):
        raise ProblemError(
            "make_target is not a function that makes a new module for each model",
            got=f"a {type(make_target).__name__}",
            expected="a function without arguments",
            fix="make_target=lambda: nn.Sequential(...)",
        )
    if not isinstance(scores, Mapping | None):
        raise ProblemError(
            "scores are not understood", got=shown(scores), expected="names and scores, as in {'error': hf.Score(...)}"
        )
    if taken := [name for name in scores or {} if name in objectives]:
        raise ProblemError("a score has the name of a loss", got=taken[0], fix="give it another name")
    splits = {"train": train, "val": val, "test": test, "calibration": calibration}
    given = {name: data for name, data in splits.items() if data is not None}
    deferred = callable(train) and not isinstance(train, Tensor)
    count, counted = _counter(rows), rows is not None
    return Problem(
        objectives=objectives,
        reference=check_reference(reference, objectives),
        units=Units.of(objectives, scale, ideal, maximize),
        measures={name: as_loss(name, f, count) for name, f in losses.items()},
        scores={name: as_score(name, f, count) for name, f in (scores or {}).items()},
        sources=Deferred(train, ("train", "val", "test"), augment, counted)
        if deferred
        else as_sources(given, augment, counted),
        divisible=not counted,
        inputs=inputs or _first,
        identity=identity,
        make_target=make_target,
        example=example,
        presentation=presentation or Presentation(),
    )


def _counter(given: int | Callable[[Batch], int | Tensor] | None) -> Callable[[Batch], int | Tensor]:
    """Make the function that counts the rows of a batch."""
    if given is None:
        return batches.rows
    if callable(given):
        return given
    if isinstance(given, int) and given > 0:
        return lambda batch: given
    raise ProblemError("rows is neither a number nor a function of a batch", got=repr(given), expected="rows=32")


def _first(batch: Batch) -> Batch:
    if not isinstance(batch, tuple | list):
        raise ProblemError(
            "a batch is no tuple, so the input of the module is unknown",
            got=f"a {type(batch).__name__}"
            + (f" of {', '.join(map(str, batch))}" if isinstance(batch, Mapping) else ""),
            fix="say it with supervised(..., inputs=lambda batch: ...)",
        )
    return batch[0]
