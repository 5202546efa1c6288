"""Training: the step (Algorithm 1), the loop, callbacks, exact resume."""

from hyperfront.problem.mixup import Mixup
from hyperfront.training.backward import backward
from hyperfront.training.callbacks import Callback, JsonLines
from hyperfront.training.check import Checked, check
from hyperfront.training.distill import distill
from hyperfront.training.fitting import fit
from hyperfront.training.progress import Progress
from hyperfront.training.step import Step, StepResult
from hyperfront.training.trackers import MLflow, TensorBoard, WandB

__all__ = [
    "Callback",
    "Checked",
    "JsonLines",
    "MLflow",
    "Mixup",
    "Progress",
    "Step",
    "StepResult",
    "TensorBoard",
    "WandB",
    "backward",
    "check",
    "distill",
    "fit",
]
