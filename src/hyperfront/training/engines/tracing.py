"""The gradient of a step as a trace of tensor operations: for small networks on a CPU, where Python takes most of the
time.

The step itself (:mod:`hyperfront.training.step`) is traced once, from the hypernetwork through the backward passes of
all objectives to the gradient of every parameter. The solver is one opaque call in the middle, since it may decide by
numbers. The optimizer steps outside. A :data:`Build` makes a function of the trace: :func:`replayed` calls the
operations of the trace one after the other. They are the operations of the step itself, so the numbers are the same to
the last bit.

A trace holds tensor operations only. A step that draws random numbers, changes its module, or decides by the values of
tensors is refused. Python numbers, such as a factor that a schedule changes, keep the value that they had in the trace.
So some steps are compared with the step itself, and a difference is an error.
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
from hyperfront.training.randomness import Randomness
from hyperfront.training.step import Solve, Step, StepResult
from hyperfront.training.untouched import untouched

Function = Callable[..., Sequence[Tensor | None]]
"""``(rays, *tensors of the batch) -> losses, weights, status, *gradients``."""
Build = Callable[[GraphModule, Sequence[Tensor]], Function]
"""Makes a function of a trace and its example inputs."""
TOLERANCES = {torch.float64: 1e-8, torch.float32: 1e-2}
"""The largest relative differences of gradients by rounding."""
MOST_SHAPES = 4
"""The most shapes of batches for which a step is traced; each takes time."""
_steps: weakref.WeakValueDictionary[int, TracedStep] = weakref.WeakValueDictionary()
_numbers = itertools.count()
"""Numbers for steps. They are part of a trace, so a second process that counts alike finds its code in the cache."""


class NotCompilable(HyperfrontError):
    """A step that cannot be traced or compiled."""


def replayed(graph: GraphModule, inputs: Sequence[Tensor]) -> Function:
    """Call the operations of the trace one after the other, without those that only matter to autograd."""
    for node in list(graph.graph.nodes):
        if node.op == "call_function" and node.target is torch.ops.aten.detach.default:
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return graph


class TracedStep:
    """Computes the gradient of ``step`` by a function that ``build`` makes of its trace, for each shape of batches.

    ``read_only`` gradients are inference tensors (``torch.inference_mode``): they take less time, and an optimizer may
    not change them in place.
    """

    def __init__(self, step: Step, build: Build = replayed, *, read_only: bool = False):
        self.step, self.build = step, build
        self.parameters: list[nn.Parameter] = [p for p in step.model.parameters() if p.requires_grad]
        self._mode = torch.inference_mode if read_only else torch.no_grad
        self._functions: dict[tuple, Function] = {}
        self.trusted = False
        """Whether to believe the next call; if not, it is compared with ``step``."""
        self.number = next(_numbers)
        _steps[self.number] = self

    def __call__(self, rays: Tensor, batch: Batch, factors: Factors | None = None) -> StepResult:
        result, gradients = self.gradients(rays, batch)
        if not self.trusted:
            self._compare(rays, batch, result, gradients)
            self.trusted = True
        for parameter, gradient in zip(self.parameters, gradients):
            parameter.grad = gradient
        self.step.remember(result.losses)
        return result

    def gradients(self, rays: Tensor, batch: Batch) -> tuple[StepResult, Sequence[Tensor | None]]:
        """Compute the result of a step and the gradient of every parameter, and change nothing."""
        held = [rays, *tensors(batch)]
        shapes = tuple((tensor.shape, tensor.dtype) for tensor in held)
        if shapes not in self._functions:
            self._functions[shapes] = self._built(rays, batch)
        with self._mode():
            losses, weights, status, *gradients = self._functions[shapes](*held)
        assert losses is not None and weights is not None and status is not None
        return StepResult(losses, weights, status), gradients

    # ---- comparing -------------------------------------------------------------------------------------------

    def _compare(self, rays: Tensor, batch: Batch, result: StepResult, found: Sequence[Tensor | None]) -> None:
        """Raise an error if the gradients ``found`` differ from those of the step itself."""
        each = iter(zip(result.weights, result.status))  # in the order of the rays, solved together or in turn

        def known(losses: Tensor, rays: Tensor, gram: Tensor | None) -> tuple[Tensor, Tensor]:
            weights, status = zip(*itertools.islice(each, len(losses)))
            return torch.stack(weights), torch.stack(status)

        with self._weighing(known):
            losses, _, _, *expected = self._itself(rays, batch)
        if self.build is replayed:
            same = all(map(_same, [result.losses, *found], [losses, *expected]))
            difference = 0.0 if same else 1.0
        else:
            difference = self._difference(found, expected, rays.dtype)
        if difference:
            raise NotCompilable(
                "the traced step computes other gradients than the module and its losses",
                got="other numbers" if self.build is replayed else f"a difference of {difference:.2g} of the norm",
                expected="losses that depend on tensors and constants only, not on numbers that change",
                fix='engine="eager"',
            )

    def _difference(self, found: Sequence[Tensor | None], expected: Sequence[Tensor | None], dtype: torch.dtype):
        """Compute the largest relative difference that is not due to rounding; 0 if there is none."""
        tolerance = 0.1 if self.step.dtype else TOLERANCES.get(dtype, 1e-2)
        size = max((float(gradient.norm()) for gradient in expected if gradient is not None), default=0.0)
        largest = 0.0
        for parameter, compiled, plain in zip(self.parameters, found, expected):
            zero = torch.zeros_like(parameter)
            norm = float(((zero if compiled is None else compiled) - (zero if plain is None else plain)).norm())
            largest = max(largest, norm / max(size, 1e-30))
        return largest if largest > tolerance else 0.0

    # ---- tracing ---------------------------------------------------------------------------------------------

    def _built(self, rays: Tensor, batch: Batch) -> Function:
        if len(self._functions) == MOST_SHAPES:
            raise NotCompilable(f"the batches have more than {MOST_SHAPES} shapes", fix='engine="eager"')
        with untouched(self.step.model):
            graph = self._trace(rays, batch)
            _refuse_effects(graph)
            self._refuse_changes(rays, batch)
        return self.build(graph, [rays, *tensors(batch)])

    def _trace(self, rays: Tensor, batch: Batch) -> GraphModule:
        def flat(rays: Tensor, *parts: Tensor) -> tuple[Tensor | None, ...]:
            rest = iter(parts)
            return self._itself(rays, map_tensors(lambda _: next(rest), batch))

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

    def _refuse_changes(self, rays: Tensor, batch: Batch) -> None:
        """Raise an error if a step draws random numbers of any kind, or changes its module."""
        randomness = Randomness(self.step.model.device, self.step.model.target.skeleton)
        with untouched(self.step.model) as restore, self._weighing(_evenly):
            before = randomness.states()
            self._itself(rays, batch)
            if randomness.moved(before):
                raise NotCompilable("the step draws random numbers", fix='engine="eager"')
            if restore():
                raise NotCompilable("the step changes numbers in its module", fix='engine="eager"')

    def _itself(self, rays: Tensor, batch: Batch) -> tuple[Tensor | None, ...]:
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
    with torch.inference_mode(False), torch.no_grad():  # a solver may keep what it gets
        given = losses.clone(), rays.clone(), None if gram is None else gram.clone()
        weights, status = _steps[step].step.solve(*given)
        return weights.clone(), status.clone()  # an operation must not return its inputs


@weigh.register_fake
def _(losses: Tensor, rays: Tensor, gram: Tensor | None, step: int) -> tuple[Tensor, Tensor]:
    return torch.empty_like(losses), losses.new_empty(len(losses), dtype=torch.uint8)


def _evenly(losses: Tensor, rays: Tensor, gram: Tensor | None) -> tuple[Tensor, Tensor]:
    """Weigh all losses alike, without a solver, which may remember what it is given."""
    return torch.full_like(losses, 1 / losses.shape[1]), losses.new_zeros(len(losses), dtype=torch.uint8)


def _same(ours: Tensor | None, theirs: Tensor | None) -> bool:
    """Whether two gradients have the same bits."""
    return ours is theirs if ours is None or theirs is None else torch.equal(ours, theirs)


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
