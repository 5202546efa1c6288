"""Fused operations against their plain twins."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hyperfront.kernels import conv_relu_pool_cpu, conv_relu_pool_patches
from hyperfront.kernels.conv_relu_pool import conv_relu_pool, reference

on_cpu = conv_relu_pool_cpu.conv_relu_pool
seeds = st.integers(0, 2**32 - 1)
quick = settings(max_examples=80)


@st.composite
def layers(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor]:
    """Images, kernel and bias of any shape that leaves something to pool; many with ties, or nothing positive."""
    batch, channels, count = (draw(st.integers(1, 3)) for _ in range(3))
    k, l = (draw(st.integers(1, 5)) for _ in range(2))
    height, width = k + draw(st.integers(1, 6)), l + draw(st.integers(1, 6))
    generator = torch.Generator().manual_seed(draw(seeds))
    shapes = ((batch, channels, height, width), (count, channels, k, l), (count,))
    kind = draw(st.sampled_from(["any", "integers", "background", "negative"]))
    x, weight, bias = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    if kind == "integers":  # whose sums are exact, so that equal ones are equal
        x, weight, bias = (tensor.round() for tensor in (x, weight, bias))
    elif kind == "background":  # of images that are black in places, where all outputs are the bias
        x = x * (torch.rand(x.shape, generator=generator) < 0.1)
    elif kind == "negative":
        bias = bias - 100
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    return x.to(dtype), weight.to(dtype), bias.to(dtype)


def gradients(function, tensors: tuple[Tensor, ...], grad: Tensor) -> tuple[Tensor, ...]:
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    return torch.autograd.grad(function(*leaves), leaves, grad)


def random_layer(*leading: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    shapes = ((3, 2, 9, 8), (4, 2, 3, 4), (4,))
    return tuple(torch.randn(*leading, *shape, dtype=dtype) for shape in shapes)


@quick
@given(layers(), seeds)
def test_values_and_gradients_are_those_of_the_definition(layer: tuple[Tensor, Tensor, Tensor], seed: int) -> None:
    expected = reference(*layer)
    close = {"atol": 1e-4, "rtol": 1e-4} if expected.dtype == torch.float32 else {"atol": 1e-11, "rtol": 1e-11}
    torch.testing.assert_close(on_cpu(*layer), expected, **close)
    with torch.no_grad():
        torch.testing.assert_close(on_cpu(*layer), expected, **close)
    grad = torch.randn(expected.shape, generator=torch.Generator().manual_seed(seed)).to(expected)
    for ours, theirs in zip(gradients(on_cpu, layer, grad), gradients(reference, layer, grad), strict=True):
        torch.testing.assert_close(ours, theirs, **close)


@quick
@given(layers())
def test_patches_give_the_definition_for_one_ray_and_for_several(layer: tuple[Tensor, Tensor, Tensor]) -> None:
    x, weight, bias = layer
    close = {"atol": 1e-4, "rtol": 1e-4} if x.dtype == torch.float32 else {"atol": 1e-11, "rtol": 1e-11}
    patches = conv_relu_pool_patches.conv_relu_pool
    with torch.no_grad():
        torch.testing.assert_close(patches(x, weight, bias), reference(x, weight, bias), **close)
        weights = torch.stack([weight, -weight, weight.flip(2)])
        several = torch.vmap(patches, in_dims=(None, 0, None))(x, weights, bias)
        torch.testing.assert_close(several, torch.stack([reference(x, w, bias) for w in weights]), **close)


def test_predictions_for_an_image_or_two_go_by_patches_and_training_does_not() -> None:
    x, weight, bias = torch.randn(2, 1, 36, 36), torch.randn(10, 1, 9, 9), torch.randn(10)
    assert not conv_relu_pool_patches.pays(x, weight, bias)
    with torch.no_grad():
        assert conv_relu_pool_patches.pays(x, weight, bias)
        assert not conv_relu_pool_patches.pays(x.repeat(2, 1, 1, 1), weight, bias)
        assert not conv_relu_pool_patches.pays(torch.randn(1, 64, 56, 56), torch.randn(64, 64, 3, 3), torch.randn(64))


def test_gradients_are_those_of_finite_differences_twice() -> None:
    leaves = [tensor.requires_grad_() for tensor in random_layer()]
    assert torch.autograd.gradcheck(on_cpu, leaves)
    assert torch.autograd.gradgradcheck(on_cpu, leaves)


@pytest.mark.parametrize("shared", [True, False], ids=["shared images", "images of their own"])
def test_rays_at_once_are_rays_one_by_one(shared: bool) -> None:
    (x, weight, bias), dims = random_layer(5), (None if shared else 0, 0, 0)
    x = x[0] if shared else x
    leaves = [tensor.requires_grad_() for tensor in (x, weight, bias)]
    together = torch.vmap(on_cpu, in_dims=dims)(*leaves)
    one_by_one = torch.stack([on_cpu(x if shared else x[r], weight[r], bias[r]) for r in range(5)])
    torch.testing.assert_close(together, one_by_one)
    with torch.no_grad():
        torch.testing.assert_close(torch.vmap(on_cpu, in_dims=dims)(*leaves), one_by_one)
    grad = torch.randn_like(together)
    found, expected = (torch.autograd.grad(out, leaves, grad) for out in (together, one_by_one))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
    functional = torch.func.grad(lambda w: (torch.vmap(on_cpu, in_dims=dims)(x.detach(), w, bias) * grad).sum())
    torch.testing.assert_close(functional(weight), expected[1])


def test_several_cotangents_at_once_are_several_passes() -> None:
    leaves = [tensor.requires_grad_() for tensor in random_layer()]
    out = on_cpu(*leaves)
    grads = torch.randn(3, *out.shape, dtype=out.dtype)
    together = torch.autograd.grad(out, leaves, grads, is_grads_batched=True, retain_graph=True)
    passes = [torch.autograd.grad(out, leaves, grad, retain_graph=True) for grad in grads]
    for found, expected in zip(together, zip(*passes), strict=True):
        torch.testing.assert_close(found, torch.stack(expected))


def test_images_in_blocks_are_images_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = random_layer()
    expected = on_cpu(*layer)
    grad = torch.randn_like(expected)
    wanted = gradients(on_cpu, layer, grad)
    monkeypatch.setattr(conv_relu_pool_cpu, "BLOCK", 1)  # one image
    torch.testing.assert_close(on_cpu(*layer), expected)
    for ours, theirs in zip(gradients(on_cpu, layer, grad), wanted, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_images_that_need_no_gradient_cost_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(conv_relu_pool_cpu, "_input_gradient")
    x, weight, bias = random_layer()
    on_cpu(x, weight.requires_grad_(), bias.requires_grad_()).sum().backward()
    assert x.grad is None and weight.grad is not None and bias.grad is not None


@pytest.mark.parametrize(
    ("shapes", "dtype"),
    [
        (((256, 1, 36, 36), (10, 1, 9, 9)), torch.float32),  # LeNet's layers, which it is made for
        (((256, 10, 14, 14), (20, 10, 5, 5)), torch.float32),
        (((2, 1, 36, 36), (10, 1, 9, 9)), torch.float32),  # and what is better left alone
        (((64, 64, 12, 12), (64, 64, 3, 3)), torch.float32),
        (((64, 1, 36, 36), (10, 1, 9, 9)), torch.bfloat16),
    ],
    ids=str,
)
def test_every_shape_and_precision_gives_the_definition(shapes: tuple, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    (x, weight), bias = (torch.randn(shape).to(dtype) for shape in shapes), torch.randn(shapes[1][0]).to(dtype)
    torch.testing.assert_close(conv_relu_pool(x, weight, bias), reference(x, weight, bias), atol=1e-4, rtol=1e-4)


def test_images_too_small_to_pool_fail_as_the_definition_does() -> None:
    x, weight, bias = torch.zeros(99_999, 1, 4, 5), torch.zeros(1, 1, 4, 4), torch.zeros(1)
    with pytest.raises(RuntimeError, match="too small"):
        conv_relu_pool(x, weight, bias)
