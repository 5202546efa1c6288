"""The paper's items: every one runs as a smoke test, what is finished is not run again, and the page shows it all."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean

import pytest
import torch
from torch import nn

from hyperfront import indicators
from hyperfront.comparison import Result
from hyperfront.comparison import compare as comparing
from hyperfront.comparison.baselines import Expansion
from hyperfront.errors import CheckpointError
from reproduction import ITEMS, Workshop, numbers, reproduce
from reproduction.attribution import integrated_gradients
from reproduction.deviations import DEVIATIONS
from reproduction.report import collect, report
from reproduction.runtime import subset_volumes
from reproduction.studies import STUDIES, TOY, Study
from tests.helpers.chromium import chromium  # noqa: F401 (a fixture)
from tests.helpers.command import reproduction
from tests.helpers.data import DATA

RESULTS = Path(__file__).parents[1] / "reproduction" / "results"
WITHOUT_DATA = ("figure-1", "figure-2", "figure-7", "figure-8", "figure-12")
WITHOUT_FIGURE = ("table-1", "table-2", "table-3", "table-4", "table-5", "table-6", "appendix-b2", "deviations")


@pytest.fixture(scope="module")
def workshop(tmp_path_factory) -> Workshop:
    """One for all tests, as items share what they train."""
    folder = tmp_path_factory.mktemp("paper")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield Workshop(folder / "results", "smoke", runs=folder / "runs", data_dir=DATA)
    torch.set_num_threads(threads)


# ---- declarations --------------------------------------------------------------------------------------------


def test_every_table_and_figure_of_the_paper_is_an_item():
    wanted = {f"figure-{k}" for k in range(1, 13)} | {f"table-{k}" for k in range(1, 7)} | {"appendix-b2", "deviations"}
    assert set(ITEMS) == wanted


@dataclass(frozen=True, eq=False)
class Recording(Workshop):
    """Keeps which studies were asked for, and which of their methods."""

    asked: dict[str, set[str]] = field(default_factory=dict)

    def results(self, name: str, methods: Sequence[str] | None = None) -> list[Result]:
        self.asked.setdefault(name, set()).update(methods or STUDIES[name].methods)
        return super().results(name, methods)


@pytest.fixture(scope="module")
def asked() -> dict[str, dict[str, set[str]]]:
    """By item."""
    found = {}
    for name, item in ITEMS.items():
        item.make(workshop := Recording(RESULTS, "full", train=False))
        found[name] = workshop.asked
    return found


def test_studies_are_all_used_and_no_item_needs_another(asked):
    assert {name for studies in asked.values() for name in studies} == set(STUDIES)
    named = {name for item in ITEMS.values() for name in item.deviations}
    assert named == set(DEVIATIONS)


def test_an_item_names_the_departures_of_its_data_and_methods(asked):
    of_problem = {
        "sarcos": {"sarcos-rows", "sarcos-leak", "sarcos-hidden", "sarcos-batch"},
        "nyuv2": {"nyuv2", "nyuv2-split"},
        **{name: {"composites", "splits"} for name in ("multi-mnist", "multi-fashion", "multi-fashion-mnist")},
        **{name: {"penalties", "people-split", "people-rays"} for name in ("adult", "default", "bank")},
    }
    of_method = {"pmtl": "pmtl", "cpmtl": "cpmtl", "nsga3": "generations", "moead": "generations"}
    for name, studies in asked.items():
        if name == "deviations":  # is about all of them
            continue
        named = set(ITEMS[name].deviations)
        for study, methods in studies.items():
            problem = STUDIES[study].problem
            assert of_problem.get(problem, set()) <= named, (name, problem)
            assert {of_method[method] for method in methods & of_method.keys()} <= named, (name, methods)


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
    assert STUDIES["fonseca-evolution"].budget.generations == 100_000
    names = ("multi-mnist-5", "adult-10", "nyuv2-5", "sarcos-paper-20")
    assert [STUDIES[name].rays for name in names] == [5, 10, 5, 20]


def test_a_study_for_a_test_asks_for_less_of_everything():
    for study in STUDIES.values():
        small = study.shrunk()
        assert small.seeds == 1 and small.rays < study.rays and set(small.methods) <= set(study.methods)
        assert small.recipe().epochs < study.recipe().epochs


def test_the_papers_times_are_those_of_one_model_times_the_rays():
    assert numbers.MINUTES["multi-mnist"]["epo"] == pytest.approx(23.6 * 5)
    assert numbers.MINUTES["adult"]["epo"] == pytest.approx(1.55 * 10)
    assert numbers.MINUTES["nyuv2"]["pmtl"] == pytest.approx(4.79 * 60)
    assert numbers.MINUTES["sarcos"]["epo"] == pytest.approx(0.5 * 20 * 60)


# ---- every item, as a smoke test -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in WITHOUT_DATA else pytest.mark.data) for n in ITEMS])
def test_an_item_runs_from_end_to_end_within_ten_seconds(name, workshop, tmp_path):
    fresh = replace(workshop, out=tmp_path / "results", runs=tmp_path / "runs")  # which shares no more than the data
    start = time.process_time()
    finding, folder = reproduce(name, ITEMS[name], fresh)
    assert time.process_time() - start < 10
    assert not finding.missing
    document = json.loads((folder / "data.json").read_text())
    assert document["item"] == name and document["command"] == f"python -m reproduction make {name} --preset smoke"
    assert document["tables"] and all(
        len(row) == len(table["columns"]) for table in document["tables"] for row in table["rows"]
    )
    text = (folder / "table.md").read_text()
    assert all(table["title"] in text for table in document["tables"])
    assert bool(document["environments"]) == (ITEMS[name].trains)
    differences = (folder / "differences.md").read_text()
    assert all(DEVIATIONS[each].here in differences for each in ITEMS[name].deviations)
    figures = {file.suffix: file.read_bytes() for file in folder.glob("figure.*")}
    if name in WITHOUT_FIGURE:
        assert not figures
    else:
        assert figures[".png"].startswith(b"\x89PNG") and b"</svg>" in figures[".svg"]


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "paper"),
    [("table-1", numbers.TABLE_1), ("table-2", numbers.TABLE_2), ("table-4", numbers.TABLE_4)],
)
def test_tables_have_ours_beside_the_papers(name, paper, workshop):
    finding, _ = reproduce(name, ITEMS[name], workshop)
    for table, problem in zip(finding.tables, paper):
        rows = {row[0].lower(): row for row in table.rows}
        for method, said in paper[problem].items():
            row, number = rows[method], finding.numbers[table.title][method]
            cells = dict(zip(table.columns[:5], row))
            assert cells["HV"] == f"{number['hypervolume'][0]:.3f}" and cells["seeds"] == "1"
            assert float(row[5]) == said.hypervolume
            assert row[7] == ("-" if said.uniformity is None else f"{said.uniformity:.3f}")
        assert rows["phn-epo, same rays"][2] == rows["epo"][2]
        assert int(rows["epo"][2]) < int(rows["phn-epo"][2])


def test_what_is_finished_is_not_run_again_and_gives_the_same_bytes(workshop, monkeypatch):
    _, folder = reproduce("figure-8", ITEMS["figure-8"], workshop)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    runs = []
    run = comparing.__globals__["run_method"]
    monkeypatch.setitem(
        comparing.__globals__, "run_method", lambda name, *a, **k: runs.append(name) or run(name, *a, **k)
    )
    reproduce("figure-8", ITEMS["figure-8"], workshop)
    assert not runs
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    (workshop.folder("zdt2-5") / "results" / "ls-0.json").unlink()
    reproduce("figure-8", ITEMS["figure-8"], workshop)
    assert runs == ["ls"]


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


# ---- the report ------------------------------------------------------------------------------------------------


def test_the_report_uses_result_files_that_are_there_and_lists_what_is_missing():
    sections = {each.name: each for each in collect(RESULTS)}
    files = sorted(RESULTS.glob("full/studies/multi-mnist-phn/results/phn-epo-*.json"))
    known = [Result.load(file).fronts["test"]["hypervolume"] for file in files]
    table = next(t for t in sections["table-1"].finding.tables if t.title == "Multi-MNIST")
    rows = {row[0]: row for row in table.rows}
    assert rows["PHN-EPO"][4].startswith(f"{fmean(known):.3f}") and rows["PHN-EPO"][5] == "2.78"
    assert sections["table-1"].state in ("partial", "complete")


def test_what_is_missing_of_an_item_is_named(tmp_path):
    """Seeds, and looks at the rays of the baselines; results with other settings are none."""
    full = tmp_path / "full"
    rates = ("adult-rate-0.001", "adult-rate-0.0005", "adult-rate-0.0001")
    for part in ("tuned", *(f"studies/{name}" for name in ("adult-10", "adult-phn", *rates))):
        shutil.copytree(RESULTS / "full" / part, full / part)
    (full / "studies" / "adult-10" / "results" / "pmtl-2.json").unlink()
    (full / "studies" / "adult-phn" / "looks" / "phn-ls-1-at-10-rays.json").unlink()
    (full / "studies" / "adult-10" / "times" / "epo.json").unlink()
    (full / "studies" / "adult-10" / "looks" / "nsga3-1-population.json").unlink()
    (full / "studies" / "adult-rate-0.0005" / "results" / "ls-2.json").unlink()
    strange = full / "studies" / "adult-10" / "results" / "ls-0.json"
    found = Result.load(strange)
    replace(found, settings={**found.settings, "lr": 0.7}).save(strange)
    (section,) = (each for each in collect(tmp_path) if each.name == "table-2")
    assert section.state == "partial"
    assert [text for text in section.finding.missing if text.startswith("Adult")] == [
        "Adult: ls with another learning rate, 1 of 3 seeds",
        "Adult: ls, 1 of 3 seeds",
        "Adult: pmtl, 1 of 3 seeds",
        "Adult: phn-ls at the rays of the baselines",
        "Adult: epo, its time",
        "Adult: nsga3, its population",
    ]


def test_a_result_file_counts_for_a_study_only_with_the_same_settings(tmp_path):
    own = tmp_path / "full" / "studies" / "multi-mnist-phn" / "results"
    found = Result.load(RESULTS / own.relative_to(tmp_path) / "phn-ls-1.json")
    others = {
        "alpha": {**found.settings, "alpha": 0.5},
        "solver": {**found.settings, "solver": {"something": 1}},
        "hidden": {**found.settings, "model": {**found.settings["model"], "hidden": 50}},
        "split": {**found.settings, "arguments": {**found.settings["arguments"], "split": "paper"}},
    }
    for name, settings in others.items():
        replace(found, settings=settings).save(own / f"{name}.json")
    replace(found, rays=found.rays[:5], settings={}).save(own / "rays.json")
    assert not Workshop(tmp_path, "full", train=False).results("multi-mnist-phn")
    found.save(own / "same.json")
    (result,) = Workshop(tmp_path, "full", train=False).results("multi-mnist-phn")
    assert (result.method, result.seed) == ("phn-ls", 1)


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


def test_an_empty_folder_gives_a_report_with_the_papers_numbers(tmp_path):
    text = report(tmp_path)
    assert '<td class="paper">2.78</td>' in text and '<td class="gap">missing</td>' in text
    assert "0 as a smoke test" in text
    assert all(f'<section id="{name}">' in text for name in ITEMS)
    assert all(f"python -m reproduction make {name} --preset full" in text for name in ITEMS)


@pytest.fixture(scope="module")
def page_file(workshop) -> Path:
    reproduce("figure-8", ITEMS["figure-8"], workshop)
    file = workshop.out / "report.html"
    file.write_text(report(workshop.out))
    return file


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


def state_of(item: str, text: str) -> list[str]:
    """The last two columns of an item in the list."""
    (line,) = (line for line in text.splitlines() if line.startswith(f"{item} "))
    return [word.strip() for word in re.split(r"\s{2,}", line.strip())[-2:]]


def test_what_is_in_the_list_is_what_is_there_now(tmp_path):
    """Not what was there when the item was made last."""
    full = tmp_path / "results" / "full"
    for name in ("problem2", "zdt2", "zdt2-sigmoid"):
        for part in ("phn", "5"):
            shutil.copytree(RESULTS / "full" / "studies" / f"{name}-{part}", full / "studies" / f"{name}-{part}")
    assert state_of("figure-8", reproduction("list", "--out", "results", folder=tmp_path)) == ["ready", "-"]
    shutil.copytree(RESULTS / "full" / "figure-8", full / "figure-8")
    assert state_of("figure-8", reproduction("list", "--out", "results", folder=tmp_path)) == ["done", "-"]
    (full / "studies" / "zdt2-5" / "results" / "ls-1.json").unlink()
    assert state_of("figure-8", reproduction("list", "--out", "results", folder=tmp_path)) == ["1 missing", "-"]


def test_the_commands(tmp_path):
    assert state_of("figure-8", reproduction("list", "--out", "results", folder=tmp_path)) == ["-", "-"]
    text = reproduction("make", "--out", "results", "Figure 12", "figure-2", folder=tmp_path)
    assert "HV" not in text and "31,910" in text
    assert (tmp_path / "results" / "smoke" / "figure-12" / "figure.png").exists()
    assert state_of("figure-12", reproduction("list", "--out", "results", folder=tmp_path)) == ["ready", "done"]
    reproduction("report", "results", "--out", "page.html", folder=tmp_path)
    assert "Learning the Pareto front" in (tmp_path / "page.html").read_text()
    shutil.rmtree(tmp_path / "results")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["make"], "reproduction list"),
        (["make", "tabel-1"], "did you mean 'table-1'"),
        (["make", "figure-1", "--preset", "ful"], "did you mean 'full'"),
        (["make", "figure-1", "--seeds", "0"], "one at least"),
        (["make", "figure-1", "--device", "tpu"], "cannot use this device"),
        (["report", "nowhere"], "no such folder"),
        (["report", "."], "holds no results"),
        (["report", str(RESULTS / "full")], "one preset of the results"),
    ],
)
def test_mistakes_get_an_answer(words, message, tmp_path):
    assert message in reproduction(*words, folder=tmp_path, code=2)


def test_ctrl_c_says_how_to_go_on(tmp_path):
    command = [
        sys.executable,
        "-c",
        "from reproduction.__main__ import main; main()",
        "make",
        "figure-8",
        "--out",
        "results",
        "--preset",
        "full",
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(RESULTS.parents[1])}
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    checkpoint = tmp_path / "runs" / "reproduce" / "full" / "problem2-phn" / "phn-epo-0" / "last.safetensors"
    with process:
        while not checkpoint.exists():
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "stopped in figure-8" in errors


def test_settings_are_chosen_for_each_method_once(tmp_path, monkeypatch):
    few, rates = {"epochs": 2, "rays_per_step": 4}, {"lr": [1e-9, 1e-2]}  # the first leaves all at the start
    study = Study("zdt1", ("phn-epo", "epo"), 3, TOY, seeds=1, preset="best", changes=few, search=rates)
    monkeypatch.setitem(STUDIES, "tuned", study)
    workshop = Workshop(tmp_path / "results", "full", runs=tmp_path / "runs")
    rate_of = {result.method: result.settings["lr"] for result in workshop.results("tuned")}
    assert rate_of == {"phn-epo": 1e-2, "epo": 1e-2}
    tuned = json.loads((tmp_path / "results" / "full" / "tuned" / "zdt1-epo.json").read_text())
    assert tuned["settings"] == {"lr": 1e-2} and sum(tuned["trials"].values()) == 2
    with monkeypatch.context() as patch:
        patch.setattr("reproduction.store.tune", None)
        (tmp_path / "results" / "full" / "studies" / "tuned" / "results" / "epo-0.json").unlink()
        assert len(workshop.results("tuned")) == 2
    for changed in (replace(study, search={"lr": [1e-3]}), replace(study, changes={**few, "epochs": 3})):
        monkeypatch.setitem(STUDIES, "tuned", changed)
        assert replace(workshop, train=False).tuned(changed, "epo") is None
        other = replace(workshop, runs=tmp_path / f"runs-{len(changed.search['lr'])}")
        assert other.tuned(changed, "epo") == {"lr": changed.search["lr"][-1]}


def test_times_are_measured_again_with_other_settings_and_looks_on_another_model(tmp_path, monkeypatch):
    study = Study("zdt1", ("phn-epo",), 3, TOY, seeds=1, preset="best", changes={"epochs": 1, "rays_per_step": 2})
    monkeypatch.setitem(STUDIES, "toy", study)
    workshop = Workshop(tmp_path / "results", "full", runs=tmp_path / "runs")
    calls = []

    def seconds() -> dict:
        monkeypatch.setattr(
            "reproduction.store.seconds_together", lambda *given: calls.append(given) or float(len(calls))
        )
        return workshop.seconds("toy", "phn-epo")

    def look() -> int:
        return workshop.look("toy", "phn-epo", 0, "sum", lambda model, problem, run: calls.append("look") or len(calls))

    workshop.results("toy")
    assert [seconds()["training"] for _ in range(2)] == [1.0, 1.0] and (look(), look()) == (2, 2)
    monkeypatch.setitem(STUDIES, "toy", replace(study, changes={"epochs": 2, "rays_per_step": 2}))
    assert replace(workshop, train=False).seconds("toy", "phn-epo") is None
    assert seconds()["training"] == 3.0
    shutil.rmtree(tmp_path / "runs")
    shutil.rmtree(workshop.folder("toy") / "results")
    workshop.results("toy")
    assert look() == 4
    file = workshop.folder("toy") / "results" / "phn-epo-0.json"
    found = Result.load(file)
    val = {**found.fronts["val"], "losses": [[1.01 * value for value in row] for row in found.fronts["val"]["losses"]]}
    replace(found, fronts={**found.fronts, "val": val}).save(file)
    assert look() == 4
    shutil.rmtree(workshop.folder("toy") / "looks")
    with pytest.raises(CheckpointError, match="not the one that the result is of"):
        look()


def test_fewer_seeds_replace_no_item_that_has_them_all(tmp_path):
    copy = tmp_path / "results"
    shutil.copytree(RESULTS / "full", copy / "full")
    before = (copy / "full" / "figure-10" / "table.md").read_text()
    one = Workshop(copy, "full", train=False, seeds=1)
    reproduce("figure-10", ITEMS["figure-10"], one)
    assert (copy / "full" / "figure-10" / "table.md").read_text() == before
    for file in (copy / "full" / "studies" / "alpha-0.1" / "results").glob("*-[12].json"):
        file.unlink()
    finding, _ = reproduce("figure-10", ITEMS["figure-10"], one)
    assert not finding.missing and {row[2] for row in finding.tables[0].rows} >= {"1"}


def test_an_item_keeps_seeds_that_were_trained_beside_its_own(tmp_path):
    words = ["make", "figure-8", "--out", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]
    reproduction(*words, "--seeds", "2", folder=tmp_path)
    table = tmp_path / "results" / "smoke" / "figure-8" / "table.md"
    before = table.read_text()
    reproduction(*words, folder=tmp_path)
    assert table.read_text() == before
    assert state_of("figure-8", reproduction("list", "--out", "results", folder=tmp_path)) == ["-", "done"]


def test_an_item_whose_data_are_missing_does_not_stop_the_others(tmp_path):
    (tmp_path / "data").mkdir()
    text = reproduction(
        "make", "--out", "results", "table-2", "figure-12", "--data-dir", "data", folder=tmp_path, code=2
    )
    assert "not all could be made" in text and "table-2" in text
    assert (tmp_path / "results" / "smoke" / "figure-12" / "figure.png").exists()


def test_cpmtl_has_the_learning_rate_that_was_chosen_for_ls(tmp_path, monkeypatch):
    few, rates = {"epochs": 1, "rays_per_step": 4}, {"lr": [1e-9, 1e-2]}
    study = Study(
        "zdt1", ("cpmtl", "ls"), 3, TOY, seeds=1, preset="best", changes=few, search=rates, expansion=Expansion(steps=1)
    )
    monkeypatch.setitem(STUDIES, "tuned", study)
    results = Workshop(tmp_path / "results", "full", runs=tmp_path / "runs").results("tuned")
    assert {result.method: result.settings["lr"] for result in results} == {"cpmtl": 1e-2, "ls": 1e-2}
    assert [path.name for path in (tmp_path / "results" / "full" / "tuned").iterdir()] == ["zdt1-ls.json"]


def test_options_of_the_solver_are_settings_of_hypernetworks(tmp_path, monkeypatch):
    few = {"epochs": 1, "rays_per_step": 2}
    study = Study("zdt1", ("phn-epo", "ls"), 3, TOY, seeds=1, preset="best", changes=few)
    monkeypatch.setitem(STUDIES, "usual", study)
    monkeypatch.setitem(STUDIES, "other", replace(study, solver={"space": "hypernetwork"}))
    workshop = Workshop(tmp_path / "results", "full", runs=tmp_path / "runs")
    (usual, same), (other, as_same) = (workshop.results(name) for name in ("usual", "other"))
    assert other.settings == {**usual.settings, "solver": {"space": "hypernetwork"}} and other.fronts != usual.fronts
    assert as_same.settings == same.settings and as_same.fronts == same.fronts
    assert (
        json.loads((tmp_path / "runs/full/other/phn-epo-0/config.json").read_text())["solver"]["space"]
        == "hypernetwork"
    )
