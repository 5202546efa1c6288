"""The rows of items, on results made up for both answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import hyperfront as hf
from hyperfront.comparison import Result
from hyperfront.zoo.toys import fonseca
from reproduction import costs, fronts, measurements, tables
from reproduction.item_result import above
from reproduction.paper import NUMBERS
from reproduction.tables import COMPARISONS, Comparison, Measured, against_best, best_rate, measured

STUDIES = Path(__file__).parents[1] / "reproduction" / "results" / "full" / "studies"
PAIR = Comparison("Toy", "adult", "adult-phn", "adult-10")


def result(method: str, volume: float = 0.5, *, seed: int = 0, **changes) -> Result:
    """One with that hypervolume on the test data, and a larger one on the validation data."""
    known = Result.load(STUDIES / "fonseca-5" / "results" / "epo-0.json")
    losses = changes.pop("losses", known.fronts["test"]["losses"])
    front = {**known.fronts["test"], "losses": losses, "hypervolume": volume}
    val = {**front, "hypervolume": changes.pop("val", volume + 0.1)}
    family = "phn" if method.startswith("phn-") else "cpmtl" if method == "cpmtl" else "per-ray"
    fronts = {"test": front, "val": val}
    return replace(known, solver=method.removeprefix("phn-"), family=family, seed=seed, fronts=fronts, **changes)


def with_volumes(method: str, *volumes: float) -> Measured:
    """Results of as many seeds; a hypernetwork has them at the rays of the baselines, and better ones elsewhere."""
    phn = method.startswith("phn-")
    results = [result(method, volume + phn, seed=seed) for seed, volume in enumerate(volumes)]
    return Measured(results, [{"hypervolume": volume} for volume in volumes] if phn else [])


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        ([0.9, 1.0], [0.5, 0.6], "yes"),
        ([0.5, 0.6], [0.9, 1.0], "no"),
        ([0.9, 1.0], [0.93, 0.95], "close"),
        ([0.9], [0.8], "yes"),
        ([0.7], [0.8], "no"),
        ([0.803], [0.8], "close"),
        ([0.8], [0.8], "close"),
    ],
)
@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_more_is_more_than_the_seeds_deviate_in_any_unit(ours, theirs, verdict, unit):
    assert above([unit * value for value in ours], [unit * value for value in theirs]) == verdict


def test_hypernetworks_are_compared_with_the_best_baseline_at_its_rays():
    others = [with_volumes("ls", 0.6, 0.6), with_volumes("epo", 0.7, 0.7)]
    for volume, verdict in ((0.71, "yes"), (0.69, "no")):
        (row,) = against_best("Toy", [*others, with_volumes("phn-ls", volume, volume)])
        assert row == ("Toy", "PHN-LS", f"{volume:.3f} +- 0.000", "EPO", "0.700 +- 0.000", verdict)
    assert not [*against_best("Toy", [with_volumes("phn-ls", 0.7)])]


def test_points_without_rays_are_no_baseline_at_the_same_rays():
    (row,) = against_best("Toy", [with_volumes("ls", 0.6), with_volumes("cpmtl", 0.9), with_volumes("phn-ls", 0.7)])
    assert row[3:] == ("LS", "0.600", "yes")


def test_a_baseline_with_a_better_learning_rate_is_a_baseline():
    tuned = replace(with_volumes("ls", 0.8), rate="better of two rates")
    tuned.results[0].settings["lr"] = 0.5
    (row,) = against_best("Toy", [with_volumes("ls", 0.6), tuned, with_volumes("phn-ls", 0.7)])
    assert row[3:] == ("LS, better of two rates (0.5)", "0.800", "no")


def store_of(known: dict[str, list[Result]]) -> SimpleNamespace:
    """One with these results of studies, at five rays, and hypernetworks at the same."""
    study = SimpleNamespace(rays=5, recipe=lambda: SimpleNamespace(batch_size=1))
    return SimpleNamespace(
        results=lambda name, methods=None: [r for r in known[name] if methods is None or r.method in methods],
        study=lambda name: study,
        measure=lambda *given: {"hypervolume": 0.7, "uniformity": 0.5, "rays": [[0.5, 0.5]], "losses": [[1.0, 1.0]]},
        seconds=lambda name, method: {"training": 1.0, "one_by_one": 2.0},
    )


@pytest.fixture
def pair(monkeypatch) -> Comparison:
    """The comparison of made-up results, under the name of one that is declared."""
    monkeypatch.setitem(COMPARISONS, "pair", PAIR)
    return PAIR


def test_a_hypernetwork_that_ignores_its_ray_has_one_point_and_the_table_says_so(pair):
    same = result("phn-epo", 0.7, losses=[[0.5, 0.5]] * 5)
    known = {"adult-10": [result("ls"), result("epo")], "adult-phn": [same, result("phn-epo", seed=1)]}
    found = tables.compared(store_of(known), ["pair"])
    points = {row[0]: row[3] for row in found.tables[0].rows}
    assert points["LS"] == "5" and points["PHN-EPO"] == "1"


@pytest.mark.parametrize("as_paper", [True, False])
def test_the_papers_numbers_stand_beside_data_like_its_own_only(monkeypatch, as_paper):
    paper = {"adult": {"ls": ["0.250", "0.125"], "phn-epo": ["0.375", "0.125"]}}
    monkeypatch.setitem(NUMBERS, "own-rays", paper)
    monkeypatch.setitem(COMPARISONS, "pair", replace(PAIR, as_paper=as_paper))
    known = {"adult-10": [result("ls"), result("epo")], "adult-phn": [result("phn-epo")]}
    cells = [cell for row in tables.compared(store_of(known), ["pair"]).tables[0].rows for cell in row]
    assert ("0.250" in cells) == ("0.125" in cells) == ("0.375" in cells) == as_paper


@pytest.mark.parametrize(("val", "lr"), [(0.9, 0.01), (0.1, 0.5)])
def test_the_learning_rate_is_chosen_on_validation_data(val, lr):
    """With .01 it has more on the test data, whichever is chosen."""
    slow, fast = result("ls", 0.5, val=0.6, settings={"lr": 0.5}), result("ls", 0.8, val=val, settings={"lr": 0.01})
    known = {"adult-10": [slow], "adult-phn": [], "rate": [fast]}
    first, chosen = measured(store_of(known), replace(PAIR, rates=("rate",)))
    assert first.results == [slow] and not first.rate
    assert chosen.results[0].settings["lr"] == lr and chosen.name == f"LS, better of two rates ({lr})"
    assert len([*measured(store_of(known), PAIR)]) == 1


@pytest.mark.parametrize("best", [0.5, 0.05, 0.01])
def test_of_three_learning_rates_the_best_on_validation_data_counts(best):
    each = {f"{lr}": [result("ls", val=float(lr == best), settings={"lr": lr})] for lr in (0.5, 0.05, 0.01)}
    assert best_rate(each) == (f"{best}", "best of 3 rates")


def test_where_validation_does_not_say_which_rate_is_better_the_other_one_is_shown():
    each = {f"{lr}": [result("ls", val=0.0, settings={"lr": lr})] for lr in (0.5, 0.01)}
    assert best_rate(each) == ("0.01", "another rate")


def test_rates_are_compared_by_the_seeds_that_all_of_them_have():
    first = [result("ls", seed=seed, val=val, settings={"lr": 0.5}) for seed, val in enumerate((0.5, 0.9))]
    other = [result("ls", seed=0, val=0.6, settings={"lr": 0.01})]
    assert best_rate({"first": first, "other": other})[0] == "other"


@pytest.mark.parametrize(("val", "rows"), [(0.9, 2), (0.1, 1)])
def test_a_hypernetwork_has_a_second_row_if_another_rate_is_better(val, rows):
    slow, fast = (result("phn-epo", val=v, settings={"lr": lr}) for v, lr in ((0.6, 0.5), (val, 0.01)))
    known = {"adult-10": [result("ls", 0.1)], "adult-phn": [slow], "rate-phn": [fast]}
    found = [*measured(store_of(known), replace(PAIR, rates=("rate-phn",)))]
    names = [each.name for each in found if each.kind.hypernetwork]
    assert names == ["PHN-EPO", "PHN-EPO, better of two rates (0.01)"][:rows]


def test_the_hypervolume_at_some_of_the_rays_is_that_of_their_points():
    rays, losses = hf.rays(25, 2).double(), torch.rand(25, 2, generator=torch.manual_seed(0)).double()
    known = result("phn-epo", rays=rays.tolist(), losses=losses.tolist(), reference=(1.0, 1.0))
    few = measurements.at_rays(known, hf.rays(5, 2))
    assert few["hypervolume"] == pytest.approx(hf.indicators.hypervolume(losses[::6], (1.0, 1.0)))
    assert few["uniformity"] == pytest.approx(hf.indicators.uniformity(losses[::6], rays[::6]).mean().item(), abs=1e-6)
    torch.testing.assert_close(torch.tensor(few["losses"]).double(), losses[::6], atol=1e-6, rtol=1e-5)
    assert measurements.at_rays(known, hf.rays(6, 2)) is None


def test_times_are_those_of_the_study_that_trains_the_method():
    ls, phn = result("ls").kind, result("phn-epo").kind
    assert (PAIR.study_of(phn), PAIR.study_of(ls)) == ("adult-phn", "adult-10")
    assert replace(PAIR, baselines=None).study_of(ls) == "adult-phn"


def test_each_row_of_table_6_is_of_its_own_method(pair):
    known = {"adult-phn": [result("phn-epo", 0.6), result("phn-ls", 0.9)]}
    (table,) = tables.at_same_rays(store_of(known), ["pair"]).tables
    assert [(row[1], row[-1]) for row in table.rows] == [("PHN-EPO", "0.600"), ("PHN-LS", "0.900")]


def pool(*volumes: float) -> list[dict[str, float]]:
    """One, two, ... models of four seconds each, with these hypervolumes."""
    return [{"models": k, "seconds": 4.0 * k, "mean": volume, "std": 0.0} for k, volume in enumerate(volumes, 1)]


@pytest.mark.parametrize(
    ("volume", "models", "seconds", "times"),
    [
        (0.15, "2", "8.0", "10.0"),
        (0.1, "1", "4.0", "5.0"),
        (0.3, "3", "12.0", "15.0"),
        (9.0, "> 3", "> 12.0", "> 15.0"),
    ],
)
def test_models_are_counted_until_they_have_the_hypervolume_of_a_hypernetwork(volume, models, seconds, times):
    phn, curves = {"phn-ls": {"seconds": 0.8, "hypervolume": volume}}, {"ls": {"0.1": pool(0.1, 0.2, 0.3)}}
    (row,) = costs.models_needed("Toy", phn, curves)
    assert row[:2] == ("Toy", "PHN-LS") and row[4] == "LS, 0.1"
    assert (row[5], *row[7:]) == (models, seconds, times)


def test_a_race_is_run_by_the_first_seed():
    models = [result("epo"), result("epo", seed=1, losses=[[9.0, 9.0]] * 5)]
    known = {"adult-10": models, "adult-phn": [result("phn-epo", 0.01)]}
    races = {"Toy": {"phn": "adult-phn", "pool": "adult-10", "methods": ["epo"]}}
    found = costs.races(store_of(known), races)
    (curve,) = found.numbers["Toy"]["pool"]["EPO"].values()
    assert [point["seconds"] for point in curve] == pytest.approx([0.4, 0.8, 1.2, 1.6, 2.0])
    assert curve[-1]["mean"] == pytest.approx(hf.indicators.hypervolume(models[0].losses(), models[0].reference))
    name = f"EPO, {models[0].settings['lr']:g}"
    assert [row[1:3] for row in found.tables[0].rows] == [("PHN-EPO", "1"), *((name, k) for k in "135")]


def test_another_learning_rate_is_raced_beside_the_first_one_of_its_method():
    first, other = result("ls"), [result("ls", settings={"lr": 0.5}), result("pmtl", settings={"lr": 0.5})]
    known = {"adult-10": [first, result("epo")], "rate": other, "adult-phn": []}
    races = {"Toy": {"phn": "adult-phn", "pool": "adult-10", "rates": ["rate"]}}  # no PMTL

    def raced() -> dict[str, list[str]]:
        pools = costs.races(store_of(known), races).numbers["Toy"]["pool"]
        return {name: [*of_rates] for name, of_rates in pools.items()}

    usual = f"{first.settings['lr']:g}"
    assert raced() == {"LS": [usual, "0.5"], "EPO": [usual]}
    known["adult-10"] = [result("epo")]
    assert raced() == {"EPO": [usual]}


def test_rows_of_toys_have_the_worst_point_of_all_seeds():
    problem, rays = fonseca(), hf.rays(5, 2).double()
    points = problem.truth.points.double()
    dense = torch.nn.functional.interpolate(points.T[None], scale_factor=50, mode="linear")[0].T
    products = dense * rays[:, None, :]
    exact = dense[(products[..., 0] - products[..., 1]).abs().argmin(1)]
    further = torch.cat([exact[:-1], exact[-1:] + 0.1])
    known = [result("epo", seed=k, rays=rays.tolist(), losses=each.tolist()) for k, each in enumerate((exact, further))]
    (*_, least, distance, _), (*_, worse, far, _) = (fronts.known_row(problem, known[:count]) for count in (1, 2))
    assert float(least) > 0.999 and float(distance) < 1e-3
    assert float(worse) < float(least) and float(far) > 0.05
