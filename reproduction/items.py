"""Every table and figure of the paper as a declaration: its content, the function that makes it, and its studies.

``python -m reproduction make ITEM`` makes one. ``paper.toml`` has the paper's numbers, and
:mod:`reproduction.studies` the trainings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from hyperfront.zoo.multi_mnist import RESNET
from reproduction.ablations import effects
from reproduction.attribution import attribution
from reproduction.item_result import ItemResult
from reproduction.pictures import losses_and_evolution, trade_offs
from reproduction.runtime import Race, races
from reproduction.scaling import against_parameters, against_settings
from reproduction.static_items import architecture, illustration, split_sizes
from reproduction.store import Store
from reproduction.studies import ALPHAS, MNIST, PEOPLE, RATES, WIDTHS
from reproduction.tables import Comparison, at_same_rays, compared
from reproduction.toys import known_fronts
from reproduction.unseen import unseen_rays


@dataclass(frozen=True)
class Item:
    """A table or figure of the paper."""

    what: str
    """The content of the item, in our words."""
    build: Callable[[Store], ItemResult]

    def make(self, store: Store) -> ItemResult:
        """Make the result from the store, which trains missing parts. A smoke test makes no claims."""
        store = replace(store, environments=[], timed=[])
        found = self.build(store)
        found.environments = [e for i, e in enumerate(store.environments) if e not in store.environments[:i]]
        devices = dict.fromkeys(str(each.get("device")) for each in store.timed)
        found.notes += [f"Times are of different devices: {', '.join(devices)}."] if len(devices) > 1 else []
        if store.preset == "smoke":
            found.claims, found.notes = [], ["This is a smoke test: numbers from training mean nothing.", *found.notes]
        return found


def item(what: str, build: Callable[..., ItemResult], **arguments: Any) -> Item:
    """An item that ``build`` makes of the store and the ``arguments``."""
    return Item(what, partial(build, **arguments))


TITLES = dict(zip(MNIST, ("Multi-(Fashion+MNIST)", "Multi-Fashion", "Multi-MNIST")))
TITLES |= {name: name.capitalize() for name in PEOPLE}
RATES_OF = {name: tuple(f"{name}-rate{whose}" for whose in ("", "-others", "-phn")) for name in MNIST}
RATES_OF |= {name: tuple(f"{name}-rate-{rate:g}" for rate in RATES["lr"]) for name in PEOPLE}
IMAGES = tuple(Comparison(TITLES[name], name, f"{name}-phn", f"{name}-5", RATES_OF[name]) for name in MNIST)
FAIRNESS = tuple(Comparison(TITLES[name], name, f"{name}-phn", f"{name}-10", RATES_OF[name]) for name in PEOPLE)
SCENES = (
    Comparison("NYUv2, 144 x 192", "nyuv2", "nyuv2-phn", "nyuv2-5"),
    Comparison("NYUv2, 288 x 384, hypernetworks only", "nyuv2", "nyuv2-288x384-phn", None),
)
MOTION = tuple(
    Comparison(title, "sarcos", f"sarcos-{name}-phn", f"sarcos-{name}-20", rates, name == "paper", each_apart=True)
    for name, title, rates in (
        ("paper", "SARCOS, the paper's split", ("sarcos-paper-rate",)),
        ("blocks", "SARCOS, split by blocks", ("sarcos-blocks-rate",)),
        ("best", "SARCOS, split by blocks, preset best", ()),
    )
)
SAME = (*IMAGES, *FAIRNESS, SCENES[0], MOTION[0])
FIVE = "fonseca-5"
TOY_1 = ((("fonseca-phn", "phn-epo"), (FIVE, "epo"), (FIVE, "pmtl"), ("fonseca-evolution", "nsga3"), (FIVE, "ls")),)
TOY_7 = ((("fonseca-evolution", "moead"), (FIVE, "mgda")),)
TOY_8 = tuple(
    ((f"{name}-phn", "phn-epo"), (f"{name}-5", "epo"), (f"{name}-5", "ls"))
    for name in ("problem2", "zdt2", "zdt2-sigmoid")
)
RACES_5 = (
    Race(TITLES[MNIST[0]], f"{MNIST[0]}-phn", f"{MNIST[0]}-25", rates=RATES_OF[MNIST[0]]),
    Race("Adult", "adult-phn", "adult-30"),
    Race("SARCOS", "sarcos-paper-phn", "sarcos-40", rates=("sarcos-40-rate",)),
)
RACES_11 = (
    *(Race(TITLES[name], f"{name}-phn", f"{name}-25", rates=RATES_OF[name]) for name in MNIST[1:]),
    Race("NYUv2, 144 x 192", "nyuv2-phn", "nyuv2-5", ("ls",)),
)
SIZES = {TITLES[name]: (f"{name}-resnet18-5", *(f"{name}-resnet18-{size}" for size in RESNET)) for name in MNIST}
BASE = "multi-fashion-mnist-phn"
SETTINGS: dict[str, dict[float, str]] = {
    "alpha": {alpha: BASE if alpha == 0.2 else f"alpha-{alpha}" for alpha in ALPHAS},
    "hidden dimension": {width: BASE if width == 100 else f"width-{width}" for width in WIDTHS},
}
ITEMS: dict[str, Item] = {
    "figure-1": item("Fonseca's problem: PHN, EPO, PMTL, NSGA-III and LS, each on its rays", known_fronts, rows=TOY_1),
    "figure-2": item("the architecture, drawn from model.summary()", architecture),
    "figure-3": item(
        "test losses of all methods on three Multi-MNIST sets, and the validation front of PHN-EPO over epochs",
        losses_and_evolution,
        comparisons=IMAGES,
    ),
    "figure-4": item(
        "accuracy against fairness: the losses of every point of PHN-EPO on three data sets",
        trade_offs,
        studies=[each.phn for each in FAIRNESS],
    ),
    "figure-5": item(
        "hypervolume against run time: random subsets of pools of 25, 30 and 40 models", races, panels_of=RACES_5
    ),
    "figure-6": item(
        "hypervolume against parameters to train: ResNet18 from chunked hypernetworks",
        against_parameters,
        problems=SIZES,
    ),
    "figure-7": item("Fonseca's problem: MOEA/D and MGDA", known_fronts, rows=TOY_7),
    "figure-8": item(
        "Problem 2 and ZDT2, this also in the box of a sigmoid: PHN, EPO and LS", known_fronts, rows=TOY_8
    ),
    "figure-9": item("which pixels speak for which class, by ray (Multi-MNIST)", attribution, study="multi-mnist-phn"),
    "figure-10": item("hypervolume by Dirichlet's alpha and by hidden dimension", against_settings, settings=SETTINGS),
    "figure-11": item(
        "hypervolume against run time, continued: two Multi-MNIST sets, and NYUv2 without EPO",
        races,
        panels_of=RACES_11,
    ),
    "figure-12": item("what the hypervolume measures", illustration),
    "table-1": item("three Multi-MNIST sets: all methods, five rays for baselines", compared, comparisons=IMAGES),
    "table-2": item("three fairness sets: all methods, ten rays for baselines", compared, comparisons=FAIRNESS),
    "table-3": item("NYUv2: all methods, five rays for baselines", compared, comparisons=SCENES),
    "table-4": item(
        "SARCOS: all methods, twenty rays for baselines, two splits, two presets", compared, comparisons=MOTION
    ),
    "table-5": item("rows of the fairness data", split_sizes),
    "table-6": item("hypernetworks at the rays of the baselines, all data sets", at_same_rays, comparisons=SAME),
    "appendix-b2": item(
        "rays that were never trained on, from the shifted grid (SARCOS)",
        unseen_rays,
        studies={each.title: each.phn for each in (MOTION[0], MOTION[2])},
    ),
    "deviations": item("what departing from the paper does to the numbers (not in the paper)", effects),
}
