"""Substitution: a module runs with generated tensors instead of its own.

A module reads its tensors from its layers, or from lists and attributes that refer to them. :class:`Places` knows all
these places and fills them during a call, faster than ``torch.func.functional_call``. Between calls they hold
:class:`Absent` tensors, so a module that runs outside of a call raises an error instead of computing with other
weights. Activation checkpointing runs modules again during the backward pass; :meth:`Network.kept` makes it work by
keeping the tensors of one ray in place until the backward passes are done.

A module holds the tensors of one ray at a time, so threads that share a model take turns.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from hyperfront.errors import TargetError
from hyperfront.model.contents import held
from hyperfront.model.derivatives import with_gradients
from hyperfront.model.placeholders import Absent
from hyperfront.model.refusals import refuse_failure
from hyperfront.storage.batches import Batch, arguments

if TYPE_CHECKING:
    from hyperfront.model.target import Target


class _Opaque(list[Any]):
    """A list that ``torch.export`` does not know. It puts copies of plain lists and dicts into the modules that it has
    traced, and a tensor written into the copy of a layer's dictionary would never reach the layer."""


class Places:
    """All places of a module that hold a parameter or buffer, and their present contents."""

    def __init__(self, module: nn.Module, origin: nn.Module | None = None):
        self.origin = tuple(map(weakref.ref, origin.parameters())) if origin is not None else ()
        """The parameters of the user's module (this one is its copy), as long as they live."""
        first: dict[Tensor, str] = {}
        self.entries, self.own, self.caches = _Opaque(), _Opaque(), _Opaque()
        """``entries``: container, key, the first name of its tensor (which tied tensors share), and the kind of place.
        ``own``: the module's own tensors in these places. ``caches``: buffers that are None."""
        for prefix, layer in module.named_modules():
            for store in (layer._parameters, layer._buffers):
                for key, tensor in store.items():
                    name = f"{prefix}.{key}".removeprefix(".")
                    if tensor is not None:
                        self.entries.append((store, key, first.setdefault(tensor, name), _kind(layer, store)))
                        self.own.append(tensor)
                    elif store is layer._buffers:
                        self.caches.append((store, key, name, key in layer._non_persistent_buffers_set))
        for found in held(module):
            if found.thing in first:
                self.entries.append((found.container, found.key, first[found.thing], "reference"))
                self.own.append(found.thing)
        self.recurrent = _Opaque(layer for layer in module.modules() if isinstance(layer, nn.RNNBase))
        self.compiled = any(isinstance(layer, torch.jit.ScriptModule) for layer in module.modules())
        self.parametrized = any(map(parametrize.is_parametrized, module.modules()))
        self.absent = _Opaque(map(Absent.like, self.own))
        self.values: dict[str, Tensor] | None = None
        """The tensors in the places now, by name; None between calls."""
        self.filled = _Opaque()
        """The same, by place."""
        self.kept: dict[str, Tensor] | None = None
        """The tensors that stay in the places between calls, if any do."""
        self.turn = threading.RLock()
        """Held by the thread whose call or step fills the places."""

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"turn": None, "origin": ()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, turn=threading.RLock())

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refuse to be copied or pickled for a ``torch.jit`` module, whose places cannot be copied."""
        if self.compiled:
            raise TargetError(
                "the model of a torch.jit module can be neither copied nor pickled",
                fix="model.save(path), then hyperfront.load(path, target=module)",
            )
        return super().__reduce_ex__(protocol)

    def fill(self, values: dict[str, Tensor]) -> None:
        """Put ``values``, tensors by name, into all places."""
        filled = _Opaque()
        for store, key, name, kind in self.entries:
            value = values[name]
            # cuDNN moves the weights of a recurrent layer into one buffer, in place. It gets views to move: the tensors
            # themselves may be shared by rays that run side by side, or be those that an optimizer or graph knows.
            store[key] = value = value.view_as(value) if kind == "recurrent" and value.is_cuda else value
            filled.append(value)
        self.values, self.filled = values, filled

    def leave(self) -> None:
        """Remove the substituted tensors."""
        # a compiled function cannot hold tensors of our own type; it does not run the module again either
        without = self.own if torch.compiler.is_compiling() else self.absent
        for (store, key, _, _), tensor in zip(self.entries, without):
            store[key] = tensor
        for layer in self.recurrent:  # its own list would keep the graph of its weights alive; it makes a new one
            layer._flat_weights, layer._flat_weight_refs = [], [_gone] * len(layer._flat_weights_names)
        self.values, self.filled = None, _Opaque()

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Give the module its own tensors within the ``with`` block."""
        with self.turn:
            for (store, key, _, _), tensor in zip(self.entries, self.own):
                store[key] = tensor
            try:
                yield
            finally:
                self.leave()

    def convert(self, function: Callable[[Tensor], Tensor]) -> None:
        """Follow a change of precision of the module's own tensors."""
        for tensor in self.own:
            tensor.data = function(tensor.data)
        self.absent = _Opaque(map(Absent.like, self.own))
        self.leave()

    def assigned(self) -> dict[str, Tensor]:
        """Return the buffers and parameters that a call replaced, by name, and remove caches that it put where a
        buffer was None."""
        for store, key, name, temporary in self.caches:
            if store[key] is not None:
                store[key] = None
                if not temporary:
                    raise TargetError(
                        f"the forward pass assigns the buffer {name!r}, which was None",
                        expected="a tensor from the start, so that its shape is known and files can hold it",
                        fix=f"register_buffer({key!r}, torch.zeros(...)), or persistent=False for what is only a cache",
                    )
        places = zip(self.entries, self.filled)
        found = [(n, entry) for n, (entry, value) in enumerate(places) if entry[0][entry[1]] is not value]
        for n, (store, key, _, _) in found:
            self.filled[n] = store[key]
        return {entry[2]: self._replaced(entry) for _, entry in found} if found else {}

    def _replaced(self, entry: tuple[Any, Any, str, str]) -> Tensor:
        """Return the tensor that a call put into a place, or refuse it if the module has other places for it."""
        store, key, name, kind = entry
        if kind == "reference" or sum(each[2] == name for each in self.entries) > 1:
            raise TargetError(
                "the forward pass assigns a parameter or buffer that the module has in two places",
                got=name,
                expected="a buffer that no other layer or attribute refers to",
                fix="a copy of it in the other place (tensor.clone())",
            )
        return store[key].detach()


class Network:
    """The module of a :class:`Target`, which runs with ``values``, tensors by name, instead of its own tensors.

    It is called like the module. With ``together`` it represents the networks of several rays under ``torch.vmap``.
    """

    def __init__(self, target: Target, values: dict[str, Tensor], *, together: bool = False):
        self.target, self.values, self.together = target, values, together

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the tensors that replace the module's parameters, by name: for losses that need the weights."""
        return ((spec.name, self.values[spec.name]) for spec in self.target.tensors if spec.role != "buffer")

    def parameters(self) -> Iterator[Tensor]:
        """Yield the tensors that replace the module's parameters."""
        return (tensor for _, tensor in self.named_parameters())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        target, places = self.target, self.target.places
        if places.parametrized and parametrize._cache_enabled:
            _refuse_cache()
        with self._turn():
            before = places.values
            if target.skeleton.training != target.training:  # some loops set the flag without a call of train()
                target.train(target.training)
            if before is not self.values:
                places.fill(self.values)
            try:
                with target.first_calls.watched(self, (args, kwargs)), self._around():
                    output = target.skeleton(*args, **kwargs)
                if assigned := places.assigned():
                    self._keep(assigned)
                return output
            except RuntimeError as error:
                refuse_failure(error)
                return with_gradients(error, self._again, self.values, args, kwargs)
            finally:
                if before is None:
                    places.leave()
                elif before is not self.values:
                    places.fill(before)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a network has no {name!r}: losses get the network and call it, as in network(x)")

    def _again(self, values: dict[str, Tensor], args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call with parameters that derivatives can be taken by, as in a plain module."""
        entries, own = self.target.places.entries, self.target.places.own
        wanted = {name for (_, _, name, _), tensor in zip(entries, own) if tensor.requires_grad}
        ready = {name: t.detach().requires_grad_() if name in wanted else t for name, t in values.items()}
        return Network(self.target, ready, together=self.together)(*args, **kwargs)

    def _around(self) -> AbstractContextManager:
        around = self.target.around
        return nullcontext() if around is None or self.together or not torch.is_grad_enabled() else around()

    def _turn(self) -> AbstractContextManager:
        """Inside, no other thread fills the places. Backward passes of a GPU call kept networks from threads of
        PyTorch's, while the thread of the step holds the turn."""
        places = self.target.places
        free = torch.compiler.is_compiling() or places.kept is self.values
        return nullcontext() if free else places.turn

    @contextmanager
    def kept(self) -> Iterator[Network]:
        """Keep the tensors in place within the ``with`` block, for backward passes that run the module again."""
        places = self.target.places
        with places.turn:
            places.fill(self.values)
            places.kept = self.values
            try:
                yield self
            finally:
                places.kept = None
                places.leave()

    def _keep(self, assigned: dict[str, Tensor]) -> None:
        if self.together:
            raise TargetError("a module that assigns buffers cannot run the rays of a step together")
        for spec in self.target.tensors:
            role = "generated" if spec.name in self.target.assembly.names else spec.role
            if spec.name in assigned and role in ("generated", "trained"):
                raise TargetError(
                    f"the forward pass assigns a parameter that is {role}, which would be lost",
                    got=spec.name,
                    expected="buffers, or parameters that do not require gradients, where forward assigns",
                    fix="requires_grad_(False) on it before the module is wrapped",
                )
        self.values.update(assigned)
        self.target.assign(assigned)


def called(network: Callable[..., Any], x: Batch) -> Any:
    """Call the network on a batch: a tuple holds positional arguments, a dict holds keyword arguments."""
    args, kwargs = arguments(x)
    return network(*args, **kwargs)


def _refuse_cache() -> None:
    raise TargetError(
        "torch.nn.utils.parametrize.cached() would give every ray the tensors of the first one",
        got="a call of the network while the cache is open",
        fix="open it in the forward pass of the module, or not at all",
    )


def _gone() -> None:
    """Return None, as a weak reference to a deleted tensor does."""


def _kind(layer: nn.Module, store: dict[str, Any]) -> str:
    if store is layer._buffers:
        return "buffer"
    return "recurrent" if isinstance(layer, nn.RNNBase) else "parameter"
