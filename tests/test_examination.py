"""``hyperfront doctor RUN``: every kind of damage to a run folder is found, and repaired where that is possible."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

import hyperfront as hf
from hyperfront.errors import BusyError
from hyperfront.storage import checkpoint, trees
from hyperfront.storage.locks import alone_in
from hyperfront.training import checkpoints, examination
from hyperfront.training.runs import RunFolder
from tests.helpers import runs
from tests.helpers.command import hyperfront

SETTINGS = {"epochs": 4, "lr": 0.05, "schedule": "constant", "seed": 7}
LAST, PREVIOUS, BEST = "last.safetensors", "previous.safetensors", "best.safetensors"
Damage = Callable[[Path], object]


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    """A finished run with all its checkpoints; its best epoch is not its last one."""
    folder = tmp_path_factory.mktemp("examination") / "sound"
    runs.run(folder, keep="all", **SETTINGS)
    return folder


@pytest.fixture(scope="module")
def other(sound) -> Path:
    """The same run with another seed."""
    runs.run(sound.with_name("other"), keep="all", **SETTINGS | {"seed": 8})
    return sound.with_name("other")


@pytest.fixture
def run(sound, tmp_path) -> Path:
    return shutil.copytree(sound, tmp_path / "run")  # a copy of each name: links would share damage


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def findings(folder: Path) -> dict[str, str]:
    return {found.file: found.what for found in examination.Examination(RunFolder(folder)).findings()}


def tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def drop_line(path: Path) -> None:
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))


def test_a_sound_run_has_no_findings_and_nothing_is_written(run, sound):
    assert findings(run) == {} and content(run) == content(sound)
    said = hyperfront("doctor", "run", folder=run.parent)
    assert "4 of 4 epochs" in said and "nothing is wrong" in said


def test_a_run_that_just_began_has_no_findings(tmp_path):
    class Stops(hf.training.Callback):
        def started(self, **_: int) -> None:
            raise RuntimeError("dies here")

    with pytest.raises(RuntimeError, match="dies here"):
        runs.run(tmp_path / "run", callbacks=(Stops(),), **SETTINGS)
    assert findings(tmp_path / "run") == {}


def test_a_run_that_died_between_best_and_last_has_no_findings(tmp_path, monkeypatch):
    write, written = checkpoint.write, []

    def dies(path: Path, *arguments, **options) -> None:
        written.append(path.name)
        if len(written) > 2 and written[-2:] == [BEST, LAST]:
            raise RuntimeError("dies here")
        write(path, *arguments, **options)

    monkeypatch.setattr(checkpoints, "INTERVAL", 0)
    monkeypatch.setattr(checkpoint, "write", dies)
    with pytest.raises(RuntimeError, match="dies here"):
        runs.run(tmp_path / "run", **SETTINGS)
    assert findings(tmp_path / "run") == {}


REPAIRED: dict[str, tuple[Damage, str]] = {
    "last flipped": (lambda run: flip(run / LAST), LAST),
    "last torn": (lambda run: tear(run / LAST), LAST),
    "last missing": (lambda run: (run / LAST).unlink(), LAST),
    "last empty": (lambda run: (run / LAST).write_bytes(b""), LAST),
    "last older": (lambda run: shutil.copy(run / "epoch-2.safetensors", run / LAST), LAST),
    "best in its place": (lambda run: shutil.copy(run / BEST, run / LAST), LAST),
    "previous flipped": (lambda run: flip(run / PREVIOUS), PREVIOUS),
    "previous missing": (lambda run: (run / PREVIOUS).unlink(), PREVIOUS),
    "best flipped": (lambda run: flip(run / BEST), BEST),
    "best torn": (lambda run: tear(run / BEST), BEST),
    "best missing": (lambda run: (run / BEST).unlink(), BEST),
    "log torn": (lambda run: append(run / "metrics.jsonl", '{"epoch": 5, "lo'), "metrics.jsonl"),
    "left over": (lambda run: (run / f".{LAST}.abc").touch(), f".{LAST}.abc"),
}


@pytest.mark.parametrize("name", REPAIRED)
def test_damage_is_found_and_repaired_to_the_same_bytes(run, sound, name):
    change, file = REPAIRED[name]
    change(run)
    damaged = content(run)
    assert [*findings(run)] == [file] and content(run) == damaged
    assert "--repair" in hyperfront("doctor", "run", folder=run.parent, code=1) and content(run) == damaged
    hyperfront("doctor", "run", "--repair", folder=run.parent)
    found = {name: data for name, data in content(run).items() if not name.startswith("damaged")}
    assert found == content(sound) and findings(run) == {}
    kept = [data for name, data in content(run).items() if name.startswith("damaged")]
    assert kept == ([damaged[file]] if file in damaged and file != f".{LAST}.abc" else [])


@pytest.mark.parametrize("name", [LAST, PREVIOUS, BEST])
def test_files_of_another_run_are_found_and_replaced(run, other, sound, name):
    shutil.copy(other / name, run / name)
    assert findings(run) == {name: "it belongs to another run"}
    hyperfront("doctor", "run", "--repair", folder=run.parent)
    assert (run / name).read_bytes() == (sound / name).read_bytes()


def test_damaged_checkpoints_of_epochs_are_set_aside(run):
    flip(run / "epoch-2.safetensors")
    shutil.copy(run / "epoch-1.safetensors", run / "epoch-3.safetensors")
    shutil.copy(run / "epoch-1.safetensors", run / PREVIOUS)
    flip(run / PREVIOUS)
    assert [*findings(run)] == [PREVIOUS, "epoch-3.safetensors", "epoch-2.safetensors"]
    hyperfront("doctor", "run", "--repair", folder=run.parent)
    assert checkpoint.read(run / PREVIOUS)[1]["run"]["epoch"] == 1  # the newest sound one before the last
    assert (run / "damaged-epoch-2.safetensors").exists() and findings(run) == {}


def test_the_newest_sound_checkpoint_takes_the_place_of_damaged_ones_and_the_run_continues(run, sound):
    for file in (LAST, PREVIOUS, "epoch-4.safetensors", "epoch-3.safetensors", BEST):
        flip(run / file)
    hyperfront("doctor", "run", "--repair", folder=run.parent)
    assert checkpoint.read(run / LAST)[1]["run"]["epoch"] == 2
    runs.run(run, keep="all", resume=True, **SETTINGS)
    assert all(content(run)[name] == content(sound)[name] for name in (LAST, PREVIOUS, BEST, "front.json"))
    assert findings(run) == {}


def test_where_no_checkpoint_is_left_nothing_is_repaired(run):
    for path in run.glob("*.safetensors"):
        flip(path)
    for path in run.glob("epoch-*"):
        path.unlink()
    said = hyperfront("doctor", "run", "--repair", folder=run.parent, code=1)
    assert "no checkpoint is left" in said and (run / LAST).exists()


LEFT: dict[str, tuple[Damage, str]] = {
    "configuration torn": (lambda run: tear(run / "config.json"), "config.json"),
    "configuration missing": (lambda run: (run / "config.json").unlink(), "config.json"),
    "configuration edited": (lambda run: edit(run / "config.json", lr=0.06), "config.json"),
    "front torn": (lambda run: tear(run / "front.json"), "front.json"),
    "front missing": (lambda run: (run / "front.json").unlink(), "front.json"),
}


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("name", LEFT)
def test_what_only_training_can_repair_is_found_and_a_resumed_run_repairs_it(run, sound, name):
    change, file = LEFT[name]
    change(run)
    assert [*findings(run)] == [file]
    assert "resume=True" in hyperfront("doctor", "run", "--repair", folder=run.parent, code=1)
    with pytest.warns(UserWarning) if name in ("configuration torn", "configuration edited") else nullcontext():
        runs.run(run, resume=True, **SETTINGS)
    assert findings(run) == {} and content(run)["front.json"] == content(sound)["front.json"]


def test_the_front_of_another_run_is_found(run, other):
    shutil.copy(other / "front.json", run)
    assert [*findings(run)] == ["front.json"]


def test_lines_that_are_lost_stay_lost(run):
    drop_line(run / "metrics.jsonl")
    assert findings(run) == {"metrics.jsonl": "it lacks epochs 1"}
    assert "1" in hyperfront("doctor", "run", "--repair", folder=run.parent, code=1)


def test_a_damaged_description_of_the_machine_is_set_aside(run):
    tear(run / "environment.json")
    hyperfront("doctor", "run", "--repair", folder=run.parent)
    assert (run / "damaged-environment.json").exists() and findings(run) == {}


def test_best_weights_with_aligned_rays_are_not_replaced_by_others(tmp_path):
    runs.run(tmp_path / "run", align=True, **SETTINGS)
    assert findings(tmp_path / "run") == {}
    whole = content(tmp_path / "run")
    flip(tmp_path / "run" / BEST)
    assert "resume=True" in hyperfront("doctor", "run", "--repair", folder=tmp_path, code=1)
    with pytest.warns(UserWarning, match="written again"):
        runs.run(tmp_path / "run", align=True, resume=True, **SETTINGS)
    assert content(tmp_path / "run") == whole and findings(tmp_path / "run") == {}


def test_a_checkpoint_of_a_stranger_is_damage_and_no_crash(run):
    _, document = checkpoint.read(run / LAST)
    for epoch, position in enumerate(({}, [], {"epoch": "3", "step": 0}, {"epoch": 4, "step": 0}), 1):
        strange = {"training": trees.pack({"position": position}, "", {}), "run": "x"}
        checkpoint.write(run / f"epoch-{epoch}.safetensors", {}, document | strange)
    assert set(findings(run).values()) == {"it holds no state of a training"} and len(findings(run)) == 4


def test_the_folder_is_locked_during_the_whole_examination_and_its_name_is_printed_as_it_is(run, monkeypatch):
    examine = examination.Examination.findings

    def locked(self) -> list:
        with pytest.raises(BusyError), alone_in(self.folder.path):
            pass
        return examine(self)

    monkeypatch.setattr(examination.Examination, "findings", locked)
    (run / BEST).unlink()
    odd = run.rename(run.with_name("a [bold] run"))
    said = hyperfront("doctor", odd.name, folder=odd.parent, code=1)
    assert "hyperfront doctor 'a [bold] run' --repair" in said and "a [bold] run: 4 of 4 epochs" in said


def test_a_folder_without_a_run_and_a_folder_in_use_are_errors(run, tmp_path):
    assert "no run" in hyperfront("doctor", ".", folder=tmp_path, code=2)
    assert "run" in hyperfront("doctor", "nothing", folder=tmp_path, code=2) and not (tmp_path / "nothing").exists()
    assert "--repair" in hyperfront("doctor", "--repair", folder=tmp_path, code=2)
    with alone_in(run):
        assert "another process" in hyperfront("doctor", "run", folder=tmp_path, code=2)
