"""Trackers: callbacks that log to other tools. Each imports its tool when it is made, not with this module.

All tools get the same numbers: losses, statuses and learning rate after each epoch, hypervolume and uniformity after
each validation. MLflow and Weights & Biases also get the validation front, one row for each ray.
"""

from __future__ import annotations

import csv
import importlib
import io
from pathlib import Path
from typing import Any

from hyperfront.errors import HyperfrontError
from hyperfront.training.callbacks import Callback


class TensorBoard(Callback):
    """Logs losses, hypervolume, uniformity and statuses as TensorBoard scalars in ``folder``."""

    def __init__(self, folder: str | Path):
        writer = _tool("torch.utils.tensorboard", "TensorBoard", "log").SummaryWriter
        self.make_writer = lambda step: writer(str(folder), purge_step=step)

    def started(self, *, epochs: int, steps: int, epoch: int, step: int) -> None:
        self.writer = self.make_writer(epoch * steps + step + 1)

    def epoch_ended(self, record: dict[str, Any]) -> None:
        for name, value in scalars(record).items():
            self.writer.add_scalar(name, value, record["step"])

    def finished(self) -> None:
        self.writer.close()


class MLflow(Callback):
    """Logs the numbers as MLflow metrics, and the front of each validation as the artifact ``fronts/epoch-N.csv``.

    It logs to the active run, or starts one with ``options`` (those of ``mlflow.start_run``) and ends it. To resume a
    training run, pass the ``run_id``.
    """

    def __init__(self, **options: Any):
        self.mlflow, self.options = _tool("mlflow", "MLflow", "mlflow"), options

    def started(self, *, epochs: int, steps: int, epoch: int, step: int) -> None:
        self.own = self.mlflow.active_run() is None
        if self.own:
            self.mlflow.start_run(**self.options)

    def epoch_ended(self, record: dict[str, Any]) -> None:
        self.mlflow.log_metrics(scalars(record), step=record["step"])
        if "validation" in record:
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows(front(record))
            self.mlflow.log_text(text.getvalue(), f"fronts/epoch-{record['epoch']}.csv")

    def finished(self) -> None:
        if self.own:
            self.mlflow.end_run()


class WandB(Callback):
    """Logs the numbers to Weights & Biases, and the front of each validation as the table ``front``.

    It logs to the active run, or starts one with ``options`` (those of ``wandb.init``) and ends it. To resume a
    training run, pass its ``id`` and ``resume="allow"``.
    """

    def __init__(self, **options: Any):
        self.wandb, self.options = _tool("wandb", "Weights & Biases", "wandb"), options

    def started(self, *, epochs: int, steps: int, epoch: int, step: int) -> None:
        self.own = self.wandb.run is None
        self.run = self.wandb.init(**self.options) if self.own else self.wandb.run

    def epoch_ended(self, record: dict[str, Any]) -> None:
        logged = scalars(record)
        if "validation" in record:
            names, *rows = front(record)
            logged["front"] = self.wandb.Table(columns=names, data=rows)
        self.run.log(logged, step=record["step"], commit=True)

    def finished(self) -> None:
        if self.own:
            self.run.finish()


def scalars(record: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of an epoch's record, by name."""
    validation = record.get("validation") or {}
    found = {f"loss/{name}": value for name, value in record["losses"].items()}
    found |= {f"status/{name}": value for name, value in record["status"].items()}
    found |= {f"validation/{key}": validation.get(key) for key in ("hypervolume", "uniformity")}
    found["lr"] = record["lr"]
    return {name: value for name, value in found.items() if value is not None}


def front(record: dict[str, Any]) -> list[list[Any]]:
    """Return the validation front of a record as a table: names, then for each ray its entries, losses and scores."""
    validation, objectives = record["validation"], list(record["losses"])
    names = [*(f"ray {name}" for name in objectives), *objectives, *validation["scores"]]
    columns = zip(validation["rays"], validation["losses"], *validation["scores"].values())
    return [names, *([*ray, *losses, *scores] for ray, losses, *scores in columns)]


def _tool(module: str, name: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise HyperfrontError(f"{name} is not installed", fix=f"pip install 'hyperfront[{extra}]'") from None
