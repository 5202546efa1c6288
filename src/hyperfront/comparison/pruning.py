"""Callbacks that prune bad trials of a study at a validation.

A hypernetwork is pruned if its hypervolume is below the median of the earlier trials at that epoch, a single model if
the losses of most earlier trials dominate its losses there.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hyperfront.errors import HyperfrontError
from hyperfront.training import Callback

STARTUP, WARMUP = 4, 1 / 3
"""No trial is pruned before ``STARTUP`` trials have ended, or in the first ``WARMUP`` of its epochs."""


class BelowMedian(Callback):
    """Prunes a trial whose hypervolume at a validation is below the median of the earlier trials."""

    def __init__(self, trial: Any):
        self.trial = trial

    def epoch_ended(self, record: dict[str, Any]) -> None:
        if "validation" in record:
            self.trial.report(record["validation"]["hypervolume"], record["epoch"])
            if self.trial.should_prune():
                raise load_optuna().TrialPruned(f"below the median in epoch {record['epoch']}")


class Dominated(Callback):
    """Prunes a trial at a validation if most completed trials dominate its losses."""

    def __init__(self, trial: Any, warmup: int):
        self.trial, self.warmup = trial, warmup

    def epoch_ended(self, record: dict[str, Any]) -> None:
        if "validation" not in record:
            return
        epoch, mine = str(record["epoch"]), torch.tensor(record["validation"]["losses"][0])
        self.trial.set_user_attr(f"epoch {epoch}", mine.tolist())
        others = [trial.user_attrs.get(f"epoch {epoch}") for trial in self._ended()]
        theirs = torch.tensor([losses for losses in others if losses is not None])
        if len(theirs) >= STARTUP and record["epoch"] > self.warmup and _share_dominating(theirs, mine) > 0.5:
            raise load_optuna().TrialPruned(f"dominated in epoch {epoch}")

    def _ended(self) -> list[Any]:
        return [t for t in self.trial.study.get_trials(deepcopy=False) if t.state.name == "COMPLETE"]


def _share_dominating(theirs: Tensor, mine: Tensor) -> float:
    return ((theirs <= mine).all(-1) & (theirs < mine).any(-1)).double().mean().item()


def load_optuna() -> Any:
    """The package, or an error that says how to get it."""
    try:
        import optuna
    except ImportError:
        raise HyperfrontError("tuning needs optuna", fix="pip install 'hyperfront[compare]'") from None
    return optuna
