"""The presentation of a problem: title, introduction, sample inputs, decisions, and notes for the model card."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

from hyperfront.errors import ProblemError, shown
from hyperfront.errors.signatures import checked, is_plain
from hyperfront.storage.batches import Batch

if TYPE_CHECKING:
    from hyperfront.problem.problem import Split


class Samples(Protocol):
    """A few inputs and how to show them. All methods return JSON."""

    def document(self) -> dict[str, Any]:
        """The inputs, which the page gets once; ``kind`` names the way to draw them."""
        ...

    def predict(self, network: Callable[[Any], Any]) -> Any:
        """The outputs of the network at one ray, ready to be drawn."""
        ...


@checked
@dataclass(frozen=True)
class Decision:
    """The rule that turns the output of a network into probabilities and labels.

    >>> import torch
    >>> Decision(torch.sigmoid, ("no", "yes"), threshold=0.3).labels(torch.tensor([-0.5, -2.0]))
    ['yes', 'no']
    """

    probabilities: Callable[[Any], Tensor]
    """Maps the output to the probabilities ``[B]`` of the second of two classes, or ``[B, C]`` of all classes."""
    classes: tuple[str, ...]
    threshold: float = 0.5
    """The second of two classes is decided above this probability."""

    def __post_init__(self) -> None:
        if len(self.classes) < 2 or not 0 < self.threshold < 1:
            raise ProblemError(
                "a decision needs two classes at least and a threshold between 0 and 1",
                got=f"{len(self.classes)} classes, threshold {self.threshold}",
            )

    @checked
    def labels(self, output: Any) -> list[str]:
        """The label of each row."""
        probabilities = self.probabilities(output)
        shape = tuple(probabilities.shape[1:]) if is_plain(probabilities) and probabilities.ndim else None
        if shape != () and shape != (len(self.classes),):
            raise ProblemError(
                "the function for probabilities of a Decision does not give probabilities",
                got=list(probabilities.shape) if isinstance(probabilities, Tensor) else shown(probabilities),
                expected=f"[B] or [B, {len(self.classes)}]",
            )
        codes = probabilities.double().argmax(-1) if probabilities.ndim > 1 else (probabilities > self.threshold).long()
        return [self.classes[code] for code in codes.tolist()]


@checked
@dataclass(frozen=True)
class Presentation:
    """Texts, samples and decisions that present a problem. Every part is optional.

    >>> Presentation(title="Loans", notes="Accurate and fair decisions about loans.").title
    'Loans'
    """

    title: str = ""
    """The title of the page."""
    notes: str = ""
    """An introduction for readers; an empty line separates paragraphs."""
    samples: Callable[[Split], Samples] | None = None
    """Makes the sample inputs of a split; by default numbers and images."""
    decision: Decision | None = None
    """The rule that turns outputs into probabilities and labels."""
    encode: Callable[[Mapping[str, Sequence[Any]]], Batch] | None = None
    """Maps columns of a table, by name, to the inputs of the network."""
    columns: tuple[str, ...] = ()
    """The names of the columns that ``encode`` takes."""
    data: tuple[str, ...] = ()
    """Lines of the model card about the data."""
    groups: tuple[str, ...] = ()
    """Lines of the model card about the groups that gaps compare."""
    use: str = ""
    """The intended use, for the model card."""
