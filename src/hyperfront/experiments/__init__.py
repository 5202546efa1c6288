"""Experiments: what a training run reached, as a small file, and tables made from such files."""

from hyperfront.experiments.result import Result, measure
from hyperfront.experiments.table import summarise

__all__ = ["Result", "measure", "summarise"]
