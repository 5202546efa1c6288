"""Damaged and forged files in every format that the package reads."""

from __future__ import annotations

import json
import struct
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch

import hyperfront as hf
from hyperfront import tabular
from hyperfront.comparison import Result
from hyperfront.comparison.tuned import Tuned
from hyperfront.sklearn import ParetoClassifier
from hyperfront.storage import checksums
from hyperfront.training.runs import RunFolder, read_records
from tests.fuzz import mutations, specimens
from tests.fuzz.campaign import Outcome, Wrong, attempt


@dataclass
class Format:
    """A format: a right file, and what reads it."""

    name: str
    suffix: str
    data: bytes
    read: Callable[[Path], Any]
    change: Callable[[Random, bytes], bytes]
    weight: float = 1.0


class Files:
    """The family of files."""

    name, seconds, batch = "files", 60.0, 5000

    def __init__(self, only: str = ""):
        self.only = only

    def prepare(self) -> None:
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")
        with tempfile.TemporaryDirectory() as folder:
            self.formats = [f for f in formats(Path(folder)) if self.only in f.name]
            self.weights = [each.weight for each in self.formats]
            for each in self.formats:  # the right file is read, and the code for it imported
                path = Path(folder) / f"right{each.suffix}"
                path.write_bytes(each.data)
                each.read(path)

    def run(self, number: int) -> Outcome:
        draw = Random(number)
        each = draw.choices(self.formats, self.weights)[0]
        change = mutations.of_bytes if draw.random() < 0.4 else each.change
        path = Path(f"file{each.suffix}")
        path.write_bytes(change(draw, each.data))
        return attempt(each.name, lambda: each.read(path))


def formats(folder: Path) -> list[Format]:
    """Make a right file of each format."""
    shared = specimens.Shared()
    torch.manual_seed(0)
    hf.fit(
        shared.analytic.model(hidden=2), shared.analytic, epochs=1, validation_rays=3, out=folder / "run", callbacks=()
    )
    target = shared.analytic.make_target()
    people = specimens.table(Random(0))
    estimator = ParetoClassifier(steps=1, random_state=0, rays=3)
    estimator.fit([[age, int(group == "a")] for age, group in zip(people["age"], people["group"])], people["y"])
    estimator.save(folder / "estimator.safetensors")
    shared.front.save(folder / "front.json")
    lines = ["age,group,y", *(f"{a},{g},{y}" for a, g, y in zip(people["age"], people["group"], people["y"]))]
    (folder / "people.csv").write_text("\n".join(lines))
    _parquet(folder / "people.parquet", people)
    example = Tuned("p", "small", "epo", {"lr": 0.1}, 1.0, 0.5, [[0.1, 0.2]], {"complete": 3})
    example.save(folder / "tuned.json")
    result = next((Path(__file__).parents[2] / "docs" / "seen").rglob("phn-epo-0.json"), None)

    def data(name: str) -> bytes:
        return (folder / name).read_bytes()

    found = [
        Format(
            "checkpoint",
            ".safetensors",
            data("run/last.safetensors"),
            lambda p: _at(hf.load(p, target)),
            of_header,
            2,
        ),
        Format("checkpoint of an estimator", ".st", data("estimator.safetensors"), ParetoClassifier.load, of_header),
        Format("front.json", ".json", data("front.json"), lambda p: _used(hf.Front.load(p)), of_json, 3),
        Format("config.json", ".json", data("run/config.json"), _config, of_json),
        Format("metrics.jsonl", ".jsonl", data("run/metrics.jsonl"), read_records, of_json),
        Format("tuned settings", ".json", data("tuned.json"), Tuned.load, of_json),
        Format("table in CSV", ".csv", data("people.csv"), tabular.read, of_text, 2),
        Format("table in Parquet", ".parquet", data("people.parquet"), tabular.read, mutations.of_bytes),
    ]
    if result is not None:
        found.append(Format("result", ".json", result.read_bytes(), Result.load, of_json))
    return found


def _config(path: Path) -> Any:
    folder = RunFolder(path.parent)
    path.rename(folder.config)
    return folder.read_config()


def _at(model: hf.ParetoModel) -> None:
    """Use what was read: generated weights must be finite, or the file was not checked."""
    theta = model.weights([[0.5] * model.m]) if model.m < 50 else torch.zeros(1)
    if theta.ndim != 2:
        raise Wrong("weights have the wrong shape")


def _used(front: hf.Front) -> None:
    if not front.losses.isfinite().all() or front.rays.shape != front.losses.shape:
        raise Wrong("a front with wrong numbers was read")


def _parquet(path: Path, columns: dict[str, list[Any]]) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), path)


def of_json(draw: Random, data: bytes) -> bytes:
    """Change a JSON document, or one line of JSON lines."""
    try:
        return mutations.dumped(draw, mutations.of_json(draw, json.loads(data)))
    except ValueError:
        lines = [json.loads(line) for line in data.split(b"\n") if line]
        return b"\n".join(mutations.dumped(draw, mutations.of_json(draw, line)) for line in lines)


def of_text(draw: Random, data: bytes) -> bytes:
    """Change cells and lines of a CSV file."""
    lines = data.decode().split("\n")
    cells = ("", "NaN", "inf", "1e999", '"', '"a,b"', "x" * 5000, "\0", "é", "2020-01-01", "-0", "?", "9" * 400, "\r")
    for _ in range(draw.choice((1, 2, 10))):
        row = draw.randrange(len(lines))
        parts = lines[row].split(",")
        parts[draw.randrange(len(parts))] = draw.choice(cells)
        lines[row] = ",".join(parts * draw.choice((1, 1, 1, 2, 0)))
    text = draw.choice(("\n", "\r\n", "\n\n", "\r")).join(lines)
    return text.encode(draw.choice(("utf-8", "utf-8", "utf-16", "utf-8-sig")))


def of_header(draw: Random, data: bytes) -> bytes:
    """Change the header of a safetensors file, or the document in it, with right checksums."""
    size = struct.unpack("<Q", data[:8])[0]
    header, rest = json.loads(data[8 : 8 + size]), data[8 + size :]
    if draw.random() < 0.25:
        header = mutations.of_json(draw, header)
    else:
        text = header["__metadata__"]["hyperfront"].rpartition("\n")[0]
        document = json.loads(text)
        kept = document.pop("checksums", None)
        changed = mutations.of_json(draw, document)
        if isinstance(changed, dict) and kept and draw.random() < 0.9:
            changed["checksums"] = kept
        text = json.dumps(changed)
        header["__metadata__"]["hyperfront"] = f"{text}\n{checksums.of_text(text)}"
    written = json.dumps(header).encode("utf-8", "surrogatepass")
    length = len(written) if draw.random() < 0.95 else draw.choice((0, 2**40, 2**63, len(written) + 1))
    return struct.pack("<Q", length) + written + rest
