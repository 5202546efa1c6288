"""Which solver and which losses lead a table with groups to a good front: python benchmarks/table_solvers.py DATA.

It trains on Adult (6,000 rows, two splits) by every solver with the settings of ``tabular.recipe_for``, and prints the
hypervolume of (error, false positive gap, false negative gap) at decisions, reference (1, 1, 1), at 66 rays: of the
validation rows, and of the test rows for the rays that no other ray dominates on the validation rows.
"""

from __future__ import annotations

import gzip
import statistics
import sys
import time
import warnings
from pathlib import Path

import torch

import hyperfront as hf
from hyperfront import indicators, tabular
from hyperfront.solvers.normalize import Normalize, NormalizeByStart
from hyperfront.tabular.reading import parse
from hyperfront.zoo.data.people import ADULT

ROWS, SEEDS = 6000, (0, 1)
NAMES = ("error", "fpr_gap", "fnr_gap")
SOLVERS = {
    "LS": hf.LS(),
    "LS, losses divided by their start": hf.chain(NormalizeByStart(steps=20), hf.LS()),
    "EPO": hf.EPO(),
    "EPO, gaps from -0.1": hf.chain(Normalize(ideal=(0.0, -0.1, -0.1), nadir=(1.0, 0.9, 0.9)), hf.EPO()),
    "STCH": hf.SmoothTchebycheff(),
    "PBI": hf.PBI(),
}


def adult(folder: Path) -> dict:
    """The columns of Adult, its first rows."""
    names = list(ADULT.schema.columns)
    text = gzip.decompress((folder / ADULT.files[0]).read_bytes()).decode()
    lines = [line.strip().rstrip(".") for line in text.splitlines() if line.strip() and not line.startswith("|")]
    table = "\n".join([",".join(names), *lines[:ROWS]])
    return parse(table.encode(), Path("adult.csv"))


def hypervolume(points: torch.Tensor) -> float:
    return indicators.hypervolume(points, (1.0, 1.0, 1.0))


def kept(points: torch.Tensor) -> torch.Tensor:
    """The points that no other point dominates."""
    worse = (points[None] <= points[:, None]).all(-1) & (points[None] < points[:, None]).any(-1)
    return ~worse.any(1)


def main(folder: Path, wanted: list[str]) -> None:
    columns = adult(folder)
    torch.set_num_threads(1)
    print(f"{'solver':<36}{'validation':>16}{'test':>16}{'seconds':>10}")
    for name, solver in SOLVERS.items():
        if wanted and name not in wanted:
            continue
        found = []
        for seed in SEEDS:
            problem = tabular.problem(columns, "income", sensitive="sex", seed=seed)
            torch.manual_seed(seed)
            start = time.process_time()
            run = hf.fit(problem.model(), problem, solver=solver, seed=seed, callbacks=[])
            took = time.process_time() - start
            fronts = [hf.evaluate(run.model, split, rays=hf.rays(66, m=3)) for split in (problem.val, problem.test)]
            val, test = (torch.stack([front.scores[key] for key in NAMES], 1) for front in fronts)
            found.append((hypervolume(val), hypervolume(test[kept(val)]), took))
        columns_ = [*zip(*found)]
        cells = "".join(f"{statistics.mean(v):>9.4f} ± {statistics.stdev(v):.3f}" for v in columns_[:2])
        print(f"{name:<36}{cells}{statistics.mean(columns_[2]):>9.0f}", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]), sys.argv[2:])
