"""A regressor with every trade-off."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import assert_all_finite

from hyperfront.errors.signatures import checked
from hyperfront.sklearn.estimator import ParetoEstimator
from hyperfront.tabular.schema import Task


@final
class ParetoRegressor(RegressorMixin, ParetoEstimator):
    """A regressor for every trade-off between its objectives.

    The objectives are names of :mod:`hyperfront.tabular.objectives`. By default they are the squared error and the gap
    in mean predictions if ``fit`` gets ``sensitive_features``, and under- and overprediction if not: then the ray
    ``[q, 1 - q]`` asks for the quantile ``q``.

    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> model = ParetoRegressor(random_state=0).fit(X, 3 * X[:, 0])
    >>> bool(model.predict([[0.9]], ray=[0.9, 0.1]) > model.predict([[0.9]], ray=[0.1, 0.9]))
    True

    ``__init__`` describes the parameters.
    """

    def _target(self, y: np.ndarray) -> tuple[np.ndarray, Task]:
        numbers = np.asarray(y, dtype=np.float64)
        assert_all_finite(numbers, input_name="y")
        return numbers, "regression"

    @checked
    def predict(self, X: Any, ray: Any = None) -> np.ndarray:
        """Predict every row, at a ray or at the chosen trade-off."""
        return self._outputs(X, ray).numpy()
