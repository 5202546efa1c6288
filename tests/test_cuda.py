"""The same on a GPU. Skipped where there is none."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable
from types import FunctionType

import pytest
import torch
from torch import Tensor, nn

import hyperfront as hf
from hyperfront.comparison.baselines import curvature as curvature_module
from hyperfront.comparison.baselines.curvature import Curvature
from hyperfront.kernels.capture import captured
from hyperfront.kernels.layers import cross_entropy
from hyperfront.model import target
from hyperfront.model.stacking import Stacking
from hyperfront.problem.registry import build
from hyperfront.problem.sources import TensorSource
from hyperfront.solvers import COSMOS, MGDA, PBI, HVMax, NormalizeByStart, SmoothTchebycheff, Status, Tchebycheff, chain
from hyperfront.solvers.epo import program
from hyperfront.storage.nests import tensors
from hyperfront.training import Callback
from hyperfront.training.adam import Adam
from hyperfront.zoo import toys
from hyperfront.zoo.lenet import LeNet
from hyperfront.zoo.shift import Shift
from tests.helpers import runs
from tests.helpers.architectures import ARCHITECTURES, shaken
from tests.helpers.engines import assert_same, regression, trained
from tests.helpers.gpu import exact_products
from tests.helpers.modules import CASES, ConvNet, mlp

pytestmark = pytest.mark.gpu


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
    weights, status = hf.EPO(descent=0)(losses, rays, gram)  # the optimum of one program
    on_gpu, gpu_status = hf.EPO(descent=0)(*single)
    same = gpu_status.cpu() == status  # feasibility itself may be a matter of the last digit
    assert same.double().mean() > 0.98
    share = rays.clamp_min(1e-6) / rays.clamp_min(1e-6).sum(-1, keepdim=True)
    c, A, b = program((losses * share).log(), share, gram, hf.EPO().tolerance)
    relaxed = status == Status.RELAXED
    b[:, -1] = b[:, -1].masked_fill(relaxed, -torch.inf)
    c, scale = c / c.abs().amax(-1, keepdim=True), A.abs().amax(-1).clamp_min(1e-300)
    for found in (weights, on_gpu.cpu().double()):
        slack = ((A @ found[..., None])[..., 0] - b) / scale
        assert slack[same].min() > -1e-4
    gap = ((weights - on_gpu.cpu()) * c).sum(-1).abs()
    assert gap[same].max() < 1e-3

    shortest, _ = MGDA()(losses, rays, gram)
    found = MGDA()(*single)[0].cpu().double()
    length, other = ((alpha[:, None] @ gram @ alpha[..., None])[:, 0, 0] for alpha in (shortest, found))
    torch.testing.assert_close(other, length, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("solver", [hf.LS(), Tchebycheff(), SmoothTchebycheff(), PBI(), COSMOS(2.0), HVMax()])
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
    with torch.cuda.graph(graph):  # a host synchronization in here is an error
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


def test_what_comes_back_from_a_gpu_is_complete_when_it_is_read():
    held = torch.arange(2**24, dtype=torch.float32).view(-1, 64)
    source = TensorSource((held,))
    source.on(torch.device("cuda"))
    torch.cuda._sleep(10**8)  # copies have to wait for it, and so has who reads them
    (moved,) = next(source.batches(len(held), torch.device("cpu")))
    assert torch.equal(moved, held)


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


# engines


def images() -> tuple[hf.ParetoModel, hf.Problem]:
    """LeNet on random images, which are moved about."""
    generator = torch.Generator().manual_seed(1)
    data = torch.randint(256, (96, 1, 36, 36), dtype=torch.uint8, generator=generator)
    labels = torch.randint(10, (2, 96), generator=generator)
    problem = hf.supervised(
        (data, *labels),
        (data[:32], *labels[:, :32]),
        losses={
            "left": lambda output, batch: cross_entropy(output[0], batch[1]),
            "right": lambda output, batch: cross_entropy(output[1], batch[2]),
        },
        inputs=lambda batch: batch[0] * (1 / 255),
        reference=(4, 4),
        augment=Shift(2),
    )
    return hf.wrap(LeNet(), ["left", "right"], hidden=20, initialization="plain"), problem


def flat_images(**options) -> tuple[hf.ParetoModel, hf.Problem]:
    """A convolutional network with BatchNorm."""
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(64, 1, 9, 9, generator=generator), torch.randn(64, 3, generator=generator)
    losses = {
        "near": lambda output, batch: (output - batch[1]).square().mean(),
        "small": lambda output, batch: output.square().mean(),
    }
    problem = hf.supervised((x, y), (x, y), losses=losses, reference=(9, 9))
    return hf.wrap(ConvNet(), list(losses), hidden=10, **options), problem


def toy(name: str) -> tuple[hf.ParetoModel, hf.Problem]:
    problem = build(name)
    return problem.model(hidden=20), problem


def dropout() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 1))


@pytest.mark.parametrize("engine", ["graph", "eager"])
def test_networks_side_by_side_are_trained_as_one_by_one(engine, monkeypatch):
    def run() -> hf.Run:
        return trained(flat_images, engine, solver=hf.EPO(), rays_per_step=10, batch_size=30)  # more rays than lanes

    monkeypatch.setattr(Stacking, "wants_vmap", lambda self, theta, running: False)
    calls = []
    real = target.side_by_side
    monkeypatch.setattr(target, "side_by_side", lambda *args: calls.append(1) or real(*args))
    ours = run()
    assert calls
    monkeypatch.setattr(target, "side_by_side", lambda one, each: [one(*items) for items in each])
    assert_same(ours, run())


@pytest.mark.parametrize("rays", [1, 4])
@pytest.mark.parametrize("solver", [hf.LS(), hf.EPO()], ids=["LS", "EPO"])
@pytest.mark.parametrize(
    "made",
    [images, lambda: regression(mlp(), m=3), lambda: regression(dropout()), flat_images, lambda: toy("fonseca")],
    ids=["LeNet", "three objectives", "dropout", "BatchNorm", "fonseca"],
)
def test_a_graph_takes_the_eager_steps(made, solver, rays):
    def smooth(parameters) -> Adam:  # Adam with its usual epsilon magnifies the rounding of gradients near zero
        return Adam(parameters, lr=1e-3, eps=1e-3)

    settings = {"solver": solver, "rays_per_step": rays, "optimizer": smooth}
    assert_same(*(trained(made, engine, **settings) for engine in ("graph", "eager")))


class Watches(Callback):
    """Many small tensors, made after the capture, which nobody should write to."""

    def started(self, **_) -> None:
        self.others = [torch.zeros(size, device="cuda") for size in (1, 10, 100) for _ in range(2000)]

    def finished(self) -> None:
        assert not torch.cat(self.others).any()


@pytest.mark.parametrize("made", [images, lambda: regression(mlp(), m=3)], ids=["LeNet", "three objectives"])
def test_a_graph_writes_to_nothing_but_its_own(made):
    run = trained(made, "graph", solver=hf.EPO(), callbacks=[Watches()], epochs=6, validate_every=1)
    best = max(record["validation"]["hypervolume"] for record in run.history)
    assert run.front.hypervolume() == best  # the weights that were kept are as they were


@pytest.mark.parametrize("made", [images, flat_images, lambda: regression(mlp())], ids=["LeNet", "BatchNorm", "MLP"])
def test_products_with_the_hessian_are_those_without_a_graph(made, monkeypatch):
    model, problem = made()
    curvature = Curvature(model.cuda(), problem, 64)
    theta, alpha = model.weights([[0.5, 0.5]])[0].detach(), torch.tensor([0.3, 0.7], device="cuda")
    with exact_products():
        graph = curvature.hessian(theta, alpha)
        monkeypatch.setattr(curvature_module, "replayed", lambda function, like: function)
        eager = curvature.hessian(theta, alpha)
        assert not isinstance(graph, FunctionType)
        for seed in range(3):
            torch.full((10**6,), float("nan"), device="cuda")  # in memory that was given back, and none is read again
            v = torch.randn(theta.shape, generator=torch.Generator().manual_seed(seed)).cuda()
            torch.testing.assert_close(graph(v), eager(v), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD])
def test_a_graph_takes_the_eager_steps_of_other_optimizers(optimizer):
    options = {"momentum": 0.9} if optimizer is torch.optim.SGD else {}
    changes = {"optimizer": lambda p: optimizer(p, lr=1e-3, weight_decay=0.01, **options), "solver": hf.LS()}
    assert_same(*(trained(lambda: regression(mlp()), engine, **changes) for engine in ("graph", "eager")))


def test_a_graph_that_becomes_garbage_does_not_disturb_the_recording_of_another():
    threshold, x, stream = gc.get_threshold(), torch.ones(4, device="cuda"), torch.cuda.Stream()
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with captured(first, stream=stream):
        x.mul_(2)
    cycle: list = [first]
    cycle.append(cycle)
    del first, cycle
    try:
        gc.set_threshold(1)
        with captured(second, stream=stream):
            x.add_(sum(len([[number]]) for number in range(1000)))
    finally:
        gc.set_threshold(*threshold)
    second.replay()
    assert x.tolist() == [1001.0] * 4


@pytest.mark.parametrize("name", toys.ENTRIES)
def test_every_analytic_problem_can_be_captured(name):
    assert_same(*(trained(lambda: toy(name), engine, epochs=1, solver=hf.LS()) for engine in ("graph", "eager")))


RESULTS = ("last.safetensors", "best.safetensors", "front.json")


@pytest.mark.parametrize("engine", ["eager", "graph"])
def test_a_run_resumed_in_the_middle_of_an_epoch_ends_at_the_same_bytes(tmp_path, engine):
    settings = {"epochs": 4, "engine": engine, "device": "cuda", "deterministic": True}  # BatchNorm, dropout, 2 rays
    runs.run(tmp_path / "whole", **settings)
    with pytest.raises(KeyboardInterrupt, match="epoch 2, after step 3"):
        runs.run(tmp_path / "cut", callbacks=(runs.Signals(signal.SIGINT, 11),), **settings)
    runs.run(tmp_path / "cut", resume=True, **settings)
    for name in RESULTS:
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


@pytest.mark.parametrize("engine", ["eager", "graph"])
@pytest.mark.parametrize("made", [images, flat_images, lambda: toy("dtlz2")], ids=["LeNet", "BatchNorm", "dtlz2"])
def test_two_deterministic_runs_end_at_the_same_bytes(tmp_path, made, engine):
    for name in ("first", "second"):
        trained(made, engine, rays_per_step=4, out=tmp_path / name, deterministic=True)
    for name in ("last.safetensors", "front.json"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes(), name


# losses that read from the GPU, in their first lines


def reads_a_number(output: Tensor, batch: tuple) -> Tensor:
    largest = output.detach().abs().max().item()
    return (output / max(1.0, largest)).square().mean()


def looks_for_entries(output: Tensor, batch: tuple) -> Tensor:
    where = (batch[1][:, 0] > 0).nonzero()[:, 0]
    return output[where].square().mean()


def selects_by_a_mask(output: Tensor, batch: tuple) -> Tensor:
    chosen = output[batch[1][:, 0] > 0]
    return chosen.square().mean()


def goes_to_the_cpu(output: Tensor, batch: tuple) -> Tensor:
    mean = output.detach().cpu().mean()
    return (output - mean.to(output.device)).square().mean()


class ReadsInForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 1)

    def forward(self, x: Tensor) -> Tensor:
        offset = float(x.sum())
        return self.layer(x) + min(0.0, offset)


def assert_falls_back(made: Callable, reason: str, **changes) -> None:
    """One warning that gives the reason; the eager steps; and a GPU that works as before."""
    with pytest.warns(UserWarning, match="one by one") as caught:
        run = trained(made, "auto", **changes)
    assert len(caught) == 1
    assert reason in str(caught[0].message)
    assert_same(run, trained(made, "eager", **changes))
    torch.cuda.synchronize()
    assert torch.ones(3, device="cuda").sum().item() == 3
    assert torch.cuda.get_sync_debug_mode() == 0
    trained(lambda: regression(mlp()), "graph", epochs=1)


@pytest.mark.parametrize(
    "loss", [reads_a_number, looks_for_entries, selects_by_a_mask, goes_to_the_cpu], ids=lambda loss: loss.__name__
)
def test_a_loss_that_reads_from_the_gpu_is_named_and_trained_eagerly(loss):
    where = f"{__file__}:{loss.__code__.co_firstlineno + 1}"
    assert_falls_back(lambda: regression(mlp(), first=loss), where, solver=hf.LS())


def test_a_module_that_reads_from_the_gpu_is_named_and_trained_eagerly():
    where = f"{__file__}:{ReadsInForward.forward.__code__.co_firstlineno + 1}"
    assert_falls_back(lambda: regression(ReadsInForward()), where)


def loaded() -> tuple[hf.ParetoModel, hf.Problem]:
    model, problem = regression(mlp())
    data = torch.utils.data.TensorDataset(*(tensor.cpu() for tensor in problem.train.source.data))
    loader = torch.utils.data.DataLoader(data, batch_size=16)
    return model, hf.supervised(loader, losses=dict(problem.measures))


def too_large() -> tuple[hf.ParetoModel, hf.Problem]:
    model, problem = regression(mlp())
    problem.train.source.fits = lambda device: False
    return model, problem


def test_loaders_memories_and_unusual_optimizers_are_trained_eagerly():
    assert_falls_back(loaded, "loader")
    assert_falls_back(too_large, "do not fit on the GPU")
    assert_falls_back(lambda: regression(mlp()), "remembers", solver=chain(NormalizeByStart(), hf.LS()))
    assert_falls_back(lambda: regression(mlp()), "Adagrad", optimizer=lambda p: torch.optim.Adagrad(p, lr=0.01))
