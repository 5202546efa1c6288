"""What the report claims, on numbers made up for both answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import hyperfront as hf
from hyperfront.comparison import Result
from hyperfront.zoo.toys import fonseca, zdt2
from reproduction import measurements, runtime, scaling, tables, toys, unseen
from reproduction.item_result import above
from reproduction.paper import Number
from reproduction.tables import Comparison, Measured, better_rates

STUDIES = Path(__file__).parents[1] / "reproduction" / "results" / "full" / "studies"
PAIR = Comparison("Toy", "adult", "adult-phn", "adult-10")


def result(method: str, volume: float = 0.5, *, seed: int = 0, family: str = "per-ray", **changes) -> Result:
    """One with that hypervolume on the test data, and a larger one on the validation data."""
    known = Result.load(STUDIES / "fonseca-5" / "results" / "epo-0.json")
    losses = changes.pop("losses", known.fronts["test"]["losses"])
    front = {**known.fronts["test"], "losses": losses, "hypervolume": volume}
    val = {**front, "hypervolume": changes.pop("val", volume + 0.1)}
    solver = method.removeprefix("phn-")
    return replace(known, solver=solver, family=family, seed=seed, fronts={"test": front, "val": val}, **changes)


def measured(method: str, *volumes: float, training: float = 1.0, apart: float | None = None) -> Measured:
    """Results of as many seeds; a hypernetwork has them at the rays of the baselines, and better ones elsewhere."""
    phn = method.startswith("phn-")
    kind, more = ("phn", 1.0) if phn else ("per-ray", 0.0)
    results = [result(method, volume + more, seed=seed, family=kind) for seed, volume in enumerate(volumes)]
    same = [{"hypervolume": volume} for volume in volumes] if phn else []
    return Measured(method, results, same, {"training": training, "one_by_one": apart})


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
def test_more_is_more_than_the_seeds_deviate(ours, theirs, verdict):
    claim = above("more", ours, theirs, "LS")
    assert claim.verdict == verdict
    assert claim.numbers.count("0.") >= 2 and claim.numbers.endswith("of LS; one seed" if len(ours) == 1 else "of LS")


def test_hypernetworks_are_compared_with_the_best_baseline_at_its_rays():
    others = [measured("ls", 0.6, 0.6, apart=5.0), measured("epo", 0.7, 0.7, apart=2.0)]
    for volume, verdict in ((0.71, "yes"), (0.69, "no")):
        hypernetwork = measured("phn-ls", volume, volume, training=3.0)
        first, second = tables.claims(PAIR, [*others, hypernetwork])
        assert first.verdict == verdict and "EPO" in first.numbers and f"{volume:.3f}" in first.numbers
        assert second.verdict == "yes" and "3.0 s against 5.0 s" in second.numbers
    _, slow = tables.claims(PAIR, [*others, measured("phn-epo", 0.7, 0.8, training=3.0)])
    assert slow.verdict == "no" and "3.0 s against 2.0 s" in slow.numbers
    assert not [*tables.claims(PAIR, [measured("phn-ls", 0.7)])]


def test_a_baseline_with_a_better_learning_rate_is_a_baseline():
    ls, tuned = measured("ls", 0.6, apart=5.0), replace(measured("ls", 0.8), rate="better of two rates")
    tuned.results[0].settings["lr"] = 0.5
    first, second = tables.claims(PAIR, [ls, measured("phn-ls", 0.7, training=3.0), tuned])
    assert first.verdict == "no" and "0.800 of LS, better of two rates (0.5); one seed" in first.numbers
    assert second.verdict == "yes" and "3.0 s against 5.0 s" in second.numbers


def store_of(known: dict[str, list[Result]], seeds: int = 1) -> SimpleNamespace:
    """One with these results of studies, at five rays, and hypernetworks at the same."""
    return SimpleNamespace(
        results=lambda name, methods=None: [r for r in known[name] if methods is None or r.method in methods],
        study=lambda name: SimpleNamespace(
            seeds=seeds,
            rays=5,
            methods=("phn-epo",) if name.endswith("-phn") else ("ls", "epo"),
            recipe=lambda: SimpleNamespace(batch_size=1),
        ),
        measure=lambda *given: {"hypervolume": 0.7, "uniformity": 0.5, "rays": [[0.5, 0.5]], "losses": [[1.0, 1.0]]},
        seconds=lambda name, method: {"training": 1.0, "one_by_one": 2.0, "environment": {}},
    )


def test_a_hypernetwork_that_ignores_its_ray_has_one_point_and_the_table_says_so():
    same = result("phn-epo", 0.7, family="phn", losses=[[0.5, 0.5]] * 5)
    known = {"adult-10": [result("ls"), result("epo")], "adult-phn": [same, result("phn-epo", seed=1, family="phn")]}
    found = tables.compared(store_of(known), [PAIR])
    points = {row[0]: row[3] for row in found.tables[0].rows}
    assert points["LS"] == "5" and points["PHN-EPO"] == "1"


def test_the_papers_numbers_stand_beside_data_like_its_own_only(monkeypatch):
    paper = {"adult": {"ls": Number(0.25, 0.125), "phn-epo": Number(0.375, 0.125)}}
    monkeypatch.setattr(tables, "NUMBERS", paper)
    known = {"adult-10": [result("ls"), result("epo")], "adult-phn": [result("phn-epo", family="phn")]}
    for side, shown in ((PAIR, True), (replace(PAIR, as_paper=False), False)):
        cells = [cell for row in tables.compared(store_of(known), [side]).tables[0].rows for cell in row]
        assert ("0.250" in cells) == ("0.125" in cells) == ("0.375" in cells) == shown


def test_points_without_rays_are_compared_with_all_points_of_a_hypernetwork():
    ls, cpmtl, phn = measured("ls", 0.6), measured("cpmtl", 0.9), measured("phn-ls", 0.7)  # which has 1.7 at all rays
    first, second, *_ = tables.claims(PAIR, [ls, cpmtl, phn])
    assert first.verdict == second.verdict == "yes" and first.kind != second.kind
    assert first.numbers.startswith("0.700 against 0.600 of LS") and second.numbers.startswith("1.700 against 0.900 of")


def test_a_baseline_with_more_points_than_rays_says_so():
    many = replace(measured("cpmtl", 0.9), results=[result("cpmtl", 0.9, family="cpmtl", rays=[])])
    _, claim, *_ = tables.claims(PAIR, [measured("ls", 0.5), many, measured("phn-ls", 0.8)])
    assert claim.verdict == "yes" and "CPMTL (5 points)" in claim.numbers


@pytest.mark.parametrize(("val", "lr"), [(0.9, 0.01), (0.1, 0.5)])
def test_the_learning_rate_of_ls_is_chosen_on_validation_data(val, lr):
    """With .01 it has more on the test data, whichever is chosen."""
    slow, fast = result("ls", 0.5, val=0.6, settings={"lr": 0.5}), result("ls", 0.8, val=val, settings={"lr": 0.01})
    store = store_of({"rate": [fast]})
    methods, side = {"ls": Measured("ls", [slow], [], {})}, replace(PAIR, rates=("rate",))
    (chosen,) = better_rates(store, side, methods).values()
    assert chosen.results[0].settings["lr"] == lr and chosen.name == f"LS, better of two rates ({lr})"
    assert not better_rates(store, PAIR, methods) and not better_rates(store, side, {})


@pytest.mark.parametrize("best", [0.5, 0.05, 0.01])
def test_of_three_learning_rates_the_best_on_validation_data_counts(best):
    each = {lr: result("ls", 0.9 - lr, val=float(lr == best), settings={"lr": lr}) for lr in (0.5, 0.05, 0.01)}
    store = store_of({"a": [each[0.5]], "b": [each[0.05]], "c": [each[0.01]]})
    methods, side = {"ls": Measured("ls", [each[0.05]], [], {})}, replace(PAIR, rates=("a", "b", "c"))
    (chosen,) = better_rates(store, side, methods).values()
    assert chosen.name == f"LS, best of 3 rates ({best})" and chosen.results == [each[best]]


def test_on_sarcos_each_baseline_has_a_verdict_of_its_own():
    others = [measured("ls", 0.8, 0.8), measured("epo", 0.6, 0.6), replace(measured("epo", 0.65, 0.65), rate="another")]
    others[-1].results[0].settings["lr"] = 0.5
    found = [*tables.claims(replace(PAIR, each_apart=True), [*others, measured("phn-epo", 0.7, 0.7)])]
    about = {claim.text.split("above ")[1]: claim for claim in found}
    assert [claim.verdict for claim in found] == ["no", "no", "yes"]
    assert "0.650" in about["EPO with one model per ray, on the same rays"].numbers


def test_where_validation_does_not_say_which_rate_is_better_there_is_a_row_for_the_other():
    slow, fast = (result("ls", 0.5, val=0.0, settings={"lr": lr}) for lr in (0.5, 0.01))
    methods, side = {"ls": Measured("ls", [slow], [], {})}, replace(PAIR, rates=("rate",))
    (other,) = better_rates(store_of({"rate": [fast]}), side, methods).values()
    assert other.name == "LS, another rate (0.01)"


@pytest.mark.parametrize(("val", "ours"), [(0.9, "0.800"), (0.1, "0.500")])
def test_the_learning_rate_of_a_hypernetwork_is_chosen_too(val, ours):
    rays = hf.rays(5, m=2).tolist()
    slow, fast = (
        result("phn-epo", volume, val=v, settings={"lr": lr}, family="phn", rays=rays, losses=[[1 - volume] * 2] * 5)
        for volume, v, lr in ((0.5**0.5, 0.6, 0.5), (0.8**0.5, val, 0.01))
    )
    slow, fast = (replace(each, reference=(1.0, 1.0), convention="inverse") for each in (slow, fast))
    known = {"adult-10": [result("ls", 0.1), result("epo", 0.1)], "adult-phn": [slow], "rate-phn": [fast]}
    side = replace(PAIR, rates=("rate-phn",))
    found = tables.compared(store_of(known), [side])
    (claim,) = (each for each in found.claims if "above every baseline" in each.text)
    assert claim.numbers.startswith(ours) and claim.verdict == "yes"
    (table,) = found.tables
    assert [row[0] for row in table.rows].count("PHN-EPO, better of two rates (0.01)") == (ours == "0.800")


def test_the_small_hypernetwork_is_chosen_on_validation_data():
    separate = [result("ls", 0.6, parameters=1000), result("epo", 0.7, parameters=1000)]
    large = result("phn-epo", 0.99, val=0.99, family="phn", parameters=900)
    better = result("phn-epo", 0.65, val=0.9, family="phn", parameters=90)
    worse = result("phn-epo", 0.75, val=0.8, family="phn", parameters=100)
    first, *_ = scaling.claims("Toy", [*separate, large, better, worse])
    assert first.verdict == "no" and "0.650 against 0.700 of EPO" in first.numbers and "(90 of ours, " in first.numbers
    first, *_ = scaling.claims("Toy", [*separate, large, worse])
    assert first.verdict == "yes"
    assert not [*scaling.claims("Toy", [*separate, large]), *scaling.claims("Toy", [better])]


def test_the_hypervolume_at_some_of_the_rays_is_that_of_their_points():
    rays, losses = hf.rays(25, 2).double(), torch.rand(25, 2, generator=torch.manual_seed(0)).double()
    known = result("phn-epo", family="phn", rays=rays.tolist(), losses=losses.tolist(), reference=(1.0, 1.0))
    few = measurements.at_rays(known, hf.rays(5, 2))
    assert few["hypervolume"] == pytest.approx(hf.indicators.hypervolume(losses[::6], (1.0, 1.0)))
    assert few["uniformity"] == pytest.approx(hf.indicators.uniformity(losses[::6], rays[::6]).mean().item(), abs=1e-6)
    assert few["losses"] == losses[::6].tolist()
    assert measurements.at_rays(known, hf.rays(6, 2)) is None


def test_settings_are_compared_by_their_means():
    flat = scaling.about_setting("alpha", {0.1: [1.0, 1.0], 0.2: [0.99, 1.0]})
    steep = scaling.about_setting("alpha", {0.1: [1.0], 0.2: [0.9]})
    assert (flat.verdict, steep.verdict) == ("yes", "no")
    right = scaling.about_setting("hidden dimension", {25: [0.7], 50: [0.8], 100: [0.9]})
    wrong = scaling.about_setting("hidden dimension", {25: [0.7], 50: [0.95], 100: [0.9]})
    near = scaling.about_setting("hidden dimension", {25: [0.7, 0.7], 50: [0.96, 0.94], 100: [0.9, 1.0]})
    assert (right.verdict, wrong.verdict, near.verdict) == ("yes", "no", "close")
    assert near.numbers.endswith("of 50")


def pool(*volumes: float) -> list[dict[str, float]]:
    """One, two, ... models of four seconds each, with these hypervolumes."""
    return [{"models": k, "seconds": 4.0 * k, "mean": volume, "std": 0.0} for k, volume in enumerate(volumes, 1)]


@pytest.mark.parametrize(
    ("seconds", "volume", "verdict"),
    [
        (0.8, 0.15, "yes"),  # two models have it, in eight seconds
        (0.9, 0.15, "no"),
        (0.8, 0.1005, "close"),  # with 1 % less, one model has it
        (1.2, 9.0, "yes"),  # three do not have it, and take twelve
        (1.3, 9.0, "open"),  # more models might have it, in more time
        (1.2, 0.3005, "yes"),
    ],
)
def test_ten_times_as_fast_means_at_the_same_hypervolume(seconds, volume, verdict):
    race, curves = runtime.Race("Toy", "a", "b", ("ls",)), {"LS": {"0.1": pool(0.1, 0.2, 0.3)}}
    (claim,) = runtime.claims(race, {"phn-ls": {"seconds": seconds, "hypervolume": volume}}, curves)
    assert claim.verdict == verdict
    assert ("all models, which stay below" in claim.text) == (verdict == "yes" and volume > 0.3)
    assert ("2 models at 0.1" in claim.numbers) == (0.1 < volume < 0.2)


def test_the_better_of_two_learning_rates_is_the_one_to_be_faster_than():
    race, phn = runtime.Race("Toy", "a", "b", ("ls",)), {"phn-ls": {"seconds": 0.8, "hypervolume": 0.15}}
    slow, fast, small = pool(0.1, 0.11, 0.12), pool(0.2, 0.25), pool(0.13)

    def verdict(**of_rates: list) -> str:
        (claim,) = runtime.claims(race, phn, {"LS": of_rates})
        return claim.verdict

    assert verdict(slow=slow) == "yes" and verdict(slow=slow, fast=fast) == "no"
    assert verdict(slow=slow, small=small) == "open"  # one model at the better rate is too few to say
    assert verdict(slow=pool(0.1, 0.12, 0.2)) == "yes"  # in twelve seconds
    assert verdict(slow=pool(0.1, 0.12, 0.2), small=small) == "open"


def on_front(rays: torch.Tensor, offset: float = 0.0) -> list[list[float]]:
    """Points of Fonseca's front at the rays, further out by ``offset``."""
    points = fonseca().truth.points.double()
    dense = torch.nn.functional.interpolate(points.T[None], scale_factor=50, mode="linear")[0].T
    products = dense * rays[:, None, :]
    return (dense[(products[..., 0] - products[..., 1]).abs().argmin(1)] + offset).tolist()


def test_methods_on_toys_are_judged_by_distance_and_ray():
    problem, rays = fonseca(), hf.rays(5, 2).double()
    shifted, extremes = on_front(rays.roll(1, 0)), [[0.0, 0.98], [0.98, 0.0]] * 2 + [[0.0, 0.98]]

    def verdict(method: str, losses: list) -> str:
        known = result(method, rays=rays.tolist(), losses=losses, problem="fonseca")
        claim = toys.claim(problem, method, [known])
        return claim.verdict

    exact, far = on_front(rays), on_front(rays, 0.1)
    assert [verdict(method, exact) for method in ("phn-epo", "epo", "pmtl", "mgda", "nsga3")] == [
        "yes", "yes", "no", "no", "no"
    ]  # fmt: skip
    assert [verdict(method, far) for method in ("phn-epo", "pmtl", "mgda", "nsga3")] == ["no", "no", "no", "yes"]
    assert verdict("mgda", shifted) == "yes"
    plane = zdt2(2, box="sigmoid")
    for losses, expected in (([[0.5, 0.85], [0.5, 0.75]], "yes"), ([[0.5, 0.75], [0.5, 0.75]], "no")):  # or off a ray
        ends = result("epo", rays=hf.rays(2, 2).tolist(), losses=losses, problem="zdt2")
        fails = toys.claim(plane, "epo", [ends])
        assert fails.verdict == expected and fails.text.startswith("zdt2, sigmoid")
    assert verdict("ls", extremes) == "yes" and verdict("ls", exact) == "no"


@pytest.mark.parametrize(("seen", "new", "verdict"), [(0.7, 0.699, "yes"), (0.7, 0.69, "no")])
def test_rays_that_were_never_seen_may_cost_a_percent(seen, new, verdict):
    def claim(losses: list[list[float]]):
        return unseen.claim(
            "SARCOS", [{"seen": {"hypervolume": seen}, "unseen": {"hypervolume": new, "losses": losses}}]
        )

    assert claim([[0.1, 0.2], [0.2, 0.1]]).verdict == verdict
    assert claim([[0.1, 0.2], [0.1, 0.2]]).verdict == "no"  # of a hypernetwork that ignores its ray


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_what_is_close_with_one_seed_does_not_depend_on_the_unit(unit):
    verdicts = [above("more", [unit * ours], [unit * 0.8], "LS").verdict for ours in (0.823, 0.825, 0.777, 0.775)]
    assert verdicts == ["close", "yes", "close", "no"]


def test_times_are_those_of_the_study_that_trains_the_method():
    assert (PAIR.study_of("phn-epo"), PAIR.study_of("ls")) == ("adult-phn", "adult-10")
    assert replace(PAIR, baselines=None).study_of("ls") == "adult-phn"


def test_each_row_of_table_6_is_of_its_own_method():
    known = {"adult-phn": [result("phn-epo", 0.6, family="phn"), result("phn-ls", 0.9, family="phn")]}
    (table,) = tables.at_same_rays(store_of(known), [replace(PAIR, baselines=None)]).tables
    assert [(row[1], row[-1]) for row in table.rows] == [("PHN-EPO", "0.600"), ("PHN-LS", "0.900")]


def test_a_race_is_run_by_the_first_seed():
    pool = [result("epo"), result("epo", seed=1, losses=[[9.0, 9.0]] * 5)]
    known = {"adult-10": pool, "adult-phn": [result("phn-epo", 0.01, family="phn")], "rate": []}
    store, race = store_of(known), runtime.Race("Toy", "adult-phn", "adult-10", ("epo",))
    found = runtime.races(store, [race])
    (curve,) = found.numbers["Toy"]["pool"]["EPO"].values()
    assert [point["seconds"] for point in curve] == pytest.approx([0.4, 0.8, 1.2, 1.6, 2.0])
    assert curve[-1]["mean"] == pytest.approx(hf.indicators.hypervolume(pool[0].losses(), pool[0].reference))
    name = f"EPO, {pool[0].settings['lr']:g}"
    assert [row[1:3] for row in found.tables[0].rows] == [("PHN-EPO", "1"), *((name, k) for k in "135")]
    assert [claim.verdict for claim in found.claims] == ["no"]


def test_another_learning_rate_is_raced_beside_the_first_one_of_its_method():
    first, other = result("ls"), [result("ls", settings={"lr": 0.5}), result("pmtl", settings={"lr": 0.5})]
    known = {"adult-10": [first, result("epo")], "rate": other, "adult-phn": []}
    race = runtime.Race("Toy", "adult-phn", "adult-10", ("ls", "epo"), rates=("rate",))  # no PMTL

    def raced() -> dict[str, list[str]]:
        pools = runtime.races(store_of(known), [race]).numbers["Toy"]["pool"]
        return {name: [*of_rates] for name, of_rates in pools.items()}

    usual = f"{first.settings['lr']:g}"
    assert raced() == {"LS": [usual, "0.5"], "EPO": [usual]}
    known["adult-10"] = [result("epo")]
    assert raced() == {"EPO": [usual]}
