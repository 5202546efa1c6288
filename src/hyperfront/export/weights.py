"""The network at one ray as files that need no hyperfront: safetensors, and a loader of a few lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from hyperfront.errors import HyperfrontError
from hyperfront.errors.signatures import checked
from hyperfront.model import ParetoModel
from hyperfront.storage import checkpoint, files
from hyperfront.storage.files import as_path

_LOADER = '''"""Loads the network of one ray of a Pareto front. Needs torch and safetensors."""

from pathlib import Path

from safetensors.torch import load_file

WEIGHTS = Path(__file__).with_name({weights!r})


def load(module{default}):
    """``module``, a {kind} made as it was for training, with the weights of this ray, ready for prediction."""
{build}    module.load_state_dict(load_file(WEIGHTS))
    return module.eval()
'''
_BUILD = """    if module is None:
        from hyperfront.problem.registry import build

        module = build({problem!r}, **{arguments!r}).make_target()
"""


@checked
def weights(model: ParetoModel, ray: Any, path: str | Path) -> tuple[Path, Path]:
    """Write ``model.at(ray)`` to ``path``, a safetensors file, and beside it a loader, ``path`` with the suffix .py.

    The names in the file are those of the module's ``state_dict``, so that any module of the same shape can load them:

        from NAME import load
        module = load(YourModule())
    """
    path = as_path(path)
    if path.suffix != ".safetensors":
        raise HyperfrontError("weights are written as safetensors", got=path, expected="NAME.safetensors")
    loader = path.with_suffix(".py")
    if model.target.norms and model.target.batchnorm == "batch":
        raise HyperfrontError(
            "a module that normalizes by the statistics of its batch cannot be stored as weights",
            got='batchnorm="batch"',
            fix='export to .pt2 or ONNX, or train with batchnorm="grid"',
        )
    tensors = model.at(ray).state_dict()
    odd = [name for name, value in tensors.items() if not isinstance(value, Tensor)]
    if odd:
        raise HyperfrontError("the state of the module holds more than tensors", got=odd[0], fix="export to .pt2")
    document = {
        "module": type(model.target.skeleton).__name__,
        "objectives": list(model.objectives),
        "ray": model.check(ray)[0].tolist(),
        "convention": model.record.get("convention"),
    }
    checkpoint.write(path, tensors, {"plain": document})
    files.write_bytes(loader, loader_text(model, path.name).encode())
    return path, loader


def loader_text(model: ParetoModel, weights: str) -> str:
    """The loader, as Python. Values from a checkpoint are written as literals, so that they stay data."""
    problem = model.record.get("problem")
    built_in = "" if problem is None else _BUILD.format(problem=problem, arguments=model.record.get("arguments", {}))
    kind = type(model.target.skeleton).__name__
    return _LOADER.format(weights=weights, kind=kind, build=built_in, default="=None" if built_in else "")
