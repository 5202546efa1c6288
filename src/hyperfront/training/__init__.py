"""Training: the step (Algorithm 1), the loop, callbacks, exact resume."""

from hyperfront.training.callbacks import Callback, JsonLines, TensorBoard
from hyperfront.training.check import Checked, check
from hyperfront.training.fitting import fit
from hyperfront.training.progress import Progress
from hyperfront.training.step import Step, StepResult, backward

__all__ = [
    "Callback",
    "Checked",
    "JsonLines",
    "Progress",
    "Step",
    "StepResult",
    "TensorBoard",
    "backward",
    "check",
    "fit",
]
