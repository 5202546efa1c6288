"""Data files by name: in your own folder, in the cache, or downloaded from their publisher.

A folder that the user names (``data_dir``, else the environment variable ``HYPERFRONT_DATA``) is used offline: only
``hyperfront data fetch`` downloads into it. Without such a folder, files lie in a cache.
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path

from hyperfront.errors import DataError
from hyperfront.zoo.data.checksums import verify
from hyperfront.zoo.data.datafile import DataFile
from hyperfront.zoo.data.download import cache, fetch
from hyperfront.zoo.data.registry import datafile


def find(name: str, data_dir: str | Path | None = None) -> Path:
    """Find the data file ``name``, such as ``"mnist/train-images-idx3-ubyte.gz"``, and verify its checksum.

    An uncompressed file, without the ``.gz``, is also accepted: :func:`read` takes both.
    """
    file, named = datafile(name), named_folder(data_dir)
    folder = named or cache()
    path = locate(file, folder)
    if path is not None:
        return path
    if named is not None or file.home is None:
        raise missing(file, folder)
    return fetch(file.home, folder)


def placed(name: str, data_dir: str | Path | None = None) -> list[Path]:
    """Find the places of the data file ``name``, in any of its forms, without verification."""
    folder = named_folder(data_dir) or cache()
    return [folder / form.name for form in datafile(name).forms if (folder / form.name).is_file()]


def read(path: Path, most: int | None = None) -> bytes:
    """Read the content of a data file, unpacked if it is compressed, or raise an error if it exceeds ``most`` bytes."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        content = file.read(-1 if most is None else most + 1)
    if most is not None and len(content) > most:
        raise DataError("a data file is too long", got=path, expected=f"at most {most:,} bytes when unpacked")
    return content


def named_folder(data_dir: str | Path | None) -> Path | None:
    """The data folder that the user named, if any."""
    name = data_dir or os.environ.get("HYPERFRONT_DATA")
    return Path(name).expanduser() if name else None


def locate(file: DataFile, folder: Path) -> Path | None:
    """Find ``file`` in ``folder``, in any of its forms and verified, or the larger file that contains it, which its
    reader verifies; None if both are missing."""
    if file.within and (folder / file.within).is_file():
        return folder / file.within
    for form in file.forms:
        if (folder / form.name).is_file():
            verify(form, folder / form.name)
            return folder / form.name
    return None


def missing(file: DataFile, folder: Path) -> DataError:
    """Make the error that names the missing file and its place."""
    command = f"hyperfront data fetch {file.dataset} --data-dir {folder}, or " if file.home else ""
    return DataError(
        f"the data file {file.name} is missing",
        got=f"the folder {folder} without it" if folder.is_dir() else f"no folder {folder}",
        expected=" or ".join(f"{folder / form.name} with SHA-256 {form.sha256}" for form in file.forms),
        fix=f"{command}{file.instruction}, and put it there",
    )
