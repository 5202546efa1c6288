"""Estimators in scikit-learn's conventions: one fit learns every trade-off, and ``ray`` picks one when predicting.

    model = ParetoClassifier().fit(X, y, sensitive_features=sex)
    model.select(minimize="error", subject_to={"fpr_gap": 0.05})    # the trade-off of predict and score
    model.predict(X_new), model.predict(X_new, ray=[0.2, 0.4, 0.4])

They work in pipelines, ``GridSearchCV`` and ``cross_val_predict``; ``pip install 'hyperfront[sklearn]'`` brings what
they need.
"""

from hyperfront.errors import HyperfrontError

try:
    import sklearn  # noqa: F401
except ModuleNotFoundError as error:
    raise HyperfrontError("scikit-learn is missing", got=error, fix="pip install 'hyperfront[sklearn]'") from None

from hyperfront.sklearn.classifier import ParetoClassifier
from hyperfront.sklearn.regressor import ParetoRegressor

__all__ = ["ParetoClassifier", "ParetoRegressor"]
