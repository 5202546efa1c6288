"""EPO's weights against HiGHS: are they the optimum of the linear program, and how fast are they?

    python benchmarks/epo_against_highs.py --problems 10000 --objectives 2 3 4 5 6 7 8 9 10 --rays 64

The oracle writes the program once more from the definition, in numpy, from products rather than logarithms, and gives
it to scipy's HiGHS, one ray at a time, with rows scaled by their largest entry and tolerances of 1e-10. The weights
that EPO itself returns are put into that program. Off the ray EPO's weights are a mixture of two optima: each is judged
alone, by EPO with a descent of 0 (balance, or dominance on the ray) and of 1 (descent, or dominance). Gap is how far
they are from its optimum, violation by how much they break a constraint, both in those units. An instance without
interior, i.e. where no weights satisfy all constraints by 1e-9 or where the stricter program is infeasible by less than
that, is counted apart: there even feasibility is a matter of rounding.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections import Counter
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import linprog

from hyperfront.solvers import EPO, Status

BAR = 1e-8
INTERIOR = 1e-9
SPEED_BARS = {2: 200, 3: 60, 7: 15}
KINDS = ("generic", "few parameters", "rank 1", "duplicate", "opposite", "zero", "unequal norms", "unequal, low rank")
TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


class Program(NamedTuple):
    """``max c . alpha`` over the simplex with ``A alpha >= b``, scaled."""

    c: np.ndarray
    A: np.ndarray
    b: np.ndarray


def gradients(kind: str, m: int, rng: np.random.Generator) -> np.ndarray:
    """``[m, n]`` of the given kind."""
    G = rng.normal(size=(m, m + 5)) + rng.choice([0.0, 1.0]) * rng.normal(size=m + 5)
    some = rng.permutation(m)
    if kind == "few parameters":
        G = rng.normal(size=(m, max(2, m // 2)))
    elif kind == "rank 1":
        G = rng.normal(size=(m, 1)) * rng.normal(size=(1, m + 5))
    elif kind == "duplicate":
        G[some[0]] = G[some[1]] * rng.choice([1.0, 3.0])
    elif kind == "opposite":
        G[some[0]] = -G[some[1]] * rng.choice([1.0, 3.0])
    elif kind == "zero":
        G[some[: rng.integers(1, m)]] = 0
    elif kind == "unequal norms":
        G = G * 10 ** rng.uniform(-3, 3, size=(m, 1))
    elif kind == "unequal, low rank":
        G = rng.normal(size=(m, max(2, m // 2))) * 10 ** rng.uniform(-3, 3, size=(m, 1))
    return G


def problems(count: int, m: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Losses and rays ``[count, m]`` and Gram matrices ``[count, m, m]``: all kinds, in both modes."""
    rng = np.random.default_rng(seed)
    losses, rays, grams = [], [], []
    for i in range(count):
        G = gradients(KINDS[i % len(KINDS)], m, rng)
        ray = rng.dirichlet(np.full(m, rng.choice([0.2, 1.0, 5.0])))
        if rng.random() < 0.2:  # extreme
            ray[rng.integers(m)] = 1e-9
        ray = ray / ray.sum()
        loss = rng.lognormal(sigma=rng.choice([0.3, 1.0, 3.0]), size=m)
        if rng.random() < 0.5:  # on the ray, nearly or up to rounding
            loss = (1 + rng.choice([0, 1e-5, 1e-3], p=[0.1, 0.3, 0.6]) * rng.normal(size=m)) / floored(ray)
        elif rng.random() < 0.1:  # two products are the largest
            loss[:2] = 10 / floored(ray)[:2]
        losses.append(loss)
        rays.append(ray)
        grams.append(G @ G.T)
    return np.array(losses), np.array(rays), np.array(grams)


def floored(ray: np.ndarray) -> np.ndarray:
    """EPO's documented floor."""
    ray = np.maximum(ray, 1e-6)
    return ray / ray.sum()


def programs(loss: np.ndarray, ray: np.ndarray, gram: np.ndarray, descent: int) -> list[Program]:
    """What EPO promises to solve, in the order in which it gives up: one program off the ray, or two (dominance)."""
    m = len(loss)
    ray = floored(ray)
    u = ray * loss
    top = u >= u.max() * (1 - 1e-12)
    p = np.where(top, u.max(), u)
    p = p / p.sum()
    mu = float(p @ np.log(m * p))
    anchor = np.zeros(m) if top.all() else ray * (np.log(m * p) - mu)
    q, sums = gram @ anchor, gram @ np.ones(m)
    q[np.abs(q) <= 1e-14 * (np.abs(gram) @ np.abs(anchor))] = 0
    sums[np.abs(sums) <= 1e-14 * np.abs(gram).sum(1)] = 0
    if mu <= 1e-4:
        restricted = scaled(sums, np.vstack([gram, q]), np.append(np.zeros(m), min(q.max(), 0)))
        return [restricted, scaled(sums, gram, np.zeros(m))]
    if descent:
        return [scaled(gram @ p, gram, np.zeros(m))]
    rising, above = q > 0, np.log(m * p) > mu
    keep = ~rising | above if rising.any() else np.ones(m, bool)
    bound = np.where(above, 0.0, q) if rising.any() else np.zeros(m)
    return [scaled(q, gram[keep], bound[keep])]


def scaled(c: np.ndarray, A: np.ndarray, b: np.ndarray) -> Program:
    size, length = np.abs(A).max(1), np.abs(c).max()
    some = size > 0  # 0 >= b holds: all b are <= 0
    return Program(c / (length or 1), A[some] / size[some, None], b[some] / size[some])


def highs(program: Program) -> float | None:
    """The optimum, or None if infeasible; where HiGHS gives up, its :func:`interior` decides, or it is NaN."""
    ones = np.ones((1, len(program.c)))
    found = linprog(-program.c, -program.A, -program.b, ones, [1.0], method="highs", options=TIGHT)
    if found.status == 0:
        return -found.fun
    return None if found.status == 2 or interior(program) < -INTERIOR else np.nan


def interior(program: Program) -> float:
    """The largest least slack that any weights reach; negative if the program is infeasible."""
    m = len(program.c)
    if not len(program.A):
        return np.inf
    A = np.hstack([-program.A, np.ones((len(program.A), 1))])
    bounds = [(0, None)] * m + [(None, None)]
    ones = np.append(np.ones(m), 0)[None]
    return -linprog(-np.eye(m + 1)[m], A, -program.b, ones, [1.0], bounds, method="highs", options=TIGHT).fun


APART: Counter[str] = Counter()


class Group:
    """The worst of the instances with interior, or of those apart."""

    def __init__(self) -> None:
        self.number, self.gap, self.violation = 0, 0.0, 0.0
        self.missed: list[str] = []

    def add(self, gap: float, violation: float, name: str) -> None:
        self.number += 1
        if np.isfinite(gap):  # else they disagree on feasibility, which is a miss
            self.gap = max(self.gap, gap)
        self.violation = max(self.violation, violation)
        if not (gap <= BAR and violation <= BAR):
            self.missed.append(f"{name}: gap {gap:.1e}, violation {violation:.1e}")

    def __str__(self) -> str:
        return f"{self.number:>7} {self.gap:>9.1e} {self.violation:>9.1e} {len(self.missed):>6}"


def correctness(m: int, count: int, rays: int, seed: int, descent: int) -> list[str]:
    """Print one row of the table; the instances that miss the bar."""
    losses, preferences, grams = problems(count, m, seed)
    chunks = zip(*(torch.from_numpy(t).split(rays) for t in (losses, preferences, grams)))
    solved = [EPO(descent=descent)(*chunk) for chunk in chunks]
    weights = torch.cat([w for w, _ in solved]).numpy()
    status = torch.cat([s for _, s in solved]).numpy()
    dominance, inside, apart = 0, Group(), Group()
    for i in range(count):
        stages = programs(losses[i], preferences[i], grams[i], descent)
        dominance += len(stages) == 2
        name = Status(int(status[i]))
        used = {Status.AS_NAMED: 0, Status.RELAXED: 1, Status.MIN_NORM: len(stages)}[name]
        # a program that was given up must be infeasible, and clearly so
        oracle = [highs(program) for program in stages[: used + 1]]
        slacks = [interior(program) for program in stages[: used + 1]]
        clear = all(slack < -INTERIOR for slack in slacks[:used])
        gap = violation = 0.0
        if used < len(stages):
            c, A, b = stages[used]
            gap = np.inf if oracle[used] is None else abs(c @ weights[i] - oracle[used])
            violation = max(abs(weights[i].sum() - 1), -weights[i].min(), (b - A @ weights[i]).max(initial=0))
            clear = clear and slacks[used] > INTERIOR
        if any(optimum is not None for optimum in oracle[:used]):
            gap = np.inf
        label = f"m = {m}, descent {descent}, problem {i}, {KINDS[i % len(KINDS)]}, {name.name}"
        label += f", HiGHS {oracle}, interior {slacks}"
        (inside if clear else apart).add(gap, violation, label)
        APART[KINDS[i % len(KINDS)]] += not clear
    relaxed, min_norm = (status == Status.RELAXED).sum(), (status == Status.MIN_NORM).sum()
    print(f"{m:>3} {descent:>7} {count:>8} {dominance:>9} {relaxed:>7} {min_norm:>8} | {inside} | {apart}", flush=True)
    return inside.missed + [f"{line} (apart)" for line in apart.missed]


def speed(m: int, rays: int, repeats: int) -> None:
    losses, preferences, grams = problems(rays, m, seed=m)
    tensors = [torch.from_numpy(t) for t in (losses, preferences, grams)]
    solver = EPO()
    solver(*tensors)
    ours, theirs = [], []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(20):
            solver(*tensors)
        ours.append((time.perf_counter() - start) / 20)
        lists = [programs(*instance, descent=0) for instance in zip(losses, preferences, grams)]
        start = time.perf_counter()
        for stages in lists:
            highs(stages[0])
        theirs.append(time.perf_counter() - start)
    ratios = [b / a for a, b in zip(ours, theirs)]
    bar = f">= {SPEED_BARS[m]}" if m in SPEED_BARS else ""
    print(
        f"{m:>3} {statistics.median(ours) * 1e6:>9.0f} us {statistics.median(theirs) * 1e3:>9.1f} ms "
        f"{statistics.median(ratios):>8.0f}x   {min(ratios):.0f}x to {max(ratios):.0f}x   {bar}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=10_000, help="for each number of objectives; 0 for speed only")
    parser.add_argument("--objectives", type=int, nargs="+", default=list(range(2, 11)))
    parser.add_argument("--rays", type=int, default=64, help="solved at once")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="smallest settings: shows in seconds that the script runs")
    options = parser.parse_args()
    if options.quick:
        options.problems, options.objectives, options.rays, options.repeats = 40, [2, 3], 8, 2
    torch.set_num_threads(1)
    if options.problems:
        print(f"Correctness: distance from HiGHS, bar {BAR:g}")
        print(f"{'':>47} |{'with interior':^36}|{'apart':^36}")
        head = f"{'number':>7} {'gap':>9} {'violation':>9} {'missed':>6}"
        print(
            f"{'m':>3} {'descent':>7} {'problems':>8} {'dominance':>9} {'relaxed':>7} {'min-norm':>8} | {head} | {head}"
        )
        cases = itertools.product(options.objectives, (0, 1))
        rows = [correctness(m, options.problems, options.rays, options.seed, descent) for m, descent in cases]
        print("\n".join(line for missed in rows for line in missed) or "none missed")
        print("apart:", ", ".join(f"{number} {kind}" for kind, number in APART.most_common()))
    print(f"\nSpeed: {options.rays} rays, one core, median of {options.repeats}")
    print(f"{'m':>3} {'EPO':>12} {'HiGHS':>12} {'ratio':>9}   {'spread':<14} bar")
    for m in options.objectives:
        speed(m, options.rays, options.repeats)


if __name__ == "__main__":
    main()
