"""Refusals: modules that a hypernetwork cannot drive raise an error when they are wrapped."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from types import CellType, FunctionType
from typing import Any

from torch import nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm

from hyperfront.errors import TargetError
from hyperfront.model.substitution import references

_EMPTY = CellType()  # a variable of a closure that has no value yet


def refuse(module: nn.Module, generated: Collection[str]) -> None:
    """Raise an error for parts of ``module`` that would compute wrong results with these generated tensors."""
    _refuse_unregistered(module)
    _refuse_functions(module)
    _refuse_spectral_norm(module, set(generated))
    _refuse_renormalized(module, set(generated))


def _refuse_unregistered(module: nn.Module) -> None:
    """Raise an error for parameters in plain lists that the module does not know, or that cannot be replaced there."""
    known = {id(parameter) for parameter in module.parameters()}
    for prefix, layer in module.named_modules():
        for container, key, tensor in references(layer):
            if id(tensor) in known and not isinstance(container, tuple):
                continue
            if isinstance(tensor, nn.Parameter):
                fault = "where it cannot be replaced" if id(tensor) in known else "where it is not registered"
                raise TargetError(
                    "a parameter cannot be replaced by a generated one",
                    got=f"a parameter of shape {list(tensor.shape)} at {key!r} of a {type(container).__name__} in "
                    f"{prefix or type(layer).__name__}, {fault}",
                    expected="parameters in attributes, nn.ParameterList or nn.ParameterDict; layers in nn.ModuleList",
                )
        for name, value in vars(layer).items():
            if name != "_modules" and (strange := _modules(value, known)):
                raise TargetError(
                    "the module has layers that it did not register, so nothing is generated for them",
                    got=f"{strange} in the attribute {name!r} of {prefix or type(layer).__name__}",
                    expected="layers in attributes, nn.ModuleList or nn.ModuleDict",
                    fix=f"self.{name} = nn.ModuleList(...)",
                )


def _modules(value: object, known: set[int]) -> str | None:
    """Return the type of a layer with unknown parameters in a list, tuple or dict, if there is one."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    for layer in inner:
        if isinstance(layer, nn.Module) and any(id(parameter) not in known for parameter in layer.parameters()):
            return type(layer).__name__
    return None


def _refuse_functions(module: nn.Module) -> None:
    """Raise an error for functions that hold tensors: the tensors cannot be replaced there, and a copy of the module
    has the same function with the same tensors."""
    for prefix, layer in module.named_modules():
        for name, value in vars(layer).items():
            if not name.endswith("_hooks") and (held := _held(value)):
                raise TargetError(
                    "a function holds a layer or parameter, so it would compute with other weights than the generated",
                    got=f"{name!r} of {prefix or type(layer).__name__}, which holds a {held}",
                    expected="a method, which finds its layers and parameters through self",
                    fix=f"def {name}(self, ...)",
                )


def _held(value: object) -> str | None:
    """Return the type of a parameter, or of a layer with parameters, in a function's closure, defaults or arguments.

    Layers in a ``partial`` are copied with the module, and work.
    """
    inner: list[object] = []
    if isinstance(value, partial):
        parts = (value.func, *value.args, *value.keywords.values())
        inner = [part for part in parts if not isinstance(part, nn.Module)]
    elif isinstance(value, FunctionType):
        inner = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        inner += [cell.cell_contents for cell in value.__closure__ or () if cell != _EMPTY]
    for each in inner:
        if isinstance(each, nn.Parameter) or (isinstance(each, nn.Module) and any(True for _ in each.parameters())):
            return type(each).__name__
        if found := _held(each):
            return found
    return None


def _refuse_spectral_norm(module: nn.Module, generated: set[str]) -> None:
    """Raise an error for generated weights with spectral_norm: its power iteration follows one matrix from call to
    call, but every ray has its own matrix."""
    found = []
    for prefix, layer in module.named_modules():
        start = f"{prefix}." if prefix else ""
        hooks = layer._forward_pre_hooks.values()
        found += [f"{start}{hook.name}_orig" for hook in hooks if isinstance(hook, SpectralNorm)]
        if parametrize.is_parametrized(layer):
            chains: Any = layer.parametrizations
            for name, parts in chains.items():
                if any(isinstance(part, _SpectralNorm) and hasattr(part, "_u") for part in parts):
                    found.append(f"{start}parametrizations.{name}.original")
    if wrong := sorted(generated & set(found)):
        raise TargetError(
            "spectral_norm keeps one estimate of a matrix's norm, and the generated matrix differs from ray to ray",
            got=", ".join(wrong),
            expected="layers with spectral_norm among the tensors that all rays share",
            fix="leave these layers out of generate=..., or remove spectral_norm from them before wrapping",
        )


def _refuse_renormalized(module: nn.Module, generated: set[str]) -> None:
    """Raise an error for generated embeddings with ``max_norm``, which write into their weights in the forward pass."""
    for prefix, layer in module.named_modules():
        name = f"{prefix}.weight".removeprefix(".")
        if isinstance(layer, nn.Embedding | nn.EmbeddingBag) and layer.max_norm is not None and name in generated:
            raise TargetError(
                "an embedding with max_norm changes its weights in place, which generated weights do not allow",
                got=name,
                fix="max_norm=None, or leave it out of generate=...",
            )
