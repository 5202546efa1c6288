"""The same on a GPU. Skipped where there is none."""

from __future__ import annotations

import pytest
import torch

import hyperfront as hf
from hyperfront.batches import tensors
from hyperfront.problems import build
from hyperfront.problems.shift import Shift
from hyperfront.solvers.epo import program
from tests import runs
from tests.modules import CASES, mlp
from tests.test_assemblies import ARCHITECTURES, shaken

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def instances(m: int, count: int = 512) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(m)
    losses = torch.rand(count, m, generator=generator, dtype=torch.float64) + 0.01
    rays = hf.Dirichlet(0.2).sample(count, m, generator)
    grads = torch.randn(count, m, 6, generator=generator, dtype=torch.float64)
    return losses, rays, grads @ grads.mT


@pytest.mark.parametrize("m", [2, 3, 7])
def test_epo_gives_the_same_weights_on_both_devices(m):
    losses, rays, gram = instances(m)
    weights, status = hf.EPO()(losses, rays, gram)
    on_gpu, gpu_status = hf.EPO()(losses.cuda(), rays.cuda(), gram.cuda())
    assert on_gpu.is_cuda
    torch.testing.assert_close(on_gpu.cpu(), weights, atol=1e-7, rtol=0)
    assert torch.equal(gpu_status.cpu(), status)


@pytest.mark.parametrize("m", [2, 3, 7])
def test_float32_on_a_gpu_agrees_with_float64_on_a_cpu_in_objective_and_feasibility(m):
    losses, rays, gram = instances(m)
    single = [tensor.float().cuda() for tensor in (losses, rays, gram)]
    weights, status = hf.EPO()(losses, rays, gram)
    on_gpu, gpu_status = hf.EPO()(*single)
    same = gpu_status.cpu() == status  # feasibility itself may be a matter of the last digit
    assert same.double().mean() > 0.98
    share = rays.clamp_min(1e-6) / rays.clamp_min(1e-6).sum(-1, keepdim=True)
    c, A, b = program((losses * share).log(), share, gram, hf.EPO().tolerance)
    relaxed = status == hf.Status.RELAXED
    b[:, -1] = b[:, -1].masked_fill(relaxed, -torch.inf)
    c, scale = c / c.abs().amax(-1, keepdim=True), A.abs().amax(-1).clamp_min(1e-300)
    for found in (weights, on_gpu.cpu().double()):
        slack = ((A @ found[..., None])[..., 0] - b) / scale
        assert slack[same].min() > -1e-4
    gap = ((weights - on_gpu.cpu()) * c).sum(-1).abs()
    assert gap[same].max() < 1e-3

    shortest, _ = hf.MGDA()(losses, rays, gram)
    found = hf.MGDA()(*single)[0].cpu().double()
    length, other = ((alpha[:, None] @ gram @ alpha[..., None])[:, 0, 0] for alpha in (shortest, found))
    torch.testing.assert_close(other, length, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize(
    "solver", [hf.LS(), hf.Tchebycheff(), hf.SmoothTchebycheff(), hf.PBI(), hf.COSMOS(2.0), hf.HVMax()]
)
@pytest.mark.parametrize("m", [2, 3])
def test_solvers_without_a_gram_give_the_same_weights_on_both_devices(solver, m):
    losses, rays, _ = instances(m, count=32)
    weights, status = solver(losses, rays)
    on_gpu, gpu_status = solver(losses.float().cuda(), rays.float().cuda())
    assert on_gpu.is_cuda
    torch.testing.assert_close(on_gpu.cpu().double(), weights, atol=1e-3, rtol=1e-3)
    assert torch.equal(gpu_status.cpu(), status)


def test_epo_with_two_objectives_can_be_captured_in_a_cuda_graph():
    losses, rays, gram = (tensor.cuda() for tensor in instances(2))
    solver = hf.EPO()
    expected, _ = solver(losses, rays, gram)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        solver(losses, rays, gram)
    torch.cuda.current_stream().wait_stream(stream)
    graph, static = torch.cuda.CUDAGraph(), torch.ones_like(losses)
    with torch.cuda.graph(graph):  # a host synchronisation in here is an error
        weights, _ = solver(static, rays, gram)
    static.copy_(losses)
    graph.replay()
    torch.testing.assert_close(weights, expected)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.filterwarnings("ignore:RNN module weights")  # an assembled LSTM is compacted by cuDNN at every call
def test_a_model_predicts_the_same_on_both_devices(name, architecture):
    torch.manual_seed(0)
    module, x = CASES[name]()
    model = hf.wrap(module, ["a", "b"], **ARCHITECTURES[architecture])
    shaken(model)
    model.calibrate([x])
    rays = hf.rays(3, m=2)
    on_cpu = model.eval()(x, rays)
    on_gpu = model.cuda()(x, rays)
    for a, b in zip(*(tensors(output) for output in (on_cpu, on_gpu)), strict=True):
        assert b.is_cuda
        torch.testing.assert_close(b.cpu(), a, atol=1e-3, rtol=1e-3)
    plain = model.at(rays[0])
    assert next(plain.parameters()).is_cuda


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_module_on_a_gpu_is_wrapped_there(architecture):
    model = hf.wrap(mlp().cuda(), ["a", "b"], **ARCHITECTURES[architecture])
    x = torch.randn(8, 5, device="cuda")
    hf.backward(model, [0.3, 0.7], lambda net: (net(x).square().mean(), (net(x) - 1).square().mean()), solver=hf.EPO())
    assert all(p.is_cuda and p.grad.isfinite().all() for p in model.parameters())


def test_training_on_a_gpu_learns_resumes_and_loads_on_a_cpu(tmp_path):
    run = runs.run(tmp_path / "run", device="cuda", epochs=6)
    volumes = [record["validation"]["hypervolume"] for record in run.history]
    assert volumes[-1] > volumes[0]
    x = torch.randn(5, 4)
    loaded = hf.load(tmp_path / "run", runs.Net())
    torch.testing.assert_close(loaded(x, [0.3, 0.7]), run.model(x, [0.3, 0.7]).cpu(), atol=1e-4, rtol=1e-3)
    assert len(runs.run(tmp_path / "run", device="cuda", epochs=6, resume=True).history) == 6


def test_rays_do_not_depend_on_the_device(tmp_path):
    on_cpu = runs.run(tmp_path / "cpu", epochs=1, lr=0.0, solver=hf.LS())
    on_gpu = runs.run(tmp_path / "gpu", epochs=1, lr=0.0, solver=hf.LS(), device="cuda")
    first, second = (run.history[0]["validation"]["losses"] for run in (on_cpu, on_gpu))
    torch.testing.assert_close(torch.tensor(first), torch.tensor(second), atol=1e-3, rtol=1e-3)


def test_an_analytic_problem_reaches_its_front_on_a_gpu():
    problem = build("fonseca", variables=5)
    torch.manual_seed(0)
    run = hf.fit(problem.model(hidden=50), problem, epochs=10, rays_per_step=16, lr=3e-3, device="cuda", callbacks=[])
    assert problem.truth.distance(run.front.losses).max() < 1e-3


def test_a_module_on_a_gpu_can_be_wrapped_there():
    model = hf.wrap(torch.nn.Linear(3, 1).cuda(), ["a", "b"])
    assert model.device.type == "cuda"
    assert model(torch.ones(2, 3), [0.5, 0.5]).is_cuda


def test_images_are_moved_alike_on_both_devices_and_without_waiting_for_the_gpu():
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (64, 1, 36, 36), dtype=torch.uint8, generator=generator)
    numbers = Shift(2).draw(64, generator)
    on_gpu = images.cuda(), numbers.cuda()
    torch.cuda.set_sync_debug_mode("error")
    try:
        (moved,) = Shift(2)(on_gpu[:1], on_gpu[1])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(moved.cpu(), Shift(2)((images,), numbers)[0])
