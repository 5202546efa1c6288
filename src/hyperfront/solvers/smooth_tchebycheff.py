"""Smooth Tchebycheff scalarization: the maximum replaced by a log-sum-exp."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from hyperfront.errors import check_number
from hyperfront.solvers.base import check_per_objective, per_objective
from hyperfront.solvers.lift import Scalarization


@dataclass(frozen=True)
class SmoothTchebycheff(Scalarization):
    """STCH (Lin et al., ICML 2024), with the ideal point ``z`` and ``mu`` the ``temperature``:

        min_theta  mu log sum_j exp(r_j (l_j - z_j) / mu),        w_j ~ r_j softmax_j(r (l - z) / mu)

    It is at most ``mu log m`` above the maximum that :class:`~hyperfront.solvers.Tchebycheff` lowers, and
    differentiable, so it does not zigzag. At its optimum the products ``r_j (l_j - z_j)`` differ by a few ``mu``, so
    ``mu`` should be small compared with them, and the losses of similar size.

    >>> import torch
    >>> SmoothTchebycheff(0.1)(torch.tensor([[1.0, 1.0]]), torch.tensor([[0.5, 0.5]]))[0]
    tensor([[0.5000, 0.5000]])
    """

    temperature: float = 0.01
    ideal: float | tuple[float, ...] = 0.0

    convention = "inverse"

    def __post_init__(self) -> None:
        check_number("temperature of SmoothTchebycheff", self.temperature, 0, without=0)
        check_per_objective("ideal of SmoothTchebycheff", self.ideal)

    @property
    def least(self) -> float | tuple[float, ...]:
        return self.ideal

    def value(self, losses: Tensor, rays: Tensor) -> Tensor:
        product = rays * (losses - per_objective("ideal", self.ideal, losses))
        return self.temperature * (product / self.temperature).logsumexp(-1)
