"""Kept hypervolume, paired intervals, and results of an earlier numerics version."""

from __future__ import annotations

import json
import math

import pytest
import torch

from hyperfront import indicators
from hyperfront.comparison.kept import measured
from hyperfront.comparison.paired import paired
from hyperfront.comparison.result import Result
from hyperfront.errors import HyperfrontError
from hyperfront.storage.provenance import NUMERICS
from reproduction.outdated import outdated, plan, rerun
from reproduction.store import Store
from reproduction.studies import STUDIES


@pytest.mark.parametrize("seed", range(5))
def test_kept_hypervolume_is_what_a_user_gets_who_chose_on_validation_data(seed):
    generator = torch.Generator().manual_seed(seed)
    val, test = torch.rand(2, 12, 3, generator=generator, dtype=torch.float64)
    found = measured(val, test, (1, 1, 1))
    keep = [i for i in range(12) if not any((val[j] <= val[i]).all() and (val[j] < val[i]).any() for j in range(12))]
    assert found.kept == pytest.approx(indicators.hypervolume(test[keep], (1, 1, 1)))
    assert found.kept <= found.pooled and found.single <= found.pooled
    assert measured(test, test, (1, 1, 1)).kept == pytest.approx(found.pooled)  # nothing of value is dropped
    assert found.single == pytest.approx(sum((1 - row).prod().item() for row in test) / 12)


def test_the_paired_interval_is_student_s_and_covers_as_often_as_it_says():
    found = paired({0: 1.0, 1: 2.0, 2: 4.0, 9: 0.0}, {2: 3.0, 1: 2.0, 0: 2.0})
    assert found.seeds == 3 and found.mean == 0 and found.verdict == "open"
    assert found.high == pytest.approx(4.302653 * 1.0 / math.sqrt(3), rel=1e-5)  # t of 2 degrees; s = 1
    generator = torch.Generator().manual_seed(0)
    draws = torch.randn(2000, 5, generator=generator) * 0.1 + 0.3
    intervals = [paired(dict(enumerate(row.tolist())), dict.fromkeys(range(5), 0.0)) for row in draws]
    covered = sum(each.low <= 0.3 <= each.high for each in intervals)
    assert 0.935 < covered / 2000 < 0.965
    with pytest.raises(HyperfrontError, match="two seeds"):
        paired({0: 1.0, 1: 2.0}, {1: 2.0, 3: 1.0})


def test_outdated_results_are_listed_planned_and_run_again(tmp_path, monkeypatch):
    store = Store(tmp_path, "smoke", device="cpu", runs=tmp_path / "runs")
    name = next(name for name, study in STUDIES.items() if study.problem == "fonseca")
    method = store.study(name).methods[0]
    store.results(name, [method])
    (file,) = store.folder(name).glob(f"results/{method}-0.json")
    assert Result.load(file).environment["numerics"] == NUMERICS and not outdated(tmp_path)
    document = json.loads(file.read_text())
    del document["environment"]["numerics"]
    document["fronts"]["test"]["hypervolume"] = -1.0
    file.write_text(json.dumps(document))
    (old,) = outdated(tmp_path)
    assert (old.numerics, old.study, old.file) == (0, name, file)
    assert not plan([old], 0.0, "cpu") and not plan([old], 1e9, "cuda")
    (chosen,) = plan([old], 1e9, "cpu")

    def fails(*_):
        raise HyperfrontError("no data")

    with monkeypatch.context() as patched, pytest.raises(HyperfrontError):
        patched.setattr(Store, "results", fails)
        rerun(store, [chosen])
    assert json.loads(file.read_text()) == document  # a failed run leaves the old result
    rerun(store, [chosen])
    assert not outdated(tmp_path) and Result.load(file).fronts["test"]["hypervolume"] > 0
    assert not list(file.parent.glob("*.old"))
