"""A session: one model under exploration, which answers the requests of the page, independent of HTTP.

Requests may come at the same time, and a module has one set of weights at a time. So there are copies of the model,
each with a lock: one predicts for a few inputs while the handle moves (milliseconds), one measures losses on the whole
split (up to seconds), and one, made when it is first needed, tests rows one by one for certificates and intervals.

A thread that is inside PyTorch while the interpreter shuts down aborts the process: Python ends such a thread where it
asks for the interpreter's lock, and C++ does not allow that there. So the measuring thread is stopped and joined before
the interpreter ends.
"""

from __future__ import annotations

import atexit
import copy
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from hyperfront.apps.explorer import dense
from hyperfront.apps.explorer.download import plain_model
from hyperfront.apps.explorer.stopping import Stoppable, Stopped
from hyperfront.apps.shared.cache import WeightCache
from hyperfront.apps.shared.choice import Choice
from hyperfront.errors import CheckpointError
from hyperfront.front import Front, Selection, evaluate
from hyperfront.front.intervals import interval_document
from hyperfront.front.origin import Origin
from hyperfront.front.rows import rows_of
from hyperfront.model import ParetoModel
from hyperfront.preferences import das_dennis
from hyperfront.problem import Problem, Split
from hyperfront.problem.samples import make_samples
from hyperfront.storage.batches import Batch, to_device
from hyperfront.storage.nests import map_tensors
from hyperfront.training.runs import RunFolder

ROUNDS = 8
"""Rounds of the search for an operating point; a fixed number, so that no answer depends on the load of the machine."""
CACHE_BYTES = 64 * 2**20
"""Memory in bytes for the weights of recent rays."""


class Session:
    """A model, the data that measure it, and the front measured so far."""

    def __init__(self, model: ParetoModel, problem: Problem, *, folder: RunFolder | None = None):
        problem.check_model(model)
        self.model, self._judge = copy.deepcopy(model).eval(), copy.deepcopy(model).eval()
        self._weights = WeightCache(self.model, CACHE_BYTES)
        self.problem, self.folder = problem, folder
        self._checkpoint = dense.digest(folder) if folder else None  # training may continue and write another
        self.split = problem.split("val" if "val" in problem.sources else "train")
        self.samples = make_samples(problem, self.split)
        self._predicting, self._measuring, self._refining = threading.Lock(), threading.Lock(), threading.Lock()
        self._certifying = threading.Lock()
        self._stopped = threading.Event()
        self._beside: threading.Thread | None = None
        known = dense.stored(folder) if folder else None
        self.front = known or self.measure(das_dennis(model.m, 1))

    # ---- requests --------------------------------------------------------------------------------------------

    def predict(self, ray: Tensor | Sequence) -> Any:
        """Predict the sample inputs at the ray, as JSON."""
        rays = self.model.check(ray).cpu().numpy()
        with self._predicting, torch.no_grad():
            (weights,) = self._weights.get(rays)

            def network(x: Batch) -> Any:
                outputs = self._weights.run(weights, to_device(x, self.model.device))
                return map_tensors(lambda output: output.cpu(), outputs)

            return self.samples.predict(network)

    def plain(self, ray: Tensor) -> bytes:
        """The plain network at the ray, as a file."""
        with self._predicting:
            return plain_model(self.model, ray)

    def measure(self, rays: Tensor | Sequence) -> Front:
        """Measure losses and scores at the rays, on the whole split."""
        return self._measure(rays, self.split)

    def _measure(self, rays: Tensor | Sequence, split: Split) -> Front:
        with self._measuring:
            return evaluate(self._judge, split, rays)

    def select(self, choice: Choice) -> Selection:
        """Find the operating point of a choice, with its certificate if the choice has a confidence."""
        with self._certifying:
            front = replace(self.front, evaluator=self.measure, origin=Origin(self._witness, self.split))
            return choice.select(front, rounds=ROUNDS)

    def uncertainty(self, ray: Tensor | Sequence, **options: Any) -> dict[str, Any]:
        """The intervals of losses and scores at the ray, as JSON, from the rows that the page measures on."""
        with self._certifying:
            return interval_document(self._witness, self.split, ray, **options)

    @property
    def calibration(self) -> int | None:
        """The number of rows that can certify limits, if there are any."""
        known = "calibration" in self.problem.sources
        return rows_of(self.problem.calibration) if known else None

    @cached_property
    def _witness(self) -> ParetoModel:
        """A copy of the model for rows one by one."""
        return copy.deepcopy(self._judge)

    # ---- the dense front -------------------------------------------------------------------------------------

    def refine(self, progress: Callable[[int, int], None] = lambda done, of: None) -> None:
        """Measure the missing rays, one by one, until none is left or :meth:`stop` is called."""
        with self._refining:  # a second call waits for the first, and then finds nothing missing
            last, rays = time.monotonic(), dense.missing(self.front)
            split = replace(self.split, source=Stoppable(self.split.source, self._stopped))
            with suppress(Stopped):
                for done, ray in enumerate(rays):
                    self.front = dense.joined(self.front, self._measure(ray, split))
                    progress(done + 1, len(rays))
                    if time.monotonic() - last > 10:
                        self._store()
                        last = time.monotonic()
                    time.sleep(1e-3)  # lets waiting requests measure first
            if len(rays):
                self._store()

    def refine_beside(self) -> None:
        """Run :meth:`refine` in its own thread, until :meth:`stop`."""
        self._stopped.clear()
        self._beside = threading.Thread(target=self.refine, name="hyperfront-refine", daemon=True)
        self._beside.start()
        atexit.register(self._end)

    def stop(self) -> None:
        """End :meth:`refine` after the current batch. Finished rays are stored at once, if that batch takes long."""
        self._stopped.set()
        if self._beside:
            self._beside.join(timeout=3)
            if self._beside.is_alive():
                self._store()
            else:
                atexit.unregister(self._end)

    def _end(self) -> None:
        """Stop before the interpreter ends, and wait for the thread."""
        self.stop()
        if self._beside:
            self._beside.join()

    def _store(self) -> None:
        if self.folder and self._checkpoint:
            try:
                dense.store(self.front, self.folder, self._checkpoint)
            except CheckpointError:
                self._checkpoint = None  # the folder is read-only: the next session measures again
