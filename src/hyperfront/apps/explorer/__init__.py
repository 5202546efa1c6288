"""The explorer: a page on localhost that shows a front and lets its user choose a trade-off.

:func:`explore` opens a run from Python or a notebook, ``hyperfront explore`` from the command line. ``session`` answers
the requests of the page, and ``document`` is the data that the page starts with. ``web/`` holds its plain HTML, CSS and
JavaScript, which ``page`` puts into one text.
"""

from hyperfront.errors import HyperfrontError

try:
    from hyperfront.apps.explorer.exploration import Exploration, explore
except ImportError as error:
    if (error.name or "").partition(".")[0] == "hyperfront":
        raise
    raise HyperfrontError(
        "the explorer needs more packages", got=error, fix="pip install 'hyperfront[explore]'"
    ) from None

__all__ = ["Exploration", "explore"]
