"""Checksums of data files. Every file is hashed once in a process, and again when it changes."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from hyperfront.errors import DataError
from hyperfront.zoo.data.datafile import DataFile


def verify(file: DataFile, path: Path) -> None:
    """Raise an error that names both checksums, unless ``path`` holds ``file``."""
    found, own = sha256(path), noted(path) if file.prepared else None
    if found in (file.sha256, own):
        return
    known = f"{file.size:,} bytes, SHA-256 {file.sha256}"
    raise DataError(
        f"{path} is damaged, or another file than expected",
        got=f"{path.stat().st_size:,} bytes, SHA-256 {found}",
        expected=f"SHA-256 {own}, as noted beside it" if own else known,
        fix=f"delete it and get it again: {file.instruction}",
    )


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    try:
        status = path.stat()
        return _sha256(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise DataError("a data file cannot be read", got=error, fix="check the permissions of the folder") from None


@cache
def _sha256(path: Path, size: int, modified: int) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def note(path: Path) -> Path:
    """Write the checksum of a file that was prepared here beside it, as ``sha256sum`` does."""
    beside = path.with_name(path.name + ".sha256")
    beside.write_text(f"{sha256(path)}  {path.name}\n")
    return beside


def noted(path: Path) -> str | None:
    """The checksum that was noted beside a file, if there is one."""
    beside = path.with_name(path.name + ".sha256")
    return beside.read_text().split()[0] if beside.exists() else None
