"""The shape of the package: what may import what, and what importing it costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "hyperfront"
# From the ground up: a module imports, at module level, only from what stands before it.
ORDER = """
    errors kernels preferences metrics batches roles assemblies stacking target hypernets checkpoint sharing model
    solvers measures sources units problem selection front alignment data problems runs training baselines
    experiments plots paper export serve explorer cli
""".split()  # noqa: SIM905 (easier to read)
SOURCES = sorted(PACKAGE.rglob("*.py"))


def layer(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_layers(path: Path) -> set[str]:
    """Layers that a file imports at module level."""
    found, nodes = set(), [ast.parse(path.read_text())]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue  # what is imported there is imported when it is needed
        nodes += ast.iter_child_nodes(node)
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    parts = (name.split(".") for name in found if name.startswith("hyperfront."))
    return {place for _, place, *_ in parts if place in ORDER}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_import_only_from_the_layers_below_them(path):
    if path == PACKAGE / "__init__.py":
        return
    place = ORDER.index(layer(path))
    above = {name for name in imported_layers(path) if ORDER.index(name) > place}
    assert not above


def test_every_module_has_its_place():
    assert {layer(path) for path in SOURCES} - {"__init__"} == set(ORDER)


def test_importing_the_package_needs_only_torch_numpy_and_safetensors():
    code = "import sys, hyperfront; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert {"torch", "numpy", "safetensors"} <= loaded
    assert not loaded & {
        "moocore",
        "tyro",
        "rich",
        "matplotlib",
        "plotly",
        "tensorboard",
        "scipy",
        "pooch",
        "pymoo",
        "optuna",
        "h5py",
        "PIL",
        "fastapi",
        "uvicorn",
        "orjson",
        "prometheus_client",
    }


def test_every_public_name_is_documented():
    import hyperfront

    assert len(hyperfront.__all__) <= 36
    for name in hyperfront.__all__:
        assert (getattr(hyperfront, name).__doc__ or "").strip(), name


def test_nothing_prints_below_the_command_line():
    for path in SOURCES:
        if layer(path) == "cli":
            continue
        calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
        assert not [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"], path
