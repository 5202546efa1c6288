"""The shape of the package: what may import what, and what importing it costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hyperfront

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "hyperfront"
# From the ground up: a room imports only from the rooms before it, and those on one line not from each other.
ORDER = [
    {"errors"},
    {"storage"},
    {"preferences", "indicators", "kernels"},
    {"model", "solvers"},
    {"problem"},
    {"front"},
    {"training"},
    {"export"},
    {"tabular", "lightning"},
    {"sklearn"},
    {"zoo"},
    {"comparison"},
    {"apps"},
]
PLACES = {room: place for place, rooms in enumerate(ORDER) for room in rooms}
DOORS = {"__init__", "__main__"}
SOURCES = sorted(PACKAGE.rglob("*.py"))


def layer(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """Dotted names that a file imports anywhere, lazy imports and imports for types included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def rooms(path: Path) -> set[str]:
    """The rooms that a file imports from."""
    parts = (name.split(".") for name in imports(path) if name.startswith("hyperfront."))
    return {place for _, place, *_ in parts if place in PLACES}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_import_only_from_the_rooms_below_them(path):
    """The registry's exception is no import statement: it imports the zoo by its name when a problem is unknown."""
    here = layer(path)
    if here not in DOORS:
        assert not {room for room in rooms(path) - {here} if PLACES[room] >= PLACES[here]}
    assert not {name for name in imports(path) if name.partition(".")[0] == "reproduction"}


def test_every_module_has_its_place():
    assert {layer(path) for path in SOURCES} - DOORS == set(PLACES)
    assert len([entry for entry in PACKAGE.iterdir() if entry.name != "__pycache__"]) <= 20


def test_plots_draw_arrays_and_know_no_model():
    known = {"errors", "preferences", "indicators", "front"}
    for path in sorted((PACKAGE / "front" / "plots").glob("*.py")):
        assert rooms(path) <= known
        fronts = {name for name in imports(path) if name.startswith("hyperfront.front.")}
        assert all(name.startswith("hyperfront.front.plots") for name in fronts)


def test_importing_the_package_loads_no_application_and_no_problem():
    code = "import sys, hyperfront; print(*(name for name in sys.modules if name.startswith('hyperfront.')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {name.split(".")[1] for name in loaded} & {
        "solvers",
        "training",
        "export",
        "tabular",
        "sklearn",
        "lightning",
        "zoo",
        "comparison",
        "apps",
    }
    assert "hyperfront.front.plots" not in loaded
    assert len(loaded) <= 78  # docs/design.md has the time that they take


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
        "mlflow",
        "wandb",
        "lightning",
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
        "pandas",
        "polars",
        "pyarrow",
        "sklearn",
        "triton",
    }


def test_names_that_are_imported_later_are_found_and_shown_to_checkers():
    seen = imports(PACKAGE / "__init__.py")
    assert {f"hyperfront.{module}.{name}" for name, module in hyperfront._LATER.items()} <= seen
    assert {f"hyperfront.{room}" for room in hyperfront._ROOMS} <= seen
    assert all(getattr(hyperfront, room).__name__ == f"hyperfront.{room}" for room in hyperfront._ROOMS)
    assert {*hyperfront.__all__, *hyperfront._ROOMS} <= set(dir(hyperfront))
    assert not hasattr(hyperfront, "nothing")


def test_every_public_name_is_documented():
    for name in hyperfront.__all__:
        assert (getattr(hyperfront, name).__doc__ or "").strip(), name


def test_nothing_prints_below_the_command_line():
    for path in SOURCES:
        if path.is_relative_to(PACKAGE / "apps" / "cli"):
            continue
        calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
        assert not [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"], path


def test_no_function_is_longer_than_a_screen():
    """Sixty lines at most, without signature and docstring; ruff (C901) bounds the branches."""
    long = []
    for path in (*SOURCES, *(PACKAGE.parents[1] / "reproduction").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                if body and body[-1].end_lineno - body[0].lineno + 1 > 60:
                    long.append(f"{path.name}: {node.name}")
    assert not long


def test_no_test_module_imports_another():
    """What several need is in ``tests/helpers``."""
    for path in (ROOT / "tests").rglob("*.py"):
        assert not {name for name in imports(path) if name.startswith("tests.test_")}, path
