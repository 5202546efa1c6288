"""``hyperfront doctor``: check the installation, or a run folder, and print how to repair what is wrong."""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
import shlex
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import torch
import tyro
from rich.markup import escape

from hyperfront import __version__
from hyperfront.apps.cli.arguments import Flag
from hyperfront.apps.cli.output import console, counted
from hyperfront.errors import CheckpointError, HyperfrontError
from hyperfront.solvers import EPO, Status
from hyperfront.storage import locks
from hyperfront.training import examination
from hyperfront.training.runs import RunFolder

_PARTS = {  # import name: (what for, what to install)
    "numpy": ("numbers", "hyperfront"),
    "safetensors": ("checkpoints", "hyperfront"),
    "moocore": ("hypervolume, IGD+", "hyperfront"),
    "tyro": ("command line", "hyperfront"),
    "rich": ("tables", "hyperfront"),
    "tqdm": ("progress", "hyperfront"),
    "matplotlib": ("pictures", "hyperfront"),
    "plotly": ("interactive pages", "hyperfront"),
    "pooch": ("data: download (optional)", "hyperfront[data]"),
    "scipy": ("data: SARCOS; CPMTL (optional)", "hyperfront[data]"),
    "h5py": ("data: NYUv2, official file (optional)", "hyperfront[data]"),
    "PIL": ("data: NYUv2, images (Pillow, optional)", "hyperfront[data]"),
    "pymoo": ("NSGA-III, MOEA/D (optional)", "hyperfront[compare]"),
    "optuna": ("tuning (optional)", "hyperfront[compare]"),
    "captum": ("attribution by pixel, figure 9 (optional)", "hyperfront[compare]"),
    "tensorboard": ("TensorBoard logs (optional)", "hyperfront[log]"),
    "mlflow": ("MLflow logs (optional)", "hyperfront[mlflow]"),
    "wandb": ("Weights & Biases logs (optional)", "hyperfront[wandb]"),
    "lightning": ("hyperfront.lightning (optional)", "hyperfront[lightning]"),
    "fastapi": ("explorer, server (optional)", "hyperfront[serve]"),
    "uvicorn": ("explorer, server (optional)", "hyperfront[serve]"),
    "orjson": ("server: tensors as JSON (optional)", "hyperfront[serve]"),
    "prometheus_client": ("server: metrics (optional)", "hyperfront[serve]"),
    "onnx": ("export: ONNX files (optional)", "hyperfront[export]"),
    "onnxscript": ("export: ONNX files (optional)", "hyperfront[export]"),
    "onnxruntime": ("export: runs them (optional)", "hyperfront[export]"),
}

_GPU_PARTS = {"triton": ("fused kernels and CUDA graphs (optional)", "triton")}


def doctor(
    run: Annotated[
        Path | None, tyro.conf.arg(metavar="RUN", help="A run folder; without it, the installation.")
    ] = None,
    /,
    *,
    repair: Flag = False,
) -> None:
    """Check Python, PyTorch, devices, packages and write access; print a fix for each missing part.

    With a run folder, check its files instead: checksums, schema, to which run they belong, epochs, log and front. The
    exit code is 1 if something is wrong. Examples:
        hyperfront doctor
        hyperfront doctor runs/adult
        hyperfront doctor runs/adult --repair

    Args:
        repair: Repair the run folder; files that are replaced are kept as damaged...
    """
    if run is None and repair:
        raise HyperfrontError("--repair needs the folder of a run", fix="hyperfront doctor RUN --repair")
    sound = _installation() if run is None else _run(run, repair=repair)
    if not sound:
        sys.exit(1)


def _installation() -> bool:
    console.print(f"hyperfront {__version__}, Python {platform.python_version()} on {platform.platform()}\n")
    sound = True
    sound &= _line("PyTorch", _torch)
    for name, (purpose, package) in (_PARTS | (_GPU_PARTS if torch.cuda.is_available() else {})).items():
        fine = _line(name, lambda name=name: _version(name), note=purpose, fix=f"pip install '{package}'")
        sound &= fine or "optional" in purpose
    sound &= _line("write access", _writable, fix="choose a folder that you may write to with --out")
    sound &= _line("EPO solver", _solves, fix="reinstall PyTorch: a solver gives wrong numbers on this machine")
    console.print("\neverything is ready" if sound else "\nsomething is missing: see the lines above")
    return sound


def _run(path: Path, *, repair: bool) -> bool:
    """Examine a run folder, and repair it if asked to; return whether nothing is wrong (any more)."""
    if not path.is_dir():
        raise CheckpointError("there is no such folder", got=path, fix="check the path of the run")
    folder = RunFolder(path)
    with locks.alone_in(path):
        done = examination.repair(folder) if repair else []
        examined = examination.Examination(folder)
        left = examined.findings()
    for finding, said in done:
        console.print("[green]repaired[/green]  " + escape(f"{finding.file}: {finding.what}; {said}"), soft_wrap=True)
    for finding in left:
        fix = f"hyperfront doctor {shlex.quote(str(path))} --repair" if finding.repair else finding.fix
        text = f"{finding.file}: {finding.what}\n          fix: {fix}"
        console.print("[red]wrong[/red]     " + escape(text), soft_wrap=True)
    newest, epochs = examined.newest, (examined.config or {}).get("epochs", "?")
    reached = f"{newest.epoch} of {epochs} epochs" if newest else "no checkpoint"
    outcome = counted(len(left), "fault") if left else "nothing is wrong"
    console.print(f"{path}: {reached}, {outcome}", soft_wrap=True, markup=False)
    return not left


def _line(name: str, check: Callable[[], str], *, note: str = "", fix: str = "") -> bool:
    try:
        found, fine = check(), True
    except Exception as error:  # every error belongs in the report
        found, fine = f"{type(error).__name__}: {error}", False
    mark = "[green]ok[/green]     " if fine else "[red]missing[/red]"
    console.print(f"{mark}  {name:<19}{found}" + (f"  [dim]{note}[/dim]" if note else ""))
    if not fine and fix:
        console.print(f"         {'':<19}fix: {fix}", markup=False)
    return fine


def _torch() -> str:
    devices = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return f"{torch.__version__}, threads: {torch.get_num_threads()}, GPU: {', '.join(devices) or 'none'}"


def _version(name: str) -> str:
    module = importlib.import_module(name)
    return getattr(module, "__version__", None) or importlib.metadata.version(name)


def _writable() -> str:
    with tempfile.TemporaryDirectory(dir=".") as folder:
        return f"{folder.rsplit('/', 1)[0]} can be written to"


def _solves() -> str:
    losses, rays = torch.tensor([[1.0, 2.0, 3.0]]), torch.full((1, 3), 1 / 3)
    weights, status = EPO()(losses, rays, torch.eye(3)[None])
    if status.item() != Status.AS_NAMED or abs(weights.sum().item() - 1) > 1e-6:
        raise RuntimeError(f"weights {weights.tolist()}, status {status.item()}")
    return "solves its linear program"
