"""``explore``: from a run to its page, in a browser, in a notebook, or in a file."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from hyperfront.apps.explorer import document
from hyperfront.apps.explorer.baselines import read
from hyperfront.apps.explorer.page import page
from hyperfront.apps.explorer.server import PageServer
from hyperfront.apps.explorer.session import Session
from hyperfront.errors import HyperfrontError
from hyperfront.problem import Problem
from hyperfront.problem.registry import is_builtin
from hyperfront.storage import checkpoint as files
from hyperfront.training.loading import load, recorded_problem
from hyperfront.training.runs import Run, RunFolder


def explore(
    run: Run | str | Path,
    problem: Problem | None = None,
    *,
    target: nn.Module | str | None = None,
    baselines: Sequence[str | Path] = (),
    data_dir: str | Path | None = None,
    title: str | None = None,
    notes: str | None = None,
) -> Exploration:
    """Explore the front of a run. In a notebook, the cell shows the page.

    ``run`` is a run folder, a checkpoint file, or the run that :func:`hyperfront.fit` returned. Runs of built-in
    problems need neither ``problem`` nor ``target``. ``baselines`` are result files, fronts, run folders, or CSV files
    of points to compare with. ``title`` and ``notes``, an introduction for readers, replace those of the presentation.
    """
    if not isinstance(run, Run | str | Path):
        raise HyperfrontError(
            "explore opens a run", got=f"a {type(run).__name__}", expected="a run of hyperfront.fit, or its folder"
        )
    if target is None and problem is not None and problem.make_target is not None:
        target = problem.make_target()
    if isinstance(run, Run):
        model, folder = run.model, run.folder
        place = folder.path if folder else None
    else:
        place = Path(run)
        model, folder = load(place, target), RunFolder(place) if place.is_dir() else None
    if problem is None and "problem" not in model.record:
        raise HyperfrontError("this run was trained on your own problem", fix="explore(run, problem)")
    if problem is None:
        problem = recorded_problem(model.record, most=model.target.n, data_dir=data_dir)
    session, known = Session(model, problem, folder=folder), (problem.identity or {}).get("problem")
    return Exploration(
        session,
        name=place.name if place else str(model.record.get("problem", "front")),
        title=problem.presentation.title if title is None else title,
        notes=problem.presentation.notes if notes is None else notes,
        python=_loading(place, None if is_builtin(model.record.get("problem")) else target),
        baselines=[read(file, problem.objectives, session.split.name, known, [*problem.scores]) for file in baselines],
    )


class Exploration:
    """A page about a front. :func:`explore` makes it."""

    def __init__(self, session: Session, **words: Any):
        self.session, self.words = session, words
        self._server: PageServer | None = None

    def __repr__(self) -> str:
        return f"Exploration of {self.words['name']}: .url is its page, .save(path) writes it to a file"

    def save(self, path: str | Path, *, progress: Callable[[int, int], None] = lambda done, of: None) -> None:
        """Write the page as one file that needs no server and no network, with the front and predictions sampled."""
        self.session.refine(progress)
        files.write_bytes(Path(path), page(document.static(self.session, **self.words)).encode())

    def serve(self, *, host: str = "127.0.0.1", port: int = 0) -> PageServer:
        """Make a server of the page, ready to run."""
        shown = partial(document.document, self.session, **self.words)
        server = PageServer(self.session, shown, host=host, port=port)
        self.session.refine_beside()
        return server

    @property
    def url(self) -> str:
        """The address of the page; the first call starts a server on this machine."""
        if self._server is None:
            self._server = self.serve()
            self._server.start()
        return self._server.url

    def close(self) -> None:
        """Stop the server."""
        self.session.stop()
        if self._server:
            self._server.close()
        self._server = None

    def _repr_html_(self) -> str:
        title = html.escape(f"Explorer of {self.words['name']}", quote=True)
        style = "width: 100%; height: 860px; border: 0; border-radius: 12px"
        return f'<iframe src="{self.url}" title="{title}" style="{style}" allow="clipboard-write"></iframe>'


def _loading(place: Path | None, target: nn.Module | str | None) -> str:
    """The Python expression that loads the model."""
    if place is None:
        return "run.model"
    own = f", target={json.dumps(target)}" if isinstance(target, str) else ", target=YourModule()" if target else ""
    return f"hf.load({json.dumps(place.as_posix())}{own})"
