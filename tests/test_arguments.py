"""Wrong arguments of public functions and constructors are refused by our own error, at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import hyperfront as hf
from hyperfront.indicators import spacing
from hyperfront.preferences import FixedRays, InTurn, das_dennis, shifted_grid
from hyperfront.problem import Truth, check_reference
from hyperfront.problem.registry import build
from hyperfront.solvers import (
    COSMOS,
    EPO,
    MGDA,
    PBI,
    PMTL,
    Average,
    Clip,
    HVMax,
    Normalize,
    NormalizeByStart,
    SmoothTchebycheff,
    Tchebycheff,
    lift,
)
from hyperfront.storage.provenance import describe

NAN, INF = math.nan, math.inf
NO_NUMBER = (NAN, INF, "a", True)
NO_SIZE = (NAN, INF, 0, -1, 1.5, "3", True)
NO_FLAG = ("no", "x", 0, 1)
NO_RAYS = ("a", 3, [], [0.5, 0.5], [["a", "b"]], [[0.5, -0.5]], [[NAN, 1.0]], [[0.5], [0.5, 0.5]], [[1.0]])
IDEAL = (NAN, "a", True, (0.0, INF), (), [[0.0]], {})


def known(**given: Any) -> Truth:
    return Truth(**{"points": torch.rand(3, 2), "hypervolume": 1.0, "distance": torch.sum} | given)


REFUSED: dict[Callable[..., Any], dict[str, tuple[Any, ...]]] = {
    EPO: {"space": ("hypernet", None, 3), "tolerance": (-1, *NO_NUMBER), "descent": (-0.1, 1.1, *NO_NUMBER)},
    MGDA: {"space": ("x", None)},
    PMTL: {"space": ("x",), "tolerance": (-1, 2, *NO_NUMBER), "references": NO_RAYS},
    COSMOS: {"weight": (-1, None, *NO_NUMBER)},
    HVMax: {"cosine": (-1, *NO_NUMBER), "reference": (0, -1, (1.0, 0.0), *IDEAL)},
    Tchebycheff: {"ideal": IDEAL},
    SmoothTchebycheff: {"temperature": (0, -1, *NO_NUMBER), "ideal": IDEAL},
    PBI: {"penalty": (-1, *NO_NUMBER), "ideal": IDEAL},
    Clip: {"low": NO_NUMBER, "high": (0, -1, *NO_NUMBER)},
    Normalize: {"nadir": (0, -1, *IDEAL)},
    NormalizeByStart: {"steps": NO_SIZE},
    Average: {"rays": NO_RAYS},
    lift: {"scalarization": ("x", None)},
    hf.Dirichlet: {"alpha": (0, -1, None, (), (1.0, 0.0), (1.0, "a"), *NO_NUMBER)},
    FixedRays: {"rays": NO_RAYS},
    InTurn: {"rays": NO_RAYS},
    known: {"hypervolume": (NAN, -1, None, "a")},
}


def cases() -> Iterator[Any]:
    for made, arguments in REFUSED.items():
        for name, values in arguments.items():
            yield pytest.param(made, name, values, id=f"{made.__name__}-{name}")


@pytest.mark.parametrize(("made", "name", "values"), [*cases()])
def test_wrong_settings_are_refused_where_they_are_made(made, name, values):
    for value in values:
        with pytest.raises(hf.HyperfrontError):
            made(**{name: value})


def test_wrong_settings_beside_others_are_refused_too():
    for make in (
        lambda: COSMOS(1.0, ideal=NAN),
        lambda: Normalize(2.0, ideal="a"),
        lambda: Average([[0.5, 0.5]], decay=1.0),
        lambda: Average([[0.5, 0.5]], decay=NAN),
        lambda: lift(max, convention="x"),
        lambda: lift(max, positive="no"),
    ):
        with pytest.raises(hf.HyperfrontError):
            make()


def test_huge_references_are_numbers_and_endless_ones_are_not():
    assert HVMax(reference=2**63).reference == 2**63
    for reference in (range(10**12), (10**400, 1), "ab"):
        with pytest.raises(hf.HyperfrontError):
            check_reference(reference, ("a", "b"))


def test_numbers_of_numpy_are_numbers():
    assert torch.equal(hf.rays(np.int64(3), 2), hf.rays(3, 2))
    assert describe({"epochs": np.int64(3), "lr": np.float32(0.5)}) == {"epochs": 3, "lr": 0.5}


def test_settings_that_are_right_are_kept_as_they_are_given():
    assert EPO("hypernetwork", 0.0, 1).descent == 1
    assert HVMax(0, reference=0).reference == 0  # without the cosine losses may be negative
    assert FixedRays([[1, 0], [0, 1]]).rays == ((1, 0), (0, 1))
    assert FixedRays(torch.eye(2)).rays == ((1.0, 0.0), (0.0, 1.0))
    assert Clip(low=-1).low == -1 and Clip(high=1.0).high == 1.0
    assert Tchebycheff(ideal=(0, 1)).ideal == (0, 1)


@pytest.mark.parametrize("n", [NAN, INF, 0, -1, 10**12, 1.5, "3", True, None])
def test_what_is_no_number_of_rays_is_refused_before_any_is_made(n):
    for make in (lambda: hf.rays(n, 3), lambda: hf.rays(5, n if n != 10**12 else 1), lambda: hf.rays(n, 2)):
        with pytest.raises(hf.HyperfrontError):
            make()


@pytest.mark.parametrize("sizes", [(3, 10**6), (10**6, 10**6), (1000, 1003), (3, NAN), (3, "x"), (2.0, 3), (True, 3)])
def test_grids_that_no_memory_holds_are_refused_before_they_are_made(sizes):
    for make in (das_dennis, shifted_grid):
        with pytest.raises(hf.HyperfrontError):
            make(*sizes)
    with pytest.raises(hf.HyperfrontError):
        hf.rays(10**6, 1000)


@pytest.fixture(scope="module")
def problem() -> hf.Problem:
    return build("vlmop2")


@pytest.fixture(scope="module")
def model(problem) -> hf.ParetoModel:
    return problem.model(hidden=4)


FIT: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("epochs", "rays_per_step", "batch_size", "validate_every", "patience"), NO_SIZE),
    **dict.fromkeys(("share_batch", "resume", "deterministic", "align"), NO_FLAG),
    "warmup": (-1, 1.5, "3", True),
    "lr": (-1, "1e-3", *NO_NUMBER),
    "seed": (-1, 2**64, 1.5, "x", None, True),
    "engine": (None, "fast", 3),
    "device": ("gpu", 3.5, "meta", "cpu:x", 99),
    "out": ("a\0b", 3, ""),
    "precision": ("float16", 3, True),
    "schedule": ("x", 3),
    "solver": ("EPO", EPO, 3),
    "preferences": (0.2, hf.Dirichlet),
    "validation_rays": (0, -1, True, 10**12, "x", NAN, [[1.0, 2.0, 3.0]]),
    "callbacks": (3, [3]),
}


@pytest.mark.parametrize("name", FIT)
def test_fit_refuses_wrong_arguments_before_it_trains(model, problem, name):
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    for value in FIT[name]:
        with pytest.raises(hf.HyperfrontError):
            hf.fit(model, problem, **{"epochs": 1, "callbacks": (), name: value})
    assert all(tensor.equal(before[key]) for key, tensor in model.state_dict().items())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_named(model, problem, tmp_path):
    path = tmp_path / "x.safetensors"
    model.save(path)
    for call in (
        lambda: hf.fit(model, problem, epochs=1, device="cuda"),
        lambda: hf.load(path, device="cuda"),
    ):
        with pytest.raises(hf.HyperfrontError, match="'cuda'"):
            call()


def test_evaluate_load_select_wrap_and_supervised_refuse_wrong_arguments(model, problem, tmp_path):
    path = tmp_path / "x.safetensors"
    model.save(path)
    front = hf.evaluate(model, problem, 3)
    data = torch.ones(4, 1), torch.ones(4, 1)
    losses = dict.fromkeys("ab", lambda output, batch: output.mean())
    calls: list[Callable[[], Any]] = [
        *(lambda size=size: hf.evaluate(model, problem, 3, batch_size=size) for size in NO_SIZE),
        *(lambda rays=rays: hf.evaluate(model, problem, rays) for rays in (0, True, 10**12, NAN, "x", None)),
        *(lambda which=which: hf.load(path, which=which) for which in ("Best", 3, "")),
        *(lambda where=where: hf.load(where) for where in (None, 3, "a\0b", "", Path("missing"))),
        *(lambda device=device: hf.load(path, device=device) for device in ("gpu", None, "meta", 99)),
        *(lambda rounds=rounds: front.select(minimize="l1", rounds=rounds) for rounds in (-1, "x", 1.5, NAN, True)),
        *(
            lambda names=names: hf.wrap(nn.Linear(1, 2), names)
            for names in (None, 3, "ab", [1, 2], [[], []], ["a", "a"])
        ),
        lambda: hf.wrap(None, ["a", "b"]),
        *(
            lambda point=point: hf.supervised(data, losses=losses, reference=point)
            for point in (3, "ab", (1, NAN), (1,))
        ),
    ]
    for call in calls:
        with pytest.raises(hf.HyperfrontError):
            call()


def test_functions_of_the_user_that_return_something_else_are_named():
    line = nn.Linear(2, 2)
    with pytest.raises(hf.HyperfrontError, match="made no assembly"):
        hf.wrap(line, objectives=["a", "b"], assembly=lambda module, names: "text")


def test_huge_bounds_and_losses_are_numbers():
    weights = torch.tensor([[0.5, 0.5]])
    assert torch.equal(Clip(low=-(2**64))(weights), weights)
    assert math.isfinite(spacing(torch.tensor([[1e300, 0.0], [0.0, 1.0], [2.0, 3.0]], dtype=torch.float64)))
