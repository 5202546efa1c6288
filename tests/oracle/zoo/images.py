"""Image networks of packages that need torchvision.

A torchvision that was built for another torch cannot load its operators, and then it cannot be imported, since it
describes two of them, of object detection. None of these networks uses them, so that a declaration is enough.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests.oracle.case import NO_VMAP, Case
from tests.oracle.zoo.layers import randn

ROUNDING = dict.fromkeys(("float32", "bf16"), "BatchNorm over a few numbers at the smallest maps makes rounding large")
DECLARED: list[torch.library.Library] = []
"""Declarations last as long as these."""


def load(package: str) -> Any:
    """The package, with or without the operators of torchvision."""
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
        DECLARED.append(torch.library.Library("torchvision", "DEF"))
        for operator in ("nms", "qnms"):
            DECLARED[0].define(f"{operator}(Tensor boxes) -> Tensor")
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
    return importlib.import_module(package)


def timm(name: str, *, recompute: bool = False, **options: Any) -> Case:
    """A model of timm for three classes, without pretrained weights."""

    def make() -> nn.Module:
        model = load("timm").create_model(name, pretrained=False, num_classes=3, **options)
        if recompute:
            model.set_grad_checkpointing()
        return model

    label = f"timm: {name}{', checkpointing' if recompute else ''}"
    size = options.get("img_size", 32)
    needs, refused = ["timm", "torchvision"], NO_VMAP if recompute else {}
    return Case(label, make, randn(4, 3, size, size), needs=needs, precision=1e-6, refused=refused, exempt=ROUNDING)


def segmentation(name: str) -> Case:
    """A network of segmentation_models_pytorch on a small encoder."""

    def make() -> nn.Module:
        package = load("segmentation_models_pytorch")
        return getattr(package, name)("timm-mobilenetv3_small_minimal_100", encoder_weights=None, classes=2)

    needs = ["segmentation_models_pytorch", "timm", "torchvision"]
    return Case(f"segmentation: {name}", make, randn(2, 3, 32, 32), needs=needs, precision=1e-6, exempt=ROUNDING)


def torchvision(name: str, make: Callable[[Any], nn.Module], size: int = 32) -> Case:
    """A model of torchvision."""
    return Case(
        f"torchvision: {name}",
        lambda: make(load("torchvision.models")),
        randn(4, 3, size, size),
        needs=["torchvision"],
        precision=1e-6,
        exempt=ROUNDING,
    )


SMALL_VIT = {"img_size": 32, "patch_size": 16, "embed_dim": 24, "depth": 2, "num_heads": 2}
CASES = [
    timm("vit_tiny_patch16_224", **SMALL_VIT),
    timm("vit_tiny_patch16_224", recompute=True, **SMALL_VIT),
    timm("mobilenetv3_small_050"),
    timm("convnext_atto", depths=(1, 1, 1, 1), dims=(4, 8, 8, 8)),
    timm("test_efficientnet", recompute=True),
    segmentation("Unet"),
    segmentation("FPN"),
    segmentation("DeepLabV3Plus"),
    torchvision("MobileNetV3", lambda models: models.mobilenet_v3_small(num_classes=3, dropout=0.0)),
    torchvision("SqueezeNet", lambda models: models.squeezenet1_1(num_classes=3, dropout=0.0), size=64),
]
