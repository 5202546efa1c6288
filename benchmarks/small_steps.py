"""A step of a small network on one CPU thread, against the same network in an ordinary torch.nn loop.

The MLPs of Adult ([40, 20], three objectives) and of SARCOS (seven objectives) at batch 256, on random data of the same
shapes: PHN-LS and PHN-EPO, eager, traced and compiled, and one model of the loop, plain
and with ``torch.compile``. All take turns of a few steps each, so that they share what else the machine does, and each
turn has its own ratio to the plain loop. Before that, the seconds from the call of ``fit`` to the end of its first step
are measured.

    python benchmarks/small_steps.py --json docs/small-steps.json      # minutes; the first run compiles
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import time
from pathlib import Path
from typing import Any

import torch

import hyperfront as hf
from hyperfront.storage.provenance import environment
from hyperfront.training import Callback
from stopwatch.cases import Case, make_case
from stopwatch.epochs import Epoch, front_of, plain_of, take_turns

PLAIN = "one model, torch.nn loop"
SOLVERS = {"PHN-LS": hf.LS(), "PHN-EPO": hf.EPO()}
BARS = {"adult": {"PHN-LS": 0.8, "PHN-EPO": 1.2}, "sarcos": {"PHN-LS": 1.5, "PHN-EPO": 3.0}}
STEPS = {"adult": 50, "sarcos": 10}
"""Steps of a turn."""


class FirstStep(Exception):
    """The first step is done."""


class Stop(Callback):
    def stepped(self) -> None:
        raise FirstStep


def first_step(case: Case) -> float:
    """Measure the seconds from the call of ``fit`` to the end of its first step."""
    model = case.model(torch.device("cpu"))
    start = time.perf_counter()
    with contextlib.suppress(FirstStep):
        hf.fit(model, case.problem, solver=hf.EPO(), batch_size=case.recipe.batch_size, callbacks=[Stop()])
    return time.perf_counter() - start


def epochs_of(case: Case, *, compiles: bool) -> dict[str, Epoch]:
    """Return everything that is timed."""
    cpu = torch.device("cpu")
    made = {PLAIN: plain_of(case, cpu)}
    if compiles:
        made[f"{PLAIN}, compiled"] = plain_of(case, cpu, compiled=True)
    for name, solver in SOLVERS.items():
        for engine in ("eager", "traced", "compiled")[: 3 if compiles else 2]:
            made[f"{name}, {engine}"] = front_of(case, solver, cpu, engine=engine)
    return made


def measure(name: str, *, turns: int, quick: bool, compiles: bool) -> dict[str, Any]:
    """Time one problem, and print its table."""
    case = make_case(name, None, rows=1024 if quick else None)
    seconds = first_step(case)
    case = case.shortened(2 if quick else STEPS[name])
    timings = take_turns(epochs_of(case, compiles=compiles), turns=turns, device=torch.device("cpu"))
    plain = timings[0].times
    print(f"\n{name}, {case.problem.m} objectives; first step of `fit` after {seconds:.1f} s\n")
    print("| step | median us | of the plain loop | smallest .. largest | bar |\n|---|---|---|---|---|")
    rows = {}
    for timing in timings:
        ratios = [mine / theirs for mine, theirs in zip(timing.times, plain)]
        bar = BARS[name].get(timing.name.partition(",")[0])
        middle, spread = statistics.median(ratios), f"{min(ratios):.2f} .. {max(ratios):.2f}"
        print(f"| {timing.name} | {timing.median:,.0f} | {middle:.2f}x | {spread} | {f'{bar}x' if bar else ''} |")
        rows[timing.name] = {"us": timing.times, "ratios": ratios, "bar": bar}
    return {"first_step": seconds, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smallest settings, without compiling")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--problems", nargs="+", default=list(BARS), choices=list(BARS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    compiles = not options.quick and shutil.which(os.environ.get("CXX", "g++")) is not None
    turns = 2 if options.quick else options.turns
    found = {name: measure(name, turns=turns, quick=options.quick, compiles=compiles) for name in options.problems}
    if options.json:
        document = {"environment": environment(torch.device("cpu")), "threads": 1, "turns": turns, **found}
        options.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
