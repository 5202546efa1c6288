"""Other settings than those of a preset, on validation data alone: how `best` was chosen, and what did not help.

    python benchmarks/settings/tried.py default best --try lr=1e-3 --try epochs=300 lr=1e-3 --seeds 2

Each `--try` is one set of changes: fields of the recipe, options of the model (model.hidden=50) or arguments of the
problem (arguments.shift=3). A line for each run is added to reproduction/results/tried/PROBLEM.jsonl; no run is
repeated.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch

import hyperfront as hf
from hyperfront.apps.cli.arguments import parse
from hyperfront.problem.recipe import Recipe
from hyperfront.problem.registry import build, recipe
from hyperfront.solvers.names import make_solver


def changed(base: Recipe, changes: dict[str, Any]) -> Recipe:
    """The recipe with the changes; those with a dot go into its model or its arguments."""
    inside: dict[str, dict[str, Any]] = {"model": dict(base.model), "arguments": dict(base.arguments)}
    fields = {}
    for name, value in changes.items():
        where, _, key = name.rpartition(".")
        (inside[where] if where else fields)[key] = value
    return dataclasses.replace(base, **inside, **fields)


def run(problem: str, preset: str, solver: str, changes: dict[str, Any], seed: int, data_dir: Path | None) -> dict:
    """Validation hypervolume and uniformity of one run."""
    settings = changed(recipe(problem, preset), changes)
    built = build(problem, **settings.arguments, **({"data_dir": data_dir} if data_dir else {}))
    torch.manual_seed(seed)
    start = time.perf_counter()
    found = hf.fit(
        built.model(**settings.model),
        built,
        validation_rays=settings.evaluation_rays,
        seed=seed,
        device="cuda" if torch.cuda.is_available() else "cpu",
        callbacks=[],
        **settings.hypernetwork(make_solver(solver)),
    ).front
    return {
        "preset": preset,
        "solver": solver,
        "changes": changes,
        "seed": seed,
        "hypervolume": round(found.hypervolume(), 4),
        "uniformity": round(found.uniformity(), 4),
        "first": [round(loss, 4) for loss in found.losses[0].tolist()],
        "last": [round(loss, 4) for loss in found.losses[-1].tolist()],
        "seconds": round(time.perf_counter() - start, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problem", nargs="?", default="vlmop2")
    parser.add_argument("preset", nargs="?", default="best")
    parser.add_argument("--try", nargs="*", action="append", default=[], dest="sets", metavar="KEY=VALUE")
    parser.add_argument("--solver", default="epo")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[2] / "reproduction" / "results" / "tried")
    parser.add_argument("--quick", action="store_true", help="smallest settings: shows in seconds that the script runs")
    options = parser.parse_args()
    if options.quick:
        options.problem, options.preset, options.sets = "vlmop2", "best", [["epochs=1"]]
        options.out = Path(tempfile.mkdtemp())
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")
    file = options.out / f"{options.problem}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    known = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    for changes in map(parse, options.sets or [[]]):
        group = []
        for seed in range(options.seeds):
            wanted = {"preset": options.preset, "solver": options.solver, "changes": changes, "seed": seed}
            found = next((each for each in known if each.items() >= wanted.items()), None)
            if found is None:
                found = run(options.problem, options.preset, options.solver, changes, seed, options.data_dir)
                with file.open("a") as lines:
                    lines.write(json.dumps(found) + "\n")
            group.append(found)
        volume, uniform = (statistics.fmean(each[key] for each in group) for key in ("hypervolume", "uniformity"))
        words = " ".join(f"{key}={value}" for key, value in changes.items()) or "as it is"
        print(f"{volume:.4f} / {uniform:.4f}  {words}  {[each['hypervolume'] for each in group]}", flush=True)


if __name__ == "__main__":
    main()
