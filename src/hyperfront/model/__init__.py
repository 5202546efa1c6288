"""A network for every ray: a hypernetwork that writes the weights of any module."""

from hyperfront.model.pareto_model import ParetoModel
from hyperfront.model.restore import restore
from hyperfront.model.wrap import check_objectives, wrap

__all__ = ["ParetoModel", "check_objectives", "restore", "wrap"]
