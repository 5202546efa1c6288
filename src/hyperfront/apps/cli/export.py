"""``hyperfront export``: a trained front, or the network at one ray, as files for elsewhere."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro
from torch import Tensor
from tqdm import tqdm

from hyperfront import indicators
from hyperfront.apps.cli.arguments import DataFolder, Flag, Folder, OwnProblem, Target, TrainedRun, Which, option
from hyperfront.apps.cli.opening import open_model, open_problem
from hyperfront.apps.cli.output import console, free_folder
from hyperfront.errors import DataError, HyperfrontError, ProblemError
from hyperfront.export import card, graph, weights
from hyperfront.export import int8 as in_int8
from hyperfront.export.agreement import compare
from hyperfront.export.formats import check_onnx, write_onnx, write_pt2
from hyperfront.export.graph import Graph
from hyperfront.front import Front, evaluate
from hyperfront.model import ParetoModel
from hyperfront.preferences import layout
from hyperfront.problem import Problem
from hyperfront.storage import files
from hyperfront.training.runs import RunFolder

Format = Literal["safetensors", "pt2", "onnx"]


def export(
    run: TrainedRun,
    /,
    *,
    at: Annotated[tuple[float, ...], option("NUMBER ...")] = (),
    front: Flag = False,
    formats: Annotated[tuple[Format, ...], tyro.conf.arg(metavar="NAME ...", help_behavior_hint="(all)")] = (),
    int8: Flag = False,
    rays: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(the run's rays)")] = None,
    which: Which = None,
    target: Target = None,
    problem: OwnProblem = None,
    data_dir: DataFolder = None,
    out: Folder = None,
) -> None:
    """Write a trained front, or the network at one ray, to files that need no hyperfront, with a model card.

    Every graph is run again from its file and compared with PyTorch. Examples:
        hyperfront export runs/mm --at 0.3 0.7
        hyperfront export runs/mm --front
        hyperfront export runs/mm --front --int8 --formats onnx --out phone

    Args:
        at: The network at this ray, one number for each objective, as safetensors with a loader, .pt2 and ONNX.
        front: The whole front: hypernetwork and target in one graph, with ray and inputs, as .pt2 and ONNX.
        formats: Formats to write: safetensors, pt2, onnx.
        int8: With --front: store the heads of the hypernetwork as int8, and measure the lost hypervolume.
        rays: With --int8: number of rays to measure at.
        out: Folder to write, which must not exist; by default a new one below RUN/export.
    """
    wanted = _formats(at, front, formats, int8, rays)
    if out is not None and out.exists():
        raise HyperfrontError("the folder exists already", got=out, fix="choose another --out: nothing is overwritten")
    model = open_model(run, target, which, problem)
    ray = model.check(at)[0].tolist() if at else None
    known = "problem" in model.record or problem is not None
    built = open_problem(model, problem, data_dir) if known or int8 or wanted != ("safetensors",) else None
    torch.set_num_threads(1)

    measured, remarks = _stored_front(run, model, which), []
    if ray is not None:
        measured = _front_at(ray, model, built)
    if int8 and built is not None:
        model, measured, cost = _with_int8_heads(model, built, measured, rays)
        console.print(cost)
        remarks.append(cost)

    folder = out or free_folder((run if run.is_dir() else run.parent) / "export" / _folder_name(ray, int8))
    scratch = folder.with_name(f".{folder.name}-{os.getpid()}")  # renamed when all is there
    try:
        traced, made = _write(scratch, wanted, model, built, ray)
        text = card(
            model,
            measured,
            graph=traced,
            ray=ray,
            files=made,
            training=_training(run),
            remarks=remarks,
            problem=built,
        )
        files.write_bytes(scratch / "README.md", text.encode())
        scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    console.print(f"\n[bold]{folder}[/bold]")
    for name, what in {**made, "README.md": "the model card"}.items():
        size = (folder / name).stat().st_size
        shown = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"
        console.print(f"  {name:<18}{shown:>9}  [dim]{what}[/dim]", soft_wrap=True)


def _formats(
    at: tuple[float, ...], front: bool, formats: tuple[Format, ...], int8: bool, rays: int | None
) -> tuple[Format, ...]:
    """Return the formats to write, in a fixed order, or raise an error before anything takes time."""
    if bool(at) == front:
        raise HyperfrontError(
            "export needs either --at or --front",
            got="both --at and --front" if front else "neither --at nor --front",
            expected="--at RAY for one network, or --front for all",
        )
    if rays is not None and not int8:
        raise HyperfrontError("--rays says where to measure int8 heads", fix="add --int8, or leave it out")
    if int8 and not front:
        raise HyperfrontError("a network at one ray has no heads to be stored as int8", fix="--front --int8")
    possible: tuple[Format, ...] = ("pt2", "onnx") if front else ("safetensors", "pt2", "onnx")
    if front and "safetensors" in formats:
        raise HyperfrontError(
            "a front is a graph", got="--formats safetensors", expected="pt2, onnx", fix="the checkpoint holds weights"
        )
    wanted = tuple(name for name in possible if name in formats or not formats)
    if "onnx" in wanted:
        check_onnx()
    return wanted


def _write(
    folder: Path, wanted: Sequence[Format], model: ParetoModel, problem: Problem | None, ray: list[float] | None
) -> tuple[Graph | None, dict[str, str]]:
    """Write the files and compare each with PyTorch; return the graph, if there is one, and descriptions of the
    files."""
    made: dict[str, str] = {}
    if "safetensors" in wanted:
        weights(model, ray, folder / "model.safetensors")
        made |= {"model.safetensors": "weights of the network at this ray", "model.py": "a loader of a few lines"}
    if problem is None or wanted == ("safetensors",):
        return None, made
    console.print("tracing the graph ...", style="dim")
    traced = graph(model, problem, ray)
    for name, write, what in (
        ("pt2", write_pt2, "graph for torch.export"),
        ("onnx", write_onnx, "graph for ONNX runtimes"),
    ):
        if name in wanted:
            console.print(f"writing model.{name} and running it ...", style="dim")
            path = write(traced, folder / f"model.{name}")
            made[path.name] = f"{what}, {compare(traced, path)}"
    return traced, made


def _stored_front(run: Path, model: ParetoModel, which: str | None) -> Front | None:
    """Read the front in the run folder, unless the last checkpoint was chosen: it belongs to the selected model."""
    file = RunFolder(run).front
    if which == "last" or not file.exists():
        return None
    front = Front.load(file)
    return front if front.objectives == model.objectives else None


def _front_at(ray: list[float], model: ParetoModel, problem: Problem | None) -> Front | None:
    """Measure the losses at one ray on validation data, if they can be found."""
    try:
        console.print("measuring the losses at this ray ...", style="dim")
        return None if problem is None else evaluate(model, problem.val, ray)
    except (DataError, ProblemError):
        return None


def _with_int8_heads(
    model: ParetoModel, problem: Problem, stored: Front | None, count: int | None
) -> tuple[ParetoModel, Front, str]:
    """Return the model with int8 heads, its front on validation data, and a sentence about the lost quality."""
    small = in_int8(model)
    before = stored if stored is not None and count is None else _measure(model, problem, count or 25, "as trained")
    after = _measure(small, problem, before.rays, "int8")
    reference = problem.reference or tuple(before.losses.amax(0).tolist())
    volumes = [indicators.hypervolume(front.losses, reference) for front in (before, after)]
    lost = volumes[0] - volumes[1]
    share = f" ({lost / volumes[0]:.3%})" if volumes[0] else ""
    largest = float((after.losses - before.losses).abs().max())
    where = "the validation data" if problem.has_data else "the problem"
    cost = (
        f"int8 heads: hypervolume {volumes[1]:.6g} instead of {volumes[0]:.6g}, a loss of {lost:.2g}{share}, "
        f"at {len(after)} rays of {where}; no loss changes by more than {largest:.2g}"
    )
    return small, after, cost


def _measure(model: ParetoModel, problem: Problem, rays: int | Tensor, name: str) -> Front:
    """Measure the validation front ray by ray, and show the progress."""
    table = layout(rays, model.m, model.objectives)
    progress = tqdm(table.split(1), desc=f"measuring, {name}", unit="ray", leave=False, disable=None)
    parts = [evaluate(model, problem.val, ray) for ray in progress]
    scores = {name: torch.cat([part.scores[name] for part in parts]) for name in parts[0].scores}
    return dataclasses.replace(
        parts[0], rays=table, losses=torch.cat([part.losses for part in parts]), scores=scores, evaluator=None
    )


def _training(run: Path) -> dict[str, Any]:
    """Lines for the card from the run's own files."""
    folder, lines = RunFolder(run), {}
    for file, keys in (
        (folder.config, ("epochs", "batch_size", "rays_per_step")),
        (folder.environment, ("hyperfront", "torch", "device")),
    ):
        document = files.read_json(file) if file.exists() else {}
        found = document if isinstance(document, dict) else {}
        lines |= {key.replace("_", " "): found[key] for key in keys if found.get(key) is not None}
    return lines


def _folder_name(ray: list[float] | None, int8: bool) -> str:
    if ray is None:
        return "front-int8" if int8 else "front"
    return "at-" + "-".join(f"{value:.3g}" for value in ray)
