"""``hyperfront tune``: the settings that a method is compared with."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import torch
import tyro

from hyperfront.apps.cli.arguments import (
    RAYS,
    Arguments,
    DataFolder,
    Device,
    Engine,
    Folder,
    Number,
    Preset,
    choose_device,
    parse,
    usual_folder,
    value,
)
from hyperfront.apps.cli.output import console, counted
from hyperfront.comparison.methods import Plan, family
from hyperfront.comparison.search import LEARNING_RATE, check_search
from hyperfront.comparison.tune import tune as run_trials
from hyperfront.errors import HyperfrontError
from hyperfront.preferences import rays as laid_out
from hyperfront.problem.registry import build, entry, problems, recipe
from hyperfront.storage.files import make_folder, refuse_unwritable
from hyperfront.training import Progress

_SEARCH = (
    "What to search: NAME=LOW..HIGH on a logarithmic scale, or NAME=VALUE,VALUE,...; names are settings of a preset "
    "(lr, batch_size, epochs, warmup, schedule, alpha, rays_per_step) or options of the hypernetwork (hidden). If all "
    "are lists, the whole grid is tried. By default lr=1e-4..1e-2."
)


def tune(
    problem: Annotated[str, tyro.conf.arg(metavar="PROBLEM", help="One of " + ", ".join(problems()))],
    /,
    *,
    method: Annotated[str, tyro.conf.arg(metavar="NAME")] = "phn-epo",
    search: Annotated[
        tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUES ...", help=_SEARCH, help_behavior_hint="")
    ] = (),
    trials: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="")] = None,
    rays: Annotated[int, tyro.conf.arg(metavar="N")] = RAYS,
    preset: Preset = None,
    arguments: Arguments = (),
    epochs: Number = None,
    validate_every: Number = None,
    seed: int = 0,
    device: Device = "auto",
    engine: Engine = "auto",
    data_dir: DataFolder = None,
    out: Folder = None,
    storage: Annotated[str | None, tyro.conf.arg(metavar="URL", help_behavior_hint="")] = None,
) -> None:
    """Find the settings of a method on a built-in problem, by the paper's protocol.

    A hypernetwork (phn-SOLVER): the settings with the best validation hypervolume. One model per ray (SOLVER): train at
    one ray, drop dominated configurations, keep the one with the highest uniformity. Bad trials are pruned. The same
    command goes on with a study that was stopped; with one --storage, many machines work on it at once. Examples:
        hyperfront tune adult --method phn-epo
        hyperfront tune adult --method epo --search lr=1e-3,5e-4,1e-4
        hyperfront tune multi-mnist --method phn-ls --search lr=1e-4..1e-2 hidden=50..200 alpha=0.1..1.0
        hyperfront compare adult --methods phn-epo,epo --tuned runs/tune-adult-quick

    Args:
        method: phn-SOLVER or SOLVER, such as phn-epo, ls or pmtl; cpmtl takes what was found for ls.
        trials: Trials in all, with those that were pruned and those of earlier calls; by default 20, or the whole grid.
        rays: Rays at which the hypervolume is measured, or that PMTL divides the loss space by.
        arguments: Arguments of the problem, such as variables=2 or rows=2000.
        epochs: Passes over the data.
        validate_every: Epochs between validations, at which trials can be pruned.
        seed: Seed of all trials, and of the search.
        out: Where METHOD.json goes; by default runs/tune-PROBLEM-PRESET, with what is not as usual behind it.
        storage: Data base for the trials, as optuna names it; by default SQLite in the folder of --out.
    """
    settings = recipe(problem, preset)
    preset = preset or next(iter(entry(problem).presets))
    given = {"epochs": epochs, "validate_every": validate_every}
    changes: dict[str, Any] = {key: number for key, number in given.items() if number is not None}
    settings = dataclasses.replace(
        settings,
        **changes,
        separate={**settings.separate, **changes},
        arguments={**settings.arguments, **parse(arguments)},
        align=False,  # as in `compare`
    )
    built = build(problem, data_dir=data_dir, **settings.arguments)
    plan = Plan(
        preset=preset,
        recipe=settings,
        rays=laid_out(rays, built.m),
        device=str(choose_device(device, built)),
        engine=engine,
    )
    space = dict(map(_range, search)) or LEARNING_RATE
    if len(space) < len(search):
        raise HyperfrontError("a setting is named twice", got=" ".join(search), fix="name=value,value,...")
    trials = check_search(built, method, plan, space=space, trials=trials, seed=seed)
    unusual = {f"{rays}-rays": rays != RAYS, f"{epochs}-epochs": epochs is not None, f"seed-{seed}": seed != 0}
    folder = out or usual_folder("tune", problem, preset, unusual)
    file = folder / f"{method}.json"
    refuse_unwritable(file, again=True)  # said now, not after the last trial
    if storage is None:
        make_folder(folder)
    torch.set_num_threads(1)
    console.print(
        f"[bold]{method}[/bold] on [bold]{problem}[/bold], preset {preset}, {counted(trials, 'trial')}; {folder}"
    )
    try:
        found = run_trials(
            built,
            method,
            plan,
            space=space,
            trials=trials,
            storage=storage or f"sqlite:///{folder / 'trials.db'}",
            seed=seed,
            callbacks=[Progress()],
            notify=_tell,
        )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the same command goes on with the trials that are left") from None
    found.save(file)
    rule = "highest uniformity of what is not dominated" if family(method) == "per-ray" else "best hypervolume"
    if not found.hypervolume and family(method) == "phn":
        rule = "no trial has a point below the reference point, so the first one"
    console.print(f"\n{rule}: {_words(found.settings)}")
    where = "validation " if built.has_data else ""
    console.print(
        f"{where}hypervolume {found.hypervolume:.4f}, uniformity {found.uniformity:.4f}; trials: "
        + ", ".join(f"{count} {state}" for state, count in found.trials.items())
    )
    console.print(f"wrote {file}")


def _range(text: str) -> tuple[str, Any]:
    """``lr=1e-4..1e-2`` as a tuple, ``lr=1e-3,1e-4`` as a list."""
    name, equals, values = text.partition("=")
    parts = values.split("..") if ".." in values else values.split(",")
    if not equals or not all(parts):
        raise HyperfrontError("nothing to search", got=text, expected="name=low..high or name=value,value,...")
    found = [value(part) for part in parts]
    if ".." not in values:
        return name, found
    if len(found) != 2 or isinstance(found[0], str) or isinstance(found[1], str) or not 0 < found[0] < found[1]:
        raise HyperfrontError("no such range", got=text, expected="name=low..high with 0 < low < high")
    return name, tuple(found)


def _tell(study: Any, trial: Any) -> None:
    reached = trial.user_attrs
    if trial.state.name == "COMPLETE":
        text = f"hypervolume {reached['hypervolume']:.4f}, uniformity {reached['uniformity']:.4f}"
    else:
        text = reached.get("failed") or trial.state.name.lower()
    console.print(f"trial {trial.number + 1:>3}  {_words(trial.params)}  {text}")


def _words(settings: Any) -> str:
    return ", ".join(f"{name} {f'{v:.3g}' if isinstance(v, float) else v}" for name, v in settings.items())
