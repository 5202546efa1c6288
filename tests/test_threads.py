"""CPU threads by the size of the work: what is counted, and that a number set by the user stays."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import hyperfront as hf
from hyperfront.front import threads


@pytest.fixture
def four(monkeypatch):
    """A machine with four cores, on which nobody has set the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    monkeypatch.setattr(threads, "DEFAULT", 4)
    monkeypatch.setattr(threads.os, "cpu_count", lambda: 4)
    for name in threads.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    yield
    torch.set_num_threads(before)


def counted(work: float) -> int:
    with threads.few_for_small_work(torch.device("cpu"), lambda: work):
        return torch.get_num_threads()


def test_small_work_has_one_thread_and_the_number_of_the_user_stays(four, monkeypatch):
    assert counted(1e3) == 1 and counted(1e12) == torch.get_num_threads() == 4
    with pytest.raises(ZeroDivisionError), threads.few_for_small_work(torch.device("cpu"), lambda: 0.0):
        _ = 1 / 0
    assert torch.get_num_threads() == 4
    torch.set_num_threads(3)
    assert counted(1e3) == 3
    torch.set_num_threads(4)
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert counted(1e3) == 4


def test_the_work_of_a_network_is_its_multiply_adds():
    net = nn.Sequential(nn.Conv2d(1, 2, 3, bias=False), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2 * 6 * 6, 3))
    model = hf.wrap(net, ["a", "b"], hidden=4)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert threads.work(model, torch.randn(5, 1, 8, 8)) == 5 * (2 * 9 * 36 + 72 * 3)
    assert model.training
    torch.testing.assert_close(dict(model.state_dict()), before, rtol=0, atol=0, equal_nan=True)


def test_fit_and_evaluate_of_a_small_model_use_one_thread(four):
    seen = set()

    def loss(output, batch):
        seen.add(torch.get_num_threads())
        return output.square().mean()

    rows = (torch.randn(20, 3), torch.randn(20, 1))
    problem = hf.supervised(rows, rows, losses={"a": loss, "b": lambda o, b: (o - 1).square().mean()}, reference=(9, 9))
    model = hf.wrap(nn.Linear(3, 1), ["a", "b"])
    hf.fit(model, problem, epochs=1, batch_size=10, callbacks=[])
    hf.evaluate(model, problem.val, rays=3)
    assert seen == {1} and torch.get_num_threads() == 4
