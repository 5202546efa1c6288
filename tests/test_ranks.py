"""Several processes that share the rows of a step take the step of one process that sees them all."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import distributed as dist
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, TensorDataset

import hyperfront as hf
from hyperfront.errors import CheckpointError, HyperfrontError
from hyperfront.front import Front
from hyperfront.problem.registry import build
from hyperfront.training import team
from hyperfront.training.agreement import check_shares
from hyperfront.training.restarts import job_mark
from hyperfront.training.runs import RunFolder
from tests.helpers import ranks, shared_fit

ROOT = Path(__file__).parents[1]


def launch(module: str, *words: object, options: tuple[str, ...] = ()) -> None:
    """Run a module of the tests in several processes."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *options]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    done = subprocess.run(
        [*command, "-m", f"tests.helpers.{module}", *map(str, words)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,  # on a busy machine
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("fit")
    launch("shared_fit", folder)
    return folder


@pytest.fixture(scope="module")
def together(shared) -> dict[str, torch.Tensor]:
    return load_file(shared / "ends.safetensors")


@pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "DDP"])
@pytest.mark.parametrize("case", ranks.CASES, ids="-".join)
def test_two_processes_take_the_steps_of_one(together, case, wrapped):
    alone = ranks.trained(*case)
    torch.testing.assert_close(together[" ".join([*case, str(wrapped)])], alone, rtol=1e-9, atol=1e-12)


def test_two_processes_of_accelerate_take_the_steps_of_one(together):
    pytest.importorskip("accelerate")
    torch.testing.assert_close(together["accelerate"], ranks.accelerated(prepared=False), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", shared_fit.CASES)
def test_processes_that_fit_together_end_where_one_does(together, name):
    train, losses, options = shared_fit.CASES[name]
    _, alone = shared_fit.fitted(train, losses, **options)
    torch.testing.assert_close(together[name], alone, rtol=1e-9, atol=1e-11)


def test_a_table_is_shared_too(together):
    torch.testing.assert_close(together["table"], shared_fit.tabled(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rays", [1, 3])
def test_a_step_sends_a_gradient_of_theta_for_each_ray_and_for_epo_for_each_objective(together, rays):
    m = 2
    sent, n, messages = together[f"sent LS {rays}"].tolist()
    assert (sent, messages) == (rays * n + rays * m, 2)  # and the losses
    assert together[f"sent EPO {rays}"].tolist() == [rays * m * n + rays * m, n, 1]


def test_a_wrong_job_is_an_error_on_all_ranks(shared):
    """Each file has the words of the error as its name, behind the rank that it was raised on."""
    files = sorted(file for file in shared.iterdir() if file.name[:2] in ("0 ", "1 "))
    assert len(files) == 28
    for file in files:
        assert re.search(file.name[2:], file.read_text(), flags=re.DOTALL), f"{file.name}: {file.read_text()}"


def test_a_run_of_two_processes_loads_and_has_one_record_for_each_epoch(shared):
    run = RunFolder(shared / "run")
    assert [record["epoch"] for record in run.records()] == [1, 2]
    assert run.last.exists() and run.best.exists() and run.front.exists()


def test_torchrun_continues_a_job_of_which_a_process_died(tmp_path):
    launch("restarted_fit", tmp_path / "run", options=("--max-restarts=1",))
    run, _ = shared_fit.fitted("tensors", "means", solver=hf.EPO(), epochs=3)
    found = RunFolder(tmp_path / "run")
    assert [record["epoch"] for record in found.records()] == [1, 2, 3]
    torch.testing.assert_close(Front.load(found.front).losses, run.front.losses, rtol=1e-9, atol=1e-12)


def test_a_restarted_job_continues_its_own_run_only(tmp_path, monkeypatch):
    """The agent of torchrun has a store: here there are two agents, and a job of one process."""
    agents = [dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False) for _ in range(2)]

    def start(agent: dist.TCPStore, attempt: int, epochs: int, **options) -> hf.Run:
        common = {"TORCHELASTIC_USE_AGENT_STORE": "True", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": agent.port}
        for name, value in (common | {"TORCHELASTIC_RESTART_COUNT": attempt}).items():
            monkeypatch.setenv(name, str(value))
        run, _ = shared_fit.fitted("tensors", "means", epochs=epochs, out=tmp_path / "run", **options)
        return run

    start(agents[0], 0, 2)
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    for agent, attempt in ((agents[0], 0), (agents[1], 0), (agents[1], 1)):
        with pytest.raises(CheckpointError, match="already holds a run"):
            start(agent, attempt, 2)
    assert len(start(agents[0], 1, 2).history) == 2
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before
    assert len(start(agents[1], 1, 2, resume=True).history) == 2
    assert job_mark() == job_mark()
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "False")
    assert job_mark() is None


def test_a_missing_process_is_named(monkeypatch):
    for name, value in {"RANK": 0, "WORLD_SIZE": 3, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 0}.items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(HyperfrontError, match="rank 1, 2 of 3 is missing"):
        team.join(seconds=15.0)  # also the time to reach the store, on a busy machine


def test_a_job_that_does_not_say_where_rank_0_is(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(HyperfrontError, match="MASTER_ADDR"):
        team.join()


@pytest.mark.parametrize("batched", [False, True], ids=["sampler", "batch sampler"])
@pytest.mark.parametrize("split", ["train", "val"])
def test_a_loader_that_gives_every_process_other_rows_is_refused(split, batched):
    rows = TensorDataset(*shared_fit.data(24))
    loaders = {name: DataLoader(rows, batch_size=12) for name in ("train", "val")}
    sampler: Any = DistributedSampler(rows, num_replicas=2, rank=0)
    given: dict[str, Any] = {"batch_size": 12, "sampler": sampler}
    batches = {"batch_sampler": BatchSampler(sampler, 12, False)} if batched else given
    loaders[split] = DataLoader(rows, **batches)
    problem = hf.supervised(**loaders, losses=shared_fit.LOSSES["means"])
    target = hf.wrap(torch.nn.Linear(4, 1), problem.objectives, hidden=4).target
    settings = SimpleNamespace(share_batch=False, rays_per_step=1, batch_size=12)
    job: Any = SimpleNamespace(
        problem=problem, team=team.Team(0, 2), settings=settings, model=SimpleNamespace(target=target)
    )
    with pytest.raises(HyperfrontError, match=f"(?s)other rows.*DistributedSampler in the loader of {split}"):
        check_shares(job)


def test_an_analytic_problem_has_no_rows_to_share():
    problem = build("fonseca")
    settings = SimpleNamespace(share_batch=False, rays_per_step=1, batch_size=8)
    job = SimpleNamespace(problem=problem, team=team.Team(0, 2), settings=settings)
    with pytest.raises(HyperfrontError, match="no rows"):
        check_shares(job)


def test_the_tables_of_the_page_have_its_numbers(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    found = importlib.import_module("together.found")
    numbers, page = found.Found(ROOT / "docs" / "ranks.json").read(), (ROOT / "docs" / "ranks.md").read_text()
    equal, kills = numbers["equal"], numbers.get("kills", [])
    assert "\n".join(found.equal_table(equal)) in page and not any(map(found.missed, equal))
    assert not kills or "\n".join(found.killed_table(kills)) in page
    assert not any(map(found.lost, kills))
