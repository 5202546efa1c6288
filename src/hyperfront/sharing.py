"""Several processes at work on the same folders: none gets in the way of another, and they share what is to be done."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from hyperfront import checkpoint
from hyperfront.errors import BusyError

WAIT = 0.5
"""Seconds between looks at what another process does."""
Part = TypeVar("Part")


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep other processes that train out of a folder, which goes again if nothing was written to it. Where folders
    cannot be locked (Windows, some network drives) nobody is kept out."""
    checkpoint.make_folder(folder)
    with ExitStack() as locks:
        with suppress(ImportError, OSError):
            import fcntl

            handle = os.open(folder, os.O_RDONLY)
            locks.callback(os.close, handle)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BusyError(
                    "another process is at work in this folder", got=folder, fix="wait for it, or choose another folder"
                ) from None
        try:
            yield
        finally:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


def share_out(parts: Iterable[Part], work: Callable[[Part], None]) -> None:
    """Do all parts of a work that several processes may do at once: what another one is at comes last, and is waited
    for. ``work`` raises :class:`hyperfront.errors.BusyError` for such a part."""
    left, busy = deque(parts), 0
    while left:
        part = left.popleft()
        try:
            work(part)
            busy = 0
        except BusyError:
            left.append(part)
            busy += 1
            if busy >= len(left):
                time.sleep(WAIT)
