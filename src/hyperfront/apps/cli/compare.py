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

from hyperfront import preferences
from hyperfront.apps.cli.arguments import (
    RAYS,
    Arguments,
    BuiltIn,
    Column,
    Columns,
    DataFolder,
    Device,
    Engine,
    Flag,
    Folder,
    Losses,
    Number,
    Preset,
    Tf32,
    choose_device,
    default_folder,
    parse,
    set_tf32,
)
from hyperfront.apps.cli.named import Named, find
from hyperfront.apps.cli.output import console, counted, show_table
from hyperfront.comparison.compare import beside, table, times_one_by_one
from hyperfront.comparison.compare import compare as run_all
from hyperfront.comparison.methods import METHODS, find_method, summary
from hyperfront.comparison.protocol import Protocol
from hyperfront.comparison.result import Result
from hyperfront.comparison.tuned import Tuned
from hyperfront.errors import CheckpointError, HyperfrontError, unknown_name
from hyperfront.problem import Problem
from hyperfront.storage import files
from hyperfront.storage.markdown import as_markdown


def _takers(kind: type) -> str:
    """Name the methods with options of this kind; a word and a star where all names begin with that word."""
    names = [name for name in METHODS if METHODS[name].options is kind]
    word = names[0].partition("-")[0]
    return f"{word}*" if len(names) > 1 and all(name.startswith(word) for name in names) else ", ".join(names)


_OPTIONS = "Settings of one method. " + "; ".join(
    f"{_takers(kind)}: {', '.join(item.name for item in dataclasses.fields(kind))}"
    for kind in dict.fromkeys(method.options for method in METHODS.values())
    if kind
)


def compare(
    problem: BuiltIn,
    /,
    *,
    methods: Annotated[str, tyro.conf.arg(metavar="NAME,NAME,...", help=summary())] = "phn-epo,phn-ls,ls,epo,pmtl",
    rays: Annotated[int, tyro.conf.arg(metavar="N")] = RAYS,
    seeds: Annotated[int, tyro.conf.arg(metavar="N")] = 3,
    preset: Preset = None,
    arguments: Arguments = (),
    epochs: Number = None,
    tuned: Folder = None,
    options: Annotated[Arguments, tyro.conf.arg(metavar="METHOD.X=Y ...", help=_OPTIONS)] = (),
    one_by_one: Flag = False,
    device: Device = "auto",
    engine: Engine = "auto",
    tf32: Tf32 = False,
    data_dir: DataFolder = None,
    out: Folder = None,
    markdown: Flag = False,
    target: Column = None,
    sensitive: Columns = (),
    objectives: Losses = (),
) -> None:
    """Compare methods on a problem: quality on test data, time, parameters.

    All methods get the same rays and seeds. Run it again to continue. Example:
        hyperfront compare fonseca --methods phn-epo,ls,epo,pmtl,mgda,nsga3,moead

    Args:
        rays: Rays, evenly laid out.
        seeds: Number of seeds for each method.
        arguments: Arguments of the problem, such as rows=2000.
        epochs: Passes of gradient methods over the data.
        tuned: Folder of settings that `tune` found.
        one_by_one: Train the models of the rays one by one.
        out: Folder; by default runs/compare-PROBLEM-PRESET.
        markdown: Print the table as Markdown.
    """
    set_tf32(tf32)
    columns = {"target": target, "sensitive": sensitive, "objectives": objectives}
    named = find(problem, preset=preset, arguments=arguments, data_dir=data_dir, **columns)
    built, preset = named.problem, named.preset
    names = [*dict.fromkeys(find_method(name.strip()).name for name in methods.split(",") if name.strip())]
    if seeds < 1 or not names:
        got = f"{counted(seeds, 'seed')}, methods {methods!r}"
        raise HyperfrontError("there is nothing to compare", got=got, expected="one seed and one method at least")
    protocol = Protocol(
        preset=preset,
        recipe=named.compared(epochs=epochs),
        rays=preferences.rays(rays, built.m),
        options=_options(options),
        one_by_one=one_by_one,
        device=str(choose_device(device, built)),
        engine=engine,
    )
    if tuned is not None:
        given = {"epochs"} if epochs is not None else set()
        protocol = dataclasses.replace(protocol, tuned=_tuned(tuned, built.name, names, protocol, given))
    differs = {f"{epochs}-epochs": epochs is not None, "tuned": tuned is not None}
    differs |= dict.fromkeys([*arguments, *options], True) | {"one-by-one": one_by_one}
    folder = out or default_folder("compare", named.word, preset, {f"{rays}-rays": rays != RAYS, **differs})
    files.refuse_unwritable(folder / "table.md", again=True)  # raised now, not after the last run
    torch.set_num_threads(1)  # more threads gain nothing with tensors this small, and lose much on a busy machine
    changed = [word if "=" in word else word.replace("-", " ") for word, applies in differs.items() if applies]
    title = ", ".join([named.word, f"preset {preset}", counted(rays, "ray"), *changed])
    _run(named, names, protocol, seeds, folder, title, markdown)


def _run(
    named: Named, names: list[str], protocol: Protocol, seeds: int, folder: Path, title: str, markdown: bool
) -> None:
    """Run all parts that are not finished, and show the table."""
    problem = named.problem
    count = iter(range(1, len(names) * seeds + 1))
    progress = Console(highlight=False, stderr=True) if markdown else console  # standard output gets the table alone

    def notify(method: str, seed: int, found: Result | None) -> None:
        state = " [dim](finished before)[/dim]" if found else ""
        progress.print(f"{next(count)}/{len(names) * seeds}  {method}, seed {seed}{state}")

    def tell(method: str) -> None:
        progress.print(f"{method}: measuring the time of its models one by one, from the first model")

    rays, preset = counted(len(protocol.rays), "ray"), protocol.preset
    progress.print(f"[bold]{named.word}[/bold]  {named.summary}\n{rays}, preset {preset}, results in {folder}")
    try:
        results = run_all(problem, names, protocol, seeds=range(seeds), folder=folder, notify=notify)
        same, others = beside(results, protocol, problem, folder)
        results += same
        shown = [*dict.fromkeys(result.method for result in results)]
        apart = times_one_by_one(problem, shown, protocol, folder=folder, notify=tell)
    except KeyboardInterrupt as stop:
        stop.args = (f"stopped; the same command continues with the results in {folder}",)
        raise
    _show(results, apart, problem, folder, title, markdown)
    if others:
        left = ", ".join(f"{result.method} (seed {result.seed})" for result in others)
        progress.print(f"left out, made with other settings: {left}", soft_wrap=True)


def _tuned(
    folder: Path, problem: str, names: Sequence[str], protocol: Protocol, given: set[str]
) -> dict[str, dict[str, Any]]:
    """The tuned settings of methods, without the settings ``given`` on the command line."""
    names = [name for name in names if METHODS[METHODS[name].trained_as].tunable]
    wanted = [*dict.fromkeys(METHODS[name].trained_as for name in names)]
    if folder.is_file():
        raise CheckpointError(
            "--tuned names a file", got=folder, expected="the folder that tune wrote it to", fix=folder.parent
        )
    files = {name: folder / f"{name}.json" for name in METHODS}
    found = {name: Tuned.load(files[name]) for name in wanted if files[name].exists()}
    if foreign := next((tuned for tuned in found.values() if tuned.problem != problem), None):
        what = "these settings were tuned on another problem"
        raise CheckpointError(what, got=f"{folder}: {foreign.problem}", expected=problem)
    if wanted and not found:
        raise CheckpointError(
            "the folder has no tuned settings of these methods",
            got=folder,
            expected=f"{wanted[0]}.json",
            fix=f"hyperfront tune {problem} --method {wanted[0]} --out {folder}",
        )
    for name, tuned in found.items():
        _compare_settings(name, tuned, protocol)
    if rest := [name for name in names if METHODS[name].trained_as not in found]:
        console.print(f"not tuned, so with the settings of the preset: {', '.join(rest)}")
    every = dict(found)
    for name in METHODS:  # the table may already have other methods with tuned settings
        with suppress(CheckpointError):
            every.setdefault(name, Tuned.load(files[name]))
    return {name: {k: v for k, v in tuned.settings.items() if k not in given} for name, tuned in every.items()}


def _compare_settings(name: str, tuned: Tuned, protocol: Protocol) -> None:
    """Print the settings in which the tuning differs from the comparison."""
    before, now = {"preset": tuned.preset, **tuned.made_with}, {"preset": protocol.preset, **protocol.settings(name)}
    known = before.keys() & now.keys() - tuned.settings.keys() - {"rays", "separate"}
    if different := [key for key in sorted(known) if before[key] != now[key]]:
        console.print(f"{name} was tuned with other settings: {', '.join(f'{k} {before[k]}' for k in different)}")


def _options(given: tuple[str, ...]) -> dict[str, Any]:
    """``("cpmtl.steps=2",)`` as the options of that method."""
    found: dict[str, dict[str, Any]] = {}
    for name, setting in parse(given).items():
        method, dot, key = name.partition(".")
        if not dot:
            raise HyperfrontError("an option does not name a method", got=name, expected="METHOD.SETTING=VALUE")
        kind = find_method(method).options
        known = [item.name for item in dataclasses.fields(kind)] if kind else []
        if key not in known:
            raise unknown_name(f"setting of {method}", key, known)
        found.setdefault(method, {})[key] = setting
    return {method: METHODS[method].options(**settings) for method, settings in found.items()}  # pyrefly: ignore


def _show(
    results: Sequence[Result], apart: Mapping[str, float], problem: Problem, folder: Path, title: str, markdown: bool
) -> None:
    columns, rows = table(results, apart, problem.truth)
    text = as_markdown(columns, rows)
    files.write_bytes(folder / "table.md", f"{title}; {_legend(problem)}\n\n{text}\n".encode())
    if markdown:
        console.print(text, soft_wrap=True, markup=False)
        return
    console.print()
    show_table(columns, rows, left=1)
    console.print(f"\n{title}; {_legend(problem)}\n{folder / 'table.md'}", style="dim", soft_wrap=True)


def _legend(problem: Problem) -> str:
    reference = ", ".join(f"{value:g}" for value in problem.reference or ())
    return (
        f"{'test data; ' if problem.has_data else ''}hypervolume up to ({reference}); uniformity with the natural "
        "logarithm; seconds of the training steps, and of the same models one by one"
    )
