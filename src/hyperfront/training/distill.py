"""Distillation: one model that learns from a teacher at its own rays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hyperfront.errors.signatures import checked
from hyperfront.model import ParetoModel
from hyperfront.problem import Problem
from hyperfront.problem.lesson import taught
from hyperfront.problem.mixup import Mixup
from hyperfront.problem.relabel import Place, Rule
from hyperfront.storage.batches import Batch
from hyperfront.training.fitting import fit
from hyperfront.training.runs import Run


@checked
def distill(
    teacher: Any,
    model: ParetoModel,
    problem: Problem,
    *,
    relabel: str | Sequence[str] | Rule,
    labels: Place | Sequence[Place] = 1,
    objectives: Sequence[str] | None = None,
    draw: str | Mixup = "auto",
    unlabelled: Batch | None = None,
    **options: Any,
) -> Run:
    """Train ``model`` on what ``teacher`` predicts, at the model's own rays; ``options`` are those of
    :func:`hyperfront.fit`.

    Validation and test data keep their labels, and none of their rows is used for training. Steps run eagerly, or
    compiled on a CPU with ``engine="compiled"``; a step with a teacher is not captured as a CUDA graph.

    Args:
        teacher: An ensemble (:func:`hyperfront.ensemble`) or any other model of a front with the same objectives;
            a plain module, which predicts the same at every ray; a list of plain modules, one for each objective; or a
            function of inputs and one ray ``[m]`` that returns outputs.
        model: The student, which :func:`hyperfront.wrap` made. It may have another target than the teacher.
        problem: A problem that :func:`hyperfront.supervised` made.
        relabel: The new labels: the teacher's output as ``"values"``, or the probabilities of its logits,
            ``"softmax"`` or ``"sigmoid"``, with a word for each tensor of the output, if they differ; or a function of
            batch and output that returns the batch with new labels.
        labels: The entry of a batch that holds the labels; a list, if the output has several tensors.
        objectives: The losses that see the teacher's labels; by default all losses that are means over rows. The other
            losses, such as gaps between groups, see real rows with true labels.
        draw: The inputs of a step: ``"rows"`` are training rows, with the augmentation of the problem; a
            :class:`hyperfront.training.Mixup` mixes them and adds noise; ``"auto"`` mixes tables of numbers.
        unlabelled: More inputs, which need no labels, for the training.
    """
    lesson = taught(
        problem, teacher, relabel=relabel, labels=labels, objectives=objectives, draw=draw, unlabelled=unlabelled
    )
    return fit(model, lesson, **options)
