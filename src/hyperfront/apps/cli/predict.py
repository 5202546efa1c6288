"""``hyperfront predict``: predictions of a trained run for the rows of a table."""

from __future__ import annotations

import csv
import io
import itertools
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro

from hyperfront.apps.cli.arguments import TrainedRun, Which, option
from hyperfront.apps.cli.opening import open_model
from hyperfront.apps.cli.output import console, counted, show_table
from hyperfront.errors import HyperfrontError
from hyperfront.storage import files
from hyperfront.tabular import Prediction
from hyperfront.tabular import predict as predicted
from hyperfront.training.runs import RunFolder

SHOWN = 10


def predict(
    run: TrainedRun,
    table: Annotated[Path, tyro.conf.arg(metavar="FILE", help="A CSV or Parquet file.")],
    /,
    *,
    ray: Annotated[tuple[float, ...], option("NUMBER ..")] = (),
    threshold: Annotated[float, tyro.conf.arg(metavar="X")] = 0.5,
    encoding: Annotated[str | None, option("NAME")] = None,
    which: Which = None,
    out: Annotated[Path | None, option("FILE")] = None,
) -> None:
    """Predict the rows of a table with a run that was trained on a table.

    Columns are found by name; others are ignored. Examples:
        hyperfront predict runs/people new.csv --out predictions.csv
        hyperfront predict runs/people new.csv --ray 0.6 0.2 0.2

    Args:
        ray: The trade-off, one number for each loss; by default the one that training chose (--minimize).
        threshold: Of two classes, the positive one is predicted above this probability.
        encoding: Encoding of the file, if not UTF-8.
        out: CSV file to write, with a line for each row in the same order; by default the first rows are printed.
    """
    if out is not None:
        files.refuse_unwritable(out)
    model = open_model(run, None, which)
    torch.set_num_threads(1)
    found = predicted(model, table, ray=ray or _chosen(run), threshold=threshold, encoding=encoding)
    columns = found.columns()
    if out is not None:
        files.write_bytes(out, _text(columns).encode())
        console.print(f"wrote {out}: {counted(len(found.values), 'row')}")
    else:
        rows = itertools.islice(zip(*columns.values()), SHOWN)
        show_table([*columns], [[_cell(value) for value in row] for row in rows])
        more = len(found.values) - SHOWN
        if more > 0:
            console.print(f"and {more:,} more; --out FILE writes all of them")
    _note(found)


def _note(found: Prediction) -> None:
    """Say which values the training rows did not have."""
    for name, count in found.unseen.items():
        verb = "counts" if count == 1 else "count"
        console.print(f"note: {counted(count, 'value')} of {name} did not occur in training and {verb} as missing")


def _chosen(run: Path) -> list[float]:
    """The ray that training chose."""
    ray = RunFolder(run).chosen_ray() if run.is_dir() else None
    if ray is None:
        raise HyperfrontError(
            "no trade-off was chosen to predict at",
            got=f"{run} without choice.json",
            fix="--ray with one number for each loss, or train with --minimize",
        )
    return ray


def _text(columns: dict[str, Any]) -> str:
    lines = io.StringIO(newline="")
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerows([list(columns), *zip(*(column.tolist() for column in columns.values()))])
    return lines.getvalue()


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
