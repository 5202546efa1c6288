"""Display of a front in a notebook: a picture, its quality, and some of its points."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from hyperfront.errors import HyperfrontError
from hyperfront.storage import markup
from hyperfront.storage.markup import Markup, number, shorten

if TYPE_CHECKING:
    from hyperfront.front.front import Front

ROWS = 25
"""The most points in the table."""
DRAWN = 100
"""The most points in the picture."""
ENTRIES = 6
"""The most entries of a ray in the table."""
HEIGHT, WIDEST, SHARP = 330, 760, 1600
"""Pixels of the picture: its height and its largest width on the page, and its largest width in the file."""


def html(front: Front) -> Markup:
    """Show at most 25 rows of the front, and a picture of at most 100 points."""
    count = f"{len(front):,} ray{'s' * (len(front) != 1)}"
    known = markup.facts(facts(front))
    if not len(front):
        return markup.block(f"Front at {count}", known)
    return markup.block(f"Front at {count}", markup.beside(_picture(front), Markup(known + _table(front))))


def facts(front: Front) -> dict[str, str]:
    """Problem, solver and split, and the quality of the front."""
    known = front.provenance
    shown = {key: shorten(known[key]) for key in ("problem", "solver", "split") if known.get(key) is not None}
    if not len(front):
        return shown
    many = len(front) > 25 and len(front.objectives) > 5  # the time it takes is exponential in the objectives
    volume = "measured by front.hypervolume()" if many else _or_why_not(lambda: number(front.hypervolume()))
    shown |= {"hypervolume": volume, "uniformity": _or_why_not(lambda: number(front.uniformity()))}
    if front.reference is None:
        return shown
    return shown | {"reference point": f"({shorten(', '.join(map(number, front.reference)), 60)})"}


def _or_why_not(measure: Callable[[], str]) -> str:
    try:
        return measure()
    except HyperfrontError as error:
        return error.what


def _picture(front: Front) -> Markup:
    from hyperfront.front.plots import static  # needs matplotlib, which takes a second to import

    part = _spread(front, DRAWN)
    shown = replace(
        front,
        objectives=tuple(map(shorten, front.objectives)),
        rays=front.rays[part],
        losses=front.losses[part],
        scores={shorten(name): values[part] for name, values in front.scores.items()},
        meanings={shorten(name): meaning for name, meaning in front.meanings.items()},
        provenance={},
    )
    names = ", ".join(shown.objectives[:ENTRIES])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of letters that the font lacks: the table has them
            figure = static.front(shown)
            figure.suptitle("")
            across, up = figure.get_size_inches()
            image = static.png(figure, dpi=min(125, SHARP / across))
    except HyperfrontError as error:
        return markup.note(f"There is no picture: {error.what}.")
    width = min(WIDEST, round(HEIGHT * across / up))
    drawn = "" if len(part) == len(front) else markup.note(f"{len(part)} of the points, evenly spaced")
    return Markup(markup.picture(image, f"The front of {names}", width=width) + drawn)


def _table(front: Front) -> Markup:
    """Make a table of rays, losses and scores at evenly spaced points."""
    part, columns = _spread(front, ROWS), front.columns()
    more = ", …" * (len(front.objectives) > ENTRIES)
    rows = [
        [str(i), ", ".join(f"{entry:.2f}" for entry in front.rays[i, :ENTRIES].tolist()) + more]
        + [number(float(values[i])) for values in columns.values()]
        for i in part.tolist()
    ]
    names = [f"{shorten(name)} score" if name in front.scores else shorten(name) for name in columns]
    ray = f"ray ({', '.join(shorten(name, 16) for name in front.objectives[:ENTRIES])}{more})"
    points = markup.table(["", ray, *names], rows, words=(0, 1))
    if len(part) == len(front):
        return points
    return Markup(points + markup.note(f"{len(part)} of {len(front):,} points; front.save('front.csv') writes all"))


def _spread(front: Front, most: int) -> torch.Tensor:
    """List at most ``most`` numbers of points, evenly spaced, with the first and the last."""
    return torch.linspace(0, len(front) - 1, min(most, len(front))).round().long()
