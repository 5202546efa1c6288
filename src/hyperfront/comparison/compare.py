"""Compare methods on one problem: the same rays, the same seeds, the same selection rule, one table.

Everything that is finished has a result file, and is not run again; what was interrupted goes on from its run folder.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from hyperfront.comparison.baselines.evolutionary import check_evolvable
from hyperfront.comparison.methods import EVOLUTIONARY, ONE_PER_RAY, Plan, check_method, family, run_method
from hyperfront.comparison.result import Result, loaded
from hyperfront.comparison.table import spread
from hyperfront.comparison.timing import seconds_apart
from hyperfront.errors import CheckpointError, HyperfrontError
from hyperfront.preferences import validate
from hyperfront.problem import Problem, Truth
from hyperfront.problem.registry import problems
from hyperfront.problem.sources import TensorSource
from hyperfront.storage import files, locks
from hyperfront.storage.nests import tensors
from hyperfront.storage.provenance import refuse_difference

Notify = Callable[[str, int, Result | None], None]


def compare(
    problem: Problem,
    methods: Sequence[str],
    plan: Plan,
    *,
    seeds: Sequence[int],
    folder: str | Path,
    runs: str | Path | None = None,
    progress: bool = True,
    notify: Notify = lambda method, seed, found: None,
) -> list[Result]:
    """A result for every method and seed, in ``folder/results``; runs are in ``runs`` (``folder/runs``).

    ``notify(method, seed, found)`` is called before each, with the result where it is there already. Several processes
    may call this at once, and share the work.
    """
    if isinstance(methods, str) or isinstance(seeds, int):
        raise HyperfrontError(
            "methods and seeds are lists", got=f"{methods!r}, {seeds!r}", expected='["phn-epo", "ls"], range(3)'
        )
    for split in ("val", "test"):  # to select on, and to measure
        if split not in problem.sources:
            problem.split(split)  # its error
    rays, arguments = validate(plan.rays, problem.m, problem.objectives), _arguments(problem, plan)
    plan = replace(plan, rays=rays, recipe=replace(plan.recipe, arguments=arguments))
    for method in methods:
        plan.check(check_method(method))
        if method in EVOLUTIONARY:
            check_evolvable(problem)
    folder = Path(folder)
    runs = folder / "runs" if runs is None else Path(runs)
    files = {(method, seed): folder / "results" / f"{method}-{seed}.json" for seed in seeds for method in methods}
    done = {part: Result.load(file) for part, file in files.items() if file.exists()}
    for result in done.values():
        check_settings(result, plan, problem)

    def run(part: tuple[str, int]) -> None:
        method, seed = part
        if part not in done and files[part].exists():  # by another process, meanwhile
            done[part] = Result.load(files[part])
            check_settings(done[part], plan, problem)
        if part not in told:
            notify(*part, done.get(part))
            told.add(part)
        if part not in done:
            done[part] = run_method(method, plan, problem, seed=seed, runs=runs, progress=progress)
            done[part].save(files[part])

    told: set[tuple[str, int]] = set()
    locks.share_out(files, run)
    return [done[method, seed] for method in methods for seed in seeds]


def _arguments(problem: Problem, plan: Plan) -> dict[str, Any]:
    """What tells a problem from others of its name, for its results: the arguments of a built-in one that the recipe
    names, or that are not the usual ones; of one of the user's, what was said of it, or a checksum."""
    if problem.identity is None:
        return {"checksum": _checksum(problem)}
    arguments = problem.identity.get("arguments", {})
    known = problems().get(problem.name)
    usual = {name: p.default for name, p in inspect.signature(known.make).parameters.items()} if known else {}
    return {k: v for k, v in arguments.items() if k in plan.recipe.arguments or k not in usual or v != usual[k]}


def _checksum(problem: Problem) -> str:
    """Of objectives, reference point, the size of the target and the data in memory."""
    sizes = [tuple(p.shape) for p in problem.make_target().parameters()] if problem.make_target else []
    found = zlib.crc32(repr((problem.objectives, problem.reference, sizes)).encode())
    for source in problem.sources.values():
        for tensor in tensors(source.data) if isinstance(source, TensorSource) else []:
            flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().flatten()
            found = zlib.crc32(flat.view(torch.uint8).numpy().data, found)
    return f"{found:08x}"


def beside(results: Sequence[Result], plan: Plan, problem: Problem, folder: Path) -> tuple[list[Result], list[Result]]:
    """What the folder holds beside these results: other methods and seeds of the same comparison, and those with other
    settings."""
    here = {(result.method, result.seed) for result in results}
    same, others = [], []
    for result in loaded(sorted((folder / "results").glob("*.json"))):
        if (result.method, result.seed) not in here:
            try:
                check_settings(result, plan, problem)
                same.append(result)
            except CheckpointError:
                others.append(result)
    return same, others


def times_one_by_one(
    problem: Problem, methods: Sequence[str], plan: Plan, *, folder: Path, notify: Callable[[str], None]
) -> dict[str, float]:
    """How long methods with one model per ray take, one after the other, measured once for the same settings on the
    same device (:mod:`hyperfront.comparison.timing`); ``notify(method)`` is called before that."""
    found = {}

    def look(method: str) -> None:
        file = folder / "times" / f"{method}.json"
        where = {"device": plan.device, "engine": plan.engine, "products": torch.get_float32_matmul_precision()}
        settings = plan.settings(method) | where
        with locks.alone_in(file.parent):  # two at once would measure each other
            known: dict[str, Any] = files.read_json(file) if file.exists() else {}
            if known.get("made_with") != settings:
                notify(method)
                known = {"one_by_one": seconds_apart(method, plan, problem), "made_with": settings}
                files.write_json(file, known)
        found[method] = known["one_by_one"]

    locks.share_out([name for name in methods if family(name) in ONE_PER_RAY], look)
    return found


def check_settings(found: Result, plan: Plan, problem: Problem) -> None:
    """An error if the result is of another comparison."""
    wanted = {"problem": problem.name, "preset": plan.preset, **plan.settings(found.method)}
    stored = {"problem": found.problem, "preset": found.preset, **found.settings}
    what = f"the folder holds a result of {found.method} with other settings"
    refuse_difference(stored, wanted, what=what, fix="the same settings, or another folder (--out)")


COLUMNS = ("method", "seeds", "points", "HV", "uniformity", "distance", "seconds", "one by one", "parameters")


def table(
    results: Sequence[Result], apart: Mapping[str, float], truth: Truth | None = None
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns, and a row for each method: means over seeds (and standard deviations), on the test data.

    ``points`` are the different ones, of the seed that has fewest; ``distance`` is the largest one of a point of any
    seed to the true front, where that is known. ``seconds`` are those of the training steps, ``one by one`` those of
    the same models trained one after the other, given as ``apart``.
    """
    shown = [name for name in COLUMNS if truth is not None or name != "distance"]
    return tuple(shown), [_row(method, group, apart.get(method), truth) for method, group in _by_method(results)]


def _by_method(results: Sequence[Result]) -> Iterator[tuple[str, list[Result]]]:
    for method in dict.fromkeys(result.method for result in results):
        yield method, [result for result in results if result.method == method]


def _row(method: str, group: Sequence[Result], apart: float | None, truth: Truth | None) -> tuple[str, ...]:
    tests = [result.fronts["test"] for result in group]
    single = group[0].family == "single"
    distances = [truth.distance(result.losses()).max().item() for result in group] if truth and not single else []
    return (
        "single (ideal)" if single else method,
        str(len(group)),
        "1" if single else str(min(result.points for result in group)),
        spread([test["hypervolume"] for test in tests], digits=4),
        spread([test["uniformity"] for test in tests], digits=4),
        *([f"{max(distances):.1e}" if distances else "-"] if truth else []),
        f"{sum(result.seconds['training'] for result in group) / len(group):,.1f}",
        "-" if apart is None else f"{apart:,.1f}",
        f"{group[0].parameters:,}",
    )
