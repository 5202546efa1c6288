"""The problem that a command is about: a built-in name, ``package.module:factory``, a table, or the run of one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hyperfront.apps.cli.arguments import parse
from hyperfront.apps.cli.opening import asks_for_options, own_problem
from hyperfront.errors import HyperfrontError, unknown_name
from hyperfront.problem import Problem
from hyperfront.problem.recipe import Recipe
from hyperfront.problem.registry import build, entry, is_builtin, problems, recipe
from hyperfront.tabular import problem as table_problem
from hyperfront.tabular.reading import is_table
from hyperfront.tabular.recipe import recipe_for
from hyperfront.training.loading import load, recorded_problem

OWN = "own"
"""The preset of problems that are not built in."""


@dataclass(frozen=True)
class Named:
    """A problem, with the settings that train it, and words for folders and titles."""

    word: str
    problem: Problem
    recipe: Recipe
    preset: str
    summary: str

    def compared(self, **numbers: int | None) -> Recipe:
        """The settings of a comparison: with these numbers, where one is given, for all methods; rays as trained."""
        given: dict[str, Any] = {name: number for name, number in numbers.items() if number is not None}
        return replace(self.recipe, **given, separate={**self.recipe.separate, **given}, align=False)


def find(
    name: str,
    *,
    preset: str | None = None,
    arguments: tuple[str, ...] = (),
    data_dir: Path | None = None,
    target: str | None = None,
    sensitive: tuple[str, ...] = (),
    objectives: tuple[str, ...] = (),
) -> Named:
    """Make the problem; ``target``, ``sensitive`` and ``objectives`` are those of a table."""
    given = {"--target": target, "--sensitive": sensitive, "--objectives": objectives}
    if is_table(name):
        _refuse(name, {"--preset": preset, "--arguments": arguments, "--data-dir": data_dir})
        if target is None:
            raise HyperfrontError("a table needs the column to predict", got=name, fix="--target COLUMN")
        made = table_problem(name, target, sensitive=sensitive, objectives=objectives or None)
        word = "-".join([Path(name).name.split(".")[0], *(each.replace(":", "-") for each in objectives)])
        return _own(word, made, f"{target}, predicted from {Path(name).name}")
    _refuse(name, given)
    if is_builtin(name):
        settings = recipe(name, preset)
        settings = settings.changed(arguments=parse(arguments))
        built = build(name, data_dir=data_dir, **settings.arguments)
        return Named(name, built, settings, preset or next(iter(entry(name).presets)), entry(name).summary)
    if ":" in name:
        _refuse(name, {"--preset": preset, "--arguments": arguments, "--data-dir": data_dir})
        return _own(name.replace(":", "-").replace(".", "-"), own_problem(name), f"your problem {name}")
    if Path(name).is_dir():
        _refuse(name, {"--preset": preset, "--arguments": arguments})
        return _of_run(Path(name), data_dir)
    raise (
        unknown_name("problem", name, [*problems()])
        if "/" not in name
        else HyperfrontError(
            "there is no such problem",
            got=name,
            expected="a built-in name, package.module:factory, a CSV file or a run",
        )
    )


def _of_run(folder: Path, data_dir: Path | None) -> Named:
    """The problem of a run folder, whose checkpoint says how to make it."""
    with asks_for_options("name the problem itself, as package.module:factory"):
        model = load(folder)
    made = recorded_problem(model.record, most=model.target.n, data_dir=data_dir)
    if made.name == "table":
        return _own(folder.resolve().name, made, f"the table of {folder}")
    preset = next(iter(entry(made.name).presets))
    return Named(made.name, made, recipe(made.name), preset, f"the problem of {folder}")


def _own(word: str, made: Problem, summary: str) -> Named:
    source: Any = made.train.source
    rows = getattr(source, "rows", None)
    if made.name == "table":
        return Named(word, made, recipe_for(rows or 1000), OWN, summary)
    settings = (
        Recipe(model=dict(made.wrapping))
        if rows is None
        else Recipe(batch_size=min(256, rows), model=dict(made.wrapping))
    )
    return Named(word, made, settings, OWN, summary)


def _refuse(name: str, options: dict[str, Any]) -> None:
    """Raise an error for options that this kind of problem does not have."""
    wrong = [option for option, value in options.items() if value]
    if wrong:
        raise HyperfrontError(f"{name} takes no {' and no '.join(wrong)}", fix="leave it out")
