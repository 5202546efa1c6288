"""``hyperfront evaluate``: the front of a trained run, at any rays."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from hyperfront.cli.arguments import DataFolder, OwnProblem, Target, TrainedRun, Which
from hyperfront.cli.opening import open_model, open_problem
from hyperfront.cli.output import console, show_front
from hyperfront.errors import HyperfrontError
from hyperfront.front import evaluate as measure

SUFFIXES = (".json", ".csv", ".png", ".svg", ".pdf", ".html")


def evaluate(
    run: TrainedRun,
    /,
    *,
    rays: Annotated[int, tyro.conf.arg(metavar="N")] = 25,
    split: Literal["val", "test"] = "val",
    which: Which = None,
    target: Target = None,
    problem: OwnProblem = None,
    data_dir: DataFolder = None,
    save: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="FILE ...", help_behavior_hint="")] = (),
) -> None:
    """Measure the front of a trained run and print it.

    At any number of rays, on validation or test data. Examples:
        hyperfront evaluate runs/demo --rays 100
        hyperfront evaluate runs/demo --save front.csv front.json front.html

    Args:
        rays: How many rays, evenly laid out.
        split: The data to measure on; look at the test set once, when everything is decided.
        save: Files to write: .json, .csv, .png, .svg, .pdf or .html.
    """
    for file in save:
        if file.suffix.lower() not in SUFFIXES:
            raise HyperfrontError("unknown kind of file", got=file, expected="one of " + ", ".join(SUFFIXES))
    model = open_model(run, target, which)
    built = open_problem(model, problem, data_dir)
    front = measure(model, built.split(split), rays)
    show_front(front, built)
    for file in save:
        if file.suffix.lower() in (".json", ".csv"):
            front.save(file)
        else:
            front.plot(file)
        console.print(f"wrote {file}")
