"""Refusals: modules that a hypernetwork cannot drive raise an error when they are wrapped."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm

from hyperfront.errors import TargetError, shown
from hyperfront.model.assemblies import Assembly
from hyperfront.model.contents import Found, held
from hyperfront.model.roles import Generate


def refuse_given(module: nn.Module) -> None:
    """Raise an error for parts of the module that a copy would lose, or that cannot be copied."""
    for name, layer in module.named_modules():
        if "_torchdynamo_orig_callable" in vars(layer):  # importing its type takes seconds
            raise TargetError(
                "torch.compile made this layer into a function of the weights that it has now",
                got=f"{name or 'the module'}: a {type(layer).__name__}",
                fix="wrap the module before it is compiled; hyperfront.fit(engine='compiled') compiles whole steps",
            )
    listed, own = (list(named(module)) for named in (type(module).named_parameters, nn.Module.named_parameters))
    if [name for name, _ in listed] != [name for name, _ in own]:
        raise TargetError(
            "the module lists other parameters than it has",
            got=f"named_parameters() of {type(module).__name__}, with {len(listed)} of {len(own)}",
            fix="do not override named_parameters; choose by generate=, and freeze by requires_grad_(False)",
        )
    for name, tensor in [*own, *module.named_buffers()]:
        if tensor.is_meta and not isinstance(tensor, UninitializedParameter):
            raise TargetError(
                "the module has tensors without values",
                got=f"{name} on the device 'meta'",
                fix="module.to_empty(device='cpu'), and initialize it",
            )
    for name, parameter in own:
        _refuse_parameter(name, parameter)


def _refuse_parameter(name: str, parameter: nn.Parameter) -> None:
    if type(parameter) not in (nn.Parameter, Tensor, UninitializedParameter):  # a Tensor: in copies of programs
        raise TargetError(
            "a generated tensor is a plain one, and this parameter is of a type of its own",
            got=f"{name}: a {type(parameter).__name__}",
            expected="nn.Parameter",
        )
    if parameter.requires_grad and (parameter._backward_hooks or parameter._post_accumulate_grad_hooks):
        raise TargetError(
            "a hook on the gradient of a parameter would see none: the parameter's place is taken by generated tensors",
            got=f"a hook on {name}",
            expected="parameters without hooks",
            fix="a hook on a tensor that forward computes; for a mask, multiply the weight by it in forward "
            "(torch.nn.utils.parametrize)",
        )


ONCE = "run the module once before wrapping it, if only its first call does so"
WRITTEN = "the forward pass changes its weights in place, and weights are generated again for every call"
WRITTEN_FIX = f"{ONCE}; else compute with changed copies (self.weight.clamp(...)), or leave them out of generate=..."
_FAILURES = {
    "you can only change requires_grad flags of leaf variables": (
        "the forward pass switches gradients of a parameter on or off, and generated tensors are results of the "
        "hypernetwork",
        "requires_grad_(...) before the module is wrapped",
    ),
    "Only Tensors created explicitly by the user": (
        "the forward pass copies a layer or parameter, and a copy of generated tensors would have no gradient",
        "use the layer itself, or leave it out of generate=...",
    ),
    "is a view and its base or another view of its base has been modified inplace": (
        WRITTEN,
        WRITTEN_FIX,
    ),
}
"""Parts of PyTorch's messages about generated tensors, each with the message and fix of our error."""


def refuse_failure(error: RuntimeError) -> None:
    """Raise an error with a fix, if a call failed because the tensors are generated."""
    for words, (what, fix) in _FAILURES.items():
        if words in str(error):
            raise TargetError(what, got=str(error).partition("\n")[0], fix=fix) from error


def refuse_assembly(assembly: Assembly, generate: Generate, module: nn.Module) -> None:
    """Raise an error for an assembly that is none, or that generates nothing."""
    if not isinstance(assembly, Assembly):
        raise TargetError("the function for assemblies made no assembly", got=shown(assembly), expected="an Assembly")
    if assembly.names:
        return
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise TargetError(
            "no parameter of the target is generated",
            got="no parameter that requires a gradient",
            fix="unfreeze what the ray shall change before wrap: parameter.requires_grad_(True)",
        )
    raise TargetError(
        "no parameter of the target is generated",
        got=f"generate = {generate!r}",
        expected=f"a pattern that matches {assembly.takes}: " + ", ".join(dict(module.named_parameters())),
    )


def refuse(module: nn.Module, generated: Collection[str]) -> None:
    """Raise an error for parts of ``module`` that would compute wrong results with these generated tensors."""
    known = {id(parameter) for parameter in module.parameters()}
    for found in held(module):
        if isinstance(found.thing, nn.Parameter):
            _refuse_held(found, id(found.thing) in known)
    _refuse_spectral_norm(module, set(generated))
    _refuse_renormalized(module, set(generated))


def _refuse_held(found: Found, known: bool) -> None:
    """Raise an error for a parameter in an attribute unless it is known and another tensor can take its place."""
    place = f"a parameter of shape {list(found.thing.shape)} at {found.place}"
    if found.foreign:  # a copy of the module holds the same function, with the same tensors
        raise TargetError(
            f"{found.foreign} holds a {found.owner or 'parameter'} and would compute with other weights",
            got=place,
            expected="a method, which finds its layers and parameters through self",
        )
    if found.owner and not known:
        raise TargetError(
            "the module has layers that it did not register, so nothing is generated for them",
            got=f"a {found.owner}, with {place}",
            expected="layers in attributes, nn.ModuleList or nn.ModuleDict",
        )
    if found.fixed or not known:
        fault = "which is not registered" if not known else f"which no other tensor can enter: it is in {found.fixed}"
        raise TargetError(
            "a parameter lies where it cannot be replaced by a generated one",
            got=f"{place}, {fault}",
            expected="parameters in attributes, nn.ParameterList or nn.ParameterDict; layers in nn.ModuleList",
        )


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
