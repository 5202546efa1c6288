"""The wheel and the source distribution: what is in them, and that the wheel works in an environment of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

import hyperfront as hf

ROOT = Path(__file__).parents[1]


def run(*command: str | Path, folder: Path) -> str:
    """Run a command that sees none of the repository's modules and return what it printed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([*map(str, command)], cwd=folder, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path]:
    """The source distribution, and the wheel that is built from its unpacked files."""
    folder = tmp_path_factory.mktemp("built")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, folder=ROOT)
    (source,) = folder.glob("*.tar.gz")
    with tarfile.open(source) as file:
        file.extractall(folder, filter="data")
    unpacked = folder / source.name.removesuffix(".tar.gz")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, folder=unpacked)
    (wheel,) = folder.glob("*.whl")
    return source, wheel


def test_the_wheel_holds_the_package_alone(built):
    names = zipfile.ZipFile(built[1]).namelist()
    information = f"hyperfront-{hf.__version__}.dist-info"
    assert {name.partition("/")[0] for name in names} == {"hyperfront", "hyperfront_command.py", information}
    package = ROOT / "src" / "hyperfront"
    files = {path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert {f"hyperfront/{path.relative_to(package).as_posix()}" for path in files} <= set(names)


def test_the_source_distribution_holds_what_the_tests_need(built):
    with tarfile.open(built[0]) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    places = {name.partition("/")[0] for name in names}
    assert {"src", "tests", "benchmarks", "examples", "docs", "reproduction", "conftest.py", "LICENSE"} <= places
    room = ROOT / "reproduction"
    assert {f"reproduction/{path.name}" for path in room.iterdir() if path.suffix in (".py", ".toml", ".html")} <= names


@pytest.mark.slow
def test_the_demo_reaches_the_true_front_from_the_wheel_in_an_environment_of_its_own(built, tmp_path):
    """Nothing is downloaded: the dependencies are those of this environment, whose own hyperfront comes second."""
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment, folder=tmp_path)
    python = environment / "bin" / "python"
    install = ("install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "--python", python, *install, built[1], folder=tmp_path)
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(run(python, "-c", code, folder=tmp_path).strip())
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    place = run(python, "-c", "import hyperfront; print(hyperfront.__file__)", folder=tmp_path)
    assert Path(place.strip()).is_relative_to(packages)
    command = environment / "bin" / "hyperfront"
    assert run(command, "--version", folder=tmp_path).split() == ["hyperfront", hf.__version__]
    printed = run(command, "demo", folder=tmp_path)
    assert float(re.search(r"largest distance to truth\s+(\S+)", printed)[1]) <= 1e-3
    assert float(re.search(r"uniformity, mean / least\s+\S+ / (\S+)", printed)[1]) >= 0.999
    files = {"front.png", "front.html", "front.json", "last.safetensors", "metrics.jsonl", "config.json"}
    assert files <= {path.name for path in (tmp_path / "runs" / "demo").iterdir()}


def test_the_version_is_stated_once():
    stated = re.compile(rf'version\w*\W+"?{re.escape(hf.__version__)}\b')
    files = [ROOT / "pyproject.toml", *(ROOT / "src").rglob("*.py")]
    assert [path.name for path in files if stated.search(path.read_text())] == ["__init__.py"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == hf.__version__


def test_the_checker_of_the_javascript_has_one_version():
    package = json.loads((ROOT / "package.json").read_text())
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in package["devDependencies"].values())
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][1]["hooks"]
    (script,) = (hook["entry"].split()[-1] for hook in hooks if hook["entry"].startswith("npm run"))
    assert script in package["scripts"]


def test_files_for_other_tools_are_yaml():
    files = [*(ROOT / ".github").rglob("*.yml"), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"]
    assert len(files) >= 3 and all(isinstance(yaml.safe_load(path.read_text()), dict) for path in files)
