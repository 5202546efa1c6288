"""Fairness: the tables and their errors, the splits, the penalties against plain NumPy, and the commands."""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import resource
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hyperfront as hf
from hyperfront import solvers
from hyperfront.errors import DataError, ProblemError
from hyperfront.problem.registry import build, problems
from hyperfront.training.epochs import Epochs
from hyperfront.zoo.data import acs
from hyperfront.zoo.data.acs import ACS
from hyperfront.zoo.data.people import ADULT, BANK, DEFAULT
from hyperfront.zoo.data.tables import read
from hyperfront.zoo.fairness import DATA_SETS, empty_cell_share, group_gap, split, unseen
from tests.helpers import people
from tests.helpers.command import hyperfront
from tests.helpers.data import DATA

SIZES = {
    "adult": (32559, 3618, 9045),
    "default": (21600, 2400, 6000),
    "bank": (29655, 3295, 8238),
    "acs": (199926, 22215, 55536),
}
every_data_set = pytest.mark.parametrize("name", DATA_SETS)
_NO_ACS = pytest.mark.skipif(not (DATA and (DATA / ACS.files[0]).is_file()), reason="needs acs/employment.csv.gz")
every_real_table = pytest.mark.parametrize("name", ["adult", "default", "bank", pytest.param("acs", marks=_NO_ACS)])
random_inputs = settings(max_examples=60)


# ---- the real tables ---------------------------------------------------------------------------------------------


def raw(name: str) -> list[dict[str, str]]:
    """The rows of the real files, read in another way."""
    data = DATA_SETS[name]
    rows = []
    for file in data.files:
        with gzip.open(DATA / file, "rt") as lines:
            names = None if data.schema.header else list(data.schema.columns)
            text = (line.replace(", ", ",") for line in lines if not line.startswith("|"))
            rows += csv.DictReader(text, names, delimiter=data.schema.separator)
    return [row for row in rows if "?" not in row.values()]


PROTECTED = {
    "adult": lambda row: row["sex"] == "Female",
    "default": lambda row: row["SEX"] == "2",
    "bank": lambda row: not 25 <= int(row["age"]) < 60,
    "acs": lambda row: row["SEX"] == "2",
}
POSITIVE = {
    "adult": lambda row: row["income"].startswith(">50K"),
    "default": lambda row: row["default.payment.next.month"] == "1",
    "bank": lambda row: row["y"] == "yes",
    "acs": lambda row: row["employed"] == "1",
}


@pytest.mark.data
@every_real_table
def test_splits_of_the_real_tables_have_the_papers_sizes_and_hold_the_rows_of_the_files(name):
    problem, rows, parts = build(name, data_dir=DATA), raw(name), split(sum(SIZES[name]))
    assert tuple(len(problem.split(part).source.data[0]) for part in ("train", "val", "test")) == SIZES[name]
    kinds = list(DATA_SETS[name].categories.values())
    vocabulary = [category for column in kinds for category in column]
    for part in ("train", "val", "test"):
        numbers, categories, label, protected = problem.split(part).source.data
        chosen = [rows[i] for i in parts[part]]
        assert label.tolist() == [POSITIVE[name](row) for row in chosen]
        assert protected.tolist() == [PROTECTED[name](row) for row in chosen]
        words = [[vocabulary[code] for code in codes] for codes in categories[:200].tolist()]
        assert words == [[row[column] for column in DATA_SETS[name].categories] for row in chosen[:200]]
        for column, values in zip(DATA_SETS[name].numbers, numbers.double().T):  # standardized, so up to a line
            expected = torch.tensor([float(row[column]) for row in chosen], dtype=torch.float64)
            assert torch.corrcoef(torch.stack([values, expected]))[0, 1] > 1 - 1e-9
    numbers = problem.train.source.data[0].double()
    torch.testing.assert_close(numbers.mean(0), torch.zeros(numbers.shape[1]).double(), atol=1e-6, rtol=0)
    torch.testing.assert_close(numbers.std(0, correction=0), torch.ones(numbers.shape[1]).double(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("count", [sum(sizes) for sizes in SIZES.values()])
def test_every_row_is_in_exactly_one_split(count):
    parts = split(count)
    assert np.array_equal(np.sort(np.concatenate([*parts.values()])), np.arange(count))
    assert (len(parts["train"]), len(parts["val"]), len(parts["test"])) in SIZES.values()


def test_the_split_is_the_published_one():
    """The order of raw PCG64 numbers, which must never change: fronts would no longer be comparable."""
    parts = split(30_000)
    assert parts["test"][:5].tolist() == [25556, 20554, 16026, 6037, 28142]
    kept = split(30_000, rows=100)
    assert [*kept["test"], *kept["val"], *kept["train"]] == parts["test"][:100].tolist()


def test_draws_are_other_splits_of_the_same_sizes(small):
    first, second = (build("adult", draw=draw) for draw in (0, 1))
    sizes = [[len(each.split(part).source.data[0]) for part in ("train", "val", "test")] for each in (first, second)]
    assert sizes[0] == sizes[1]
    assert not torch.equal(first.train.source.data[2], second.train.source.data[2])
    with pytest.raises(ProblemError, match="draw"):
        build("adult", draw=-1)


def test_unseen_rows_and_the_splits_are_all_rows_once(small):
    problem, rest = build("adult", rows=100), unseen("adult", 100)
    parts = [problem.split(part).source.data for part in ("train", "val", "test")]
    assert sum(len(part[0]) for part in parts) == 100
    assert len(rest[0]) == 500  # of two files of 300 rows
    whole = small.split("train").source.data, small.split("val").source.data, small.split("test").source.data
    for column in (1, 2, 3):  # numbers are standardized by other rows
        both = torch.cat([part[column] for part in (*parts, rest)]).double().sum(0)
        assert torch.equal(both, torch.cat([part[column] for part in whole]).double().sum(0))


# ---- files that are not what they should be ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows[3].__setitem__(1, "astronaut"), ["line 4", "column job", "'astronaut'", "housemaid"]),
        (lambda rows: rows[5].__setitem__(0, "old"), ["line 6", "column age", "'old'", "a number"]),
        (lambda rows: rows[5].__setitem__(0, "nan"), ["line 6", "column age", "'nan'", "a number"]),
        (lambda rows: [row.append("1") for row in rows][:0] or rows[0].__setitem__(-1, "shoe"), ["extra shoe", "age"]),
        (lambda rows: [row.pop(2) for row in rows], ["missing marital"]),
        (lambda rows: rows[0].__setitem__(slice(0, 2), ["job", "age"]), ["another order: job, age"]),
        (lambda rows: rows[7].pop(), ["line 8", "20 fields", "21"]),
        (lambda rows: rows.__delitem__(slice(1, None)), ["no rows"]),
        (lambda rows: rows.clear(), ["missing age, job"]),
    ],
)
def test_a_table_with_anything_unexpected_is_refused_with_the_place(change, words, tmp_path):
    rows = people.table(BANK.schema, 20)
    change(rows)
    path = people.write(tmp_path / "bank.csv.gz", BANK.schema, rows)
    with pytest.raises(DataError) as error:
        read(path, BANK.schema)
    for word in ["bank.csv.gz", *words]:
        assert word in str(error.value)


def test_a_user_is_told_which_columns_differ_and_else_the_checksum(tmp_path):
    rows = people.table(BANK.schema, 20)
    people.write(tmp_path / BANK.files[0], BANK.schema, rows)
    with pytest.raises(DataError, match="SHA-256"):
        build("bank", data_dir=tmp_path).train
    rows[0][1] = "profession"
    people.write(tmp_path / BANK.files[0], BANK.schema, rows)
    with pytest.raises(DataError, match=r"unexpected columns(.|\n)*extra profession; missing job"):
        build("bank", data_dir=tmp_path).train


def test_a_file_that_unpacks_to_far_more_than_the_data_set_is_not_unpacked(tmp_path):
    size = 2**29
    (tmp_path / BANK.files[0]).parent.mkdir(parents=True)
    with gzip.open(tmp_path / BANK.files[0], "wb", compresslevel=1) as file:
        for _ in range(size // 2**24):
            file.write(bytes(2**24))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match="too long"):
        build("bank", data_dir=tmp_path).train
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < size / 1024 / 2  # kB


@pytest.mark.parametrize("content", [None, b"no archive", b"a wheel"], ids=["missing", "damaged", "other"])
def test_a_wheel_without_the_tables_is_refused(content, tmp_path):
    pytest.importorskip("pyarrow")
    wheel = tmp_path / "nannyml.whl"
    if content:
        wheel.write_bytes(content)
    if content == b"a wheel":
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("nannyml/datasets/data/employment_MA_reference.pq", "no table")
    with pytest.raises(DataError, match="pip download"):
        acs.prepare(wheel, tmp_path)


@pytest.mark.parametrize(
    "damage",
    [lambda raw: raw[:-500], lambda raw: raw[:300] + b"xyz" + raw[303:], lambda raw: b"age;job", lambda raw: b""],
)
def test_a_damaged_table_is_refused(damage, tmp_path):
    path = people.write(tmp_path / "bank.csv.gz", BANK.schema, people.table(BANK.schema, 200))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=r"bank\.csv\.gz"):
        read(path, BANK.schema)


def test_rows_with_a_missing_value_are_dropped_and_comments_skipped(tmp_path):
    rows = people.table(ADULT.schema, 10)
    rows[4][1] = "?"
    path = people.write(tmp_path / "a.gz", ADULT.schema, [["|1x3 Cross validator"], *rows, []])
    columns = read(path, ADULT.schema)
    assert columns["age"].tolist() == [float(row[0]) for row in rows[:4] + rows[5:]]


# ---- penalties -----------------------------------------------------------------------------------------------------


def oracle(scores: np.ndarray, label: np.ndarray, protected: np.ndarray, which: bool) -> float:
    inside, outside = scores[(label == which) & protected], scores[(label == which) & ~protected]
    return abs(inside.mean() - outside.mean()) if len(inside) and len(outside) else 0.0


@st.composite
def batches(draw):
    """Logits and members of few rows, so that empty cells are common."""
    rows = draw(st.integers(1, 12))
    flags = st.lists(st.booleans(), min_size=rows, max_size=rows).map(np.array)
    logits = st.lists(st.floats(-8, 8), min_size=rows, max_size=rows).map(np.array)
    return draw(logits), draw(flags), draw(flags)


@given(batches(), st.booleans(), st.sampled_from(["probability", "logit"]))
@random_inputs
def test_penalties_are_the_gaps_of_the_means_and_have_no_gradient_where_a_cell_is_empty(batch, which, gap):
    logits, label, protected = batch
    problem = build("adult", gap=gap)
    penalty = problem.measures["fn_penalty" if which else "fp_penalty"]
    rest = (None, None, torch.from_numpy(label), torch.from_numpy(protected))
    score = (lambda x: 1 / (1 + np.exp(-x))) if gap == "probability" else (lambda x: x)

    leaf = torch.from_numpy(logits).requires_grad_()
    value = penalty(leaf, rest)
    expected = oracle(score(logits), label, protected, which)
    assert value.item() == pytest.approx(expected, abs=1e-12)
    (gradient,) = torch.autograd.grad(value, leaf)

    def moved(row: int, by: float) -> float:
        return oracle(score(logits + by * np.eye(len(logits))[row]), label, protected, which)

    if expected > 1e-4 or expected == 0:  # away from the kink; or empty, where the function is constant
        step = 1e-6
        slopes = [(moved(row, step) - moved(row, -step)) / (2 * step) for row in range(len(logits))]
        empty = not ((label == which) & protected).any() or not ((label == which) & ~protected).any()
        if empty:
            assert gradient.count_nonzero() == 0
        if empty or expected:
            np.testing.assert_allclose(gradient.numpy(), slopes, atol=1e-6)


def test_statistics_of_parts_add_up_to_those_of_the_whole():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(90, generator=generator, dtype=torch.float64)
    label, protected = (torch.rand(90, generator=generator) < share for share in (0.2, 0.1))
    measure = group_gap(torch.sigmoid, label=True)
    parts = [measure.statistics(logits[i : i + 8], (label[i : i + 8], protected[i : i + 8])) for i in range(0, 90, 8)]
    expected = oracle(logits.sigmoid().numpy(), label.numpy(), protected.numpy(), True)
    assert measure.value(sum(parts)).item() == pytest.approx(expected, abs=1e-12)


@pytest.fixture
def small(monkeypatch, tmp_path):
    """The Adult problem on random files."""
    people.install(monkeypatch, tmp_path, ADULT, 300)
    return build("adult")


def test_a_front_holds_the_losses_and_scores_of_the_whole_split(small):
    torch.manual_seed(0)
    model, rays = small.model(hidden=8), hf.rays(5, 3)
    front = hf.evaluate(model, small.val, rays, batch_size=7)
    numbers, categories, label, protected = small.val.source.data
    y, a = label.numpy(), protected.numpy()
    for row, ray in enumerate(rays):
        with torch.no_grad():
            logits = model.at(ray)(numbers, categories).double().numpy()
        p, decided = 1 / (1 + np.exp(-logits)), (logits > 0).astype(float)
        bce = -np.where(y, np.log(p), np.log(1 - p)).mean()
        expected = [bce, oracle(p, y, a, False), oracle(p, y, a, True)]
        assert front.losses[row].tolist() == pytest.approx(expected, abs=1e-5)
        rates = [oracle(decided, y, a, False), oracle(1 - decided, y, a, True)]
        assert [front.scores[name][row].item() for name in ("fpr_gap", "fnr_gap")] == pytest.approx(rates, abs=1e-6)
        assert front.scores["accuracy"][row].item() == pytest.approx((decided == y).mean(), abs=1e-6)


def test_several_rays_at_once_are_the_same_as_one_after_another(small):
    torch.manual_seed(0)
    target, batch = small.model(hidden=8).target, small.train.source.data
    theta = torch.stack([target.start() + 0.1 * torch.randn(target.n) for _ in range(3)])
    rays = hf.rays(3, 3).float()
    results = []
    for batching in ("vmap", "loop"):
        target.stacking.mode = batching
        leaf = theta.clone().requires_grad_()
        losses = target.map(small.losses, leaf, rays, batch, split=False)
        results.append((losses, *torch.autograd.grad(losses.sum(), leaf)))
    torch.testing.assert_close(*results, atol=1e-5, rtol=1e-4)


def test_an_unknown_gap_is_refused():
    with pytest.raises(ProblemError, match="probability, logit"):
        build("adult", gap="hinge")


# ---- empty cells ---------------------------------------------------------------------------------------------------


def test_the_share_of_batches_with_an_empty_cell_is_that_of_all_batches():
    label, protected = (torch.tensor(flags) for flags in ([0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0, 1, 1]))
    label, protected = label.bool(), protected.bool()
    for size in (1, 4, 5, 6, 8):
        found = [
            len({(bool(label[i]), bool(protected[i])) for i in chosen}) < 4
            for chosen in itertools.combinations(range(8), size)
        ]
        assert empty_cell_share(label, protected, size) == pytest.approx(np.mean(found), abs=1e-12)


@pytest.mark.parametrize("solver", [hf.EPO(), hf.LS(), solvers.MGDA()], ids=lambda solver: type(solver).__name__)
def test_batches_with_an_empty_cell_are_counted_as_floored(small, solver):
    settings = {"epochs": 3, "batch_size": 16, "seed": 5}
    torch.manual_seed(0)
    run = hf.fit(small.model(hidden=8), small, solver=solver, validation_rays=3, callbacks=[], **settings)
    counted = sum(record["status"].get("floored", 0) for record in run.history)

    class Replay:
        seed, batch_size, rays_per_step, share_batch = 5, 16, 1, False

    state = SimpleNamespace(model=run.model, step=SimpleNamespace(problem=small))
    steps = Epochs(state, small, hf.Dirichlet(), Replay)
    empty = 0
    for epoch in range(3):
        for _, (_, _, label, protected) in steps.steps(epoch, 0):
            cells = {(bool(y), bool(a)) for y, a in zip(label, protected)}
            empty += len(cells) < 4
    assert counted == empty > 0


# ---- presets and commands ------------------------------------------------------------------------------------------


@every_data_set
def test_the_target_and_its_model_need_no_data(name):
    model = build(name, data_dir="nowhere").model(**problems()[name].presets["best"].model)
    layers = [tuple(p.shape) for n, p in model.target.skeleton.named_parameters() if n.startswith("layers")]
    assert [shape[0] for shape in layers] == [40, 40, 20, 20, 1, 1]
    assert list(problems()[name].presets) == ["quick", "smoke", "paper", "best"]


def test_evaluation_is_at_the_positive_grid_with_19_partitions():
    assert torch.equal(hf.rays(153, 3), hf.preferences.das_dennis(3, 19, positive=True))
    assert problems()["adult"].presets["paper"].evaluation_rays == 153


@pytest.mark.data
@every_real_table
def test_the_smoke_preset_trains_from_the_command_line_and_its_run_loads_without_the_data(name, tmp_path):
    text = hyperfront("train", name, "--preset", "smoke", "--data-dir", str(DATA), folder=tmp_path)
    run = tmp_path / "runs" / f"{name}-epo"
    front = hf.Front.load(run / "front.json")
    assert front.objectives == ("bce", "fp_penalty", "fn_penalty")
    assert set(front.scores) == {"accuracy", "fpr_gap", "fnr_gap"}
    assert all(word in text for word in ("accuracy", "hypervolume"))
    assert json.loads((run / "config.json").read_text())["record"]["problem"] == name
    model = hf.load(run)
    assert model.at([0.4, 0.3, 0.3]).layers[0].out_features == 40


def test_default_ignores_the_row_number():
    assert "ID" not in DEFAULT.features
