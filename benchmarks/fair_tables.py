"""Fronts of tables with groups, ours and fairlearn's: hypervolume of (error, FPR gap, FNR gap) and CPU seconds.

Adult, Default, Bank and ACS employment, five random splits each; all sides get the same rows and columns. Each side
tries four settings (``TRIALS``), and keeps the setting whose front of ten points has the best hypervolume on validation
rows. Of its front of 66 or 300 points, the points that no other dominates on validation rows are kept, and their
hypervolume on test rows counts, reference (1, 1, 1):

    hyperfront   tabular.problem with the recipe for tables, one training for both fronts
    logistic     fairlearn's GridSearch with EqualizedOdds, around logistic regression
    boosting     the same around gradient-boosted trees (scikit-learn's HistGradientBoostingClassifier)

CPU seconds of a front are those of training and of predictions on both splits; CPU seconds of the trials stand apart.
Results are appended to a file, one line each; the same command continues. The data folder needs the four data sets
(docs/data.md).

    python benchmarks/fair_tables.py --out fair-tables.jsonl
    python benchmarks/fair_tables.py --out fair-tables.jsonl --table
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import hyperfront as hf
from hyperfront import indicators, tabular
from hyperfront.zoo.fairness import DATA_SETS

NAMES = ("error", "fpr_gap", "fnr_gap")
ROWS = {"train": 4000, "val": 2000, "test": 4000}
"""The rows of a split, drawn from the whole table."""
SPLITS, COUNTS, FEW = 5, (66, 300), 10
SMALL, LARGE = ({"trees": 25, "rate": 0.2, "leaves": leaves} for leaves in (8, 31))
TRIALS: dict[str, list[dict[str, Any]]] = {
    "hyperfront": [{}, {"lr": 4e-3}, {"batch_size": 256}, {"lr": 4e-3, "batch_size": 256}],
    "logistic": [{"limit": limit} for limit in (0.06, 0.12, 0.25, 0.5)],
    "boosting": [SMALL | {"limit": limit} for limit in (0.12, 0.25, 0.5)] + [LARGE | {"limit": 0.12}],
}


class Measured(NamedTuple):
    """A front of one side: scores ``[R, 3]`` on validation and test rows, and its CPU seconds."""

    val: Tensor
    test: Tensor
    seconds: float


class Tried(NamedTuple):
    """The settings that the trials chose, and the CPU seconds of all trials."""

    settings: dict[str, Any]
    seconds: float | None
    """None in files of earlier versions of this script."""


# ---- tables ----------------------------------------------------------------------------------------------------------


def columns(name: str, seed: int, rows: int) -> dict[str, np.ndarray]:
    """Random rows of a data set by column, with the protected group as a column of its own."""
    if name == "drawn":
        draw = np.random.default_rng(seed)
        x, protected = draw.normal(size=(rows, 2)), draw.random(rows) < 0.4
        label = x[:, 0] + x[:, 1] ** 2 + protected > 1
        found = {"x": x[:, 0], "z": x[:, 1]}
    else:
        data = DATA_SETS[name]
        people = data.load()
        kept = np.random.default_rng(seed).permutation(len(people.label))[:rows]
        label, protected = people.label[kept], people.protected[kept]
        found = {column: people.numbers[kept, place] for place, column in enumerate(data.numbers)}
        for place, (column, kinds) in enumerate(data.categories.items()):
            if column.lower() != "sex":  # there it is the group
                found[column] = np.array(kinds, dtype=object)[people.categories[kept, place]]
    words = np.array(["no", "yes"], dtype=object)
    return found | {"protected": words[protected.astype(int)], "label": words[label.astype(int)]}


def problem_of(name: str, seed: int, sizes: dict[str, int]) -> hf.Problem:
    total = sum(sizes.values())
    shares = {split: size / total for split, size in sizes.items()}
    return tabular.problem(columns(name, seed, total), "label", sensitive="protected", shares=shares, seed=seed)


# ---- the two sides ---------------------------------------------------------------------------------------------------


def ours(problem: hf.Problem, settings: dict[str, Any]) -> tuple[hf.ParetoModel, float]:
    """Train once by the recipe for tables with other ``settings``. Return the model and the CPU seconds."""
    options, start = dict(settings), time.process_time()
    source: Any = problem.train.source
    recipe = tabular.recipe_for(source.rows, steps=options.pop("steps", None)).changed(**options)
    torch.manual_seed(0)
    solver = (problem.training or dict)()["solver"]
    fitting = recipe.hypernetwork(solver) | {"validation_rays": recipe.evaluation_rays}
    run = hf.fit(problem.model(), problem, callbacks=[], seed=0, **fitting)
    return run.model, time.process_time() - start


def our_front(problem: hf.Problem, model: hf.ParetoModel, count: int, training: float) -> Measured:
    """Measure a front of our model; ``training`` is the CPU seconds of its training."""
    start = time.process_time()
    fronts = [hf.evaluate(model, split, rays=hf.rays(count, m=3)) for split in (problem.val, problem.test)]
    val, test = (torch.stack([front.scores[name] for name in NAMES], 1) for front in fronts)
    return Measured(val, test, training + time.process_time() - start)


def fairlearns(problem: hf.Problem, side: str, settings: dict[str, Any], count: int) -> Measured:
    """Train as many classifiers by fairlearn's grid search, and measure their decisions."""
    from hyperfront.comparison.baselines.fair_classifiers import Fair, classifiers, features_of, grid

    start = time.process_time()
    features = features_of(problem, boosting=side == "boosting")
    found = [*classifiers(problem, features, grid, count=count, options=Fair(**settings), seed=0)]
    return Measured(
        *(_scores(problem, found, features, split) for split in ("val", "test")), time.process_time() - start
    )


def _scores(problem: hf.Problem, found: list[Any], features: Any, split: str) -> Tensor:
    source: Any = problem.sources[split]
    batch, rows = source.data, []
    X, groups = features(*batch[:2]), batch[3].numpy()
    for predict in found:
        output = torch.from_numpy(np.ascontiguousarray(predict(X, groups))).double().logit()
        rows.append(torch.stack([problem.scores[name](output, batch).double() for name in NAMES]))
    return torch.stack(rows)


def kept_volume(front: Measured) -> float:
    """The test hypervolume of the points that no other dominates on validation rows."""
    return volume(front.test[indicators.nondominated(front.val)])


def volume(points: Tensor) -> float:
    """The hypervolume up to (1, 1, 1)."""
    return indicators.hypervolume(points, (1.0, 1.0, 1.0))


# ---- parts -----------------------------------------------------------------------------------------------------------


def our_fronts(problem: hf.Problem, options: argparse.Namespace) -> tuple[Tried, list[Measured]]:
    """Our settings with the best validation hypervolume at few points, and the fronts of all sizes."""
    start, found = time.process_time(), []
    for settings in options.trials["hyperfront"]:
        model, seconds = ours(problem, settings)
        found.append((volume(our_front(problem, model, options.few, seconds).val), settings, model, seconds))
    _, settings, model, seconds = max(found, key=lambda each: each[0])
    tried = Tried(settings, time.process_time() - start)
    return tried, [our_front(problem, model, count, seconds) for count in options.counts]


def best_settings(problem: hf.Problem, side: str, options: argparse.Namespace) -> Tried:
    """The settings of fairlearn's side with the best validation hypervolume at few points."""
    start = time.process_time()
    best = max(
        options.trials[side],
        key=lambda settings: volume(fairlearns(problem, side, settings, options.few).val),
    )
    return Tried(best, time.process_time() - start)


def parts(options: argparse.Namespace) -> Iterator[tuple[str, int, str, int]]:
    """All fronts, small ones first."""
    for count in options.counts:
        for split in range(options.splits):
            for name in options.tables:
                for side in options.sides:
                    yield name, split, side, count


def run(options: argparse.Namespace) -> None:
    """Measure the parts that the file does not have."""
    known = {(line["table"], line["split"], line["side"], line["points"]): line for line in read(options.out)}
    for name, split, side, count in parts(options):
        if (name, split, side, count) in known:
            continue
        problem = problem_of(name, split, options.rows)
        others = [known[place] for other in options.counts if (place := (name, split, side, other)) in known]
        if side == "hyperfront":
            tried, fronts = our_fronts(problem, options)
            found = [*zip(options.counts, fronts)]
        else:
            old = [Tried(other["settings"], other.get("trials")) for other in others]
            tried = old[0] if old else best_settings(problem, side, options)
            found = [(count, fairlearns(problem, side, tried.settings, count))]
        for size, front in found:
            line = {"table": name, "split": split, "side": side, "points": size, "settings": tried.settings}
            line |= {"hypervolume": kept_volume(front), "validation": volume(front.val), "seconds": front.seconds}
            line |= {"trials": tried.seconds}
            line = {key: round(value, 5) if isinstance(value, float) else value for key, value in line.items()}
            known[name, split, side, size] = line | {"rows": options.rows}
            with options.out.open("a") as file:
                file.write(json.dumps(known[name, split, side, size]) + "\n")


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(lines: list[dict[str, Any]]) -> str:
    """The results in Markdown: mean and standard deviation of the hypervolume, and CPU seconds, over the splits that
    all sides have, of the front + of all trials; and in how many splits our side is ahead of all others."""
    sides = [side for side in TRIALS if any(line["side"] == side for line in lines)]
    rows = ["| table | points | splits | " + " | ".join(sides) + " | ahead |", "|---" * (4 + len(sides)) + "|"]
    for name in [name for name in (*DATA_SETS, "drawn") if any(line["table"] == name for line in lines)]:
        for count in sorted({line["points"] for line in lines}):
            here = [line for line in lines if (line["table"], line["points"]) == (name, count)]
            each = {side: {line["split"]: line for line in here if line["side"] == side} for side in sides}
            splits = sorted(set.intersection(*(set(found) for found in each.values())))
            if not splits:
                continue
            cells = [_cell([each[side][split] for split in splits]) for side in sides]
            best = [max(sides, key=lambda side: each[side][split]["hypervolume"]) for split in splits]
            cells.append(f"{best.count('hyperfront')} of {len(splits)}")
            rows.append(f"| {name} | {count} | {len(splits)} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _cell(lines: list[dict[str, Any]]) -> str:
    volumes = [line["hypervolume"] for line in lines]
    spread = f" ± {statistics.stdev(volumes):.4f}" if len(volumes) > 1 else ""
    seconds = [f"{statistics.fmean(line['seconds'] for line in lines):.1f}"]
    trials = [line["trials"] for line in lines if line.get("trials") is not None]
    if trials:
        seconds.append(f"{statistics.fmean(trials):.0f}")
    return f"{statistics.fmean(volumes):.4f}{spread}, {' + '.join(seconds)} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("fair-tables.jsonl"))
    parser.add_argument("--tables", nargs="+", default=[*DATA_SETS], choices=[*DATA_SETS, "drawn"])
    parser.add_argument("--sides", nargs="+", default=[*TRIALS], choices=[*TRIALS])
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--untuned", action="store_true", help="train our side once, by the recipe as it is")
    parser.add_argument("--table", action="store_true", help="print the table of the file, and run nothing")
    parser.add_argument("--quick", action="store_true", help="smallest settings: shows in seconds that the script runs")
    options = parser.parse_args()
    options.rows, options.trials, options.few = ROWS, dict(TRIALS), FEW
    if options.untuned:
        options.trials["hyperfront"] = [{}]
    options.counts = tuple(options.counts)
    if options.quick:
        options.tables, options.splits, options.counts, options.few = ["drawn"], 1, (3, 6), 3
        options.rows = {"train": 300, "val": 100, "test": 100}
        options.trials = {
            "hyperfront": [{"steps": 20}, {"steps": 10}],
            "logistic": TRIALS["logistic"][:2],
            "boosting": [{"trees": 5}],
        }
    torch.set_num_threads(1)
    if not options.table:
        if importlib.util.find_spec("fairlearn") is None:
            print("this script needs fairlearn: pip install 'hyperfront[compare]'")
            return
        warnings.simplefilter("ignore")
        run(options)
    print(table(read(options.out)))


if __name__ == "__main__":
    main()
