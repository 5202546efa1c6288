"""The front: losses reached at rays. :func:`evaluate` measures one, :func:`align` moves rays to validation data."""

from hyperfront.front.alignment import align
from hyperfront.front.evaluate import evaluate
from hyperfront.front.front import Front, Limit

__all__ = ["Front", "Limit", "align", "evaluate"]
