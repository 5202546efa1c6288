"""Several processes on the same folders: one at a time in each, and nobody waits for itself."""

from __future__ import annotations

import errno
import multiprocessing
import os
import sys
import time
import warnings
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import hyperfront as hf
from hyperfront.errors import BusyError
from hyperfront.storage import locks
from hyperfront.storage.locks import alone_in, share_out


def count_alone(folder: Path, counter: Path, times: int) -> None:
    """Add one to a number in a file, so slowly that two at once would lose some."""

    def add(_: int) -> None:
        with alone_in(folder):
            number = int(counter.read_text())
            time.sleep(0.001)
            counter.write_text(str(number + 1))

    locks.WAIT = 0.001
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it waits
        share_out(range(times), add)


def test_only_one_process_is_in_a_folder_that_comes_and_goes(tmp_path):
    counter = tmp_path / "counter"
    counter.write_text("0")
    given = (tmp_path / "folder", counter, 40)
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=count_alone, args=given) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0] and counter.read_text() == "120"
    assert not given[0].exists()


def test_a_folder_keeps_what_was_written_and_an_error_is_the_one_that_was(tmp_path, monkeypatch):
    with alone_in(tmp_path / "kept"):
        (tmp_path / "kept" / "file").touch()
        with pytest.raises(BusyError, match="another process"), alone_in(tmp_path / "kept"):
            pass
    assert (tmp_path / "kept" / "file").exists()
    monkeypatch.chdir(tmp_path / "kept")
    with pytest.raises(RuntimeError, match="out of memory"), alone_in(Path(".")):
        raise RuntimeError("out of memory")


@pytest.mark.parametrize("missing", [False, True])
def test_where_folders_cannot_be_locked_one_warning_says_so(tmp_path, monkeypatch, missing):
    def fail(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    locks._warn_unlocked.cache_clear()
    if missing:
        monkeypatch.setitem(sys.modules, "fcntl", None)
    else:
        monkeypatch.setattr("fcntl.flock", fail)
    with pytest.warns(UserWarning, match="cannot be locked") as warned:
        for _ in range(2):
            with locks.alone_in(tmp_path / "x"):
                (tmp_path / "x" / "a").touch()
    assert len(warned) == 1
    locks._warn_unlocked.cache_clear()


def test_a_process_that_was_started_meanwhile_and_lives_on_does_not_keep_the_lock(tmp_path):
    with alone_in(tmp_path):
        (tmp_path / "file").touch()
        child = os.fork()
        if not child:
            time.sleep(600)
            os._exit(0)
    try:
        with alone_in(tmp_path):
            pass
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_loader_whose_workers_live_on_can_be_resumed(tmp_path):
    data = TensorDataset(torch.randn(64, 2), torch.randn(64, 2))
    loader = DataLoader(data, batch_size=16, num_workers=1, persistent_workers=True)
    losses = {f"l{j}": lambda output, batch, j=j: (output[:, 0] - batch[1][:, j]).square().mean() for j in (0, 1)}
    problem = hf.supervised(loader, losses=losses)
    for epochs in (2, 2):
        model = hf.wrap(torch.nn.Linear(2, 1), ["l0", "l1"], hidden=4)
        run = hf.fit(model, problem, epochs=epochs, out=tmp_path / "run", resume=True, callbacks=())
    assert len(run.history) == 2


def test_parts_that_another_process_is_at_come_last_and_are_waited_for(monkeypatch):
    monkeypatch.setattr(locks, "WAIT", 0.0)
    busy, order = {"a": 3, "c": 1}, []

    def work(part: str) -> None:
        if busy.get(part, 0):
            busy[part] -= 1
            raise BusyError("busy", got="a folder")
        order.append(part)

    with pytest.warns(UserWarning, match="waiting for another process"):
        share_out("abcd", work)
    assert order == ["b", "d", "c", "a"]
