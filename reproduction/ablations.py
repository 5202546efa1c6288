"""What departures from the paper do to the numbers, where it can be measured: its choice beside ours."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hyperfront import indicators
from hyperfront.comparison.methods import EVOLUTIONARY
from hyperfront.comparison.result import Result
from hyperfront.comparison.table import spread
from reproduction.drawing import NAME_OF
from reproduction.item_result import Finding, Table, missing_seeds
from reproduction.measurements import population, same_rays
from reproduction.remarks import kept_points
from reproduction.store import Workshop
from reproduction.studies import MNIST, PHN, SEPARATE


def effects(workshop: Workshop) -> Finding:
    """Methods with the paper's choice and with ours, everything else the same (but for the presets of SARCOS)."""
    columns = ("deviation", "problem", "choice", "rays", "seeds", "HV", "uniformity")
    finding, rows = Finding(), []
    for name, problem, method, studies in MEASURED:
        for choice, study in studies.items():
            if method not in workshop.study(study).methods:  # left out of a smoke test
                continue
            results = workshop.results(study, [method])
            wanted = workshop.study(study).seeds
            finding.missing.extend(missing_seeds(f"{name}, {problem}: {choice}", len(results), wanted))
            if results:
                counts = str(len(results[0].rays) or "-"), str(len(results))
                rows.append((name, problem, choice, *counts, *_quality(results)))
                if method in EVOLUTIONARY:
                    rows += _population(workshop, study, rows[-1], results)
            finding.environments.extend(dict(result.environment) for result in results)
    images = workshop.results("multi-fashion-mnist-phn", ["phn-epo"])
    if images:
        rows += _bases(images)
        few = workshop.study("multi-fashion-mnist-5").rays
        fronts = same_rays(workshop, "multi-fashion-mnist-phn", images, few)
        for rays, group in ((len(images[0].rays), [r.fronts["test"] for r in images]), (few, fronts)):
            if group:
                volumes, uniform = ([front[key] for front in group] for key in ("hypervolume", "uniformity"))
                cells = str(rays), str(len(group)), spread(volumes), spread(uniform)
                rows.append(("rays", "multi-fashion-mnist", f"{rays} rays", *cells))
    finding.tables.append(
        Table("What deviations do to the numbers (of PHN-EPO, or of the method named)", columns, rows)
    )
    finding.notes.append(
        "The choices of penalties, splits, sarcos-leak, nyuv2 and nyuv2-split are other losses or other data: a larger "
        "hypervolume is no better model there."
    )
    finding.numbers["effects"] = _in_words(rows)
    return finding


MEASURED = (
    ("bounds", "zdt2", "epo", {"EPO, sin^2": "zdt2-5", "EPO, sigmoid": "zdt2-sigmoid-5"}),
    ("bounds", "zdt2", "phn-epo", {"PHN-EPO, sin^2": "zdt2-phn", "PHN-EPO, sigmoid": "zdt2-sigmoid-phn"}),
    ("relu", MNIST[0], "phn-epo", {"without ReLU": f"{MNIST[0]}-phn", "with ReLU": "with-relu"}),
    ("splits", MNIST[0], "phn-epo", {"clean": f"{MNIST[0]}-phn", "as the paper": "split-paper"}),
    ("penalties", "adult", "phn-epo", {"probabilities": "adult-phn", "logits": "gap-logit"}),
    ("sarcos-leak", "sarcos", "phn-epo", {"as the paper": "sarcos-paper-phn", "blocks": "sarcos-blocks-phn"}),
    ("gram", "adult", "phn-epo", {"of weights": "adult-phn", "of the hypernetwork": "gram-adult"}),
    ("gram", MNIST[0], "phn-epo", {"of weights": f"{MNIST[0]}-phn", "of the hypernetwork": "gram-hypernetwork"}),
    ("cpmtl", "adult", "cpmtl", {"CPMTL, steps halved": "adult-10", "CPMTL, steps of .1": "steps-whole"}),
    *(
        (
            "generations",
            "adult",
            method,
            {f"{NAME_OF[method]}, 1,000": "adult-10", f"{NAME_OF[method]}, 3,000": "adult-evolution"},
        )
        for method in EVOLUTIONARY
    ),
    *(
        (
            "sarcos-batch",
            "sarcos",
            method,
            {f"{NAME_OF[method]}, 256": "sarcos-paper-phn", f"{NAME_OF[method]}, 512": "sarcos-batch-512"},
        )
        for method in PHN
    ),
    *(
        (
            "sarcos-hidden",
            "sarcos",
            method,
            {f"{NAME_OF[method]}, 100, 1e-3": "sarcos-untuned", f"{NAME_OF[method]}, 25, 1e-3": "sarcos-hidden-25"},
        )
        for method in PHN
    ),
    *(
        ("sarcos-settings", "sarcos", method, {f"{NAME_OF[method]}, paper": paper, f"{NAME_OF[method]}, best": best})
        for paper, best, methods in (
            ("sarcos-blocks-20", "sarcos-best-20", SEPARATE),
            ("sarcos-blocks-phn", "sarcos-best-phn", PHN),
        )
        for method in methods
    ),
    ("nyuv2", "nyuv2", "phn-epo", {"144 x 192": "nyuv2-phn", "288 x 384": "nyuv2-288x384-phn"}),
    ("nyuv2-split", "nyuv2", "phn-epo", {"random": "nyuv2-phn", "official": "split-official"}),
    *(
        ("tuning", MNIST[0], method, {f"{NAME_OF[method]}, 1e-4": paper, f"{NAME_OF[method]}, 1e-3": other})
        for paper, other, methods in (
            (f"{MNIST[0]}-5", f"{MNIST[0]}-rate", ("ls",)),
            (f"{MNIST[0]}-5", f"{MNIST[0]}-rate-others", ("epo", "pmtl", "cpmtl")),
            (f"{MNIST[0]}-phn", f"{MNIST[0]}-rate-phn", PHN),
        )
        for method in methods
    ),
    *(
        (
            "tuning",
            "sarcos",
            method,
            {f"{NAME_OF[method]}, 1e-3": "sarcos-untuned", f"{NAME_OF[method]}, by validation": "sarcos-paper-phn"},
        )
        for method in PHN
    ),
)
"""Deviation, problem, method, and the study of each choice."""


def _in_words(rows: Sequence[tuple[str, ...]]) -> dict[str, str]:
    """What was measured of each deviation, a line for each choice: the means of hypervolume and uniformity.

    >>> about = "relu", "mnist"
    >>> rows = [(*about, "with", "25", "3", "2.8 +- 0.1", "0.9"), (*about, "without", "25", "3", "-", "0.8")]
    >>> print(_in_words(rows)["relu"])
    mnist
    with: 2.8 / 0.9
    without: - / 0.8
    """
    effects: dict[str, dict[str, list[str]]] = {}
    for name, problem, choice, _, _, *quality in rows:
        means = " / ".join(cell.split(" +- ")[0] for cell in quality)
        effects.setdefault(name, {}).setdefault(problem, []).append(f"{choice}: {means}")
    lines = {
        name: "\n".join("\n".join([p, *choices]) for p, choices in problems.items() if len(choices) > 1)
        for name, problems in effects.items()
    }
    return {name: line for name, line in lines.items() if line}  # a number alone is no effect


def _quality(results: Sequence[Result]) -> tuple[str, str]:
    tests = [result.fronts["test"] for result in results]
    return spread([test["hypervolume"] for test in tests]), spread([test["uniformity"] for test in tests])


def _population(
    workshop: Workshop, study: str, row: tuple[str, ...], results: Sequence[Result]
) -> list[tuple[str, ...]]:
    """A row for all individuals that validation data would keep, where those of all seeds were looked at."""
    fronts = [population(workshop, study, result.method, result.seed) for result in results]
    if not all(fronts):
        return []
    volumes = [kept_points(results[0].reference, front)[0] for front in fronts if front]
    name, problem, choice, *_ = row
    cells = "-", str(len(volumes)), spread(volumes), "-"
    return [(name, problem, f"{choice}, all that validation keeps", *cells)]


def _bases(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """The uniformity of the same fronts in two bases."""
    rows: list[tuple[str, ...]] = []
    for name, base in (("natural", math.e), ("base 2", 2.0)):
        uniform = [_uniformity(result, base) for result in results]
        cells = str(len(results[0].rays)), str(len(results)), "-", spread(uniform)
        rows.append(("log-base", results[0].problem, name, *cells))
    return rows


def _uniformity(result: Result, base: float) -> float:
    return indicators.uniformity(result.losses(), result.inverse_rays(), base=base).mean().item()
