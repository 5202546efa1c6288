"""``engine="auto"`` on a CPU: eager steps first, then traced ones if they are found to be faster.

A run begins with eager steps. After :data:`WARM` of them the rest of the run can be estimated; if it is worth a trace,
the step is traced and both are timed on the batch at hand, in turn, without leaving a trace in the run. The faster one
takes the step of that batch and all later ones. Both compute the same bits (:func:`~.tracing.replayed`), so neither
the choice nor the moment of it changes a number of the run.

A trace keeps the Python numbers that a loss had when it was made. So steps are compared with eager ones bit by bit:
the first :data:`MANY` traced ones, the first of each epoch, and one of every :data:`CHECK`. After a difference the run
continues with eager steps, and says so.
"""

from __future__ import annotations

import copy
import itertools
import statistics
import time
import warnings
from collections.abc import Callable

from torch import Tensor

from hyperfront.kernels.factors import Factors
from hyperfront.solvers import Stateful
from hyperfront.storage.batches import Batch
from hyperfront.training.adam import Adam
from hyperfront.training.engines.tracing import NotCompilable, TracedStep
from hyperfront.training.epochs import Epochs
from hyperfront.training.step import StepResult

WARM = 20
"""The number of eager steps before the choice."""
WORTH = 10.0
"""The least seconds of eager steps ahead that are worth a trace."""
TRIALS = 10
MANY = 5
CHECK = 100


class Choice:
    """Chooses the eager or the traced step, for :class:`Eager`; ``say`` gets one line about it."""

    def __init__(self, epochs: Epochs, say: Callable[[str], None]):
        self.epochs, self.state, self.say = epochs, epochs.state, say
        self.eager = epochs.state.step
        self.traced: TracedStep | None = None
        """The traced step, once it was chosen."""
        self._times: list[float] = []
        self._chosen, self._taken = False, 0

    def __call__(self, rays: Tensor, batch: Batch) -> Callable[..., StepResult]:
        """Return the function that takes the step of this batch."""
        if not self._chosen:
            self._times.append(time.perf_counter())
            if len(self._times) > WARM:
                self._chosen = True
                self._choose(rays, batch)
        return self._checked if self.traced else self.eager

    def _checked(self, rays: Tensor, batch: Batch, factors: Factors | None = None) -> StepResult:
        """Take a traced step, or end tracing and take an eager one if it cannot be taken or differs."""
        traced, solver = self.traced, self.eager.solver
        assert traced
        self._taken += 1
        if self._taken <= MANY or self._taken % CHECK == 0 or self.state.position.step == 0:
            traced.trusted = False
        memory = None if traced.trusted else _memory(solver)
        try:
            return traced(rays, batch)
        except NotCompilable as error:
            self.traced = None
            _recall(solver, memory)
            warnings.warn(f"from here on, steps run one by one: {error.what}", stacklevel=2)
            return self.eager(rays, batch, factors)

    # ---- choosing --------------------------------------------------------------------------------------------

    def _choose(self, rays: Tensor, batch: Batch) -> None:
        """Trace the step and keep the trace, if it is worth its time and faster."""
        position, settings = self.state.position, self.epochs.settings
        left = (settings.epochs - position.epoch) * self.epochs.length - position.step
        each = statistics.median(after - before for before, after in itertools.pairwise(self._times))
        if left * each < WORTH:
            return
        traced = TracedStep(self.eager, read_only=type(self.state.optimizer) is Adam)  # which only reads gradients
        try:
            eager, fast = self._timed(traced, rays, batch)
        except NotCompilable as error:
            self.say(f"engine: eager; {error.what}{f' ({error.got})' if error.got else ''}")
            return
        numbers = f"{fast * 1e3:.2f} ms a gradient traced, {eager * 1e3:.2f} ms eager"
        self.traced = traced if fast < eager else None
        self.say(f"engine: {'traced' if self.traced else 'eager'}; {numbers}, the same numbers")

    def _timed(self, traced: TracedStep, rays: Tensor, batch: Batch) -> tuple[float, float]:
        """Measure the median seconds of an eager and of a traced gradient. The run's state does not change."""
        memory = _memory(self.eager.solver)

        def eager() -> None:
            self.eager(rays, batch, remembers=False)

        try:
            traced.gradients(rays, batch)
            return _medians(eager, lambda: traced.gradients(rays, batch), self.state.optimizer.zero_grad)
        finally:
            _recall(self.eager.solver, memory)


def _medians(
    first: Callable[[], object], second: Callable[[], object], reset: Callable[[], None]
) -> tuple[float, float]:
    """Measure the median seconds of two functions that take turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(TRIALS):
        for function, found in zip((first, second), times):
            began = time.perf_counter()
            function()
            found.append(time.perf_counter() - began)
            reset()
    return statistics.median(times[0]), statistics.median(times[1])


def _memory(solver: object) -> dict | None:
    """Copy what a solver remembers; None for a solver that remembers nothing."""
    return copy.deepcopy(solver.state()) if isinstance(solver, Stateful) else None


def _recall(solver: object, memory: dict | None) -> None:
    if memory is not None and isinstance(solver, Stateful):
        solver.load(memory)
