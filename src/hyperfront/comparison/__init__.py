"""Methods compared under one protocol: their results as small files, and tables made from such files."""

from hyperfront.comparison.compare import compare, run_method
from hyperfront.comparison.method import ComparisonJob, Method
from hyperfront.comparison.methods import METHODS
from hyperfront.comparison.protocol import Protocol
from hyperfront.comparison.result import Result, measure
from hyperfront.comparison.table import summarize

__all__ = ["METHODS", "ComparisonJob", "Method", "Protocol", "Result", "compare", "measure", "run_method", "summarize"]
