"""The output of commands: tables, the quality of a front, pictures, lists of files."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hyperfront import indicators
from hyperfront.front import Front
from hyperfront.preferences import das_dennis
from hyperfront.problem import Problem
from hyperfront.storage import files
from hyperfront.training.runs import RunFolder

console = Console(highlight=False)
ROWS = 25
"""The most rows of a printed front."""
EPOCHS = 4
"""The fewest validated epochs for a picture of the evolution."""


def show_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    left: int = 0,
    dim: int = 0,
    keys: Sequence[int] = (0,),
) -> None:
    """Print a table whose first ``left`` columns hold words and whose first ``dim`` columns matter less.

    On a narrow terminal it is printed in parts, each with the columns ``keys``; no number is ever cut off.
    """
    rows = [*rows]
    widths = [2 + max(Text.from_markup(cell).cell_len for cell in cells) for cells in zip(columns, *rows)]
    for part in in_parts(widths, console.width + 2 if console.is_terminal else sum(widths), keys):
        table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
        for index in part:
            style = "dim" if index < dim else None
            justify = "left" if index < left else "right"
            table.add_column(columns[index], justify=justify, style=style, no_wrap=True)
        for row in rows:
            table.add_row(*(row[index] for index in part))
        Console(highlight=False, width=max(console.width, sum(widths[index] for index in part))).print(table)


def in_parts(widths: Sequence[int], room: int, keys: Sequence[int]) -> list[list[int]]:
    """Divide columns of these widths into few parts that fit into ``room``. Each part repeats the columns ``keys``, if
    they fit into half of the room.

    >>> in_parts([4, 3, 3, 3, 5], 10, [0]), in_parts([4, 3, 3], 10, [0]), in_parts([4, 2, 1, 30], 10, [0, 2])
    ([[0, 1, 2], [0, 3], [0, 4]], [[0, 1, 2]], [[0, 1, 2], [0, 2, 3]])
    >>> in_parts([4, 4, 4, 4], 10, [0, 1])
    [[0, 1], [2, 3]]
    """
    keys = keys if 2 * sum(widths[each] for each in keys) <= room else ()
    parts = [{*keys}]
    for index in (each for each in range(len(widths)) if each not in keys):
        if len(parts[-1]) > len(keys) and sum(widths[each] for each in parts[-1]) + widths[index] > room:
            parts.append({*keys})
        parts[-1].add(index)
    return [sorted(part) for part in parts]


def counted(number: int, word: str) -> str:
    """Write a count with its noun.

    >>> counted(1, "ray"), counted(3, "ray")
    ('1 ray', '3 rays')
    """
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def show_front(front: Front, problem: Problem) -> None:
    """Print a row for each ray (ray, losses, scores, distance to the true front and to the ray), then the summary.

    Of more than :data:`ROWS` rays, that many are printed, evenly spaced.
    """
    by_direction = front.convention == "direction"
    measure = indicators.cross_angle if by_direction else indicators.uniformity
    kept = measure(front.losses, front.rays).tolist()
    distance = problem.truth.distance(front.losses).tolist() if problem.truth else None
    columns = [f"ray {name}" for name in front.objectives] + [*front.objectives, *front.scores]
    columns += ["distance"] if distance is not None else []
    columns += ["angle" if by_direction else "uniformity"]
    rows = []
    shown = torch.linspace(0, len(front) - 1, min(ROWS, len(front))).round().long().tolist()
    for row in shown:
        cells = [f"{value:.4f}" for value in front.rays[row].tolist()]
        cells += [f"{value:.5f}" for value in front.losses[row].tolist()]
        cells += [f"{values[row].item():.4f}" for values in front.scores.values()]
        cells += [f"{distance[row]:.1e}"] if distance is not None else []
        rows.append([*cells, f"{kept[row]:.{3 if by_direction else 6}f}"])
    show_table(columns, rows, dim=problem.m, keys=range(problem.m))
    if len(shown) < len(front):
        console.print(f"{len(shown)} of {len(front)} rays; `hyperfront evaluate RUN --save front.csv` writes all")
    console.print()
    for name, value in summary(front, problem).items():
        console.print(f"{name:<28}{value}", soft_wrap=True)


def summary(front: Front, problem: Problem) -> dict[str, str]:
    """The quality of a front in a few lines."""
    lines = {"rays": str(len(front))}
    if problem.truth:
        lines["largest distance to truth"] = f"{problem.truth.distance(front.losses).max().item():.2e}"
        lines["IGD+"] = f"{indicators.igd_plus(front.losses, problem.truth.points):.5f}"
    if front.convention == "direction":  # uniformity is about the inverse of the ray
        angle = indicators.cross_angle(front.losses, front.rays)
        lines["angle to ray, mean / most"] = f"{angle.mean().item():.3f} / {angle.max().item():.3f} degrees"
    else:
        even = indicators.uniformity(front.losses, front.rays)
        lines["uniformity, mean / least"] = f"{even.mean().item():.6f} / {even.min().item():.6f} (natural log)"
    lines["non-dominated points"] = f"{front.nondominated_share():.0%}"
    lines["spacing"] = f"{indicators.spacing(front.losses):.4f}"
    if front.reference:
        lines["reference point"] = ", ".join(f"{value:g}" for value in front.reference)
        volume = indicators.hypervolume(front.losses, front.reference)
        beyond = "" if volume else ": no point is below the reference point in all losses"
        where = "this ray" if len(front) == 1 else f"these {len(front)} rays"
        lines["hypervolume"] = f"{volume:.5f} at {where}{beyond}"
        if problem.truth and front.evaluator:
            dense = front.evaluator(das_dennis(problem.m, {2: 1000, 3: 40}.get(problem.m, 6)))
            whole = indicators.hypervolume(dense.losses, front.reference)
            part = ": part of the true front was not reached" if whole < 0.9 * problem.truth.hypervolume else ""
            lines["hypervolume, learned front"] = f"{whole:.5f} at {len(dense)} rays{part}"
            lines["hypervolume, true front"] = f"{problem.truth.hypervolume:.5f} (exact, the whole front)"
    return lines


def draw(front: Front, folder: RunFolder) -> list[Path]:
    """Draw the front and its evolution into the run folder."""
    from hyperfront.front import plots
    from hyperfront.front.plots import interactive, static

    files = [folder.path / "front.png", folder.path / "front.html"]
    for file in files:
        front.plot(file)
    records = [{"epoch": r["epoch"], **r["validation"]} for r in folder.records() if r.get("validation")]
    if len(records) >= EPOCHS:
        for suffix, backend in (("png", static), ("html", interactive)):
            figure = backend.evolution(
                records, objectives=front.objectives, truth=front.truth, reference=front.reference
            )
            files.append(folder.path / f"evolution.{suffix}")
            plots.save(figure, files[-1])
    return files


def list_files(folder: RunFolder) -> None:
    """Print the files of a run folder, each with its meaning."""
    meaning = {
        "page.html": "the front and the rows on a page (works offline)",
        "README.md": "the model card",
        "choice.json": "the chosen trade-off",
        "chosen.safetensors": "the network of that trade-off, with a loader beside it",
        "front.html": "the front, to explore in a browser (works offline)",
        "front.png": "the front, as a picture",
        "evolution.html": "the front after each epoch",
        "evolution.png": "the front after each epoch, as a picture",
        "front.json": "rays, losses and scores",
        "explorer.json": "the dense front of `hyperfront explore`",
        "last.safetensors": "the model and the state of its training",
        "previous.safetensors": "the checkpoint before, should the last one be damaged",
        "best.safetensors": "the model with the best validation result",
        "metrics.jsonl": "one line for each epoch",
        "config.json": "all settings",
        "environment.json": "versions of packages, and the machine",
    }
    console.print(f"\n[bold]{folder.path}[/bold]")
    for name, text in meaning.items():
        if (folder.path / name).exists():
            console.print(f"  {name:<22}[dim]{text}[/dim]")


def free_folder(path: Path) -> Path:
    """A new folder ``path``, with a number appended if it exists, so that nothing is overwritten."""
    files.make_folder(path.parent)
    for number in itertools.count(1):
        folder = path if number == 1 else path.with_name(f"{path.name}-{number}")
        with suppress(FileExistsError):
            folder.mkdir()
            return folder
    raise AssertionError("numbers do not end")
