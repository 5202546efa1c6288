"""The command line in this process: quicker than a process of its own, which :mod:`tests.test_cli` starts."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from pathlib import Path

from hyperfront.apps.cli import main
from reproduction.__main__ import main as reproduction_main


def hyperfront(*words: str, folder: Path, code: int = 0) -> str:
    """What the command printed to either stream, after it ended with ``code``."""
    return _printed(main, words, folder, code)


def reproduction(*words: str, folder: Path, code: int = 0) -> str:
    """The same for ``python -m reproduction``."""
    return _printed(reproduction_main, words, folder, code)


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
