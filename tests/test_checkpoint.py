"""Checkpoints: what goes in comes out, byte for byte the same, and a file that is anything else is refused."""

from __future__ import annotations

import json
import math
import os
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn

import hyperfront as hf
from hyperfront.errors import CheckpointError
from hyperfront.storage import checkpoint, files, trees
from hyperfront.storage.nests import tensors
from hyperfront.storage.parts import parts_of

random_inputs = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
WRITTEN = Path(__file__).parent / "data"
QUESTION, ANSWER = (torch.tensor([[1.0, 2.0, 3.0]]), [[0.25, 0.75]]), torch.tensor([[[2.5330422]]])
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool]


def some_tensor(shape: list[int], dtype: torch.dtype, seed: int) -> torch.Tensor:
    return (10 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))).to(dtype)


any_tensor = st.builds(
    some_tensor, st.lists(st.integers(0, 3), max_size=3), st.sampled_from(DTYPES), st.integers(0, 99)
)
plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
)
states = st.recursive(
    st.one_of(plain, any_tensor),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.integers(0, 9), st.sampled_from(["0", "a", "b", "a.b", "tensor", ""])), inner),
    ),
    max_leaves=8,
)


def same(first: object, second: object) -> bool:
    """Equal in structure, types, dtypes and values."""
    if isinstance(first, torch.Tensor):
        return isinstance(second, torch.Tensor) and first.dtype == second.dtype and torch.equal(first, second)
    if isinstance(first, dict):
        return isinstance(second, dict) and [*first] == [*second] and all(same(first[k], second[k]) for k in first)
    if isinstance(first, list | tuple):
        return type(first) is type(second) and len(first) == len(second) and all(map(same, first, second))
    return type(first) is type(second) and first == second


def through_a_file(state: object, path) -> object:
    table: dict[str, torch.Tensor] = {}
    checkpoint.write(path, table, {"tree": trees.pack(state, "state", table)})
    table, document = checkpoint.read(path)
    return trees.unpack(document["tree"], table)


# ---- round trips ---------------------------------------------------------------------------------------------------


@given(states)
@random_inputs
def test_any_nested_state_survives_the_file(tmp_path, state):
    assert same(through_a_file(state, tmp_path / "state"), state)


def test_keys_that_read_alike_keep_their_own_tensors(tmp_path):
    one, two = torch.ones(1), torch.zeros(1)
    for state in ({"a": {"b": one}, "a.b": two}, {0: one, "0": two}, {"a": [one], "a.0": two}):
        assert same(through_a_file(state, tmp_path / "state"), state)


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda p: torch.optim.Adam(p, lr=0.1, amsgrad=True),
        lambda p: torch.optim.AdamW([{"params": [p[0]], "lr": 0.1}, {"params": p[1:], "weight_decay": 0.5}]),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        lambda p: torch.optim.LBFGS(p, lr=0.1, history_size=3, max_iter=3),
    ],
)
def test_an_optimizer_continues_from_the_file_as_if_nothing_had_happened(optimizer, tmp_path):
    def setting():
        torch.manual_seed(0)
        module = nn.Linear(3, 2)
        return module, optimizer([*module.parameters()])

    def advance(module, made, steps):
        def closure():
            made.zero_grad()
            loss = (module(torch.eye(3)).square() + module(torch.ones(1, 3)).exp()).sum()
            loss.backward()
            return loss

        for _ in range(steps):
            made.step(closure)
        return module.state_dict()

    module, made = setting()
    middle = {name: value.clone() for name, value in advance(module, made, 4).items()}
    stored = through_a_file(made.state_dict(), tmp_path / "optimizer")
    assert len(tensors(stored)) >= 2
    expected = advance(module, made, 4)
    module, made = setting()
    module.load_state_dict(middle)
    made.load_state_dict(stored)
    assert same(advance(module, made, 4), expected)


def test_a_schedule_continues_from_the_file(tmp_path):
    def setting():
        made = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
        return made, torch.optim.lr_scheduler.SequentialLR(
            made,
            [torch.optim.lr_scheduler.LinearLR(made), torch.optim.lr_scheduler.MultiStepLR(made, [3, 5], gamma=0.1)],
            [4],
        )

    made, schedule = setting()
    rates = []
    for step in range(12):
        if step == 6:
            stored = through_a_file({"optimizer": made.state_dict(), "schedule": schedule.state_dict()}, tmp_path / "x")
        made.step()
        schedule.step()
        rates.append(made.param_groups[0]["lr"])
    made, schedule = setting()
    made.load_state_dict(stored["optimizer"])
    schedule.load_state_dict(stored["schedule"])
    again = []
    for _ in range(6):
        made.step()
        schedule.step()
        again.append(made.param_groups[0]["lr"])
    assert again == rates[6:] and len(set(again)) > 1


@given(st.dictionaries(st.text(min_size=1, max_size=5), any_tensor, max_size=4))
@random_inputs
def test_tensors_come_back_with_their_names_types_and_values(tmp_path, table):
    checkpoint.write(tmp_path / "x", table, {"note": "é"})
    found, document = checkpoint.read(tmp_path / "x")
    assert same({k: found[k] for k in table}, table) and len(found) == len(table)
    assert document == {"format": "hyperfront", "schema": 3, "note": "é"}


def test_views_and_shared_memory_are_stored_as_what_they_show(tmp_path):
    base = torch.arange(12.0).reshape(3, 4).requires_grad_()
    table = {"whole": base, "again": base, "turned": base.T, "part": base[1:, ::2], "spread": base[:1].expand(5, 4)}
    checkpoint.write(tmp_path / "x", table, {})
    assert same(checkpoint.read(tmp_path / "x")[0], {name: table[name].detach() for name in sorted(table)})


@given(st.dictionaries(st.text(min_size=1, max_size=5), any_tensor, max_size=4))
@random_inputs
def test_a_file_in_parts_is_what_the_library_reads_and_copies_no_tensor(table):
    whole = {name: tensor.contiguous() for name, tensor in table.items()}
    parts = list(parts_of(whole, {"note": "é"}))
    found = safetensors.torch.load(b"".join(parts))
    assert len(found) == len(whole) and same({name: found[name] for name in whole}, whole)
    places = {np.frombuffer(part, np.uint8).ctypes.data for part in parts[2:]}
    assert places == {tensor.data_ptr() for tensor in whole.values()} or not all(t.numel() for t in whole.values())


def test_equal_content_makes_equal_bytes(tmp_path):
    first, second = torch.arange(3.0), torch.ones(2, 2, dtype=torch.int64)
    checkpoint.write(tmp_path / "a", {"x": first, "y": second}, {"b": 1, "a": {"d": 2, "c": 3}})
    checkpoint.write(tmp_path / "b", {"y": second.clone(), "x": first.clone()}, {"a": {"c": 3, "d": 2}, "b": 1})
    checkpoint.write(tmp_path / "c", {"y": second.clone(), "x": first + 1}, {"a": {"c": 3, "d": 2}, "b": 1})
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b != c


@pytest.mark.parametrize("bad", [object(), {1, 2}, {"deep": [nn.Linear(1, 1)]}, 1j, b"bytes"])
def test_states_with_code_or_objects_are_refused(bad):
    with pytest.raises(CheckpointError, match="at state"):
        trees.pack(bad, "state", {})


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_numbers_that_json_does_not_have_are_refused_and_leave_the_old_file(tmp_path, number):
    for write in (
        lambda d: checkpoint.write(tmp_path / "x", {}, d),
        lambda d: files.write_json(tmp_path / "x", d),
    ):
        write({"fine": 1.0})
        before = (tmp_path / "x").read_bytes()
        with pytest.raises(CheckpointError):
            write({"best": number})
        assert (tmp_path / "x").read_bytes() == before and len([*tmp_path.iterdir()]) == 1


# ---- files that are not what they should be ------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.safetensors"
    table = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(3, dtype=torch.int64), "c": torch.tensor(1.0)}
    checkpoint.write(path, table, {"model": {"objectives": ["left", "right"]}})
    return path


def test_a_file_cut_anywhere_is_refused(file):
    data = file.read_bytes()
    for length in range(len(data)):
        file.write_bytes(data[:length])
        with pytest.raises(CheckpointError, match="damaged"):
            checkpoint.read(file)


@given(st.data())
@settings(random_inputs, max_examples=300)
def test_a_damaged_header_never_raises_anything_else(tmp_path, data):
    path, intact = tmp_path / "x", tmp_path / "intact"
    checkpoint.write(intact, {"a": torch.arange(6.0), "b": torch.ones(3, dtype=torch.int64)}, {"model": {"m": 2}})
    content = bytearray(intact.read_bytes())
    header = 8 + int.from_bytes(content[:8], "little")
    for place in data.draw(st.lists(st.integers(0, header - 1), min_size=1, max_size=3)):
        content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        table, document = checkpoint.read(path)
    except CheckpointError:
        return
    expected, whole = checkpoint.read(intact)  # the reader sees no difference, such as in the case of a \\u00e9
    assert same(table, expected) and document == whole


def foreign(document: str) -> bytes:
    """A safetensors file without tensors, whose metadata has this in our place."""
    header = json.dumps({"__metadata__": {"hyperfront": document}}).encode()
    return struct.pack("<Q", len(header)) + header


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"just text\n",
        b"\x80\x04\x95pickle",
        b"PK\x03\x04",
        struct.pack("<Q", 2**62) + b"{}",
        foreign("{"),
        foreign("null"),
        foreign("[1]"),
        foreign('"hyperfront"'),
        foreign('{"format": "other", "schema": 1}'),
        foreign('{"schema": 1}'),
        foreign('{"format": "hyperfront"}'),
        foreign('{"format": "hyperfront", "schema": 4}'),
        foreign('{"format": "hyperfront", "schema": 3}'),
        foreign('{"format": "hyperfront", "schema": "1"}'),
        foreign("[" * 100_000),
    ],
)
def test_foreign_files_are_refused(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(CheckpointError):
        checkpoint.read(tmp_path / "x")


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_a_safetensors_file_of_somebody_else_is_refused_as_such(tmp_path, metadata):
    save_file({"weight": torch.ones(2)}, tmp_path / "x", metadata=metadata)
    with pytest.raises(CheckpointError, match="not a hyperfront checkpoint"):
        checkpoint.read(tmp_path / "x")


@pytest.mark.parametrize("file", ["schema-1.safetensors", "schema-2/best.safetensors"])
def test_a_model_of_an_older_schema_loads(file):
    """The commits before 4e8bd7d and 3b09c78 wrote these files, and computed this output."""
    model = hf.load(WRITTEN / file, target=nn.Linear(3, 1))
    torch.testing.assert_close(model(*QUESTION), ANSWER)
    assert model.record["units"] == {"ideal": [2.0, 0.0], "maximize": [True, False], "scale": [1.0, 1.0]}


def test_a_run_of_schema_2_resumes(tmp_path):
    """The commit before 3b09c78 wrote this run until the third of three epochs; its best weights are in their own file
    only. They are older than the last epoch, and have the answer that the commit got without the interruption."""
    shutil.copytree(WRITTEN / "schema-2", tmp_path / "run")
    x = torch.linspace(-1, 1, 24).reshape(8, 3)
    losses = {"a": lambda y, batch: y.square().mean(), "b": lambda y, batch: (y - 1).square().mean()}
    units = {"ideal": {"a": 2.0}, "maximize": ["a"]}
    problem = hf.supervised((x,), (-4 * x,), losses=losses, reference=(9.0, 9.0), **units)
    model = hf.wrap(nn.Linear(3, 1), ["a", "b"], hidden=4, initialization="plain")
    training = {"epochs": 3, "batch_size": 4, "lr": 0.05, "schedule": "constant", "seed": 1, "callbacks": []}
    run = hf.fit(model, problem, solver=hf.LS(), **training, out=tmp_path / "run", resume=True)
    torch.testing.assert_close(run.model(*QUESTION), ANSWER)
    assert checkpoint.read(tmp_path / "run" / "last.safetensors")[1]["run"]["epoch"] == 3


def test_another_schema_is_named(tmp_path):
    checkpoint.write(tmp_path / "x", {}, {"schema": 99})
    with pytest.raises(CheckpointError, match="99"):
        checkpoint.read(tmp_path / "x")


def test_a_missing_file_is_named_and_a_folder_is_no_file(tmp_path):
    for read in (checkpoint.read, files.read_json):
        with pytest.raises(CheckpointError, match="nowhere"):
            read(tmp_path / "nowhere")
        with pytest.raises(CheckpointError):
            read(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"{'a': 1}", b"[" * 100_000])
def test_a_damaged_json_file_is_refused(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(CheckpointError):
        files.read_json(tmp_path / "x")


def test_json_survives_its_file(tmp_path):
    document = {"b": [1, 2.5, None, True, "é"], "a": {"x": 1e-300}}
    files.write_json(tmp_path / "new folder" / "x", document)
    assert files.read_json(tmp_path / "new folder" / "x") == document


# ---- writing that fails --------------------------------------------------------------------------------------------


def test_what_lies_below_a_file_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("old")
    for path in (tmp_path / "file" / "x", tmp_path / "file" / "deeper" / "x"):
        with pytest.raises(CheckpointError, match="cannot"):
            checkpoint.write(path, {}, {})
    assert [p.name for p in tmp_path.iterdir()] == ["file"] and (tmp_path / "file").read_text() == "old"


def test_a_folder_is_not_overwritten(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(CheckpointError, match="cannot write"):
        checkpoint.write(tmp_path / "folder", {}, {})
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("step", ["replace", "fsync", "chmod"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(file, monkeypatch, step):
    def fail(*_):
        raise OSError(28, "No space left on device")

    before = file.read_bytes()
    monkeypatch.setattr(os, step, fail)
    with pytest.raises(CheckpointError, match="No space left"):
        checkpoint.write(file, {"a": torch.zeros(3)}, {})
    assert file.read_bytes() == before and [*file.parent.iterdir()] == [file]


def test_at_the_moment_of_replacement_the_new_file_is_complete_and_the_old_one_intact(file, monkeypatch):
    before, seen, replace = file.read_bytes(), [], os.replace

    def look(source, target):
        seen.append((checkpoint.read(source)[0]["new"].tolist(), file.read_bytes() == before))
        replace(source, target)

    monkeypatch.setattr(os, "replace", look)
    checkpoint.write(file, {"new": torch.ones(2)}, {})
    assert seen == [([1.0, 1.0], True)]
    assert checkpoint.read(file)[0]["new"].tolist() == [1.0, 1.0]


def test_results_are_readable_by_others_as_the_umask_says(tmp_path):
    old = os.umask(0o027)
    try:
        checkpoint.write(tmp_path / "x", {}, {})
    finally:
        os.umask(old)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640


# ---- loading into a module -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("bias"), "Missing.*bias"),
        (lambda t: t.update(extra=torch.zeros(1)), "Unexpected.*extra"),
        (lambda t: t.update(weight=torch.zeros(2, 4)), r"weight: .*\[2, 4\]"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named_and_nothing_is_loaded(change, message):
    module, table = nn.Linear(3, 2), {"weight": torch.ones(2, 3), "bias": torch.ones(2)}
    before = {name: value.clone() for name, value in module.state_dict().items()}
    change(table)
    with pytest.raises(CheckpointError, match=message):
        checkpoint.load_into(module, table)
    assert same(dict(module.state_dict()), before)


def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path):
    files.make_folder(tmp_path / "a" / "b")
    files.make_folder(tmp_path / "a" / "b")
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"cannot make the folder\n.*file"):
        files.make_folder(tmp_path / "file" / "below")
