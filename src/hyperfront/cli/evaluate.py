"""``hyperfront evaluate``: the front of a trained run, at any rays."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from hyperfront.cli.opening import open_model, open_problem
from hyperfront.cli.output import console, show_front
from hyperfront.errors import HyperfrontError
from hyperfront.front import evaluate as measure

SUFFIXES = (".json", ".csv", ".png", ".svg", ".pdf", ".html")


def evaluate(
    run: Annotated[Path, tyro.conf.arg(metavar="RUN")],
    /,
    *,
    rays: Annotated[int, tyro.conf.arg(metavar="N")] = 25,
    split: Literal["val", "test"] = "val",
    which: Annotated[
        Literal["best", "last"] | None, tyro.conf.arg(metavar="{best,last}", help_behavior_hint="")
    ] = None,
    target: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = None,
    problem: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = None,
    data_dir: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER", help_behavior_hint="")] = None,
    save: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="FILE ...", help_behavior_hint="")] = (),
) -> None:
    """Measure the front of a trained run and print it.

    Examples:
        hyperfront evaluate runs/demo --rays 100
        hyperfront evaluate runs/demo --save front.csv front.json front.html

    Args:
        run: Run folder or checkpoint file.
        rays: How many rays, evenly laid out.
        split: The data to measure on; look at the test set once, when everything is decided.
        which: The checkpoint: by default the best, or the last where nothing was selected.
        target: "package.module:factory" of a module of your own; built-in problems need none.
        problem: "package.module:factory" of a problem of your own; built-in problems need none.
        data_dir: Folder with the data; by default HYPERFRONT_DATA, else they are fetched into a cache.
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
