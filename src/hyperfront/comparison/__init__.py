"""Experiments: what a run reached, as a small file; methods under one protocol; tables made from such files."""

from hyperfront.comparison.compare import compare
from hyperfront.comparison.methods import Plan, run_method
from hyperfront.comparison.result import Result, measure
from hyperfront.comparison.table import summarize

__all__ = ["Plan", "Result", "compare", "measure", "run_method", "summarize"]
