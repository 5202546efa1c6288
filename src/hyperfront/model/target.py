"""The target: any ``nn.Module`` as a function of generated weights ``theta``.

A :class:`Target` keeps a private copy of the module, and runs it with tensors made of ``theta`` instead of its own
(:mod:`hyperfront.model.substitution`). Every floating-point parameter is *generated* by the hypernetwork, *trained*
directly (shared by all rays) or *frozen*. ``theta [n]`` is the output of the hypernetwork. An :mod:`assembly
<hyperfront.model.assemblies>` makes tensors of it: it cuts ``theta`` into tensors, or uses it for low-rank additions,
or for scales and shifts of features.

BatchNorm normalizes by the current ray's batch while training, and for prediction by statistics of the ray
(:mod:`hyperfront.model.statistics`, ``batchnorm="grid"``). For parity with other codes, ``"batch"`` always uses the
batch's statistics and ``"shared"`` one running average for all rays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from hyperfront.errors import TargetError
from hyperfront.model import statistics
from hyperfront.model.assemblies import Assembly, Replace
from hyperfront.model.embeddings import without_sparse_gradients
from hyperfront.model.first_calls import FirstCalls
from hyperfront.model.leftovers import duplicate, private_copy, settle
from hyperfront.model.normalization import Normalization
from hyperfront.model.refusals import refuse, refuse_assembly, refuse_given
from hyperfront.model.roles import Generate, Rest, matching, table
from hyperfront.model.stacking import Crossing, Stacking, side_by_side, stack
from hyperfront.model.substitution import Network, Places
from hyperfront.storage.batches import Batch
from hyperfront.storage.nests import map_tensors


class Target(nn.Module):
    """``module`` as a function of ``theta``.

    ``generate`` chooses the generated tensors: a pattern (``"head.*"``), several patterns, or a predicate of name and
    parameter. Parameters that do not require gradients are frozen. ``rest`` says whether the remaining parameters are
    trained directly or frozen. ``assembly(module, names)`` makes the chosen tensors out of ``theta``. ``batching`` runs
    several rays by ``"loop"`` or ``"vmap"``; ``"auto"`` chooses the faster way.

    >>> target = Target(nn.Linear(3, 2))
    >>> target.n
    8
    """

    statistics: Tensor
    looked_after = frozenset({"skeleton", "places", "normalization", "stacking", "first_calls", "assembly"})
    """Attributes that its own calls take care of, where it is part of another module."""

    def __init__(
        self,
        module: nn.Module,
        *,
        generate: Generate = "*",
        rest: Rest = "train",
        assembly: Callable[[nn.Module, Sequence[str]], Assembly] = Replace,
        batching: Literal["auto", "loop", "vmap"] = "auto",
        batchnorm: Literal["grid", "batch", "shared"] = "grid",
    ):
        super().__init__()
        _check_choice("rest", rest, ("train", "freeze"))
        _check_choice("batching", batching, ("auto", "loop", "vmap"))
        _check_choice("batchnorm", batchnorm, ("grid", "batch", "shared"))
        refuse_given(module)
        skeleton = private_copy(module).cpu()  # its values are never used again, so they need not fill a GPU
        object.__setattr__(self, "skeleton", skeleton)  # not registered: its parameters are not ours to train
        self.batchnorm = batchnorm
        self.stacking = Stacking(skeleton, batching, self.remembered)
        self.knots: list[list[float]] | None = None
        """The rays of separate models, which have BatchNorm statistics at these rays only."""
        self.assembly = assembly(skeleton, matching(skeleton, generate))
        refuse_assembly(self.assembly, generate, skeleton)
        refuse(skeleton, self.assembly.names)
        self.sparse = without_sparse_gradients(skeleton)
        self.tensors = table(skeleton, self.assembly.names, self.assembly.base, rest)
        self.sizes = [part.size for part in self.assembly.parts]
        self.n = sum(self.sizes)
        self.held = max(self.n, sum(spec.size for spec in self.tensors if spec.name in set(self.assembly.names)))
        """The number of values in the assembled network of one ray that no other ray shares."""
        from hyperfront.model.memory import refuse_shared_memory  # needed here only

        refuse_shared_memory(module, {spec.name for spec in self.tensors if spec.role == "frozen"})
        self._register_shared()
        self._prepare_normalization()
        self.first_calls = FirstCalls(module)
        self.around: Callable[[], AbstractContextManager] | None = None
        """Entered around the calls of one ray's network in a step, if training recomputes activations."""
        self.places = Places(skeleton, module)
        self.places.leave()

    skeleton: nn.Module

    def _register_shared(self) -> None:
        """Register the trained and frozen parameters and the buffers under names without dots."""
        everything = {**dict(self.skeleton.named_parameters()), **dict(self.skeleton.named_buffers())}
        self.trained = nn.ParameterDict()
        for spec in self.tensors:
            value = everything[spec.name].detach().clone()
            if spec.role == "trained":
                self.trained[_flat(spec.name)] = nn.Parameter(value)
            elif spec.role in ("frozen", "buffer"):
                self.register_buffer(_flat(spec.name), value)
        self.caches = {
            _flat(f"{prefix}.{name}".removeprefix("."))
            for prefix, layer in self.skeleton.named_modules()
            for name in layer._non_persistent_buffers_set
        }
        """Buffers that the module itself would not save, and may assign in another size."""

    def _prepare_normalization(self) -> None:
        """Make BatchNorm use the batch's statistics in training, and the given statistics in evaluation."""
        self.norm_weights = {
            f"{name}.{part}".removeprefix(".")
            for name, layer in self.skeleton.named_modules()
            for part in ("weight", "bias")
            if isinstance(layer, _BatchNorm)
        }
        self.training = self.skeleton.training
        self.normalization = Normalization(self.skeleton, adapted=self.batchnorm != "shared")
        if self.batchnorm == "batch":
            self.normalization.use_batch()
        width = self.normalization.width if self.batchnorm == "grid" else 0
        self.register_buffer("statistics", torch.zeros(0, width))  # [grid rays, width], empty until calibrated

    @property
    def norms(self) -> dict[str, _BatchNorm]:
        """The BatchNorm layers, by name, unless ``batchnorm="shared"``."""
        return self.normalization.layers

    def train(self, mode: bool = True) -> Target:
        super().train(mode)
        try:
            self.skeleton.train(mode)
        except TargetError as error:  # of an absent tensor
            raise TargetError(
                "train() or eval() of the module computes with its weights, but every ray has weights of its own",
                got=f"{type(self.skeleton).__name__}.train({mode})",
                expected="a change of mode alone",
                fix="do not merge adapters there (merge_weights=False in loralib)",
            ) from error
        if mode:
            self.normalization.see_resting()
        if self.batchnorm == "batch":
            self.normalization.use_batch()
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Prepare for copies and pickles, in which tensors that calls left on the module have no place."""
        settle(self.skeleton)
        return self.__dict__

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Target:
        """Follow a change of precision (``model.double()``); the private copy stays on its device."""
        super()._apply(fn, recurse)
        self.tensors = tuple(spec.converted(fn) for spec in self.tensors)
        self.places.convert(lambda tensor: tensor.to(fn(tensor.new_empty(0)).dtype))
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Leave out an empty table: writers of safetensors take empty tensors for shared ones, and drop all but one."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if not self.statistics.numel():
            del destination[prefix + "statistics"]
        from hyperfront.model.extra_state import collected  # which few modules have

        destination.update({prefix + name: tensor for name, tensor in collected(self.skeleton).items()})

    def _load_from_state_dict(self, state_dict: Any, prefix: Any, *args: Any, **kwargs: Any) -> None:
        """Resize the statistics to the stored ones: they are empty before the first calibration."""
        stored = state_dict.setdefault(prefix + "statistics", self.statistics[:0])
        if stored.ndim == 2 and stored.shape[1] == self.statistics.shape[1]:
            self.statistics = self.statistics.new_zeros(stored.shape)
        for name in self.caches:
            if (stored := state_dict.get(prefix + name)) is not None:
                setattr(self, name, getattr(self, name).new_zeros(stored.shape))
        from hyperfront.model.extra_state import taken_out

        taken_out(self.skeleton, state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    # ---- from theta to tensors -------------------------------------------------------------------------------

    def start(self) -> Tensor:
        """Return the ``theta [n]``, on the CPU, of the module as the user passed it."""
        with self.places.restored():
            return self.assembly.start(self.skeleton)

    def unpack(self, theta: Tensor, shared: dict[str, Tensor] | None = None) -> dict[str, Tensor]:
        """Return the module's tensors at ``theta [n]`` and ``shared``, by name, without BatchNorm statistics."""
        shared = self.shared() if shared is None else shared
        parts = [part.view(spec.shape) for spec, part in zip(self.assembly.parts, theta.split(self.sizes))]
        dtypes = {spec.name: getattr(torch, spec.dtype) for spec in self.tensors}
        made = self.assembly.assemble(parts, shared)
        if theta.is_cuda:  # BatchNorm reads its weights 16 bytes at a time, and theta has them at any place
            made |= {name: made[name].clone() for name in self.norm_weights & made.keys()}
        return shared | {name: t if t.dtype == dtypes[name] else t.to(dtypes[name]) for name, t in made.items()}

    def shared(self) -> dict[str, Tensor]:
        """Return the tensors that all rays share, by name."""
        return {
            spec.name: self.trained[_flat(spec.name)] if spec.role == "trained" else getattr(self, _flat(spec.name))
            for spec in self.tensors
            if spec.role != "generated"
        }

    def assign(self, buffers: dict[str, Tensor]) -> None:
        """Keep buffers that the module assigned in a call. All rays share them: a call sees those of the last call."""
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            raise RuntimeError("the module assigns buffers, which a graph would not see")
        for name, tensor in buffers.items():
            setattr(self, _flat(name), tensor)

    def remembered(self) -> Callable[[], None]:
        """Return a function that restores the present buffers, and the parameters that the module may assign."""
        shared = self.shared()
        before = {spec.name: shared[spec.name] for spec in self.tensors if spec.role in ("frozen", "buffer")}
        values = [(before[spec.name], before[spec.name].clone()) for spec in self.tensors if spec.role == "buffer"]

        @torch.no_grad()
        def restore() -> None:
            self.assign(before)
            for tensor, value in values:
                tensor.copy_(value)

        return restore

    def network(self, theta: Tensor, statistics: Tensor | None = None) -> Network:
        """Make the network with the weights ``theta [n]`` and, if it needs them, BatchNorm ``statistics [width]``."""
        return Network(self, self.assembled(theta, theta.new_zeros(0) if statistics is None else statistics))

    def assembled(
        self, theta: Tensor, statistics: Tensor, shared: dict[str, Tensor] | None = None
    ) -> dict[str, Tensor]:
        """Return all tensors that the module needs, by name."""
        values = self.unpack(theta, shared)
        return values | self.normalization.unpack(statistics) if statistics.numel() else values

    # ---- several rays ----------------------------------------------------------------------------------------

    def map(
        self, function: Callable[[Network, Batch], Any], theta: Tensor, rays: Tensor, batch: Batch, *, split: bool
    ) -> Any:
        """Compute ``function(network_r, batch_r)`` for every ray ``r``, stacked along a new first dimension.

        ``network_r`` is the module with the weights ``theta[r]``. With ``split`` the tensors of ``batch`` have one part
        for each ray, ``[R, ...]``; otherwise all rays see the same batch.
        """
        statistics, running = self.statistics_for(rays, theta), self.batchnorm == "shared" and self.training

        def alone(theta: Tensor, statistics: Tensor, batch: Batch, shared: dict[str, Tensor]) -> Any:
            return function(Network(self, self.assembled(theta, statistics, shared), together=True), batch)

        if self.stacking.wants_vmap(theta, running):
            crossing, shared = Crossing(batch), self.shared()

            def one(theta: Tensor, statistics: Tensor, parts: list[Tensor]) -> Any:
                network = Network(self, self.assembled(theta, statistics, shared), together=True)
                return crossing.leave(function(network, crossing.batch(parts)))

            with self.stacking.attempt(theta.device, "forward"), self.first_calls.apart(self.skeleton, shared):
                dims = (0, 0, [0 if split else None] * len(crossing.parts))
                batched = torch.vmap(one, in_dims=dims, randomness="different")
                return crossing.nest(batched(theta, statistics, crossing.parts))
        parts = (map_tensors(lambda t: t[r], batch) if split else batch for r in range(len(theta)))  # noqa: B023
        rows = [theta.squeeze(0)] if len(theta) == 1 else theta  # one ray: a view, whose gradient is not copied
        if self.stacking.wants_streams(theta, running):
            # gradients of what the rays share meet in these views, on this stream
            shared = {name: tensor.view_as(tensor) for name, tensor in self.shared().items()}
            return stack(side_by_side(partial(alone, shared=shared), zip(rows, statistics, parts)))
        results = []
        for row, statistic, part in zip(rows, statistics, parts):
            results.append(function(Network(self, self.assembled(row, statistic)), part))
        return stack(results)

    def together(self, theta: Tensor) -> bool:
        """Whether a training step runs the forward and backward passes of all networks of ``theta [R, n]`` at once."""
        running = self.batchnorm == "shared" and self.training
        if self.around is not None:
            return False
        return self.stacking.wants_vmap(theta, running) or self.stacking.wants_streams(theta, running)

    # ---- BatchNorm -------------------------------------------------------------------------------------------

    def statistics_for(self, rays: Tensor, theta: Tensor) -> Tensor:
        """Return the BatchNorm statistics for each of ``theta [R, n]``: empty in training, and without BatchNorm."""
        used = self.batchnorm == "grid" and not self.training and bool(self.normalization.adaptive)
        return statistics.at(self, rays) if used else theta.new_zeros(len(theta), 0)

    # ---- a plain module --------------------------------------------------------------------------------------

    @torch.no_grad()
    def module_at(self, theta: Tensor, ray: Tensor) -> nn.Module:
        """Copy the module with ``theta`` and the ray's statistics written into it: a plain module."""
        with self.places.restored():
            module = duplicate(self.skeleton)
        values = self.unpack(theta)
        if self.batchnorm == "grid" and self.normalization.adaptive:
            values |= self.normalization.unpack(statistics.at(self, ray[None])[0])
        for name in self.sparse:
            setattr(module.get_submodule(name), "sparse", True)  # noqa: B010 (its type is not known)
        own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        for name, value in values.items():
            if own[name].shape == value.shape:
                own[name].copy_(value)  # in place, so that tied weights stay tied
            else:  # a cache that has grown
                own[name].data = value.clone()
        self.normalization.finish(module, self.batchnorm)
        module.to(theta.device).eval()  # which need not return the module
        return module


def _flat(name: str) -> str:
    return "tensor:" + name.replace(".", "/")  # registered names cannot hold dots


def _check_choice(what: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise TargetError(f"no such choice for {what}", got=repr(value), expected="one of " + ", ".join(choices))
