"""The command line in this process: quicker than a process of its own, which :mod:`tests.test_cli` starts."""

from __future__ import annotations

import contextlib
import io
import warnings
from pathlib import Path

from hyperfront.cli import main


def hyperfront(*words: str, folder: Path, code: int = 0) -> str:
    """What the command printed to either stream, after it ended with ``code``."""
    printed, ended = io.StringIO(), 0
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            with warnings.catch_warnings():
                main(list(words))
        except SystemExit as stopped:
            ended = stopped.code
    assert ended == code, printed.getvalue()
    return printed.getvalue()
