"""The runs that a server is given: their names, and folders of versions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hyperfront.errors import HyperfrontError
from hyperfront.training.runs import RunFolder

_NUMBER = re.compile("[1-9][0-9]{0,17}")


class Source(NamedTuple):
    """A run or checkpoint file with the name and version that requests use."""

    name: str
    version: str
    path: Path


def find(words: Sequence[str], name: str | None = None) -> list[Source]:
    """Find the runs of ``RUN`` and ``NAME=RUN`` words; ``name`` is the name of the only one.

    A folder that is no run, with folders called 1, 2, ... in it, holds the versions of a model.
    """
    if name is not None and len(words) > 1:
        raise HyperfrontError("--name is for one model", got=f"{len(words)} runs", fix="NAME=RUN for each")
    if not words:
        raise HyperfrontError("the command names no run", expected="hyperfront serve RUN ...")
    found: list[Source] = []
    for word in words:
        given, path = _split(word)
        path = path.resolve()
        own = name or given or (path.name if path.is_dir() else path.stem)
        if "/" in own or any(source.name == own for source in found):
            what = "the name of a model has a slash" if "/" in own else "two models have the same name"
            raise HyperfrontError(what, got=repr(own), fix="NAME=RUN for each")
        versions = _versions(path)
        found += [Source(own, version, path / version) for version in versions] or [Source(own, "1", path)]
    return found


def _split(word: str) -> tuple[str | None, Path]:
    """The name, if there is one, and the path."""
    name, equals, path = word.partition("=")
    return (name, Path(path)) if equals and name and not Path(word).exists() else (None, Path(word))


def _versions(path: Path) -> list[str]:
    """The versions in a folder, the oldest first; none for a run."""
    folder = RunFolder(path)
    if not path.is_dir() or any(file.exists() for file in (folder.config, folder.last, folder.best)):
        return []
    return sorted((entry.name for entry in path.iterdir() if entry.is_dir() and _NUMBER.fullmatch(entry.name)), key=int)
