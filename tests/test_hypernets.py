"""Hypernetworks: the paper's sizes, the Gram matrix without its Jacobian, and where training starts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev
from torch.utils._python_dispatch import TorchDispatchMode

import hyperfront as hf
from hyperfront.errors import HyperfrontError
from hyperfront.model.hypernets import (
    ChunkedHypernet,
    Hypernet,
    LinearHypernet,
    MLPHypernet,
    OwnHypernet,
    inner_products,
)
from hyperfront.model.hypernets.inner import BLOCK
from hyperfront.preferences import Dirichlet
from hyperfront.zoo.lenet import LeNet
from hyperfront.zoo.resnet import ResNet18

INITIALIZATIONS = ["plain", "residual"]


def some_rays(count: int, m: int, seed: int = 0) -> Tensor:
    return Dirichlet(1.0).sample(count, m, torch.Generator().manual_seed(seed))


def some_hypernet(m: int, n: int, initialization: str) -> MLPHypernet:
    """In float64, with a start of three tensors of different scale."""
    torch.manual_seed(0)
    sizes = [n // 3, n // 3, n - 2 * (n // 3)]
    start = torch.cat([scale * torch.randn(size) for scale, size in zip((0.1, 1.0, 10.0), sizes)])
    return MLPHypernet(m, n, hidden=13, initialization=initialization, start=start, sizes=sizes).double()


def jacobian_of(hypernet: nn.Module, ray: Tensor) -> Tensor:
    """``d theta / d parameters`` at one ray, ``[n, parameters]``, by reverse mode on the whole network."""
    parameters = dict(hypernet.named_parameters())
    parts = jacrev(lambda p: functional_call(hypernet, p, (ray[None],))[0])(parameters)
    return torch.cat([part.flatten(1) for part in parts.values()], dim=1).detach()


def test_the_paper_s_hypernetwork_has_the_paper_s_number_of_parameters():
    model = hf.wrap(LeNet(), ["left", "right"], initialization="plain")
    assert model.target.n == 31_910
    assert sum(p.numel() for p in model.hypernet.parameters()) == 3_243_410


@pytest.mark.parametrize("initialization", INITIALIZATIONS)
@pytest.mark.parametrize(("rays", "m", "n"), [(1, 2, 7), (3, 2, 50), (4, 3, 31), (2, 5, 20)])
def test_the_gram_in_closed_form_is_that_of_the_jacobian(initialization, rays, m, n):
    hypernet, points = some_hypernet(m, n, initialization), some_rays(rays, m)
    grads = torch.randn(rays, m, n, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    closed, by_rows = hypernet.gram(points, grads), Hypernet.gram(hypernet, points, grads)
    scale = by_rows.abs().amax(dim=(1, 2), keepdim=True)
    assert ((closed - by_rows).abs() <= 1e-10 * scale).all()
    for r in range(rays):
        whole = grads[r] @ jacobian_of(hypernet, points[r])
        assert ((by_rows[r] - whole @ whole.T).abs() <= 1e-10 * scale[r]).all()


def test_a_hypernetwork_of_one_s_own_has_its_gram_by_its_jacobian():
    torch.manual_seed(0)
    hypernet = OwnHypernet(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 11)), 3, 11).double()
    hypernet.module[0].bias.requires_grad_(False)  # frozen parameters do not count
    points, grads = some_rays(4, 3), torch.randn(4, 3, 11, dtype=torch.float64)
    for ray, grad, found in zip(points, grads, hypernet.gram(points, grads)):
        trained = {k: p for k, p in hypernet.named_parameters() if p.requires_grad}
        parts = jacrev(lambda p, ray=ray: functional_call(hypernet, p, (ray[None],))[0])(trained)
        whole = grad @ torch.cat([part.flatten(1) for part in parts.values()], dim=1)
        torch.testing.assert_close(found, whole @ whole.T)


@pytest.mark.parametrize("initialization", INITIALIZATIONS)
def test_each_row_of_theta_depends_on_its_own_ray_only(initialization):
    hypernet, points = some_hypernet(3, 40, initialization), some_rays(6, 3)
    together = hypernet(points)
    torch.testing.assert_close(together, torch.cat([hypernet(ray[None]) for ray in points]))
    torch.testing.assert_close(hypernet(points.flip(0)), together.flip(0))
    slopes = jacrev(hypernet)(points).abs().sum((1, 3)).detach()  # [row of theta, ray]
    assert (slopes.diagonal() > 0).all()
    assert (slopes - slopes.diagonal().diag() == 0).all()


def test_residual_initialization_starts_at_the_target_s_own_scale_at_every_ray():
    torch.manual_seed(0)
    module = LeNet()
    model = hf.wrap(module, ["left", "right"])
    theta = model.weights(some_rays(20, 2)).detach()
    start = model.target.start()
    large = 0
    for spec, own, generated in zip(
        model.target.assembly.parts,
        start.split(model.target.sizes),
        theta.split(model.target.sizes, dim=1),
        strict=True,
    ):
        assert torch.equal(own, module.get_parameter(spec.name).detach().flatten())
        deviation = own.std()
        if spec.size >= 200:  # smaller samples say little of their own deviation
            large += 1
            assert ((generated.std(1) / deviation - 1).abs() < 0.05).all()
            assert ((generated.mean(1) - own.mean()).abs() < 0.05 * deviation).all()
        apart = (generated - own).square().mean().sqrt() / deviation
        assert 0.02 < apart < 0.3
    assert large == 5


def test_residual_initialization_gives_different_rays_different_weights():
    torch.manual_seed(0)
    corners = hf.wrap(LeNet(), ["a", "b", "c"]).weights(torch.eye(3)).detach()
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert (corners[i] - corners[j]).norm() > 0.02 * corners[i].norm()


def test_constant_tensors_start_at_their_constants():
    model = hf.wrap(nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)), ["a", "b"])
    theta = model.weights(some_rays(5, 2)).detach()
    assert torch.equal(theta[:, -8:], torch.tensor([1.0] * 4 + [0.0] * 4).expand(5, 8))
    assert (theta[0, :-8] != theta[1, :-8]).any()


@pytest.mark.parametrize("initialization", INITIALIZATIONS)
def test_options_make_a_hypernetwork_of_the_same_shape(initialization):
    hypernet = some_hypernet(3, 20, initialization)
    again = MLPHypernet(3, 20, **hypernet.options()).double()
    again.load_state_dict(hypernet.state_dict())
    points = some_rays(4, 3)
    assert torch.equal(again(points), hypernet(points))


@pytest.mark.parametrize("options", [{"hidden": 0}, {"hidden": -1}, {"initialization": "random"}])
def test_options_that_make_no_hypernetwork_are_refused(options):
    with pytest.raises(HyperfrontError, match="no such MLP"):
        MLPHypernet(2, 10, **options)


def chunked(n: int = 200, **options) -> ChunkedHypernet:
    torch.manual_seed(0)
    sizes = [n // 2, n - n // 2]
    start = torch.cat([scale * torch.randn(size) for scale, size in zip((0.1, 10.0), sizes)])
    return ChunkedHypernet(2, n, **({"hidden": 13} | options), start=start, sizes=sizes).double()


class TestChunked:
    @pytest.mark.parametrize(
        ("matrices", "chunks", "parameters"),
        [(1, 1150, 1_103_564), (2, 577, 2_066_892), (5, 230, 5_044_684), (11, 105, 11_036_684)],
    )
    def test_the_paper_s_four_sizes_for_its_resnet18(self, matrices, chunks, parameters):
        n = sum(parameter.numel() for parameter in ResNet18().parameters())
        assert n == 11_443_156
        hypernet = ChunkedHypernet(2, n, matrices=matrices, chunks=chunks, initialization="plain")
        assert sum(p.numel() for p in hypernet.parameters()) == parameters

    @pytest.mark.parametrize("initialization", ["plain", "scaled"])
    @pytest.mark.parametrize(("chunk", "matrices", "chunks"), [(7, 3, None), (200, 1, None), (1, 1, None), (33, 2, 5)])
    def test_one_matrix_product_is_the_loop_over_chunks_and_matrices(self, initialization, chunk, matrices, chunks):
        hypernet = chunked(chunk=chunk, matrices=matrices, chunks=chunks, initialization=initialization)
        for ray in some_rays(3, 2):
            theta: list[Tensor] = []
            for embedding in hypernet.chunk_embedding:
                x = torch.cat([ray @ hypernet.ray_embedding, embedding])
                psi = hypernet.third(torch.relu(hypernet.second(torch.relu(hypernet.first(x)))))
                theta += [A @ psi for A in hypernet.heads.weight.split(chunk)]
            parts = torch.cat(theta)[:200].split(hypernet.sizes)
            expected = [m + d * part for m, d, part in zip(hypernet.means, hypernet.deviations, parts, strict=True)]
            torch.testing.assert_close(hypernet(ray[None])[0], torch.cat(expected))

    def test_generated_tensors_start_with_the_variance_of_the_target_s_own_at_every_ray(self):
        torch.manual_seed(0)
        model = hf.wrap(nn.Sequential(LeNet(), nn.LayerNorm(300)), ["a", "b"], hypernet="chunked", chunk=500)
        theta = model.weights(torch.cat([some_rays(10, 2).float(), torch.eye(2)])).detach()
        large = 0
        for own, generated in zip(model.target.start().split(model.target.sizes), theta.split(model.target.sizes, 1)):
            if len(own) >= 300 and own.std() > 0:
                large += 1
                assert ((generated.std(1) / own.std() - 1).abs() < 0.15).all()
            if own.std() == 0:  # the norm's weight, 1, and bias, 0
                assert (generated - own).abs().max() < 0.5
                assert (generated.std(1) > 0.01).all()
        assert large == 5

    def test_chunks_start_uncorrelated_and_rays_move_them_by_about_a_tenth(self):
        n = 64 * 1000
        torch.manual_seed(0)
        hypernet = ChunkedHypernet(2, n, chunk=1000, start=torch.randn(n), sizes=[n])
        theta = hypernet(torch.eye(2)).detach()
        between = torch.corrcoef(theta[0].view(64, 1000))
        apart = between[~torch.eye(64, dtype=torch.bool)]
        assert apart.mean().abs() < 0.05 and apart.square().mean().sqrt() < 0.3
        assert 0.03 < (theta[0] - theta[1]).norm() / theta[0].norm() < 0.4

    def test_options_make_a_hypernetwork_of_the_same_shape(self):
        hypernet = chunked(chunk=7, matrices=3, chunks=12)
        again = ChunkedHypernet(2, 200, **hypernet.options(), sizes=hypernet.sizes).double()
        again.load_state_dict(hypernet.state_dict())
        assert torch.equal(again(some_rays(4, 2)), hypernet(some_rays(4, 2)))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"chunk": 201}, "larger than the target[\\s\\S]*chunk=200"),
            ({"chunk": 100, "matrices": 3}, "larger than the target[\\s\\S]*chunk=66"),
            ({"chunk": 10, "chunks": 19}, "at least 20"),
            ({"chunk": 0}, "no such chunked"),
            ({"initialization": "random"}, "no such chunked"),
        ],
    )
    def test_options_that_make_no_hypernetwork_are_refused(self, options, message):
        with pytest.raises(HyperfrontError, match=message):
            chunked(**options)


@pytest.mark.parametrize("rays", [1, 3])
def test_the_gram_of_factors_linear_in_the_ray_is_that_of_the_jacobian(rays):
    torch.manual_seed(0)
    hypernet = LinearHypernet(3, 22, start=torch.randn(22), sizes=[3, 4, *3 * [2, 3]]).double()
    points, grads = some_rays(rays, 3), torch.randn(rays, 3, 22, dtype=torch.float64)
    torch.testing.assert_close(hypernet.gram(points, grads), Hypernet.gram(hypernet, points, grads))


def test_linear_is_for_low_rank_factors_only():
    with pytest.raises(HyperfrontError, match="low_rank"):
        LinearHypernet(2, 10, start=torch.zeros(10), sizes=[5, 5])


class TestInnerProducts:
    @pytest.mark.parametrize(("rays", "m", "n"), [(1, 2, 3 * BLOCK + 5), (3, 4, 1000), (2 * BLOCK, 2, 2), (1, 3, 0)])
    def test_they_are_those_of_a_float64_copy(self, rays, m, n):
        rows = list(torch.randn(m, rays, n, generator=torch.Generator().manual_seed(0)))
        wide = torch.stack(rows, dim=1).double()
        torch.testing.assert_close(inner_products(rows), wide @ wide.mT, rtol=1e-12, atol=1e-9)

    def test_no_such_copy_is_made(self):
        largest = 0

        class Watch(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                nonlocal largest
                found = function(*args, **(kwargs or {}))
                largest = max(largest, found.numel() if isinstance(found, Tensor) else 0)
                return found

        rows = [torch.ones(1, 4 * BLOCK), torch.ones(1, 4 * BLOCK)]
        with Watch():
            assert inner_products(rows).eq(4 * BLOCK).all()
        assert largest <= 2 * BLOCK  # one block of both rows
