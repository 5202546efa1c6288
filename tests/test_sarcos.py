"""SARCOS: its files, the gaps between blocks, the leak of the paper's split, the errors, and the command."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import scipy.io
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hyperfront as hf
from hyperfront.errors import DataError, HyperfrontError
from hyperfront.problem.registry import build, problems
from hyperfront.zoo import data
from hyperfront.zoo.data import sarcos as recording
from hyperfront.zoo.data.sarcos import Motion, read_matrix
from hyperfront.zoo.sarcos import SPLITS, paper_split
from tests.helpers.command import hyperfront
from tests.helpers.data import DATA

PARTS = ("train", "val", "test")
# what the fourth and the ninth of every ten blocks of 500 rows hold
HELD_OUT = np.array([row for row in range(45_000) if row // 500 % 10 + 1 in (4, 9)])
FINAL = np.array([row for row in range(45_000) if row // 500 % 10 + 1 in (2, 7)])


def motion(index: np.ndarray) -> Motion:
    generator = np.random.default_rng(0)
    return Motion(index, generator.normal(size=(len(index), 21)), generator.normal(2, 1, size=(len(index), 7)))


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder with a small test file and a small subset in the places of the real ones, found without checksums."""
    folder = tmp_path / "sarcos"
    folder.mkdir()
    rows = np.flatnonzero(np.random.default_rng(1).random(44_484) < 0.03)
    subset, test = motion(rows), motion(10 * np.arange(50))
    np.savez(folder / "sarcos_inv_subset.npz", index=rows.astype(np.int32), X=subset.inputs, Y=subset.torques)
    scipy.io.savemat(folder / "sarcos_inv_test.mat", {"sarcos_inv_test": np.hstack(test[1:])})
    monkeypatch.setattr(data, "verify", lambda file, path: None)
    monkeypatch.setenv("HYPERFRONT_DATA", str(tmp_path))
    return folder


# ---- files -------------------------------------------------------------------------------------------------------


@given(st.integers(1, 30), st.integers(1, 30), st.sampled_from(["x", "name", "sarcos_inv_test"]))
@settings(max_examples=20)
def test_matrices_are_read_as_scipy_writes_them(tmp_path_factory, rows, columns, name):
    matrix = np.random.default_rng(rows).normal(size=(rows, columns))
    path = tmp_path_factory.mktemp("mat") / "m.mat"
    scipy.io.savemat(path, {name: matrix})
    assert np.array_equal(read_matrix(path), matrix)


@pytest.mark.parametrize("damage", [lambda raw: raw[:1000], lambda raw: b"x" + raw, lambda raw: b""])
def test_a_damaged_matrix_is_refused(tmp_path, damage):
    path = tmp_path / "m.mat"
    scipy.io.savemat(path, {"m": np.ones((40, 28))})
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=r"m\.mat"):
        read_matrix(path)


def test_a_compressed_matrix_is_refused(tmp_path):
    path = tmp_path / "m.mat"
    scipy.io.savemat(path, {"m": np.ones((40, 28))}, do_compression=True)
    with pytest.raises(DataError, match="not compressed"):
        read_matrix(path)


def test_the_whole_training_file_is_used_where_it_is_and_refused_where_it_is_another(files, monkeypatch):
    whole = files / "sarcos_inv.mat"
    (files / "sarcos_inv_subset.npz").unlink()
    with pytest.raises(DataError, match=r"beside sarcos_inv_test\.mat"):
        build("sarcos", split="paper").train
    table = np.hstack(motion(np.arange(44_484))[1:])
    scipy.io.savemat(whole, {"sarcos_inv": table})
    with pytest.raises(DataError, match="git blob") as error:
        build("sarcos", split="paper").train
    assert "sarcos_inv.mat" in str(error.value)
    raw = whole.read_bytes()
    monkeypatch.setattr(recording, "WHOLE_BLOB", hashlib.sha1(f"blob {len(raw)}\0".encode() + raw).hexdigest())
    problem = build("sarcos", split="paper", inputs="raw")
    assert [len(problem.split(part).source.data[0]) for part in PARTS] == [40_036, 4_448, 50]  # the paper's numbers
    np.testing.assert_allclose(problem.val.source.data[0], table[:4_448, :21], rtol=1e-6)


# ---- splits ------------------------------------------------------------------------------------------------------


def check_blocks(index: np.ndarray, split: str = "blocks", held_out: np.ndarray = HELD_OUT) -> dict[str, Motion]:
    parts = SPLITS[split](motion(index), motion(np.arange(3)))
    rows = {name: part.index for name, part in parts.items()}
    for first, second, gap in (("train", "val", 100), ("train", "test", 100), ("val", "test", 499)):
        if len(rows[first]) and len(rows[second]):
            assert distance(rows[first], rows[second]).min() > gap
    together = np.concatenate([*rows.values()])
    assert len(np.unique(together)) == len(together)
    assert set(together) <= set(index)
    left = np.setdiff1d(index, together)  # only rows of training blocks that are near to others
    assert not len(left) or distance(left, held_out).max() <= 100
    return parts


def distance(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """From each row to the nearest of the others, which are in ascending order."""
    after = np.searchsorted(others, rows)
    sides = others[np.clip([after - 1, after], 0, len(others) - 1)]
    return np.abs(sides - rows).min(0)


@given(st.integers(0, 2**32 - 1), st.floats(0.001, 0.2))
@settings(max_examples=15)
def test_blocks_keep_their_distance(seed, share):
    check_blocks(np.flatnonzero(np.random.default_rng(seed).random(44_484) < share))


@pytest.mark.data
def test_blocks_of_the_real_rows():
    train, _ = recording.load(DATA)
    parts = check_blocks(train.index)
    assert [len(parts[name].index) for name in PARTS] == [15_564, 2_162, 2_173]
    final = check_blocks(train.index, "final", FINAL)
    assert [len(final[name].index) for name in PARTS] == [15_452, 2_180, 2_226]
    for name in ("val", "test"):  # what settings were chosen on has no row in what measures them
        assert not np.intersect1d(final[name].index, np.concatenate([parts["val"].index, parts["test"].index])).size


@pytest.mark.data
def test_the_papers_split_leaks_as_it_is_said_to():
    train, test = recording.load(DATA)
    parts = paper_split(train, test)
    assert [len(parts[name].index) for name in PARTS] == [19_206, 2_365, 4_449]
    assert not set(parts["train"].index) & set(parts["val"].index)
    _, seen, again = np.intersect1d(parts["train"].index, test.index, return_indices=True)
    assert len(again) > 0.89 * len(test.index)  # all but those before row 4,448, which are in validation
    np.testing.assert_allclose(parts["train"].torques[seen], test.torques[again], atol=1e-5)
    np.testing.assert_allclose(parts["train"].inputs[seen], test.inputs[again], atol=1e-5)


# ---- losses, scores and the command ------------------------------------------------------------------------------


@pytest.mark.parametrize("inputs", ["standardized", "raw"])
def test_torques_are_over_the_quantile_of_training_and_inputs_as_asked(files, inputs):
    problem, (train, test) = build("sarcos", split="paper", inputs=inputs), recording.load()
    kept = train.index >= 4_448
    quantile = np.quantile(train.torques[kept], 0.9, axis=0)
    np.testing.assert_allclose(problem.test.source.data[1], test.torques / quantile, rtol=1e-5)
    x = problem.train.source.data[0].double().numpy()
    if inputs == "raw":
        np.testing.assert_allclose(x, train.inputs[kept], rtol=1e-5)
    else:
        np.testing.assert_allclose(x.mean(0), 0, atol=1e-6)
        np.testing.assert_allclose(x.std(0), 1, atol=1e-5)


def test_a_front_holds_the_errors_of_the_whole_split(files):
    torch.manual_seed(0)
    problem = build("sarcos")
    model, ray = problem.model(hidden=4), hf.rays(1, 7)[0]
    front = hf.evaluate(model, problem.val, ray, batch_size=11)
    x, y = problem.val.source.data
    with torch.no_grad():
        output = model.at(ray)(x).double().numpy()
    y = y.double().numpy()
    errors = ((output - y) ** 2).mean(0)
    np.testing.assert_allclose(front.losses[0], errors, rtol=1e-4)
    assert front.scores["mse"].item() == pytest.approx(errors.mean(), rel=1e-4)
    assert front.scores["r2"].item() == pytest.approx((1 - errors / y.var(0)).mean(), rel=1e-4)


def test_rows_thin_a_split_evenly(files):
    whole, few = build("sarcos"), build("sarcos", rows=100)
    y = whole.train.source.data[1]
    step = -(-len(y) // 100)
    assert torch.equal(few.train.source.data[1], y[::step])
    assert 90 < len(y[::step]) <= 100


def test_unknown_choices_suggest_the_nearest():
    with pytest.raises(HyperfrontError, match="blocks"):
        build("sarcos", split="block")
    with pytest.raises(HyperfrontError, match="raw"):
        build("sarcos", inputs="row")


def test_the_target_needs_no_data():
    problem = build("sarcos", data_dir="nowhere")
    assert problem.model(**problems()["sarcos"].presets["paper"].model).target.n == 139_015
    assert list(problems()["sarcos"].presets) == ["quick", "smoke", "paper", "best"]


@pytest.mark.data
def test_the_smoke_preset_trains_from_the_command_line(tmp_path):
    hyperfront("train", "sarcos", "--preset", "smoke", "--data-dir", str(DATA), folder=tmp_path)
    front = hf.Front.load(tmp_path / "runs" / "sarcos-epo" / "front.json")
    assert front.objectives == tuple(f"joint{number}" for number in range(1, 8))
    assert hf.load(tmp_path / "runs" / "sarcos-epo").at(hf.rays(1, 7)[0])(torch.zeros(2, 21)).shape == (2, 7)
