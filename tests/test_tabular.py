"""Tables: what is found in them, what is refused, what is trained, and that a run needs nothing but its folder."""

from __future__ import annotations

import gzip
import importlib.util
import itertools
import json
import math
from pathlib import Path

import numpy as np
import pandas
import polars
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hyperfront as hf
from hyperfront import tabular
from hyperfront.errors import CheckpointError, DataError, HyperfrontError, ProblemError
from hyperfront.problem.registry import build
from hyperfront.tabular.columns import coded, columns_of
from hyperfront.tabular.kinds import find_kinds
from hyperfront.tabular.network import TableNet
from hyperfront.tabular.objectives import NAMES
from hyperfront.tabular.splits import SHARES, check_groups, split_rows
from hyperfront.training.loading import recorded_problem
from tests.helpers.data import DATA
from tests.helpers.tables import csv_of, people, without

BINARY = without(people(), "amount")
QUICK = {"epochs": 2, "batch_size": 120, "rays_per_step": 1, "validation_rays": 6, "warmup": 0, "callbacks": []}
RAY = [0.5, 0.25, 0.25]


def labeled(**options) -> hf.Problem:
    return tabular.problem(BINARY, "paid", sensitive="group", **options)


# ---- columns and their kinds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pandas", "polars", "csv", "csv.gz", "semicolons", "utf-16", "parquet", "rows"])
def test_a_table_means_the_same_in_every_format(kind, tmp_path):
    frame = polars.DataFrame({name: list(column) for name, column in BINARY.items()}, nan_to_null=True)
    text, path = (
        csv_of(BINARY),
        tmp_path / ("t.csv.gz" if kind == "csv.gz" else f"t.{kind}" if kind == "parquet" else "t.csv"),
    )
    written = {
        "csv": text.encode(),
        "csv.gz": gzip.compress(text.encode()),
        "semicolons": csv_of(BINARY, ";").encode(),
        "utf-16": text.encode("utf-16"),
    }
    if kind in written:
        path.write_bytes(written[kind])
    elif kind == "parquet":
        frame.to_pandas().to_parquet(path)
    table = {"pandas": frame.to_pandas(), "polars": frame, "rows": frame.to_dicts()}.get(kind, path)
    made, expected = tabular.problem(table, "paid", sensitive="group"), labeled()
    for split in ("train", "val", "calibration", "test"):
        for part, other in zip(made.split(split).source.data, expected.split(split).source.data):
            torch.testing.assert_close(part, other, rtol=0, atol=0, equal_nan=True)
    assert made.identity["arguments"]["data"]["content"] == expected.identity["arguments"]["data"]["content"]


def test_kinds_are_found_and_can_be_changed():
    table = {
        "number": [1.5, 2.0, None, 3.0] * 30,
        "stated": ["1", "2", "?", "4"] * 30,
        "word": ["a", "b", "a", None] * 30,
        "truth": [True, False] * 60,
        "date": ["2026-01-01", "2026-02-01", "NA", "2026-03-01T12:30:00"] * 30,
        "constant": [7] * 120,
        "empty": [None] * 120,
        "row": [*range(120)],
        "name": [f"p{n}" for n in range(120)],
    }
    found = find_kinds(columns_of(table), {"row": "category"})
    assert found.kinds == {
        "number": "number", "stated": "number", "word": "category", "truth": "category", "date": "date",
        "constant": "ignore", "empty": "ignore", "row": "category", "name": "ignore",
    }  # fmt: skip
    assert len(found.notes) == 3


@given(st.lists(st.one_of(st.integers(-9, 9), st.floats(allow_nan=True, width=32), st.text(max_size=3), st.none())))
@settings(max_examples=60)
def test_the_codes_of_a_column_are_its_texts(values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    texts, codes = coded(array)
    assert len(set(texts)) == len(texts) and set(codes[codes >= 0].tolist()) == set(range(len(texts)))
    again = coded(np.array([texts[code] if code >= 0 else None for code in codes], dtype=object))
    assert [again.texts[c] if c >= 0 else None for c in again.codes] == [texts[c] if c >= 0 else None for c in codes]


def test_a_schema_reads_back_and_a_damaged_one_is_refused():
    schema = labeled().make_target().schema
    document = json.loads(json.dumps(schema.document()))
    assert tabular.Schema.read(document) == schema
    assert schema.groups == ("north", "south") and schema.classes == ("no", "yes") and schema.task == "binary"
    for damage in ({"task": "magic"}, {"columns": []}, {"classes": "ab"}, {"spread": 0.0}, {"columns": [{"name": 3}]}):
        with pytest.raises(CheckpointError):
            tabular.Schema.read({**document, **damage})


def test_unseen_missing_and_infinite_values_are_encoded_as_missing_and_counted():
    schema = labeled().make_target().schema
    row = {"age": [np.inf], "income": ["much"], "job": ["king"], "day": ["2025-02-01"], "group": [None], "extra": [1]}
    numbers, categories = schema.encode(row)
    assert numbers[0, :2].isnan().all() and categories.tolist() == [[0, 0]]
    assert schema.unseen(row) == {"income": 1, "job": 1}
    words = schema.readable(numbers[0], categories[0])
    assert words == {"age": "missing", "income": "missing", "job": "missing", "day": "2025-02-01", "group": "missing"}


# ---- what is refused -------------------------------------------------------------------------------------------------

WRONG = {
    "one class": ({**BINARY, "paid": ["yes"] * 600}, {}, ["'paid'", "one value"]),
    "no target": (BINARY, {"target": "payed"}, ["'payed'", "did you mean 'paid'"]),
    "sensitive target": (BINARY, {"sensitive": "paid"}, ["also sensitive"]),
    "one row of a class": ({**BINARY, "paid": ["yes", *["no"] * 599]}, {}, ["'yes'", "more rows of this class"]),
    "few rows of a class": ({**BINARY, "paid": [*["yes"] * 6, *["no"] * 594]}, {}, ["'yes'", "split", "more rows"]),
    "decimal commas": ({**BINARY, "age": [f"{n},5" for n in range(600)]}, {}, ["'age'", "'0,5'", "1234.5", "category"]),
    "thousands": ({**BINARY, "age": [f"{n % 9 + 1},200" for n in range(600)]}, {}, ["'1,200'", "--kinds age=category"]),
    "currency": ({**BINARY, "age": [f"${n}" for n in range(600)]}, {}, ["'$0'", "rewrite"]),
    "small group": ({**BINARY, "group": ["x"] * 9 + ["y"] * 591}, {}, ["'x'", "9 rows", "smallest_group"]),
    "one group": ({**BINARY, "group": ["x"] * 600}, {}, ["fewer than two"]),
    "numbers as groups": (BINARY, {"sensitive": "age"}, ["'age'", "cuts", "(25, 60)"]),
    "texts as groups": ({**BINARY, "group": [str(n) + "x" for n in range(600)]}, {}, ["600 different", "join"]),
    "mixed column": ({**BINARY, "age": ["old", *range(599)]}, {}, ["'age'", "'old'", "--kinds age=number"]),
    "no rows": ({name: [] for name in BINARY}, {}, ["no rows"]),
    "no columns": ({}, {}, ["no columns"]),
    "lengths": ({**BINARY, "age": [1, 2]}, {}, ["different lengths"]),
    "too many classes": ({**BINARY, "paid": [f"c{n % 300}" for n in range(600)]}, {}, ["300 different"]),
    "target missing everywhere": ({**BINARY, "paid": [None] * 600}, {}, ["missing in every row"]),
    "unknown kind": (BINARY, {"kinds": {"age": "nunber"}}, ["did you mean 'number'"]),
    "unknown objective": (BINARY, {"objectives": ("log_loss", "fprgap")}, ["did you mean 'fpr_gap'"]),
    "objective of another task": (BINARY, {"objectives": ("log_loss", "squared_error")}, ["binary", "regression"]),
    "score as objective": (BINARY, {"objectives": ("log_loss", "accuracy")}, ["cannot be trained"]),
    "gap without groups": (BINARY, {"sensitive": (), "objectives": ("log_loss", "fpr_gap")}, ['sensitive="column"']),
    "numbers of an objective": (BINARY, {"objectives": ("log_loss", "weighted_errors:1")}, ["weighted_errors:1:1"]),
    "unknown network": (BINARY, {"network": "mpl"}, ["did you mean 'mlp'"]),
    "shares": (BINARY, {"shares": {"train": 1.0}}, ["sum to 1"]),
    "split": (BINARY, {"split": "time"}, ['{"time": column}']),
    "array": (np.zeros((3, 2)), {}, ["pandas.DataFrame"]),
    "only the target": ({"paid": BINARY["paid"]}, {"sensitive": ()}, ["no column to predict from"]),
    "wrong positive class": (BINARY, {"positive": "maybe"}, ["'maybe'", "no, yes"]),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_bad_table_or_wish_gets_an_error_that_says_how_to_fix_it(case):
    table, options, words = WRONG[case]
    with pytest.raises(HyperfrontError) as error:
        tabular.problem(table, **{"target": "paid", "sensitive": "group", **options})
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("name,y\nJosé,1\n".encode("latin-1"), ["line 2", "0xe9", "--encoding latin-1"]),
        (b"a,b,a\n1,2,3\n", ["same name", "a"]),
        (b"a,b\n1,2\n3\n", ["line 3", "1 fields", "2"]),
        (b"", ["no line with the names"]),
        (b"a,b\n", ["no rows"]),
        (b'a,b\n"1,2\n', ["cannot be read"]),
        ("a,b\n1,2\n".encode("utf-16-le"), ["line 1", "code 0", "--encoding utf-16-le"]),
        ("a,b\n1,é\n".encode("utf-16-be"), ["line 2", "0xe9", "--encoding utf-16-be"]),
        (b"a,b\n1,x\0y\n", ["line 2", "code 0", "remove it"]),
        (b"PK\x03\x04workbook", ["archive or a workbook", "save it as CSV"]),
    ],
)
def test_a_damaged_file_is_refused_with_the_place(content, words, tmp_path):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(DataError) as error:
        tabular.read(tmp_path / "t.csv")
    for word in words:
        assert word in str(error.value)
    with pytest.raises(DataError, match=r"there are t\.csv"):
        tabular.read(tmp_path / "other.csv")
    (tmp_path / "t.csv.gz").write_bytes(content)
    with pytest.raises(DataError, match="damaged"):
        tabular.read(tmp_path / "t.csv.gz")


def test_a_parquet_file_whose_text_is_damaged_is_refused(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts = pytest.importorskip("pyarrow.compute").cast(
        pyarrow.array([b"cook", b"\xf5"], pyarrow.binary()), pyarrow.string(), safe=False
    )
    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"job": texts}), path)
    with pytest.raises(DataError, match="Parquet file cannot be read"):
        tabular.read(path)


def test_duplicate_columns_of_a_frame_are_refused():
    frame = pandas.DataFrame([[1, 2], [3, 4]], columns=["a", "a"])
    with pytest.raises(DataError, match="same name"):
        tabular.problem(frame, "a")


@pytest.mark.parametrize("library", [pandas, polars])
@pytest.mark.filterwarnings("ignore:the class")
def test_a_frame_for_supervised_is_refused_with_a_fix_that_works(library):
    frame = library.DataFrame({"x": [0.5, 1.0, 2.0] * 20, "z": [1.0, 0.0] * 30})
    losses = {"a": lambda o, b: (o[:, 0] - b[1]).square().mean(), "b": lambda o, b: o.square().mean()}
    for split in (frame, (frame, frame["z"])):
        with pytest.raises(ProblemError, match=r"columns of a table[\s\S]*tabular\.problem\(frame, target\)"):
            hf.supervised(split, split, losses=losses)
    rows = tuple(torch.tensor(frame[part].to_numpy(), dtype=torch.float32) for part in (["x", "z"], "z"))
    assert hf.supervised(rows, rows, losses=losses).train.source.rows == 60
    assert tabular.problem(frame, "z").objectives == ("log_loss_of_positives", "log_loss_of_negatives")


def test_a_file_in_another_encoding_is_read_when_it_is_named(tmp_path):
    (tmp_path / "t.csv").write_bytes("job,y\nménage,1\n".encode("latin-1"))
    assert tabular.read(tmp_path / "t.csv", encoding="latin-1")["job"].tolist() == ["ménage"]


@pytest.mark.parametrize("mark", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("told", [True, False])
def test_a_byte_order_mark_is_no_part_of_the_first_name(mark, told, tmp_path):
    (tmp_path / "t.csv").write_bytes('"job";y\nménage;1\n'.encode(mark))
    encoding = mark.removesuffix("-sig") if told else None
    assert tabular.read(tmp_path / "t.csv", encoding=encoding)["job"].tolist() == ["ménage"]
    with pytest.raises(DataError, match=r"no such table[\s\S]*there are t\.csv"):
        tabular.read(tmp_path)


def test_classes_and_groups_that_splits_lack_are_told():
    alike = {**BINARY, "paid": ["no" if g == "south" else p for g, p in zip(BINARY["group"], BINARY["paid"])]}
    with pytest.warns(UserWarning, match="group 'south' has the class 'yes' in train, val, calibration, test"):
        tabular.problem(alike, "paid", sensitive="group")
    spelled = {**BINARY, "group": [g.upper() if n % 2 else g for n, g in enumerate(BINARY["group"])]}
    with pytest.warns(UserWarning, match="'group' differ only in upper and lower case: (?i:south, south|north, north)"):
        tabular.problem(spelled, "paid", sensitive="group", smallest_group=1)
    rare = {**BINARY, "paid": ["yes" if n % 15 == 0 else "no" for n in range(600)]}
    with pytest.warns(UserWarning, match="the class 'yes' has . rows in the .* split: its rates are chance"):
        tabular.problem(rare, "paid", sensitive="group")


def test_row_numbers_are_no_input_where_rows_without_a_target_are_left_out():
    table = {**BINARY, "id": [*range(1000, 1600)], "paid": [p if n % 3 else None for n, p in enumerate(BINARY["paid"])]}
    with pytest.warns(UserWarning, match="column 'id' is ignored: it numbers the rows"):
        tabular.problem(table, "paid", sensitive="group")


def test_rows_without_a_target_and_useless_columns_are_left_out_with_a_note():
    table = {**BINARY, "id": [*range(600)], "one": ["x"] * 600}
    table["paid"] = [None, *table["paid"][1:]]
    with pytest.warns(UserWarning) as told:
        made = tabular.problem(table, "paid", sensitive="group")
    assert all(word in str(told[0].message) for word in ("1 rows have no target", "'id'", "'one'"))
    assert told[0].filename == __file__  # not a line of the package
    assert sum(made.split(name).source.rows for name in SHARES) == 599
    assert not {"id", "one"} & {column.name for column in made.make_target().schema.columns}


# ---- splits ----------------------------------------------------------------------------------------------------------


@given(st.integers(20, 300), st.integers(0, 5), st.sampled_from(["rows", "group", "time"]))
@settings(max_examples=40)
def test_every_row_is_in_exactly_one_split_and_groups_stay_together(count, seed, kind):
    columns = columns_of({"visit": [n % 17 for n in range(count)], "when": [(n * 7) % 31 for n in range(count)]})
    plan = kind if kind == "rows" else {kind: "visit" if kind == "group" else "when"}
    parts = split_rows(columns, plan, SHARES, seed)
    assert sorted(np.concatenate([*parts.values()]).tolist()) == [*range(count)]
    if kind == "group":
        members = [set(columns["visit"][rows]) for rows in parts.values()]
        assert sum(map(len, members)) == len(set(columns["visit"]))
    if kind == "time":
        ends = [(columns["when"][rows].min(), columns["when"][rows].max()) for rows in parts.values()]
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(ends))
    again = split_rows(columns, plan, SHARES, seed)
    assert all(np.array_equal(parts[name], again[name]) for name in parts)


def test_groups_are_counted_in_every_split():
    members, parts = np.array([1] * 40 + [2] * 40 + [0] * 3), {"train": np.arange(60), "val": np.arange(35, 83)}
    assert check_groups(["a", "b"], members, parts, 15) == []
    assert check_groups(["a", "b"], members, parts, 30) == [
        "the group 'a' has 5 rows in the val split: its rates there are chance"
    ]
    with pytest.raises(DataError, match="no row of the group 'a' is in the val"):
        check_groups(["a", "b"], members, {"val": np.arange(40, 83)}, 30)


def test_the_split_does_not_depend_on_what_the_same_seed_drew():
    """With the stream of default_rng(0) the training rows would have the smallest of the user's random numbers."""
    drawn = np.random.default_rng(0).random(2000)
    rows = split_rows({"x": drawn}, "rows", SHARES, 0)["train"]
    assert abs(drawn[rows].mean() - 0.5) < 0.05


# ---- objectives ------------------------------------------------------------------------------------------------------


def evaluated(problem: hf.Problem) -> tuple[dict[str, float], torch.Tensor, tuple]:
    torch.manual_seed(0)
    model = problem.model(hidden=4)
    front = hf.evaluate(model, problem.train, rays=torch.full((1, problem.m), 1 / problem.m))
    batch = problem.train.source.data
    return (
        {name: column.item() for name, column in front.columns().items()},
        model(batch[:2], rays=front.rays)[0].detach(),
        batch,
    )


def test_binary_measures_agree_with_numpy():
    names = tuple(name for name, found in NAMES["binary"].items() if found.loss)
    found, logit, (*_, label, group) = evaluated(labeled(objectives=names, scores=("calibration_error", "selection")))
    p, y, k = logit.double().sigmoid().numpy(), label.numpy(), group.numpy()
    for prefix, q in (("smooth_", p), ("", (p > 0.5).astype(float))):
        wrong = np.abs(q - y)
        cells = {"fpr": (q, y == 0), "fnr": (1 - q, y == 1), "selection": (q, y >= 0), "error": (wrong, y >= 0)}
        for name, (value, rows) in cells.items():
            assert found[prefix + name] == pytest.approx(value[rows].mean(), abs=1e-5)
            each = [value[rows & (k == code)].mean() for code in (1, 2)]
            assert found[f"{prefix}{name}_gap"] == pytest.approx(abs(each[0] - each[1]), abs=1e-5)
    log = -np.log(np.where(y == 1, p, 1 - p))
    assert found["log_loss"] == pytest.approx(log.mean(), abs=1e-5)
    assert found["log_loss_of_positives"] == pytest.approx(log[y == 1].mean(), abs=1e-5)
    assert found["brier"] == pytest.approx(((p - y) ** 2).mean(), abs=1e-5)
    assert found["smooth_weighted_errors"] == pytest.approx(found["smooth_error"], abs=1e-5)
    off = max(abs(p[k == code].mean() - y[k == code].mean()) for code in (1, 2))
    assert found["calibration"] == pytest.approx(off, abs=1e-5)
    assert found["accuracy"] == pytest.approx(1 - found["error"])
    bins = np.minimum((p * 10).astype(int), 9)
    each = [abs((p - y)[bins == b].sum()) for b in range(10)]
    assert found["calibration_error"] == pytest.approx(sum(each) / len(p), abs=1e-5)


def test_measures_of_classes_and_numbers_agree_with_numpy():
    table = {**without(BINARY, "job"), "job": people()["job"]}
    names = tuple(name for name, known in NAMES["classes"].items() if known.loss)
    with pytest.warns(UserWarning, match="no target"):
        found, logits, (*_, label, _) = evaluated(tabular.problem(table, "job", sensitive="group", objectives=names))
    p, y = logits.double().softmax(-1).numpy(), label.numpy()
    assert found["smooth_error"] == pytest.approx(1 - p[np.arange(len(y)), y].mean(), abs=1e-5)
    assert found["error"] == pytest.approx((p.argmax(-1) != y).mean())
    each = [(p.argmax(-1) != y)[y == c].mean() for c in range(3)]
    assert found["balanced_error"] == pytest.approx(np.mean(each), abs=1e-5)

    names = [name for name, known in NAMES["regression"].items() if known.loss and name != "quantile_error"]
    made = tabular.problem(
        without(people(), "paid"), "amount", sensitive="group", objectives=[*names, "quantile_error:0.9"]
    )
    found, output, (*_, label, _) = evaluated(made)
    schema, rest = made.make_target().schema, (label - output).double().numpy()
    assert found["squared_error"] == pytest.approx((rest**2).mean(), rel=1e-4)
    assert found["scaled_squared_error"] == pytest.approx((rest**2).mean() / schema.spread**2, rel=1e-4)
    assert found["quantile_error:0.9"] == pytest.approx(np.maximum(0.9 * rest, -0.1 * rest).mean(), rel=1e-4)
    assert found["r2"] == pytest.approx(
        1 - (rest**2).sum() / ((label.double() - label.double().mean()) ** 2).sum().item(), abs=1e-4
    )
    assert found["underprediction"] - found["overprediction"] == pytest.approx(rest.mean(), rel=1e-3)


@pytest.mark.filterwarnings("ignore:the group")
def test_two_sensitive_columns_and_cuts_make_groups_and_missing_values_belong_to_none():
    made = tabular.problem(BINARY, "paid", sensitive=("group", "age"), cuts={"age": (45,)}, kinds={"group": "ignore"})
    schema = made.make_target().schema
    assert len(schema.groups) == 4 and "north, age below 45" in schema.groups
    assert "group" not in {column.name for column in schema.columns}
    groups = made.train.source.data[3]
    ages = made.train.source.data[0][:, 0]
    assert torch.equal(groups == 0, ages.isnan())


# ---- networks, training, files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", ["linear", "mlp", "resnet"])
@pytest.mark.parametrize("target", ["paid", "job", "amount"])
@pytest.mark.filterwarnings("ignore:.*no target:UserWarning")
def test_every_network_trains_on_every_task_and_exports_with_its_preparation(network, target, tmp_path):
    made = tabular.problem(people(), target, sensitive="group", network=network)
    model = made.model(hidden=4)
    hf.fit(model, made, **QUICK)
    ray = [1 / made.m] * made.m
    numbers, categories = made.test.source.data[:2]
    assert numbers.isnan().any()
    expected = model((numbers, categories), rays=[ray])[0].detach()
    assert expected.isfinite().all()
    plain = model.at(ray)
    torch.testing.assert_close(plain(numbers, categories), expected)
    found = tabular.predict(plain, {name: column[:5] for name, column in people().items()})
    assert len(found.values) == 5 and not found.unseen


@pytest.mark.parametrize(
    "inputs",
    [
        ("40", "cook"),
        (torch.ones(2, 1), torch.ones(2, 1)),
        (torch.ones(2, 3), torch.ones(2, 1).long()),
        (torch.ones(2, 1), torch.ones(3, 1).long()),
        (torch.ones(2, 1, dtype=torch.complex64), torch.ones(2, 1).long()),
    ],
)
def test_a_network_refuses_inputs_that_are_no_numbers_and_codes(inputs):
    schema = tabular.Schema(
        (tabular.Column("age", "number"), tabular.Column("job", "category", ("cook",))), "y", "binary"
    )
    with pytest.raises(HyperfrontError, match=r"expected: numbers \[B, 1\] and whole numbers \[B, 1\]"):
        TableNet(schema)(*inputs)


@pytest.mark.parametrize("batch", [{"age": [40]}, (torch.ones(2, 1),) * 2, (torch.ones(2, 1), "a", "b", "c")])
def test_a_batch_of_a_table_has_four_tensors(batch):
    problem = labeled()
    with pytest.raises(DataError, match="numbers, codes, target, groups"):
        problem.losses(TableNet(tabular.schema_of(problem.model(hidden=2))), batch)


def test_a_run_folder_loads_without_target_finds_its_table_and_refuses_another(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(csv_of(BINARY))
    made = tabular.problem(path, "paid", sensitive="group")
    run = hf.fit(made.model(), made, out=tmp_path / "run", **QUICK)
    model = hf.load(tmp_path / "run")
    again = recorded_problem(model.record)
    front = hf.evaluate(model, again.val, rays=run.front.rays)
    torch.testing.assert_close(front.losses, run.front.losses)
    assert again.identity == made.identity
    other = tmp_path / "elsewhere" / "people.csv"
    other.parent.mkdir()
    path.rename(other)
    with pytest.raises(DataError, match="not where it was"):
        recorded_problem(model.record).val.source.rows
    for place in (other, other.parent):
        assert recorded_problem(model.record, data_dir=place).val.source.rows == made.val.source.rows
    path.write_text(csv_of(people(seed=1)))
    with pytest.raises(DataError):
        recorded_problem(model.record).val.source.rows
    with pytest.raises(DataError):
        recorded_problem(model.record, data_dir=path).val.source.rows
    assert len(tabular.predict(model, path, ray=[1, 0, 0]).values) == 600


def test_a_changed_file_of_the_same_size_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "people.csv"
    path.write_text(csv_of(BINARY))
    identity = tabular.problem(path, "paid", sensitive="group").identity
    path.write_text(csv_of(BINARY).replace("north", "morth", 1))
    monkeypatch.setattr(tabular.table, "parse", lambda *_, **__: pytest.fail("the file was parsed"))
    with pytest.raises(DataError, match="changed"):
        build("table", **identity["arguments"]).train.source.rows


def test_an_own_function_is_trained_and_a_loaded_run_says_that_it_is_missing(tmp_path):
    def regret(output, batch):
        return (output.sigmoid() - batch[2]).square().mean()

    made = labeled(objectives={"loss": "log_loss", "regret": regret, "gap": "fpr_gap"})
    assert made.objectives == ("loss", "regret", "gap") and made.reference is None
    with pytest.warns(UserWarning, match="reference"):
        run = hf.fit(made.model(), made, out=tmp_path / "run", **QUICK)
    model = hf.load(tmp_path / "run")
    assert torch.equal(model.weights([1, 0, 0]), run.model.weights([1, 0, 0]))
    again = recorded_problem(model.record, data_dir=None)
    with pytest.raises(ProblemError, match="your own function"):
        again.measures["regret"](torch.zeros(3), made.train.source.data)


def test_the_table_entry_asks_for_a_file():
    with pytest.raises(ProblemError, match=r"train data\.csv"):
        build("table")


def test_a_table_has_defaults_of_training_that_a_caller_can_replace():
    made = labeled()
    run = hf.fit(made.model(), made, epochs=1, callbacks=[])
    assert run.model.record["solver"] == "LS" and len(run.front) == 66
    run = hf.fit(made.model(), made, epochs=1, solver=hf.EPO(), validation_rays=5, callbacks=[])
    assert run.model.record["solver"] == "EPO"


def test_predictions_need_a_ray_and_the_columns_of_the_model():
    made = labeled()
    model = made.model(hidden=4)
    with pytest.raises(HyperfrontError, match="trade-off"):
        tabular.predict(model, BINARY)
    with pytest.raises(DataError, match="did you mean 'incomes'"):
        tabular.predict(model, {**without(BINARY, "income"), "incomes": BINARY["income"]}, ray=RAY)
    found = tabular.predict(model, BINARY, ray=RAY, threshold=0.0)
    assert set(found.values) == {"yes"} and set(found.columns()) == {"probability", "paid"}


@pytest.mark.data
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_adult_is_read_by_its_own_kinds(tmp_path):
    from hyperfront.zoo.data.people import ADULT

    names = list(ADULT.schema.columns)
    lines = gzip.decompress((DATA / ADULT.files[0]).read_bytes()).decode().splitlines()
    (tmp_path / "adult.csv").write_text("\n".join([", ".join(names), *lines]))
    made = tabular.problem(tmp_path / "adult.csv", "income", sensitive=("sex", "race"), positive=">50K")
    schema = made.make_target().schema
    declared = {name: bool(kinds) for name, kinds in ADULT.features.items()}
    assert {column.name: column.kind == "category" for column in schema.columns} == declared
    assert schema.classes == ("<=50K", ">50K") and len(schema.groups) == 10
    share = made.train.source.data[2].mean().item()
    assert 0.22 < share < 0.26 and sum(made.split(name).source.rows for name in SHARES) == 32_561


def test_a_frequent_value_is_a_bound_of_its_own_and_the_other_rows_have_the_quantiles():
    gain = np.zeros(1000)
    gain[:80] = np.linspace(100, 9000, 80)
    table = {"gain": gain, "y": np.tile([0, 1], 500)}
    column = tabular.problem(table, "y", split="rows").make_target().schema.columns[0]
    edges = np.array(column.edges)
    assert edges[0] == 0 and len(edges) == 18  # quantiles of all rows would be 0 and the largest
    assert (np.diff(edges) > 0).all() and edges[1] >= 100
    shares = np.histogram(gain[gain > 0], edges[1:])[0]
    assert shares.min() >= 2 and shares.max() <= 10  # of 80 rows in 16 intervals; the training rows have equally many


def test_the_documented_comparison_with_fairlearn_is_made_from_the_result_file():
    root = Path(__file__).parents[1]
    spec = importlib.util.spec_from_file_location("fair_tables", root / "benchmarks" / "fair_tables.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    for file in ("fair-tables.jsonl", "fair-tables-tuned.jsonl"):
        assert script.table(script.read(root / "docs/seen" / file)) in (root / "docs/tables.md").read_text()


@pytest.mark.parametrize("wrong", [{"mean": math.nan}, {"scale": math.nan}, {"scale": 0.0}, {"scale": math.inf}])
def test_a_column_needs_a_finite_mean_and_a_positive_scale(wrong):
    with pytest.raises(HyperfrontError, match="of a column"):
        tabular.Column("age", "number", **wrong)


@pytest.mark.parametrize(("kind", "unread"), [("date", "31.12.2024"), ("number", "high")])
def test_values_that_are_not_of_the_stated_kind_are_refused(kind, unread):
    table = people(200) | {"seen": [unread, None] * 100}
    with pytest.raises(DataError, match=rf"no {kind}[\s\S]*{unread}"):
        tabular.problem(table, target="paid", kinds={"seen": kind})
