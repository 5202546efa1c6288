"""Real notebooks: cells in a Jupyter kernel of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.helpers.waiting import LIMIT


class Executed(NamedTuple):
    """What came of a notebook."""

    outputs: list[list[Any]]
    """The outputs of each cell, as the notebook's file keeps them."""
    code: int
    """The exit code of the kernel."""
    log: str
    """What the kernel's process wrote to the standard error output itself."""


def execute(folder: Path, *cells: str) -> Executed:
    """Run the cells in ``folder``, and shut the kernel down as a user does."""
    nbformat = pytest.importorskip("nbformat", reason="needs Jupyter: pip install 'hyperfront[test]'")
    nbclient = pytest.importorskip("nbclient", reason="needs Jupyter: pip install 'hyperfront[test]'")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    client = nbclient.NotebookClient(
        notebook, timeout=LIMIT, startup_timeout=LIMIT, kernel_name="python3", allow_errors=True
    )
    with (folder / "kernel.log").open("w+") as log:
        with client.setup_kernel(cwd=str(folder), stderr=log):
            process = client.km.provisioner.process
            client.km.shutdown_wait_time = LIMIT  # an interpreter with PyTorch in it takes seconds to end
            for index, cell in enumerate(notebook.cells):
                client.execute_cell(cell, index)
        code = process.wait(timeout=LIMIT)
        log.seek(0)
        return Executed([cell.outputs for cell in notebook.cells], code, log.read())
