"""Run folders after bad luck (damaged, missing and swapped files, signals, deaths) still end at the same bytes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import hyperfront as hf
from hyperfront import training
from hyperfront.errors import CheckpointError, DamagedError, HyperfrontError
from hyperfront.storage import checkpoint, files
from hyperfront.training import Callback, checkpoints
from hyperfront.training.interrupt import Terminated
from tests.helpers import runs

RESULTS = ("last.safetensors", "previous.safetensors", "best.safetensors", "front.json")
SETTINGS = {"epochs": 6, "lr": 0.05, "schedule": "constant", "seed": 7}  # the best epoch is not the last one


class Dies(Callback):
    """Raises an error after a number of steps, as if the process had ended there."""

    def __init__(self, steps: int):
        self.steps = steps

    def stepped(self) -> None:
        self.steps -= 1
        if not self.steps:
            raise RuntimeError("dies here")


def content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in RESULTS}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A run that nothing happened to, with a checkpoint after every epoch."""
    folder = tmp_path_factory.mktemp("recovery") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "INTERVAL", 0)
        runs.run(folder, **SETTINGS)
    return folder


@pytest.fixture(scope="module")
def half(whole) -> Path:
    """The same run, which died in its sixth epoch."""
    folder = whole.with_name("half")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "INTERVAL", 0)
        with pytest.raises(RuntimeError, match="dies here"):
            runs.run(folder, callbacks=(Dies(8 * 5 + 3),), **SETTINGS)
    return folder


@pytest.fixture
def cut(half, tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(checkpoints, "INTERVAL", 0)
    return shutil.copytree(half, tmp_path / "run")


def flip(path: Path, place: int) -> None:
    """Flip a bit of a file."""
    data = bytearray(path.read_bytes())
    data[place // 8] ^= 1 << place % 8
    path.write_bytes(data)


# ---- checksums -----------------------------------------------------------------------------------------------------


def test_flipped_bits_and_cuts_anywhere_in_a_file_are_noticed(tmp_path):
    path = tmp_path / "x"
    table = {"a": torch.arange(3.0), "b": torch.ones(2, dtype=torch.bool), "c": torch.tensor(2, dtype=torch.bfloat16)}
    checkpoint.write(path, table, {"note": "é"})
    data = path.read_bytes()
    for place in range(0, 8 * len(data), 7):
        flip(path, place)
        with pytest.raises(DamagedError):
            checkpoint.read(path)
        path.write_bytes(data)
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        with pytest.raises(DamagedError):
            checkpoint.read(path)


def test_a_checkpoint_without_its_checksums_is_refused(tmp_path):
    text = json.dumps({"format": "hyperfront", "schema": checkpoint.SCHEMA})
    save_file({}, tmp_path / "x", metadata={"hyperfront": text})
    with pytest.raises(DamagedError):
        checkpoint.read(tmp_path / "x")
    save_file({}, tmp_path / "x", metadata={"hyperfront": text.replace(str(checkpoint.SCHEMA), "2")})
    assert checkpoint.read(tmp_path / "x")[1]["schema"] == checkpoint.SCHEMA  # schema 2 had none


# ---- checkpoints that are kept -------------------------------------------------------------------------------------


def kept(folder: Path) -> list[int]:
    """The epochs whose checkpoints a folder has, each of which holds the weights of that epoch."""
    found = training.runs.RunFolder(folder).epochs()
    for file in found:
        assert checkpoint.read(file)[1]["run"]["epoch"] == training.runs.number_of(file)
    return [training.runs.number_of(file) for file in found]


@pytest.mark.parametrize(
    ("keep", "epochs"), [(2, []), (3, [6, 5, 4]), (9, [6, 5, 4, 3, 2, 1]), ("all", [6, 5, 4, 3, 2, 1])]
)
def test_the_checkpoints_of_the_last_epochs_are_kept(tmp_path, whole, keep, epochs):
    runs.run(tmp_path / "run", keep=keep, **SETTINGS)  # with the interval that is the default
    assert kept(tmp_path / "run") == epochs
    if keep != 2:
        assert content(tmp_path / "run") == content(whole)
        files = [tmp_path / "run" / name for name in ("epoch-6.safetensors", "epoch-5.safetensors")]
        assert [file.read_bytes() for file in files] == [content(whole)[name] for name in RESULTS[:2]]
        assert files[0].samefile(tmp_path / "run" / "last.safetensors")
        model = hf.load(files[1], runs.Net())
        assert model.state_dict().keys() == hf.load(tmp_path / "run", runs.Net()).state_dict().keys()


def test_a_resumed_run_may_keep_fewer_and_the_default_leaves_what_is_there(tmp_path):
    runs.run(tmp_path, keep="all", **SETTINGS | {"epochs": 4})
    for keep, epochs in ((2, [4, 3, 2, 1]), (3, [4, 3, 2]), (4, [4, 3, 2])):
        runs.run(tmp_path, keep=keep, resume=True, **SETTINGS | {"epochs": 4})
        assert kept(tmp_path) == epochs


def test_a_run_whose_newest_checkpoints_are_damaged_continues_from_the_newest_epoch_that_is_not(tmp_path, whole):
    with pytest.raises(RuntimeError, match="dies here"):
        runs.run(tmp_path / "run", keep="all", callbacks=(Dies(8 * 5 + 3),), **SETTINGS)
    for name in ("last.safetensors", "previous.safetensors", "epoch-3.safetensors"):
        flip(tmp_path / "run" / name, 9000)  # the names of epochs 5 and 4 are of the same files
    with pytest.warns(UserWarning, match=r"continuing from .*epoch-2\.safetensors"):
        runs.run(tmp_path / "run", keep="all", resume=True, **SETTINGS)
    assert content(tmp_path / "run") == content(whole) and kept(tmp_path / "run") == [6, 5, 4, 3, 2, 1]


def test_where_files_cannot_have_two_names_epochs_are_copied(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", fails_to_link)
    runs.run(tmp_path, keep=3, **SETTINGS | {"epochs": 3})
    assert kept(tmp_path) == [3, 2, 1] and not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("keep", [1, 0, -1, 2.5, True, "every", None, float("nan")])
def test_a_number_of_checkpoints_that_cannot_be_kept_is_refused(tmp_path, keep):
    with pytest.raises(HyperfrontError, match="keep"):
        runs.run(tmp_path / "run", keep=keep)
    assert not (tmp_path / "run").exists()


def fails_to_link(*_: object) -> None:
    raise OSError(95, "Operation not supported")


# ---- damaged and swapped files of a run ----------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["flip", "format", "truncate", "empty"])
def test_the_previous_checkpoint_is_used_where_the_newest_is_damaged(cut, whole, damage):
    last, size = cut / "last.safetensors", (cut / "last.safetensors").stat().st_size
    if damage == "flip":
        flip(last, 8 * (size - 1000) + 5)
    elif damage == "format":
        flip(last, 8 * last.read_bytes().index(b'"hyperfront":') + 8)
    else:
        os.truncate(last, size // 2 if damage == "truncate" else 0)
    with pytest.warns(UserWarning, match="damaged"):
        runs.run(cut, resume=True, **SETTINGS)
    assert content(cut) == content(whole)
    assert (cut / "damaged.safetensors").exists()


def test_a_process_that_writes_no_files_moves_none(cut, monkeypatch):
    """Of several that train together, one writes; others may read the damaged file at the same time."""
    flip(cut / "last.safetensors", 9000)
    before, make = content_of_all(cut), checkpoints.Checkpoints
    monkeypatch.setattr(training.preparation, "Checkpoints", lambda *given, **_: make(*given, writes=False))
    with pytest.warns(UserWarning, match=r"continuing from .*previous\.safetensors"):
        runs.run(cut, resume=True, **SETTINGS)
    after = content_of_all(cut)
    assert {name: data for name, data in after.items() if name in before or "damaged" in name} == before | {
        "metrics.jsonl": after["metrics.jsonl"]
    }


def test_a_missing_newest_checkpoint_is_replaced_by_the_previous_one(cut, whole):
    (cut / "last.safetensors").unlink()
    runs.run(cut, resume=True, **SETTINGS)
    assert content(cut) == content(whole)


def test_two_copies_exist_from_the_first_checkpoint_on(tmp_path):
    runs.run(tmp_path, epochs=1)
    last, previous = tmp_path / "last.safetensors", tmp_path / "previous.safetensors"
    assert last.read_bytes() == previous.read_bytes() and last.stat().st_ino != previous.stat().st_ino


def test_where_both_checkpoints_are_damaged_nothing_is_trained(cut):
    for name in ("last.safetensors", "previous.safetensors"):
        flip(cut / name, 9000)
    before = content_of_all(cut)
    with pytest.raises(DamagedError):
        runs.run(cut, resume=True, **SETTINGS)
    assert content_of_all(cut) == before


def content_of_all(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_best_weights_that_are_missing_damaged_or_older_are_written_again(cut, whole, tmp_path):
    def spoil(change):
        folder = shutil.copytree(cut, tmp_path / "spoilt", dirs_exist_ok=True)
        change(folder / "best.safetensors")
        return folder

    older = tmp_path / "older"
    with pytest.raises(RuntimeError, match="dies here"):
        runs.run(older, callbacks=(Dies(8 + 3),), **SETTINGS)
    assert (older / "best.safetensors").read_bytes() != (cut / "best.safetensors").read_bytes()
    for change in (Path.unlink, lambda best: shutil.copy(older / "best.safetensors", best)):
        folder = spoil(change)
        runs.run(folder, resume=True, **SETTINGS)
        assert content(folder) == content(whole)
    folder = spoil(lambda best: flip(best, 12_000))
    with pytest.warns(UserWarning, match="written again"):
        runs.run(folder, resume=True, **SETTINGS)
    assert content(folder) == content(whole)


def test_a_model_is_loaded_from_the_previous_checkpoint_where_the_last_is_damaged(cut):
    expected = hf.load(cut / "previous.safetensors", runs.Net()).state_dict()
    flip(cut / "last.safetensors", 9000)
    with pytest.warns(UserWarning, match="damaged"):
        found = hf.load(cut, runs.Net(), which="last").state_dict()
    assert all(found[name].equal(expected[name]) for name in expected)
    flip(cut / "best.safetensors", 9000)
    with pytest.raises(DamagedError):
        hf.load(cut, runs.Net())


def test_a_finished_run_repairs_its_best_weights(whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / "run")
    (folder / "best.safetensors").unlink()
    runs.run(folder, resume=True, **SETTINGS)
    assert content(folder) == content(whole)


def test_a_checkpoint_of_another_run_is_refused(cut, tmp_path):
    with pytest.raises(RuntimeError, match="dies here"):
        runs.run(tmp_path / "other", callbacks=(Dies(8 * 2),), **SETTINGS | {"seed": 8})
    shutil.copy(tmp_path / "other" / "last.safetensors", cut)
    with pytest.raises(CheckpointError, match="another run"):
        runs.run(cut, resume=True, **SETTINGS)


def test_a_damaged_configuration_is_written_again_if_the_checkpoint_confirms_it(cut, whole):
    os.truncate(cut / "config.json", 100)
    with pytest.raises(CheckpointError):
        runs.run(cut, resume=True, **SETTINGS | {"seed": 8})
    with pytest.warns(UserWarning, match=r"config\.json"):
        runs.run(cut, resume=True, **SETTINGS)
    assert content(cut) == content(whole)
    assert (cut / "config.json").read_bytes() == (whole / "config.json").read_bytes()


@pytest.mark.parametrize("text", [('"seed": 7', '"seed": 5'), ('"epochs"', '"epochc"')])
def test_a_configuration_that_is_damaged_but_readable_is_written_again_too(cut, whole, text):
    config = (cut / "config.json").read_text()
    assert text[0] in config
    (cut / "config.json").write_text(config.replace(*text))
    with pytest.raises(CheckpointError, match="another configuration"):
        runs.run(cut, resume=True, **SETTINGS | {"seed": 5, "epochs": 5})
    with pytest.warns(UserWarning, match=r"config\.json"):
        runs.run(cut, resume=True, **SETTINGS)
    assert content(cut) == content(whole)
    assert (cut / "config.json").read_bytes() == (whole / "config.json").read_bytes()


def test_a_full_disk_while_the_log_is_written_is_an_error_that_names_the_log(tmp_path):
    log = training.JsonLines(tmp_path / "log")
    log.path.symlink_to("/dev/full")
    with pytest.raises(CheckpointError, match="space") as caught:
        log.epoch_ended({"epoch": 1})
    assert str(log.path) in str(caught.value)


def test_damaged_lines_of_the_log_are_named_and_the_others_kept(cut):
    lines = (cut / "metrics.jsonl").read_text().splitlines(keepends=True)
    (cut / "metrics.jsonl").write_text("".join([lines[0], "5\n", lines[1][:40] + "\n", *lines[2:]]))
    with pytest.warns(UserWarning, match="lacks epochs 2"):
        run = runs.run(cut, resume=True, **SETTINGS)
    assert [record["epoch"] for record in run.history] == [1, 3, 4, 5, 6]
    kept = (cut / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in kept] == [1, 3, 4, 5, 6]


# ---- deaths and signals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_sigterm_and_sighup_save_and_the_exit_code_says_so(number, tmp_path, whole, monkeypatch):
    monkeypatch.setattr(checkpoints, "INTERVAL", 0)
    handler = signal.getsignal(number)
    with pytest.raises(Terminated, match="resume=True") as stop:
        runs.run(tmp_path / "run", callbacks=(runs.Signals(number, 8 * 2 + 3),), **SETTINGS)
    assert stop.value.code == 128 + number and signal.getsignal(number) == handler
    assert checkpoint.read(tmp_path / "run" / "last.safetensors")[1]["run"]["step"] == 3
    runs.run(tmp_path / "run", resume=True, **SETTINGS)
    after, wanted = content(tmp_path / "run"), content(whole)
    assert all(after[name] == wanted[name] for name in RESULTS)


def test_a_script_that_is_terminated_ends_with_the_exit_code_of_the_signal(tmp_path):
    assert runs.process(tmp_path / "run", signal.SIGTERM, "20").returncode == 143


def test_nohup_and_handlers_of_the_user_keep_their_signals(tmp_path):
    got = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: got.append(number)), signal.getsignal(signal.SIGHUP)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        both = (runs.Signals(signal.SIGTERM, 2), runs.Signals(signal.SIGHUP, 3))
        assert len(runs.run(tmp_path, epochs=1, callbacks=both).history) == 1
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGHUP, before[1])
    assert got == [signal.SIGTERM]


def test_a_long_epoch_writes_checkpoints_in_the_middle(tmp_path, whole, monkeypatch):
    monkeypatch.setattr(checkpoints, "INTERVAL", 0)
    monkeypatch.setattr(checkpoints, "WITHIN", 0.0)
    with pytest.raises(RuntimeError, match="dies here"):
        runs.run(tmp_path / "run", callbacks=(Dies(8 * 2 + 6),), **SETTINGS)
    found = checkpoint.read(tmp_path / "run" / "last.safetensors")[1]["run"]
    assert (found["epoch"], found["step"]) == (2, 5)
    runs.run(tmp_path / "run", resume=True, **SETTINGS)
    same = ("last.safetensors", "best.safetensors", "front.json")  # the checkpoint before is of another step
    assert all((tmp_path / "run" / name).read_bytes() == (whole / name).read_bytes() for name in same)


def test_temporary_files_of_killed_processes_are_removed_at_the_next_start(cut):
    stale = [cut / f".{name}.abc123_9" for name in ("last.safetensors", "metrics.jsonl", "front.json", "page.html")]
    for path in [*stale, cut / ".mine"]:
        path.touch()
    runs.run(cut, resume=True, **SETTINGS)
    assert not any(path.exists() for path in stale) and (cut / ".mine").exists()


def test_a_new_name_is_flushed_to_the_disk_too(tmp_path, monkeypatch):
    flushed, fsync = [], os.fsync

    def record(handle):
        flushed.append(stat.S_ISDIR(os.fstat(handle).st_mode))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", record)
    files.write_bytes(tmp_path / "x", b"1")
    assert flushed == [False, True]


def test_where_files_cannot_have_two_names_the_previous_one_is_kept_too(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", fails_to_link)
    for text in (b"1", b"2", b"3"):
        files.write_bytes(tmp_path / "x", text, previous=tmp_path / "y")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"x": b"3", "y": b"2"}


def test_a_death_between_the_two_renames_leaves_no_file_behind(tmp_path):
    last, previous = tmp_path / "x", tmp_path / "y"
    files.write_bytes(last, b"1")
    os.link(last, previous)  # what such a death leaves
    files.write_bytes(last, b"2", previous=previous)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"x": b"2", "y": b"1"}


def test_a_death_while_the_log_is_written_anew_loses_no_epoch(cut, monkeypatch):
    before, replace = (cut / "metrics.jsonl").read_bytes(), os.replace

    def die(source, target):
        if Path(target).name == "metrics.jsonl":
            raise RuntimeError("dies here")
        replace(source, target)

    monkeypatch.setattr(os, "replace", die)
    with pytest.raises(RuntimeError, match="dies here"):
        runs.run(cut, resume=True, **SETTINGS)
    assert (cut / "metrics.jsonl").read_bytes() == before
