"""``hyperfront data``: list, download, verify and prepare data sets."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import tyro

from hyperfront.apps.cli.arguments import Folder, option
from hyperfront.apps.cli.output import console
from hyperfront.errors import DataError
from hyperfront.zoo.data import cache, locate, missing, named_folder
from hyperfront.zoo.data.checksums import note
from hyperfront.zoo.data.datafile import DataFile
from hyperfront.zoo.data.download import fetch as download
from hyperfront.zoo.data.registry import DATASETS, dataset

DESCRIPTION = "List, fetch, check and prepare the data sets of the built-in problems."

data = tyro.extras.SubcommandApp()
Names = Annotated[
    tuple[str, ...],
    option("NAME ...", "Data sets: " + ", ".join(DATASETS)),
]


@data.command(name="list")
def show(*, data_dir: Folder = None) -> None:
    """List the data sets: files, whether they were found, licences, and how to get missing ones.

    Args:
        data_dir: Folder with the data; by default HYPERFRONT_DATA, else the cache.
    """
    folder = _folder(data_dir)
    for name, known in DATASETS.items():
        console.print(f"\n[bold]{name}[/bold]  {known.title}  [dim]{known.license}[/dim]", soft_wrap=True)
        ways: dict[str, list[str]] = {}
        for file in known.files:
            there = next((form for form in file.forms if (folder / form.name).is_file()), None)
            whole = there and (there.prepared or (folder / there.name).stat().st_size == there.size)
            whole = whole or (file.within and (folder / file.within).is_file())
            _line("found" if whole else "damaged" if there else "missing", there or file)
            if file.needed and not whole:
                into = f" --data-dir {data_dir}" if data_dir else ""
                way = f"hyperfront data fetch {name}{into}" if file.home else file.instruction
                ways.setdefault(f"delete it, then {way}" if there else way, []).append(file.name)
        for way, files in ways.items():
            which = "" if len(ways) == 1 else f"{', '.join(files)}: "
            console.print(f"  fix: {which}{way}", markup=False, soft_wrap=True)
    console.print("\nFound is a file of the right size; `hyperfront data check` verifies checksums.", markup=False)


@data.command
def fetch(names: Names, /, *, data_dir: Folder = None) -> None:
    """Download data sets from their publishers; an interrupted download resumes.

    Args:
        data_dir: Folder to write to; by default HYPERFRONT_DATA, else the cache.
    """
    known = [dataset(name) for name in names]
    if not known:
        raise DataError("nothing to fetch", expected="names of data sets: " + ", ".join(DATASETS))
    folder, errors = _folder(data_dir), []
    for file in (file for each in known for file in each.files if file.needed):
        if locate(file, folder):
            _line("found", file)
        elif file.home:
            download(file.home, folder)
            _line("fetched", file.home)
        else:
            _line("missing", file)
            errors.append(missing(file, folder))
    _fail_with(errors)


@data.command
def check(names: Names = (), /, *, data_dir: Folder = None) -> None:
    """Verify the checksums of data sets; without names, of all in the folder.

    Args:
        data_dir: Folder with the data; by default HYPERFRONT_DATA, else the cache.
    """
    folder, errors = _folder(data_dir), []
    known = [dataset(name) for name in names or DATASETS if names or (folder / name).is_dir()]
    if not known:
        raise DataError(
            "there are no data sets in the folder",
            got=folder,
            expected="one of the folders " + ", ".join(DATASETS),
            fix="hyperfront data list says how to get each",
        )
    for file in (file for each in known for file in each.files):
        try:
            path = locate(file, folder)
        except DataError as error:
            _line("damaged", file)
            errors.append(error)
        else:
            _line("ok" if path else "missing", next((f for f in file.forms if path == folder / f.name), file))
            errors += [missing(file, folder)] if file.needed and not path else []
    _fail_with(errors)


@data.command
def prepare(
    name: Annotated[Literal["acs", "nyuv2"], tyro.conf.arg(metavar="{acs,nyuv2}")],
    file: Annotated[Path, tyro.conf.arg(metavar="FILE")],
    /,
    *,
    out: Folder = None,
) -> None:
    """Make the files of a data set from its official form.

    Args:
        name: The data set.
        file: Its official file; for nyuv2, nyu_depth_v2_labeled.mat; for acs, the wheel of nannyml.
        out: Data folder to write to; by default HYPERFRONT_DATA, else the cache.
    """
    if not file.is_file():
        raise DataError("no such file", got=file, fix=DATASETS[name].files[0].instruction)
    maker = importlib.import_module(f"hyperfront.zoo.data.{name}")
    folder = _folder(out)
    (folder / name).mkdir(parents=True, exist_ok=True)
    for path in maker.prepare(file, folder):
        note(path)
        console.print(f"wrote {path}", soft_wrap=True)


def _folder(data_dir: Path | None) -> Path:
    """Find the data folder, and print it."""
    folder = named_folder(data_dir) or cache()
    console.print(f"data folder: {folder}", markup=False, soft_wrap=True)
    return folder


def _line(state: str, file: DataFile) -> None:
    color = {"missing": "yellow", "damaged": "red"}.get(state, "green")
    about = "" if file.needed else "  [dim]a description, not needed[/dim]"
    console.print(f"  [{color}]{state:<8}[/{color}] {file.name:<54} {file.size:>11,} bytes{about}", soft_wrap=True)


def _fail_with(errors: Sequence[DataError]) -> None:
    """Print the errors and end with an error code, if there are any."""
    for error in errors:
        console.print(f"\n{error}", markup=False, soft_wrap=True)
    if errors:
        sys.exit(1)
