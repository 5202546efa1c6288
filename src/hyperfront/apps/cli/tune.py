"""``hyperfront tune``: find the settings that a method is compared with."""

from __future__ import annotations

from typing import Annotated, Any

import torch
import tyro

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
    Folder,
    Losses,
    Number,
    Preset,
    choose_device,
    default_folder,
    option,
    value,
)
from hyperfront.apps.cli.named import find
from hyperfront.apps.cli.output import console, counted
from hyperfront.comparison.methods import find_method
from hyperfront.comparison.protocol import Protocol
from hyperfront.comparison.search import LEARNING_RATE, check_search
from hyperfront.comparison.tune import tune as run_trials
from hyperfront.comparison.tuned import Tuned
from hyperfront.errors import HyperfrontError
from hyperfront.storage.files import make_folder, refuse_unwritable
from hyperfront.training import Progress

_SEARCH = (
    "NAME=LOW..HIGH on a logarithmic scale, or NAME=VALUE,VALUE,...; names are settings of a preset (lr, batch_size, "
    "epochs, warmup, schedule, alpha, rays_per_step) or of the hypernetwork (hidden). If all are lists, the whole grid "
    "is tried. The default is lr=1e-4..1e-2."
)


def tune(
    problem: BuiltIn,
    /,
    *,
    method: Annotated[str, tyro.conf.arg(metavar="NAME")] = "phn-epo",
    search: Annotated[tuple[str, ...], option("NAME=VALUES ...", _SEARCH)] = (),
    trials: Annotated[int | None, option("N")] = None,
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
    storage: Annotated[str | None, option("URL")] = None,
    target: Column = None,
    sensitive: Columns = (),
    objectives: Losses = (),
) -> None:
    """Find the settings of a method on a problem, by the paper's protocol.

    A hypernetwork (phn-SOLVER) gets the settings with the best validation hypervolume. One model per ray (SOLVER) is
    trained at one ray; dominated configurations are dropped, and the most uniform remaining one wins. Bad trials are
    pruned. Run the same command again to continue a stopped study; machines share a study by its --storage. Examples:
        hyperfront tune adult --search lr=1e-4..1e-2 hidden=50..200 alpha=0.1..1.0
        hyperfront compare adult --methods epo --tuned runs/tune-adult-quick

    Args:
        method: phn-SOLVER or SOLVER, such as ls; cpmtl uses the settings of ls.
        trials: Number of trials, pruned and earlier ones included; by default 20, or the grid.
        rays: Rays at which the hypervolume is measured, or by which PMTL divides the loss space.
        arguments: Arguments of the problem, such as rows=2000.
        epochs: Passes over the data.
        validate_every: Epochs between validations, which may prune.
        seed: Seed of all trials and the search.
        out: Folder for METHOD.json; by default runs/tune-PROBLEM-PRESET plus changed settings.
        storage: Database of the trials, as optuna names it.
    """
    columns = {"target": target, "sensitive": sensitive, "objectives": objectives}
    named = find(problem, preset=preset, arguments=arguments, data_dir=data_dir, **columns)
    built, preset = named.problem, named.preset
    protocol = Protocol(
        preset=preset,
        recipe=named.compared(epochs=epochs, validate_every=validate_every),
        rays=preferences.rays(rays, built.m),
        device=str(choose_device(device, built)),
        engine=engine,
    )
    space = dict(map(_range, search)) or LEARNING_RATE
    if len(space) < len(search):
        raise HyperfrontError("a setting is named twice", got=" ".join(search), fix="use name=value,value,...")
    trials = check_search(built, method, protocol, space=space, trials=trials, seed=seed)
    differs = {f"{rays}-rays": rays != RAYS, f"{epochs}-epochs": epochs is not None, f"seed-{seed}": seed != 0}
    folder = out or default_folder("tune", named.word, preset, differs)
    file = folder / f"{method}.json"
    refuse_unwritable(file, again=True)  # raised now, not after the last trial
    if storage is None:
        make_folder(folder)
    torch.set_num_threads(1)
    console.print(
        f"[bold]{method}[/bold] on [bold]{named.word}[/bold], preset {preset}, {counted(trials, 'trial')}; {folder}"
    )
    try:
        found = run_trials(
            built,
            method,
            protocol,
            space=space,
            trials=trials,
            storage=storage or f"sqlite:///{folder / 'trials.db'}",
            seed=seed,
            callbacks=[Progress()],
            notify=_tell,
        )
    except KeyboardInterrupt as stop:
        stop.args = ("stopped; the same command continues with the remaining trials",)
        raise
    found.save(file)
    _show(found, "validation " if built.has_data else "")
    console.print(f"wrote {file}")


def _show(found: Tuned, where: str) -> None:
    """Print the chosen settings, and the rule that chose them."""
    hypernetwork = find_method(found.method).hypernetwork
    rule = "best hypervolume" if hypernetwork else "highest uniformity of the trials that no other dominates"
    if hypernetwork and not found.hypervolume:
        rule = "no trial has a point below the reference point, so this is the first trial"
    console.print(f"\n{rule}: {_words(found.settings)}")
    console.print(
        f"{where}hypervolume {found.hypervolume:.4f}, uniformity {found.uniformity:.4f}; trials: "
        + ", ".join(f"{count} {state}" for state, count in found.trials.items())
    )


def _range(text: str) -> tuple[str, Any]:
    """``lr=1e-4..1e-2`` as a tuple, ``lr=1e-3,1e-4`` as a list."""
    name, equals, values = text.partition("=")
    parts = values.split("..") if ".." in values else values.split(",")
    if not equals or not all(parts):
        raise HyperfrontError("a search needs values", got=text, expected="name=low..high or name=value,value,...")
    found = [value(part) for part in parts]
    if ".." not in values:
        return name, found
    if len(found) != 2 or isinstance(found[0], str) or isinstance(found[1], str) or not 0 < found[0] < found[1]:
        raise HyperfrontError("the range is not valid", got=text, expected="name=low..high with 0 < low < high")
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
