"""First calls: compare a module before a call with the same module after it, one call of each kind.

A module may write into its weights or inputs, make parameters, switch layers to another mode, or keep a state from call
to call. With generated tensors in it some of this is lost, and when several rays go together some happens once where it
should happen for every ray. The kinds of calls are: in training or evaluation, with or without gradients, for one ray
or several together. Later calls of a kind are not compared, so they cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _get_current_dispatch_mode

from hyperfront.errors import TargetError
from hyperfront.model.contents import held, recomputed
from hyperfront.model.leftovers import is_leftover
from hyperfront.model.placeholders import Lost, Placeholder, RaysApartError, is_wrapped, unwrapped
from hyperfront.model.refusals import ONCE, WRITTEN, WRITTEN_FIX
from hyperfront.model.stacking import hooked
from hyperfront.storage.nests import tensors

if TYPE_CHECKING:
    from hyperfront.model.substitution import Network

_UNWATCHED = nullcontext()
_REQUIRES_GRAD = Tensor.requires_grad.__get__  # pyrefly: ignore[missing-attribute]
_GRAD_FN = Tensor.grad_fn.__get__  # pyrefly: ignore[missing-attribute]


class FirstCalls:
    """Observations from the first calls of a module."""

    def __init__(self, module: nn.Module):
        self.seen: set[tuple[bool, ...]] = set()
        self.states = {
            (found.name, found.path)
            for found in held(module)
            if not is_leftover(found.thing) and found.path not in recomputed(found.layer)
        }
        """Tensors in attributes of the module as it was given, by layer and path."""
        self.left: set[tuple[str, str]] = set()
        """Attributes, by layer and name, in which calls under vmap leave tensors."""
        self.asks = False
        """Whether the module asks tensors whether they require gradients."""

    def watched(self, network: Network, inputs: Any) -> AbstractContextManager:
        """Return a context for a call. It compares a call of a new kind, and restores the module after an error."""
        kind = (network.target.skeleton.training, torch.is_grad_enabled(), network.together)
        if kind in self.seen:
            return _Answers() if self.asks and kind[1] and kind[2] else _UNWATCHED
        return _UNWATCHED if _is_traced() else self._compared(network, inputs, kind)

    @contextmanager
    def _compared(self, network: Network, inputs: Any, kind: tuple[bool, ...]) -> Iterator[None]:
        before, skeleton = _Before(network, inputs), network.target.skeleton
        answers = _Answers()
        try:
            with answers if network.together and torch.is_grad_enabled() else _UNWATCHED:
                yield
            before.compare(self.states)
        except BaseException:
            before.restore()
            raise
        self.asks |= answers.asked
        self.seen.add(kind)
        self.left |= {(found.name, found.attribute) for found in held(skeleton) if is_wrapped(found.thing)}

    @contextmanager
    def apart(self, module: nn.Module, shared: dict[str, Tensor]) -> Iterator[None]:
        """Check calls under vmap within the ``with`` block: raise an error if they change a tensor that all rays share,
        as no first call did, and remove what they leave in attributes, since it belongs to no single ray."""
        before = [version(tensor) for tensor in shared.values()]
        try:
            yield
        finally:
            if self.left:
                for found in list(held(module, self.left)):
                    if is_wrapped(found.thing):
                        found.container[found.key] = Lost.of_no_ray()
        if changed := [n for (n, tensor), count in zip(shared.items(), before) if version(tensor) != count]:
            raise RaysApartError(
                "the module changes a tensor in place that all rays share, which its first calls did not",
                got=changed[0],
                fix='batching="loop", where every ray of a step changes it in its turn',
            )


def _is_traced() -> bool:
    """Whether calls are recorded for a graph, so that values must not be looked at."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or _get_current_dispatch_mode() is not None:
        return True
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


class _Before:
    """The state of a module before a call."""

    def __init__(self, network: Network, inputs: Any):
        target = network.target
        self.module, self.together = target.skeleton, network.together
        self.layers = dict(self.module.named_modules())
        stores = [(name, store) for name, layer in self.layers.items() for store in (layer._parameters, layer._buffers)]
        self.stores: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
            (name, store, dict(store.items())) for name, store in stores
        ]
        self.attributes = [(vars(layer), dict(vars(layer))) for layer in self.layers.values()]
        self.modes = {name: layer.training for name, layer in self.layers.items()}
        self.held = self._held()
        made, values = set(target.assembly.names), network.values
        shared = {name: tensor for name, tensor in values.items() if name not in made}
        self.versions = {name: version(tensor) for name, tensor in shared.items()}
        self.shared = shared
        self.made = [_Copy(name, values[name]) for name in target.assembly.names]
        buffers = [spec.name for spec in target.tensors if spec.role == "buffer"]
        self.buffers = [_Copy(name, values[name]) for name in buffers if _is_plain(values[name])]
        self.inputs = [_Copy(f"a tensor of shape {list(x.shape)}", x) for x in tensors(inputs) if _is_plain(x)]

    def compare(self, states: set[tuple[str, str]]) -> None:
        """Raise an error for a change that would be wrong."""
        for name, store, before in self.stores:
            if made := [key for key, tensor in store.items() if _is_made(tensor, before, key)]:
                raise TargetError(
                    "the forward pass makes a parameter or buffer, which nobody would generate, train or save",
                    got=f"{name}.{made[0]}".removeprefix("."),
                    expected="the same parameters and buffers at every call, made by the constructor",
                    fix=ONCE,
                )
        for name, layer in self.layers.items():
            if isinstance(layer, _NormBase) and layer.training != self.modes[name]:
                raise TargetError(
                    "the forward pass switches a normalization layer to another mode",
                    got=f"{name}: training = {layer.training}",
                    fix="switch it in train(), which the module may override",
                )
        if written := [copy.name for copy in self.made if copy.has_changed()]:
            raise TargetError(
                WRITTEN,
                got=", ".join(written[:3]),
                expected="weights that only the training changes",
                fix=WRITTEN_FIX,
            )
        if written := [copy.name for copy in self.inputs if copy.has_changed()]:
            raise TargetError(
                "the module changes its inputs in place, which all rays of a step and the stored data share",
                got=written[0],
                fix="x = x.clone() at the start of forward, or inplace=False of the first layer",
            )
        if self.together:
            self._refuse_state(states)

    def _held(self) -> dict[tuple[str, str], tuple[str, Tensor, int]]:
        """Return the tensors in attributes by layer and path, with their place in words and their version."""
        found = held(self.module)
        return {(each.name, each.path): (each.place, each.thing, version(each.thing)) for each in found}

    def _refuse_state(self, states: set[tuple[str, str]]) -> None:
        """Raise an error for changes that each ray would make in its turn, and that rays together make once."""
        buffers = [copy.name for copy in self.buffers if copy.has_changed()]
        others = [name for name, tensor in self.shared.items() if version(tensor) != self.versions[name]]
        tensors = []
        for key, (place, tensor, count) in self._held().items():
            _, known, before = self.held.get(key, (place, None, 0))
            if key in states and (tensor is not known or count != before):
                tensors.append(place)
        counters = [
            name
            for now, before in self.attributes
            for name, value in now.items()
            if type(value) in (int, float) and type(before.get(name)) in (int, float) and value != before[name]
        ]
        if found := [*buffers, *others, *tensors, *counters]:
            raise TargetError(
                "a call of the module changes its state for the next call, so the rays of a step must run in turn",
                got=f"a change of {found[0]}",
                fix='batching="loop" or "auto"',
            )

    def restore(self) -> None:
        """Undo the changes of the call."""
        for now, before in (*(entry[1:] for entry in self.stores), *self.attributes):
            for key in [key for key in list(now.keys()) if key not in before]:
                del now[key]
            for key, value in before.items():
                now[key] = value
        for copy in (*self.buffers, *self.inputs):
            copy.restore()


class _Copy:
    """The values of a tensor at some time."""

    def __init__(self, name: str, tensor: Tensor):
        self.name, self.tensor = name, unwrapped(tensor).detach()
        self.values = self.tensor.clone()

    def has_changed(self) -> bool:
        now, then = self.tensor, self.values
        if now.shape != then.shape or torch.equal(now, then):
            return now.shape != then.shape
        return not bool(((now == then) | ((now != now) & (then != then))).all())  # NaN is like NaN

    @torch.no_grad()
    def restore(self) -> None:
        if self.has_changed():
            self.tensor.copy_(self.values)


def _is_made(tensor: Tensor | None, before: dict[str, Tensor | None], key: str) -> bool:
    """Whether a call made this parameter or buffer; a buffer that was None may be a cache."""
    return key not in before or (isinstance(tensor, nn.Parameter) and before[key] is None)


def _is_plain(tensor: Tensor) -> bool:
    return tensor.layout == torch.strided and not tensor.is_nested and not tensor.is_meta and not tensor.is_quantized


def version(tensor: Tensor) -> int:
    """Return how often a tensor was changed in place, as far as PyTorch counts it."""
    return 0 if isinstance(tensor, Placeholder) or tensor.is_inference() else tensor._version


class _Answers(TorchFunctionMode):
    """Makes ``requires_grad`` answer under vmap as it would for one ray; vmap answers no for every tensor.

    A module may ask before it puts a hook on a gradient. Under vmap nobody calls hooks, so they are an error.
    """

    def __init__(self):
        super().__init__()
        self.asked = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not (args and isinstance(args[0], Tensor) and torch._C._functorch.is_batchedtensor(args[0])):
            return func(*args, **(kwargs or {}))
        if func == _REQUIRES_GRAD:
            self.asked, tensor = True, args[0]
            while torch._C._functorch.is_batchedtensor(tensor):  # and not those of transformations inside the module
                tensor = torch._C._functorch.get_unwrapped(tensor)
            return func(tensor)
        if func in (Tensor.register_hook, Tensor.retain_grad) or func == _GRAD_FN:
            raise hooked()
        return func(*args, **(kwargs or {}))
