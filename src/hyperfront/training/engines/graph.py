"""The whole step, from drawing the batch to the optimizer, as one CUDA graph that is replayed.

Everything that differs between steps is on the device before the epoch begins: rays, rows, numbers of the augmentation
and learning rates, as tables with one row per step. The graph reads row ``t`` of each and adds 1 to ``t``, so that the
host only replays the graph and reads nothing back until the epoch ends. A parallel branch of the graph gathers the next
rays and batch. They alternate between two places, so there are two graphs, and a third one of many steps. The next
epoch is drawn on the CPU while the GPU finishes this one.
"""

from __future__ import annotations

import contextlib
import copy
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Adam, AdamW

from hyperfront.errors import HyperfrontError
from hyperfront.kernels import on_gpu
from hyperfront.kernels.capture import captured
from hyperfront.problem.sources import resident
from hyperfront.solvers import Solver, Stateful, Status
from hyperfront.solvers.chain import Chain
from hyperfront.storage.batches import Batch
from hyperfront.storage.nests import map_tensors, tensors
from hyperfront.training.adam import Adam as OurAdam
from hyperfront.training.epochs import Epochs

MANY = 10
"""Short steps are captured in a graph of so many steps: between two graphs a GPU idles for a few small kernels."""
PATIENCE = 1.0
"""The most seconds to spend on capturing the graph of many steps, approximately."""


class NotCapturable(HyperfrontError):
    """A step cannot become a graph."""


class CudaGraphs:
    """Captures the step when it is constructed. If that fails, it raises :class:`NotCapturable` and changes nothing."""

    name = "graph"

    def __init__(self, epochs: Epochs):
        self.epochs, self.state, self.model = epochs, epochs.state, epochs.model
        self.device, self.optimizer = self.model.device, epochs.state.optimizer
        self._refuse()
        self.source: Any = epochs.source
        self.drawn: tuple[int, list[Tensor]] | None = None
        rays, *drawn = self._draw(0)
        dtype = next(self.model.hypernet.parameters()).dtype
        self.rays = torch.empty(rays.shape, dtype=dtype, device=self.device)
        self.rows = [torch.empty_like(tensor, device=self.device) for tensor in drawn]
        self.rates = torch.empty(epochs.length, len(self.optimizer.param_groups), device=self.device)
        self.tables = [self.rays, *self.rows, self.rates]
        # the graphs write the rates of a step here: kept, since they would also write to released memory
        self.lr = [torch.zeros((), device=self.device) for _ in self.optimizer.param_groups]
        self.t = torch.zeros(1, dtype=torch.long, device=self.device)
        self.sums = torch.zeros(self.model.m, dtype=torch.float64, device=self.device)
        self.statuses = torch.zeros(len(Status), dtype=torch.long, device=self.device)
        self._fill([rays, *drawn], torch.zeros(self.rates.shape))
        self.staged: list[tuple[Tensor, Batch]] = [map_tensors(torch.clone, self._gather(0)) for _ in range(2)]
        from hyperfront.kernels.gpu.tally import tally_on_gpu  # needs Triton

        self.tally = tally_on_gpu
        self.many: torch.cuda.CUDAGraph | None = None
        self.graphs = self._capture()

    # ---- an epoch --------------------------------------------------------------------------------------------

    def run(self, epoch: int, keeps_going: Callable[[], bool]) -> None:
        """Train to the end of one epoch, or until ``keeps_going``, called once for every step, returns False."""
        position = self.state.position
        first = position.step
        before = copy.deepcopy(self.state.schedule.state_dict()), self._lr()
        self._fill(self._draw(epoch), self._rates(self.epochs.length - first, first))
        self.t.fill_(first)
        self.sums.copy_(position.sums)
        self.statuses.copy_(position.statuses)
        self._stage(first % 2, self._gather(0))
        self.model.train()
        while position.step < self.epochs.length:
            place, left = position.step % 2, self.epochs.length - position.step
            graph, count = self.graphs[place], 1
            if self.many and place == 0 and left >= MANY:
                graph, count = self.many, MANY
            graph.replay()
            position.step += count
            if sum(keeps_going() for _ in range(count)) < count:
                break
        if position.step < self.epochs.length:  # the schedule was stepped to the end of the epoch
            self.state.schedule.load_state_dict(before[0])
            for group, rate in zip(self.optimizer.param_groups, before[1]):  # some schedules multiply the last rate
                group["lr"] = rate
            self._rates(position.step - first, first)
        else:
            self.drawn = epoch + 1, self._draw(epoch + 1)
        position.sums, position.statuses = self.sums.cpu(), self.statuses.cpu()

    def _draw(self, epoch: int) -> list[Tensor]:
        """Draw rays, rows and random numbers of an epoch into pinned memory."""
        if self.drawn is not None and self.drawn[0] == epoch:
            return self.drawn[1]
        rays, generator = self.epochs.rays(epoch)
        drawn = self.source.draw(self.epochs.settings.batch_size, generator)
        dtype = next(self.model.hypernet.parameters()).dtype
        return [tensor.pin_memory() for tensor in (rays.to(dtype), *drawn)]

    def _rates(self, count: int, first: int) -> Tensor:
        """Step the schedule, and return the learning rates ``[steps, groups]`` of ``count`` steps from ``first``."""
        rates = [[0.0] * len(self.optimizer.param_groups)] * self.epochs.length
        for step in range(first, first + count):
            rates[step] = self._lr()
            self.state.schedule.step()
        return torch.tensor(rates)

    def _lr(self) -> list[float]:
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def _fill(self, drawn: Sequence[Tensor], rates: Tensor) -> None:
        for table, values in zip(self.tables, [*drawn, rates]):
            table.copy_(values, non_blocking=True)

    # ---- a step ----------------------------------------------------------------------------------------------

    def _gather(self, ahead: int) -> tuple[Tensor, Batch]:
        """Gather rays and batch of the step ``t + ahead``, or of the last step if the epoch ends before."""
        t = (self.t + ahead).clamp(max=self.epochs.length - 1)
        rays, *rows = (table.index_select(0, t)[0] for table in (self.rays, *self.rows))
        return rays, self.source.batch(rows, self.device)

    def _stage(self, place: int, gathered: tuple[Tensor, Batch]) -> None:
        for staged, tensor in zip(tensors(self.staged[place]), tensors(gathered)):
            staged.copy_(tensor)

    def _step(self, place: int, beside: torch.cuda.Stream) -> None:
        """Train on the rays and batch at one place, and gather those of the next step at the other."""
        here = torch.cuda.current_stream()
        start = here.record_event()
        self.optimizer.zero_grad(set_to_none=True)
        result = self.state.step(*self.staged[place], getattr(self.optimizer, "factors", None))
        beside.wait_event(start)  # launched after the step, so that the GPU begins with the step
        with torch.cuda.stream(beside):
            self._stage(1 - place, self._gather(1))
            rates = self.rates.index_select(0, self.t)[0]
            torch._foreach_copy_(self.lr, list(rates.unbind()))
        here.wait_stream(beside)
        self.optimizer.step()
        self.tally(result.losses, result.status, self.sums, self.statuses, self.t)

    def _capture(self) -> list[torch.cuda.CUDAGraph]:
        stream, beside = torch.cuda.Stream(), torch.cuda.Stream()
        graphs, pool = [torch.cuda.CUDAGraph() for _ in self.staged], torch.cuda.graph_pool_handle()
        self.model.train()
        with self._as_it_was(), self._rates_on_device():
            try:
                stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(stream):
                    self._step(0, beside)  # allocates, compiles and chooses algorithms
                    with _no_synchronization():
                        self._step(1, beside)
                torch.cuda.current_stream().wait_stream(stream)
                self.t.zero_()
                began = time.perf_counter()
                for place, graph in enumerate(graphs):
                    with captured(graph, stream=stream, pool=pool):
                        self._step(place, beside)
                if self.epochs.length >= MANY and (time.perf_counter() - began) * MANY < PATIENCE:
                    self.many = torch.cuda.CUDAGraph()
                    with captured(self.many, stream=stream, pool=pool):
                        for step in range(MANY):
                            self._step(step % 2, beside)
            except (RuntimeError, NotImplementedError) as error:
                torch.cuda.synchronize()
                raise NotCapturable(
                    "the step cannot be captured in a CUDA graph", got=f"{_where(error)}: {str(error).splitlines()[0]}"
                ) from error
        return graphs

    @contextlib.contextmanager
    def _as_it_was(self) -> Iterator[None]:
        """Restore parameters, optimizer, running mean and random numbers after the ``with`` block."""
        fresh = not self.optimizer.state
        kept = [*self.model.state_dict().values(), self.state.step.mean]
        kept += [] if fresh else _state(self.optimizer)
        values = [tensor.clone() for tensor in kept]
        random = torch.cuda.get_rng_state(self.device)
        try:
            yield
        finally:
            for tensor, value in zip(kept, values):
                tensor.detach().copy_(value)
            if fresh:  # these optimizers start with zeros
                for tensor in _state(self.optimizer):
                    tensor.zero_()
            torch.cuda.set_rng_state(random, self.device)

    @contextlib.contextmanager
    def _rates_on_device(self) -> Iterator[None]:
        groups = self.optimizer.param_groups
        rates = [group["lr"] for group in groups]
        for group, tensor in zip(groups, self.lr):
            group["lr"] = tensor
        try:
            yield
        finally:
            for group, rate in zip(groups, rates):
                group["lr"] = rate

    def _refuse(self) -> None:
        reasons = {
            "the model is not on a CUDA device with Triton": not on_gpu(self.state.step.mean),
            "the data come from a loader, or do not fit on the GPU": not resident(self.epochs.source, self.device),
            f"the optimizer is {type(self.optimizer).__name__}, not Adam, AdamW or SGD": type(self.optimizer)
            not in (Adam, AdamW, SGD, OurAdam),
            "the first SGD step with dampening differs from later steps": type(self.optimizer) is SGD
            and any(group["dampening"] for group in self.optimizer.param_groups),
            "the solver remembers earlier steps": _remembers(self.state.step.solver),
        }
        for reason, applies in reasons.items():
            if applies:
                raise NotCapturable("the step cannot be captured in a CUDA graph", got=reason)


def _remembers(solver: Solver) -> bool:
    """Whether a solver, or a part of a chain, keeps state between steps, even if that is still empty."""
    return bool(solver.state()) if isinstance(solver, Chain) else isinstance(solver, Stateful)


def _state(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]


@contextlib.contextmanager
def _no_synchronization() -> Iterator[None]:
    """Make reading from the device an error within the ``with`` block, since it fails in the middle of a capture."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that it is a prototype; a capture finds the reads that it misses
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def _where(error: BaseException) -> str:
    """Name the innermost line of code outside PyTorch that led to the error."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/torch/" not in f.filename]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else type(error).__name__
