"""One model per ray: what a step of all models costs at once, and one by one. Random data of the paper's shapes."""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import warnings

import torch

import hyperfront as hf
from hyperfront.comparison.baselines import fit_stacked, with_references
from hyperfront.problem import Problem
from hyperfront.problem.recipe import Recipe
from hyperfront.problem.registry import build, recipe
from hyperfront.solvers import PMTL, Solver
from stopwatch.cases import make_case

RAYS = {"fonseca": 5, "multi-fashion-mnist": 5, "adult": 10, "sarcos": 20}
SOLVERS = {"ls": hf.LS(), "epo": hf.EPO(), "pmtl": PMTL()}


def problem_of(name: str, steps: int) -> tuple[Problem, Recipe]:
    """The problem with an epoch of at most that many steps."""
    if name == "fonseca":
        return build(name), recipe(name).for_separate_models()
    case = make_case(name, None).shortened(steps)
    return case.problem, case.recipe.for_separate_models()


def milliseconds(problem: Problem, rays: torch.Tensor, solver: Solver, recipe: Recipe, device: str) -> float:
    """Of a step, in the last of two epochs."""
    few = dataclasses.replace(recipe, epochs=2, validate_every=2)
    run = fit_stacked(problem, rays, solver, few, device=device, callbacks=())
    return 1e3 * run.history[-1]["seconds"] / problem.train.source.steps(recipe.batch_size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, help="steps in an epoch (default: 8 on a CPU, 200 on a GPU)")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="smallest settings: shows in seconds that the script runs")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.steps, arguments.turns = 2, 1
    counts = {"fonseca": 2, "adult": 2} if arguments.quick else RAYS
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # without validation data nothing is selected
    steps = arguments.steps or (8 if arguments.device == "cpu" else 200)
    print(f"milliseconds a step of all models, median of {arguments.turns}, {arguments.device}\n")
    print("| problem | models | method | at once | one by one | faster by |\n|---|---|---|---|---|---|")
    for name, count in counts.items():
        problem, settings = problem_of(name, steps)
        rays = hf.rays(count, problem.m)
        for method, plain in SOLVERS.items():
            if method == "pmtl" and problem.m > 3:  # as in the paper
                continue
            solver = with_references(plain, rays)
            turns = [  # in turn, so that both share what else the machine does
                [milliseconds(problem, given, solver, settings, arguments.device) for given in (rays, rays[:1])]
                for _ in range(arguments.turns)
            ]
            together, alone = (statistics.median(column) for column in zip(*turns))
            apart = alone * count
            print(
                f"| {name} | {count} | {method} | {together:.2f} | {apart:.2f} | {apart / together:.1f}x |", flush=True
            )


if __name__ == "__main__":
    main()
