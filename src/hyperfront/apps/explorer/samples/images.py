"""Multi-MNIST: composites, with the probabilities of both images' classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hyperfront.apps.explorer.samples.pixels import encoded, first_rows, rounded
from hyperfront.problem import Split
from hyperfront.zoo.data.composites import SOURCES
from hyperfront.zoo.multi_mnist import TASKS

COUNT = 9
NAMES = {
    "mnist": [str(digit) for digit in range(10)],
    "fashion_mnist": [
        *("T-shirt", "trousers", "pullover", "dress", "coat"),
        *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
    ],
}


class Images:
    """The first composites of the split."""

    def __init__(self, name: str, split: Split):
        self.heads = [(task, NAMES[source]) for task, source in zip(TASKS, SOURCES[name])]
        self.batch = first_rows(split, COUNT)
        self.x = split.problem.inputs(self.batch)

    def document(self) -> dict[str, Any]:
        images, *labels = self.batch
        return {
            "kind": "classes",
            "heads": [{"name": task, "classes": classes} for task, classes in self.heads],
            "items": [
                {"image": encoded(image[0]), "truth": [int(side[row]) for side in labels]}
                for row, image in enumerate(images)
            ],
        }

    def predict(self, network: Callable[[Any], Any]) -> Any:
        """``[items][heads][classes]``: probabilities."""
        each = [rounded(logits.softmax(-1)) for logits in network(self.x)]
        return [list(heads) for heads in zip(*each)]
