"""Tables: a DataFrame or CSV becomes a problem, and a trained model predicts the rows of another table.

    problem = tabular.problem("people.csv", target="hired", sensitive="sex")
    run = hf.fit(problem.model(), problem, out="runs/people")
    choice = run.front.select(minimize="error", subject_to={"fpr_gap": 0.05})
    tabular.predict(run.model, "new.csv", ray=choice.ray).values

:func:`problem` finds the kinds of columns (:mod:`~hyperfront.tabular.kinds`), splits the rows
(:mod:`~hyperfront.tabular.splits`), and has objectives by name (:mod:`~hyperfront.tabular.objectives`). What it learns
of the columns is a :class:`Schema`, which the model holds.
"""

from hyperfront.tabular.constant import near_constant
from hyperfront.tabular.prediction import Prediction, predict, schema_of
from hyperfront.tabular.reading import read
from hyperfront.tabular.recipe import recipe_for
from hyperfront.tabular.schema import Column, Schema
from hyperfront.tabular.table import problem, problem_of, recorded

__all__ = [
    "Column",
    "Prediction",
    "Schema",
    "near_constant",
    "predict",
    "problem",
    "problem_of",
    "read",
    "recipe_for",
    "recorded",
    "schema_of",
]
