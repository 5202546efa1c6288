"""What hypernetworks are compared with: separate models, CPMTL, evolutionary algorithms, single tasks."""

from __future__ import annotations

import math
import signal
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import hyperfront as hf
from hyperfront import indicators, preferences, solvers
from hyperfront.comparison.baselines import (
    Budget,
    Expansion,
    along_rays,
    evolutionary,
    evolve,
    fit_one_by_one,
    fit_single_tasks,
    fit_stacked,
    ideal_point,
    ideal_volume,
    separate_models,
    starts,
)
from hyperfront.comparison.baselines.curvature import Curvature
from hyperfront.errors import CheckpointError, HyperfrontError
from hyperfront.model.hypernets import SeparateHypernet
from hyperfront.problem import Gathered, SetLoss
from hyperfront.problem.recipe import Recipe
from hyperfront.problem.sources import NoData
from hyperfront.solvers.epo import FEW
from hyperfront.solvers.linalg.minnorm import active_set
from hyperfront.solvers.linalg.planar import shortest_in_plane
from hyperfront.storage import batches
from hyperfront.training import Callback
from hyperfront.zoo import toys
from hyperfront.zoo.lenet import LeNet

RAYS = hf.rays(5, m=2)
SHORT = Recipe(epochs=3, lr=1e-2, batch_size=16)
PER_RAY = [hf.LS(), hf.EPO(), solvers.PMTL(), solvers.MGDA()]


class Net(nn.Module):
    """With BatchNorm, whose statistics are a model's own."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 1))

    def forward(self, x):
        return self.body(x)[:, 0]


def regression(make_target=Net) -> hf.Problem:
    x = torch.randn(160, 4, generator=torch.Generator().manual_seed(1))
    y = torch.stack([x.sum(1), x[:, 0] * x[:, 1]], 1)
    return hf.supervised(
        (x[:96], y[:96]),
        (x[96:128], y[96:128]),
        (x[128:], y[128:]),
        losses={
            "sum": lambda output, batch: (output - batch[1][:, 0]).square().mean(),
            "product": lambda output, batch: (output - batch[1][:, 1]).square().mean(),
        },
        reference=(6, 3),
        make_target=make_target,
    )


def few_steps(problem: hf.Problem, steps: int = 10) -> hf.Problem:
    source = NoData(steps)
    return replace(problem, sources=dict.fromkeys(("train", "val", "test"), source))


# ---- all at once is one by one -------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", PER_RAY, ids=lambda solver: type(solver).__name__)
@pytest.mark.parametrize("optimizer", [None, partial(torch.optim.SGD, lr=0.05, momentum=0.5)], ids=["adam", "sgd"])
def test_training_all_models_at_once_is_training_them_one_by_one(solver, optimizer):
    """SGD, unlike Adam, would see a gradient that is divided by the number of rays."""
    problem, recipe = few_steps(toys.fonseca(variables=4)), replace(SHORT, epochs=2)
    options = {"callbacks": (), "optimizer": optimizer}
    together = fit_stacked(problem, RAYS, solver, recipe, **options)
    apart = fit_one_by_one(problem, RAYS, solver, recipe, **options)
    torch.testing.assert_close(
        together.model.weights(together.front.rays), apart.model.weights(apart.front.rays), atol=1e-5, rtol=1e-4
    )


def test_with_data_both_choose_the_epoch_with_the_best_hypervolume_of_all_models_and_its_statistics(tmp_path):
    problem, recipe = regression(), replace(SHORT, epochs=8, lr=0.3, schedule="constant")
    together = fit_stacked(problem, RAYS, hf.EPO(), recipe, callbacks=(), out=tmp_path / "together")
    apart = fit_one_by_one(problem, RAYS, hf.EPO(), recipe, callbacks=(), out=tmp_path / "apart")
    volumes = [record["validation"]["hypervolume"] for record in together.history]
    assert 0 < volumes.index(max(volumes)) < 7  # neither the first nor the last: there was something to choose
    assert together.front.hypervolume() == pytest.approx(max(volumes))
    torch.testing.assert_close(together.front.losses, apart.front.losses, atol=1e-4, rtol=1e-3)
    assert len(apart.history) == 5 * 8
    again = fit_one_by_one(problem, RAYS, hf.EPO(), recipe, callbacks=(), out=tmp_path / "apart")
    assert torch.equal(again.front.losses, apart.front.losses)
    assert [r["seconds"] for r in again.history] == [r["seconds"] for r in apart.history]  # nothing ran twice


def test_a_run_of_separate_models_loads_like_any_other(tmp_path):
    problem = regression()
    run = fit_stacked(problem, RAYS, solvers.PMTL(), SHORT, callbacks=(), out=tmp_path)
    loaded = hf.load(tmp_path, target=Net())
    torch.testing.assert_close(
        hf.evaluate(loaded, problem.val, run.front.rays).losses, run.front.losses, atol=1e-5, rtol=1e-5
    )
    assert loaded.record["convention"] == "direction"


def test_of_equally_good_epochs_both_ways_keep_the_last():
    problem, recipe = replace(regression(), reference=(1e-9, 1e-9)), replace(SHORT, epochs=3, validate_every=1)
    together = fit_stacked(problem, RAYS, hf.EPO(), recipe, callbacks=())
    apart = fit_one_by_one(problem, RAYS, hf.EPO(), recipe, callbacks=())
    assert {record["validation"]["hypervolume"] for record in together.history} == {0.0}
    torch.testing.assert_close(together.front.losses, apart.front.losses, atol=1e-4, rtol=1e-3)
    assert together.history[0]["validation"]["losses"] != together.history[-1]["validation"]["losses"]


def test_a_population_goes_on_only_as_what_it_is(tmp_path):
    few = Budget(generations=2, population=8)
    evolve("nsga3", toys.vlmop2(), few, out=tmp_path)
    evolve("nsga3", toys.vlmop2(), few, out=tmp_path)  # finished
    with pytest.raises(HyperfrontError, match="of more generations"):
        evolve("nsga3", toys.vlmop2(), replace(few, generations=1), out=tmp_path)
    for name, problem, budget, seed in (
        ("moead", toys.vlmop2(), few, 0),
        ("nsga3", toys.fonseca(), few, 0),
        ("nsga3", toys.vlmop2(), replace(few, population=12), 0),
        ("nsga3", toys.vlmop2(), few, 1),
    ):
        with pytest.raises(CheckpointError, match="made with other settings"):
            evolve(name, problem, budget, seed=seed, out=tmp_path)


# ---- the table of models -------------------------------------------------------------------------------------


def test_a_ray_has_the_weights_of_the_nearest_model_and_trains_no_other():
    hypernet = SeparateHypernet(2, 3, rays=RAYS)
    nn.init.normal_(hypernet.theta)
    rays = torch.tensor([[0.52, 0.48], [0.05, 0.95]])
    assert torch.equal(hypernet(rays), hypernet.theta[[2, 4]])
    hypernet(rays).sum().backward()
    assert hypernet.theta.grad.ne(0).any(1).tolist() == [False, False, True, False, True]


def test_every_model_has_the_batchnorm_statistics_of_its_own_weights():
    problem = regression()
    rays = preferences.rays(40, 2)  # closer together than the grid that a hypernetwork's statistics are kept on
    model = separate_models(problem, rays, starts(problem, 40, 0)).eval()
    x = problem.train.source.data[0]
    model.calibrate([x])
    for ray in (0, 17, 39):
        plain = problem.make_target()
        nn.utils.vector_to_parameters(model.weights(rays[ray])[0].detach(), plain.parameters())
        plain.body[1].momentum = None  # the mean over all batches seen
        plain.train()(x)
        torch.testing.assert_close(model(x, rays[ray])[0], plain.eval()(x))


def test_starts_depend_on_seed_and_number_alone():
    problem = regression()
    assert torch.equal(starts(problem, 5, 3)[2:4], starts(problem, [2, 3], 3))
    assert not torch.equal(starts(problem, 1, 3), starts(problem, 1, 4))
    assert starts(toys.zdt2(), 50, 0).abs().max() <= math.pi / 4
    assert starts(toys.fonseca(), 50, 0).norm(dim=1).mean() == pytest.approx(1, abs=0.1)


# ---- known fronts --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fonseca() -> tuple[hf.Problem, dict[str, hf.Run]]:
    problem = toys.fonseca(variables=10)
    recipe = Recipe(epochs=8, lr=2e-2)
    return problem, {type(s).__name__: fit_stacked(problem, RAYS, s, recipe, callbacks=()) for s in PER_RAY}


@pytest.mark.parametrize("name", ["LS", "EPO", "PMTL", "MGDA"])
def test_every_model_ends_on_the_front(fonseca, name):
    problem, runs = fonseca
    assert problem.truth.distance(runs[name].front.losses).max() < 1e-4


def test_on_a_concave_front_linear_scalarization_ends_at_the_extremes(fonseca):
    assert fonseca[1]["LS"].front.losses.amin(1).max() < 0.05


def test_epo_ends_on_the_rays(fonseca):
    front = fonseca[1]["EPO"].front
    assert indicators.uniformity(front.losses, front.rays).min() > 0.9999


def test_pmtl_ends_in_the_cones_of_the_rays_but_not_on_them(fonseca):
    front = fonseca[1]["PMTL"].front
    angles = torch.stack([indicators.cross_angle(front.losses, ray.expand(5, 2)) for ray in front.rays])
    assert (angles.argmin(0) == torch.arange(5)).all()
    assert angles.diagonal().max() > 1
    torch.testing.assert_close(
        preferences.convert(front.rays, "direction", "inverse"), RAYS
    )  # asked for the same points


def test_mgda_ends_somewhere(fonseca):
    """On the front, as the first test says, but near where it began instead of on its ray."""
    front = fonseca[1]["MGDA"].front
    assert indicators.uniformity(front.losses, front.rays).min() < 0.9


def test_in_a_box_epo_ends_on_the_rays_from_random_starts():
    front = fit_stacked(toys.zdt2(), RAYS, hf.EPO(), Recipe(epochs=6, lr=3e-2), callbacks=()).front
    assert indicators.uniformity(front.losses, front.rays).min() > 0.999


# ---- nothing is read from the device -------------------------------------------------------------------------


def test_weights_of_two_objectives_are_found_without_reading_from_the_device():
    """A fake tensor has no numbers, so whatever reads one fails; a step that passes can become a CUDA graph."""
    rays = hf.rays(FEW + 1, m=2)  # up to FEW rays are plain numbers, but only on the CPU
    tried = [hf.LS(), hf.EPO(), solvers.MGDA(), solvers.PMTL(), solvers.PMTL(references=rays.tolist())]
    grads = torch.randn(len(rays), 2, 7, dtype=torch.float64)
    given = (torch.rand(len(rays), 2, dtype=torch.float64) + 0.1, rays, grads @ grads.mT)
    hypernet = SeparateHypernet(2, 3, rays=rays)
    for solver in tried:
        solver(*given)  # what is made once is made here
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            assert solver(*(mode.from_tensor(tensor) for tensor in given))[0].shape == rays.shape
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        hypernet(mode.from_tensor(rays.float())).sum().backward()


def test_the_shortest_vector_in_the_plane_is_that_of_the_active_set_method():
    generator = torch.Generator().manual_seed(0)
    for count in (2, 3, 7):
        points = torch.randn(600, count, 2, generator=generator, dtype=torch.float64)
        points[::3] += 1.5  # 0 is not always inside
        points[::5] = points[::5, :1] * torch.randn(120, count, 1, generator=generator)  # on a line
        points[::7, 1] = points[::7, 0]
        alpha = shortest_in_plane(points)
        assert alpha.min() >= 0 and torch.allclose(alpha.sum(1), torch.ones(600, dtype=torch.float64))
        found, known = ((a[:, None] @ points).norm(dim=-1) for a in (alpha, active_set(points @ points.mT)))
        torch.testing.assert_close(found, known, atol=1e-10, rtol=0)


@pytest.mark.gpu
@pytest.mark.parametrize("solver", PER_RAY, ids=lambda solver: type(solver).__name__)
def test_as_a_cuda_graph_the_models_are_the_same(solver):
    problem, options = toys.fonseca(variables=10), {"device": "cuda", "callbacks": ()}
    graph, eager = (
        fit_stacked(problem, RAYS, solver, SHORT, engine=engine, **options).front.losses
        for engine in ("graph", "eager")
    )
    torch.testing.assert_close(graph, eager, atol=1e-4, rtol=1e-3)


# ---- CPMTL ---------------------------------------------------------------------------------------------------


def quadratics() -> tuple[hf.Problem, hf.ParetoModel, torch.Tensor, torch.Tensor]:
    """Two quadratic objectives in float64, and the minimizer of a weighted sum of them."""
    generator = torch.Generator().manual_seed(0)
    roots = torch.randn(2, 6, 6, dtype=torch.float64, generator=generator)
    hessians, centers = roots @ roots.mT + torch.eye(6), torch.randn(2, 6, dtype=torch.float64, generator=generator)

    def function(x):
        away = x - centers
        return 0.5 * torch.einsum("ji,jik,jk->j", away, hessians, away)

    problem = hf.analytic(function, variables=6, reference=(50, 50))
    weights = torch.tensor([0.3, 0.7], dtype=torch.float64)
    total = torch.einsum("j,jik->ik", weights, hessians)
    theta = torch.linalg.solve(total, torch.einsum("j,jik,jk->i", weights, hessians, centers))
    return problem, problem.model().double(), theta, total


@pytest.mark.parametrize("objective", [0, 1])
@pytest.mark.parametrize("damping", [0.0, 0.1])
def test_the_tangent_solves_its_equation_with_the_dense_hessian(objective, damping):
    problem, model, theta, hessian = quadratics()
    curvature = Curvature(model, problem, 1)
    found = Expansion(damping=damping, tolerance=1e-12).tangent(curvature, theta, objective)
    gradient = torch.func.jacrev(problem.function)(theta)[objective]
    dense = hessian + damping * torch.eye(6, dtype=torch.float64)
    torch.testing.assert_close(dense @ found, gradient, atol=1e-8, rtol=1e-8)
    assert gradient @ found > 0  # against it, the objective falls


def test_along_the_tangent_points_stay_pareto_stationary_to_first_order():
    problem, model, theta, _ = quadratics()

    def residual(length: float) -> float:
        point, _ = Expansion(steps=1, length=length, damping=0.0, tolerance=1e-12).expand(model, problem, theta[None])
        grads = torch.func.jacrev(problem.function)(point)
        return (active_set((grads @ grads.T)[None])[0] @ grads).norm().item()

    assert residual(1e-3) < 1e-4
    assert residual(5e-4) == pytest.approx(residual(1e-3) / 4, rel=0.05)


@pytest.mark.parametrize("objective", [0, 1])
def test_a_step_that_would_overshoot_is_halved_until_its_objective_falls(objective):
    problem, model, theta, _ = quadratics()
    curvature = Curvature(model, problem, 1)
    before = problem.function(theta)[objective]
    whole, halved = (
        Expansion(length=30.0, damping=0.0, tolerance=1e-12, halvings=most).step(curvature, theta, objective)
        for most in (0, 10)
    )
    assert problem.function(whole)[objective] > before > problem.function(halved)[objective]
    steps = torch.log2(30.0 / (halved - theta).norm()).round()
    assert 0 < steps <= 10
    torch.testing.assert_close((whole - theta) / 2**steps, halved - theta)


def test_from_the_extremes_expansion_goes_along_the_front(fonseca):
    problem, runs = fonseca
    run = runs["LS"]
    starts = run.model.weights(run.front.rays).detach()
    patches = [torch.stack([theta, *Expansion().expand(run.model, problem, theta[None])]) for theta in starts]
    labels = preferences.rays(55, 2)
    front = hf.evaluate(separate_models(problem, labels, torch.cat(patches)), problem, labels)
    assert front.hypervolume() > 2 * run.front.hypervolume()
    good = indicators.nondominated(front.losses)
    assert problem.truth.distance(front.losses[good]).max() < 1e-3


def test_expansion_crosses_a_concave_front(fonseca):
    """Where a weighted sum of the objectives has no minimum, the Hessian is not positive."""
    problem, runs = fonseca
    model = runs["LS"].model
    start = model.weights(runs["LS"].front.rays[:1]).detach()
    ahead = problem.function(start[0]).argmax().item()  # the objective that is not at its least yet
    points = torch.cat([start, *(p[None] for p in Expansion(steps=15).expand(model, problem, start))])
    chain = [0, *range(1 + 15 * ahead, 16 + 15 * ahead)]
    along = torch.stack([problem.function(point) for point in points[chain]])[:, ahead]
    assert (along.diff() < 0).all()
    assert along[-1] < 0.3 < 0.9 < along[0]


def test_products_with_the_hessian_of_a_network_with_fused_layers_are_differences_of_gradients():
    generator = torch.Generator().manual_seed(0)
    x, y = torch.rand(16, 1, 36, 36, generator=generator), torch.randint(10, (16,), generator=generator)
    problem = hf.supervised(
        (x.double(), y),
        losses={
            "left": lambda output, batch: nn.functional.cross_entropy(output[0], batch[1]),
            "right": lambda output, batch: nn.functional.cross_entropy(output[1], 9 - batch[1]),
        },
        make_target=LeNet,
    )
    theta = starts(problem, 1, 0)[0].double()
    curvature = Curvature(problem.model(hypernet="separate", rays=RAYS).double(), problem, 16)
    alpha, v = torch.tensor([0.4, 0.6], dtype=torch.float64), torch.randn(len(theta), generator=generator).double()
    v /= v.norm()
    step = 1e-6
    ahead, behind = (alpha @ curvature.gradients(theta + sign * step * v) for sign in (1, -1))
    torch.testing.assert_close(curvature.hessian(theta, alpha)(v), (ahead - behind) / (2 * step), atol=1e-6, rtol=1e-3)


def test_losses_and_gradients_are_those_over_all_rows_however_they_are_split():
    """A gap between groups is no mean over batches."""
    generator = torch.Generator().manual_seed(0)
    x, group = torch.randn(50, 3, generator=generator).double(), torch.arange(50) % 7 == 0

    def sums(output, batch):
        chosen = batch[1][:, None]
        return torch.stack([(output * chosen).sum(), chosen.sum(), (output * ~chosen).sum(), (~chosen).sum()])

    problem = hf.supervised(
        (x, group),
        losses={
            "gap": SetLoss(sums, lambda s: (s[0] / s[1] - s[2] / s[3]).square()),
            "size": lambda output, batch: output.square().mean(),
        },
        scale={"gap": 0.5, "size": 4.0},
        make_target=lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)),
    )
    model, theta = problem.model(hypernet="separate", rays=RAYS).double(), starts(problem, 1, 0)[0].double()

    def losses(t: torch.Tensor) -> torch.Tensor:
        return torch.stack(problem.each_loss(model.target.network(t), (x, group)))

    for rows in (50, 11):
        curvature = Curvature(model, problem, rows)
        torch.testing.assert_close(curvature.losses(theta), losses(theta))
        torch.testing.assert_close(curvature.gradients(theta), torch.func.jacrev(losses)(theta))


def test_cpmtl_refuses_losses_that_gather_all_outputs():
    problem = hf.supervised(
        (torch.ones(8, 1), torch.ones(8, 1)),
        losses={"all": Gathered(lambda o, b: o.max()), "one": lambda o, b: o.square().mean()},
        make_target=lambda: nn.Linear(1, 1),
    )
    curvature = Curvature(problem.model(hypernet="separate", rays=RAYS), problem, 4)
    with pytest.raises(HyperfrontError, match="functions of sums"):
        curvature.gradients(starts(problem, 1, 0)[0])


# ---- evolutionary algorithms ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nsga3", "moead"])
def test_a_small_budget_comes_near_the_true_front(name):
    problem = toys.vlmop2()
    found = evolve(name, problem, Budget(generations=60, population=40))
    labels = preferences.rays(len(found.theta), 2)
    front = hf.evaluate(separate_models(problem, labels, found.theta), problem, labels)
    assert indicators.igd_plus(front.losses, problem.truth.points) < 0.03
    chosen = hf.evaluate(separate_models(problem, RAYS, along_rays(problem, found.theta, RAYS)), problem, RAYS)
    assert chosen.uniformity() > 0.99
    assert indicators.nondominated(chosen.losses).all()


@pytest.mark.parametrize("name", ["nsga3", "moead"])
@pytest.mark.parametrize("at", [2, 4, 6])  # within the first block, at its end, within the second
def test_an_interrupted_evolution_goes_on_from_that_generation_to_the_same_population(name, at, tmp_path, monkeypatch):
    monkeypatch.setattr(evolutionary, "BLOCK", 4)
    problem, budget, calls = toys.zdt1(variables=3), Budget(generations=10, population=12), []
    whole = evolve(name, problem, budget, seed=2)

    def ctrl_c() -> None:
        calls.append(1)
        if len(calls) == at:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        evolve(name, problem, budget, seed=2, out=tmp_path, progress=ctrl_c)
    assert len(calls) == at
    calls.clear()
    again = evolve(name, problem, budget, seed=2, out=tmp_path, progress=lambda: calls.append(1))
    assert torch.equal(again.theta, whole.theta)
    assert len(calls) == 10 - at


@pytest.mark.parametrize("name", ["nsga3", "moead"])
def test_a_longer_evolution_goes_on_from_a_shorter_one_as_if_it_were_one(name, tmp_path):
    problem, few, many = toys.vlmop2(), Budget(generations=3, population=8), Budget(generations=7, population=8)
    evolve(name, problem, few, out=tmp_path)
    assert torch.equal(evolve(name, problem, many, out=tmp_path).theta, evolve(name, problem, many).theta)


def test_an_evolution_that_is_killed_loses_less_than_what_it_keeps_every(tmp_path, monkeypatch):
    monkeypatch.setattr(evolutionary, "KEEP_EVERY", 0.0)
    problem, budget, calls = toys.vlmop2(), Budget(generations=6, population=8), []

    def fail() -> None:
        calls.append(1)
        if len(calls) == 4:
            raise MemoryError

    with pytest.raises(MemoryError):
        evolve("nsga3", problem, budget, out=tmp_path, progress=fail)
    again = evolve("nsga3", problem, budget, out=tmp_path, progress=lambda: calls.append(1))
    assert len(calls) == 4 + 3 and torch.equal(again.theta, evolve("nsga3", problem, budget).theta)


class Plain(nn.Module):
    """Its output is its two weights."""

    def __init__(self):
        super().__init__()
        self.weights = nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weights.expand(len(x), 2)


def weighed(seen: list[int]) -> hf.Problem:
    """The losses are the two weights, on test data in the other order; ``seen`` gets the size of every batch."""

    def loss(j: int, output: torch.Tensor, batch: tuple) -> torch.Tensor:
        seen.append(len(output))
        return torch.where(batch[0] > 0, output[:, j], output[:, 1 - j]).mean()

    train, test = (torch.ones(80),), (-torch.ones(40),)
    losses = {"first": partial(loss, 0), "second": partial(loss, 1)}
    return hf.supervised(train, train, test, losses=losses, reference=(2, 2), make_target=Plain)


def test_at_each_ray_the_individual_is_taken_that_is_nearest_on_validation_data_and_not_dominated():
    theta = torch.tensor([[0.9, 0.9], [0.2, 0.8], [0.5, 0.5], [0.8, 0.2]])  # the first one is dominated
    rays = torch.tensor([[0.5, 0.5], [0.8, 0.2], [0.2, 0.8]], dtype=torch.float64)
    assert torch.equal(along_rays(weighed([]), theta, rays), theta[[2, 1, 3]])


def test_individuals_are_measured_on_as_many_rows_as_the_budget_says():
    seen: list[int] = []
    evolve("nsga3", weighed(seen), Budget(generations=2, population=5, rows=32))
    assert set(seen) == {32}


def test_networks_with_batch_norm_are_refused():
    data = torch.ones(8, 2), torch.ones(8, 1)
    losses = {"a": lambda o, b: o.square().mean(), "b": lambda o, b: (o - 1).square().mean()}
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    with pytest.raises(HyperfrontError, match="BatchNorm"):
        evolve("nsga3", hf.supervised(data, losses=losses, make_target=lambda: net), Budget(generations=1))


# ---- single tasks --------------------------------------------------------------------------------------------


def test_single_tasks_reach_the_ideal_point():
    run = fit_single_tasks(toys.fonseca(variables=4), Recipe(epochs=5, lr=3e-2), callbacks=())
    assert ideal_point(run.front).max() < 1e-3
    assert ideal_volume(run.front) == pytest.approx(1, abs=2e-3)


def test_single_tasks_keep_the_epoch_with_the_best_ideal_point():
    run = fit_single_tasks(regression(), replace(SHORT, epochs=6, lr=0.2), callbacks=())
    reached = [
        math.prod(max(0, r - losses[j][j]) for j, r in enumerate((6, 3)))
        for losses in (record["validation"]["losses"] for record in run.history)
    ]
    assert ideal_volume(run.front) == pytest.approx(max(reached))
    assert reached.index(max(reached)) != 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p, r: evolve("nsga2", p, Budget(generations=1)), "unknown evolutionary algorithm"),
        (lambda p, r: fit_stacked(p, RAYS, "ls", r), "no solver"),
        (lambda p, r: fit_one_by_one(p, RAYS, "ls", r), "no solver"),
        (lambda p, r: fit_stacked(p, RAYS[:0], hf.LS(), r), "no rays"),
        (lambda p, r: fit_one_by_one(p, RAYS, hf.LS(), r, seed=-1), "a seed cannot be negative"),
    ],
)
def test_what_cannot_be_trained_is_named(call, message):
    with pytest.raises(HyperfrontError, match=message):
        call(toys.vlmop2(), Recipe(epochs=1))


def test_expansion_along_an_objective_lowers_it():
    problem, model, theta, _ = quadratics()
    points = [*Expansion(steps=2, length=1e-3, tolerance=1e-12).expand(model, problem, theta[None])]
    for objective, path in enumerate(torch.stack(points).view(problem.m, 2, -1)):
        losses = [problem.function(point)[objective].item() for point in (theta, *path)]
        assert losses[0] > losses[1] > losses[2]


@pytest.mark.parametrize(("asked", "taken"), [(11, 11), (96, 96), (2048, 96)])
def test_the_sample_of_rows_is_no_larger_than_the_data(asked, taken):
    problem = regression()
    assert batches.rows(Curvature(problem.model(hypernet="separate", rays=RAYS), problem, asked).batch) == taken


def test_one_by_one_tells_of_every_epoch_of_every_model_and_leaves_them_at_rest():
    class Count(Callback):
        epochs = 0

        def epoch_ended(self, record):
            self.epochs += 1

    count = Count()
    run = fit_one_by_one(regression(), RAYS[:2], hf.LS(), SHORT, callbacks=[count])
    assert count.epochs == 2 * SHORT.epochs == len(run.history) and not run.model.training
