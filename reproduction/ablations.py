"""Ablations: the measured effect of departures from the paper, with its choice beside ours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hyperfront import indicators
from hyperfront.comparison.methods import EVOLUTIONARY
from hyperfront.comparison.result import Result
from hyperfront.comparison.table import spread
from reproduction.drawing import NAME_OF
from reproduction.item_result import ItemResult, Row, Table, fronts_of, quality
from reproduction.measurements import kept_points, population, same_rays
from reproduction.store import Store
from reproduction.studies import MNIST, PHN, SEPARATE


@dataclass(frozen=True)
class Ablation:
    """A departure on one problem: the study of each choice, with everything else the same."""

    deviation: str
    problem: str
    choices: Mapping[str, str]
    methods: tuple[str, ...] = ()
    """Methods whose names precede the choices; PHN-EPO by default, without its name."""


IMAGES = f"{MNIST[0]}-phn"
ABLATIONS = (
    Ablation("bounds", "zdt2", {"sin^2": "zdt2-5", "sigmoid": "zdt2-sigmoid-5"}, ("epo",)),
    Ablation("bounds", "zdt2", {"sin^2": "zdt2-phn", "sigmoid": "zdt2-sigmoid-phn"}, ("phn-epo",)),
    Ablation("relu", MNIST[0], {"without ReLU": IMAGES, "with ReLU": "with-relu"}),
    Ablation("splits", MNIST[0], {"clean": IMAGES, "as the paper": "split-paper"}),
    Ablation("penalties", "adult", {"probabilities": "adult-phn", "logits": "gap-logit"}),
    Ablation("sarcos-leak", "sarcos", {"as the paper": "sarcos-paper-phn", "blocks": "sarcos-blocks-phn"}),
    Ablation("gram", "adult", {"of weights": "adult-phn", "of the hypernetwork": "gram-adult"}),
    Ablation("gram", MNIST[0], {"of weights": IMAGES, "of the hypernetwork": "gram-hypernetwork"}),
    Ablation("cpmtl", "adult", {"steps halved": "adult-10", "steps of .1": "steps-whole"}, ("cpmtl",)),
    Ablation("generations", "adult", {"1,000": "adult-10", "3,000": "adult-evolution"}, EVOLUTIONARY),
    Ablation("sarcos-batch", "sarcos", {"256": "sarcos-paper-phn", "512": "sarcos-batch-512"}, PHN),
    Ablation("sarcos-hidden", "sarcos", {"100, 1e-3": "sarcos-untuned", "25, 1e-3": "sarcos-hidden-25"}, PHN),
    Ablation("sarcos-settings", "sarcos", {"paper": "sarcos-blocks-20", "best": "sarcos-best-20"}, SEPARATE),
    Ablation("sarcos-settings", "sarcos", {"paper": "sarcos-blocks-phn", "best": "sarcos-best-phn"}, PHN),
    Ablation("nyuv2", "nyuv2", {"144 x 192": "nyuv2-phn", "288 x 384": "nyuv2-288x384-phn"}),
    Ablation("nyuv2-split", "nyuv2", {"random": "nyuv2-phn", "official": "split-official"}),
    Ablation("tuning", MNIST[0], {"1e-4": f"{MNIST[0]}-5", "1e-3": f"{MNIST[0]}-rate"}, ("ls",)),
    Ablation(
        "tuning", MNIST[0], {"1e-4": f"{MNIST[0]}-5", "1e-3": f"{MNIST[0]}-rate-others"}, ("epo", "pmtl", "cpmtl")
    ),
    Ablation("tuning", MNIST[0], {"1e-4": IMAGES, "1e-3": f"{MNIST[0]}-rate-phn"}, PHN),
    Ablation("tuning", "sarcos", {"1e-3": "sarcos-untuned", "by validation": "sarcos-paper-phn"}, PHN),
)
COLUMNS = ("deviation", "problem", "choice", "rays", "seeds", "HV", "uniformity")
NOTE = (
    "The choices of penalties, splits, sarcos-leak, nyuv2 and nyuv2-split use other losses or data: there a larger "
    "hypervolume does not mean a better model."
)


def effects(store: Store) -> ItemResult:
    """Methods with the paper's choice and with ours, everything else the same (but for the presets of SARCOS)."""
    rows = [row for ablation in ABLATIONS for row in _rows(store, ablation)]
    images = store.results(IMAGES, ["phn-epo"])
    rows += [*_bases(images), *_few_rays(store, images)]
    table = Table("What deviations do to the numbers (of PHN-EPO, or of the method named)", COLUMNS, rows)
    return ItemResult([table], notes=[NOTE])


def _rows(store: Store, ablation: Ablation) -> Iterator[Row]:
    for method in ablation.methods or ("phn-epo",):
        for name, study in ablation.choices.items():
            choice = f"{NAME_OF[method]}, {name}" if ablation.methods else name
            results, about = store.results(study, [method]), (ablation.deviation, ablation.problem)
            count = str(len(results))
            yield *about, choice, str(len(results[0].rays) or "-"), count, *quality(fronts_of(results))
            if method in EVOLUTIONARY:
                volumes = [kept_points(r.reference, population(store, study, method, r.seed))[0] for r in results]
                yield *about, f"{choice}, all that validation keeps", "-", count, spread(volumes), "-"


def _bases(results: Sequence[Result]) -> Iterator[Row]:
    """The uniformity of the same fronts in two bases of the logarithm."""
    for name, base in (("natural", math.e), ("base 2", 2.0)):
        each = (indicators.uniformity(result.losses(), result.inverse_rays(), base=base) for result in results)
        counts = str(len(results[0].rays)), str(len(results))
        yield "log-base", results[0].problem, name, *counts, "-", spread([uniform.mean().item() for uniform in each])


def _few_rays(store: Store, results: Sequence[Result]) -> Iterator[Row]:
    """The same hypernetworks at all their rays, and at those of the baselines."""
    few = store.study(f"{MNIST[0]}-5").rays
    for rays, fronts in ((len(results[0].rays), fronts_of(results)), (few, same_rays(store, IMAGES, results, few))):
        yield "rays", MNIST[0], f"{rays} rays", str(rays), str(len(fronts)), *quality(fronts)
