"""The mean of several networks as one module, whose output serves the same losses as the output of one network."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from hyperfront.errors import TargetError, unknown_name
from hyperfront.storage.nests import map_tensors, tensors

WORDS = ("values", "softmax", "sigmoid", "softmax:1", "softmax:-1")


class Averaged(nn.Module):
    """The mean of the outputs of ``K`` networks; ``average`` has one word for all tensors of the output, or for each:

    - ``values``: ``y = sum_k y_k / K``;
    - ``softmax``: outputs ``[B, C]`` are logits of classes, ``y = log sum_k softmax(y_k) / K``; ``softmax:1`` for
      ``[B, C, ...]`` as in images, ``softmax:-1`` for ``[B, ..., C]`` as in sequences;
    - ``sigmoid``: outputs are logits of yes or no, ``y = logit(sum_k sigmoid(y_k) / K)``.

    So means of probabilities come as logits again, and a cross entropy of them is that of the mean probability.

    >>> network = Averaged([nn.Linear(2, 3), nn.Linear(2, 3)], ["softmax"])
    >>> network(torch.zeros(4, 2)).exp().sum(1).allclose(torch.ones(4))
    True
    """

    def __init__(self, members: Iterable[nn.Module], average: Sequence[str]):
        super().__init__()
        self.members, self.average = nn.ModuleList(members), tuple(average)

    @property
    def arguments_like(self) -> nn.Module:
        """The first member: the arguments of the ensemble have the names of its arguments."""
        return self.members[0]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        outputs = [member(*args, **kwargs) for member in self.members]
        count = len(tensors(outputs[0]))
        if len(self.average) not in (1, count):
            raise TargetError(
                "average= does not fit the output of the networks",
                got=f"{len(self.average)} words, {count} tensors",
                expected="one word, or one for each tensor of the output",
            )
        words = itertools.cycle(self.average)
        return map_tensors(lambda *parts: mean(next(words), parts), *outputs)


def mean(word: str, outputs: Sequence[Tensor]) -> Tensor:
    """Average outputs of networks ``[B, ...]`` in the way of ``word``; logits give logits."""
    stacked, first = torch.stack(list(outputs)), outputs[0]
    if not first.is_floating_point() and not first.is_complex():
        raise TargetError("an output that is no real number has no mean", got=f"a tensor of {first.dtype}")
    if word == "values":
        return stacked.mean(0)
    if word == "sigmoid":
        yes, no = (nn.functional.logsigmoid(signed).logsumexp(0) for signed in (stacked, -stacked))
        return yes - no
    return stacked.log_softmax(_classes(word, first)).logsumexp(0) - math.log(len(outputs))


def _classes(word: str, output: Tensor) -> int:
    """Find the dimension of the classes in ``stacked [K, B, ...]``."""
    _, _, place = word.partition(":")
    dimension = int(place or 1) % max(1, output.ndim)
    if output.ndim < 2 or output.shape[dimension] < 2:
        raise TargetError(
            "the output has no logits of several classes",
            got=f"a tensor {list(output.shape)}",
            expected="[B, C] with C of at least 2",
            fix='average="sigmoid" for one logit, "values" for numbers',
        )
    if output.ndim > 2 and not place:
        raise TargetError(
            "it is unknown which dimension of the output holds the classes",
            got=f"a tensor {list(output.shape)}",
            fix='average="softmax:1" for [B, C, ...] as in images, "softmax:-1" for [B, ..., C] as in sequences',
        )
    return dimension + 1


def words_of(average: str | Sequence[str]) -> tuple[str, ...]:
    """Return the words of ``average=``, checked."""
    words = (average,) if isinstance(average, str) else tuple(average)
    for word in words:
        if word not in WORDS:
            raise unknown_name("average", str(word), WORDS)
    return words
