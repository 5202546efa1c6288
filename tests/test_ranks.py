"""Several processes that share the rows of a step take the step of one process that sees them all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import hyperfront as hf
from hyperfront.errors import HyperfrontError
from tests.helpers import ranks

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def together(tmp_path_factory) -> dict[str, torch.Tensor]:
    file = tmp_path_factory.mktemp("ranks") / "ends.safetensors"
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    done = subprocess.run(
        [*launch, "-m", "tests.helpers.ranks", str(file)], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return load_file(file)


@pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "DDP"])
@pytest.mark.parametrize("case", ranks.CASES, ids="-".join)
def test_two_processes_take_the_steps_of_one(together, case, wrapped):
    alone = ranks.trained(*case)
    torch.testing.assert_close(together[" ".join([*case, str(wrapped)])], alone, rtol=1e-9, atol=1e-12)


def test_fit_is_refused_in_a_job_of_several_processes(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    model = hf.wrap(torch.nn.Linear(1, 1), ["left", "right"])
    problem = hf.supervised(train=(torch.ones(4, 1),), losses={"left": len, "right": len})
    with pytest.raises(HyperfrontError, match="2 processes"):
        hf.fit(model, problem)
