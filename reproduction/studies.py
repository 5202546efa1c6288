"""What has to be trained for the paper: studies, each one comparison of methods at the same rays.

A study is data. Its ``full`` version follows the paper; :meth:`Study.shrunk` is the ``smoke`` version, which shows in
seconds that it runs. Items (:mod:`reproduction.items`) share studies, so that nothing is trained twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hyperfront.comparison.baselines import Budget, Expansion
from hyperfront.comparison.methods import EVOLUTIONARY
from hyperfront.comparison.protocol import with_settings
from hyperfront.problem.recipe import Recipe
from hyperfront.problem.registry import recipe
from hyperfront.zoo.multi_mnist import RESNET

MNIST = ("multi-fashion-mnist", "multi-fashion", "multi-mnist")
PEOPLE = ("adult", "default", "bank")
PHN = ("phn-ls", "phn-epo")
SEPARATE = ("ls", "epo")
RATED = ("ls", "epo", "pmtl")
ALPHAS = (0.1, 0.2, 0.3, 0.5, 1.0)
WIDTHS = (25, 50, 100, 150, 200)
RATES = {"lr": [1e-3, 5e-4, 1e-4]}
FASTER = {"lr": 1e-3}
"""Instead of the paper's 1e-4 for Multi-MNIST."""


@dataclass(frozen=True)
class Small:
    """What makes a study run in seconds: a preset, settings that replace its own, and arguments of the problem.

    ``without`` names methods that are left out, since others go the same way.
    """

    preset: str = "smoke"
    changes: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()


TOY = Small("best", {"epochs": 1, "rays_per_step": 4})
IMAGES = Small(changes={"epochs": 1, "batch_size": 64, "hidden": 8}, arguments={"rows": 128})
ROWS = Small(changes={"epochs": 1, "align": False}, arguments={"rows": 1000})
MOTION = Small(changes={"epochs": 1}, arguments={"rows": 256})
SCENES = Small(
    changes={"epochs": 1, "batch_size": 4, "hidden": 2, "batchnorm": "batch"},
    arguments={"rows": 10, "size": "72x96"},
    without=("phn-ls",),
)


@dataclass(frozen=True)
class Study:
    """Methods on one problem: the same rays, seeds and settings."""

    problem: str
    methods: tuple[str, ...]
    rays: int
    small: Small
    seeds: int = 3
    preset: str = "paper"
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Settings that replace those of the preset: fields of its recipe, or options of the hypernetwork."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the problem, beside those of the preset."""
    search: Mapping[str, list[Any]] = field(default_factory=dict)
    """Settings to be chosen for each method, by the paper's protocol (:mod:`hyperfront.comparison.tune`)."""
    solver: Mapping[str, Any] = field(default_factory=dict)
    """Options of the solver."""
    expansion: Expansion = field(default_factory=Expansion)
    budget: Budget = field(default_factory=Budget)

    def recipe(self) -> Recipe:
        """The preset with all that the study changes."""
        known = recipe(self.problem, self.preset)
        return with_settings(known, {**self.changes, "arguments": {**known.arguments, **self.arguments}})

    def shrunk(self) -> Study:
        """The version for a test: a fifth of the rays, one seed, hardly any training."""
        return replace(
            self,
            methods=tuple(method for method in self.methods if method not in self.small.without),
            rays=max(2, self.rays // 5),
            seeds=1,
            preset=self.small.preset,
            changes={**self.small.changes, **self.changes},
            arguments={**self.arguments, **self.small.arguments},
            search={},
            expansion=Expansion(steps=1, iterations=1, rows=64),
            budget=Budget(generations=5, population=12),
        )


def _toys() -> dict[str, Study]:
    few = replace(TOY, arguments={"variables": 4})
    plane = {"variables": 2}  # ZDT2 has two variables in the paper
    sigmoid = {**plane, "box": "sigmoid"}
    return {
        "fonseca-phn": Study("fonseca", ("phn-epo",), 25, few, preset="best"),
        "fonseca-5": Study("fonseca", ("epo", "pmtl", "ls", "mgda"), 5, few, preset="best"),
        "fonseca-evolution": Study(
            "fonseca", EVOLUTIONARY, 5, few, seeds=1, preset="best", budget=Budget(generations=100_000)
        ),
        "problem2-phn": Study("problem2", ("phn-epo",), 25, TOY, preset="best"),
        "problem2-5": Study("problem2", ("epo", "ls"), 5, TOY, preset="best"),
        "zdt2-phn": Study("zdt2", ("phn-epo",), 25, TOY, preset="best", arguments=plane),
        "zdt2-5": Study("zdt2", ("epo", "ls"), 5, TOY, preset="best", arguments=plane),
        "zdt2-sigmoid-phn": Study("zdt2", ("phn-epo",), 25, TOY, preset="best", arguments=sigmoid),
        "zdt2-sigmoid-5": Study("zdt2", ("epo", "ls"), 5, TOY, preset="best", arguments=sigmoid),
    }


def _images() -> dict[str, Study]:
    studies = {}
    for name in MNIST:
        studies[f"{name}-phn"] = Study(name, PHN, 25, IMAGES)
        studies[f"{name}-5"] = Study(name, ("ls", "cpmtl", "pmtl", "epo"), 5, IMAGES)
        studies[f"{name}-rate"] = Study(name, ("ls",), 5, IMAGES, changes=FASTER)
        others = ("epo", "pmtl", "cpmtl")
        studies[f"{name}-rate-others"] = Study(
            name, others, 5, replace(IMAGES, without=others), seeds=1, changes=FASTER
        )
        small = IMAGES if name == MNIST[0] else replace(IMAGES, without=PHN)
        studies[f"{name}-rate-phn"] = Study(name, PHN, 25, small, seeds=1, changes=FASTER)
        studies[f"{name}-25"] = Study(name, SEPARATE, 25, IMAGES, seeds=1)
        lenet = replace(IMAGES, arguments={"rows": 128, "target": "lenet"})
        studies[f"{name}-resnet18-5"] = Study(name, SEPARATE, 5, lenet, seeds=1, preset="resnet18-1m")
        for size, (matrices, _) in RESNET.items():
            chunked = {"hypernet": "chunked", "chunk": 1000, "matrices": matrices}
            tiny = replace(lenet, changes={**IMAGES.changes, **chunked})
            studies[f"{name}-resnet18-{size}"] = Study(name, ("phn-epo",), 25, tiny, seeds=1, preset=f"resnet18-{size}")
    for alpha in ALPHAS[:1] + ALPHAS[2:]:  # the paper's .2 and 100 are in the first study
        studies[f"alpha-{alpha}"] = Study(MNIST[0], ("phn-epo",), 25, IMAGES, changes={"alpha": alpha})
    for width in WIDTHS[:2] + WIDTHS[3:]:
        studies[f"width-{width}"] = Study(MNIST[0], ("phn-epo",), 25, IMAGES, changes={"hidden": width})
    return studies


def _tables() -> dict[str, Study]:
    studies = {}
    for name in PEOPLE:
        studies[f"{name}-phn"] = Study(name, PHN, 153, ROWS, search=RATES)  # the paper samples 150
        methods = ("ls", "cpmtl", "pmtl", "epo", *EVOLUTIONARY)
        studies[f"{name}-10"] = Study(name, methods, 10, ROWS, search=RATES)
        others = replace(ROWS, without=RATED)
        for rate in RATES["lr"]:  # the protocol chooses for baselines by one ray, and does not look at hypervolumes
            studies[f"{name}-rate-{rate:g}"] = Study(name, RATED, 10, others, changes={"lr": rate})
    studies["adult-30"] = Study("adult", SEPARATE, 30, ROWS, seeds=1, search=RATES)
    others = replace(MOTION, without=SEPARATE)
    for split in ("blocks", "paper"):  # rates are chosen on blocks: with the paper's rows, hypervolumes are 0 there
        where = {"split": split}
        studies[f"sarcos-{split}-phn"] = Study("sarcos", PHN, 100, MOTION, arguments=where, search=RATES)
        studies[f"sarcos-{split}-20"] = Study("sarcos", SEPARATE, 20, MOTION, arguments=where, search=RATES)
        studies[f"sarcos-{split}-rate"] = Study("sarcos", SEPARATE, 20, others, arguments=where)  # that of the preset
    studies["sarcos-40"] = Study("sarcos", SEPARATE, 40, MOTION, seeds=1, search=RATES)
    studies["sarcos-40-rate"] = Study("sarcos", SEPARATE, 40, others, seeds=1)
    quickly = replace(MOTION, without=("phn-epo", "epo"))
    studies["sarcos-best-phn"] = Study("sarcos", PHN, 100, quickly, preset="best")
    studies["sarcos-best-20"] = Study("sarcos", SEPARATE, 20, quickly, preset="best")
    return studies


def _scenes() -> dict[str, Study]:
    small = {"size": "144x192"}
    return {
        "nyuv2-phn": Study("nyuv2", PHN, 25, SCENES, seeds=1, arguments=small),
        "nyuv2-5": Study(
            "nyuv2",
            ("ls", "pmtl", "cpmtl", "epo"),
            5,
            replace(SCENES, without=("pmtl", "cpmtl", "epo")),
            seeds=1,
            arguments=small,
            expansion=Expansion(rows=16),
        ),
        "nyuv2-288x384-phn": Study("nyuv2", PHN, 25, SCENES, seeds=1),
    }


def _deviations() -> dict[str, Study]:
    """What the paper does differently, or may have done, one thing at a time."""
    images, scenes = MNIST[0], {"size": "144x192"}
    return {
        "with-relu": Study(images, ("phn-epo",), 25, IMAGES, arguments={"relu": True}),
        "split-paper": Study(images, ("phn-epo",), 25, IMAGES, arguments={"split": "paper"}),
        "gap-logit": Study(
            "adult", ("phn-epo",), 153, replace(ROWS, without=PHN), arguments={"gap": "logit"}, search=RATES
        ),
        "gram-hypernetwork": Study(images, ("phn-epo",), 25, IMAGES, solver={"space": "hypernetwork"}),
        "gram-adult": Study(
            "adult", ("phn-epo",), 153, replace(ROWS, without=PHN), search=RATES, solver={"space": "hypernetwork"}
        ),
        "steps-whole": Study(
            "adult", ("cpmtl",), 10, replace(ROWS, without=("cpmtl",)), search=RATES, expansion=Expansion(halvings=0)
        ),
        "adult-evolution": Study(
            "adult", EVOLUTIONARY, 10, replace(ROWS, without=EVOLUTIONARY), seeds=1, budget=Budget(generations=3000)
        ),
        "sarcos-untuned": Study("sarcos", PHN, 100, replace(MOTION, without=PHN)),
        "sarcos-batch-512": Study(
            "sarcos",
            PHN,
            100,
            replace(MOTION, without=PHN),
            arguments={"split": "paper"},
            changes={"batch_size": 512},
            search=RATES,
        ),
        "sarcos-hidden-25": Study("sarcos", PHN, 100, replace(MOTION, without=PHN), changes={"hidden": 25}),
        "split-official": Study(
            "nyuv2",
            ("phn-epo",),
            25,
            replace(SCENES, without=PHN),
            seeds=1,
            arguments={**scenes, "split": "official"},
        ),
    }


STUDIES: dict[str, Study] = _toys() | _images() | _tables() | _scenes() | _deviations()
