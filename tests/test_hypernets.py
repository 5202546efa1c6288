"""Hypernetworks: the paper's size, the Gram matrix without its Jacobian, and where training starts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev
from torch.nn import functional as F

import hyperfront as hf
from hyperfront.errors import HyperfrontError
from hyperfront.hypernets import Hypernet, MLPHypernet, OwnHypernet
from hyperfront.preferences import Dirichlet

INITIALISATIONS = ["plain", "residual"]


class LeNet(nn.Module):
    """The paper's target for Multi-MNIST: two tasks on images of 36 x 36 pixels."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 10, 9), nn.Conv2d(10, 20, 5)
        self.fc, self.left, self.right = nn.Linear(500, 50), nn.Linear(50, 10), nn.Linear(50, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc(x.flatten(1)))
        return self.left(x), self.right(x)


def some_rays(count: int, m: int, seed: int = 0) -> Tensor:
    return Dirichlet(1.0).sample(count, m, torch.Generator().manual_seed(seed))


def some_hypernet(m: int, n: int, initialisation: str) -> MLPHypernet:
    """In float64, with a start of three tensors of different scale."""
    torch.manual_seed(0)
    sizes = [n // 3, n // 3, n - 2 * (n // 3)]
    start = torch.cat([scale * torch.randn(size) for scale, size in zip((0.1, 1.0, 10.0), sizes)])
    return MLPHypernet(m, n, hidden=13, initialisation=initialisation, start=start, sizes=sizes).double()


def jacobian_of(hypernet: nn.Module, ray: Tensor) -> Tensor:
    """``d theta / d parameters`` at one ray, ``[n, parameters]``, by reverse mode on the whole network."""
    parameters = dict(hypernet.named_parameters())
    parts = jacrev(lambda p: functional_call(hypernet, p, (ray[None],))[0])(parameters)
    return torch.cat([part.flatten(1) for part in parts.values()], dim=1).detach()


def test_the_paper_s_hypernetwork_has_the_paper_s_number_of_parameters():
    model = hf.wrap(LeNet(), ["left", "right"], initialisation="plain")
    assert model.target.n == 31_910
    assert sum(p.numel() for p in model.hypernet.parameters()) == 3_243_410


@pytest.mark.parametrize("initialisation", INITIALISATIONS)
@pytest.mark.parametrize(("rays", "m", "n"), [(1, 2, 7), (3, 2, 50), (4, 3, 31), (2, 5, 20)])
def test_the_gram_in_closed_form_is_that_of_the_jacobian(initialisation, rays, m, n):
    hypernet, points = some_hypernet(m, n, initialisation), some_rays(rays, m)
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


@pytest.mark.parametrize("initialisation", INITIALISATIONS)
def test_each_row_of_theta_depends_on_its_own_ray_only(initialisation):
    hypernet, points = some_hypernet(3, 40, initialisation), some_rays(6, 3)
    together = hypernet(points)
    torch.testing.assert_close(together, torch.cat([hypernet(ray[None]) for ray in points]))
    torch.testing.assert_close(hypernet(points.flip(0)), together.flip(0))
    slopes = jacrev(hypernet)(points).abs().sum((1, 3)).detach()  # [row of theta, ray]
    assert (slopes.diagonal() > 0).all()
    assert (slopes - slopes.diagonal().diag() == 0).all()


def test_residual_initialisation_starts_at_the_target_s_own_scale_at_every_ray():
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


def test_residual_initialisation_gives_different_rays_different_weights():
    torch.manual_seed(0)
    corners = hf.wrap(LeNet(), ["a", "b", "c"]).weights(torch.eye(3)).detach()
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert (corners[i] - corners[j]).norm() > 0.02 * corners[i].norm()


def test_constant_tensors_start_at_their_constants():
    model = hf.wrap(nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)), ["a", "b"])
    theta = model.weights(some_rays(5, 2)).detach()
    assert torch.equal(theta[:, -8:], torch.tensor([1.0] * 4 + [0.0] * 4).expand(5, 8))
    assert (theta[0, :-8] != theta[1, :-8]).any()


@pytest.mark.parametrize("initialisation", INITIALISATIONS)
def test_options_make_a_hypernetwork_of_the_same_shape(initialisation):
    hypernet = some_hypernet(3, 20, initialisation)
    again = MLPHypernet(3, 20, **hypernet.options()).double()
    again.load_state_dict(hypernet.state_dict())
    points = some_rays(4, 3)
    assert torch.equal(again(points), hypernet(points))


@pytest.mark.parametrize("options", [{"hidden": 0}, {"hidden": -1}, {"initialisation": "random"}])
def test_options_that_make_no_hypernetwork_are_refused(options):
    with pytest.raises(HyperfrontError, match="no such MLP"):
        MLPHypernet(2, 10, **options)
