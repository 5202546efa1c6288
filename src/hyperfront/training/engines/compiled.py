"""The gradient of a step as one compiled function: for small networks on a CPU, where Python takes most of the time.

The step itself (:mod:`hyperfront.training.step`) is traced once, from the hypernetwork through the backward passes of
all objectives to the gradient of every parameter, and Inductor makes C++ of the trace. The solver is one opaque call in
the middle, since it may decide by numbers. The optimizer steps outside.

A trace holds tensor operations only. A step that draws random numbers, changes buffers, or decides by the values of
tensors is refused. Python numbers, such as a factor that a schedule changes, keep the value that they had in the trace.
So one step of every epoch is compared with the uncompiled step, and a difference is an error.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from hyperfront.errors import HyperfrontError
from hyperfront.kernels.factors import Factors
from hyperfront.storage.batches import Batch
from hyperfront.storage.nests import map_tensors, tensors
from hyperfront.training.engines.eager import Eager
from hyperfront.training.epochs import Epochs
from hyperfront.training.step import Solve, Step, StepResult

TOLERANCES = {torch.float64: 1e-8, torch.float32: 1e-2}
"""The largest relative differences of gradients by rounding."""
MOST_SHAPES = 4
"""The most shapes of batches for which a step is compiled; each takes seconds."""
_steps: weakref.WeakValueDictionary[int, CompiledStep] = weakref.WeakValueDictionary()
_numbers = itertools.count()
"""Numbers for steps. They are part of a trace, so a second process that counts alike finds its code in the cache."""


class NotCompilable(HyperfrontError):
    """A step that cannot be traced or compiled."""


class CompiledStep:
    """Computes the gradient of ``step``, compiled at the first batch of each shape."""

    def __init__(self, step: Step):
        self.step = step
        self.parameters: list[nn.Parameter] = [p for p in step.model.parameters() if p.requires_grad]
        self._functions: dict[tuple, Callable[..., tuple[Tensor | None, ...]]] = {}
        self.trusted = False
        """Whether the compiled step was compared with ``step`` in this epoch; if not, the next call compares."""
        self.number = next(_numbers)
        _steps[self.number] = self

    def __call__(self, rays: Tensor, batch: Batch, factors: Factors | None = None) -> StepResult:
        result, gradients = self._run(rays, batch)
        if not self.trusted:
            self._compare(rays, batch, result, gradients)
            self.trusted = True
        for parameter, gradient in zip(self.parameters, gradients):
            parameter.grad = gradient
        self.step.remember(result.losses)
        return result

    def _compare(self, rays: Tensor, batch: Batch, result: StepResult, found: Sequence[Tensor | None]) -> None:
        """Raise an error if the gradients ``found`` differ from those of the uncompiled step."""
        each = iter(zip(result.weights, result.status))  # in the order of the rays, solved together or in turn

        def known(losses: Tensor, rays: Tensor, gram: Tensor | None) -> tuple[Tensor, Tensor]:
            weights, status = zip(*itertools.islice(each, len(losses)))
            return torch.stack(weights), torch.stack(status)

        with self._weighing(known):
            _, _, _, *expected = self._traced(rays, batch)
        tolerance = 0.1 if self.step.dtype else TOLERANCES.get(rays.dtype, 1e-2)
        size = max((float(gradient.norm()) for gradient in expected if gradient is not None), default=0.0)
        for parameter, compiled, plain in zip(self.parameters, found, expected):
            zero = torch.zeros_like(parameter)
            difference = float(((zero if compiled is None else compiled) - (zero if plain is None else plain)).norm())
            if difference > tolerance * max(size, 1e-30):
                raise NotCompilable(
                    "the compiled step computes other gradients than the module and its losses",
                    got=f"a gradient that differs by {difference / size:.2g} of its norm",
                    expected="losses that depend on tensors and constants only, not on numbers that change",
                    fix='engine="eager"',
                )

    # ---- tracing ---------------------------------------------------------------------------------------------

    def _run(self, rays: Tensor, batch: Batch) -> tuple[StepResult, tuple[Tensor | None, ...]]:
        held = [rays, *tensors(batch)]
        shapes = tuple((tensor.shape, tensor.dtype) for tensor in held)
        if shapes not in self._functions:
            self._functions[shapes] = self._compiled(rays, batch, len(self._functions))
        with torch.no_grad():
            losses, weights, status, *gradients = self._functions[shapes](*held)
        assert losses is not None and weights is not None and status is not None
        return StepResult(losses, weights, status), tuple(gradients)

    def _compiled(self, rays: Tensor, batch: Batch, known: int) -> Callable[..., tuple[Tensor | None, ...]]:
        if known == MOST_SHAPES:
            raise NotCompilable(f"the batches have more than {MOST_SHAPES} shapes", fix='engine="eager"')
        graph = self._trace(rays, batch)
        _refuse_effects(graph)
        compiled = torch.compile(graph, dynamic=False)
        try:
            with torch.no_grad():
                compiled(rays, *tensors(batch))
        except Exception as error:  # Inductor and its compilers raise errors of many types
            raise NotCompilable(
                "torch.compile cannot compile the step",
                got=f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}",
                fix='install a C++ compiler such as g++, or engine="eager"',
            ) from None
        return compiled

    def _trace(self, rays: Tensor, batch: Batch) -> GraphModule:
        def flat(rays: Tensor, *parts: Tensor) -> tuple[Tensor | None, ...]:
            rest = iter(parts)
            return self._traced(rays, map_tensors(lambda _: next(rest), batch))

        buffers = {name: id(tensor) for name, tensor in self.step.model.named_buffers()}
        try:
            with self._weighing(lambda *given: torch.ops.hyperfront.weigh(*given, self.number)):
                graph = make_fx(flat, tracing_mode="fake", _allow_non_fake_inputs=True)(rays, *tensors(batch))
        except HyperfrontError:
            raise
        except Exception as error:  # whatever a module does with tensors that have no values
            raise NotCompilable(
                "the step cannot be traced",
                got=f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}",
                expected="a module and losses that do not read values of tensors",
                fix='engine="eager"',
            ) from None
        if buffers != {name: id(tensor) for name, tensor in self.step.model.named_buffers()}:
            raise NotCompilable("the module assigns buffers", fix='engine="eager"')
        return graph

    def _traced(self, rays: Tensor, batch: Batch) -> tuple[Tensor | None, ...]:
        """Compute losses, weights and status of a step, and the gradients of all parameters; ``.grad`` is restored."""
        before = [parameter.grad for parameter in self.parameters]
        for parameter in self.parameters:
            parameter.grad = None
        try:
            with torch.enable_grad():
                result = self.step(rays, batch, remembers=False)
            return *result, *[parameter.grad for parameter in self.parameters]
        finally:
            for parameter, gradient in zip(self.parameters, before):
                parameter.grad = gradient

    @contextmanager
    def _weighing(self, weigh: Solve) -> Iterator[None]:
        self.step.weigh = weigh
        try:
            yield
        finally:
            self.step.weigh = self.step.solve


@torch.library.custom_op("hyperfront::weigh", mutates_args=())
def weigh(losses: Tensor, rays: Tensor, gram: Tensor | None, step: int) -> tuple[Tensor, Tensor]:
    """Compute the solver's weights ``[R, m]`` and status ``[R]``, as an opaque operation in a trace."""
    weights, status = _steps[step].step.solve(losses, rays, gram)
    return weights.clone(), status.clone()  # an operation must not return its inputs


@weigh.register_fake
def _(losses: Tensor, rays: Tensor, gram: Tensor | None, step: int) -> tuple[Tensor, Tensor]:
    return torch.empty_like(losses), losses.new_empty(len(losses), dtype=torch.uint8)


def _refuse_effects(graph: GraphModule) -> None:
    """Raise an error if the trace draws random numbers, or writes to a tensor that outlives the step."""
    lasting: set[Node] = set()
    for node in graph.graph.nodes:
        if node.op in ("get_attr", "placeholder"):
            lasting.add(node)
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        if torch.Tag.nondeterministic_seeded in node.target.tags and _argument(node, "dropout_p") != 0:
            raise NotCompilable("the step draws random numbers", got=str(node.target), fix='engine="eager"')
        for place, value in zip(node.target._schema.arguments, node.args):
            if place.alias_info is None or not lasting & set(value if isinstance(value, list) else [value]):
                continue
            if place.alias_info.is_write:
                raise NotCompilable(
                    "the step changes a buffer of the module", got=str(node.target), fix='engine="eager"'
                )
            lasting.add(node)  # a view


def _argument(node: Node, name: str) -> object:
    """Return the argument ``name`` of an operation; None if it has no such argument."""
    places = node.target._schema.arguments  # pyrefly: ignore[missing-attribute]
    values = {place.name: place.default_value for place in places}
    return (values | dict(zip(values, node.args)) | node.kwargs).get(name)


class Compiled:
    """Runs compiled steps one after another, and compares the first one of every epoch."""

    name = "compiled"

    def __init__(self, epochs: Epochs):
        self.step = CompiledStep(epochs.state.step)
        self._eager = Eager(epochs, self.step)

    def run(self, epoch: int, keeps_going: Callable[[], bool]) -> None:
        """Train to the end of one epoch, or until ``keeps_going``, called after every step, returns False."""
        self.step.trusted = False
        self._eager.run(epoch, keeps_going)
