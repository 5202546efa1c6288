"""Ensembles: several models of a front as one, whose prediction at a ray is the mean of theirs at that ray.

An ensemble is an ordinary :class:`ParetoModel`. Its target is the mean of ``K`` networks
(:class:`~hyperfront.model.averaged.Averaged`), and its hypernetwork is the ``K`` hypernetworks side by side:

    theta(r) = (theta_1(r), ..., theta_K(r)),    y(x, r) = mean_k f(x; theta_k(r))

So it evaluates, selects, serves, exports and saves like any other model, and ``at(ray)`` is one plain module.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from hyperfront.errors import CheckpointError, HyperfrontError
from hyperfront.errors.signatures import checked
from hyperfront.model.assemblies import ASSEMBLIES
from hyperfront.model.averaged import Averaged, words_of
from hyperfront.model.expected import expect_model
from hyperfront.model.hypernets import KINDS, Hypernet
from hyperfront.model.leftovers import duplicate
from hyperfront.model.pareto_model import ParetoModel, aligned
from hyperfront.model.restore import restore
from hyperfront.storage import checkpoint

ENSEMBLE = "ensemble"


@checked
def ensemble(models: Sequence[ParetoModel], *, average: str | Sequence[str]) -> ParetoModel:
    """Make one model of several, which predicts the mean of their predictions at the same ray.

    ``average`` declares what is averaged: ``"values"``, or, where outputs are logits, the probabilities of classes
    (``"softmax"``) or of yes and no (``"sigmoid"``). Outputs of several tensors may have a word for each
    (:class:`hyperfront.model.averaged.Averaged`). The models are copied.

    >>> from hyperfront import wrap
    >>> members = [wrap(nn.Linear(3, 1), ["cost", "risk"], hidden=8) for _ in range(3)]
    >>> ensemble(members, average="values")(torch.zeros(5, 3), rays=[[0.5, 0.5]]).shape
    torch.Size([1, 5, 1])
    """
    models, words = [expect_model(model, "ensemble") for model in models], words_of(average)
    if not models:
        raise HyperfrontError("an ensemble needs members", got="no model")
    _refuse_unlike(models)
    module = Averaged(map(_plain, models), words)
    tensors, first = _tensors(models), next(models[0].hypernet.parameters())
    made = restore(tensors, _document(models, module, words), module)
    if first.dtype != torch.get_default_dtype():
        checkpoint.load_into(made.to(first.dtype), tensors)  # which restore rounded
    return made.to(first.device)


class Members(Hypernet):
    """Hypernetworks side by side: ``rays [R, m] -> theta [R, n]``, the parts of all members' weights.

    ``members`` describes each: its kind, options, sizes of parts, and rows of its alignment of rays. ``order`` lists
    the parts of all members, counted one member after the other, as the ensemble's assembly wants them. ``average`` is
    kept for checkpoints, which describe an ensemble by this hypernetwork.
    """

    kind = ENSEMBLE

    def __init__(
        self,
        m: int,
        n: int,
        *,
        members: Sequence[dict[str, Any]],
        order: Sequence[int],
        average: Sequence[str],
        sizes: Sequence[int],
    ):
        super().__init__()
        self.m, self.n, self.order, self.average = m, n, list(order), words_of(average)
        self.described = [dict(member) for member in members]
        parts = [member["sizes"] for member in members]
        self.parts = list(itertools.chain.from_iterable(parts))
        if sorted(self.order) != [*range(len(self.parts))] or [self.parts[i] for i in self.order] != [*sizes]:
            raise CheckpointError("the members of the ensemble do not fit its networks", got=f"{len(self.parts)} parts")
        made = (
            KINDS[member["kind"]](m, sum(own), sizes=own, **member["options"]) for member, own in zip(members, parts)
        )
        self.members = nn.ModuleList(made)
        for k, member in enumerate(members):
            self.register_buffer(f"alignment{k}", torch.zeros(member["aligned"], m))

    @property
    def knots(self) -> Tensor | None:
        return self.members[0].knots  # pyrefly: ignore[bad-return]

    def options(self) -> dict[str, Any]:
        return {"members": self.described, "order": self.order, "average": list(self.average)}

    def forward(self, rays: Tensor) -> Tensor:
        moved = (aligned(rays, getattr(self, f"alignment{k}")) for k in range(len(self.members)))
        found = torch.cat([member(own) for member, own in zip(self.members, moved)], dim=1)
        if self.order == [*range(len(self.parts))]:
            return found
        parts = found.split(self.parts, dim=1)
        return torch.cat([parts[i] for i in self.order], dim=1)


def averaged_like(module: nn.Module, options: dict[str, Any]) -> nn.Module:
    """Return the mean of copies of ``module``, one for each member that a checkpoint describes."""
    if isinstance(module, Averaged):
        return module
    return Averaged([duplicate(module) for _ in options["members"]], words_of(options["average"]))


def _plain(model: ParetoModel) -> nn.Module:
    """Copy the module of a model, without its generated weights."""
    with model.target.places.restored():
        return duplicate(model.target.skeleton)


def _refuse_unlike(models: Sequence[ParetoModel]) -> None:
    """Raise an error unless the models mean the same by a ray, and can stand side by side in one target."""
    first = models[0]
    for k, model in enumerate(models):
        assembly = model.target.assembly
        facts = {
            "objectives": (model.objectives, first.objectives),
            **{f"{key} of their training": (model.record.get(key), first.record.get(key)) for key in _SAME},
            "parts that are generated": (
                (assembly.kind, assembly.options()),
                (first.target.assembly.kind, first.target.assembly.options()),
            ),
            "precision": (_precision(model), _precision(first)),
            "batchnorm=": (model.target.batchnorm, first.target.batchnorm),
            "rays of separate models": (model.target.knots, first.target.knots),
        }
        for what, (own, others) in facts.items():
            if own != others:
                raise HyperfrontError(f"members of an ensemble differ in their {what}", got=own, expected=others)
        if model.hypernet.kind not in KINDS:
            raise HyperfrontError(
                "a member of an ensemble has a hypernetwork of another kind", got=model.hypernet.kind,
                expected="one of " + ", ".join(KINDS),
                fix="pass all models of an ensemble to one call" if model.hypernet.kind == ENSEMBLE else None,
            )  # fmt: skip
        if len(model.alignment) and model.target.norms:
            raise HyperfrontError(
                "members with BatchNorm share the rays of their statistics, and one of them has aligned rays",
                got=f"member {k + 1}",
                fix="train the members with align=False, and align the ensemble: hyperfront.align(model, problem.val)",
            )


def _precision(model: ParetoModel) -> torch.dtype | None:
    return next((p.dtype for p in model.hypernet.parameters()), None)


_SAME = ("convention", "units", "problem", "arguments")
"""The parts of a record without which rays have another meaning."""


def _document(models: Sequence[ParetoModel], module: nn.Module, words: Sequence[str]) -> dict[str, Any]:
    """Describe the ensemble as :meth:`ParetoModel.document` does, from the documents of its members."""
    documents = [model.document() for model in models]
    targets = [document["target"] for document in documents]

    def named(k: int, name: str) -> str:
        return f"members.{k}.{name}".removesuffix(".")

    assembly = targets[0]["assembly"]
    names = [named(k, name) for k, target in enumerate(targets) for name in target["assembly"]["names"]]
    wanted = partial(ASSEMBLIES[assembly["kind"]], **assembly["options"])(module, names).parts
    own = [named(k, part.name) for k, model in enumerate(models) for part in model.target.assembly.parts]
    places = {name: place for place, name in enumerate(own)}
    if len(places) != len(wanted) or any(part.name not in places for part in wanted):
        raise HyperfrontError("the members of an ensemble generate other parts than their networks side by side would")
    described = [
        document["hypernet"] | {"sizes": model.target.sizes, "aligned": len(model.alignment)}
        for model, document in zip(models, documents)
    ]
    resting = [named(k, name) for k, target in enumerate(targets) for name in target.get("resting", [])]
    records = [model.record for model in models]
    same = {key: value for key, value in records[0].items() if all(record.get(key) == value for record in records)}
    options = {"members": described, "order": [places[part.name] for part in wanted], "average": list(words)}
    return {
        "objectives": documents[0]["objectives"],
        "hypernet": {"kind": ENSEMBLE, "options": options},
        "target": {
            "tensors": [
                entry | {"name": named(k, entry["name"])}
                for k, target in enumerate(targets)
                for entry in target["tensors"]
            ],
            "batchnorm": targets[0]["batchnorm"],
            "resting": resting,
            "assembly": assembly | {"names": names},
        },
        "record": same | {"members": len(models)},
    }


def _tensors(models: Sequence[ParetoModel]) -> dict[str, Tensor]:
    """Return the tensors of all members under the names that the ensemble has for them."""
    found, statistics = {}, []
    for k, model in enumerate(models):
        for name, tensor in model.state_dict().items():
            if name == "target.statistics":
                statistics.append(tensor)
            elif name.startswith("hypernet."):
                found[name.replace("hypernet.", f"hypernet.members.{k}.", 1)] = tensor
            elif name != "alignment" and "tensor:" in name:
                found[name.replace("tensor:", f"tensor:members/{k}/", 1)] = tensor
        found[f"hypernet.alignment{k}"] = model.alignment
    if statistics and len(statistics) < len(models):
        raise HyperfrontError(
            "a member of an ensemble has no BatchNorm statistics", fix="call calibrate(inputs) of each model"
        )
    return found | ({"target.statistics": torch.cat(statistics, dim=1)} if statistics else {})
