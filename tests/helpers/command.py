"""The command line: in this process, which is quicker, or in a process of its own, as a user starts it."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from hyperfront.apps.cli import main
from reproduction.__main__ import main as reproduction_main

ROOT = Path(__file__).parents[2]
COMMAND = ("-c", "from hyperfront.apps.cli import main; main()")


def hyperfront(*words: str, folder: Path, code: int = 0) -> str:
    """What the command printed to either stream, after it ended with ``code``."""
    return _printed(main, words, folder, code)


def reproduction(*words: str, folder: Path, code: int = 0) -> str:
    """The same for ``python -m reproduction``."""
    return _printed(reproduction_main, words, folder, code)


def hyperfront_process(
    *words: str, folder: Path, code: int = 0, columns: int = 120, program: Sequence[str] = COMMAND
) -> str:
    """Run the command in a process of its own and return what it printed to either stream."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": str(columns), "PYTHONPATH": paths}
    command = [sys.executable, *program, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def _printed(main: Callable[[list[str]], None], words: tuple[str, ...], folder: Path, code: int) -> str:
    printed, ended = io.StringIO(), 0
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            with warnings.catch_warnings():
                main(list(words))
        except SystemExit as stopped:
            ended = stopped.code
    assert ended == code, printed.getvalue()
    return printed.getvalue()
