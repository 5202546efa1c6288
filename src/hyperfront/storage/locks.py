"""Locks of folders, so that several processes can share the same work without disturbing each other."""

from __future__ import annotations

import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

from hyperfront.errors import BusyError
from hyperfront.storage import files

WAIT = 0.5
"""Seconds between attempts to lock a part that another process has locked."""
Part = TypeVar("Part")


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes that train, and remove it afterwards if it is empty.

    Where folders cannot be locked (Windows, some network drives), nothing keeps other processes out; a warning says so.
    """
    release = _lock(folder)
    try:
        yield
    finally:
        with suppress(OSError):  # the folder has files
            folder.rmdir()
        release()


def _lock(folder: Path) -> Callable[[], None]:
    """Lock a folder, and return a function that unlocks it."""
    try:
        import fcntl
    except ImportError:
        _warn_unlocked("the system has no locks of folders")
        files.make_folder(folder)
        return lambda: None

    while True:
        files.make_folder(folder)
        with suppress(FileNotFoundError):  # another process removed the folder: try again
            handle = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(handle), os.stat(folder)):
                    return partial(_unlock, handle)
            except BlockingIOError:
                os.close(handle)
                raise BusyError(
                    "another process works in this folder", got=folder, fix="wait for it, or choose another folder"
                ) from None
            except FileNotFoundError:
                pass
            except OSError as error:
                _warn_unlocked(str(error.strerror or error))
                return partial(os.close, handle)
            os.close(handle)


@cache
def _warn_unlocked(why: str) -> None:
    """Warn once for each reason in a process."""
    warnings.warn(f"folders cannot be locked, so let only one process work in each ({why})", stacklevel=6)


def _unlock(handle: int) -> None:
    import fcntl

    fcntl.flock(handle, fcntl.LOCK_UN)  # closing is not enough: processes forked since then keep the handle
    os.close(handle)


def share_out(parts: Iterable[Part], work: Callable[[Part], None]) -> None:
    """Do all parts of work that several processes may share. Parts locked by another process are retried last.

    ``work`` raises :class:`hyperfront.errors.BusyError` for a part that is locked.
    """
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
                warnings.warn(f"this process is waiting for another process ({error.got})", stacklevel=2)
                said = True
            time.sleep(WAIT)
