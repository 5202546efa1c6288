"""Stacking: run a module with the weights of several rays, one after the other, side by side, or stacked by vmap."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.module import _global_backward_hooks, _global_backward_pre_hooks

from hyperfront.errors import HyperfrontError, LossError, TargetError
from hyperfront.kernels.layers import ConvReluPool
from hyperfront.model.placeholders import RaysApartError
from hyperfront.storage.containers import PLAIN, how_to_register
from hyperfront.storage.nests import leaves, map_leaves, map_tensors, tensors, things

# Modules that vmap makes slower on a CPU (convolution, pooling: measured 2.5 times) or cannot batch (recurrence, fused
# attention, bags of embeddings). Everything else, above all linear layers, gains from it.
_IMAGES = (nn.modules.conv._ConvNd, nn.modules.pooling._MaxPoolNd, nn.modules.pooling._AvgPoolNd)
_LOOP_ON_CPU = (*_IMAGES, ConvReluPool)
_LOOP_ALWAYS = (nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention, nn.EmbeddingBag)
_LARGE = 2**17
"""For larger networks vmap makes convolutions slower on a GPU, where running them side by side is faster."""

FAILURES = (RuntimeError, ValueError, NotImplementedError)
"""The errors of PyTorch for rays that cannot be run together."""


class Stacking:
    """The way to run several rays of ``module``: ``mode`` is ``"loop"``, ``"vmap"``, or ``"auto"`` for the faster."""

    def __init__(self, module: nn.Module, mode: str, remembered: Callable[[], Callable[[], None]]):
        self.module, self.mode = module, mode
        self._remembered = remembered
        """Returns a function that restores the tensors that calls may change."""
        self._hooked = any(layer._backward_hooks or layer._backward_pre_hooks for layer in module.modules())
        if self._hooked and mode == "vmap":
            raise hooked()
        self._works: dict[str, bool] = {}
        """Whether several rays can be run together, for each of forward and backward pass that was tried."""

    @contextmanager
    def attempt(self, device: torch.device, direction: Literal["forward", "backward"]) -> Iterator[None]:
        """Try to run rays together within the ``with`` block. In mode ``"auto"`` a failure raises no error, but is
        remembered: the caller then runs the rays in a loop, with random numbers and buffers as they were."""
        if self.mode == "vmap":
            with _named():
                yield
            return
        known = self._works.get(direction) or torch.compiler.is_compiling()
        before = None if known else (_random_state(device), self._remembered())
        try:
            yield
            self._works[direction] = True
        except (LossError, RaysApartError):  # a fault of the losses, which one ray alone has too, or one seen too late
            raise
        except FAILURES:
            self._works[direction] = False
            if before:
                random, restore = before
                _set_random_state(device, random)  # as if the attempt had drawn nothing for dropout
                restore()

    def knows(self, direction: str) -> bool:
        """Whether rays were tried together in this pass."""
        return direction in self._works

    def wants_vmap(self, theta: Tensor, running: bool) -> bool:
        """Whether to run the rays of ``theta [R, n]`` by vmap; ``running``: calls update averages of BatchNorm."""
        if self.mode != "auto":
            return self.mode == "vmap"
        slow = _LOOP_ALWAYS + (_LOOP_ON_CPU if theta.device.type == "cpu" else ())
        large = theta.shape[1] > _LARGE and self._has(_IMAGES)
        works = self._works.get("forward", True) and not (torch.is_grad_enabled() and self._alone)
        works = works and not torch.is_autocast_enabled(theta.device.type)  # vmap hides some operations from it
        return works and not (len(theta) == 1 or running or large or self._has(slow) or self._is_hooked())

    def wants_streams(self, theta: Tensor, running: bool) -> bool:
        """Whether to run the networks of a loop side by side, each on its own stream."""
        if len(theta) == 1 or not theta.is_cuda or not torch.is_grad_enabled() or running or self._alone:
            return False
        return self.mode == "auto" and self._forgets()

    @property
    def _alone(self) -> bool:
        """Whether the backward passes must run one ray after the other."""
        return not self._works.get("backward", True)

    @property
    def possible(self) -> bool:
        """Whether vmap can run several rays at once, even if that is slower."""
        return self.mode != "loop" and self._works.get("forward", True) and not self._has(_LOOP_ALWAYS)

    def vectorizes(self, device: torch.device) -> bool:
        """Whether vmap should run the backward passes of several objectives at once."""
        possible = device.type == "cuda" and self.mode != "loop" and not self._alone and not self._is_hooked()
        return possible and not self._has(_LOOP_ALWAYS + _IMAGES)

    def _is_hooked(self) -> bool:
        """Whether a layer, or all layers of PyTorch, have hooks on gradients; vmap would change those gradients."""
        return self._hooked or bool(_global_backward_hooks or _global_backward_pre_hooks)

    def _forgets(self) -> bool:
        """Whether calls are independent: the module has no buffers except those of BatchNorm."""
        return all(isinstance(layer, _BatchNorm) or not layer._buffers for layer in self.module.modules())

    def _has(self, kinds: tuple[type[nn.Module], ...]) -> bool:
        return any(isinstance(layer, kinds) for layer in self.module.modules())


def hooked() -> TargetError:
    """Return the error for a module that would see other gradients if its rays went together."""
    return TargetError(
        "a module with hooks on gradients, or one that asks for grad_fn, cannot run the rays of a step together",
        fix='batching="loop"',
    )


@contextmanager
def _named() -> Iterator[None]:
    """Explain in an error that the rays need not be run together."""
    try:
        yield
    except (HyperfrontError, torch.OutOfMemoryError):
        raise
    except FAILURES as error:
        raise TargetError(
            'the module or a loss fails with the rays together (batching="vmap")',
            got=f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}",
            expected="operations that torch.vmap knows",
            fix='batching="auto" or "loop", which takes the rays in turn',
        ) from error


LANES = 8
"""The number of streams for networks side by side; each stream holds memory."""


def side_by_side(function: Callable[..., Any], arguments: Iterable[tuple]) -> list[Any]:
    """Compute ``function(*each)`` for each of ``arguments`` on its own stream, so that small kernels of one network
    fill the gaps of the others. Autograd computes the gradients on the same streams."""
    here, found = torch.cuda.current_stream(), []
    lanes = _lanes(here.device)
    try:
        for lane, each in zip(itertools.cycle(lanes), arguments):
            lane.wait_stream(here)
            with torch.cuda.stream(lane):
                found.append(function(*each))
    finally:  # a failure, too, leaves work behind on its lane
        for lane in lanes[: len(found) + 1]:
            here.wait_stream(lane)
    for result in tensors(found):
        result.record_stream(here)  # the lane owns its memory, and must not reuse it before this stream has read it
    return found


@functools.cache
def _lanes(device: torch.device) -> list[torch.cuda.Stream]:
    return [torch.cuda.Stream(device) for _ in range(LANES)]


def _random_state(device: torch.device) -> list[Tensor]:
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]


def _set_random_state(device: torch.device, state: list[Tensor]) -> None:
    torch.set_rng_state(state[0])
    for own in state[1:]:
        torch.cuda.set_rng_state(own, device)


class Crossing:
    """Passes a batch into vmap, and the result of a function out of it, as plain tensors: vmap knows few containers."""

    def __init__(self, batch: Any):
        self.inside, self.parts = batch, tensors(batch)
        self.returned: Any = None

    def batch(self, parts: list[Tensor]) -> Any:
        """Rebuild the batch from the tensors that vmap passes to a function."""
        each = iter(parts)
        return map_tensors(lambda _: next(each), self.inside)

    def leave(self, found: Any) -> tuple[Tensor, ...]:
        """Return the tensors of the function's result, and remember the rest of it."""
        if not all(isinstance(thing, (Tensor, *PLAIN)) for thing in things(found)):
            stack([found])  # an error that names it
        self.returned = found
        return tuple(tensors(found))

    def nest(self, stacked: tuple[Tensor, ...]) -> Any:
        """Rebuild the function's result from the tensors of all rays."""
        each = iter(stacked)
        return map_tensors(lambda _: next(each), self.returned)


def stack(results: list[Any]) -> Any:
    """Stack the results of the rays along a new first dimension; values that are not tensors must be equal."""
    try:
        return map_leaves(_stack_leaves, *results)
    except _NotStacked as error:
        place = next((".".join(path) for path, leaf in leaves(results[0]) if leaf is error.leaf), "")
        kind = type(error.leaf).__name__
        raise TargetError(
            "the outputs of several rays cannot be stacked",
            got=f"{place}: {kind}" if place else kind,
            expected="tensors, containers of tensors, and other values only if they are equal at all rays",
            fix="leave it out of the output (for a cache of transformers: config.use_cache = False), or make its type "
            f"known: {how_to_register(kind)}",
        ) from None


class _NotStacked(Exception):
    """A value differs between rays, and is no tensor."""

    def __init__(self, leaf: Any):
        super().__init__()
        self.leaf = leaf


def _stack_leaves(first: Any, *others: Any) -> Any:
    if isinstance(first, Tensor):
        if not others:
            return first.unsqueeze(0)  # a view
        try:
            return torch.stack([first, *others])
        except RuntimeError as error:
            if all(other.shape == first.shape for other in others):
                raise
            raise TargetError(
                "the outputs of several rays cannot be stacked, since their shapes depend on the weights",
                got=" and ".join(str(list(tensor.shape)) for tensor in (first, *others[:2])),
                expected="the same shape at all rays",
                fix="one ray at a time: model(x, rays[:1])",
            ) from error
    if isinstance(first, PLAIN) and all(other == first for other in others):
        return first
    raise _NotStacked(first)
