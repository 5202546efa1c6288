"""Sample inputs of a problem, with the model's predictions for them at a ray.

==================== ==============================================================
:class:`Values`      inputs, outputs and targets as numbers or images; the default
:class:`Classified`  images, texts or numbers with the probabilities of classes
:class:`TableSamples`  rows of a table with decisions, and rates of groups
:class:`Coordinates` the point of an analytic problem
==================== ==============================================================

A problem chooses one with ``hf.Presentation(samples=...)``, or any other class that is a
:class:`~hyperfront.problem.presentation.Samples`.
"""

from hyperfront.problem.presentation import Samples
from hyperfront.problem.problem import Problem, Split
from hyperfront.problem.samples.classified import Classified
from hyperfront.problem.samples.inputs import image, numbers, text
from hyperfront.problem.samples.table import Grouping, TableSamples
from hyperfront.problem.samples.values import Coordinates, Values

__all__ = [
    "Classified",
    "Coordinates",
    "Grouping",
    "TableSamples",
    "Values",
    "image",
    "make_samples",
    "numbers",
    "text",
]


def make_samples(problem: Problem, split: Split) -> Samples:
    """Make the samples that the problem's presentation chooses, or else numbers and images."""
    if not problem.has_data:
        return Coordinates()
    choose = problem.presentation.samples
    return Values(split) if choose is None else choose(split)
