"""Baselines: methods that a Pareto hypernetwork is compared with, under the same protocol.

========================== =====================================================================================
:mod:`per_ray`             one model per ray (LS, EPO, PMTL, MGDA, any solver), all at once or one by one
:mod:`single_task`         one model per objective: the ideal point
:mod:`cpmtl`               expands solutions along the Pareto set, by Hessian-vector products
:mod:`evolutionary`        NSGA-III and MOEA/D on the weights (pymoo)
========================== =====================================================================================
"""

from hyperfront.comparison.baselines.cpmtl import Expansion
from hyperfront.comparison.baselines.evolutionary import Budget, Evolved, along_rays, evolve, seconds_so_far
from hyperfront.comparison.baselines.per_ray import fit_one_by_one, fit_stacked, with_references
from hyperfront.comparison.baselines.separate import asked, separate_models
from hyperfront.comparison.baselines.single_task import fit_single_tasks, ideal_point, ideal_volume
from hyperfront.comparison.baselines.starts import starts

__all__ = [
    "Budget",
    "Evolved",
    "Expansion",
    "along_rays",
    "asked",
    "evolve",
    "fit_one_by_one",
    "fit_single_tasks",
    "fit_stacked",
    "ideal_point",
    "ideal_volume",
    "seconds_so_far",
    "separate_models",
    "starts",
    "with_references",
]
