"""Several processes at work on the same folders: none gets in the way of another, and they share what is to be done."""

from __future__ import annotations

import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from hyperfront.errors import BusyError
from hyperfront.storage import files

WAIT = 0.5
"""Seconds between looks at what another process does."""
Part = TypeVar("Part")


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep other processes that train out of a folder, which goes again if nothing was written to it. Where folders
    cannot be locked (Windows, some network drives) nobody is kept out."""
    release = _lock(folder)
    try:
        yield
    finally:
        with suppress(OSError):  # there are files in it
            folder.rmdir()
        release()


def _lock(folder: Path) -> Callable[[], None]:
    """Lock a folder, and return what unlocks it."""
    try:
        import fcntl
    except ImportError:
        files.make_folder(folder)
        return lambda: None

    while True:
        files.make_folder(folder)
        with suppress(FileNotFoundError):  # whoever was here before took the folder away again: once more
            handle = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(handle), os.stat(folder)):
                    return partial(_unlock, handle)
            except BlockingIOError:
                os.close(handle)
                raise BusyError(
                    "another process is at work in this folder", got=folder, fix="wait for it, or choose another folder"
                ) from None
            except FileNotFoundError:
                pass
            except OSError:  # no locks here
                return partial(os.close, handle)
            os.close(handle)


def _unlock(handle: int) -> None:
    import fcntl

    fcntl.flock(handle, fcntl.LOCK_UN)  # for processes that were forked meanwhile too, and live on
    os.close(handle)


def share_out(parts: Iterable[Part], work: Callable[[Part], None]) -> None:
    """Do all parts of a work that several processes may do at once: what another one is at comes last, and is waited
    for. ``work`` raises :class:`hyperfront.errors.BusyError` for such a part."""
    left, busy, said = deque(parts), 0, False
    while left:
        part = left.popleft()
        try:
            work(part)
            busy = 0
        except BusyError as error:
            left.append(part)
            busy += 1
            if busy < len(left):
                continue
            if not said:
                warnings.warn(f"waiting for another process ({error.got})", stacklevel=2)
                said = True
            time.sleep(WAIT)
