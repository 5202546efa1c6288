"""The GPU's programs against plain twins: on a GPU, or else in Triton's interpreter and an emulator of CUDA C."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import hyperfront as hf
from hyperfront.kernels import conv_relu_pool as conv_module
from hyperfront.kernels import layers
from hyperfront.kernels.conv_relu_pool import reference
from hyperfront.model.hypernets import inner, mlp
from hyperfront.solvers import EPO, LS, PMTL, Status
from hyperfront.solvers import epo as epo_module
from hyperfront.solvers import pmtl as pmtl_module
from hyperfront.solvers.linalg import linprog, minnorm
from hyperfront.training import adam as adam_module
from hyperfront.training.step import Step
from tests.helpers.cuda_emulator import emulated, needs_compiler  # noqa: F401 (a fixture)
from tests.helpers.gpu import DEVICE, exact_products
from tests.helpers.programs import KINDS, floored, instances, judge

pytest.importorskip("triton")

import triton
from triton import language as tl

from hyperfront.kernels.gpu import conv, hypernet, normalized
from hyperfront.kernels.gpu import epo as epo_program
from hyperfront.kernels.gpu.adam import adam_on_gpu
from hyperfront.kernels.gpu.conv_relu_pool import conv_relu_pool_on_gpu
from hyperfront.kernels.gpu.cross_entropy import cross_entropy_on_gpu
from hyperfront.kernels.gpu.epo import epo_on_gpu
from hyperfront.kernels.gpu.gram import gram_on_gpu
from hyperfront.kernels.gpu.linear import linear_on_gpu
from hyperfront.kernels.gpu.normalized import normalized_on_gpu
from hyperfront.kernels.gpu.pmtl import pmtl_on_gpu
from hyperfront.kernels.gpu.status import status_on_gpu
from hyperfront.kernels.gpu.tally import tally_on_gpu

# NumPy, which the interpreter computes with, warns where a GPU divides by zero in silence
pytestmark = [
    pytest.mark.filterwarnings("ignore:(divide by zero|overflow|invalid value) encountered:RuntimeWarning"),
    pytest.mark.usefixtures("emulated"),
    needs_compiler,
]


@pytest.fixture(autouse=True)
def reproducible() -> Iterator[None]:
    with exact_products(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def normal(*shape: int) -> Tensor:
    return torch.randn(shape).to(DEVICE)  # drawn on the CPU: the same on all devices


def assert_near(found: Tensor, truth: Tensor, accuracy: float = 1e-5) -> None:
    """``found`` in float32 is ``truth`` in float64, up to the rounding of sums."""
    assert found.dtype == torch.float32 and found.shape == truth.shape
    size = max(1e-30, float(truth.detach().abs().max()))
    torch.testing.assert_close(found.double(), truth, atol=accuracy * size, rtol=0)


# convolution

# rays, images of their own or shared, cotangents, B, C, H, W, N, K
LAYERS = [
    (1, True, 1, 2, 1, 10, 10, 3, 9),  # one pooled pixel
    (2, False, 2, 2, 3, 11, 14, 5, 3),  # rows and columns that no window reads
    (2, True, 2, 1, 2, 12, 9, 17, 4),  # an even kernel, more than one block of outputs
    (1, True, 3, 2, 17, 9, 10, 3, 2),  # more channels than a block, many taps
    (2, True, 1, 3, 2, 6, 7, 2, 1),
]


@pytest.mark.parametrize(("R", "shared", "J", "B", "C", "H", "W", "N", "K"), LAYERS)
def test_the_convolution_is_the_definition_and_its_gradients_are_those_of_the_winners(
    R: int, shared: bool, J: int, B: int, C: int, H: int, W: int, N: int, K: int
) -> None:
    x, weight, bias = normal(1 if shared else R, B, C, H, W), normal(R, N, C, K, K) / K, normal(R, N)
    assert conv.Shape.of((H, W), weight).fits()
    y, phase = conv.forward(x, weight, bias)
    g = normal(J, *y.shape)
    dw, db = conv.weight_gradient(x, g, phase, weight)
    dx = conv.input_gradient(g, phase, weight, (H, W))
    for r in range(R):
        leaves = [tensor.double().requires_grad_() for tensor in (x[0 if shared else r], weight[r], bias[r])]
        z = F.conv2d(*leaves)
        truth = F.max_pool2d(F.relu(z), 2)
        assert_near(y[r], truth)
        P, Q = truth.shape[-2:]
        windows = [z[..., p // 2 : 2 * P : 2, p % 2 : 2 * Q : 2] for p in range(4)]
        chosen = torch.stack([*windows, torch.zeros_like(truth)]).gather(0, phase[r][None].long())[0]
        torch.testing.assert_close(chosen, truth, atol=1e-5, rtol=0)  # the winner, or as good up to rounding
        for j in range(J):
            expected = torch.autograd.grad(chosen, leaves, g[j, r].double(), retain_graph=True)
            for found, gradient in zip((dx, dw, db), expected):
                assert_near(found[j, r], gradient)


def test_the_order_of_sums_does_not_depend_on_the_images_of_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, bias, g = normal(1, 5, 2, 12, 12), normal(1, 4, 2, 3, 3), normal(1, 4), normal(1, 1, 5, 4, 5, 5)
    _, phase = conv.forward(x, weight, bias)
    many = conv.weight_gradient(x, g, phase, weight)
    assert all(map(torch.equal, many, conv.weight_gradient(x, g, phase, weight)))
    monkeypatch.setattr(conv.Shape, "images", lambda shape: 1)
    for ours, theirs in zip(conv.weight_gradient(x, g, phase, weight), many):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-5)


def test_tensor_cores_round_to_tf32_only_where_that_is_allowed() -> None:
    x, weight, bias = normal(1, 2, 1, 10, 10), normal(1, 3, 1, 3, 3), normal(1, 3)
    truth = reference(x[0].double(), weight[0].double(), bias[0].double())
    exact = (conv.forward(x, weight, bias)[0][0] - truth).abs().max() / truth.abs().max()
    torch.backends.cuda.matmul.allow_tf32 = True  # the fixture sets it back
    rounded = (conv.forward(x, weight, bias)[0][0] - truth).abs().max() / truth.abs().max()
    assert exact < 1e-6 and 1e-5 < rounded < 2e-3


@pytest.mark.parametrize("where", ["images", "weights", "bias"])
def test_nan_is_not_hidden_by_relu_or_pooling(where: str) -> None:
    layer = {"images": normal(1, 1, 8, 8), "weights": normal(1, 1, 3, 3), "bias": normal(1)}
    layer[where].view(-1)[-30 % layer[where].numel()] = math.nan
    assert conv_relu_pool_on_gpu(*layer.values()).isnan().any()


# functions of one network, of several rays, with several cotangents


def evaluated(
    function: Callable, tensors: Sequence[Tensor], dims: tuple | None, wanted: tuple, dtype: torch.dtype
) -> tuple[Tensor, list[Tensor]]:
    """The value in that precision, under vmap or not, and the tensors ``wanted`` that it can be differentiated by."""
    tensors = [t.to(dtype, copy=True) if t.is_floating_point() else t for t in tensors]
    leaves = [tensors[at].requires_grad_() for at in wanted]
    return (function if dims is None else torch.vmap(function, in_dims=dims))(*tensors), leaves


def agree(ours: Callable, twin: Callable, tensors: Sequence[Tensor], dims: tuple | None, J: int, wanted: tuple) -> None:
    """The same values, and the same gradients of ``J`` cotangents at once."""
    value, leaves = evaluated(ours, tensors, dims, wanted, torch.float32)
    truth, wide = evaluated(twin, tensors, dims, wanted, torch.float64)
    assert_near(value, truth)
    cotangents = normal(J, *value.shape)
    found = torch.vmap(lambda g: torch.autograd.grad(value, leaves, g, retain_graph=True))(cotangents)
    passes = [torch.autograd.grad(truth, wide, g, retain_graph=True) for g in cotangents.double()]
    for gradient, expected in zip(found, zip(*passes), strict=True):
        assert_near(gradient, torch.stack(expected))


WANTED = {"all": (0, 1, 2), "weights": (1, 2)}
DIMS = {"one": None, "shared": (None, 0, 0), "own": (0, 0, 0), "moved": (1, 2, 0), "one network": (0, None, None)}


def placed(tensors: Sequence[Tensor], dims: tuple | None, R: int) -> list[Tensor]:
    """The tensors, with ``R`` different ones along the vmapped dimension where there is one."""
    if dims is None:
        return list(tensors)
    spread = [torch.stack([tensor * (1 + r) / R for r in range(R)]) for tensor in tensors]
    return [t if dim is None else s.movedim(0, dim) for t, s, dim in zip(tensors, spread, dims)]


@pytest.mark.parametrize("wanted", WANTED)
@pytest.mark.parametrize("dims", DIMS)
def test_a_convolution_can_be_differentiated(dims: str, wanted: str) -> None:
    tensors = placed([normal(2, 2, 9, 8), normal(3, 2, 3, 3), normal(3)], DIMS[dims], 2)
    agree(conv_relu_pool_on_gpu, reference, tensors, DIMS[dims], 2, WANTED[wanted])


@pytest.mark.parametrize("wanted", WANTED)
@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize(
    ("M", "K", "N", "relu"), [(40, 70, 10, True), (5, 3, 16, False), (9, 65, 40, True), (3, 4, 70, False)]
)
def test_a_linear_layer_can_be_differentiated(M: int, K: int, N: int, relu: bool, dims: str, wanted: str) -> None:
    def twin(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.relu(F.linear(x, weight, bias)) if relu else F.linear(x, weight, bias)

    tensors = placed([normal(M, K), normal(N, K), normal(N)], DIMS[dims], 3)
    agree(lambda *each: linear_on_gpu(*each, relu), twin, tensors, DIMS[dims], 2, WANTED[wanted])


@pytest.mark.parametrize("dims", [None, (0, None), (1, 0)])
@pytest.mark.parametrize(("B", "N"), [(7, 10), (1, 2), (513, 3)])
def test_a_cross_entropy_can_be_differentiated(B: int, N: int, dims: tuple | None) -> None:
    logits, labels = 30 * normal(B, N), torch.randint(N, (B,)).to(DEVICE)
    if dims is not None:
        logits = torch.stack([logits, -logits, 0 * logits], dim=dims[0])
        labels = labels if dims[1] is None else torch.stack([labels, labels.flip(0), labels])
    agree(cross_entropy_on_gpu, F.cross_entropy, [logits, labels], dims, 3, (0,))


# N, C, H, W: pixels that fill no tile, one image, more pixels than two programs have in one turn
TABLES = [(3, 5, 4, 7), (1, 16, 3, 3), (2, 3, 62, 44)]


@pytest.mark.parametrize("shape", TABLES)
@pytest.mark.parametrize(("added", "dropped"), [(True, True), (False, False), (True, False)])
def test_normalized_is_batch_norm_dropout_shortcut_and_prelu(
    shape: tuple[int, int, int, int], added: bool, dropped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(normalized, "BLOCKS", 2)
    N, C, *_ = shape
    x, g = 3 + 2 * normal(*shape), normal(*shape)  # not around zero
    weight, bias, slope = normal(C), normal(C), normal(C)  # slopes of either sign
    shortcut = normal(*shape) if added else None
    keep = (torch.rand(N, C) > 0.3).float().to(DEVICE) / 0.7 if dropped else None
    leaves = [x, weight, bias, slope, shortcut]

    def twin(x, weight, bias, slope, shortcut, keep):
        norm = nn.BatchNorm2d(C, track_running_stats=False).double()
        y = torch.func.functional_call(norm, {"weight": weight, "bias": bias}, x)
        y = y if keep is None else y * keep.double()[..., None, None]
        y = y if shortcut is None else y + shortcut
        return F.prelu(y, slope)

    narrow = [None if leaf is None else leaf.requires_grad_() for leaf in leaves]
    wide = [None if leaf is None else leaf.detach().double().requires_grad_() for leaf in leaves]
    y, truth = normalized_on_gpu(*narrow, keep, 1e-5), twin(*wide, keep)
    assert_near(y, truth)
    found = torch.autograd.grad(y, [leaf for leaf in narrow if leaf is not None], g)
    expected = torch.autograd.grad(truth, [leaf for leaf in wide if leaf is not None], g.double())
    for ours, theirs in zip(found, expected):
        assert_near(ours, theirs, 1e-4)  # a pixel within rounding of zero may count as either


def test_normalized_by_several_networks_is_each_of_them() -> None:
    x, weight, bias, slope, other = normal(2, 3, 4, 5, 6), normal(2, 4), normal(4), normal(2, 4), normal(3, 4, 5, 6)
    several = torch.vmap(
        lambda x, w, b, s, o: normalized_on_gpu(x, w, b, s, o, None, 1e-5), in_dims=(0, 0, None, 0, None)
    )(x, weight, bias, slope, other)
    each = [normalized_on_gpu(x[r], weight[r], bias, slope[r], other, None, 1e-5) for r in range(2)]
    torch.testing.assert_close(several, torch.stack(each))


def test_the_layer_uses_it_in_training_and_batch_norm_itself_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "on_gpu", lambda *tensors: True)
    calls = []
    real = normalized.normalized_on_gpu
    monkeypatch.setattr(normalized, "normalized_on_gpu", lambda *each: calls.append(1) or real(*each))
    norm, x, slope = nn.BatchNorm2d(3).to(DEVICE), normal(2, 3, 4, 4), normal(3)
    layers.normalized(x, norm, slope)  # has running averages, which the program would not update
    assert not calls and norm.num_batches_tracked == 1
    norm.track_running_stats = False
    found = layers.normalized(x, norm, slope)
    assert len(calls) == 1
    with torch.no_grad():  # as in calibration, which looks at what comes into BatchNorm
        torch.testing.assert_close(layers.normalized(x, norm, slope), found, atol=1e-5, rtol=1e-5)
    assert len(calls) == 1


def test_they_compose_to_the_losses_of_several_rays() -> None:
    x, labels = normal(4, 1, 8, 8), torch.randint(3, (4,)).to(DEVICE)
    weights = [normal(2, 2, 1, 3, 3), normal(2, 2), normal(2, 3, 18), normal(2, 3)]

    def losses(conv: Callable, linear: Callable, entropy: Callable) -> Callable:
        def each(w: Tensor, b: Tensor, v: Tensor, c: Tensor) -> Tensor:
            z = linear(conv(x.to(w.dtype), w, b).flatten(1), v, c)
            return torch.stack([entropy(z, labels), entropy(-z, labels)])

        return each

    ours = losses(conv_relu_pool_on_gpu, lambda *each: linear_on_gpu(*each, False), cross_entropy_on_gpu)
    twin = losses(reference, F.linear, F.cross_entropy)
    agree(ours, twin, weights, (0, 0, 0, 0), 2, (0, 1, 2, 3))
    for index in range(4):  # and by functional transforms, in which the gradient is vmapped rather than the cotangent
        found = torch.vmap(torch.func.grad(lambda *each: ours(*each).sum(), argnums=index))(*weights)
        wide = [tensor.double() for tensor in weights]
        assert_near(found, torch.vmap(torch.func.grad(lambda *each: twin(*each).sum(), argnums=index))(*wide))


class Small(nn.Module):
    """Every layer and loss that has a program."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.hidden, self.head = layers.ConvReluPool(1, 3, 3), nn.Linear(27, 20), nn.Linear(20, 4)

    def forward(self, x: Tensor) -> Tensor:
        return layers.linear(layers.linear(self.conv(x).flatten(1), self.hidden, relu=True), self.head)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("rays", [1, 3])
def test_a_step_made_of_programs_is_the_plain_step(monkeypatch: pytest.MonkeyPatch, rays: int, share: bool) -> None:
    objectives = {
        "one": lambda output, batch: layers.cross_entropy(output, batch[1]),
        "other": lambda output, batch: layers.cross_entropy(-output, batch[2]),
        "size": lambda output, batch: output.square().mean(),
    }
    labels = torch.randint(4, (2, 6)).to(DEVICE)
    batch = normal(6, 1, 8, 8), labels[0], labels[1]
    problem = hf.supervised(batch, losses=objectives)
    model = hf.wrap(Small(), list(objectives), hidden=10).to(DEVICE)
    preferred = torch.rand(rays, 3).softmax(-1).to(DEVICE)

    def program(self: EPO, losses: Tensor, rays: Tensor, gram: Tensor) -> tuple[Tensor, Tensor]:
        return self.floored(losses, rays, gram, torch.zeros_like(losses[0]))

    outcome = []
    for programs in (False, True):
        if programs:
            monkeypatch.setattr(EPO, "__call__", program)
        for module in (conv_module, layers, epo_module, inner, mlp):
            monkeypatch.setattr(module, "on_gpu", lambda *tensors, programs=programs: programs)
        monkeypatch.setattr(model.target.stacking, "vectorizes", lambda device, programs=programs: programs)
        model.zero_grad()
        result = Step(model, problem, EPO(), share_batch=share)(preferred, batch)
        outcome.append([*result, *(p.grad for p in model.parameters())])
    for plain, ours in zip(*outcome, strict=True):
        torch.testing.assert_close(ours, plain, atol=1e-5, rtol=1e-3)


# EPO


def solved(
    losses: Tensor, rays: Tensor, gram: Tensor, floor: Tensor | None = None, descent: float = EPO().descent
) -> tuple[Tensor, Tensor]:
    floor = torch.zeros(losses.shape[1], dtype=torch.float64) if floor is None else floor
    given = (t.to(DEVICE) for t in (losses, rays, gram.double(), floor))
    weights, status = epo_on_gpu(*given, EPO().tolerance, descent)
    return weights.cpu().double(), status.cpu()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("m", [2, 3, 5, 7])
def test_epo_is_as_good_as_on_a_cpu(m: int, kind: str) -> None:
    losses, rays, gram = instances(kind, 6, m, seed=m)  # some on the ray, where dominance is sought
    parts = []
    for descent in (0.0, 1.0):
        weights, status = solved(losses, rays, gram, descent=descent)
        expected, its_status = EPO(descent=descent)(losses, rays, gram)
        assert torch.equal(status, its_status)
        results = (judge(losses, rays, gram, each, status, descent) for each in (weights, expected))
        (value, violation), (best, _) = results
        torch.testing.assert_close(value, best, atol=1e-6, rtol=0)
        assert violation.max() < 1e-6
        torch.testing.assert_close(weights.sum(-1), torch.ones(6, dtype=torch.float64), atol=1e-6, rtol=0)
        parts.append(weights)
    torch.testing.assert_close(solved(losses, rays, gram)[0], parts[0].lerp(parts[1], 0.2), atol=1e-6, rtol=0)


@pytest.mark.parametrize("m", [2, 4])
def test_epo_lifts_what_is_too_small_and_reports_what_is_invalid(m: int) -> None:
    losses, rays, gram = instances("generic", 8, m, seed=1)
    losses[:, 1] = torch.tensor([1.0, 0.0, 1e-9, math.nan, math.inf, -1e-3, 1.0, -math.inf])
    gram[6, 0, 1] = gram[6, 1, 0] = math.nan
    floor = torch.full((m,), 1e-8, dtype=torch.float64)
    weights, status = solved(losses, rays, gram, floor)
    expected, its_status = EPO().floored(losses, rays, gram, floor)
    assert torch.equal(status, its_status)
    assert status[1:].tolist() == 2 * [Status.FLOORED] + 5 * [Status.INVALID]
    torch.testing.assert_close(weights, expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(weights[3:], rays[3:], atol=1e-6, rtol=0)
    assert solved(losses[:3], rays[:3], gram[:3])[1].tolist() == [0, Status.FLOORED, 0]


@pytest.mark.parametrize("m", [2, 3, 5])
def test_epo_is_not_held_up_by_objectives_at_their_minimum(m: int) -> None:
    losses, gram = torch.zeros(2, m), torch.zeros(2, m, m)
    losses[:, -1] = gram[:, -1, -1] = 1
    weights, status = solved(losses, torch.full((2, m), 1 / m), gram)
    assert status.tolist() == 2 * [Status.FLOORED]
    torch.testing.assert_close(weights, torch.eye(m).double()[-1].expand(2, m), atol=1e-6, rtol=0)


def test_epo_drops_an_infeasible_restriction_and_survives_what_is_no_gram_matrix() -> None:
    G = torch.tensor([[2.0, 1.0], [0.0, -2.0], [1.0, 2.0]], dtype=torch.float64)
    losses = torch.tensor([[1.0, 1.004, 1.008], [1.0, 1.0, 1.0]], dtype=torch.float64)
    rays, gram = torch.full((2, 3), 1 / 3), torch.stack([G @ G.T, -torch.eye(3, dtype=torch.float64)])
    weights, status = solved(losses, rays, gram)
    assert status.tolist() == [Status.RELAXED, Status.MIN_NORM]
    torch.testing.assert_close(weights[0], torch.tensor([2 / 3, 1 / 3, 0]).double(), atol=1e-6, rtol=0)
    assert (weights[1] >= 0).all() and weights[1].sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("m", [2, 3])
def test_epo_changes_its_aim_where_it_does_on_a_cpu(m: int) -> None:
    """Losses so near the ray that the non-uniformity is its tolerance, up to a few parts in a million."""
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(16, m, generator=generator, dtype=torch.float64)
    rays = floored(torch.rand(16, m, generator=generator, dtype=torch.float64) + 0.1)
    low, high = torch.zeros(16, 1, dtype=torch.float64), torch.ones(16, 1, dtype=torch.float64)
    for _ in range(60):  # bisection
        middle = (low + high) / 2
        share = (middle * direction).softmax(-1)
        over = (share * (m * share).log()).sum(-1, keepdim=True) > EPO().tolerance
        low, high = torch.where(over, low, middle), torch.where(over, middle, high)
    G = torch.randn(16, m, 4, generator=generator, dtype=torch.float64)
    for factor in (1 - 1e-6, 1 + 1e-6):
        losses = (factor * low * direction).exp() / rays
        weights, status = solved(losses, rays, G @ G.mT)
        expected, its_status = EPO()(losses, rays, G @ G.mT)
        assert torch.equal(status, its_status)
        torch.testing.assert_close(weights, expected, atol=1e-5, rtol=0)


# PMTL


KINDS_OF_STATUS = {"floored": int(Status.FLOORED), "invalid": int(Status.INVALID)}


def divided(losses: Tensor, rays: Tensor, gram: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    given = [tensor.to(DEVICE) for tensor in (losses, rays, gram, others)]
    weights, status = pmtl_on_gpu(*given, tolerance=1e-3, same=pmtl_module.SAME, **KINDS_OF_STATUS)
    return weights.cpu(), status.cpu()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("K", [1, 5, 12])
def test_pmtl_takes_the_shortest_vector_that_it_takes_on_a_cpu(K: int, kind: str) -> None:
    losses, rays, gram = instances(kind, 40, 2, seed=K)
    losses[:20] = rays[:20] + 0.02 * losses[:20]  # some in their cones, some near a border
    references = hf.rays(K, 2) if K > 1 else torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    others = F.normalize(references.double(), dim=-1)
    rows = pmtl_module._rows(losses.double(), F.normalize(rays.double(), dim=-1), others, 1e-3)
    phases = (rows[:, 0] == torch.tensor([1.0, 0.0])).all(-1)
    assert K == 1 or 0 < phases.sum() < 40
    weights, status = divided(losses, rays, gram, others)
    expected, its_status = PMTL(references=references.tolist())(losses, rays, gram)
    assert torch.equal(status, its_status)
    torch.testing.assert_close(weights.abs().sum(-1), torch.ones(40, dtype=weights.dtype))
    rates = (rows @ gram @ weights[..., None].double())[..., 0]  # at which each of them falls
    assert (rates >= -1e-6 * gram.diagonal(dim1=1, dim2=2).sum(-1, keepdim=True)).all()
    if kind == "generic":  # where only one combination is the shortest
        torch.testing.assert_close(weights, expected, atol=1e-6, rtol=1e-6)


def test_what_is_zero_or_invalid_is_reported() -> None:
    losses, rays, gram = instances("generic", 5, 2, seed=0)
    losses[1, 0], losses[2, 1], gram[3, 0, 1], losses[4, 1] = math.nan, math.inf, math.nan, 0.0
    others = F.normalize(rays.double(), dim=-1)
    weights, status = divided(losses, rays, gram, others)
    assert status.tolist() == [0, *3 * [Status.INVALID], Status.FLOORED] and weights.isfinite().all()
    assert torch.equal(status, PMTL()(losses, rays, gram)[1])
    found = status_on_gpu(losses.to(DEVICE), **KINDS_OF_STATUS)  # of the losses alone
    assert found.tolist() == [0, Status.INVALID, Status.INVALID, 0, Status.FLOORED]
    assert torch.equal(found.cpu(), LS()(losses, rays)[1])
    torch.testing.assert_close(weights[1:4], rays[1:4].to(weights.dtype))


# inner products, the hypernetwork's trunk, Adam, the tally


@pytest.mark.parametrize(("m", "R", "n"), [(2, 1, 1), (3, 2, 3001), (7, 1, 40_000)])
def test_inner_products_are_exact_whatever_the_layout(m: int, R: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inner, "on_gpu", lambda *tensors: True)
    rows = normal(m, R, n)
    truth = torch.einsum("irn,jrn->rij", rows.double(), rows.double())
    torch.testing.assert_close(gram_on_gpu(rows), truth, atol=1e-11 * n, rtol=0)
    torch.testing.assert_close(
        gram_on_gpu(rows.permute(2, 0, 1).contiguous().permute(1, 2, 0)), truth, atol=1e-11 * n, rtol=0
    )
    for given in (rows, list(rows)):
        torch.testing.assert_close(inner.inner_products(given), truth, atol=1e-11 * n, rtol=0)
    monkeypatch.setattr(inner, "BLOCK", 500)  # now part by part
    torch.testing.assert_close(inner.inner_products(list(rows)), truth, atol=1e-11 * n, rtol=0)


@pytest.mark.parametrize("encode", [True, False])
@pytest.mark.parametrize(("R", "m", "hidden", "n"), [(1, 2, 100, 57), (3, 3, 25, 40), (2, 1, 128, 9)])
def test_the_hypernetwork_is_its_layers(R: int, m: int, hidden: int, n: int, encode: bool) -> None:
    net = mlp.MLPHypernet(m, n, hidden=hidden, initialization="residual" if encode else "plain")
    wide = copy.deepcopy(net).double().to(DEVICE)
    leaves, rays, g = list(net.to(DEVICE).parameters()), normal(R, m).softmax(-1), normal(n, R).T
    assert hypernet.fits(rays, tuple(leaves))
    truth, found = wide.heads(wide._activations(rays.double())[-1]), hypernet.mlp_on_gpu(rays, encode, None, *leaves)
    assert_near(found, truth)
    expected = torch.autograd.grad(truth, list(wide.parameters()), g.double())
    for ours, theirs in zip(torch.autograd.grad(found, leaves, g), expected):
        assert_near(ours, theirs)


@pytest.mark.parametrize(("R", "hidden"), [(1, 8), (3, 5)])
def test_gradients_handed_over_as_factors_give_the_same_steps(
    monkeypatch: pytest.MonkeyPatch, R: int, hidden: int
) -> None:
    monkeypatch.setattr(adam_module, "on_gpu", lambda *tensors: True)
    net = mlp.MLPHypernet(2, 70, hidden=hidden).to(DEVICE)
    twin = copy.deepcopy(net)
    ours = adam_module.Adam(net.parameters(), lr=0.01, weight_decay=0.1, capturable=True)
    theirs = torch.optim.Adam(twin.parameters(), lr=0.01, weight_decay=0.1)
    assert ours.factors is not None
    for _ in range(3):
        rays, g = normal(R, 2).softmax(-1), normal(R, 70)
        theirs.zero_grad()
        twin.heads(twin._activations(rays)[-1]).backward(g)
        theirs.step()
        hypernet.mlp_on_gpu(rays, True, ours.factors, *net.parameters()).backward(g)
        assert all(parameter.grad is None for parameter in net.parameters())
        ours.step()
    for p, q in zip(net.parameters(), twin.parameters()):
        torch.testing.assert_close(p, q, atol=1e-5, rtol=1e-4)
        for key in ("step", "exp_avg", "exp_avg_sq"):
            torch.testing.assert_close(ours.state[p][key].cpu(), theirs.state[q][key].cpu(), atol=1e-5, rtol=1e-4)


SIZES = [(3,), (70, 50), (5000,), *((k, 1) for k in range(1, 17))]  # more than one launch, blocks and parts of one


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adam_is_pytorchs(decay: float) -> None:
    ours, theirs = ([normal(*size) for size in SIZES] for _ in range(2))
    for mine, other in zip(ours, theirs):
        other.copy_(mine)
    theirs = [p.double().requires_grad_() for p in theirs]
    settings = {"betas": (0.8, 0.99), "eps": 1e-6, "weight_decay": decay}
    optimizer = torch.optim.Adam(theirs, lr=0.01, **settings)
    first, second = ([torch.zeros_like(p) for p in ours] for _ in range(2))
    steps, lr = [torch.zeros((), device=DEVICE) for _ in ours], torch.zeros((), device=DEVICE)
    for count in range(1, 6):
        gradients = [normal(*size) for size in SIZES]
        for p, g in zip(theirs, gradients):
            p.grad = g.double()
        optimizer.param_groups[0]["lr"] = 0.01 / count
        optimizer.step()
        torch._foreach_add_(steps, 1)
        adam_on_gpu(ours, gradients, first, second, steps, lr.fill_(0.01 / count), **settings)
        for p, q in zip(ours, theirs):
            torch.testing.assert_close(p.double(), q.detach(), atol=2e-6, rtol=1e-6)
    for p, m, v in zip(theirs, first, second):
        assert_near(m, optimizer.state[p]["exp_avg"])
        assert_near(v, optimizer.state[p]["exp_avg_sq"])


def programmed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let our Adam take the GPU's way on any device; the list grows with every launch."""
    from hyperfront.kernels.gpu import adam as program

    calls, launch = [], program.adam_on_gpu

    def counted(*args: object, **kwargs: object) -> None:
        calls.append(1)
        launch(*args, **kwargs)

    monkeypatch.setattr(adam_module, "on_gpu", lambda *tensors: True)
    monkeypatch.setattr(program, "adam_on_gpu", counted)
    return calls


def test_our_adam_has_groups_state_and_options_as_pytorchs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = programmed(monkeypatch)
    ours, theirs = (
        [torch.nn.Parameter(tensor.clone()) for tensor in (torch.ones(4, 3), torch.arange(5.0), torch.ones(2))]
        for _ in range(2)
    )
    made = []
    for parameters, kind in ((ours, adam_module.Adam), (theirs, torch.optim.Adam)):
        parameters[:] = [torch.nn.Parameter(p.detach().to(DEVICE)) for p in parameters]
        groups = [{"params": parameters[:2]}, {"params": parameters[2:], "lr": 0.1, "weight_decay": 0.5}]
        made.append(kind(groups, lr=0.01, capturable=DEVICE == "cuda" or parameters is ours))
    for count in range(5):
        for at, (p, q) in enumerate(zip(ours, theirs)):
            late = at == 1 and count < 2  # one that has no gradient at first counts its own steps
            p.grad, q.grad = (None, None) if late else ((p.detach() + 1).sin(), (q.detach() + 1).sin())
        made[0].step()
        made[1].step()
        if count == 2:  # a checkpoint in the middle
            made[0].load_state_dict(made[0].state_dict())
    assert calls
    for p, q in zip(ours, theirs):
        torch.testing.assert_close(p, q, atol=1e-6, rtol=1e-5)
        for key, value in made[1].state[q].items():
            torch.testing.assert_close(made[0].state[p][key].cpu(), value.cpu(), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("options", [{"amsgrad": True}, {"maximize": True}, {"capturable": False}])
def test_our_adam_leaves_to_pytorch_what_it_has_no_program_for(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, bool]
) -> None:
    calls, start = programmed(monkeypatch), torch.arange(5.0, device=DEVICE)
    parameters = [torch.nn.Parameter(start.clone()) for _ in range(2)]
    for p, kind in zip(parameters, (adam_module.Adam, torch.optim.Adam)):
        p.grad = torch.ones_like(p)
        kind([p], **{"capturable": DEVICE == "cuda"} | options).step()
    assert torch.equal(*parameters) and not calls


@pytest.mark.parametrize(("R", "m"), [(1, 2), (5, 3), (1500, 2)])
def test_the_tally_adds_up_means_and_counts(R: int, m: int) -> None:
    sums, counts = normal(m).double(), torch.arange(5).to(DEVICE)
    t, expected, its_counts = torch.tensor([7], device=DEVICE), sums.clone(), counts.clone()
    for _ in range(2):
        losses, status = normal(R, m), torch.randint(5, (R,), dtype=torch.uint8).to(DEVICE)
        tally_on_gpu(losses, status, sums, counts, t)
        expected += losses.double().mean(0)
        its_counts += status.long().bincount(minlength=5)
    torch.testing.assert_close(sums, expected, atol=1e-12, rtol=0)
    assert torch.equal(counts, its_counts) and t.item() == 9


@pytest.mark.parametrize("name", ["RAY_FLOOR", "LOSS_FLOOR", "TIE", "ROUNDING"])
def test_the_program_has_the_tolerances_of_the_solver(name):
    assert getattr(epo_program, name).value == getattr(epo_module, name)


@pytest.mark.parametrize("name", ["VIOLATED", "ACCEPTED", "PIVOT", "SLACK", "INFEASIBLE"])
def test_the_program_has_the_tolerances_of_the_linear_programs(name):
    assert getattr(epo_program, name).value == getattr(linprog, name)


@pytest.mark.parametrize(("program", "solver"), [("RIDGE", "RIDGE"), ("MISSED", "ROUNDING")])
def test_the_program_has_the_tolerances_of_min_norm(program, solver):
    assert getattr(epo_program, program).value == getattr(minnorm, solver)


@triton.jit
def _only_min_norm(gram, weights, m: tl.constexpr, KB: tl.constexpr, NB: tl.constexpr):
    k, i = tl.arange(0, KB), tl.arange(0, NB)
    c = tl.load(gram + k[:, None] * m + i[None, :], (k < m)[:, None] & (i < m)[None, :], 0.0)
    tl.store(weights + i, epo_program._min_norm(c, k, i, m, LIMIT=32 * m), i < m)


@pytest.mark.parametrize("kind", ["few", "many", "parallel", "unequal", "zero"])
@pytest.mark.parametrize("m", [3, 5, 7])
def test_the_program_falls_back_to_the_exact_min_norm_weights(m: int, kind: str) -> None:
    for _ in range(10):
        grads = normal(m, 2 if kind == "few" else 40).double()
        if kind == "parallel":
            grads[1] = 2 * grads[0]
        grads *= torch.logspace(-3, 3, m, dtype=torch.float64, device=DEVICE)[:, None] if kind == "unequal" else 1
        grads *= 0 if kind == "zero" else 1
        gram, weights = grads @ grads.T, torch.empty(m, dtype=torch.float64, device=DEVICE)
        _only_min_norm[(1,)](gram, weights, m=m, KB=triton.next_power_of_2(m + 1), NB=triton.next_power_of_2(2 * m + 3))
        assert (weights >= 0).all() and weights.sum().item() == pytest.approx(1)
        exact = minnorm.min_norm(gram[None].cpu())[0]
        shortest = (exact @ grads.cpu()).norm()
        longest = grads.norm(dim=1).max().item()
        assert ((weights @ grads).norm().cpu() - shortest).abs().item() <= 1e-7 * (longest + 1e-300)


@pytest.mark.parametrize("name", ["RELAXED", "MIN_NORM", "FLOORED", "INVALID"])
def test_the_program_has_the_numbers_of_the_statuses(name):
    assert getattr(epo_program, name).value == Status[name]
