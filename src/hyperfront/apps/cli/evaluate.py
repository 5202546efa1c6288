"""``hyperfront evaluate``: the front of a trained run, at any rays."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

from hyperfront.apps.cli.arguments import DataFolder, OwnProblem, Target, TrainedRun, Which, option
from hyperfront.apps.cli.opening import open_model, open_problem
from hyperfront.apps.cli.output import console, counted, show_front
from hyperfront.errors import HyperfrontError
from hyperfront.front import evaluate as measure
from hyperfront.model.hypernets.separate import SeparateHypernet

SUFFIXES = (".json", ".csv", ".png", ".svg", ".pdf", ".html")


def evaluate(
    run: TrainedRun,
    /,
    *,
    rays: Annotated[int | None, option("N")] = None,
    split: Literal["val", "test"] = "val",
    which: Which = None,
    target: Target = None,
    problem: OwnProblem = None,
    data_dir: DataFolder = None,
    save: Annotated[tuple[Path, ...], option("FILE ...")] = (),
) -> None:
    """Measure the front of a trained run and print it.

    It can be measured at any number of rays, on validation or test data. Examples:
        hyperfront evaluate runs/demo --rays 100
        hyperfront evaluate runs/demo --save front.csv front.json front.html

    Args:
        rays: Number of rays, evenly laid out; by default 25, or the rays of separate models.
        split: The data to measure on; look at the test set once, when everything is decided.
        save: Files to write: .json, .csv, .png, .svg, .pdf or .html.
    """
    for file in save:
        if file.suffix.lower() not in SUFFIXES:
            raise HyperfrontError("unknown kind of file", got=file, expected="one of " + ", ".join(SUFFIXES))
    model = open_model(run, target, which, problem)
    built = open_problem(model, problem, data_dir)
    if isinstance(model.hypernet, SeparateHypernet):  # one model per ray: between them there is no front to look at
        front = measure(model, built.split(split), model.hypernet.knots if rays is None else rays)
        front = dataclasses.replace(front, evaluator=None)
        console.print(f"{counted(len(model.hypernet.knots), 'separate model')}; at other rays, the nearest of them\n")
    else:
        front = measure(model, built.split(split), 25 if rays is None else rays)
    show_front(front, built)
    for file in save:
        if file.suffix.lower() in (".json", ".csv"):
            front.save(file)
        else:
            front.plot(file)
        console.print(f"wrote {file}")
