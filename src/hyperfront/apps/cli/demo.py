"""``hyperfront demo``: the whole idea in under a minute, without data and without a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from hyperfront.apps.cli.output import console, free_folder
from hyperfront.apps.cli.train import train


def demo(*, out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/demo")) -> None:
    """Train one model of the whole Pareto front of Fonseca's problem (100 variables), and print and draw the front.

    The front is known and concave, so that weighing losses fails on it; EPO reaches every point.

    Args:
        out: Run folder; if it exists, a number is added.
    """
    folder = free_folder(out)
    train("fonseca", out=folder)
    console.print(
        "\nWhat you see: each ray asks for one trade-off between l1 and l2, and one model answers them all.\n"
        "[bold]distance[/bold] is how far the answer lies from the true front; "
        "[bold]uniformity[/bold] is 1 where it lies exactly on the ray.\n\n"
        "Use it from Python:\n"
        "  import hyperfront as hf\n"
        f'  model = hf.load("{folder}")\n'
        "  point = model.at([0.7, 0.3])()      # a plain nn.Module for this trade-off\n"
    )
