"""``hyperfront train data.csv``: from a table to a run folder with front, page, card and the network of a choice."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro
from tqdm import tqdm

from hyperfront.apps.cli.arguments import Device, Flag, Folder, Keep, choose_device, option, parse
from hyperfront.apps.cli.output import console, draw, free_folder, list_files, summary
from hyperfront.apps.cli.train import refuse_unusable, remember_command, resumable
from hyperfront.errors import HyperfrontError, UnattainableError
from hyperfront.export import card, weights
from hyperfront.front import Front, Selection, evaluate
from hyperfront.front.certificate import Certificate
from hyperfront.front.intervals import intervals
from hyperfront.problem import Problem
from hyperfront.solvers.names import make_solver
from hyperfront.storage import files
from hyperfront.tabular import near_constant
from hyperfront.tabular import problem as make_problem
from hyperfront.training import Progress, fit
from hyperfront.training.ranks import refuse_several
from hyperfront.training.runs import Run, RunFolder

Words = Annotated[tuple[str, ...], option("NAME ..")]
Pairs = Annotated[tuple[str, ...], option("X=Y ..")]
Name = Annotated[str | None, option("NAME")]
Count = Annotated[int | None, option("N")]


def train_table(
    table: Annotated[Path, tyro.conf.arg(metavar="FILE", help="A CSV or Parquet file.")],
    /,
    *,
    target: Annotated[str, tyro.conf.arg(metavar="NAME")],
    sensitive: Words = (),
    minimize: Name = None,
    maximize: Name = None,
    limit: Pairs = (),
    confidence: Annotated[float | None, tyro.conf.arg(metavar="P", help_behavior_hint="")] = None,
    objectives: Words = (),
    kinds: Pairs = (),
    cuts: Pairs = (),
    positive: Name = None,
    split: Annotated[str, tyro.conf.arg(metavar="PLAN")] = "rows",
    network: Annotated[Literal["mlp", "resnet", "linear"], tyro.conf.arg(metavar="NAME")] = "mlp",
    encoding: Name = None,
    solver: Annotated[str, tyro.conf.arg(metavar="NAME")] = "ls",
    epochs: Count = None,
    seed: int = 0,
    device: Device = "auto",
    out: Folder = None,
    resume: Flag = False,
    keep: Keep = 2,
) -> None:
    """Train a model of every trade-off on a table, and choose one within limits.

    The run folder gets the front, a page, a model card and the network of the choice. Examples:
        hyperfront train people.csv --target hired --sensitive sex
        hyperfront train people.csv --target hired --sensitive sex --minimize error --limit fpr_gap=.05 --confidence .95
        hyperfront train sales.csv --target price --split time=day

    Args:
        target: The column to predict.
        sensitive: Columns that divide the rows into groups.
        minimize: Choose the trade-off where this loss or score is least.
        maximize: Choose the trade-off where this score is largest.
        limit: Limits of the choice, such as fpr_gap=.05.
        confidence: Certify the limits for the population with this probability, on rows that chose nothing.
        objectives: Losses to train, such as log_loss fpr_gap.
        kinds: Kinds of columns: number, category, date, ignore.
        cuts: Where numbers are cut into groups: age=25,60.
        positive: The positive class of two; by default the last one, by number or alphabet.
        split: rows, group=COLUMN or time=COLUMN.
        network: mlp, resnet or linear.
        encoding: Encoding of the file, if not UTF-8.
        solver: Solver; docs/which-solver.md compares them.
        epochs: Passes over the training rows.
        seed: Seed of splits and training.
        out: Run folder; by default a new one below runs/.
        resume: Continue the run in --out, or begin it there.
    """
    refuse_several("training on a table")
    refuse_unusable(out, None, resume)
    limits = {name: _limit(name, bound) for name, bound in parse(limit).items()}
    _check_question(limit, minimize or maximize, confidence)
    made = make_problem(
        table,
        target,
        sensitive=sensitive,
        objectives=objectives or None,
        kinds={name: str(kind) for name, kind in parse(kinds).items()},  # pyrefly: ignore[bad-argument-type]
        cuts={name: _numbers(text) for name, text in parse(cuts).items()},
        positive=positive,
        split=_plan(split),
        network=network,
        encoding=encoding,
        seed=seed,
    )
    _check_names(made, [*limits, *(name for name in (minimize, maximize) if name is not None)])
    torch.manual_seed(seed)
    model = made.model().to(choose_device(device, made))
    describe(made)
    folder = RunFolder(out or free_folder(Path("runs") / table.name.split(".")[0]))
    start = time.perf_counter()
    with resumable(str(table), folder):
        run = fit(
            model,
            made,
            solver=make_solver(solver, {}),
            epochs=epochs,
            seed=seed,
            out=folder.path,
            resume=resume,
            keep=keep,
            callbacks=[Progress()],
        )
    console.print(f"\ntrained in {time.perf_counter() - start:.1f} s\n")
    remember_command(folder)
    choice, refusal = None, None
    if run.front is not None and (minimize or maximize):
        try:
            choice = run.front.select(minimize=minimize, maximize=maximize, subject_to=limits, confidence=confidence)
        except UnattainableError as error:
            refusal = error
    _write(run, made, choice)
    if refusal is not None:
        console.print(
            f"The run is kept: the same command with other limits and --out {folder.path} --resume chooses without "
            "training again.",
            soft_wrap=True,
        )
        raise refusal


def describe(made: Problem) -> None:
    """Print target, inputs, groups, rows and objectives of the table."""
    schema: Any = made.make_target().schema if made.make_target else None  # pyrefly: ignore[missing-attribute]
    console.print(
        f"[bold]{schema.target}[/bold]  {schema.task}" + f": {', '.join(schema.classes)}" * bool(schema.classes)
    )
    if schema.task == "binary":
        console.print(f"  positive {schema.classes[-1]}", soft_wrap=True, markup=False)
    console.print(f"  inputs   {', '.join(column.name for column in schema.columns)}", soft_wrap=True, markup=False)
    if schema.groups:
        console.print(f"  groups   {'; '.join(schema.groups)}", soft_wrap=True, markup=False)
    sources: dict[str, Any] = {name: made.split(name).source for name in made.sources}
    counts = {name: source.rows for name, source in sources.items()}
    console.print("  rows     " + ", ".join(f"{count:,} {name}" for name, count in counts.items()))
    console.print(f"  trains   {', '.join(made.objectives)}", soft_wrap=True)


def _write(run: Run, made: Problem, choice: Selection | None) -> None:
    """Write front, page, card and choice into the run folder, and print a summary."""
    from hyperfront.apps.explorer import explore  # needs the extra "explore"

    folder, front = run.folder, run.front
    if folder is None or front is None:
        return
    for name, text in summary(front, made).items():
        console.print(f"{name:<28}{text}", soft_wrap=True)
    draw(front, folder)
    test = None
    if choice is not None:
        ray = choice.ray.tolist()
        test = evaluate(run.model, made.test, ray)
        reached = {name: column.item() for name, column in test.columns().items()}
        files.write_json(folder.choice, {**choice.document(), "test": reached})
        weights(run.model, ray, folder.path / "chosen.safetensors")
    ray = None if choice is None else choice.ray.tolist()
    sure = [] if ray is None else [intervals(run.model, split, ray) for split in (made.val, made.test)]
    text = card(
        run.model, front if test is None else test, ray=ray, problem=made, choice=choice, test=test, intervals=sure
    )
    files.write_bytes(folder.path / "README.md", text.encode())
    with tqdm(desc="measuring the front for its page", unit="ray", disable=None) as bar:

        def progress(done: int, of: int) -> None:
            bar.total = of
            bar.update(done - bar.n)

        explore(run, made).save(folder.path / "page.html", progress=progress)
    list_files(folder)
    for line in _conclusion(folder, choice, test):
        console.print(line, soft_wrap=True)


def _conclusion(folder: RunFolder, choice: Selection | None, test: Front | None) -> list[str]:
    """Summarize the front and the chosen trade-off."""
    lines = ["", f"On a page: [bold]{folder.path / 'page.html'}[/bold], or live: hyperfront explore {folder.path}"]
    if choice is None or test is None:
        return [*lines, "Choose a trade-off there, or train with --minimize and --limit."]
    columns = test.columns()
    best = f"{choice.meanings[choice.goal].label} {choice.values[choice.goal]:.3f}"
    within = [
        f"{choice.meanings[name].label} {choice.values[name]:.3f} (limit {sign} {bound:g})"
        for name, (sign, bound) in choice.limits.items()
    ]
    lines += ["", f"Chosen on validation rows: {best}" + (f", with {', '.join(within)}" if within else "") + "."]
    on_test = [f"{choice.meanings[name].label} {columns[name].item():.3f}" for name in (choice.goal, *choice.limits)]
    lines.append(f"On test rows, which chose nothing: {', '.join(on_test)}.")
    if choice.certificate is not None:
        lines += _certified(choice, choice.certificate)
    if useless := near_constant(choice.values):
        lines.append(f"Warning: {useless}.")
    broken = [
        choice.meanings[name].label
        for name, (sign, bound) in choice.limits.items()
        if (columns[name].item() > bound) == (sign == "<=") and columns[name].item() != bound
    ]
    if broken:
        lines.append(
            f"The test rows miss the limit of {', '.join(broken)}. A sample can do that by chance"
            + (". " if choice.certificate else "; --confidence .95 asks for a limit that holds. ")
            + "docs/limits.md explains it."
        )
    return [*lines, f"Predict new rows: hyperfront predict {folder.path} new.csv"]


def _certified(choice: Selection, certificate: Certificate) -> list[str]:
    """Say what the calibration rows guarantee."""
    lines = [
        f"Certified on {certificate.rows:,} calibration rows, which chose nothing: with probability "
        f"{certificate.confidence:g}, for the whole population that the rows were drawn from,"
    ]
    for name, limit in certificate.limits.items():
        side = "at most" if limit.sign == "<=" else "at least"
        lines.append(f"  the {choice.meanings[name].label} is {side} {limit.limit:g} ({limit.method} test).")
    return [*lines, *certificate.remarks()]


def _check_question(limit: tuple[str, ...], goal: str | None, confidence: float | None) -> None:
    """Raise an error now for limits without a goal, or a confidence without limits."""
    if limit and goal is None:
        raise HyperfrontError("limits need a goal", got=", ".join(limit), fix="--minimize error, for example")
    if confidence is not None and not limit:
        raise HyperfrontError("a confidence needs a limit", got=confidence, fix="--limit fpr_gap=.05, for example")
    if confidence is not None and not 0.5 <= confidence < 1:
        raise HyperfrontError("the confidence is no probability", got=confidence, expected="at least .5 and below 1")


def _check_names(made: Problem, names: list[str]) -> None:
    """Raise an error now, not after training, for a goal or limit that the front will not have."""
    for name in names:
        made.meaning(name)


def _limit(name: str, bound: Any) -> float:
    if isinstance(bound, str | bool):
        raise HyperfrontError("a limit is not a number", got=f"{name}={bound}", expected=f"{name}=0.05")
    return float(bound)


def _numbers(text: Any) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in str(text).split(","))
    except ValueError:
        raise HyperfrontError("a cut is not a number", got=text, expected="age=25,60") from None


def _plan(text: str) -> Any:
    kind, equals, column = text.partition("=")
    return {kind: column} if equals else text
