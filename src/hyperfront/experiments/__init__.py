"""Experiments: what a run reached, as a small file; methods under one protocol; tables made from such files."""

from hyperfront.experiments.compare import compare
from hyperfront.experiments.methods import Plan, run_method
from hyperfront.experiments.result import Result, measure
from hyperfront.experiments.table import summarise

__all__ = ["Plan", "Result", "compare", "measure", "run_method", "summarise"]
