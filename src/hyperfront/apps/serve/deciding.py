"""Probabilities and labels: two further outputs of a model whose problem defines decisions, for requests that ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor

from hyperfront.apps.serve.tensors import TensorMetadata
from hyperfront.problem import Decision

PROBABILITY, LABEL = "probability", "label"


@final
class Decider:
    """Turns the outputs of the network into probabilities and labels; ``output`` is an example of them."""

    def __init__(self, decision: Decision, output: Any):
        self.decision = decision
        self._names = tuple(output) if isinstance(output, Mapping) else None
        self._alone = isinstance(output, Tensor)
        shape = decision.probabilities(output).shape[1:]
        self.specs = (TensorMetadata(PROBABILITY, "FP32", tuple(shape)), TensorMetadata(LABEL, "INT64", ()))

    def __call__(self, outputs: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """The probabilities, and the number of each row's class."""
        probabilities = self.decision.probabilities(self._arranged(outputs)).float()
        several = probabilities.ndim > 1
        return probabilities, probabilities.argmax(-1) if several else (probabilities > self.decision.threshold).long()

    def _arranged(self, outputs: Sequence[Tensor]) -> Any:
        if self._names:
            return dict(zip(self._names, outputs))
        return outputs[0] if self._alone else tuple(outputs)

    @torch.no_grad()
    def answers(self, outputs: Sequence[Tensor]) -> list[dict[str, Any]]:
        """Each row's label, with its probability or the probabilities of all classes."""
        probabilities, codes = self(outputs)
        classes = self.decision.classes
        shown: list[dict[str, Any]] = (
            [{"probabilities": dict(zip(classes, row))} for row in probabilities.tolist()]
            if probabilities.ndim > 1
            else [{PROBABILITY: value} for value in probabilities.tolist()]
        )
        return [{**answer, LABEL: classes[code]} for answer, code in zip(shown, codes.tolist())]
