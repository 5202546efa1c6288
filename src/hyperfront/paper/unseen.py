"""Appendix B.2: rays that were never trained on (SARCOS, seven objectives).

Training rays are drawn from the Das-Dennis grid of :data:`PARTITIONS` parts; then the front is measured at rays of that
grid and at rays of the shifted grid, which are as far from it as can be (:func:`hyperfront.preferences.shifted_grid`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

import torch

from hyperfront.experiments.table import spread
from hyperfront.front import evaluate
from hyperfront.paper.finding import Claim, Finding, Table, missing_seeds, shown
from hyperfront.paper.looks import front_document
from hyperfront.paper.numbers import UNSEEN
from hyperfront.paper.workshop import Workshop
from hyperfront.preferences import FixedRays, das_dennis, shifted_grid
from hyperfront.solvers import EPO
from hyperfront.training import Progress, fit
from hyperfront.training.record import describe, environment

STUDY = "sarcos-paper-phn"
PARTITIONS = 6


def unseen_rays(workshop: Workshop) -> Finding:
    """PHN-EPO trained on a grid, at seen and unseen rays."""
    seeds = range(workshop.study(STUDY).seeds)
    parts = [
        workshop.part(f"studies/unseen-rays/looks/phn-epo-{seed}", lambda s=seed: _run(workshop, s)) for seed in seeds
    ]
    found = [part for part in parts if part and part["settings"] == _settings(workshop)]
    missing = missing_seeds("SARCOS: phn-epo trained on a grid of rays", len(found), len(seeds))
    if not found:
        return Finding(missing=missing)
    rows = []
    for kind, said in UNSEEN.items():
        fronts = [part[kind] for part in found]
        rows.append(
            (
                f"{kind} rays",
                str(len(fronts[0]["rays"])),
                str(len(found)),
                spread([front["hypervolume"] for front in fronts], digits=4),
                shown(said.hypervolume, 4),
                spread([front["uniformity"] for front in fronts]),
                shown(said.uniformity),
            )
        )
    columns = ("test rays", "rays", "seeds", "HV", "paper", "uniformity", "paper")
    return Finding(
        tables=[Table("SARCOS, trained on a Das-Dennis grid of rays", columns, rows)],
        claims=[claim(found)],
        notes=[
            f"The grid has {len(das_dennis(7, PARTITIONS))} rays ({PARTITIONS} parts); the paper does not say its size."
        ],
        numbers={"seeds": [{k: {m: p[k][m] for m in ("hypervolume", "uniformity")} for k in UNSEEN} for p in found]},
        environments=[part["environment"] for part in found],
        missing=missing,
    )


def claim(parts: Sequence[Mapping[str, Any]]) -> Claim:
    """A hypernetwork that ignores its ray has the same point at all of them, and shows nothing about unseen ones."""
    seen, new = (fmean(part[kind]["hypervolume"] for part in parts) for kind in ("seen", "unseen"))
    points = min(len(set(map(tuple, part["unseen"]["losses"]))) for part in parts)
    text = "rays that were never seen cost hardly any hypervolume (1 %)"
    values = f"{new:.4f}, {seen:.4f}" + ("" if points > 1 else "; all rays have the same losses")
    return Claim(text, points > 1 and new > 0.99 * seen, values)


def _settings(workshop: Workshop) -> dict[str, Any]:
    return {**describe(asdict(workshop.study(STUDY).recipe())), "partitions": PARTITIONS}


def _run(workshop: Workshop, seed: int) -> dict[str, Any]:
    study = workshop.study(STUDY)
    problem, recipe = workshop.problem(study), study.recipe()
    grid = das_dennis(problem.m, PARTITIONS)
    generator = torch.Generator().manual_seed(seed)
    unseen = shifted_grid(problem.m, PARTITIONS)
    seen = grid[torch.randperm(len(grid), generator=generator)[: len(unseen)]]  # as many of the grid
    torch.manual_seed(seed)
    run = fit(
        problem.model(**recipe.model),
        problem,
        validation_rays=study.rays,
        seed=seed,
        out=workshop.runs_of("unseen-rays") / f"phn-epo-{seed}",
        resume=True,
        device=workshop.device_for(problem),
        callbacks=[Progress()] if workshop.progress else [],
        **recipe.hypernetwork(EPO()) | {"preferences": FixedRays.of(grid)},
    )
    few = slice(None) if workshop.preset == "full" else slice(None, None, 12)
    fronts = {
        kind: front_document(evaluate(run.model, problem.test, rays[few], batch_size=recipe.batch_size))
        for kind, rays in (("seen", seen), ("unseen", unseen))
    }
    return {**fronts, "settings": _settings(workshop), "environment": environment(run.model.device)}
