"""Adapters: low-rank additions as ordinary LoRA folders of ``peft``, which other programs load without hyperfront.

A :class:`~hyperfront.model.assemblies.LowRank` adds ``B(r) A(r)`` to matrices of the module, which at one ray is one
LoRA adapter. With ``linear=True`` the addition is ``sum_t r_t B_t A_t``: one adapter for each objective, whose scales
are the ray. So programs that mix adapters on request (``add_weighted_adapter`` of peft, ``combination_type="cat"``, or
per-request scales of a server) have the whole front in ``m`` folders.

A layer's factors are those of peft: ``lora_A [k, in]`` and ``lora_B [out, k]`` of a linear layer, the same with the
kernel's sides for a convolution, and the transposed factors in the other order for an embedding.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from hyperfront.errors import HyperfrontError
from hyperfront.errors.signatures import checked
from hyperfront.model import ParetoModel
from hyperfront.model.assemblies import LowRank
from hyperfront.storage import files

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
CALLS_NO_LAYER = (nn.MultiheadAttention, nn.TransformerEncoderLayer)
"""Modules that compute with the weights of their layers, so that a LoRA around such a layer has no effect."""
BASE = "base.safetensors"


@checked
def adapters(model: ParetoModel, folder: str | Path, rays: Tensor | Sequence | None = None) -> list[Path]:
    """Write a folder that ``peft.PeftModel.from_pretrained(module, path)`` loads, for each objective or for each ray.

    Without ``rays``, a model of ``hypernet="low_rank", linear=True`` becomes ``m`` adapters named by its objectives,
    whose scales are the ray. With ``rays``, any low-rank model becomes one adapter for each of them. Tensors that all
    rays share and that training changes, such as biases and running means, are in ``base.safetensors`` beside the
    folders: ``module.load_state_dict(load_file(path), strict=False)`` before the adapters are loaded.
    """
    assembly = model.target.assembly
    if not isinstance(assembly, LowRank):
        raise HyperfrontError(
            "only low-rank additions are LoRA adapters",
            got=f"generated tensors of the kind {assembly.kind!r}",
            expected='hyperfront.wrap(..., hypernet="low_rank")',
            fix="for a module with peft adapters, model.at(ray).save_pretrained(folder) writes the adapters of one ray",
        )
    if rays is None and model.hypernet.kind != "linear":
        raise HyperfrontError(
            "adapters whose scales are the ray need additions that are linear in the ray",
            got=f"the hypernetwork {model.hypernet.kind!r}",
            fix="adapters(model, folder, rays=...) for one adapter at each ray, or linear=True in hyperfront.wrap",
        )
    _refuse_other_outputs(model, scaled=rays is None)
    layers = [_Layer(model.target.skeleton, name) for name in assembly.names]
    folder, written = files.as_path(folder), []
    with torch.no_grad():
        chosen = model.check(torch.eye(model.m)) if rays is None else model.prepare(rays)
        names = _named(model.objectives) if rays is None else [f"ray-{number + 1}" for number in range(len(chosen))]
        for index, (name, theta) in enumerate(zip(names, model.hypernet(chosen))):
            factors = _factors(model, theta, None if rays is not None else index)
            written.append(_write(folder / name, layers, factors))
    _write_base(model, folder)
    return written


def _refuse_other_outputs(model: ParetoModel, *, scaled: bool) -> None:
    """Raise an error where a module with the adapters would not compute what the model does."""
    target = model.target
    if target.normalization.adaptive and target.norms:
        raise HyperfrontError(
            "BatchNorm has statistics of its own at every ray, and a LoRA folder holds none",
            got=f"the layer {target.normalization.adaptive[0]!r}",
            fix="GroupNorm or LayerNorm in the module, or model.at(ray), which has the statistics of its ray",
        )
    if scaled and len(model.alignment):
        raise HyperfrontError(
            "the scales of the adapters of an aligned model are not the ray",
            fix="adapters(model, folder, rays=...) for one adapter at each ray, or train with align=False",
        )
    with target.places.restored():
        everywhere = [*target.skeleton.named_parameters(remove_duplicate=False)]
    own = {name: parameter for name, parameter in everywhere if name in target.assembly.names}
    for name, parameter in own.items():
        if others := [other for other, tensor in everywhere if tensor is parameter and other != name]:
            raise HyperfrontError(
                "layers share a weight, and a LoRA adapter changes only one of them", got=", ".join([name, *others])
            )


class _Layer:
    """A layer of the module, by the name of its weight."""

    def __init__(self, module: nn.Module, weight: str):
        self.name, _, tensor = weight.rpartition(".")
        layer = module.get_submodule(self.name)
        self.shape, self.embedding = getattr(layer, tensor).shape, isinstance(layer, nn.Embedding)
        known = isinstance(layer, (nn.Linear, nn.Embedding)) or _plain(layer)
        parts = self.name.split(".")
        around = [module.get_submodule(".".join(parts[:end])) for end in range(len(parts))]
        passed = [type(outer).__name__ for outer in around if isinstance(outer, CALLS_NO_LAYER)]
        if not known or tensor != "weight" or passed:
            raise HyperfrontError(
                "peft has no LoRA for this tensor",
                got=" in a ".join([f"{weight} of a {type(layer).__name__}", *passed]),
                expected="weights of linear layers, embeddings and convolutions (two or more channels out; no groups, "
                "dilation or padding mode), whose module calls them as layers",
                fix="hyperfront.wrap(..., generate=...) chooses the tensors",
            )

    def tensors(self, down: Tensor, up: Tensor) -> dict[str, Tensor]:
        """Name the factors ``down [k, in]`` and ``up [out, k]`` as peft does."""
        start, k = f"base_model.model.{self.name}", len(down)
        if self.embedding:
            return {f"{start}.lora_embedding_A": up.T.contiguous(), f"{start}.lora_embedding_B": down.T.contiguous()}
        ones = [1] * (len(self.shape) - 2)
        return {
            f"{start}.lora_A.weight": down.reshape(k, *self.shape[1:]).contiguous(),
            f"{start}.lora_B.weight": up.reshape(len(up), k, *ones).contiguous(),
        }


def _plain(layer: nn.Module) -> bool:
    """Whether the layer is a convolution that peft can follow by one of its own without dilation and padding mode."""
    if not isinstance(layer, CONVOLUTIONS):
        return False
    usual = layer.groups == 1 and layer.padding_mode == "zeros" and all(step == 1 for step in layer.dilation)
    return usual and layer.out_channels > 1


def _factors(model: ParetoModel, theta: Tensor, term: int | None) -> list[tuple[Tensor, Tensor]]:
    """The factors ``down [k, in]`` and ``up [out, k]`` of each tensor: of all terms together, or of one."""
    assembly: Any = model.target.assembly
    parts = [part.view(spec.shape) for spec, part in zip(assembly.parts, theta.cpu().split(model.target.sizes))]
    count, found = len(assembly.names), []
    for index in range(count):
        down, ups = assembly.down(parts, index), parts[count + index :: count]
        if term is None:
            found.append((down, torch.cat(ups, dim=1)))
        else:
            found.append((down.chunk(assembly.terms)[term], ups[term]))
    return found


def _write(folder: Path, layers: Sequence[_Layer], factors: Sequence[tuple[Tensor, Tensor]]) -> Path:
    tensors: dict[str, Tensor] = {}
    for layer, pair in zip(layers, factors):
        tensors |= layer.tensors(*pair)
    ranks = {layer.name: len(down) for layer, (down, _) in zip(layers, factors)}
    most = max(ranks.values())
    others = {f"^{re.escape(name)}$": rank for name, rank in ranks.items() if rank != most}
    config = _peft().LoraConfig(
        r=most,
        lora_alpha=most,  # peft multiplies by alpha / r, which is 1 here
        rank_pattern=others,
        alpha_pattern=others,
        target_modules=[*ranks] if _clear(ranks) else "|".join(map(re.escape, ranks)),
        inference_mode=True,
    )
    files.make_folder(folder)
    config.save_pretrained(folder)
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    return folder


def _clear(names: Sequence[str] | dict[str, int]) -> bool:
    """Whether no name is the end of another one: peft takes a name for all layers whose names end like it."""
    return all("." in name for name in names) and not any(
        other.endswith(f".{name}") for name in names for other in names
    )


def _write_base(model: ParetoModel, folder: Path) -> None:
    """Write the tensors that all rays share and that training changes: trained ones, and buffers that modules save."""
    caches = {name.removeprefix("tensor:").replace("/", ".") for name in model.target.caches}
    changed = {spec.name for spec in model.target.tensors if spec.role in ("trained", "buffer")} - caches
    shared = {name: t.detach().cpu().contiguous() for name, t in model.target.shared().items() if name in changed}
    if shared:
        save_file(shared, folder / BASE, metadata={"format": "pt"})


def _named(objectives: Sequence[str]) -> list[str]:
    """Name a folder for each objective."""
    names = [re.sub(r"[^\w.-]+", "-", objective) for objective in objectives]
    if len({name.casefold() for name in names}) < len(names):
        raise HyperfrontError("the folders of two objectives have one name", got=", ".join(names))
    return names


def _peft() -> Any:
    try:
        return importlib.import_module("peft")
    except ImportError:
        raise HyperfrontError("peft is not installed", fix="pip install peft") from None
