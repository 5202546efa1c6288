"""The hypervolume's derivative against finite differences of moocore's hypervolume, and the solver made of it."""

from __future__ import annotations

import moocore
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import cosine_similarity, normalize

from hyperfront import solvers
from hyperfront.indicators import hypervolume, nondominated
from hyperfront.solvers.hvmax import _cosine_gradient
from hyperfront.solvers.hypervolume import gradient, layers
from tests.helpers.programs import quick, seeds

H = 1e-6


def points(R: int, m: int, seed: int) -> Tensor:
    """Dominated points and points beyond the reference of 1 are among them."""
    return 1.2 * torch.rand(R, m, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def differences(function, losses: Tensor) -> Tensor:
    """``-d function / d losses`` by central differences."""
    slope = torch.zeros_like(losses)
    for place in torch.cartesian_prod(*(torch.arange(n) for n in losses.shape)).tolist():
        step = torch.zeros_like(losses)
        step[tuple(place)] = H
        slope[tuple(place)] = (function(losses - step) - function(losses + step)) / (2 * H)
    return slope


@quick
@given(st.integers(2, 6), st.integers(1, 9), seeds)
def test_the_gradient_is_that_of_moocore_s_hypervolume(m: int, R: int, seed: int) -> None:
    losses, reference = points(R, m, seed), torch.ones(m, dtype=torch.float64)
    layer = layers(losses)
    ours = gradient(losses, reference, layer).masked_fill((layer > 0)[:, None], 0)  # the others do not count
    assert torch.allclose(ours, differences(lambda x: hypervolume(x, reference), losses), atol=1e-8)


@quick
@given(st.integers(2, 4), seeds)
def test_every_layer_has_the_gradient_of_its_own_hypervolume(m: int, seed: int) -> None:
    losses, reference = points(8, m, seed), torch.ones(m, dtype=torch.float64)
    layer = layers(losses)

    def total(x: Tensor) -> float:
        return sum(moocore.hypervolume(x[layer == k].numpy(), ref=reference.numpy()) for k in layer.unique())

    assert torch.allclose(gradient(losses, reference, layer), differences(total, losses), atol=1e-8)


@quick
@given(st.integers(2, 5), st.integers(1, 20), seeds)
def test_layers_are_what_peeling_off_non_dominated_points_gives(m: int, R: int, seed: int) -> None:
    losses = (4 * points(R, m, seed)).floor()  # ties and duplicates abound
    peeled, left, depth = torch.zeros(R, dtype=torch.long), torch.arange(R), 0
    while len(left):
        best = nondominated(losses[left])
        peeled[left[best]] = depth
        left, depth = left[~best], depth + 1
    assert torch.equal(layers(losses), peeled)


@pytest.mark.parametrize("m", [2, 3])
def test_ties_and_duplicates_share_what_they_dominate(m: int) -> None:
    losses = torch.full((3, m), 0.5, dtype=torch.float64)
    slope = gradient(losses, torch.ones(m, dtype=torch.float64), layers(losses))
    assert torch.allclose(slope.sum(0), torch.full((m,), 0.5 ** (m - 1), dtype=torch.float64))


@quick
@given(st.integers(2, 6), seeds)
def test_the_cosine_s_gradient_is_autograd_s(m: int, seed: int) -> None:
    losses, rays = points(5, m, seed).requires_grad_(), points(5, m, seed + 1)
    (slope,) = torch.autograd.grad(cosine_similarity(losses, rays).sum(), losses)
    assert torch.allclose(_cosine_gradient(losses.detach(), rays), slope, atol=1e-9)


def test_the_weights_are_both_terms_in_proportion() -> None:
    losses, rays = points(6, 3, 0), normalize(points(6, 3, 1), p=1, dim=-1)
    reference = torch.full((3,), 2.0, dtype=torch.float64)
    volume = normalize(gradient(losses, reference, layers(losses)), dim=-1)
    alone, _ = solvers.HVMax(cosine=0.0, reference=2.0)(losses, rays)
    assert torch.allclose(alone, volume / volume.sum(-1, keepdim=True))
    both = volume - 3 * _cosine_gradient(losses, rays)
    assert torch.allclose(solvers.HVMax(cosine=3.0, reference=2.0)(losses, rays)[0], normalize(both, p=1, dim=-1))


def test_no_point_is_beyond_the_reference() -> None:
    losses, rays = 10 * points(6, 3, 0), normalize(points(6, 3, 1), p=1, dim=-1)
    for reference in (None, 1.0):  # it is moved out where a loss is larger
        assert (solvers.HVMax(cosine=0.0, reference=reference)(losses, rays)[0] > 0).any(-1).all()


def test_two_objectives_read_nothing_from_the_device() -> None:
    with FakeTensorMode():  # any value that is asked for raises
        weights, _ = solvers.HVMax()(torch.rand(5, 2), torch.rand(5, 2))
        assert weights.shape == (5, 2)


@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_without_a_reference_the_extremes_count_by_a_tenth_of_the_largest_loss(scale):
    losses = scale * torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    weights, _ = solvers.HVMax(cosine=0.0)(losses, torch.full((2, 2), 0.5))
    assert torch.allclose(weights, torch.tensor([[1.0, 10.0], [10.0, 1.0]], dtype=torch.float64) / 11)
