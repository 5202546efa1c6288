"""Rebuild a model from a checkpoint, around a module of the same shapes."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from hyperfront.errors import CheckpointError, HyperfrontError
from hyperfront.errors.signatures import checked_except
from hyperfront.model.assemblies import ASSEMBLIES
from hyperfront.model.hypernets import KINDS, Hypernet
from hyperfront.model.leftovers import duplicate
from hyperfront.model.pareto_model import ParetoModel
from hyperfront.model.target import Target
from hyperfront.model.wrap import check_objectives, own_hypernet
from hyperfront.storage import checkpoint


@checked_except("tensors")
def restore(
    tensors: dict[str, Tensor], document: dict[str, Any], module: nn.Module, hypernet: nn.Module | None = None
) -> ParetoModel:
    """Rebuild the model that :meth:`ParetoModel.document` describes, around ``module``, with the stored numbers."""
    try:
        return _restored(tensors, document, module, hypernet)
    except HyperfrontError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as error:
        raise CheckpointError("a part of the checkpoint is missing or invalid", got=repr(error)) from None


def _restored(
    tensors: dict[str, Tensor], document: dict[str, Any], module: nn.Module, hypernet: nn.Module | None
) -> ParetoModel:
    stored_hypernet, table = document["hypernet"], document["target"]["tensors"]
    if stored_hypernet["kind"] == "ensemble":
        module = _ensemble().averaged_like(module, stored_hypernet["options"])
    stored = {entry["name"]: tuple(entry["shape"]) for entry in table}
    found = {name: tuple(t.shape) for name, t in [*module.named_parameters(), *module.named_buffers()]}
    for name in [*stored, *found]:
        if stored.get(name) != found.get(name):
            raise CheckpointError(
                "the target differs from the target of the checkpoint",
                got=f"{name}: {found.get(name, 'no such tensor')}",
                expected=f"{name}: {stored.get(name, 'no such tensor')}",
                fix="pass a module with the same tensors as target=",
            )
    roles = {entry["name"]: entry["role"] for entry in table}
    names = [name for name, role in roles.items() if role == "generated"]
    assembly = document["target"].get("assembly", {"kind": "replace", "options": {}, "names": names})
    if hypernet is None and stored_hypernet["kind"] not in (*KINDS, "ensemble"):
        raise CheckpointError(
            "the checkpoint was made with a hypernetwork of your own", fix="pass an instance of it as hypernet="
        )
    objectives = check_objectives(document["objectives"])
    if assembly["options"].get("terms", 1) not in (1, len(objectives)):
        raise CheckpointError("no such assembly", got=assembly["options"], expected=f"1 or {len(objectives)} terms")
    module = duplicate(module)
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(roles[name] in ("generated", "trained"))
    target = Target(
        module,
        generate=lambda name, _: name in assembly["names"],
        assembly=partial(ASSEMBLIES[assembly["kind"]], **assembly["options"]),
        batchnorm=document["target"]["batchnorm"],
    )
    target.normalization.rest(document["target"].get("resting", []))
    made = (
        _stored(stored_hypernet, len(objectives), target, tensors)
        if hypernet is None
        else own_hypernet(hypernet, {}, len(objectives), target)
    )
    model = ParetoModel(target, made, objectives).to(next(module.parameters()).device)
    model.record = dict(document["record"])
    checkpoint.load_into(model, tensors)
    return model.eval()


def _stored(document: dict[str, Any], m: int, target: Target, tensors: dict[str, Tensor]) -> Hypernet:
    """Make the hypernetwork that a checkpoint describes, still without numbers. Its sizes are compared with the stored
    tensors before anything is allocated, so that a small file cannot ask for much memory."""
    make = _ensemble().Members if document["kind"] == "ensemble" else KINDS[document["kind"]]
    with torch.device("meta"):
        described = make(m, target.n, sizes=target.sizes, **document["options"])
    asked = {name: tuple(tensor.shape) for name, tensor in described.state_dict().items()}
    held = {name: tuple(tensors[f"hypernet.{name}"].shape) for name in asked if f"hypernet.{name}" in tensors}
    for name, shape in asked.items():
        if held.get(name) != shape:
            raise CheckpointError(
                "the checkpoint does not fit the model: its tensors differ from the hypernetwork that it describes",
                got=f"{name}: {held.get(name, 'no such tensor')}",
                expected=f"{name}: {shape}",
                fix="build the target and hypernetwork with the same arguments as in training",
            )
    return described.to_empty(device="cpu")


def _ensemble() -> Any:
    from hyperfront.model import ensemble  # which few models need

    return ensemble
