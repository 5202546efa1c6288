"""Items without training: the architecture (figure 2), the hypervolume (figure 12), sizes of splits (table 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.patches import FancyBboxPatch, Rectangle

from hyperfront import indicators
from hyperfront.front.plots import BLUE, INK, MUTED, PALE, PAPER, VERMILION
from hyperfront.model import ParetoModel
from hyperfront.problem.registry import build, recipe
from reproduction.drawing import panels
from reproduction.item_result import ItemResult, Table
from reproduction.paper import NUMBERS
from reproduction.store import Store

COLUMNS = ("problem, preset", "target", "generated", "trained", "hypernetwork", "to train in all")


def architecture(store: Store, presets: Sequence[tuple[str, str]]) -> ItemResult:
    """A diagram of the hypernetwork of the first problem and preset, and the sizes of all."""
    models = {}
    for name, preset in presets:
        settings = recipe(name, preset)
        models[f"{name}, {preset}"] = build(name, **settings.arguments).model(**settings.model)
    rows = [(name, *_sizes(model)) for name, model in models.items()]
    table = Table("Hypernetworks and what they generate, from model.summary()", COLUMNS, rows)
    summaries = {name: model.summary() for name, model in models.items()}
    return ItemResult([table], _diagram(next(iter(models.values()))), numbers={"summaries": summaries})


def _sizes(model: ParetoModel) -> tuple[str, ...]:
    """The target; numbers that are generated, trained directly, in the hypernetwork, and to train in all."""
    own = sum(p.numel() for p in model.hypernet.parameters())
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    directly = f"{trained - own:,}" if trained > own else "-"
    return type(model.target.skeleton).__name__, f"{model.target.n:,}", directly, f"{own:,}", f"{trained:,}"


def _diagram(model: ParetoModel) -> Any:
    target, generated, _, own, _ = _sizes(model)
    boxes = [
        (0.0, "ray $r$", "\n".join(model.objectives), PAPER),
        (1.35, "hypernetwork $h(r; \\phi)$", f"{own}\nparameters", "#e3f0f8"),
        (2.7, "weights $\\theta_r$", f"{generated}\ngenerated", PAPER),
        (4.05, f"{target} $f(x; \\theta_r)$", "a plain network\nfor each ray", "#fbeadf"),
    ]
    with panels(1, 1, width=8.4, height=2.4) as (figure, axes):
        (each,) = axes.flat
        each.grid(False)
        each.axis("off")
        each.set(xlim=(-0.15, 6.2), ylim=(-0.75, 1.2), aspect="equal")
        for x, name, text, color in boxes:
            look = {"boxstyle": "round,pad=0.02,rounding_size=0.08", "facecolor": color, "edgecolor": INK}
            each.add_patch(FancyBboxPatch((x, 0), 1, 0.8, linewidth=1, **look))
            each.text(x + 0.5, 0.62, name, ha="center", va="center", fontsize=7.5, fontweight="bold")
            each.text(x + 0.5, 0.26, text, ha="center", va="center", fontsize=7.5, color=MUTED)
        arrow = {"arrowstyle": "-|>", "color": INK, "shrinkA": 0, "shrinkB": 0}
        for x in (1.02, 2.37, 3.72, 5.07):
            each.annotate("", (x + 0.32, 0.4), (x, 0.4), arrowprops=arrow)
        each.annotate("", (4.55, -0.03), (4.55, -0.4), arrowprops=arrow)
        each.text(4.55, -0.55, "input $x$", ha="center", fontsize=8)
        each.text(5.42, 0.4, "losses $l_1, \\dots, l_m$", va="center", fontsize=8)
    return figure


POINTS, REFERENCE = np.array([[0.15, 0.75], [0.4, 0.4], [0.8, 0.2]]), np.array([1.0, 1.0])


def illustration(store: Store) -> ItemResult:
    """The region that three points dominate up to the reference point, and its area."""
    volume = indicators.hypervolume(torch.from_numpy(POINTS), tuple(REFERENCE))
    with panels(1, 1, width=4.2, height=3.4) as (figure, axes):
        (each,) = axes.flat
        for number, point in enumerate(POINTS, start=1):
            each.add_patch(Rectangle(point, *(REFERENCE - point), color=BLUE, alpha=0.22, linewidth=0))
            each.plot(*point, "o", color=INK)
            each.annotate(f"$P_{number}$", point, (-6, -12), textcoords="offset points", ha="right")
        each.plot(*REFERENCE, "X", color=VERMILION, markersize=9)
        each.annotate("reference", REFERENCE, (-4, 6), textcoords="offset points", ha="right")
        each.text(0.72, 0.68, f"HV = {volume:.4g}", ha="center", color=INK)
        each.set(xlim=(0, 1.12), ylim=(0, 1.12), xlabel="$l_1$", ylabel="$l_2$", facecolor=PAPER)
        each.grid(True, color=PALE)
    rows = [(f"P{number}", f"{x:g}", f"{y:g}") for number, (x, y) in enumerate(POINTS, start=1)]
    return ItemResult([Table("The points of the picture", ("point", "l1", "l2"), rows)], figure)


def split_sizes(store: Store) -> ItemResult:
    """Rows of each split of the fairness data."""
    paper = NUMBERS["rows"]

    def count() -> dict[str, dict[str, int]]:
        problems = {name: build(name, data_dir=store.data_dir) for name in paper}
        return {name: {part: p.split(part).source.rows for part in paper[name]} for name, p in problems.items()}  # pyrefly: ignore

    found = store.part("split-sizes", count)
    rows = [
        (part, *(cell for name in paper for cell in (f"{found[name][part]:,}", f"{paper[name][part]:,}")))
        for part in ("train", "val", "test")
    ]
    columns = ("split", *(cell for name in paper for cell in (name, "paper")))
    return ItemResult([Table("Rows of the fairness data", columns, rows)], numbers=found)
