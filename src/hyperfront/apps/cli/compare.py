"""``hyperfront compare``: several methods on one problem, one table."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro
from rich.console import Console

from hyperfront.apps.cli.arguments import (
    RAYS,
    Arguments,
    DataFolder,
    Device,
    Engine,
    Folder,
    Number,
    Preset,
    Tf32,
    choose_device,
    parse,
    set_tf32,
    usual_folder,
)
from hyperfront.apps.cli.output import console, counted, show_table
from hyperfront.comparison.baselines import Budget, Expansion
from hyperfront.comparison.compare import beside, table, times_one_by_one
from hyperfront.comparison.compare import compare as run_all
from hyperfront.comparison.methods import NAMES, ONE_PER_RAY, Plan, check_method, family, trained_as
from hyperfront.comparison.result import Result
from hyperfront.comparison.tune import Tuned
from hyperfront.errors import CheckpointError, HyperfrontError, unknown_name
from hyperfront.preferences import rays as laid_out
from hyperfront.problem import Problem
from hyperfront.problem.registry import build, entry, problems, recipe
from hyperfront.storage import files
from hyperfront.storage.markdown import as_markdown

_METHODS = (
    "Methods, separated by commas: phn-SOLVER, a Pareto hypernetwork; SOLVER (ls, epo, pmtl, mgda, ...), one model per "
    "ray; cpmtl, expansion from the models of ls; nsga3 and moead, evolutionary algorithms; single, one model per "
    "objective."
)


def compare(
    problem: Annotated[str, tyro.conf.arg(metavar="PROBLEM", help="One of " + ", ".join(problems()))],
    /,
    *,
    methods: Annotated[str, tyro.conf.arg(metavar="NAME,NAME,...", help=_METHODS)] = "phn-epo,phn-ls,ls,epo,pmtl",
    rays: Annotated[int, tyro.conf.arg(metavar="N")] = RAYS,
    seeds: Annotated[int, tyro.conf.arg(metavar="N")] = 3,
    preset: Preset = None,
    arguments: Arguments = (),
    epochs: Number = None,
    tuned: Folder = None,
    expansion: Arguments = (),
    budget: Arguments = (),
    one_by_one: bool = False,
    device: Device = "auto",
    engine: Engine = "auto",
    tf32: Tf32 = False,
    data_dir: DataFolder = None,
    out: Folder = None,
    markdown: bool = False,
) -> None:
    """Compare methods on a built-in problem: hypervolume, uniformity, time and parameters in one table.

    All methods are asked for the same points, get the same seeds, and keep the weights of the epoch with the best
    validation hypervolume (without data, of the last one); the table is of the test data. Rays of hypernetworks are
    not aligned on validation data, as models for one ray have no such step. What is finished is not run again: after
    an interruption, the same command goes on, and another one with the same settings adds to the table. Examples:
        hyperfront compare fonseca --methods phn-epo,ls,epo,pmtl,mgda,nsga3,moead
        hyperfront compare adult --methods phn-epo,ls,epo,pmtl,cpmtl --rays 10 --seeds 3
        hyperfront tune adult --method epo
        hyperfront compare adult --methods phn-epo,epo --tuned runs/tune-adult-quick

    Args:
        rays: Rays, evenly laid out, the same for all methods. A whole grid has 6, 10 or 15 for three objectives.
        seeds: Seeds 0, 1, ..., each a run of every method.
        arguments: Arguments of the problem, such as variables=2 or rows=2000.
        epochs: Passes over the data, for all methods that are trained by gradients.
        tuned: Folder in which `hyperfront tune` left the best settings of some of the methods.
        expansion: Settings of cpmtl: steps, length, halvings, damping, iterations, tolerance, rows.
        budget: Settings of nsga3 and moead: generations, population, rows.
        one_by_one: Train one model per ray one by one; the numbers are the same, up to rounding and dropout.
        out: Where results and runs go; by default runs/compare-PROBLEM-PRESET, with what is not as usual behind it.
        markdown: Print the table as Markdown.
    """
    set_tf32(tf32)
    settings = recipe(problem, preset)
    preset = preset or next(iter(entry(problem).presets))
    changes: dict[str, Any] = {"arguments": {**settings.arguments, **parse(arguments)}, "align": False}
    if epochs is not None:
        changes |= {"epochs": epochs, "separate": {**settings.separate, "epochs": epochs}}
    settings = dataclasses.replace(settings, **changes)
    built = build(problem, data_dir=data_dir, **settings.arguments)
    names = [*dict.fromkeys(check_method(name.strip()) for name in methods.split(",") if name.strip())]
    if seeds < 1 or not names:
        raise HyperfrontError(
            "nothing to compare", got=f"{counted(seeds, 'seed')}, methods {methods!r}", expected="one at least"
        )
    plan = Plan(
        preset=preset,
        recipe=settings,
        rays=laid_out(rays, built.m),
        expansion=_made(Expansion, expansion),
        budget=_made(Budget, budget),
        one_by_one=one_by_one,
        device=str(choose_device(device, built)),
        engine=engine,
    )
    if tuned is not None:
        given = {"epochs"} if epochs is not None else set()
        plan = dataclasses.replace(plan, tuned=_tuned(tuned, problem, names, plan, given))
    unusual = {f"{rays}-rays": rays != RAYS, f"{epochs}-epochs": epochs is not None, "tuned": tuned is not None}
    unusual |= dict.fromkeys([*arguments, *expansion, *budget], True) | {"one-by-one": one_by_one}
    folder = out or usual_folder("compare", problem, preset, unusual)
    files.refuse_unwritable(folder / "table.md", again=True)  # said now, not after the last run
    torch.set_num_threads(1)  # tensors this small gain nothing from more, and lose much on a busy machine
    count = iter(range(1, len(names) * seeds + 1))
    progress = Console(highlight=False, stderr=True) if markdown else console  # a file gets the table alone

    def notify(method: str, seed: int, found: Result | None) -> None:
        state = " [dim](finished before)[/dim]" if found else ""
        progress.print(f"{next(count)}/{len(names) * seeds}  {method}, seed {seed}{state}")

    def tell(method: str) -> None:
        progress.print(f"{method}: the time of its models one by one, from the first")

    progress.print(
        f"[bold]{problem}[/bold]  {entry(problem).summary}\n"
        f"{counted(rays, 'ray')}, preset {preset}, results in {folder}"
    )
    try:
        results = run_all(built, names, plan, seeds=range(seeds), folder=folder, notify=notify)
        same, others = beside(results, plan, built, folder)
        results += same
        shown = [*dict.fromkeys(result.method for result in results)]
        apart = times_one_by_one(built, shown, plan, folder=folder, notify=tell)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; the same command goes on with what is in {folder}") from None
    changed = [word for word, applies in unusual.items() if applies and word != f"{rays}-rays"]
    changed = [word if "=" in word else word.replace("-", " ") for word in changed]
    title = ", ".join([problem, f"preset {preset}", counted(rays, "ray"), *changed])
    _show(results, apart, built, folder, title, markdown)
    if others:
        left = ", ".join(f"{result.method} (seed {result.seed})" for result in others)
        progress.print(f"left out, made with other settings: {left}", soft_wrap=True)


def _tuned(folder: Path, problem: str, names: Sequence[str], plan: Plan, given: set[str]) -> dict[str, dict[str, Any]]:
    """The settings that were found for methods, but for those ``given`` on the command line."""
    names = [name for name in names if family(name) in ("phn", *ONE_PER_RAY)]  # others have nothing to tune
    wanted = [*dict.fromkeys(map(trained_as, names))]
    if folder.is_file():
        raise CheckpointError(
            "that is a file", got=folder, expected="the folder that tune wrote it to", fix=folder.parent
        )
    files = {name: folder / f"{name}.json" for name in NAMES}
    found = {name: Tuned.load(files[name]) for name in wanted if files[name].exists()}
    if foreign := next((tuned for tuned in found.values() if tuned.problem != problem), None):
        raise CheckpointError("that was tuned on another problem", got=f"{folder}: {foreign.problem}", expected=problem)
    if wanted and not found:
        raise CheckpointError(
            "nothing was tuned there",
            got=folder,
            expected=f"{wanted[0]}.json",
            fix=f"hyperfront tune {problem} --method {wanted[0]} --out {folder}",
        )
    for name, tuned in found.items():
        before, now = {"preset": tuned.preset, **tuned.made_with}, {"preset": plan.preset, **plan.settings(name)}
        known = before.keys() & now.keys() - tuned.settings.keys() - {"rays", "separate"}
        if different := [key for key in sorted(known) if before[key] != now[key]]:
            console.print(f"{name} was tuned with other settings: {', '.join(f'{k} {before[k]}' for k in different)}")
    if rest := [name for name in names if trained_as(name) not in found]:
        console.print(f"not tuned, so with the settings of the preset: {', '.join(rest)}")
    every = dict(found)
    for name in NAMES:  # those of other methods too, which may be in the table already
        with suppress(CheckpointError):
            every.setdefault(name, Tuned.load(files[name]))
    return {name: {k: v for k, v in tuned.settings.items() if k not in given} for name, tuned in every.items()}


def _made(kind: type, arguments: tuple[str, ...]) -> Any:
    given, known = parse(arguments), [item.name for item in dataclasses.fields(kind)]
    if unknown := sorted(given.keys() - {*known}):
        raise unknown_name(f"setting of the {kind.__name__.lower()}", unknown[0], known)
    return kind(**given)


def _show(
    results: Sequence[Result], apart: Mapping[str, float], problem: Problem, folder: Path, title: str, markdown: bool
) -> None:
    columns, rows = table(results, apart, problem.truth)
    text = as_markdown(columns, rows)
    files.write_bytes(folder / "table.md", f"{title}; {_what(problem)}\n\n{text}\n".encode())
    if markdown:
        console.print(text, soft_wrap=True, markup=False)
        return
    console.print()
    show_table(columns, rows, left=1)
    console.print(f"\n{title}; {_what(problem)}\n{folder / 'table.md'}", style="dim", soft_wrap=True)


def _what(problem: Problem) -> str:
    reference = ", ".join(f"{value:g}" for value in problem.reference or ())
    return (
        f"{'test data; ' if problem.has_data else ''}hypervolume up to ({reference}); uniformity with the natural "
        "logarithm; seconds of the training steps, and of the same models one by one"
    )
