"""A tutorial as a reader follows it: its files are written, its commands and its Python run from top to bottom."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command import hyperfront
from tests.helpers.waiting import LIMIT, until

BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# (\w+\.py)\n")
"""The first line of a block that is a file of the reader's own."""
EXTRA = re.compile(r"^(?:from|import) (peft|onnxruntime|tritonclient)\b", flags=re.MULTILINE)
STATED = "8000"
"""The port in the text. The commands get a free one."""


def follow(page: Path, folder: Path) -> None:
    """Run all blocks of a page in the current folder, which is ``folder``."""
    blocks = BLOCK.findall(page.read_text())
    assert blocks
    names: dict[str, Any] = {}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    with ExitStack() as at_the_end:
        for language, text in blocks:
            block = text.replace(STATED, port)
            if language == "console":
                for line in re.findall(r"^\$ (.*)", block, flags=re.MULTILINE):
                    command(shlex.split(line), folder, at_the_end)
            elif named := FILE.match(block):
                (folder / named[1]).write_text(block)
            else:
                for module in re.findall(
                    r"^(?:from|import) (peft|onnxruntime|tritonclient)\b", block, flags=re.MULTILINE
                ):
                    pytest.importorskip(module)
                exec(compile(block, page.name, "exec"), names)  # our own text


def command(words: list[str], folder: Path, at_the_end: ExitStack) -> None:
    """Run one command; a server runs until the end of the page."""
    program, *rest = words
    if program == "torchrun":
        other_process(["-m", "torch.distributed.run", *rest], folder)
    elif rest[0] == "serve":
        at_the_end.callback(stop, serve(rest, folder))
    else:
        assert program == "hyperfront"
        hyperfront(*rest, folder=folder)


def surroundings() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


ABORTED = "terminate called without an active exception"
"""The message of a process of gloo that has done its work and aborts while it ends, which happens on a busy machine."""


def other_process(words: list[str], folder: Path) -> None:
    for _ in range(3):  # torchrun takes such an end for a failure; the script continues where it was
        done = subprocess.run(
            [sys.executable, *words], cwd=folder, env=surroundings(), capture_output=True, text=True, timeout=900
        )
        if ABORTED not in done.stderr:
            break
    assert done.returncode == 0, done.stdout + done.stderr


def serve(words: list[str], folder: Path) -> subprocess.Popen:
    """Start a server and wait until it is ready."""
    code = "from hyperfront.apps.cli import main; main()"
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen([sys.executable, "-c", code, *words], cwd=folder, env=surroundings(), stderr=log)
    address = f"http://127.0.0.1:{words[words.index('--port') + 1]}/v2/health/ready"

    def ready() -> bool:
        assert process.poll() is None, (folder / "server.log").read_text()
        try:
            with urllib.request.urlopen(address, timeout=LIMIT) as reply:
                return reply.status == 200
        except OSError:
            return False

    until(ready)
    return process


def stop(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()
