"""Images, texts or sequences with the probabilities of their classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

from torch import Tensor

from hyperfront.errors import HyperfrontError
from hyperfront.problem.problem import Split
from hyperfront.problem.samples.inputs import first_rows, rounded
from hyperfront.storage.batches import Batch
from hyperfront.storage.nests import tensors

COUNT = 9


@final
class Classified:
    """The first rows of the split, each with one or several labels.

    ``classes`` are the names of the classes by task; ``show`` makes one row of a batch with :func:`image`,
    :func:`text` or :func:`numbers`; ``truth`` gives the class numbers ``[B]`` of each task; ``probabilities`` maps the
    output to ``[B, C]`` for each task, by default the softmax of each tensor of the output.
    """

    def __init__(
        self,
        split: Split,
        *,
        classes: Mapping[str, Sequence[str]],
        show: Callable[[Batch, int], dict[str, Any]],
        truth: Callable[[Batch], Sequence[Tensor]],
        probabilities: Callable[[Any], Sequence[Tensor]] = lambda output: [t.softmax(-1) for t in tensors(output)],
        count: int = COUNT,
    ):
        self.classes, self.probabilities = classes, probabilities
        batch = first_rows(split, count)
        self.x, self.truth = split.problem.inputs(batch), [labels.tolist() for labels in truth(batch)]
        self.shown = [show(batch, row) for row in range(len(self.truth[0]))]

    def document(self) -> dict[str, Any]:
        return {
            "kind": "classes",
            "heads": [{"name": task, "classes": [*names]} for task, names in self.classes.items()],
            "items": [
                {"input": shown, "truth": [int(labels[row]) for labels in self.truth]}
                for row, shown in enumerate(self.shown)
            ],
        }

    def predict(self, network: Callable[[Any], Any]) -> Any:
        """``[items][heads][classes]``: probabilities."""
        probabilities = self.probabilities(network(self.x))
        found = [tuple(each.shape) for each in probabilities]
        needed = [(len(self.shown), len(names)) for names in self.classes.values()]
        if found != needed:
            raise HyperfrontError(
                "the probabilities do not fit the classes",
                got=f"shapes {found}",
                expected=f"{needed} for {', '.join(self.classes)}",
                fix="return a tensor [B, classes] for each task from the network, or pass probabilities= to Classified",
            )
        return [list(heads) for heads in zip(*map(rounded, probabilities))]
