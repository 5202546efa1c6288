"""Algorithm 1: the gradients of a step are those that autograd finds for the weighted loss, for every solver."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import hyperfront as hf
from hyperfront.errors import LossError
from hyperfront.solvers import Status
from hyperfront.training.step import Step
from hyperfront.training.try_out import try_out
from tests.helpers.modules import ConvNet, TwoInputs, mlp

RAYS = torch.tensor([[0.5, 0.5], [0.9, 0.1]])


def regression(module: nn.Module, **options) -> tuple[hf.ParetoModel, hf.Problem, tuple]:
    torch.manual_seed(0)
    model = hf.wrap(module, ["small", "large"], hidden=8, **options)
    batch = (torch.randn(8, 5), torch.randn(8, 3))
    problem = hf.supervised(
        batch,
        losses={
            "small": lambda output, batch: output.square().mean(),
            "large": lambda output, batch: (output - batch[1]).abs().mean(),
        },
    )
    return model, problem, batch


def gradients(model: hf.ParetoModel) -> list[torch.Tensor]:
    return [p.grad.clone() for p in model.parameters()]


def by_autograd(model, problem, rays, batch, weights, *, split):
    """The gradient of sum_r sum_j w_rj l_rj / R through everything at once."""
    for p in model.parameters():
        p.grad = None
    total = 0
    for r, ray in enumerate(rays):
        part = tuple(t.chunk(len(rays))[r] for t in batch) if split else batch
        output = model(part[0], ray)[0]
        losses = torch.stack([f(output, part) for f in problem.measures.values()])
        total = total + (weights[r] * losses).sum() / len(rays)
    total.backward()
    return gradients(model)


@pytest.mark.parametrize("solver", [hf.LS(), hf.EPO(), hf.EPO(space="hypernetwork")], ids=str)
@pytest.mark.parametrize("rays", [RAYS, RAYS[:1]], ids=["two rays", "one ray"])
@pytest.mark.parametrize("generate", ["*", "0.*"], ids=["all generated", "some trained directly"])
@pytest.mark.parametrize("share", [True, False], ids=["shared batch", "split batch"])
def test_gradients_are_those_of_the_weighted_loss(solver, rays, generate, share):
    model, problem, batch = regression(mlp(), generate=generate)
    result = Step(model, problem, solver, share_batch=share)(rays, batch)
    found = gradients(model)
    expected = by_autograd(model, problem, rays, batch, result.weights, split=not share)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-4)


def test_the_gram_handed_to_the_solver_is_that_of_the_objectives_gradients():
    seen = {}

    class Spy(hf.EPO):
        def __call__(self, losses, rays, gram=None):
            seen[self.space] = gram
            return super().__call__(losses, rays, gram)

    model, problem, batch = regression(mlp())
    for space in ("weights", "hypernetwork"):
        Step(model, problem, Spy(space=space), share_batch=True)(RAYS, batch)
    for r, ray in enumerate(RAYS):
        theta = model.hypernet(ray[None])
        losses = problem.losses(model.target.network(theta[0]), batch)
        for space, wanted in (("weights", [theta]), ("hypernetwork", list(model.hypernet.parameters()))):
            rows = [torch.autograd.grad(loss, wanted, retain_graph=True) for loss in losses]
            jacobian = torch.stack([torch.cat([g.flatten() for g in row]) for row in rows]).double()
            torch.testing.assert_close(seen[space][r], jacobian @ jacobian.T, rtol=1e-4, atol=1e-8)


def test_the_loop_of_one_s_own_gives_the_same_gradient_as_the_step():
    model, problem, batch = regression(mlp())
    Step(model, problem, hf.EPO(), share_batch=True)(RAYS, batch)
    expected = gradients(model)
    model.zero_grad()
    x, y = batch
    hf.backward(model, RAYS, lambda net: [net(x).square().mean(), (net(x) - y).abs().mean()], solver=hf.EPO())
    for a, b in zip(gradients(model), expected, strict=True):
        torch.testing.assert_close(a, b)


def test_gradients_add_up_as_with_any_backward():
    model, problem, batch = regression(mlp(), generate="0.*")
    step = Step(model, problem, hf.LS())
    step(RAYS, batch)
    once = gradients(model)
    step(RAYS, batch)
    for a, b in zip(gradients(model), once, strict=True):
        torch.testing.assert_close(a, 2 * b)


def test_a_loss_of_zero_is_floored_under_epo_and_reported():
    model = hf.wrap(nn.Linear(1, 1), ["gap", "error"], hidden=4)
    x = torch.ones(4, 1)
    problem = hf.supervised(
        (x,),
        losses={
            "gap": lambda output, batch: (output.mean() * 0).abs(),
            "error": lambda output, batch: (output - 1).square().mean() + 1,
        },
    )
    result = Step(model, problem, hf.EPO())(RAYS[:1], (x,))
    assert result.status.tolist() == [Status.FLOORED]
    assert result.weights.isfinite().all()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_a_loss_that_is_constant_at_a_step_has_no_gradient_there():
    """A gap between groups of which a batch has none."""
    model, _, batch = regression(mlp(), generate="0.*")
    problem = hf.supervised(
        batch,
        losses={"small": lambda output, batch: output.square().mean(), "large": lambda output, batch: torch.ones(())},
    )
    for solver in (hf.LS(), hf.EPO(), hf.EPO(space="hypernetwork")):
        for rays in (RAYS, RAYS[:1]):
            model.zero_grad()
            result = Step(model, problem, solver)(rays, batch)
            found = gradients(model)
            expected = by_autograd(model, problem, rays, batch, result.weights, split=True)
            for a, b in zip(found, expected, strict=True):
                torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-4)


def assert_refused(solver, bad, message: str) -> None:
    """Both before the first step and by fit, which changes nothing."""
    torch.manual_seed(0)
    model, data = hf.wrap(mlp(), ["good", "bad"]), (torch.ones(4, 5),)
    problem = hf.supervised(data, losses={"good": lambda output, batch: output.square().mean(), "bad": bad})
    before = {k: v.clone() for k, v in model.state_dict().items()}
    with pytest.raises(LossError, match=message):
        try_out(Step(model, problem, solver), RAYS, data)
    with pytest.raises(LossError, match=message):
        hf.fit(model, problem, solver=solver, epochs=1, batch_size=4, callbacks=[])
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda output, batch: output.mean() * float("nan"), "'bad' is NaN at the first step"),
        (lambda output, batch: output.mean() / 0, "'bad' is infinite at the first step"),
        (lambda output, batch: torch.tensor(1.0), "'bad' does not depend on the generated weights"),
        (lambda output, batch: output.detach().square().mean(), "'bad' does not depend on the generated weights"),
        (lambda output, batch: output.square(), "'bad' is not a single number"),
        (lambda output, batch: 3.0, "'bad' is not a single number"),
    ],
)
@pytest.mark.parametrize("solver", [hf.EPO(), hf.LS()], ids=["EPO", "LS"])
def test_a_loss_that_cannot_be_trained_is_named_before_the_first_step(bad, message, solver):
    assert_refused(solver, bad, message)


def test_a_negative_loss_is_named_under_epo_with_the_fix_and_legal_under_ls():
    def negative(output, batch):
        return -output.square().mean() - 1

    assert_refused(hf.EPO(), negative, r"'bad' is negative at the first step[\s\S]*ideal=")
    model, data = hf.wrap(mlp(), ["good", "bad"]), (torch.ones(4, 5),)
    problem = hf.supervised(data, losses={"good": lambda output, batch: output.square().mean(), "bad": negative})
    try_out(Step(model, problem, hf.LS()), RAYS, data)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda output, batch: output["forcast"].mean(), "the key 'forcast' is missing"),
        (lambda output, batch: output.logits.mean(), "has no attribute 'logits'"),
    ],
)
def test_a_loss_that_reads_a_name_that_the_output_has_not_is_named_with_the_output(bad, message):
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(5, 1)

        def forward(self, x):
            return {"forecast": self.layer(x)}

    problem = hf.supervised(
        (torch.ones(4, 5),), losses={"good": lambda output, batch: output["forecast"].square().mean(), "bad": bad}
    )
    with pytest.raises(
        LossError, match=rf"objective 'bad' fails on the first batch: .*{message}[\s\S]*forecast: float32"
    ):
        hf.fit(hf.wrap(Named(), ["good", "bad"]), problem, epochs=1, batch_size=4, callbacks=[])


@pytest.mark.parametrize("rows", [1, 8])
def test_data_that_are_nan_are_named(rows):
    x, wanted = torch.ones(8, 5), torch.ones(8, 1)
    wanted[:rows] = float("nan")  # in one batch of the epoch, and in the first one
    problem = hf.supervised(
        {"x": x, "wanted": wanted},
        losses={
            "good": lambda output, batch: output.square().mean(),
            "bad": lambda output, batch: (output - batch["wanted"]).square().mean(),
        },
        inputs=lambda batch: batch["x"],
    )
    options = {"epochs": 1, "batch_size": 4, "callbacks": []}
    with pytest.raises(LossError, match=r"'bad' is NaN[\s\S]*numbers in batch\[wanted\]"):
        hf.fit(hf.wrap(mlp(), ["good", "bad"]), problem, **options)


def test_an_analytic_objective_that_ignores_the_point_is_named():
    problem = hf.analytic(lambda x: torch.stack([x.square().sum() + 1, torch.ones(())]), variables=3)
    with pytest.raises(LossError, match="'l2' does not depend"):
        hf.fit(problem.model(), problem, epochs=1, callbacks=[])


def test_batchnorm_trains_on_the_statistics_of_the_ray_s_own_batch():
    torch.manual_seed(0)
    model = hf.wrap(ConvNet(), ["a", "b"], hidden=8)
    x = torch.randn(8, 1, 9, 9)
    problem = hf.supervised(
        (x,),
        losses={
            "a": lambda output, batch: output.square().mean(),
            "b": lambda output, batch: (output - 1).square().mean(),
        },
    )
    model.train()
    both = Step(model, problem, hf.LS())(RAYS, (x,)).losses
    for r in range(2):
        alone = Step(model, problem, hf.LS())(RAYS[r : r + 1], (x[4 * r : 4 * r + 4],)).losses
        torch.testing.assert_close(both[r], alone[0])


def test_a_module_with_two_inputs_trains_through_a_dict_of_outputs():
    torch.manual_seed(0)
    batch = {"a": torch.randn(8, 3), "b": torch.randn(8, 2)}
    problem = hf.supervised(
        batch,
        losses={
            "sum": lambda output, batch: output["sum"].square().mean(),
            "hidden": lambda output, batch: (output["hidden"] - 1).square().mean(),
        },
        inputs=lambda batch: {"a": batch["a"], "b": batch["b"]},
    )
    model = hf.wrap(TwoInputs(), ["sum", "hidden"], hidden=8)
    first = hf.evaluate(model, problem.train, rays=RAYS).losses
    hf.fit(model, problem, solver=hf.LS(), epochs=40, batch_size=8, rays_per_step=2, lr=1e-2, callbacks=[])
    last = hf.evaluate(model, problem.train, rays=RAYS).losses
    assert ((RAYS * last).sum(-1) < (RAYS * first).sum(-1)).all()


class TestOwnLoop:
    """What hf.backward refuses, since nobody else looks."""

    @pytest.mark.parametrize(
        ("losses", "message"),
        [
            (lambda net: [net(torch.ones(2, 5)).square().mean()], "1 losses"),
            (lambda net: net(torch.ones(2, 5)).square()[:, :2].T, "'small' is not a single number"),
            (lambda net: [net(torch.ones(2, 5)).mean() * 0 - 1, net(torch.ones(2, 5)).square().mean()], "negative"),
        ],
    )
    def test_losses_that_do_not_fit_are_named(self, losses, message):
        model, _, _ = regression(mlp())
        with pytest.raises(LossError, match=message):
            hf.backward(model, RAYS, losses, solver=hf.EPO())

    def test_losses_of_one_element_are_numbers(self):
        model, _, (x, _) = regression(mlp())
        flat = hf.backward(model, RAYS, lambda net: [net(x).square().mean(), net(x).abs().mean()], solver=hf.LS())
        expected = gradients(model)
        model.zero_grad()
        hf.backward(
            model, RAYS, lambda net: [net(x).square().mean()[None], net(x).abs().mean()[None, None]], solver=hf.LS()
        )
        assert flat.losses.shape == (2, 2)
        for a, b in zip(gradients(model), expected, strict=True):
            torch.testing.assert_close(a, b)

    def test_the_model_remembers_what_its_rays_mean(self):
        model, problem, (x, _) = regression(mlp())
        hf.backward(model, RAYS, lambda net: [net(x).square().mean(), net(x).abs().mean()], solver=hf.LS())
        assert hf.evaluate(model, problem.train, rays=RAYS).convention == "weights"
