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
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

import hyperfront as hf
from hyperfront.training.record import environment
from stopwatch import growth, runs
from stopwatch.bound import Work, front_work, single_work
from stopwatch.cases import RANDOM, Case, make_case
from stopwatch.device import Rates, measure_rates, seconds
from stopwatch.epochs import Epoch, Timing, front_of, plain_of, reference_of, single_of, take_turns

LENET = "multi-fashion-mnist"
CPU_STEPS = {LENET: 20, "adult": 100, "sarcos": 20}
"""Steps of a repetition on a CPU; on a GPU they are whole epochs."""
PLAIN, SINGLE, LS, EPO = "one model, torch.nn loop", "one model, our engine", "PHN-LS", "PHN-EPO"
SEVERAL = 8


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


def epochs_of(case: Case, device: torch.device) -> dict[str, Epoch]:
    """All that is timed."""
    made = {
        PLAIN: plain_of(case, device),
        SINGLE: single_of(case, device),
        LS: front_of(case, hf.LS(), device),
        f"{LS}, again": front_of(case, hf.LS(), device),
        EPO: front_of(case, hf.EPO(), device),
    }
    if case.name == LENET:
        made[several(LS)] = front_of(case, hf.LS(), device, rays_per_step=SEVERAL)
        made[several(EPO)] = front_of(case, hf.EPO(), device, rays_per_step=SEVERAL)
    made["reference LS"] = reference_of(case, device, epo=False)
    made["reference EPO"] = reference_of(case, device, epo=True)
    return made


def several(name: str) -> str:
    return f"{name}, {SEVERAL} rays x {256 // SEVERAL} rows"


def work_of(name: str, case: Case) -> Work | None:
    if name.startswith("reference"):
        return None
    if name in (PLAIN, SINGLE):
        return single_work(case)
    return front_work(case, epo=name.startswith(EPO), rays=SEVERAL if name == several(name.split(",")[0]) else 1)


def time_case(case: Case, rates: Rates, device: torch.device, turns: int) -> list[Row]:
    kinds = [PLAIN, SINGLE, LS, f"{LS}, again", EPO, several(LS), several(EPO)]
    works = {name: work_of(name, case) for name in kinds}  # on the CPU, before the data move to the device
    timings = take_turns(epochs_of(case, device), turns=turns, device=device)
    bounds = {name: work.microseconds(rates) for name, work in works.items() if work}
    return [Row(timing, bounds.get(timing.name)) for timing in timings]


def show_case(case: Case, rows: Sequence[Row], *, steps: int) -> None:
    median = {row.timing.name: row.timing.median for row in rows}
    size = case.recipe.batch_size
    print(f"\n{case.name}, batch {size}, {case.problem.m} objectives, {steps} steps a repetition")
    header = f"{'step':<28}{'median us':>11}{'quartiles':>20}{'of torch.nn':>13}{'of one model':>14}"
    print(f"{header}{'bound us':>10}{'of bound':>10}")
    for timing, bound in rows:
        low, high = timing.quartiles
        spread, plain, single = (
            f"{low:.0f} .. {high:.0f}",
            timing.median / median[PLAIN],
            timing.median / median[SINGLE],
        )
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


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=1, help="of a CPU")
    parser.add_argument("--tf32", action="store_true", help="let a GPU round factors of products to TF32")
    parser.add_argument("--problems", nargs="*", default=list(RANDOM), choices=list(RANDOM))
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("HYPERFRONT_DATA"), help="else random data")
    parser.add_argument("--turns", type=int, default=7, help="repetitions")
    parser.add_argument("--quick", action="store_true", help="few steps, to see that it runs")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--epochs", type=int, help="of --train (150 unless said) and --cold (20)")
    parser.add_argument("--trace", type=Path, metavar="FOLDER")
    parser.add_argument("--out", type=Path, default=Path("."), metavar="FOLDER", help="for the plot of --growth")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    torch.set_num_threads(options.threads)
    torch.set_float32_matmul_precision("high" if options.tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = options.tf32
    torch.manual_seed(0)
    cuda = options.device == "cuda" or (options.device == "auto" and torch.cuda.is_available())
    device, turns = torch.device("cuda" if cuda else "cpu"), 2 if options.quick else max(5, options.turns)
    data = "real data" if options.data_dir else "random data of the same shapes"
    rates, machine = measure_rates(device), environment(device)
    found: dict[str, Any] = {"environment": machine, "data": data, "tf32": options.tf32, "rates": rates._asdict()}
    print(f"{machine['device']}, {options.threads} thread(s), torch {torch.__version__}, {data}, median of {turns}")
    kind = "TF32" if options.tf32 else "float32"
    print(f"measured: {rates.flops / 1e12:.3g} Tflop/s in {kind} products, {rates.bandwidth / 1e9:.3g} GB/s in copies")

    if options.growth:
        curves = growth.measure(device, steps=3 if options.quick else 50, turns=turns, quick=options.quick)
        growth.show(curves)
        growth.plot(curves, options.out / "growth.png")
        found["growth"] = [
            curve._asdict()
            | {"timings": [t._asdict() for t in curve.timings]}
            | {"exponent": curve.exponent(), "exponent of the upper half": curve.exponent(upper=True)}
            for curve in curves
        ]
        print(f"\nplot: {options.out / 'growth.png'}")
    if (options.train or options.cold) and options.data_dir is None:
        raise SystemExit("--train and --cold need the real data: --data-dir FOLDER, or HYPERFRONT_DATA")
    if options.train:
        case = make_case(LENET, options.data_dir)
        whole = runs.train(case.shortened(3) if options.quick else case, device, epochs=options.epochs)
        print(
            f"\n{LENET}, whole runs\n{'engine':<8}{'solver':<8}{'epochs':>7}{'training s':>12}{'total s':>10}{'HV':>8}"
        )
        for run in whole:
            line = f"{run.engine:<8}{run.solver:<8}{run.epochs:>7}{run.training:>12.2f}{run.total:>10.2f}"
            print(f"{line}{run.hypervolume:>8.4f}")
        found["train"] = [run._asdict() for run in whole]
    if options.cold:
        rows = 2048 if options.quick else None
        cold = runs.cold(options.data_dir, device, epochs=options.epochs or 20, rows=rows, tf32=options.tf32)
        what = "reached" if cold.reached else "did not reach"
        print(f"\na cold process {what} the paper's front in {cold.seconds:.1f} s, {cold.epoch} epochs: ", end="")
        print(f"hypervolume {cold.hypervolume:.3f}, uniformity {cold.uniformity:.3f}")
        found["cold"] = cold._asdict()
    if options.trace:
        for name in options.problems:
            trace(make_case(name, options.data_dir), device, options.trace)
    if not (options.growth or options.train or options.cold or options.trace):
        found["problems"] = {}
        for name in options.problems:
            case = make_case(name, options.data_dir)
            limit = 3 if options.quick else None if cuda else CPU_STEPS[name]
            short = case.shortened(limit)
            rows = time_case(short, rates, device, turns)
            show_case(case, rows, steps=min(case.steps, limit or case.steps))
            found["problems"][name] = [{**row.timing._asdict(), "bound": row.bound} for row in rows]
            if name == LENET:
                images = 512 if options.quick else 20_000 if cuda else 2_000
                evaluation = time_evaluation(case, device, images=images, turns=turns)
                found["evaluation"] = evaluation._asdict()
                middle, least, most = (f(evaluation.seconds) for f in (statistics.median, min, max))
                print(f"evaluation of 25 rays on {images:,} images: {middle:.3f} s ({least:.3f} .. {most:.3f})")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
