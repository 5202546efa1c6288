"""Results of runs, and the table made from them."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

import hyperfront as hf
from hyperfront.comparison import Result, summarize
from hyperfront.comparison.result import load_folder
from hyperfront.comparison.table import COLUMNS
from hyperfront.comparison.tuned import Tuned
from hyperfront.errors import CheckpointError
from hyperfront.indicators import uniformity
from hyperfront.problem.registry import problems
from hyperfront.storage.provenance import describe

STORED = Path(__file__).parents[1] / "reproduction" / "results" / "full"


def result(seed: int, losses: list[list[float]], solver: str = "epo") -> Result:
    rays = [[0.8, 0.2], [0.5, 0.5]]
    front = {
        "hypervolume": 1.0 + seed,
        "uniformity": uniformity(torch.tensor(losses), torch.tensor(rays)).mean().item(),
        "nondominated": 1.0,
        "losses": losses,
        "scores": {"accuracy": [0.5, 0.9], "fpr_gap": [0.2, 0.1]},
    }
    return Result(
        problem="adult", preset="best", solver=solver, seed=seed, settings={"arguments": {}}, parameters=1,
        seconds={"training": 2.0, "total": 3.0}, objectives=("a", "b"), reference=(2.0, 2.0), convention="inverse",
        rays=rays, fronts={"val": front, "test": front}, status={"as_named": 3}, environment={},
    )  # fmt: skip


ON_RAYS = [[0.2, 0.8], [0.5, 0.5]]
OFF_RAYS = [[0.5, 0.5], [0.8, 0.21]]


def test_results_at_other_rays_have_a_row_of_their_own():
    first = result(0, ON_RAYS)
    others = [replace(first, rays=rays) for rays in (hf.rays(2, m=2).tolist(), [[0.4, 0.6], [0.6, 0.4]])]
    rays = {dict(zip(COLUMNS, row))["rays"] for row in summarize([first, *others])}
    assert len(rays) == 3 and "2" in rays


def test_results_of_other_settings_have_a_row_of_their_own_whatever_the_problem_and_method():
    runs = ((0, 3), (1, 3), (0, 9))
    own = [replace(result(seed, ON_RAYS), problem="mine", settings={"epochs": epochs}) for seed, epochs in runs]
    rows = [dict(zip(COLUMNS, row)) for row in summarize(own)]
    assert [(row["preset"], row["seeds"]) for row in rows] == [("best, epochs=3", "2"), ("best, epochs=9", "1")]
    some = replace(result(0, ON_RAYS), family="cpmtl", solver="cpmtl", rays=[])
    some = replace(some, fronts={split: {**front, "uniformity": None} for split, front in some.fronts.items()})
    expanded = [replace(some, settings={"rays": [[0.5, 0.5]] * count}) for count in (5, 10)]
    assert {dict(zip(COLUMNS, row))["rays"] for row in summarize(expanded)} == {"from 5", "from 10"}


def test_two_results_of_the_same_settings_are_said():
    with pytest.warns(UserWarning, match="adult, best, phn-epo, seed 0"):
        (row,) = summarize([result(0, ON_RAYS), replace(result(0, OFF_RAYS), fronts=result(1, OFF_RAYS).fronts)])
    assert dict(zip(COLUMNS, row))["HV"] == "1.000"


def test_a_row_is_the_mean_and_spread_over_seeds_and_the_best_score_over_rays():
    (row,) = summarize([result(0, ON_RAYS), result(1, ON_RAYS)])
    cells = dict(zip(COLUMNS, row))
    assert cells["seeds"] == "2" and cells["HV"] == "1.500 +- 0.707"
    assert cells["best scores"] == "accuracy 0.900 +- 0.000, fpr_gap 0.100 +- 0.000"


def test_uniformity_is_compared_with_what_any_result_reaches():
    rows = {dict(zip(COLUMNS, r))["method"]: dict(zip(COLUMNS, r)) for r in summarize(
        [result(0, ON_RAYS), result(0, OFF_RAYS, solver="ls")]
    )}  # fmt: skip
    assert float(rows["phn-epo"]["of attainable"]) == pytest.approx(1)
    assert float(rows["phn-ls"]["of attainable"]) < 0.9
    alone = dict(zip(COLUMNS, summarize([result(0, [[0.5, 0.5], [0.5, 0.5]], solver="ls")])[0]))
    assert float(alone["of attainable"]) == pytest.approx(1)  # nothing better is known


def test_losses_that_cannot_be_compared_are_other_data():
    logits = replace(result(0, [[0.5, 0.5], [0.5, 0.5]]), settings={"arguments": {"gap": "logit"}})
    rows = [dict(zip(COLUMNS, row)) for row in summarize([result(0, ON_RAYS), logits])]
    assert [row["data"] for row in rows] == ["logit", "probability"]
    assert {row["of attainable"] for row in rows} == {"1.000"}


def test_settings_that_are_not_those_of_the_preset_are_named_and_the_same_run_counts_once():
    wider = replace(result(0, ON_RAYS), settings={"arguments": {}, "model": {"hidden": 7}, "alpha": 0.5})
    rows = [dict(zip(COLUMNS, row)) for row in summarize([result(0, ON_RAYS), wider, result(0, ON_RAYS)])]
    assert [(row["preset"], row["seeds"]) for row in rows] == [("best", "1"), ("best, alpha=0.5, hidden=7", "1")]


def test_a_file_gives_back_what_was_saved_and_others_are_refused(tmp_path):
    found = result(0, ON_RAYS)
    found.save(tmp_path / "r.json")
    again = Result.load(tmp_path / "r.json")
    assert again.fronts == found.fronts and list(again.objectives) == ["a", "b"]
    document = json.loads((tmp_path / "r.json").read_text())
    for damage in ({"format": "x"}, {"schema": 99}, {"fronts": {}}, {"fronts": {"val": 1, "test": 2}}):
        (tmp_path / "bad.json").write_text(json.dumps(document | damage))
        with pytest.raises(CheckpointError, match=r"bad\.json"):
            Result.load(tmp_path / "bad.json")


NAN = float("nan")
SPOILT: dict[tuple[str | int, ...], tuple] = {
    ("fronts", "test", "losses", 0, 0): (None, "a", NAN, True, [1.0]),
    ("fronts", "val", "losses"): ([], [[1.0]], "ab", 3),
    ("fronts", "test", "losses"): ([[1.0, 2.0, 3.0]] * 2, [[1.0, 2.0]]),
    ("fronts", "test", "hypervolume"): ("a", NAN, []),
    ("fronts", "test", "uniformity"): ("a", NAN, {}),
    ("fronts", "test", "nondominated"): ("a",),
    ("fronts", "test", "scores"): ([], 3, {"accuracy": 3}, {"accuracy": ["a", "b"]}, {"accuracy": [0.5]}),
    ("rays",): (None, [[1]], [[0.5, 0.5]], [[1.5, -0.5]] * 2, [[3.0, 4.0]] * 2, "ab", 3, {}),
    ("objectives",): (3, "ab", ["a"], ["a", "a"], [1, 2], ["a", "b", "c"]),
    ("settings",): ([], 3, "x", {"arguments": 3}, {"model": []}, {"solver": "x"}, {"rays": 3}, None),
    ("solver",): (3, None),
    ("problem",): (3, []),
    ("preset",): (None,),
    ("family",): (3,),
    ("reference",): (["a", "b"], [1.0], 3, [NAN, 1.0]),
    ("seed",): ("x", 1.5, None, -1),
    ("convention",): ("x", 3, []),
    ("parameters",): ("x", None),
    ("status",): ([], {"as_named": "x"}),
    ("seconds",): ({}, "a", {"training": "a"}, {"training": NAN}, []),
    ("environment",): (3,),
    ("maximize",): ({"accuracy": 3}, 3),
    ("more",): (3,),
}


@pytest.mark.parametrize("place", SPOILT, ids=lambda place: "-".join(map(str, place)))
def test_one_wrong_value_in_a_file_is_an_error_that_names_the_file(place, tmp_path):
    result(0, ON_RAYS).save(tmp_path / "r.json")
    for value in SPOILT[place]:
        document = json.loads((tmp_path / "r.json").read_text())
        inner = document
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value
        (tmp_path / "bad.json").write_text(json.dumps(document))
        with pytest.raises(CheckpointError, match=r"bad\.json"):
            Result.load(tmp_path / "bad.json")


def test_results_that_do_not_fit_together_still_give_a_table():
    found = result(0, ON_RAYS)
    other = replace(found, seed=1, objectives=("a", "b", "c"))
    with pytest.warns(UserWarning, match="other objectives"):
        assert summarize([found, other]) == summarize([found])
    test = found.fronts["test"] | {"scores": {"accuracy": [0.5] * len(found.rays)}}
    (row,) = summarize([found, replace(found, seed=1, fronts=found.fronts | {"test": test})])
    assert "fpr_gap" not in dict(zip(COLUMNS, row))["best scores"]


@pytest.mark.parametrize(
    ("kind", "file", "settings"),
    [
        (Result, "studies/sarcos-blocks-phn/results/phn-epo-0.json", "settings"),
        (Tuned, "tuned/sarcos-phn-epo.json", "made_with"),
    ],
)
def test_a_file_of_the_schema_before_is_read_and_saved_in_todays(kind, file, settings, tmp_path):
    stored = json.loads((STORED / file).read_text())
    assert stored.get("schema", 1) == 1 and "initialisation" in stored[settings]["model"]
    found, copy = kind.load(STORED / file), tmp_path / "today.json"
    assert getattr(found, settings)["model"]["initialization"] == stored[settings]["model"]["initialisation"]
    found.save(copy)
    assert json.loads(copy.read_text())["schema"] == 2 and "initialisation" not in copy.read_text()
    assert kind.load(copy) == found


@pytest.mark.parametrize("text", ['{"format": "hyperfront-result", "sch', '["hyperfront-result"]'])
def test_one_damaged_file_hides_no_other_and_is_named(text, tmp_path):
    result(0, ON_RAYS).save(tmp_path / "r.json")
    (tmp_path / "other.json").write_text("{}")  # of something else
    (tmp_path / "bad.json").write_text(text)
    with pytest.warns(UserWarning, match=r"skipped.*bad\.json") as warned:
        (found,) = load_folder(tmp_path)
    assert found.seed == 0 and len(warned) == 1


@pytest.mark.parametrize("family", ["phn", "per-ray"])
def test_the_settings_of_a_preset_are_those_for_the_family_of_the_method(family):
    own = problems()["multi-mnist"].presets["best"]
    recipe = own if family == "phn" else own.for_separate_models()
    known = replace(result(0, ON_RAYS), problem="multi-mnist", family=family, settings=describe(asdict(recipe)))
    changed = replace(known, settings=known.settings | {"align": not own.align})  # which hypernetworks alone have
    named = [dict(zip(COLUMNS, *summarize([each])))["preset"] for each in (known, changed)]
    assert named == ["best", f"best, align={not own.align}" if family == "phn" else "best"]
