"""The model of a whole Pareto front: a hypernetwork that writes the weights of a target."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hyperfront.errors import HyperfrontError, RayError, check_flag, shown
from hyperfront.errors.signatures import checked, is_plain
from hyperfront.model import statistics
from hyperfront.model.hypernets import Hypernet
from hyperfront.model.sharded import refuse_sharded
from hyperfront.model.statistics import Share
from hyperfront.model.substitution import called
from hyperfront.model.summary import counts, title
from hyperfront.model.target import Target
from hyperfront.preferences import interpolation, validate
from hyperfront.storage import checkpoint
from hyperfront.storage.batches import Batch, rows, split, to_device
from hyperfront.storage.files import as_path
from hyperfront.storage.nests import map_tensors

PRETRAINED = "model.safetensors"
"""The file of a model in its own folder."""
SMALLEST = 1e-4
"""Alignment raises smaller entries of rays to this value."""


@checked
class ParetoModel(nn.Module):
    """A family of networks, one for every ray. :func:`wrap` makes it, :func:`hyperfront.fit` trains it.

    ``record`` describes its training (convention of the rays, units of the losses, problem, solver). Checkpoints store
    the record, since rays have no meaning without it.
    """

    def __init__(self, target: Target, hypernet: Hypernet, objectives: Sequence[str]):
        super().__init__()
        self.target, self.hypernet = target, hypernet
        target.knots = None if hypernet.knots is None else hypernet.knots.tolist()
        self.objectives = tuple(objectives)
        self.record: dict[str, Any] = {}
        self.register_buffer("alignment", torch.zeros(0, self.m))
        """The result of :func:`hyperfront.align`: logarithms ``[K, m]`` at grid rays; empty before."""

    @property
    def m(self) -> int:
        return len(self.objectives)

    @property
    def device(self) -> torch.device:
        return next(self.hypernet.parameters()).device

    def check(self, rays: Tensor | Sequence) -> Tensor:
        """Check rays, and return them as ``[R, m]`` on the model's device, in its precision."""
        first = next(self.hypernet.parameters())
        if hasattr(first, "placements"):  # a DTensor
            refuse_sharded(self, "the model")
        return validate(rays, self.m, self.objectives).to(first)

    def prepare(self, rays: Tensor | Sequence) -> Tensor:
        """Check and align the user's ``rays``: the result ``[R, m]`` is the input of the hypernetwork."""
        return self.align(self.check(rays))

    def align(self, rays: Tensor) -> Tensor:
        """Return ``r_j exp(c_j(r))``, rescaled; ``c`` is interpolated between grid rays (:func:`hyperfront.align`)."""
        if not is_plain(rays) or rays.ndim != 2 or rays.shape[1] != self.m or not rays.is_floating_point():
            raise RayError("align takes rays as a tensor", got=shown(rays), expected=f"[R, {self.m}], from check(rays)")
        return aligned(rays, self.alignment)

    def weights(self, rays: Tensor | Sequence) -> Tensor:
        """Generate the weights ``theta [R, n]`` at the rays ``[R, m]``, differentiable in the hypernetwork."""
        return self.hypernet(self.prepare(rays))

    def forward(self, x: Batch, rays: Tensor | Sequence, *, paired: bool = False) -> Any:
        """Compute outputs ``[R, B, ...]`` of the networks at ``rays [R, m]`` on the batch ``x [B, ...]``.

        ``x`` is the module's input: one tensor, a tuple of positional or a dict of keyword arguments. With ``paired``,
        ``rays [B, m]`` has one ray for each row, and the outputs are ``[B, ...]``.
        """
        check_flag("paired", paired)
        rays, x = self.prepare(rays), to_device(x, self.device)
        theta = self.hypernet(rays)
        if not paired:
            return self.target.map(called, theta, rays, x, split=False)
        if rows(x) != len(rays):
            raise HyperfrontError(
                "paired needs one ray for each row", got=f"{len(rays)} rays, {rows(x)} rows", expected="as many"
            )
        outputs = self.target.map(called, theta, rays, split(x, len(rays)), split=True)
        return map_tensors(lambda tensor: tensor.squeeze(1), outputs)

    def at(self, ray: Tensor | Sequence) -> nn.Module:
        """Return the network at one ray as a plain module in evaluation mode, which needs no hyperfront."""
        rays = self.prepare(ray)
        if len(rays) != 1:
            raise HyperfrontError("a plain module is for one ray", got=f"{len(rays)} rays", expected="1")
        with torch.no_grad():
            return self.target.module_at(self.hypernet(rays)[0], rays[0])

    def calibrate(self, inputs: Tensor | dict[str, Tensor] | Iterable[Batch], *, share: Share | None = None) -> None:
        """Estimate BatchNorm statistics for all rays from training inputs (``fit`` does it for you).

        A tensor or a dict is one batch; everything else holds several, so one batch of two positional arguments is
        ``[(a, b)]``. ``share(work, rays)`` may compute ``work(rays)`` on several processes.
        """
        if not isinstance(inputs, Iterable) or getattr(inputs, "ndim", 1) == 0:
            raise HyperfrontError(
                "calibrate takes batches of inputs", got=shown(inputs), expected="a tensor, or several batches"
            )
        kinds: set[type] = set()

        def moved() -> Iterator[Batch]:
            for x in [inputs] if isinstance(inputs, Tensor | dict) else inputs:
                kinds.add(type(x))
                yield to_device(x, self.device)

        try:
            statistics.calibrate(self.target, lambda rays: self.hypernet(rays.to(self.device)), self.m, moved(), share)
        except (TypeError, AttributeError) as error:
            if isinstance(inputs, tuple) and kinds == {Tensor}:
                raise HyperfrontError(
                    "calibrate takes a tuple as several batches, and the module fails on its first tensor alone",
                    got=str(error),
                    fix="put one batch of several arguments into a list: model.calibrate([(a, b)])",
                ) from error
            if list not in kinds:
                raise
            raise HyperfrontError(
                "calibrate takes batches of the module's inputs",
                got="batches that are lists, such as a DataLoader's lists of inputs and targets",
                fix="model.calibrate(x for x, *_ in loader)",
            ) from error

    def summary(self) -> str:
        """Count the generated, directly trained and frozen weights, and the hypernetwork's parameters."""
        return "\n".join([title(self), *(f"  {what:<13}{count:>12,} {text}" for what, count, text in counts(self))])

    def _repr_html_(self) -> str:
        """Show summary and tensors in a notebook."""
        from hyperfront.model import notebook

        return notebook.html(self)

    # ---- files -----------------------------------------------------------------------------------------------

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Leave out an empty alignment, as :class:`Target` does with empty statistics."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if not self.alignment.numel():
            del destination[prefix + "alignment"]

    def _load_from_state_dict(self, state_dict: Any, prefix: Any, *args: Any, **kwargs: Any) -> None:
        """Resize the alignment to the stored one; both may be empty."""
        stored = state_dict.setdefault(prefix + "alignment", self.alignment.new_zeros(0, self.m))
        grid = math.comb(statistics.grid(self.m) + self.m - 1, self.m - 1)
        if tuple(stored.shape) in ((0, self.m), (grid, self.m)):  # others do not fit, and are refused
            self.alignment = self.alignment.new_zeros(stored.shape)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def document(self) -> dict[str, Any]:
        """Describe the model as JSON, without its numbers: enough to rebuild it around a module of the same shapes."""
        resting = sorted(self.target.normalization.resting)
        return {
            "objectives": list(self.objectives),
            "hypernet": {"kind": self.hypernet.kind, "options": self.hypernet.options()},
            "target": {
                "tensors": [asdict(spec) | {"shape": list(spec.shape)} for spec in self.target.tensors],
                "batchnorm": self.target.batchnorm,
                **({"resting": resting} if resting else {}),  # as in files from before it was known
                "assembly": {
                    "kind": self.target.assembly.kind,
                    "options": self.target.assembly.options(),
                    "names": list(self.target.assembly.names),
                },
            },
            "record": self.record,
        }

    def save(self, path: str | Path) -> None:
        """Write the model to one safetensors file without code; :func:`hyperfront.load` reads it."""
        refuse_sharded(self, "save")
        checkpoint.write(as_path(path), self.state_dict(), {"model": self.document()})

    @checked
    def save_pretrained(self, folder: str | Path) -> None:
        """Write the model into a folder, for :meth:`from_pretrained`."""
        self.save(as_path(folder) / PRETRAINED)

    @classmethod
    @checked
    def from_pretrained(cls, folder: str | Path, module: nn.Module, hypernet: nn.Module | None = None) -> ParetoModel:
        """Read the model that :meth:`save_pretrained` wrote, around a module of the same shapes as when it was wrapped.
        If you wrote the hypernetwork, pass it as ``hypernet`` too."""
        from hyperfront.model.restore import restore  # which makes models of this class

        tensors, document = checkpoint.read(as_path(folder) / PRETRAINED)
        if "model" not in document:
            raise HyperfrontError("the checkpoint holds no model", got=folder)
        return restore(tensors, document["model"], module, hypernet)


def aligned(rays: Tensor, alignment: Tensor) -> Tensor:
    """Move ``rays [R, m]`` by logarithms ``[K, m]`` at the rays of a grid; an empty ``alignment`` moves none."""
    if not len(alignment):
        return rays
    c = interpolation(rays, statistics.grid(rays.shape[-1])).to(rays) @ alignment.to(rays)
    return (rays.clamp_min(SMALLEST).log() + c).softmax(-1)
