"""Download a file from its publisher, with a progress bar and a checksum; interrupted downloads continue."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

from hyperfront.errors import DataError
from hyperfront.zoo.data.datafile import DataFile

BLOCK = 1 << 16
PATIENCE = 30  # seconds without an answer


def cache() -> Path:
    """The folder of downloaded files, below the user's cache folder of the operating system."""
    return Path(_pooch().os_cache("hyperfront"))


def fetch(file: DataFile, folder: Path) -> Path:
    """Download ``file`` to ``folder / file.name``, where it appears only when its checksum is right."""
    pooch, path = _pooch(), folder / file.name
    from requests import RequestException  # pooch brings it

    part = path.with_name(path.name + ".part")
    try:
        pooch.retrieve(
            file.url,
            known_hash=f"sha256:{file.sha256}",
            fname=path.name,
            path=path.parent,
            downloader=partial(_resume, part, file.size),
        )
    except RequestException as error:
        again = "run the same command again: the download continues where it stopped" if part.exists() else None
        by_hand = f"get the file in another way and save it as {path}"
        raise DataError(f"{file.url} could not be downloaded", got=error, fix=again or by_hand) from None
    except ValueError as error:  # pooch names both checksums
        raise DataError(f"{file.url} has changed", got=error, fix=f"save the right file as {path}") from None
    except OSError as error:
        raise DataError("a download cannot be written", got=error, fix="choose a folder with HYPERFRONT_DATA") from None
    return path


def _resume(part: Path, size: int, url: str, output_file: str, pooch: Any) -> None:
    """A downloader for pooch that continues after the bytes that an earlier attempt left in ``part``."""
    import requests
    from tqdm.auto import tqdm

    done = part.stat().st_size if part.exists() else 0
    if done < size:
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={done}-"} if done else {})
        with requests.get(url, headers=headers, stream=True, timeout=PATIENCE) as answer:
            answer.raise_for_status()
            done = done if answer.status_code == requests.codes.partial_content else 0  # else the server sends all
            with (
                part.open("ab" if done else "wb") as out,
                tqdm(total=size, initial=done, unit="B", unit_scale=True, disable=None, desc=part.stem) as bar,
            ):
                for block in answer.iter_content(BLOCK):
                    out.write(block)
                    bar.update(len(block))
    os.replace(part, output_file)


def _pooch() -> Any:
    try:
        import pooch
    except ImportError:
        raise DataError(
            "pooch, which downloads data, is not installed",
            fix="pip install 'hyperfront[data]', or name a folder that has the data (--data-dir or HYPERFRONT_DATA)",
        ) from None
    return pooch
