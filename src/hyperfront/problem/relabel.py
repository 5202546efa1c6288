"""Relabelling: predictions of a teacher replace the labels of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from hyperfront.errors import ProblemError
from hyperfront.model.averaged import words_of
from hyperfront.storage.batches import Batch
from hyperfront.storage.nests import tensors

Rule = Callable[[Batch, Any], Batch]
"""``(batch, output of the teacher) -> batch with new labels``."""
Place = int | str


@dataclass(frozen=True)
class Relabel:
    """Puts a teacher's predictions at the places ``labels`` of a batch, one for each tensor of its output.

    ``words`` say what the new labels are: ``values`` as they are, or probabilities of logits, ``softmax`` or
    ``sigmoid`` (:class:`hyperfront.model.averaged.Averaged`). Cross entropies of PyTorch take probabilities as labels.
    """

    words: tuple[str, ...]
    labels: tuple[Place, ...] = (1,)

    def __call__(self, batch: Batch, output: Any) -> Batch:
        found = tensors(output)
        if len(found) != len(self.labels) or len(self.words) not in (1, len(found)):
            raise ProblemError(
                "the labels do not fit the output of the teacher",
                got=f"{len(found)} tensors for labels={list(self.labels)} and {len(self.words)} words",
                expected="one place in the batch for each tensor",
                fix="relabel=f, a function of batch and output that returns the batch with new labels",
            )
        if not isinstance(batch, Mapping) and any(not isinstance(place, int) or place < 0 for place in self.labels):
            raise ProblemError(
                "labels= counts the entries of this batch from 0",
                got=f"labels={list(self.labels)}",
                expected="0, 1, and so on",
            )
        words = self.words * (len(found) // len(self.words))
        new = {place: self._label(word, out, batch, place) for place, word, out in zip(self.labels, words, found)}
        if isinstance(batch, Mapping):
            return {**batch, **new}
        return tuple(new.get(place, entry) for place, entry in enumerate(batch))

    def _label(self, word: str, output: Tensor, batch: Batch, place: Place) -> Tensor:
        try:
            old = batch[place]
        except (KeyError, IndexError, TypeError):
            raise ProblemError(
                "the batch has no such labels", got=f"labels={place!r}", fix="labels= names the entry of the batch"
            ) from None
        kind, _, dimension = word.partition(":")
        label = {"values": lambda: output, "sigmoid": output.sigmoid}.get(
            kind, lambda: output.softmax(int(dimension or 1))
        )()
        if kind != "softmax" and label.shape != old.shape:
            raise ProblemError(
                "the labels do not have the shape of the teacher's output",
                got=f"{list(label.shape)} for labels {list(old.shape)}",
                fix="labels= names another entry, or relabel=f makes the batch",
            )
        return label


def rule_of(relabel: str | Sequence[str] | Rule, labels: Place | Sequence[Place]) -> Rule:
    """Return the rule that ``relabel=`` and ``labels=`` name."""
    if callable(relabel):
        return relabel
    return Relabel(words_of(relabel), (labels,) if isinstance(labels, int | str) else tuple(labels))
