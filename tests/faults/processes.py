"""Processes that die: a fork runs a part of a run, and ends before one of its changes of files.

The process that forks must have one thread (``OMP_NUM_THREADS=1``).
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hyperfront.errors import HyperfrontError

DEAD = 77
"""The exit code of a process that ended at a change of a file."""
REFUSED = 2
"""The exit code of a process that ended by an error of hyperfront, as that of its commands."""
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.chmod", "os.truncate"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def in_child(work: Callable[[], Any], said: Path, *, during: Callable[[int], Any] | None = None) -> int:
    """Run ``work`` in a fork, and return its exit code, negative for a signal. ``said`` gets what it prints.

    Meanwhile ``during`` is called with the number of the process.
    """
    child = os.fork()
    if not child:
        _be_child(work, said)
    if during:
        during(child)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _be_child(work: Callable[[], Any], said: Path) -> None:
    """Run ``work`` and end this process, without any of the clean-up of Python."""
    code = 1
    try:
        output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        warnings.simplefilter("always")
        work()
        code = 0
    except SystemExit as stopped:
        code = stopped.code if isinstance(stopped.code, int) else 1
    except KeyboardInterrupt:
        code = 130
    except HyperfrontError:
        traceback.print_exc()
        code = REFUSED
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class Changes:
    """Counts the changes of files below a folder by this process, from 1, and calls ``at`` before each.

    Python announces every operation on files to audit hooks. The content of a file counts as one more change where it
    is flushed: there ``at`` is called with the name of the operation "flush", before it reaches the disk.
    """

    def __init__(self, folder: Path, at: Callable[[int, str, str], None]):
        self.folder, self.at, self.count = str(folder), at, 0
        self._flush = os.fsync

    def watch(self) -> None:
        """Begin. A hook stays to the end of the process, so this is for children only."""
        sys.addaudithook(self._hear)
        os.fsync = self._fsync

    def _hear(self, event: str, arguments: tuple) -> None:
        if event in CHANGES or (event == "open" and arguments[2] and arguments[2] & WRITING):
            self._change(event, str(arguments[0]))

    def _fsync(self, handle: int) -> None:
        path = os.readlink(f"/proc/self/fd/{handle}")
        if os.path.isfile(path):
            self._change("flush", path)
        self._flush(handle)

    def _change(self, event: str, path: str) -> None:
        if os.path.abspath(path).startswith(self.folder):
            self.count += 1
            self.at(self.count, event, path)


def tear(path: str) -> None:
    """Cut the end of a file, as if the process had died while it wrote the content."""
    size = os.path.getsize(path)
    os.truncate(path, size // 2 if os.path.basename(path).startswith(".") else max(0, size - 20))
