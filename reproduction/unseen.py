"""Appendix B.2: rays that were never trained on (SARCOS, seven objectives).

Training rays are drawn from the Das-Dennis grid of :data:`PARTITIONS` parts; then the front is measured at rays of that
grid and at rays of the shifted grid, which are as far from the grid as possible
(:func:`hyperfront.preferences.shifted_grid`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from statistics import fmean
from typing import Any

import torch

from hyperfront.comparison.hypernetwork import fit_hypernetwork
from hyperfront.comparison.result import different
from hyperfront.front import evaluate
from hyperfront.preferences import FixedRays, das_dennis, rays, shifted_grid
from hyperfront.problem.recipe import Recipe
from hyperfront.solvers import EPO
from hyperfront.storage.provenance import describe, environment
from reproduction.item_result import Claim, ItemResult, Table, quality, shown
from reproduction.measurements import front_document
from reproduction.paper import UNSEEN, Number
from reproduction.store import Store

METHOD = "phn-epo"
PARTITIONS = 6
NOTES = (
    f"The grid has {len(das_dennis(7, PARTITIONS))} rays ({PARTITIONS} parts); the paper does not state its size.",
    "Rays of the grid have entries of 0, which no point can follow; rays of the shifted grid have none. So "
    "uniformities of seen and unseen rays cannot be compared.",
)


def unseen_rays(store: Store, studies: Mapping[str, str]) -> ItemResult:
    """PHN-EPO trained on a grid, at seen and unseen rays, with the settings of ``studies`` by title; the paper's
    numbers are beside the first of them."""
    item, rows, said = ItemResult(notes=list(NOTES)), [], dict(UNSEEN)
    for title, study in studies.items():
        # alignment would give the hypernetwork other rays than those of the grid
        recipe = replace(store.protocol(store.study(study)).recipe_of(METHOD), align=False)
        settings = {**describe(asdict(recipe)), "partitions": PARTITIONS}
        parts = [
            store.part(
                f"studies/unseen-{study}/measurements/{METHOD}-{seed}",
                partial(_run, store, study, recipe, seed),
                made_with=settings,
            )
            for seed in range(store.study(study).seeds)
        ]
        rows += [_row(title, kind, [part[kind] for part in parts], said.get(kind)) for kind in UNSEEN]
        item.claims.append(claim(title, parts))
        measures = ("hypervolume", "uniformity")
        item.numbers[title] = [{k: {m: part[k][m] for m in measures} for k in UNSEEN} for part in parts]
        store.environments.extend(part["environment"] for part in parts)
        said = {}
    columns = ("problem", "test rays", "number", "seeds", "HV", "paper", "uniformity", "paper")
    item.tables.append(Table("PHN-EPO, trained on a Das-Dennis grid of rays", columns, rows))
    return item


def _row(title: str, kind: str, fronts: Sequence[Mapping[str, Any]], said: Number | None) -> tuple[str, ...]:
    theirs = (shown(said.hypervolume, 4), shown(said.uniformity)) if said else ("-", "-")
    counts = str(len(fronts[0]["rays"])), str(len(fronts))
    return title, kind, *counts, quality(fronts, 4)[0], theirs[0], quality(fronts)[1], theirs[1]


def claim(title: str, parts: Sequence[Mapping[str, Any]]) -> Claim:
    """Claim that unseen rays cost less than 1 % of hypervolume. A hypernetwork that ignores its ray decides nothing."""
    seen, new = (fmean(part[kind]["hypervolume"] for part in parts) for kind in ("seen", "unseen"))
    points = min(different(part["unseen"]) for part in parts)
    text = f"{title}: rays that were never seen cost hardly any hypervolume (1 %)"
    values = f"{new:.4f}, {seen:.4f}" + ("" if points > 1 else "; all rays have the same losses")
    return Claim(text, points > 1 and new > 0.99 * seen, values)


def _run(store: Store, name: str, recipe: Recipe, seed: int) -> dict[str, Any]:
    study = store.study(name)
    problem = store.problem(study)
    grid = das_dennis(problem.m, PARTITIONS)
    generator = torch.Generator().manual_seed(seed)
    unseen = shifted_grid(problem.m, PARTITIONS)
    seen = grid[torch.randperm(len(grid), generator=generator)[: len(unseen)]]  # as many of the grid
    run = fit_hypernetwork(
        problem,
        rays(study.rays, problem.m),
        EPO(),
        recipe,
        seed=seed,
        preferences=FixedRays.of(grid),
        out=store.runs_of(f"unseen-{name}") / f"{METHOD}-{seed}",
        resume=True,
        device=store.device_for(problem),
        callbacks=store.callbacks,
    )
    fronts = {
        kind: front_document(evaluate(run.model, problem.test, table, batch_size=recipe.batch_size))
        for kind, table in (("seen", seen), ("unseen", unseen))
    }
    return {**fronts, "environment": environment(run.model.device)}
