"""Appendix B.2: rays that were never trained on (SARCOS, seven objectives).

Training rays are drawn from the Das-Dennis grid of :data:`PARTITIONS` parts; then the front is measured at rays of that
grid and at rays of the shifted grid, which are as far from it as can be (:func:`hyperfront.preferences.shifted_grid`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from statistics import fmean
from typing import Any

import torch

from hyperfront.comparison.hypernetwork import fit_hypernetwork
from hyperfront.comparison.result import different
from hyperfront.comparison.table import spread
from hyperfront.front import evaluate
from hyperfront.preferences import FixedRays, das_dennis, shifted_grid
from hyperfront.preferences import rays as laid_out
from hyperfront.problem.recipe import Recipe
from hyperfront.solvers import EPO
from hyperfront.storage.provenance import describe, environment
from hyperfront.training import Progress
from reproduction.item_result import Claim, Finding, Table, missing_seeds, shown
from reproduction.measurements import front_document
from reproduction.numbers import UNSEEN, Number
from reproduction.store import Workshop

METHOD = "phn-epo"
PARTITIONS = 6


def unseen_rays(workshop: Workshop, studies: Mapping[str, str]) -> Finding:
    """PHN-EPO trained on a grid, at seen and unseen rays, with the settings of ``studies`` by title; the paper's
    numbers are beside the first of them."""
    finding, rows, said = Finding(), [], dict(UNSEEN)
    for title, study in studies.items():
        seeds = range(workshop.study(study).seeds)
        recipe = _recipe(workshop, study)
        settings = {**describe(asdict(recipe)), "partitions": PARTITIONS}
        parts = [
            workshop.part(
                f"studies/unseen-{study}/looks/{METHOD}-{seed}",
                lambda n=study, r=recipe, s=seed: _run(workshop, n, r, s),
                made_with=settings,
            )
            for seed in seeds
        ]
        found = [part for part in parts if part]
        finding.missing.extend(missing_seeds(f"{title}: {METHOD} trained on a grid of rays", len(found), len(seeds)))
        if found:
            rows += [_row(title, kind, [part[kind] for part in found], said.get(kind)) for kind in UNSEEN]
            finding.claims.extend([claim(title, found)] if len(found) == len(seeds) else [])
            measures = ("hypervolume", "uniformity")
            finding.numbers[title] = [{k: {m: part[k][m] for m in measures} for k in UNSEEN} for part in found]
            finding.environments.extend(part["environment"] for part in found)
        said = {}
    columns = ("problem", "test rays", "number", "seeds", "HV", "paper", "uniformity", "paper")
    finding.tables.append(Table("PHN-EPO, trained on a Das-Dennis grid of rays", columns, rows))
    finding.notes.append(
        f"The grid has {len(das_dennis(7, PARTITIONS))} rays ({PARTITIONS} parts); the paper does not say its size."
    )
    finding.notes.append(
        "Rays of the grid have entries of 0, which no point can follow; those of the shifted grid have none. So "
        "uniformities of seen and unseen rays do not compare."
    )
    return finding


def _row(title: str, kind: str, fronts: Sequence[Mapping[str, Any]], said: Number | None) -> tuple[str, ...]:
    return (
        title,
        kind,
        str(len(fronts[0]["rays"])),
        str(len(fronts)),
        spread([front["hypervolume"] for front in fronts], digits=4),
        shown(said.hypervolume if said else None, 4),
        spread([front["uniformity"] for front in fronts]),
        shown(said.uniformity if said else None),
    )


def claim(title: str, parts: Sequence[Mapping[str, Any]]) -> Claim:
    """A hypernetwork that ignores its ray has the same point at all of them, and shows nothing about unseen ones."""
    seen, new = (fmean(part[kind]["hypervolume"] for part in parts) for kind in ("seen", "unseen"))
    points = min(different(part["unseen"]) for part in parts)
    text = f"{title}: rays that were never seen cost hardly any hypervolume (1 %)"
    values = f"{new:.4f}, {seen:.4f}" + ("" if points > 1 else "; all rays have the same losses")
    return Claim(text, points > 1 and new > 0.99 * seen, values)


def _recipe(workshop: Workshop, study: str) -> Recipe:
    """That of the study, without alignment, after which rays of the grid would be others to the hypernetwork."""
    return replace(workshop.plan(workshop.study(study)).recipe_of(METHOD), align=False)


def _run(workshop: Workshop, name: str, recipe: Recipe, seed: int) -> dict[str, Any]:
    study = workshop.study(name)
    problem = workshop.problem(study)
    grid = das_dennis(problem.m, PARTITIONS)
    generator = torch.Generator().manual_seed(seed)
    unseen = shifted_grid(problem.m, PARTITIONS)
    seen = grid[torch.randperm(len(grid), generator=generator)[: len(unseen)]]  # as many of the grid
    run = fit_hypernetwork(
        problem,
        laid_out(study.rays, problem.m),
        EPO(),
        recipe,
        seed=seed,
        preferences=FixedRays.of(grid),
        out=workshop.runs_of(f"unseen-{name}") / f"{METHOD}-{seed}",
        resume=True,
        device=workshop.device_for(problem),
        callbacks=[Progress()] if workshop.progress else [],
    )
    few = slice(None) if workshop.preset == "full" else slice(None, None, 12)
    fronts = {
        kind: front_document(evaluate(run.model, problem.test, rays[few], batch_size=recipe.batch_size))
        for kind, rays in (("seen", seen), ("unseen", unseen))
    }
    return {**fronts, "environment": environment(run.model.device)}
