"""Which solver and which losses lead a table with groups to a good front: python benchmarks/table_solvers.py.

It trains on Adult (6,000 rows, two splits) by every solver with the settings of ``tabular.recipe_for``, and prints the
hypervolume of (error, false positive gap, false negative gap) at decisions, reference (1, 1, 1), at 66 rays: of the
validation rows, and of the test rows for the rays that no other ray dominates on the validation rows. Adult is read
from the data folder (HYPERFRONT_DATA); ``--quick`` draws a table instead.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import time
import warnings
from pathlib import Path

import torch

import hyperfront as hf
from hyperfront import indicators, solvers, tabular
from hyperfront.solvers.normalize import Normalize, NormalizeByStart
from hyperfront.tabular.reading import parse
from hyperfront.zoo.data import find
from hyperfront.zoo.data.people import ADULT

ROWS, SEEDS = 6000, (0, 1)
NAMES = ("error", "fpr_gap", "fnr_gap")
SOLVERS = {
    "LS": hf.LS(),
    "LS, losses divided by their start": solvers.chain(NormalizeByStart(steps=20), hf.LS()),
    "EPO": hf.EPO(),
    "EPO, gaps from -0.1": solvers.chain(Normalize(ideal=(0.0, -0.1, -0.1), nadir=(1.0, 0.9, 0.9)), hf.EPO()),
    "STCH": solvers.SmoothTchebycheff(),
    "PBI": solvers.PBI(),
}


def drawn(rows: int) -> dict:
    """Columns with the names that the benchmark needs, without a data set."""
    x = torch.randn(rows, generator=torch.Generator().manual_seed(0))
    return {"x": x.tolist(), "sex": ["a", "b"] * (rows // 2), "income": (x > 0).long().tolist()}


def adult() -> dict:
    """The columns of Adult, its first rows."""
    names = list(ADULT.schema.columns)
    text = gzip.decompress(find(ADULT.files[0]).read_bytes()).decode()
    lines = [line.strip().rstrip(".") for line in text.splitlines() if line.strip() and not line.startswith("|")]
    table = "\n".join([",".join(names), *lines[:ROWS]])
    return parse(table.encode(), Path("adult.csv"))


def hypervolume(points: torch.Tensor) -> float:
    return indicators.hypervolume(points, (1.0, 1.0, 1.0))


def kept(points: torch.Tensor) -> torch.Tensor:
    """The points that no other point dominates."""
    worse = (points[None] <= points[:, None]).all(-1) & (points[None] < points[:, None]).any(-1)
    return ~worse.any(1)


def main(wanted: list[str], quick: bool) -> None:
    columns, settings = (drawn(400), {"epochs": 1}) if quick else (adult(), {})
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
            run = hf.fit(problem.model(), problem, solver=solver, seed=seed, callbacks=[], **settings)
            took = time.process_time() - start
            fronts = [hf.evaluate(run.model, split, rays=hf.rays(66, m=3)) for split in (problem.val, problem.test)]
            val, test = (torch.stack([front.scores[key] for key in NAMES], 1) for front in fronts)
            found.append((hypervolume(val), hypervolume(test[kept(val)]), took))
        volumes = [*zip(*found)]
        cells = "".join(f"{statistics.mean(v):>9.4f} ± {statistics.stdev(v):.3f}" for v in volumes[:2])
        print(f"{name:<36}{cells}{statistics.mean(volumes[2]):>9.0f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("solvers", nargs="*", help="names of the table's rows; all by default")
    parser.add_argument("--quick", action="store_true", help="smallest settings: shows in seconds that the script runs")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    main(options.solvers, options.quick)
