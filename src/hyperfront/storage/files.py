"""Files and folders, written atomically: a reader sees the old file or the new one, never a part."""

from __future__ import annotations

import errno
import glob
import json
import os
import re
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hyperfront.errors import CheckpointError, shown

LONGEST = 255
"""The most bytes in the name of a file or folder."""
TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}")
"""The names of temporary files."""
CHUNK = 2**20
"""The bytes of a part of a file that is copied."""
ATTEMPTS = 1000
"""Number of attempts to make a folder that other processes remove at the same moment."""


Part = bytes | memoryview


def write_bytes(path: Path, data: bytes | Iterable[Part], *, previous: Path | None = None) -> None:
    """Write bytes, or parts one after another, atomically: a temporary file beside ``path`` is flushed to disk, then
    renamed to ``path``.

    The folder is flushed too, so that the name survives a power cut. The old file is kept as ``previous``, if that is
    given; at every moment ``path`` is the old file or the new one.
    """
    path = as_path(path)
    temporary = None
    try:
        make_folder(path.parent)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = file.name
            file.writelines([data] if isinstance(data, bytes) else data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())  # a temporary file is private, a result is not
        if previous is not None and path.exists():
            link(path, previous)
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)  # it still exists only if writing failed


def unwritable(path: Path, error: OSError) -> CheckpointError:
    """The error for a file that the system did not write."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    fix = "free some space; a run continues with resume=True" if full else "choose a folder that you may write to"
    return CheckpointError("cannot write", got=f"{path}: {error.strerror or error}", fix=fix)


def copy(path: Path, name: Path) -> None:
    """Write a copy of the file ``path``."""
    with path.open("rb") as file:
        write_bytes(name, iter(lambda: file.read(CHUNK), b""))


def link(path: Path, name: Path) -> None:
    """Give the file ``path`` a second name, in place of the file that has it now; a copy where there are no links."""
    second = name.with_name(f".{name.name}.link")
    second.unlink(missing_ok=True)
    try:
        os.link(path, second)
    except OSError:
        return copy(path, name)
    os.replace(second, name)
    second.unlink(missing_ok=True)  # it still exists if both names are of one file, after a death in between


def as_path(path: object) -> Path:
    """Return the path that a user passed, or raise an error for a value that cannot be a path."""
    if not isinstance(path, str | os.PathLike) or not (text := os.fspath(path)) or not _is_name(str(text)):
        raise CheckpointError("this is no path", got=shown(path), expected="the name of a file or folder")
    return Path(str(text))


def _is_name(text: str) -> bool:
    """Whether a file system can have a file of this name."""
    try:
        return "\0" not in text and all(len(part.encode()) <= LONGEST for part in Path(text).parts)
    except UnicodeEncodeError:
        return False


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk, where the system can (not on Windows and some network drives)."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def temporary(paths: Iterable[Path]) -> list[Path]:
    """Find temporary files that killed processes have left beside ``paths``. No process may be writing them now."""
    return [file for path in paths for file in sorted(path.parent.glob(f".{glob.escape(path.name)}.*"))]


def make_folder(path: Path) -> None:
    """Make the folder and its parents, where they do not exist.

    Another process may remove one of them at any moment, also between the two system calls of ``mkdir``. Then ``mkdir``
    reports that the folder exists although it does not, and the next attempt makes it.
    """
    failed = OSError()
    for _ in range(ATTEMPTS):
        try:
            return path.mkdir(parents=True, exist_ok=True)
        except FileNotFoundError as error:  # a folder above it was removed
            failed = error
        except FileExistsError as error:
            failed = error
            if any(place.exists() and not place.is_dir() for place in (path, *path.parents)):
                break
        except OSError as error:
            failed = error
            break
    raise CheckpointError(
        "cannot make the folder", got=f"{path}: {failed.strerror}", fix="choose one that you may write to"
    ) from None


def refuse_unwritable(path: Path, *, again: bool = False) -> None:
    """Raise an error for a file that could not be written later, or that exists, unless ``again`` allows that."""
    nearest = next(parent for parent in path.absolute().parents if parent.exists())
    if path.is_dir() or not nearest.is_dir() or not os.access(nearest, os.W_OK):
        why = f"{path} is a folder" if path.is_dir() else f"{nearest} is not a writable folder"
        raise CheckpointError("cannot write", got=f"{path}: {why}", fix="choose another place")
    if path.exists() and not again:
        raise CheckpointError("the file exists already", got=path, fix="choose another name, or remove it")


def write_json(path: Path, document: Any) -> None:
    write_bytes(path, (dumps(document, indent=2) + "\n").encode())


def dumps(document: Any, indent: int | None = None) -> str:
    try:
        return json.dumps(document, indent=indent, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CheckpointError(
            "the value cannot be stored as JSON", got=error, expected="texts and finite numbers", fix="check for NaN"
        ) from None


def read_json(path: Path) -> Any:
    try:
        return json.loads(Path(path).read_text())
    except FileNotFoundError:
        raise CheckpointError("the file does not exist", got=path) from None
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError("the file is not readable as JSON", got=f"{path}: {error}") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
