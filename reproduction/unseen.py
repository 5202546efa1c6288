"""Appendix B.2: rays that were never trained on (SARCOS, seven objectives).

Training rays are drawn from the Das-Dennis grid of :data:`PARTITIONS` parts; then the front is measured at rays of that
grid and at rays of the shifted grid, which are as far from the grid as possible
(:func:`hyperfront.preferences.shifted_grid`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import torch

from hyperfront.apps.cli.arguments import choose_device
from hyperfront.comparison.hypernetwork import fit_hypernetwork
from hyperfront.front import evaluate
from hyperfront.preferences import FixedRays, das_dennis, rays, shifted_grid
from hyperfront.problem.recipe import Recipe
from hyperfront.solvers import EPO
from hyperfront.storage.provenance import describe, environment
from reproduction.item_result import ItemResult, Table, quality
from reproduction.measurements import front_document
from reproduction.paper import NUMBERS
from reproduction.store import Store

METHOD = "phn-epo"
PARTITIONS = 6
KINDS = ("seen", "unseen")


def unseen_rays(store: Store, studies: Mapping[str, str]) -> ItemResult:
    """PHN-EPO trained on a grid, at seen and unseen rays, with the settings of ``studies`` by title; the paper's
    numbers are beside the first of them."""
    item, rows, said = ItemResult(), [], NUMBERS["unseen"]
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
        for kind in KINDS:
            fronts, paper = [part[kind] for part in parts], said.get(kind, ("-", "-"))
            counts = str(len(fronts[0]["rays"])), str(len(fronts))
            rows.append((title, kind, *counts, quality(fronts, 4)[0], paper[0], quality(fronts)[1], paper[1]))
        measures = ("hypervolume", "uniformity")
        item.numbers[title] = [{k: {m: part[k][m] for m in measures} for k in KINDS} for part in parts]
        store.environments.extend(part["environment"] for part in parts)
        said = {}
    columns = ("problem", "test rays", "number", "seeds", "HV", "paper", "uniformity", "paper")
    item.tables.append(Table("PHN-EPO, trained on a Das-Dennis grid of rays", columns, rows))
    return item


def _run(store: Store, name: str, recipe: Recipe, seed: int) -> dict[str, Any]:
    study, generator = store.study(name), torch.Generator().manual_seed(seed)
    problem = store.problem(study)
    grid, unseen = (make(problem.m, PARTITIONS) for make in (das_dennis, shifted_grid))
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
        device=choose_device(store.device, problem),
        callbacks=store.callbacks,
    )
    fronts = {
        kind: front_document(evaluate(run.model, problem.test, table, batch_size=recipe.batch_size))
        for kind, table in (("seen", seen), ("unseen", unseen))
    }
    return {**fronts, "environment": environment(run.model.device)}
