"""The origin of a measured front: its model and split, by which limits are certified on rows that chose nothing."""

from __future__ import annotations

from dataclasses import dataclass

from hyperfront.errors import SelectionError
from hyperfront.model import ParetoModel
from hyperfront.problem import Split


@dataclass(frozen=True, eq=False)
class Origin:
    """The model and the split that a front was measured with."""

    model: ParetoModel
    split: Split

    def calibration(self) -> Split:
        """The problem's calibration rows, or an error if there are none or if the front was measured on them."""
        if self.split.name == "calibration":
            raise SelectionError(
                "the calibration rows would choose the ray that they certify",
                got="a front measured on problem.calibration",
                expected="a front measured on other rows",
                fix="hf.evaluate(model, problem.val).select(...)",
            )
        if "calibration" not in self.split.problem.sources:
            raise SelectionError(
                "no rows can certify limits: the problem has no calibration split",
                expected="rows that chose neither weights, settings nor rays",
                fix="hf.supervised(train, val, test, calibration=...), or leave confidence= out",
            )
        return self.split.problem.calibration
