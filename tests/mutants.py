"""Mutation testing: small changes of the code (a sign, a bound, a name) that some test should notice.

``python -m tests.mutants [PART ...]`` needs ``pip install mutmut``. It changes a copy of the project, tries a sample of
the mutants of each part with the tests of the part, and writes scores and survivors to ``docs/mutants.json`` and the
table in ``docs/reliability.md``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.faults.record import PAGE, between

ROOT = Path(__file__).parents[1]
COUNTS = ROOT / "docs" / "mutants.json"
EACH = 40
PARTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "solvers": (("solvers/*.py",), ("test_solvers.py", "test_arguments.py")),
    "indicators": (("indicators.py",), ("test_indicators.py",)),
    "checkpoints": (
        ("storage/checkpoint.py", "storage/checksums.py", "storage/files.py", "training/checkpoints.py"),
        ("test_checkpoint.py", "test_recovery.py"),
    ),
    "examination": (("training/examination.py", "training/repairs.py"), ("test_examination.py",)),
    "selection": (
        ("front/selection.py", "front/question.py"),
        ("test_selection.py", "test_certified.py", "test_front.py"),
    ),
}
"""The files of each part, and its tests."""
SURVIVED, UNTESTED = 0, 33
"""What mutmut notes for mutants that no test noticed, and for mutants that no test runs."""
MARKS = ("<!-- scores of tests/mutants -->", "<!-- end of the scores -->")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"{', '.join(PARTS)}; all by default")
    chosen = parser.parse_args()
    if importlib.util.find_spec("mutmut") is None:
        sys.exit("this script needs mutmut: pip install mutmut")
    for part in chosen.parts or PARTS:
        scores = load() | {part: try_part(part)}
        COUNTS.write_text(json.dumps(scores, indent=2, sort_keys=True) + "\n")
        PAGE.write_text(with_table(PAGE.read_text(), scores))


def try_part(part: str) -> dict[str, Any]:
    """Try a sample of the mutants of a part: their number, how many were noticed, and the changes of the others."""
    with tempfile.TemporaryDirectory() as place:
        folder = _copy(part, Path(place))
        _mutmut(folder, "run", "none of them")  # makes the mutants, and notes which tests run which function
        names = sorted(_codes(folder))
        tried = random.Random(0).sample(names, min(EACH, len(names)))
        _mutmut(folder, "run", "--max-children", "1", *tried)
        codes = _codes(folder)
        if missing := [name for name in tried if codes[name] is None]:
            raise RuntimeError(f"mutmut did not try {missing}")
        left = [name for name in tried if codes[name] in (SURVIVED, UNTESTED)]
        return {
            "mutants": len(names),
            "tried": len(tried),
            "noticed": len(tried) - len(left),
            "survivors": {name: _change(folder, name) for name in left},
        }


def _copy(part: str, folder: Path) -> Path:
    """Copy the project, with the settings of mutmut for this part."""
    for name in ("src", "tests", "conftest.py", "pyproject.toml"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    files, tests = PARTS[part]
    settings = {
        "source_paths": ["src"],
        "only_mutate": [f"src/hyperfront/{file}" for file in files],
        "also_copy": ["conftest.py"],
        "pytest_add_cli_args_test_selection": [f"tests/{file}" for file in tests],
        "pytest_add_cli_args": ["-p", "no:cacheprovider", "-n", "0", "-W", "ignore"],
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    lines += ["timeout_constant = 120.0", "use_git_change_detection = false", "track_dependencies = false"]
    with (folder / "pyproject.toml").open("a") as file:
        file.write("\n".join(["", "[tool.mutmut]", *lines, ""]))
    return folder


def _mutmut(folder: Path, *words: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "mutmut", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True).stdout


def _codes(folder: Path) -> dict[str, int | None]:
    """The exit codes of the tests by the name of the mutant; None for those that were not tried."""
    found: dict[str, int | None] = {}
    for file in (folder / "mutants" / "src").rglob("*.meta"):
        found |= json.loads(file.read_text())["exit_code_by_key"]
    return found


def _change(folder: Path, name: str) -> list[str]:
    """The lines that a mutant changes."""
    lines = _mutmut(folder, "show", name).splitlines()
    return [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]


def load() -> dict[str, Any]:
    return json.loads(COUNTS.read_text()) if COUNTS.exists() else {}


def with_table(page: str, scores: dict[str, Any]) -> str:
    """The page with the table of these scores between the marks."""
    lines = ["| part | mutants | tried | noticed by a test |", "|---|---|---|---|"]
    lines += [
        f"| `{part}` | {score['mutants']:,} | {score['tried']} | {score['noticed']} |"
        for part, score in sorted(scores.items())
    ]
    return between(page, MARKS, lines)


if __name__ == "__main__":
    main()
