"""What a step costs on this device: one model, PHN-LS and PHN-EPO, against a bound and a straightforward reference.

Three problems with the paper's settings at batch 256: LeNet on Multi-(Fashion+MNIST), the MLPs of Adult and SARCOS, on
real data where there is a folder with them and else on random numbers of the same shapes. Each is timed as an epoch of
steps in the package's best engine for the device, everything included but validation; all take turns, so that they
share what else the machine does, and PHN-LS takes part twice, which shows the noise.

    python benchmarks/speed.py                                 microseconds a step, and evaluation
    python benchmarks/speed.py --growth --out FOLDER           step time against target size, objectives and rays
    python benchmarks/speed.py --train --data-dir FOLDER       whole runs of 150 epochs; meant for a GPU
    python benchmarks/speed.py --cold --data-dir FOLDER        from a cold process to the paper's front
    python benchmarks/speed.py --trace FOLDER                  Chrome traces of a few steps of each
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

import hyperfront as hf
from hyperfront.storage.provenance import environment
from stopwatch import growth, runs
from stopwatch.bound import Work, front_work, single_work
from stopwatch.cases import RANDOM, Case, make_case
from stopwatch.cold import HYPERVOLUME, UNIFORMITY
from stopwatch.device import Rates, measure_rates, seconds
from stopwatch.epochs import Epoch, Timing, front_of, plain_of, reference_of, single_of, take_turns

LENET = "multi-fashion-mnist"
CPU_STEPS = {LENET: 20, "adult": 100, "sarcos": 20}
"""Steps of a repetition on a CPU; on a GPU they are whole epochs."""
PLAIN, SINGLE, LS, EPO = "one model, torch.nn loop", "one model, our engine", "PHN-LS", "PHN-EPO"
SOLVERS = ((LS, hf.LS()), (EPO, hf.EPO()))
SEVERAL = 8
COMPILED = ("adult",)
"""What is timed compiled, too, if there is a C++ compiler: a step of SARCOS moves the numbers of its hypernetwork, and
LeNet has operations of its own, which cannot be traced."""


class Row(NamedTuple):
    """A line of a problem's table."""

    timing: Timing
    bound: float | None
    """Microseconds, where there is one."""


class Evaluation(NamedTuple):
    """Seconds to evaluate that many rays on that many images."""

    rays: int
    images: int
    seconds: list[float]


def epochs_of(case: Case, device: torch.device, *, quick: bool = False) -> dict[str, Epoch]:
    """All that is timed; ``quick`` compiles one of the steps, since each takes as long as all the others together."""
    made = {
        PLAIN: plain_of(case, device),
        SINGLE: single_of(case, device),
        LS: front_of(case, hf.LS(), device),
        f"{LS}, again": front_of(case, hf.LS(), device),
        EPO: front_of(case, hf.EPO(), device),
    }
    if case.name in COMPILED and device.type == "cpu" and shutil.which(os.environ.get("CXX", "g++")):
        chosen = SOLVERS[:1] if quick else SOLVERS
        made |= {f"{name}, compiled": front_of(case, solver, device, engine="compiled") for name, solver in chosen}
    if case.name == LENET:
        made[several(LS)] = front_of(case, hf.LS(), device, rays_per_step=SEVERAL)
        made[several(EPO)] = front_of(case, hf.EPO(), device, rays_per_step=SEVERAL)
    made["reference LS"] = reference_of(case, device, epo=False)
    made["reference EPO"] = reference_of(case, device, epo=True)
    return made


def several(name: str) -> str:
    return f"{name}, {SEVERAL} rays x {256 // SEVERAL} rows"


def works_of(case: Case) -> dict[str, Work]:
    """What cannot be avoided, of all but the reference."""
    one, ls, epo = single_work(case), front_work(case, epo=False), front_work(case, epo=True)
    many = {
        several(LS): front_work(case, epo=False, rays=SEVERAL),
        several(EPO): front_work(case, epo=True, rays=SEVERAL),
    }
    compiled = {f"{LS}, compiled": ls, f"{EPO}, compiled": epo}
    return {PLAIN: one, SINGLE: one, LS: ls, f"{LS}, again": ls, EPO: epo, **compiled, **many}


def time_case(case: Case, rates: Rates, device: torch.device, turns: int, *, quick: bool) -> list[Row]:
    bounds = {name: work.microseconds(rates) for name, work in works_of(case).items()}  # while the data are on the CPU
    timings = take_turns(epochs_of(case, device, quick=quick), turns=turns, device=device)
    return [Row(timing, bounds.get(timing.name)) for timing in timings]


def show_case(case: Case, rows: Sequence[Row], *, steps: int) -> None:
    median = {row.timing.name: row.timing.median for row in rows}
    size = case.recipe.batch_size
    print(f"\n{case.name}, batch {size}, {case.problem.m} objectives, {steps} steps a repetition")
    header = f"{'step':<28}{'median us':>11}{'quartiles':>20}{'of torch.nn':>13}{'of one model':>14}"
    print(f"{header}{'bound us':>10}{'of bound':>10}")
    for timing, bound in rows:
        low, high = timing.quartiles
        spread = f"{low:.0f} .. {high:.0f}"
        plain, single = timing.median / median[PLAIN], timing.median / median[SINGLE]
        line = f"{timing.name:<28}{timing.median:>11.0f}{spread:>20}{plain:>12.2f}x{single:>13.2f}x"
        print(line + (f"{bound:>10.0f}{bound / timing.median:>10.1%}" if bound else ""))
    print(f"PHN-LS minus one model, same engine: {median[LS] - median[SINGLE]:.0f} us")
    print(f"PHN-EPO / PHN-LS: {median[EPO] / median[LS]:.2f}")
    if several(LS) in median:
        ratios = [f"{median[several(name)] / median[name]:.2f} ({name})" for name in (LS, EPO)]
        print(f"{SEVERAL} rays x {size // SEVERAL} rows / 1 ray x {size} rows: {', '.join(ratios)}")
    times = [f"{median[f'reference {name}'] / median[f'PHN-{name}']:.1f} ({name})" for name in ("LS", "EPO")]
    print(f"reference / ours: {', '.join(times)}")
    whole = [f"{case.recipe.epochs * case.steps * median[name] / 1e6:.1f} s ({name})" for name in (LS, EPO)]
    print(f"{case.recipe.epochs} epochs of {case.steps} steps would take {', '.join(whole)}")


def time_evaluation(case: Case, device: torch.device, *, images: int, turns: int) -> Evaluation:
    data = tuple(column[:images] for column in case.problem.test.source.data)  # pyrefly: ignore[missing-attribute]
    problem = hf.supervised(
        data, test=data, losses=case.problem.measures, scores=case.problem.scores, inputs=case.problem.inputs
    )
    model, times = case.model(device), []
    for _ in range(turns + 1):
        start = seconds(device)
        hf.evaluate(model, problem.test, 25)
        times.append(seconds(device) - start)
    return Evaluation(25, images, times[1:])


def trace(case: Case, device: torch.device, folder: Path) -> None:
    """Chrome traces of an epoch of five steps of everything, after one to warm up."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    activities += [torch.profiler.ProfilerActivity.CUDA] if device.type == "cuda" else []
    folder.mkdir(parents=True, exist_ok=True)
    for name, epoch in epochs_of(case.shortened(5), device).items():
        epoch()
        seconds(device)
        with torch.profiler.profile(activities=activities) as profile:
            epoch()
            seconds(device)
        path = folder / f"{case.name} {name}.json".replace(", ", "-").replace(" ", "-")
        profile.export_chrome_trace(str(path))
        print(f"trace: {path}")


class Bench:
    """The parts of the command: each prints what it measures and returns it as JSON."""

    def __init__(self, options: argparse.Namespace, device: torch.device, rates: Rates):
        self.options, self.device, self.rates = options, device, rates
        self.turns = 2 if options.quick else max(5, options.turns)
        self.rows = 1024 if options.quick else None

    def case(self, name: str) -> Case:
        return make_case(name, self.options.data_dir, rows=self.rows)

    def steps(self) -> Any:
        return {name: self._steps(self.case(name)) for name in self.options.problems}

    def _steps(self, case: Case) -> Any:
        limit = 1 if self.options.quick else CPU_STEPS[case.name] if self.device.type == "cpu" else case.steps
        rows = time_case(case.shortened(limit), self.rates, self.device, self.turns, quick=self.options.quick)
        show_case(case, rows, steps=min(case.steps, limit))
        return [{**row.timing._asdict(), "bound": row.bound} for row in rows]

    def evaluation(self) -> Any:
        images = 200 if self.options.quick else 2_000 if self.device.type == "cpu" else 20_000
        found = time_evaluation(self.case(LENET), self.device, images=images, turns=self.turns)
        middle, least, most = (f(found.seconds) for f in (statistics.median, min, max))
        print(f"\nevaluation of 25 rays on {images:,} images: {middle:.3f} s ({least:.3f} .. {most:.3f})")
        return found._asdict()

    def growth(self) -> Any:
        steps = 3 if self.options.quick else 20 if self.device.type == "cpu" else 200
        curves = growth.measure(self.device, steps=steps, turns=self.turns, quick=self.options.quick)
        growth.show(curves)
        growth.plot(curves, self.options.out / "growth.png")
        print(f"\nplot: {self.options.out / 'growth.png'}")
        return [curve.as_json() for curve in curves]

    def train(self) -> Any:
        case, found = self.case(LENET), []
        print(f"\n{LENET}, whole runs; hypervolume and uniformity on the test data")
        print(
            f"{'':<9}{'engine':<8}{'seed':>4}{'epochs':>8}{'training s':>12}{'total s':>9}{'HV':>8}{'uniformity':>12}"
        )
        engine = self.options.engine or ("graph" if self.device.type == "cuda" else "eager")
        epochs, seeds = self.options.epochs or case.recipe.epochs, self.turns if engine == "graph" else 1
        for run in runs.train(case, self.device, engine=engine, epochs=epochs, seeds=seeds):
            line = f"{run.solver:<9}{run.engine:<8}{run.seed:>4}{run.epochs:>8}{run.training:>12.2f}{run.total:>9.2f}"
            print(f"{line}{run.hypervolume:>8.4f}{run.uniformity:>12.4f}", flush=True)
            found.append(run._asdict())
        return found

    def cold(self) -> Any:
        options, found = self.options, []
        print(f"\n{LENET}, from a cold process to hypervolume {HYPERVOLUME} at uniformity {UNIFORMITY} in validation")
        print(f"{'seconds':>8}{'epochs':>8}{'HV':>8}{'uniformity':>12}")
        for _ in range(self.turns):
            run = runs.cold(
                options.data_dir, self.device, epochs=options.epochs or 20, rows=self.rows, tf32=options.tf32
            )
            missed = "" if run.reached else "  missed"
            line = f"{run.seconds:>8.2f}{run.epoch:>8}{run.hypervolume:>8.4f}{run.uniformity:>12.4f}"
            print(f"{line}{missed}", flush=True)
            found.append(run._asdict())
        return found

    def trace(self) -> None:
        for name in self.options.problems:
            trace(self.case(name), self.device, self.options.trace)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=1, help="of a CPU")
    parser.add_argument("--tf32", action="store_true", help="let a GPU round the factors of products to TF32")
    parser.add_argument("--problems", nargs="+", default=list(RANDOM), choices=list(RANDOM))
    folder = os.environ.get("HYPERFRONT_DATA")
    parser.add_argument("--data-dir", type=Path, default=folder and Path(folder), help="else the data are random")
    parser.add_argument("--turns", type=int, default=7, help="repetitions, at least 5")
    parser.add_argument("--quick", action="store_true", help="smallest settings: shows in seconds that the script runs")
    parser.add_argument("--growth", action="store_true", help="step time against sizes, with a plot in --out")
    parser.add_argument("--train", action="store_true", help="whole runs")
    parser.add_argument("--cold", action="store_true", help="fresh processes, until the paper's front is reached")
    parser.add_argument("--engine", choices=["graph", "eager"], help="of --train; eager with one seed, to compare")
    parser.add_argument("--epochs", type=int, help="of --train (the paper's 150 unless said) and of --cold (20)")
    parser.add_argument("--trace", type=Path, metavar="FOLDER", help="Chrome traces")
    parser.add_argument("--out", type=Path, default=Path("."), metavar="FOLDER")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there")
    options = parser.parse_args()
    if (options.train or options.cold) and options.data_dir is None:
        parser.error("--train and --cold need the real data: --data-dir FOLDER, or HYPERFRONT_DATA")
    return options


def main() -> None:
    options = arguments()
    torch.set_num_threads(options.threads)
    torch.set_float32_matmul_precision("high" if options.tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = options.tf32
    torch.manual_seed(0)
    cuda = options.device == "cuda" or (options.device == "auto" and torch.cuda.is_available())
    device = torch.device("cuda" if cuda else "cpu")
    bench, machine = (
        Bench(options, device, measure_rates(device, repetitions=2 if options.quick else 7)),
        environment(device),
    )
    data, kind = "real data" if options.data_dir else "random data", "TF32" if options.tf32 else "float32"
    where = machine["device"] if cuda else f"CPU, {options.threads} thread(s)"
    print(f"{where}, torch {torch.__version__}, {data}, medians of {bench.turns}; measured: ", end="")
    print(f"{bench.rates.flops / 1e12:.3g} Tflop/s ({kind} products), {bench.rates.bandwidth / 1e9:.3g} GB/s (copies)")

    parts = [part for part in ("growth", "train", "cold", "trace") if getattr(options, part)] or ["steps"]
    parts += ["evaluation"] if parts == ["steps"] and LENET in options.problems else []
    found = {"environment": machine, "data": data, "precision": kind, "rates": bench.rates._asdict()}
    found |= {part: getattr(bench, part)() for part in parts}
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
