"""The paper's items: they follow the paper, read the stored results, train what is missing once, and make one page."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
import torch
from torch import nn

from hyperfront import indicators
from hyperfront.comparison import Result
from hyperfront.comparison import compare as comparing
from hyperfront.errors import CheckpointError
from hyperfront.storage import files
from reproduction import ITEMS, Store, reproduce
from reproduction.attribution import integrated_gradients
from reproduction.costs import subset_volumes
from reproduction.item_result import ItemResult
from reproduction.items import document_of, markdown
from reproduction.paper import DEVIATIONS, NUMBERS, deviations_of
from reproduction.report import report
from reproduction.studies import STUDIES, Study
from reproduction.verdicts import STATEMENTS
from tests.helpers.chromium import chromium  # noqa: F401 (a fixture)
from tests.helpers.command import reproduction
from tests.helpers.data import DATA
from tests.helpers.interrupted import ctrl_c_after

RESULTS = Path(__file__).parents[1] / "reproduction" / "results"
MNIST, PEOPLE = ("multi-fashion-mnist", "multi-fashion", "multi-mnist"), ("adult", "default", "bank")
SMOKE = ("figure-4", "figure-8", "figure-9", "figure-10", "table-2", "table-4", "table-5", "appendix-b2")


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    """One store for all tests, as items share what they train."""
    folder = tmp_path_factory.mktemp("paper")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield Store(folder / "results", "smoke", runs=folder / "runs", data_dir=DATA)
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def asked() -> dict[str, set[str]]:
    """The studies that each item asked for."""
    return {name: set() for name in ITEMS}


@pytest.fixture(scope="module")
def stored(asked) -> dict[str, ItemResult]:
    """Every item, from the results in the repository."""

    class Recording(Store):
        def results(self, name: str, methods: Sequence[str] | None = None) -> list[Result]:
            asked[item].add(name)
            return super().results(name, methods)

    found = {}
    for item in ITEMS:
        found[item] = ITEMS[item].make(Recording(RESULTS, "full", train=False))
    return found


# ---- declarations --------------------------------------------------------------------------------------------


def test_every_table_and_figure_of_the_paper_is_an_item():
    wanted = {f"figure-{k}" for k in range(1, 13)} | {f"table-{k}" for k in range(1, 7)} | {"appendix-b2", "deviations"}
    assert set(ITEMS) == wanted


def test_every_item_comes_out_of_the_stored_results_to_the_byte(stored, tmp_path):
    for name, found in stored.items():
        folder, document = RESULTS / "full" / name, document_of(name, Store(RESULTS, "full"), found)
        files.write_json(tmp_path / "data.json", document)
        assert (tmp_path / "data.json").read_bytes() == (folder / "data.json").read_bytes(), name
        assert markdown(document) == (folder / "table.md").read_text(), name
        assert (folder / "figure.svg").exists() == (found.figure is not None)
        assert all(len(row) == len(table.columns) for table in found.tables for row in table.rows)


def test_studies_are_all_used(stored, asked):
    assert {name for studies in asked.values() for name in studies} == set(STUDIES)
    assert {name for each in DEVIATIONS.values() for name in each.items} <= set(ITEMS)


def test_the_departures_of_an_item_are_those_of_its_data(stored, asked):
    of_problem = {
        "sarcos": {"sarcos-rows", "sarcos-leak", "sarcos-hidden", "sarcos-batch"},
        "nyuv2": {"nyuv2", "nyuv2-split"},
        **{name: {"composites", "splits"} for name in MNIST},
        **{name: {"penalties", "people-split", "people-rays"} for name in PEOPLE},
    }
    for name, studies in asked.items():
        if name != "deviations":  # which is about all of them
            problems = {STUDIES[study].problem for study in studies}
            assert {each for problem in problems for each in of_problem.get(problem, ())} <= set(deviations_of(name))


@pytest.mark.parametrize(("number", "problems"), [(1, MNIST), (2, PEOPLE), (4, ["sarcos"])])
def test_tables_have_ours_beside_the_papers(number, problems, stored):
    found = stored[f"table-{number}"]
    for table, problem in zip(found.tables, problems):
        rows = {row[0].lower(): row for row in table.rows}
        for method, said in NUMBERS["own-rays"][problem].items():
            row, number = rows[method], found.numbers[table.title][method]
            assert row[4].startswith(f"{fmean(number['hypervolume']):.3f}") and [row[5], row[7]] == said
        assert rows["phn-epo, same rays"][2] == rows["epo"][2]
        assert int(rows["epo"][2]) < int(rows["phn-epo"][2])


def test_full_studies_follow_the_paper():
    pools = {
        "multi-fashion-mnist-25": 25,
        "multi-fashion-25": 25,
        "multi-mnist-25": 25,
        "adult-30": 30,
        "sarcos-40": 40,
    }
    assert {name: STUDIES[name].rays for name in pools} == pools
    for name, study in STUDIES.items():
        large = study.problem == "nyuv2" or study.preset.startswith("resnet18") or name in pools
        large = large or name.endswith(("-rate-phn", "-rate-others", "-40-rate"))
        assert study.seeds == (1 if large or name.endswith("-evolution") else 3), name
    assert STUDIES["fonseca-evolution"].options["nsga3"]["generations"] == 100_000
    names = ("multi-mnist-5", "adult-10", "nyuv2-5", "sarcos-paper-20")
    assert [STUDIES[name].rays for name in names] == [5, 10, 5, 20]


def test_a_study_for_a_test_asks_for_less_of_everything():
    for study in STUDIES.values():
        small = study.smoke()
        assert small.seeds == 1 and small.rays < study.rays
        assert small.recipe().epochs < study.recipe().epochs


def test_the_papers_times_are_those_of_one_model_times_the_rays():
    of_a_model = {("multi-mnist", "epo"): 23.6 * 5, ("adult", "epo"): 1.55 * 10, ("sarcos", "epo"): 0.5 * 20 * 60}
    for (problem, method), minutes in of_a_model.items():
        assert float(NUMBERS["minutes"][problem][method]) == pytest.approx(minutes)


# ---- training ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n == "figure-8" else pytest.mark.data) for n in SMOKE])
def test_an_item_runs_from_end_to_end(name, store):
    found, folder = reproduce(name, store)
    assert found.tables[0].rows and "smoke test" in found.notes[0]
    document = files.read_json(folder / "data.json")
    assert document["item"] == name and document["command"].startswith(f"python -m reproduction make {name} ")
    text = (folder / "table.md").read_text()
    assert all(table.title in text for table in found.tables)
    assert all(each.here in text for each in deviations_of(name).values())
    assert {file.suffix for file in folder.glob("figure.*")} == ({".png", ".svg"} if found.figure else set())


def test_what_is_finished_is_not_run_again_and_gives_the_same_bytes(store, monkeypatch):
    _, folder = reproduce("figure-8", store)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    runs = []
    run = comparing.__globals__["run_method"]
    monkeypatch.setitem(
        comparing.__globals__, "run_method", lambda name, *a, **k: runs.append(name) or run(name, *a, **k)
    )
    reproduce("figure-8", store)
    assert not runs
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    (store.folder("zdt2-5") / "results" / "ls-0.json").unlink()
    reproduce("figure-8", store)
    assert runs == ["ls"]


def test_settings_are_chosen_for_each_method_once(tmp_path, monkeypatch):
    few, rates = {"epochs": 2, "rays_per_step": 4}, {"lr": [1e-9, 1e-2]}  # the first leaves all at the start
    study = Study("zdt1", ("phn-epo", "epo"), 3, seeds=1, preset="best", changes=few, search=rates)
    monkeypatch.setitem(STUDIES, "tuned", study)
    store = Store(tmp_path / "results", "full", runs=tmp_path / "runs")
    rate_of = {result.method: result.settings["lr"] for result in store.results("tuned")}
    assert rate_of == {"phn-epo": 1e-2, "epo": 1e-2}
    tuned = json.loads((tmp_path / "results" / "full" / "tuned" / "zdt1-epo.json").read_text())
    assert tuned["settings"] == {"lr": 1e-2} and sum(tuned["trials"].values()) == 2
    with monkeypatch.context() as patch:
        patch.setattr("reproduction.store.tune", None)
        (tmp_path / "results" / "full" / "studies" / "tuned" / "results" / "epo-0.json").unlink()
        assert len(store.results("tuned")) == 2
    for changed in (replace(study, search={"lr": [1e-3]}), replace(study, changes={**few, "epochs": 3})):
        monkeypatch.setitem(STUDIES, "tuned", changed)
        with pytest.raises(CheckpointError, match="missing"):
            replace(store, train=False).tuned(changed, "epo")
        other = replace(store, runs=tmp_path / f"runs-{len(changed.search['lr'])}")
        assert other.tuned(changed, "epo") == {"lr": changed.search["lr"][-1]}


def test_times_are_measured_again_with_other_settings_and_models_measured_again(tmp_path, monkeypatch):
    study = Study("zdt1", ("phn-epo",), 3, seeds=1, preset="best", changes={"epochs": 1, "rays_per_step": 2})
    monkeypatch.setitem(STUDIES, "toy", study)
    store = Store(tmp_path / "results", "full", runs=tmp_path / "runs")
    calls = []

    def seconds() -> dict:
        monkeypatch.setattr(
            "reproduction.store.seconds_together", lambda *given: calls.append(given) or float(len(calls))
        )
        return store.seconds("toy", "phn-epo")

    def again() -> int:
        (result,) = store.results("toy")
        return store.measure("toy", result, "sum", lambda model, problem, run: calls.append("measured") or len(calls))

    assert [seconds()["training"] for _ in range(2)] == [1.0, 1.0] and (again(), again()) == (2, 2)
    monkeypatch.setitem(STUDIES, "toy", replace(study, changes={"epochs": 2, "rays_per_step": 2}))
    with pytest.raises(CheckpointError, match="missing"):
        replace(store, train=False).seconds("toy", "phn-epo")
    assert seconds()["training"] == 3.0
    shutil.rmtree(tmp_path / "runs")
    shutil.rmtree(store.folder("toy") / "results")
    store.results("toy")
    assert again() == 4
    file = store.folder("toy") / "results" / "phn-epo-0.json"
    found = Result.load(file)
    val = {**found.fronts["val"], "losses": [[1.01 * value for value in row] for row in found.fronts["val"]["losses"]]}
    replace(found, fronts={**found.fronts, "val": val}).save(file)
    assert again() == 4
    shutil.rmtree(store.folder("toy") / "measurements")
    with pytest.raises(CheckpointError, match="another model"):
        again()


def test_cpmtl_has_the_learning_rate_that_was_chosen_for_ls(tmp_path, monkeypatch):
    few, rates = {"epochs": 1, "rays_per_step": 4}, {"lr": [1e-9, 1e-2]}
    options = {"cpmtl": {"steps": 1}}
    study = Study("zdt1", ("cpmtl", "ls"), 3, seeds=1, preset="best", changes=few, search=rates, options=options)
    monkeypatch.setitem(STUDIES, "tuned", study)
    results = Store(tmp_path / "results", "full", runs=tmp_path / "runs").results("tuned")
    assert {result.method: result.settings["lr"] for result in results} == {"cpmtl": 1e-2, "ls": 1e-2}
    assert [path.name for path in (tmp_path / "results" / "full" / "tuned").iterdir()] == ["zdt1-ls.json"]


def test_options_of_the_solver_are_settings_of_hypernetworks(tmp_path, monkeypatch):
    few = {"epochs": 1, "rays_per_step": 2}
    study = Study("zdt1", ("phn-epo", "ls"), 3, seeds=1, preset="best", changes=few)
    monkeypatch.setitem(STUDIES, "usual", study)
    monkeypatch.setitem(STUDIES, "other", replace(study, solver={"space": "hypernetwork"}))
    store = Store(tmp_path / "results", "full", runs=tmp_path / "runs")
    (usual, same), (other, as_same) = (store.results(name) for name in ("usual", "other"))
    assert other.settings == {**usual.settings, "solver": {"space": "hypernetwork"}} and other.fronts != usual.fronts
    assert as_same.settings == same.settings and as_same.fronts == same.fronts
    assert (
        json.loads((tmp_path / "runs/full/other/phn-epo-0/config.json").read_text())["solver"]["space"]
        == "hypernetwork"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"alpha": 0.5},
        {"solver": {"something": 1}},
        {"model": {"initialization": "plain", "hidden": 50}},
        {"arguments": {"relu": False, "shift": 0, "split": "paper"}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_result_with_other_settings_than_its_study_is_refused(tmp_path, changes):
    own = RESULTS / "full" / "studies" / "multi-mnist-phn" / "results"
    folder = tmp_path / own.relative_to(RESULTS)
    shutil.copytree(own, folder)
    store = Store(tmp_path, "full", train=False)
    assert [(r.method, r.seed) for r in store.results("multi-mnist-phn", ["phn-ls"])] == [
        ("phn-ls", k) for k in range(3)
    ]
    found = Result.load(folder / "phn-ls-1.json")
    replace(found, settings={**found.settings, **changes}).save(folder / "phn-ls-1.json")
    with pytest.raises(CheckpointError, match="other settings"):
        store.results("multi-mnist-phn")


def test_a_missing_part_is_named_where_nothing_is_trained(tmp_path):
    studies = [f"{name}-{part}" for name in ("problem2", "zdt2", "zdt2-sigmoid") for part in ("phn", "5")]
    for name in studies:
        shutil.copytree(RESULTS / "full" / "studies" / name, tmp_path / "full" / "studies" / name)
    store = Store(tmp_path, "full", train=False)
    assert ITEMS["figure-8"].make(store).tables
    (tmp_path / "full" / "studies" / "zdt2-5" / "results" / "ls-1.json").unlink()
    with pytest.raises(CheckpointError, match="zdt2-5: ls, seed 1"):
        ITEMS["figure-8"].make(store)


# ---- pieces ----------------------------------------------------------------------------------------------------


def test_volumes_of_subsets_lie_between_those_of_the_worst_and_the_best_subset():
    losses, reference = torch.rand(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64), (1.0, 1.0)
    found = subset_volumes(losses, reference)
    assert list(found) == [1, 2, 3, 4, 5, 6]
    for size, (mean, deviation) in found.items():
        all_of_them = [
            indicators.hypervolume(losses[list(rows)], reference) for rows in itertools.combinations(range(6), size)
        ]
        assert min(all_of_them) <= mean <= max(all_of_them)
        assert deviation <= max(all_of_them) - min(all_of_them)
        assert mean == pytest.approx(fmean(all_of_them), abs=4 * deviation / 50**0.5 + 1e-12)
    assert found[6] == (pytest.approx(indicators.hypervolume(losses, reference)), 0.0)


ALL = torch.arange(10)[None]


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.Tanh())
        self.left, self.right = nn.Linear(12, 10), nn.Linear(12, 10)

    def forward(self, x):
        return self.left(self.body(x)), self.right(self.body(x))


def test_attributions_add_up_to_the_change_of_the_score():
    network, images, ray = TwoHeads(), torch.rand(3, 1, 4, 4), torch.tensor([0.3, 0.7])
    found = integrated_gradients(network, images, ray, ALL.expand(3, -1), steps=200)

    def score(x):
        return sum(r * logits.softmax(-1) for r, logits in zip(ray, network(x)))

    change = score(images) - score(torch.zeros_like(images))
    torch.testing.assert_close(found.sum((2, 3)), change, atol=1e-5, rtol=1e-3)
    torch.testing.assert_close(
        integrated_gradients(network, images[1:2], ray, torch.tensor([[7, 3]]), steps=200), found[1:2, [7, 3]]
    )
    assert not integrated_gradients(network, torch.zeros(1, 1, 4, 4), ray, ALL).any()


def test_a_ray_at_one_end_looks_at_one_task():
    network, image = TwoHeads(), torch.rand(1, 1, 4, 4)
    before = integrated_gradients(network, image, torch.tensor([1.0, 0.0]), ALL)
    nn.init.normal_(network.right.weight)
    torch.testing.assert_close(integrated_gradients(network, image, torch.tensor([1.0, 0.0]), ALL), before)


# ---- the page --------------------------------------------------------------------------------------------------


def test_the_page_has_the_items_that_were_made(tmp_path, page_file):
    text = page_file.read_text()
    assert all(f'<section id="{name}">' in text for name in ITEMS)
    assert all(f"python -m reproduction make {name} --preset full" in text for name in ITEMS)
    shutil.copytree(RESULTS / "full" / "table-5", tmp_path / "full" / "table-5")
    text = report(tmp_path)
    assert [name for name in ITEMS if f'<section id="{name}">' in text] == ["table-5"]


def test_the_page_begins_with_what_holds(page_file):
    start = page_file.read_text().partition("</ul>")[0]
    assert len(STATEMENTS) == start.count('class="says"') and '<section id="figure-1">' not in start
    for statement in STATEMENTS:
        assert statement.says.replace("'", "&#39;") in start
        assert all(f'href="#{item}"' in start for item in statement.items)


def test_the_page_reads_an_item_of_the_schema_before(tmp_path):
    document = files.read_json(RESULTS / "full" / "table-5" / "data.json")
    del document["expected"]
    claim = {"text": "as many rows", "holds": True, "numbers": "all", "close": False, "kind": "others"}
    files.write_json(tmp_path / "full" / "table-5" / "data.json", document | {"schema": 2, "claims": [claim]})
    assert "Rows of the fairness data" in report(tmp_path)


def test_the_page_is_one_file_and_escapes_what_comes_from_files(tmp_path):
    hostile = replace(
        Result.load(next(RESULTS.glob("fairness/adult-best-ls-0.json"))), problem="<script>alert(1)</script>"
    )
    hostile.save(tmp_path / "hostile.json")
    (tmp_path / "notes.md").write_text("One is <b>odd</b>\nand long.\n\nTwo.\n")
    text = report(tmp_path)
    assert "<script" not in text and "&lt;script&gt;" in text
    assert "One is &lt;b&gt;odd&lt;/b&gt; and long.</p>" in text and ">Two.</p>" in text
    addresses = re.findall(r'(?:src|href)="([^"]{0,40})', text)
    assert {address for address in addresses if not address.startswith(("#", "data:"))} == {
        "https://arxiv.org/abs/2010.04104"
    }


@pytest.fixture(scope="module")
def page_file(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(report(RESULTS))
    return file


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_the_page_reads_well(width, scheme, chromium, page_file):  # noqa: F811
    context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True)
    page, problems = context.new_page(), []
    page.on("console", lambda message: problems.append(message.text))
    page.on("requestfailed", lambda request: problems.append(request.url[:80]))
    page.goto(page_file.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == width  # wide tables scroll in their own boxes
    images = page.evaluate("[...document.images].map(i => [i.naturalWidth, i.getBoundingClientRect().width])")
    assert len(images) >= 3 and all(natural > 0 and shown >= 400 for natural, shown in images)  # large enough to read
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground))) > 384) == (scheme == "light")
    page.click('#overview a[href="#figure-8"]')
    page.wait_for_function("Math.abs(document.getElementById('figure-8').getBoundingClientRect().top) < 5")
    assert not problems
    context.close()


# ---- the command line ------------------------------------------------------------------------------------------


def test_the_commands(tmp_path):
    text = reproduction("make", "--out", "results", "figure-12", "figure-2", folder=tmp_path)
    assert "31,910" in text and (tmp_path / "results" / "smoke" / "figure-12" / "figure.png").exists()
    assert all(name in reproduction("list", folder=tmp_path) for name in ITEMS)
    reproduction("report", str(RESULTS), "--out", "page.html", folder=tmp_path)
    assert "Learning the Pareto front" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["make"], "reproduction list"),
        (["make", "tabel-1"], "did you mean 'table-1'"),
        (["make", "figure-1", "--preset", "ful"], "did you mean 'full'"),
        (["make", "figure-1", "--device", "tpu"], "cannot use this device"),
        (["report", "."], "holds no results"),
        (["report", str(RESULTS / "full")], "holds no results"),
    ],
)
def test_mistakes_get_an_answer(words, message, tmp_path):
    assert message in reproduction(*words, folder=tmp_path, code=2)


def test_ctrl_c_says_how_to_continue(tmp_path):
    with ctrl_c_after(1):
        said = reproduction("make", "figure-8", "--out", "results", "--preset", "full", folder=tmp_path, code=130)
    assert "stopped in figure-8; the same command continues" in said


def test_an_item_whose_data_are_missing_does_not_stop_the_others(tmp_path):
    (tmp_path / "data").mkdir()
    text = reproduction(
        "make", "--out", "results", "table-2", "figure-12", "--data-dir", "data", folder=tmp_path, code=2
    )
    assert "some items failed" in text and "table-2" in text
    assert (tmp_path / "results" / "smoke" / "figure-12" / "figure.png").exists()
