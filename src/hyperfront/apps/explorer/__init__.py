"""The explorer: a page on localhost on which one looks at a front and picks a trade-off.

:func:`explore` opens a run from Python or a notebook, ``hyperfront explore`` from the command line. ``session`` answers
what the page asks, ``document`` is what it shows from the start, ``web/`` how it looks: plain HTML, CSS and JavaScript,
which ``page`` puts into one text.
"""

from hyperfront.apps.explorer.exploration import Exploration, explore

__all__ = ["Exploration", "explore"]
