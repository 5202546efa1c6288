"""The model of a whole Pareto front: a hypernetwork that writes the weights of a target."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from hyperfront import checkpoint
from hyperfront.assemblies import ASSEMBLIES, Replace
from hyperfront.batches import Batch, map_tensors, rows, split, to_device
from hyperfront.errors import CheckpointError, HyperfrontError, ProblemError, TargetError, unknown_name
from hyperfront.hypernets import KINDS, Architecture, Hypernet, MakeAssembly, OwnHypernet, architecture
from hyperfront.preferences import interpolation, validate
from hyperfront.roles import Generate, Rest, Role
from hyperfront.target import Target

SMALLEST = 1e-4
"""Entries of rays below this are aligned as if they were as large."""


class ParetoModel(nn.Module):
    """A family of networks, one for every ray. Made by :func:`wrap`, trained by :func:`hyperfront.fit`.

    ``record`` says how it was trained (convention of the rays, units of the losses, problem, solver); it is kept in
    checkpoints, since rays mean nothing without it.
    """

    def __init__(self, target: Target, hypernet: Hypernet, objectives: Sequence[str]):
        super().__init__()
        self.target, self.hypernet = target, hypernet
        target.knots = None if hypernet.knots is None else hypernet.knots.tolist()
        self.objectives = tuple(objectives)
        self.record: dict[str, Any] = {}
        self.register_buffer("alignment", torch.zeros(0, self.m))
        """What :func:`hyperfront.align` found: logarithms ``[K, m]`` at grid rays, empty before."""

    @property
    def m(self) -> int:
        return len(self.objectives)

    @property
    def device(self) -> torch.device:
        return next(self.hypernet.parameters()).device

    def check(self, rays: Tensor | Sequence) -> Tensor:
        """Checked rays ``[R, m]``, on the model's device and in its precision."""
        first = next(self.hypernet.parameters())
        return validate(rays, self.m, self.objectives).to(first)

    def prepare(self, rays: Tensor | Sequence) -> Tensor:
        """Checked and aligned rays ``[R, m]``: what the hypernetwork is asked for where a user asks for ``rays``."""
        return self.align(self.check(rays))

    def align(self, rays: Tensor) -> Tensor:
        """``r_j exp(c_j(r))``, rescaled, with ``c`` between its values at grid rays (:func:`hyperfront.align`)."""
        if not len(self.alignment):
            return rays
        c = interpolation(rays, self.target.grid(self.m)).to(rays) @ self.alignment.to(rays)
        return (rays.clamp_min(SMALLEST).log() + c).softmax(-1)

    def weights(self, rays: Tensor | Sequence) -> Tensor:
        """The generated weights ``theta [R, n]`` at the rays ``[R, m]``, differentiable in the hypernetwork."""
        return self.hypernet(self.prepare(rays))

    def forward(self, x: Batch, rays: Tensor | Sequence, *, paired: bool = False) -> Any:
        """Outputs ``[R, B, ...]`` of the networks at ``rays [R, m]`` on the batch ``x [B, ...]``.

        ``x`` is what the module takes: one tensor, a tuple of positional or a dict of keyword arguments. With
        ``paired``, ``rays [B, m]`` has one ray for each row and the outputs are ``[B, ...]``.
        """
        rays, x = self.prepare(rays), to_device(x, self.device)
        theta = self.hypernet(rays)
        if not paired:
            return self.target.map(lambda network, x: network(x), theta, rays, x, split=False)
        if rows(x) != len(rays):
            raise HyperfrontError(
                "paired needs one ray for each row", got=f"{len(rays)} rays, {rows(x)} rows", expected="as many"
            )
        outputs = self.target.map(lambda network, x: network(x), theta, rays, split(x, len(rays)), split=True)
        return map_tensors(lambda tensor: tensor.squeeze(1), outputs)

    def at(self, ray: Tensor | Sequence) -> nn.Module:
        """The network at one ray, as a plain module in evaluation mode that knows nothing of hyperfront."""
        rays = self.prepare(ray)
        if len(rays) != 1:
            raise HyperfrontError("a plain module is for one ray", got=f"{len(rays)} rays", expected="1")
        with torch.no_grad():
            return self.target.plain(self.hypernet(rays)[0], rays[0])

    def calibrate(self, inputs: Tensor | dict[str, Tensor] | Iterable[Batch]) -> None:
        """Estimate BatchNorm statistics for all rays from training inputs, one batch or several (``fit`` does it for
        you)."""
        batches = [inputs] if isinstance(inputs, Tensor | dict) else list(inputs)
        moved = (to_device(x, self.device) for x in batches)
        try:
            self.target.calibrate(lambda rays: self.hypernet(rays.to(self.device)), self.m, moved)
        except (TypeError, AttributeError) as error:
            if not any(isinstance(x, list) for x in batches):
                raise
            raise HyperfrontError(
                "calibrate takes what the module takes",
                got="batches that are lists, as a DataLoader makes them of inputs and targets",
                fix="model.calibrate(x for x, *_ in loader)",
            ) from error

    def summary(self) -> str:
        """What is generated, what is trained directly, and how large it all is."""
        counts = {role: [spec.size for spec in self.target.tensors if spec.role == role] for role in get_args(Role)}
        own = sum(p.numel() for p in self.hypernet.parameters())
        trained, whole = own + sum(counts["trained"]), sum(map(sum, counts.values())) - sum(counts["buffer"])
        each = own / self.target.n
        rows = [
            ("generated", self.target.n, self.target.assembly.describe()),
            ("trained", sum(counts["trained"]), "weights directly, shared by all rays"),
            ("frozen", sum(counts["frozen"]), "weights"),
            ("hypernetwork", own, f"parameters, {each:,.{1 if each >= 1 else 3}f} for each number generated"),
            ("in all", trained, f"parameters to train, {trained / whole:,.2f} times the target's"),
            ("BatchNorm", len(self.target.norms), f"layer(s), statistics: {self.target.batchnorm}"),
        ]
        title = f"{type(self.target.skeleton).__name__} as a function of rays over {', '.join(self.objectives)}"
        return "\n".join([title, *(f"  {what:<13}{count:>12,} {text}" for what, count, text in rows if count)])

    # ---- files -----------------------------------------------------------------------------------------------

    def _load_from_state_dict(self, state_dict: Any, prefix: Any, *args: Any, **kwargs: Any) -> None:
        """An alignment may be empty, here or there; models of before there was one have none."""
        stored = state_dict.setdefault(prefix + "alignment", self.alignment.new_zeros(0, self.m))
        grid = math.comb(self.target.grid(self.m) + self.m - 1, self.m - 1)
        if tuple(stored.shape) in ((0, self.m), (grid, self.m)):  # others do not fit, and are refused
            self.alignment = self.alignment.new_zeros(stored.shape)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def document(self) -> dict[str, Any]:
        """Everything but the numbers, as JSON: enough to rebuild the model around a module of the same shapes."""
        return {
            "objectives": list(self.objectives),
            "hypernet": {"kind": self.hypernet.kind, "options": self.hypernet.options()},
            "target": {
                "tensors": [asdict(spec) | {"shape": list(spec.shape)} for spec in self.target.tensors],
                "batchnorm": self.target.batchnorm,
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
        checkpoint.write(Path(path), self.state_dict(), {"model": self.document()})


def wrap(
    module: nn.Module,
    objectives: Sequence[str],
    *,
    hypernet: str | nn.Module = "mlp",
    generate: Generate = "*",
    rest: Rest = "train",
    assembly: MakeAssembly | None = None,
    batching: Literal["auto", "loop", "vmap"] = "auto",
    batchnorm: Literal["grid", "batch", "shared"] = "grid",
    **options: Any,
) -> ParetoModel:
    """Turn any ``nn.Module`` into a model of its whole Pareto front.

    ``hypernet`` is the name of an architecture, with its ``options``, or a module ``rays [R, m] -> theta [R, n]`` of
    your own, with the ``assembly`` of what it emits (by default the weights themselves). The names are

    - ``"mlp"``, the paper's: ``hidden``, ``initialisation``;
    - ``"chunked"``, for large targets: ``hidden``, ``chunk``, ``matrices``, ``chunks``, ``initialisation``;
    - ``"low_rank"``, additions ``W0 + B A``: ``rank``, ``base="train" | "freeze"``, ``hidden``, or ``linear=True``;
    - ``"film"``, scale and shift of features: ``hidden``, ``base``;
    - ``"separate"``, no hypernetwork but a model for each of the ``rays`` (:mod:`hyperfront.baselines`).

    The other arguments are those of :class:`hyperfront.target.Target`.

    >>> model = wrap(nn.Linear(3, 1), objectives=["cost", "risk"], hidden=8)
    >>> model(torch.zeros(5, 3), rays=[[0.5, 0.5], [0.9, 0.1]]).shape
    torch.Size([2, 5, 1])
    """
    if not isinstance(module, nn.Module):
        made = isinstance(module, type) and issubclass(module, nn.Module)
        raise TargetError(
            "only a module can be wrapped",
            got=f"the class {module.__name__}" if made else type(module).__name__,
            fix=f"{module.__name__}(...), an instance of it" if made else "put it into an nn.Module",
        )
    objectives = check_objectives(objectives)
    m, plan = len(objectives), None
    if isinstance(hypernet, str):
        if assembly and hypernet not in KINDS:
            raise unknown_name("hypernetwork for an assembly of your own", hypernet, KINDS)
        plan = Architecture(hypernet, options, assembly) if assembly else architecture(hypernet, m, rest, options)
        assembly = plan.assembly
    target = Target(
        module, generate=generate, rest=rest, assembly=assembly or Replace, batching=batching, batchnorm=batchnorm
    )
    made = _named(plan, m, target) if plan else _own(hypernet, options, m, target)
    return ParetoModel(target, made, objectives).to(next(module.parameters()).device)


def _named(plan: Architecture, m: int, target: Target) -> Hypernet:
    try:
        return KINDS[plan.kind](m, target.n, start=target.start(), sizes=target.sizes, **plan.options)
    except TypeError as error:
        raise HyperfrontError(
            "the hypernetwork does not take these options", got=error, fix="help(hyperfront.wrap) lists them for each"
        ) from None


def _own(hypernet: Any, options: dict[str, Any], m: int, target: Target) -> Hypernet:
    if options:
        raise HyperfrontError("options belong to a hypernetwork given by name", got=sorted(options))
    try:
        shape = list(hypernet(torch.full((1, m), 1 / m).to(next(hypernet.parameters()))).shape)
    except (RuntimeError, TypeError, ValueError, StopIteration) as error:
        shape = error
    if shape != [1, target.n]:
        raise TargetError(
            "the hypernetwork does not generate the weights of this target",
            got=shape,
            expected=f"rays [R, {m}] -> theta [R, {target.n}]",
        )
    return OwnHypernet(hypernet, m, target.n)


def check_objectives(objectives: Sequence[str]) -> tuple[str, ...]:
    """At least two different names."""
    names = (objectives,) if isinstance(objectives, str) else tuple(objectives)
    if len(names) < 2 or len(set(names)) != len(names) or not all(isinstance(name, str) for name in names):
        raise ProblemError(
            "a Pareto front needs at least two objectives with different names",
            got=list(names),
            expected='for example ["left", "right"]',
            fix="with one objective there is no trade-off: train the module as usual" if len(names) == 1 else None,
        )
    return names


def restore(
    tensors: dict[str, Tensor], document: dict[str, Any], module: nn.Module, hypernet: nn.Module | None = None
) -> ParetoModel:
    """The model that :meth:`ParetoModel.document` describes, around ``module``, with the stored numbers."""
    table = document["target"]["tensors"]
    stored = {entry["name"]: tuple(entry["shape"]) for entry in table}
    found = {name: tuple(t.shape) for name, t in [*module.named_parameters(), *module.named_buffers()]}
    for name in [*stored, *found]:
        if stored.get(name) != found.get(name):
            raise CheckpointError(
                "the target is not the one that the checkpoint was made with",
                got=f"{name}: {found.get(name, 'no such tensor')}",
                expected=f"{name}: {stored.get(name, 'no such tensor')}",
                fix="pass a module with the same tensors as target=",
            )
    roles = {entry["name"]: entry["role"] for entry in table}
    names = [name for name, role in roles.items() if role == "generated"]
    assembly = document["target"].get("assembly", {"kind": "replace", "options": {}, "names": names})
    stored_hypernet = document["hypernet"]
    if hypernet is None and stored_hypernet["kind"] not in KINDS:
        raise CheckpointError(
            "the checkpoint was made with a hypernetwork of your own", fix="pass an instance of it as hypernet="
        )
    objectives = check_objectives(document["objectives"])
    if assembly["options"].get("terms", 1) not in (1, len(objectives)):
        raise CheckpointError("no such assembly", got=assembly["options"], expected=f"1 or {len(objectives)} terms")
    module = copy.deepcopy(module)
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(roles[name] in ("generated", "trained"))
    target = Target(
        module,
        generate=lambda name, _: name in assembly["names"],
        assembly=partial(ASSEMBLIES[assembly["kind"]], **assembly["options"]),
        batchnorm=document["target"]["batchnorm"],
    )
    made = (
        _stored(stored_hypernet, len(objectives), target, tensors)
        if hypernet is None
        else _own(hypernet, {}, len(objectives), target)
    )
    model = ParetoModel(target, made, objectives).to(next(module.parameters()).device)
    model.record = dict(document["record"])
    checkpoint.load_into(model, tensors)
    return model.eval()


def _stored(document: dict[str, Any], m: int, target: Target, tensors: dict[str, Tensor]) -> Hypernet:
    """The hypernetwork that a checkpoint describes, still without numbers. Nothing is allocated until its sizes have
    been compared with those of the stored tensors, so that a file cannot ask for more than it holds."""
    with torch.device("meta"):
        described = KINDS[document["kind"]](m, target.n, sizes=target.sizes, **document["options"])
    asked = {name: tuple(tensor.shape) for name, tensor in described.state_dict().items()}
    held = {name: tuple(tensors[f"hypernet.{name}"].shape) for name in asked if f"hypernet.{name}" in tensors}
    for name, shape in asked.items():
        if held.get(name) != shape:
            raise CheckpointError(
                "the checkpoint does not fit the model: its hypernetwork is not the one that it describes",
                got=f"{name}: {held.get(name, 'no such tensor')}",
                expected=f"{name}: {shape}",
                fix="build the target and hypernetwork with the same arguments as in training",
            )
    return described.to_empty(device="cpu")
