"""The way from a command, a request, a drag and a comparison to the module: as docs/design.md lists it, and short."""

from __future__ import annotations

import re
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

import hyperfront as hf
from hyperfront.apps.cli import main
from hyperfront.problem.analytic import Point
from hyperfront.zoo.lenet import LeNet
from tests.helpers import explored
from tests.helpers.serving import lenet_service, serving

ROOT = Path(__file__).parents[1]
PACKAGE = str(ROOT / "src" / "hyperfront")


def own_frames() -> list[str]:
    """The package's functions on the stack, from the outermost on, as ``file: function``."""
    frame, found = sys._getframe(1), []
    while frame is not None:
        place = frame.f_code.co_filename
        if place.startswith(PACKAGE) and frame.f_code.co_name != "<listcomp>":  # a frame in Python 3.11 only
            found.append(f"{Path(place).relative_to(PACKAGE)}: {frame.f_code.co_name}")
        frame = frame.f_back
    return found[::-1]


@contextmanager
def recording(kind: type, name: str) -> Iterator[list[list[str]]]:
    """Inside, the frames of every call of ``kind.name`` are recorded."""
    method, stacks = getattr(kind, name), []

    def recorded(self, *args, **kwargs):
        stacks.append(own_frames())
        return method(self, *args, **kwargs)

    setattr(kind, name, recorded)
    try:
        yield stacks
    finally:
        setattr(kind, name, method)


def listed(title: str) -> list[str]:
    """The frames that docs/design.md lists under a title."""
    text = (ROOT / "docs" / "design.md").read_text().partition(f"\n### {title}\n")[2].partition("\n#")[0]
    return re.findall(r"^\| \d+ \| `([^`]+)` \| \S", text, flags=re.MULTILINE)


def train(folder: Path, kind: type, name: str) -> list[list[str]]:
    with recording(kind, name) as stacks:
        main(["train", "fonseca", "--epochs", "1", "--rays", "3", "--out", str(folder)])
    return stacks


def test_the_module_is_at_most_ten_frames_below_the_command(tmp_path):
    stacks = train(tmp_path / "run", Point, "forward")
    assert max(len(stack) for stack in stacks if "training/engines/eager.py: run" in stack) <= 10
    assert listed("A training step, up to the module") in stacks


def test_the_way_to_the_optimizer(tmp_path):
    stacks = train(tmp_path / "run", torch.optim.lr_scheduler.LambdaLR, "step")
    assert listed("A training step, up to the schedule") in stacks


def test_the_way_of_a_request():
    with recording(LeNet, "forward") as stacks, serving(lenet_service()) as client:
        data = {"name": "x", "datatype": "FP32", "shape": [1, 1, 36, 36], "data": [0.0] * 1296}
        ray = {"name": "ray", "datatype": "FP32", "shape": [1, 2], "data": [0.5, 0.5]}
        document = {"inputs": [data, ray]}
        stacks.clear()
        status, answer = client.post("/v2/models/lenet/infer", document)
        assert status == 200, answer
    assert listed("A request") in stacks


def test_the_way_of_a_drag(tmp_path):
    run = explored.own(tmp_path / "run")
    exploration = hf.explore(run, explored.regression())
    try:
        with recording(nn.Linear, "forward") as stacks:
            urllib.request.urlopen(exploration.url + "api/predict?ray=0.3,0.7").read()
    finally:
        exploration.close()
    assert listed("A drag") in stacks


def test_the_way_of_a_comparison(tmp_path):
    words = ["--methods", "ls", "--epochs", "1", "--seeds", "1", "--rays", "2", "--out", str(tmp_path / "compared")]
    with recording(Point, "forward") as stacks:
        main(["compare", "fonseca", *words])
    assert listed("A comparison") in stacks
