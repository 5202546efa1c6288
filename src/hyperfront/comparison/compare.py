"""Compare methods on one problem: the same rays, the same seeds, the same selection rule, one table.

Every finished part has a result file and is not repeated; an interrupted part continues from its run folder.
"""

from __future__ import annotations

import inspect
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from hyperfront.comparison.formats import filled
from hyperfront.comparison.kept import measured
from hyperfront.comparison.method import ComparisonJob
from hyperfront.comparison.methods import find_method
from hyperfront.comparison.protocol import Protocol
from hyperfront.comparison.result import Result, by_method, loaded, measure
from hyperfront.comparison.table import shown_name, spread
from hyperfront.comparison.timing import seconds_apart
from hyperfront.errors import CheckpointError, HyperfrontError
from hyperfront.preferences import validate
from hyperfront.problem import Problem, Truth
from hyperfront.problem.registry import problems
from hyperfront.problem.sources import TensorSource
from hyperfront.storage import files, locks
from hyperfront.storage.nests import tensors
from hyperfront.storage.provenance import refuse_difference
from hyperfront.training import Progress
from hyperfront.training.ranks import refuse_several

Notify = Callable[[str, int, Result | None], None]


def compare(
    problem: Problem,
    methods: Sequence[str],
    protocol: Protocol,
    *,
    seeds: Sequence[int],
    folder: str | Path,
    runs: str | Path | None = None,
    progress: bool = True,
    notify: Notify = lambda method, seed, found: None,
) -> list[Result]:
    """A result for every method and seed, in ``folder/results``; runs are in ``runs`` (by default ``folder/runs``).

    ``notify(method, seed, found)`` is called before each part, with its result if the folder has it already. Several
    processes may call this at once, and share the work.
    """
    refuse_several("compare")
    protocol = _checked(problem, methods, protocol, seeds)
    folder = Path(folder)
    runs = folder / "runs" if runs is None else Path(runs)
    files = {(method, seed): folder / "results" / f"{method}-{seed}.json" for seed in seeds for method in methods}
    done = {part: Result.load(file) for part, file in files.items() if file.exists()}
    for result in done.values():
        check_settings(result, protocol, problem)

    def run(part: tuple[str, int]) -> None:
        method, seed = part
        if part not in done and files[part].exists():  # another process has finished it
            done[part] = Result.load(files[part])
            check_settings(done[part], protocol, problem)
        if part not in told:
            notify(*part, done.get(part))
            told.add(part)
        if part not in done:
            done[part] = run_method(method, protocol, problem, seed=seed, runs=runs, progress=progress)
            done[part].save(files[part])

    told: set[tuple[str, int]] = set()
    locks.share_out(files, run)
    return [done[method, seed] for method in methods for seed in seeds]


def run_method(
    name: str, protocol: Protocol, problem: Problem, *, seed: int, runs: Path, progress: bool = True
) -> Result:
    """Train a method, or continue its training, in a folder below ``runs``, and measure it."""
    method, start = find_method(name), time.perf_counter()
    job = ComparisonJob(method, protocol, problem, seed, runs, [Progress()] if progress else [])
    before = method.spent(job)
    run, parts = method.train(job)
    seconds = {"total": time.perf_counter() - start + before, **parts}
    settings = protocol.settings(name)
    asked = {"preset": protocol.preset, "method": method, "seed": seed, "settings": settings, "seconds": seconds}
    return measure(run, method.sees(problem), **asked)


def _checked(problem: Problem, methods: Sequence[str], protocol: Protocol, seeds: Sequence[int]) -> Protocol:
    """The protocol for this problem, or an error for a comparison that cannot be run."""
    if isinstance(methods, str) or isinstance(seeds, int):
        raise HyperfrontError(
            "methods and seeds are lists", got=f"{methods!r}, {seeds!r}", expected='["phn-epo", "ls"], range(3)'
        )
    for split in ("val", "test"):  # validation data select, test data measure
        if split not in problem.sources:
            problem.split(split)  # raises its error
    rays, arguments = validate(protocol.rays, problem.m, problem.objectives), _arguments(problem, protocol)
    protocol = replace(protocol, rays=rays, recipe=replace(protocol.recipe, arguments=arguments))
    for method in methods:
        protocol.check(method, problem)
    return protocol


def _arguments(problem: Problem, protocol: Protocol) -> dict[str, Any]:
    """Return the arguments that distinguish a problem from others of its name, for its results. For a built-in problem,
    they are the arguments that the recipe names or that differ from the defaults; for your own problem, its identity,
    or a checksum."""
    if problem.identity is None:
        return {"checksum": _checksum(problem)}
    arguments = problem.identity.get("arguments", {})
    known = problems().get(problem.name)
    usual = {name: p.default for name, p in inspect.signature(known.make).parameters.items()} if known else {}
    return {k: v for k, v in arguments.items() if k in protocol.recipe.arguments or k not in usual or v != usual[k]}


def _checksum(problem: Problem) -> str:
    """A checksum of the objectives, the reference point, the size of the target and the data in memory."""
    sizes = [tuple(p.shape) for p in problem.make_target().parameters()] if problem.make_target else []
    found = zlib.crc32(repr((problem.objectives, problem.reference, sizes)).encode())
    for source in problem.sources.values():
        for tensor in tensors(source.data) if isinstance(source, TensorSource) else []:
            flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().flatten()
            found = zlib.crc32(flat.view(torch.uint8).numpy().data, found)
    return f"{found:08x}"


def beside(
    results: Sequence[Result], protocol: Protocol, problem: Problem, folder: Path
) -> tuple[list[Result], list[Result]]:
    """Return the other results in the folder: results of the same comparison, and results with other settings."""
    here = {(result.method, result.seed) for result in results}
    same, others = [], []
    for result in loaded(sorted((folder / "results").glob("*.json"))):
        if (result.method, result.seed) not in here:
            try:
                check_settings(result, protocol, problem)
                same.append(result)
            except CheckpointError:
                others.append(result)
    return same, others


def times_one_by_one(
    problem: Problem, methods: Sequence[str], protocol: Protocol, *, folder: Path, notify: Callable[[str], None]
) -> dict[str, float]:
    """The seconds that methods with one model per ray take if models are trained one after the other. They are measured
    once for the same settings on the same device; ``notify(method)`` is called before each measurement."""
    found = {}

    def find(method: str) -> None:
        file = folder / "times" / f"{method}.json"
        where = {"device": protocol.device, "engine": protocol.engine, "products": torch.get_float32_matmul_precision()}
        settings = protocol.settings(method) | where
        with locks.alone_in(file.parent):  # two at once would measure each other
            known: dict[str, Any] = files.read_json(file) if file.exists() else {}
            if filled(known.get("made_with", {})) != filled(settings):
                notify(method)
                known = {"one_by_one": seconds_apart(method, protocol, problem), "made_with": settings}
                files.write_json(file, known)
        found[method] = known["one_by_one"]

    locks.share_out([name for name in methods if find_method(name).one_per_ray], find)
    return found


def check_settings(found: Result, protocol: Protocol, problem: Problem) -> None:
    """Raise an error if the result has other settings than the protocol."""
    wanted = {"problem": problem.name, "preset": protocol.preset, **protocol.settings(found.method)}
    stored = {"problem": found.problem, "preset": found.preset, **found.settings}
    what = f"the folder holds a result of {found.method} with other settings"
    refuse_difference(stored, wanted, what=what, fix="use the same settings or another folder (--out)")


COLUMNS = (
    "method",
    "seeds",
    "points",
    "HV",
    "kept HV",
    "uniformity",
    "distance",
    "seconds",
    "one by one",
    "parameters",
)


def table(
    results: Sequence[Result], apart: Mapping[str, float], truth: Truth | None = None
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns, and a row for each method: means over seeds (and standard deviations), on the test data.

    ``points`` counts the different points of the seed with the fewest. ``HV`` counts all points, ``kept HV`` only
    points that are non-dominated on validation data (:mod:`hyperfront.comparison.kept`). ``distance`` is the largest
    distance of a point of any seed to the true front, if that is known. ``seconds`` counts the training steps; ``one by
    one`` is the time of the same models trained one after the other, given as ``apart``.
    """
    shown = [name for name in COLUMNS if truth is not None or name != "distance"]
    return tuple(shown), [_row(group, apart.get(method), truth) for method, group in by_method(results).items()]


def _row(group: Sequence[Result], apart: float | None, truth: Truth | None) -> tuple[str, ...]:
    tests = [result.fronts["test"] for result in group]
    single = group[0].kind.gives == "ideal"
    distances = [truth.distance(result.losses()).max().item() for result in group] if truth and not single else []
    return (
        shown_name(group[0]),
        str(len(group)),
        "1" if single else str(min(result.points for result in group)),
        spread([test["hypervolume"] for test in tests], digits=4),
        spread([None if single else _kept(result) for result in group], digits=4),
        spread([test["uniformity"] for test in tests], digits=4),
        *([f"{max(distances):.1e}" if distances else "-"] if truth else []),
        f"{sum(result.seconds['training'] for result in group) / len(group):,.1f}",
        "-" if apart is None else f"{apart:,.1f}",
        f"{group[0].parameters:,}" if group[0].parameters else "-",
    )


def _kept(result: Result) -> float | None:
    """The test hypervolume of the points that validation data keep."""
    if not result.reference or "val" not in result.fronts:
        return None
    val = torch.tensor(result.fronts["val"]["losses"], dtype=torch.float64)
    return measured(val, result.losses(), result.reference).kept
