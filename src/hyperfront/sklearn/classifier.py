"""A classifier with every trade-off."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets

from hyperfront.errors import DataError
from hyperfront.errors.signatures import checked
from hyperfront.sklearn.estimator import ParetoEstimator
from hyperfront.tabular.schema import Task


@final
class ParetoClassifier(ClassifierMixin, ParetoEstimator):
    """A classifier of two or more classes for every trade-off between its objectives.

    The objectives are names of :mod:`hyperfront.tabular.objectives`. By default they are log loss and the gaps in false
    positive and false negative rates if ``fit`` gets ``sensitive_features``, and the log losses of the classes if not.
    Of two classes, the last of ``classes_`` is positive.

    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> model = ParetoClassifier(random_state=0).fit(X, X[:, 0] > 0)
    >>> bool(model.predict([[0.9]])[0])
    True

    ``__init__`` describes the parameters.
    """

    def _target(self, y: np.ndarray) -> tuple[np.ndarray, Task]:
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError("y has one class only, so there is nothing to learn", got=self.classes_.tolist())
        return codes, "binary" if len(self.classes_) == 2 else "classes"

    @checked
    def predict(self, X: Any, ray: Any = None) -> np.ndarray:
        """Predict the class of every row, at a ray or at the chosen trade-off."""
        chances = self.predict_proba(X, ray)
        codes = (chances[:, 1] > 0.5).astype(int) if len(self.classes_) == 2 else chances.argmax(1)
        return self.classes_[codes]

    @checked
    def predict_proba(self, X: Any, ray: Any = None) -> np.ndarray:
        """Predict the probability of every class ``[B, K]``, in the order of ``classes_``."""
        output = self._outputs(X, ray)
        if len(self.classes_) == 2:
            chance = output.sigmoid().numpy()
            return np.stack([1 - chance, chance], axis=1)
        return output.softmax(-1).numpy()
