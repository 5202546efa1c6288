"""Gradients of micro-batches: where they add up to that of the whole batch, and what else gives it exactly."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import hyperfront as hf
from hyperfront.errors import HyperfrontError
from hyperfront.solvers import (
    MGDA,
    PMTL,
    Average,
    Clip,
    HVMax,
    Normalize,
    NormalizeByStart,
    Solver,
    Tchebycheff,
    chain,
    lift,
)
from hyperfront.solvers.names import SOLVERS, make_solver

RAYS = torch.tensor([[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]], dtype=torch.float64)
FIXED: list[Solver] = [
    hf.LS(),
    chain(Normalize(nadir=(1.0, 3.0)), hf.LS(), Clip(low=0.3)),
    chain(Average(RAYS.tolist()), hf.LS()),
]
OTHERS = [make_solver(name) for name in SOLVERS if name != "ls"] + [
    lift(lambda losses, rays: (rays * losses.square()).sum(-1)),
    chain(NormalizeByStart(), hf.LS()),
    chain(Normalize(nadir=2.0), hf.EPO()),
]


@st.composite
def modules(draw: st.DrawFn) -> nn.Module:
    """Modules without dropout and without statistics of the batch: their output at a row depends on that row alone."""
    torch.manual_seed(0)
    widths = [5, *draw(st.lists(st.integers(2, 6), min_size=1, max_size=3)), 3]
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after, bias=draw(st.booleans())), draw(st.sampled_from(ACTIVATIONS))()]
        if draw(st.booleans()):
            layers.append(nn.LayerNorm(after))
    return nn.Sequential(*layers)


ACTIVATIONS = (nn.Tanh, nn.ReLU, nn.SiLU, nn.Identity)


def wrapped(module: nn.Module, **options) -> tuple[hf.ParetoModel, Tensor, Tensor]:
    torch.manual_seed(0)
    model = hf.wrap(module, ["small", "near"], hidden=6, **options).double()
    return model, torch.randn(12, 5).double(), torch.randn(12, 3).double()


def losses(net, x: Tensor, y: Tensor) -> Tensor:
    output = net(x)
    return torch.stack([output.square().mean() + 0.1, (output - y).abs().mean()])


def gradients(model: hf.ParetoModel) -> list[Tensor]:
    found = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    return found


@settings(max_examples=40)
@given(
    module=modules(),
    parts=st.sampled_from([2, 3, 4, 12]),
    count=st.integers(1, 3),
    solver=st.sampled_from(FIXED),
    generate=st.sampled_from(["*", "0.*"]),
    hypernet=st.sampled_from(["mlp", "low_rank"]),
    batching=st.sampled_from(["loop", "vmap"]),
)
def test_micro_batches_add_up_to_the_whole_batch(module, parts, count, solver, generate, hypernet, batching):
    model, x, y = wrapped(module, generate=generate, hypernet=hypernet, batching=batching)
    whole = hf.backward(model, RAYS[:count], lambda net: losses(net, x, y), solver=solver)
    expected, found = gradients(model), []
    for part in zip(x.chunk(parts), y.chunk(parts)):
        found.append(hf.backward(model, RAYS[:count], lambda net: losses(net, *part), solver=solver, scale=1 / parts))  # noqa: B023
    for ours, theirs in zip(gradients(model), expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(torch.stack([each.losses for each in found]).mean(0), whole.losses, atol=1e-9, rtol=0)


def test_micro_batches_of_different_size_add_up_by_their_share_of_the_rows():
    model, x, y = wrapped(nn.Linear(5, 3))
    hf.backward(model, RAYS, lambda net: losses(net, x, y), solver=hf.LS())
    expected = gradients(model)
    for rows in (slice(0, 5), slice(5, 12)):
        share = len(x[rows]) / len(x)
        hf.backward(model, RAYS, lambda net: losses(net, x[rows], y[rows]), solver=hf.LS(), scale=share)  # noqa: B023
    for ours, theirs in zip(gradients(model), expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("solver", [*FIXED, *OTHERS], ids=lambda solver: type(solver).__name__)
def test_a_solver_says_whether_its_weights_follow_from_the_ray_alone(solver):
    """That is what makes gradients add up: the flag is neither a wrong promise nor a needless refusal."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(4):
        if isinstance(solver, hf.solvers.Stateful):
            solver.load({})
        grads = torch.randn(3, 2, 6, generator=generator, dtype=torch.float64)
        sizes = torch.rand(3, 2, generator=generator, dtype=torch.float64) + 0.1
        found.append(solver(sizes, RAYS, grads @ grads.mT)[0])
    assert all(torch.equal(weights, found[0]) for weights in found) == solver.fixed_weights


@pytest.mark.parametrize("solver", OTHERS, ids=lambda solver: type(solver).__name__)
def test_other_solvers_refuse_to_accumulate_and_leave_no_gradient(solver):
    model, x, y = wrapped(nn.Linear(5, 3))
    for scale in (0.5, torch.tensor(0.5)):
        with pytest.raises(HyperfrontError, match="do not add up") as error:
            hf.backward(model, RAYS, lambda net: losses(net, x, y), solver=solver, scale=scale)
        assert error.value.got and error.value.expected and "docs/loops.md" in error.value.fix
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), torch.ones(2)])
def test_a_scale_is_a_positive_number(scale):
    model, x, y = wrapped(nn.Linear(5, 3))
    with pytest.raises(HyperfrontError, match="scale"):
        hf.backward(model, RAYS, lambda net: losses(net, x, y), solver=hf.LS(), scale=scale)


@pytest.mark.parametrize(
    "solver",
    [hf.EPO(), MGDA(), PMTL(), Tchebycheff(), HVMax(), hf.LS()],
    ids=lambda solver: type(solver).__name__,
)
@pytest.mark.parametrize("generate", ["*", "0.*"])
@pytest.mark.parametrize("batching", ["loop", "auto"])
def test_recomputed_micro_batches_are_exact_for_every_solver(solver, generate, batching):
    """The documented way for the others: one call, whose losses keep no activations of a micro-batch."""
    net = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3))
    model, x, y = wrapped(net, generate=generate, batching=batching)
    hf.backward(model, RAYS, lambda net: losses(net, x, y), solver=solver)
    expected, calls = gradients(model), []

    def one(net, x: Tensor, y: Tensor) -> Tensor:
        calls.append(len(x))
        return losses(net, x, y)

    def recomputed(net) -> Tensor:
        parts = zip(x.split(3), y.split(3))
        return torch.stack([checkpoint(one, net, *part, use_reentrant=False) for part in parts]).mean(0)

    hf.backward(model, RAYS, recomputed, solver=solver)
    for ours, theirs in zip(gradients(model), expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9)
    assert len(calls) > len(RAYS) * 4  # more than once for each ray and micro-batch: none were kept


class TestMixedPrecision:
    """Autocast around the network alone; a scaler through ``scale``."""

    def step(self, model, x, y, dtype, **options) -> list[Tensor]:
        def cast(net) -> Tensor:
            with torch.autocast("cpu", dtype):
                output = net(x)
            return torch.stack([output.float().square().mean(), (output.float() - y).abs().mean()])

        hf.backward(model, RAYS[:1].float(), cast, **options)
        return gradients(model)

    @pytest.mark.parametrize("solver", [hf.LS(), hf.EPO()], ids=lambda solver: type(solver).__name__)
    def test_the_gradient_is_that_of_full_precision_to_rounding(self, solver):
        torch.manual_seed(0)
        model = hf.wrap(nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)), ["small", "near"], hidden=6)
        x, y = torch.randn(12, 5), torch.randn(12, 3)
        hf.backward(model, RAYS[:1].float(), lambda net: losses(net, x, y), solver=solver)
        expected = torch.cat([g.flatten() for g in gradients(model)])
        found = torch.cat([g.flatten() for g in self.step(model, x, y, torch.bfloat16, solver=solver)])
        assert found.dtype == torch.float32 and not torch.equal(found, expected)
        assert (found - expected).norm() < 0.02 * expected.norm()

    def test_a_scaler_takes_the_same_step_and_skips_one_that_overflows(self):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
        x, y = torch.randn(12, 5), torch.randn(12, 3)
        found = []
        for scaled in (False, True):
            torch.manual_seed(1)
            model = hf.wrap(net, ["small", "near"], hidden=6)
            optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu")

            def cast(net) -> Tensor:
                with torch.autocast("cpu", torch.float16):
                    output = net(x).float()
                return torch.stack([output.square().mean(), (output - y).abs().mean()])

            for steps in range(3):
                optimizer.zero_grad()
                scale = scaler.scale(torch.ones(())) if scaled else 1.0
                hf.backward(model, RAYS[:1].float(), cast, solver=hf.LS(), scale=scale)
                if scaled and steps == 1:
                    next(model.parameters()).grad[0] = torch.inf
                    before = [p.detach().clone() for p in model.parameters()]
                if not scaled and steps == 1:
                    continue  # which the scaler is to skip
                scaler.step(optimizer) if scaled else optimizer.step()
                if scaled and steps == 1:
                    assert all(map(torch.equal, before, model.parameters()))
                if scaled:
                    scaler.update()
            found.append([p.detach().clone() for p in model.parameters()])
        for ours, theirs in zip(*found):
            torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-2)


# ---- micro-batches of fit --------------------------------------------------------------------------------------------


def accumulated(accumulate: int, *, solver: Solver, rays: int, options: dict, **more) -> list[Tensor]:
    """Losses of both epochs and weights, after a run in micro-batches."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(48, 4, generator=generator, dtype=torch.float64)
    losses = {
        "left": lambda output, batch: (output[:, 0] - batch[0][:, 0]).square().mean(),
        "right": lambda output, batch: (output[:, 0] - batch[0][:, 1]).square().mean(),
    }
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
    model = hf.wrap(net, [*losses], **options).double()
    sgd = lambda parameters: torch.optim.SGD(parameters, lr=0.1)  # noqa: E731
    fixed = {"epochs": 2, "batch_size": 24, "optimizer": sgd, "callbacks": []}
    problem = hf.supervised(train=(x,), losses=losses)
    run = hf.fit(model, problem, solver=solver, rays_per_step=rays, accumulate=accumulate, **fixed | more)
    return [torch.tensor([[*record["losses"].values()] for record in run.history]), *model.state_dict().values()]


@pytest.mark.parametrize("options", [{"hidden": 6}, {"hypernet": "low_rank", "rank": 1}, {"generate": "2.*"}], ids=str)
@pytest.mark.parametrize(
    ("solver", "rays"),
    [(hf.LS(), 1), (hf.LS(), 3), (hf.EPO(), 1), (hf.EPO(), 3), (HVMax(), 3), (Tchebycheff(), 1)],
    ids=lambda value: type(value).__name__ if isinstance(value, Solver) else str(value),
)
def test_the_micro_batches_of_fit_are_one_program(solver, rays, options):
    expected = accumulated(1, solver=solver, rays=rays, options=options)
    found = accumulated(4, solver=solver, rays=rays, options=options)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_uneven_micro_batches_of_rays_that_share_the_batch():
    common = {"solver": hf.EPO(), "rays": 2, "options": {"hidden": 6}, "share_batch": True}
    torch.testing.assert_close(accumulated(5, **common), accumulated(1, **common), rtol=1e-10, atol=1e-12)


def test_what_micro_batches_cannot_add_up_to_is_refused():
    x = torch.randn(16, 4)
    means = {"left": lambda output, _: output.square().mean(), "right": lambda output, _: (output - 1).square().mean()}
    gap = hf.Gap(lambda output, _: output[:, 0], lambda batch: torch.stack([batch[0][:, 0] > 0, batch[0][:, 0] <= 0]))
    common = {"epochs": 1, "batch_size": 8, "accumulate": 2, "callbacks": []}

    def fit(net: nn.Module, losses: dict, batchnorm: str = "grid", **more) -> None:
        model = hf.wrap(net, [*losses], hidden=6, batchnorm=batchnorm)
        hf.fit(model, hf.supervised(train=(x,), losses=losses), **common | more)

    for batchnorm in ("grid", "batch", "shared"):
        with pytest.raises(HyperfrontError, match="BatchNorm"):
            fit(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), means, batchnorm)
    with pytest.raises(HyperfrontError, match="'right' is no mean over rows"):
        fit(nn.Linear(4, 1), means | {"right": gap})
    with pytest.raises(HyperfrontError, match="'right' is no mean over rows"):
        fit(nn.Linear(4, 1), means | {"right": lambda output, _: output.square().max()})
    with pytest.raises(HyperfrontError, match="too few rows"):
        fit(nn.Linear(4, 1), means, accumulate=9)
    with pytest.raises(HyperfrontError, match="one by one"):
        fit(nn.Linear(4, 1), means, engine="compiled")
