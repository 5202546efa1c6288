"""The front: losses reached at rays. :func:`evaluate` measures one, :func:`align` moves rays to validation data."""

from hyperfront.front.alignment import align
from hyperfront.front.evaluate import evaluate
from hyperfront.front.front import Front
from hyperfront.front.question import Limit, Question
from hyperfront.front.selection import Selection, Spread

__all__ = ["Front", "Limit", "Question", "Selection", "Spread", "align", "evaluate"]
