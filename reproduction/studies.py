"""The studies of the paper, each one comparison of methods at the same rays.

A study is data, and follows the paper. :meth:`Study.shrunk` is its ``smoke`` version, which runs in
seconds. Items (:mod:`reproduction.items`) share studies, so that nothing is trained twice.
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
from hyperfront.zoo.toys import ENTRIES as TOYS

MNIST = ("multi-fashion-mnist", "multi-fashion", "multi-mnist")
PEOPLE = ("adult", "default", "bank")
PHN = ("phn-ls", "phn-epo")
SEPARATE = ("ls", "epo")
ALPHAS = (0.1, 0.2, 0.3, 0.5, 1.0)
WIDTHS = (25, 50, 100, 150, 200)
RATES = {"lr": [1e-3, 5e-4, 1e-4]}
FASTER = {"lr": 1e-3}
"""Replaces the paper's 1e-4 for Multi-MNIST."""
LOW = {"size": "144x192"}


@dataclass(frozen=True)
class Study:
    """Methods on one problem: the same rays, seeds and settings."""

    problem: str
    methods: tuple[str, ...]
    rays: int
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
        """The preset with the settings that the study changes."""
        known = recipe(self.problem, self.preset)
        return with_settings(known, {**self.changes, "arguments": {**known.arguments, **self.arguments}})

    def shrunk(self) -> Study:
        """The smoke version: a fifth of the rays, one seed, one epoch, and few rows of data."""
        small = replace(
            self,
            rays=max(2, self.rays // 5),
            seeds=1,
            changes={"epochs": 1},
            search={},
            expansion=Expansion(steps=1, iterations=1, rows=64),
            budget=Budget(generations=5, population=12),
        )
        if self.problem in TOYS:
            return small
        return replace(small, preset="smoke", arguments={**self.arguments, **recipe(self.problem, "smoke").arguments})


def _toys() -> dict[str, Study]:
    studies = {
        "fonseca-phn": Study("fonseca", ("phn-epo",), 25),
        "fonseca-5": Study("fonseca", ("epo", "pmtl", "ls", "mgda"), 5),
        "fonseca-evolution": Study("fonseca", EVOLUTIONARY, 5, seeds=1, budget=Budget(generations=100_000)),
    }
    plane = {"variables": 2}  # ZDT2 has two variables in the paper
    boxes = {"problem2": {}, "zdt2": plane, "zdt2-sigmoid": {**plane, "box": "sigmoid"}}
    for name, arguments in boxes.items():
        problem = name.removesuffix("-sigmoid")
        studies[f"{name}-phn"] = Study(problem, ("phn-epo",), 25, arguments=arguments)
        studies[f"{name}-5"] = Study(problem, ("epo", "ls"), 5, arguments=arguments)
    return {name: replace(study, preset="best") for name, study in studies.items()}


def _images() -> dict[str, Study]:
    studies = {}
    for name in MNIST:
        studies[f"{name}-phn"] = Study(name, PHN, 25)
        studies[f"{name}-5"] = Study(name, ("ls", "cpmtl", "pmtl", "epo"), 5)
        studies[f"{name}-rate"] = Study(name, ("ls",), 5, changes=FASTER)
        studies[f"{name}-rate-others"] = Study(name, ("epo", "pmtl", "cpmtl"), 5, seeds=1, changes=FASTER)
        studies[f"{name}-rate-phn"] = Study(name, PHN, 25, seeds=1, changes=FASTER)
        studies[f"{name}-25"] = Study(name, SEPARATE, 25, seeds=1)
        studies[f"{name}-resnet18-5"] = Study(name, SEPARATE, 5, seeds=1, preset="resnet18-1m")
        for size in RESNET:
            studies[f"{name}-resnet18-{size}"] = Study(name, ("phn-epo",), 25, seeds=1, preset=f"resnet18-{size}")
    one = Study(MNIST[0], ("phn-epo",), 25)  # its alpha of .2 and width of 100 are in the first study
    studies |= {f"alpha-{alpha}": replace(one, changes={"alpha": alpha}) for alpha in ALPHAS if alpha != 0.2}
    return studies | {f"width-{width}": replace(one, changes={"hidden": width}) for width in WIDTHS if width != 100}


def _rows() -> dict[str, Study]:
    studies = {}
    for name in PEOPLE:
        methods = ("ls", "cpmtl", "pmtl", "epo", *EVOLUTIONARY)
        studies[f"{name}-phn"] = Study(name, PHN, 153, search=RATES)  # the paper samples 150
        studies[f"{name}-10"] = Study(name, methods, 10, search=RATES)
        for rate in RATES["lr"]:  # the protocol chooses for baselines by one ray, and does not look at hypervolumes
            studies[f"{name}-rate-{rate:g}"] = Study(name, ("ls", "epo", "pmtl"), 10, changes={"lr": rate})
    studies["adult-30"] = Study("adult", SEPARATE, 30, seeds=1, search=RATES)
    for split in ("blocks", "paper"):  # on blocks, since hypervolumes are 0 with the paper's rows
        where = {"split": split}
        studies[f"sarcos-{split}-phn"] = Study("sarcos", PHN, 100, arguments=where, search=RATES)
        studies[f"sarcos-{split}-20"] = Study("sarcos", SEPARATE, 20, arguments=where, search=RATES)
        studies[f"sarcos-{split}-rate"] = Study(
            "sarcos", SEPARATE, 20, arguments=where
        )  # the learning rate of the preset
    return studies | {
        "sarcos-40": Study("sarcos", SEPARATE, 40, seeds=1, search=RATES),
        "sarcos-40-rate": Study("sarcos", SEPARATE, 40, seeds=1),
        "sarcos-best-phn": Study("sarcos", PHN, 100, preset="best"),
        "sarcos-best-20": Study("sarcos", SEPARATE, 20, preset="best"),
    }


def _deviations() -> dict[str, Study]:
    """Make studies of the deviations: each makes one choice as the paper does, or may have done."""
    images, people = Study(MNIST[0], ("phn-epo",), 25), Study("adult", ("phn-epo",), 153, search=RATES)
    motion, outer = Study("sarcos", PHN, 100), {"space": "hypernetwork"}
    return {
        "with-relu": replace(images, arguments={"relu": True}),
        "split-paper": replace(images, arguments={"split": "paper"}),
        "gap-logit": replace(people, arguments={"gap": "logit"}),
        "gram-hypernetwork": replace(images, solver=outer),
        "gram-adult": replace(people, solver=outer),
        "steps-whole": Study("adult", ("cpmtl",), 10, search=RATES, expansion=Expansion(halvings=0)),
        "adult-evolution": Study("adult", EVOLUTIONARY, 10, seeds=1, budget=Budget(generations=3000)),
        "sarcos-untuned": motion,
        "sarcos-batch-512": replace(motion, arguments={"split": "paper"}, changes={"batch_size": 512}, search=RATES),
        "sarcos-hidden-25": replace(motion, changes={"hidden": 25}),
        "split-official": Study("nyuv2", ("phn-epo",), 25, seeds=1, arguments={**LOW, "split": "official"}),
    }


SCENES = {
    "nyuv2-phn": Study("nyuv2", PHN, 25, seeds=1, arguments=LOW),
    "nyuv2-5": Study("nyuv2", ("ls", "pmtl", "cpmtl", "epo"), 5, seeds=1, arguments=LOW, expansion=Expansion(rows=16)),
    "nyuv2-288x384-phn": Study("nyuv2", PHN, 25, seeds=1),
}
STUDIES: dict[str, Study] = _toys() | _images() | _rows() | SCENES | _deviations()
