"""Lessons: a problem whose training labels come from a teacher.

In every step the teacher predicts on the step's inputs at the step's own rays, and its predictions replace the labels
of the batch. Inputs may be drawn between the rows (:mod:`hyperfront.problem.mixup`), since the teacher has labels
anywhere. Objectives that need true labels or groups keep real rows: then a batch is a pair, drawn rows with the
teacher's labels and real rows, and each objective sees its part. Validation and test data stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from hyperfront.errors import ProblemError
from hyperfront.model.expected import kind_of
from hyperfront.problem.described import Loss
from hyperfront.problem.losses import Mean
from hyperfront.problem.mixup import Mixed, Mixup
from hyperfront.problem.problem import Problem
from hyperfront.problem.relabel import Place, Rule, rule_of
from hyperfront.problem.sources import Source, TensorSource
from hyperfront.problem.teachers import Teacher, teacher_of
from hyperfront.storage.batches import Batch
from hyperfront.storage.nests import map_tensors, tensors
from hyperfront.storage.provenance import describe


@dataclass(frozen=True, eq=False)
class Lesson:
    """How a teacher labels the training batches of a problem."""

    teacher: Teacher
    rule: Rule
    taught: tuple[str, ...]
    """The objectives that see the teacher's labels."""
    mixup: Mixup | None
    """How inputs are drawn; None for the training rows, as the problem augments them."""

    def keeps(self, problem: Problem) -> bool:
        """Whether some objectives keep real rows."""
        return len(self.taught) < problem.m

    def practice(self, problem: Problem) -> Problem:
        """Return the problem of a training step, whose batches this lesson has relabelled. It has no scores, which
        need true labels."""
        source: Any = problem.train.source
        if self.mixup:
            source = TensorSource(source.data, Mixed(self.mixup, problem.inputs, source.data))
        made = replace(problem, sources={"train": source}, scores={}, lesson=None)
        if not self.keeps(problem):
            return made

        def both(batch: Batch) -> Batch:
            return map_tensors(lambda *halves: torch.cat(halves), *map(problem.inputs, batch))

        measures = {name: _half(loss, int(name not in self.taught)) for name, loss in problem.measures.items()}
        return replace(made, inputs=both, measures=measures)

    @torch.no_grad()
    def __call__(self, problem: Problem, rays: Tensor, batch: Batch, *, shared: bool) -> Batch:
        """Relabel a batch of a step with ``rays [R, m]``. A batch that is ``shared`` by all rays is repeated for each,
        since each has other labels."""
        drawn, real = batch if self.mixup else (batch, batch)
        if shared and len(rays) > 1:
            drawn, real = map_tensors(lambda t: torch.cat([t] * len(rays)) if t.ndim else t, (drawn, real))
        output = self.teacher(problem.inputs(drawn), rays)
        new = self.rule(drawn, map_tensors(Tensor.detach, output))
        return (new, real) if self.keeps(problem) else new

    def describe(self) -> dict[str, Any]:
        """Describe the lesson as JSON."""
        return {
            "teacher": self.teacher.describe(),
            "relabel": describe(self.rule),
            "taught": list(self.taught),
            "mixup": describe(self.mixup),
        }


def taught(
    problem: Problem,
    teacher: Any,
    *,
    relabel: str | Sequence[str] | Rule,
    labels: Place | Sequence[Place] = 1,
    objectives: Sequence[str] | None = None,
    draw: str | Mixup = "auto",
    unlabelled: Batch | None = None,
) -> Problem:
    """Return the problem with training labels from a teacher; :func:`hyperfront.distill` explains the arguments."""
    if not problem.has_data:
        raise ProblemError("an analytic problem has no labels that a teacher could give")
    names = _objectives(problem, objectives)
    source: Source = problem.train.source
    if unlabelled is not None:
        if len(names) < problem.m:
            raise ProblemError(
                "rows without labels cannot serve objectives that keep true labels",
                got="unlabelled=, and kept: " + ", ".join(n for n in problem.objectives if n not in names),
            )
        source = _with_inputs(problem, source, unlabelled)
    known = [name for name in ("train", "val", "test", "calibration") if name in problem.sources]
    sources = {name: problem.sources[name] for name in known} | {"train": source}
    made = teacher_of(teacher, problem.objectives)
    lesson = Lesson(made, rule_of(relabel, labels), names, _mixup(problem, source, draw))
    return replace(problem, sources=sources, lesson=lesson)


def _objectives(problem: Problem, wanted: Sequence[str] | None) -> tuple[str, ...]:
    """Return the objectives to teach: by default those that are means over rows."""
    if wanted is None:
        wanted = [name for name, loss in problem.measures.items() if isinstance(loss.measure, Mean)]
    if isinstance(wanted, str) or not wanted or any(name not in problem.objectives for name in wanted):
        raise ProblemError(
            "objectives= names the losses that the teacher labels",
            got=wanted if isinstance(wanted, str) else list(wanted),
            expected="some of " + ", ".join(problem.objectives),
        )
    return tuple(name for name in problem.objectives if name in wanted)


def _mixup(problem: Problem, source: Source, draw: str | Mixup) -> Mixup | None:
    """Choose how to draw inputs: by mixup for tables of numbers, unless the problem augments its batches itself."""
    if draw == "rows":
        return None
    mixable = isinstance(source, TensorSource) and source.augment is None
    if isinstance(draw, Mixup):
        if not mixable:
            raise ProblemError(
                "only rows that are held as tensors and not augmented otherwise can be mixed", fix='draw="rows"'
            )
        return draw
    if draw != "auto":
        raise ProblemError("no such way to draw inputs", got=repr(draw), expected='"auto", "rows" or a Mixup')
    if not mixable or not isinstance(source, TensorSource):
        return None
    given, own = tensors(problem.inputs(source.data)), tensors(source.data)
    table = all(tensor.ndim == 2 and any(tensor is each for each in own) for tensor in given)
    return Mixup() if table and any(tensor.is_floating_point() for tensor in given) else None


def _with_inputs(problem: Problem, source: Source, unlabelled: Batch) -> TensorSource:
    """Append inputs without labels to the training rows. The other entries of such rows are unknown: losses that read
    one that the teacher does not replace become NaN, or have no such class."""
    if not isinstance(source, TensorSource):
        raise ProblemError("inputs without labels need training rows that are held as tensors", got=kind_of(source))
    given, more = tensors(problem.inputs(source.data)), tensors(unlabelled)
    if len(given) != len(more) or any(a.shape[1:] != b.shape[1:] or a.dtype != b.dtype for a, b in zip(given, more)):
        raise ProblemError(
            "unlabelled= are inputs like those of the training rows",
            got=", ".join(f"{tensor.dtype} {list(tensor.shape)}" for tensor in more),
            expected=", ".join(f"{tensor.dtype} {['rows', *tensor.shape[1:]]}" for tensor in given),
        )
    others, count = {id(tensor): extra for tensor, extra in zip(given, more)}, len(more[0])
    if len(others.keys() & {id(tensor) for tensor in tensors(source.data)}) < len(given):
        raise ProblemError("inputs that are computed from the batch cannot be extended by unlabelled ones")

    def longer(tensor: Tensor) -> Tensor:
        unknown = tensor.new_full((count, *tensor.shape[1:]), _unknown(tensor.dtype))
        return torch.cat([tensor, others.get(id(tensor), unknown).to(tensor.device)])

    return TensorSource(map_tensors(longer, source.data), source.augment)


def _unknown(dtype: torch.dtype) -> float | int:
    """A value that stands for none: NaN, or the smallest whole number."""
    if dtype.is_floating_point or dtype.is_complex:
        return torch.nan
    return 0 if dtype == torch.bool else torch.iinfo(dtype).min


def _half(loss: Loss, index: int) -> Loss:
    """Make a loss that sees its half of a pair: the drawn rows (0), or the real ones (1)."""

    def value(output: Any, batch: Batch) -> Tensor:
        return loss(map_tensors(lambda tensor: tensor.chunk(2)[index], output), batch[index])

    return replace(loss, of=value)
