"""Every solver on known fronts: how much of the front it finds, how well it keeps to the rays, what a step costs.

Prints two Markdown tables, which are those of docs/which-solver.md. All solvers train the same hypernetwork for the
same number of steps from the same seeds with their defaults; only "LS, tuned" has its learning rate and distribution of
rays chosen, by the hypervolume of seed 0, from the grid below.

- HV: hypervolume at the evaluation rays, as a share of that of the true front at the same rays. The evaluation rays are
  25 for two objectives and 45 beyond. The true front at a ray is the point with equal ``r_j l_j``, or for solvers of
  the direction convention the one parallel to the ray. LS and MGDA promise no place and are compared with the former.
- whole: hypervolume of the learned front at about 500 rays, as a share of that of the whole true front, which is exact.
- kept: mean uniformity (natural logarithm), or for solvers of the direction convention the mean angle in degrees.
- ms: milliseconds per training step with its optimizer, the least of several rounds that the solvers take in turns.

    python benchmarks/solvers.py --steps 1500 --seeds 3 --jobs 2
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

import hyperfront as hf
from hyperfront import indicators, solvers
from hyperfront.preferences import das_dennis
from hyperfront.problem.registry import build, recipe

PROBLEMS = {
    "fonseca": ("fonseca", {}),
    "zdt2": ("zdt2", {}),
    "vlmop2": ("vlmop2", {}),
    "dtlz2, m = 3": ("dtlz2", {"m": 3}),
    "dtlz2, m = 5": ("dtlz2", {"m": 5}),
    "zdt1": ("zdt1", {}),  # the one convex front
}
SOLVERS = {
    "EPO": hf.EPO(),
    "Tchebycheff": solvers.Tchebycheff(),
    "SmoothTchebycheff": solvers.SmoothTchebycheff(),
    "PBI": solvers.PBI(),
    "COSMOS(5)": solvers.COSMOS(5.0),
    "PMTL": solvers.PMTL(),
    "HVMax": solvers.HVMax(),
    "MGDA": solvers.MGDA(),
    "LS": hf.LS(),
}
TUNED = "LS, tuned"
LR, HIDDEN, RAYS_PER_STEP = 3e-3, 100, 16
ROUNDS, STEPS = 9, 25  # for the time of a step
GRID = list(itertools.product((1e-3, 3e-3, 1e-2), (0.2, 1.0)))  # learning rate, Dirichlet concentration


@dataclass(frozen=True)
class Task:
    problem: str
    solver: str
    seed: int
    steps: int
    lr: float
    alpha: float


@dataclass(frozen=True)
class Result:
    volume: float  # at the evaluation rays, beside the true front there
    whole: float
    kept: float
    distance: float


def run(task: Task) -> Result:
    torch.set_num_threads(1)
    name, arguments = PROBLEMS[task.problem]
    problem = build(name, **arguments)
    solver = SOLVERS["LS" if task.solver == TUNED else task.solver]
    torch.manual_seed(task.seed)
    epochs = task.steps // 100
    trained = hf.fit(
        problem.model(hidden=HIDDEN),
        problem,
        solver=solver,
        preferences=hf.Dirichlet(task.alpha),
        epochs=epochs,
        rays_per_step=RAYS_PER_STEP,
        lr=task.lr,
        seed=task.seed,
        callbacks=[],
        validate_every=epochs,
        validation_rays=25 if problem.m == 2 else 45,
    )
    front = trained.front
    direction = solver.convention == "direction"
    truth = indicators.hypervolume(true_points(problem, front.rays, direction), problem.reference)
    dense = front.evaluator(dense_rays(problem.m))
    measure = indicators.cross_angle if direction else indicators.uniformity
    return Result(
        volume=indicators.hypervolume(front.losses, problem.reference) / truth,
        whole=indicators.hypervolume(dense.losses, problem.reference) / problem.truth.hypervolume,
        kept=float(measure(front.losses, front.rays).mean()),
        distance=float(problem.truth.distance(front.losses).max()),
    )


def milliseconds(problem_name: str, rounds: int) -> dict[str, float]:
    """Time of a step for every solver."""
    torch.set_num_threads(1)
    name, arguments = PROBLEMS[problem_name]
    problem, generator = build(name, **arguments), torch.Generator().manual_seed(0)
    steps, optimizers, best = {}, {}, dict.fromkeys(SOLVERS, float("inf"))
    for solver in SOLVERS:
        torch.manual_seed(0)
        model = problem.model(hidden=HIDDEN)
        steps[solver] = hf.Step(model, problem, SOLVERS[solver])
        optimizers[solver] = torch.optim.Adam(model.parameters(), lr=LR)
    preferences = hf.Dirichlet(recipe(name).alpha)
    for _, solver in itertools.product(range(rounds), SOLVERS):
        rays = preferences.sample(STEPS * RAYS_PER_STEP, problem.m, generator).float().split(RAYS_PER_STEP)
        start = time.perf_counter()
        for some in rays:
            optimizers[solver].zero_grad(set_to_none=True)
            steps[solver](some, ())
            optimizers[solver].step()
        best[solver] = min(best[solver], 1e3 * (time.perf_counter() - start) / STEPS)
    return best | {TUNED: best["LS"]}


def dense_rays(m: int) -> Tensor:
    return das_dennis(m, {2: 500, 3: 30, 5: 8}[m])


def true_points(problem: hf.Problem, rays: Tensor, direction: bool) -> Tensor:
    """Where the rays meet the true front: on the unit sphere, or between the points that the curve is given by."""
    towards = normalize(rays if direction else 1 / rays.clamp_min(1e-9), dim=-1)
    if problem.m > 2:
        return towards
    points = problem.truth.points.numpy()
    points = points[np.arctan2(points[:, 1], points[:, 0]).argsort()]
    angles, wanted = (np.arctan2(p[:, 1], p[:, 0]) for p in (points, towards.numpy()))
    return torch.from_numpy(np.stack([np.interp(wanted, angles, column) for column in points.T], -1))


def best_of_grid(
    pool: ProcessPoolExecutor, problem: str, steps: int, grid: Sequence[tuple[float, float]]
) -> tuple[float, float]:
    results = list(pool.map(run, [Task(problem, TUNED, 0, steps, lr, alpha) for lr, alpha in grid]))
    return grid[max(range(len(grid)), key=lambda i: results[i].whole)]


def cell(values: list[float], digits: int) -> str:
    """Mean and, if it shows, half the range over the seeds."""
    mean, half = statistics.fmean(values), (max(values) - min(values)) / 2
    return f"{mean:.{digits}f}" + (f" ± {half:.{digits}f}" if half >= 0.5 * 10**-digits else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=PROBLEMS)
    parser.add_argument("--quick", action="store_true", help="smallest settings: shows in seconds that the script runs")
    options = parser.parse_args()
    if options.quick:
        options.steps, options.seeds, options.problems = 100, 1, ["fonseca"]
    print(
        f"{options.steps} Adam steps of {RAYS_PER_STEP} rays, lr {LR} falling along a cosine, hidden {HIDDEN}; "
        f"seeds 0 to {options.seeds - 1}, mean ± half their range; torch {torch.__version__}, Python "
        f"{platform.python_version()}, {platform.machine()} CPU with {os.cpu_count()} cores, one thread a run, "
        f"{options.jobs} runs at a time\n"
    )
    table: dict[tuple[str, str], list[Result]] = {}
    times: dict[str, dict[str, float]] = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        print("| problem | solver | HV | whole | kept | largest distance | ms |\n|---|---|---|---|---|---|---|")
        for problem in options.problems:
            alpha = recipe(PROBLEMS[problem][0]).alpha
            settings = dict.fromkeys(SOLVERS, (LR, alpha))
            settings[TUNED] = best_of_grid(pool, problem, options.steps, GRID[:1] if options.quick else GRID)
            tasks = [
                Task(problem, name, seed, options.steps, *setting)
                for name, setting in settings.items()
                for seed in range(options.seeds)
            ]
            for task, result in zip(tasks, pool.map(run, tasks)):
                table.setdefault((problem, task.solver), []).append(result)
            times[problem] = milliseconds(
                problem, 1 if options.quick else ROUNDS
            )  # nothing else of ours runs meanwhile
            truth_row(problem)
            for name, (lr, concentration) in settings.items():
                label = f"{name}: lr {lr:g}, alpha {concentration:g}" if name == TUNED else name
                print(
                    f"| {problem} | {label} | {' | '.join(row(table[problem, name], name, times[problem][name]))} |",
                    flush=True,
                )
    print("\n| solver | " + " | ".join(options.problems) + " |\n|---|" + "---|" * len(options.problems))
    for name in [*SOLVERS, TUNED]:
        cells = [
            " / ".join(row(table[problem, name], name, times[problem][name], spread=False))
            for problem in options.problems
        ]
        print(f"| {name} | " + " | ".join(cells) + " |")


def truth_row(problem_name: str) -> None:
    """What the dense rays would give on the true front itself."""
    name, arguments = PROBLEMS[problem_name]
    problem = build(name, **arguments)
    shares = [
        indicators.hypervolume(true_points(problem, dense_rays(problem.m), direction), problem.reference)
        / problem.truth.hypervolume
        for direction in (False, True)
    ]
    print(f"| {problem_name} | *true front: equal r l, direction* | 1 | {shares[0]:.3f}, {shares[1]:.3f} | | 0 | |")


def row(results: list[Result], name: str, step: float, *, spread: bool = True) -> list[str]:
    """HV, whole, kept, distance, ms; or without the spread over seeds HV, kept and ms."""
    direction = name in SOLVERS and SOLVERS[name].convention == "direction"
    cells = [cell([r.volume for r in results], 3), cell([r.whole for r in results], 3)]
    cells += [cell([r.kept for r in results], 2 if direction else 4) + "°" * direction]
    cells += [f"{max(r.distance for r in results):.0e}", f"{step:.1f}"]
    if spread:
        return cells
    means = [text.split(" ±")[0].rstrip("°") for text in cells]
    return [means[0], means[2] + "°" * direction, means[4]]


if __name__ == "__main__":
    main()
