"""Limits that hold: how often certified rays keep their limit in the population, and what certainty costs.

A model is trained once. Rows that nothing has seen are the population: its gap is known. Each draw takes calibration
rows from it and selects, as ``front.select(maximize="accuracy", subject_to={"fpr_gap": limit}, confidence=...)`` does:

    violations   draws whose ray has a population gap above the limit, of all draws; the bound is 1 - confidence
    certified    share of draws with a certified ray
    accuracy     mean over certified draws, on the population
    oracle       accuracy of the best ray for somebody who knows the population gap
    on a sample  share of certified rays whose gap on as many new rows keeps the limit, and what theory predicts: the
                 normal distribution of a sample's gap around the population's

``without`` selects on validation rows alone, without calibration. A second table shows how many rows a limit needs at
all: a classifier without any gap, whose false positive rate is .2 in both groups, is tested by the exact test on random
rows of which as many count as in ACS (14 % married and 36 % other people without employment).

ACS employment: 55,926 rows to train and 6,215 to validate, 200,000 as population, groups by marriage or by sex
(``--groups``). The data folder needs ``acs/employment.csv.gz`` (``hyperfront data get acs``). ``--data simulated``
draws all rows from a known distribution instead and needs no file.

    python benchmarks/certified_limits.py --groups married
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from scipy.special import ndtr
from torch import Tensor, nn

import hyperfront as hf
from hyperfront.front import selection
from hyperfront.front.certification import Candidate, Certifier
from hyperfront.front.evidence import BoundedGap, BoundedMean, Evidence
from hyperfront.front.question import Question
from hyperfront.front.rows import evidence
from hyperfront.zoo import fairness
from hyperfront.zoo.data.acs import ACS

ROWS = 2000
COUNTED, RATE = (0.14, 0.36), 0.2
"""The shares of the rows that count in each group, and the false positive rate, of a classifier without a gap."""
Rows = tuple[Tensor, ...]
"""The inputs of the network, the label and the membership of the first group."""


class Draw(NamedTuple):
    """One calibration set: the candidates that passed, and the gap and accuracy of the last on the population."""

    passed: int
    gap: float
    accuracy: float
    new_gap: float
    expected: float


# ---- problems --------------------------------------------------------------------------------------------------------


def acs(groups: str) -> tuple[dict[str, Rows], nn.Module]:
    """Rows of ACS employment by split, and the network."""
    if groups == "married":
        fairness.DATA_SETS["acs"] = replace(
            ACS, protected=lambda columns: columns["MAR"] == ACS.schema.code("MAR", "1")
        )
    known = fairness.make("acs", rows=77_677)
    splits = {name: known.sources[name].data for name in ("train", "val")}
    return splits | {"population": fairness.unseen("acs", 77_677)}, known.make_target()


def simulated(sizes: Mapping[str, int]) -> tuple[dict[str, Rows], nn.Module]:
    """Rows of two groups, of which one has more of an input that is of use."""

    def rows(count: int, seed: int) -> Rows:
        generator = torch.Generator().manual_seed(seed)
        group, x = torch.rand(count, generator=generator) < 0.4, torch.randn(count, 6, generator=generator)
        logit = 1.5 * x[:, 0] + x[:, 1] - 0.5 * x[:, 2] * x[:, 3] + 1.2 * group
        label = torch.rand(count, generator=generator) < logit.sigmoid()
        return x + group[:, None] * torch.eye(6)[0], group[:, None].float(), label, group

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, 1), nn.Flatten(-2))

        def forward(self, x: Tensor, group: Tensor) -> Tensor:
            return self.layers(torch.cat([x, group], dim=-1))

    return {name: rows(count, seed) for seed, (name, count) in enumerate(sizes.items())}, Net()


def problem(splits: Mapping[str, Rows], calibration: Rows) -> hf.Problem:
    """Two losses, the log loss and a smooth gap, and two scores, accuracy and the gap in false positive rates."""

    def decision(logit: Tensor) -> Tensor:
        return (logit > 0).to(logit)

    return hf.supervised(
        splits["train"],
        splits["val"],
        calibration=calibration,
        losses={
            "log loss": lambda logit, batch: F.binary_cross_entropy_with_logits(logit, batch[2].to(logit)),
            "smooth gap": hf.Loss(fairness.group_gap(lambda logit: (5 * logit).sigmoid(), label=False), bounds=(0, 1)),
        },
        scores={
            "accuracy": hf.Score(
                lambda logit, batch: (decision(logit) == batch[2]).to(logit).mean(), maximize=True, bounds=(0, 1)
            ),
            "fpr_gap": hf.Score(fairness.group_gap(decision, label=False), maximize=False, bounds=(0, 1)),
        },
        reference=(1, 1),
        scale={"smooth gap": 5.0},  # spreads the gaps evenly over the rays
        inputs=lambda batch: batch[:2],
    )


def train(asked: hf.Problem, net: nn.Module, epochs: int) -> hf.ParetoModel:
    torch.manual_seed(0)
    model = hf.wrap(net, asked.objectives, hidden=25, generate="layers.*")
    options = {"epochs": epochs, "batch_size": 2048, "rays_per_step": 4, "lr": 3e-3, "warmup": 30}
    hf.fit(model, asked, solver=hf.LS(), preferences=hf.Dirichlet(1.0), validate_every=epochs, callbacks=[], **options)
    return model


# ---- draws -----------------------------------------------------------------------------------------------------------


class Population:
    """The rows of the population with the decisions of every candidate."""

    def __init__(self, model: hf.ParetoModel, asked: hf.Problem, candidates: list[Candidate]):
        names = ("accuracy", "fpr_gap")
        self.candidates = candidates
        self.evidence = [evidence(model, asked.calibration, each.ray, names, batch_size=8192) for each in candidates]

    def __len__(self) -> int:
        return self.evidence[0]["fpr_gap"].rows

    def sample(self, index: int, rows: np.ndarray) -> dict[str, Evidence]:
        """The evidence of some rows for a candidate's gap, by the test that validation rows chose."""
        known, like = self.evidence[index]["fpr_gap"], self.candidates[index].evidence["fpr_gap"]
        assert isinstance(known, BoundedGap)
        part = replace(known, values=known.values[rows], members=known.members[:, rows])
        return {"fpr_gap": part.tested_as(like)}

    def error(self, index: int, rows: int) -> float:
        """The standard error of the gap on a sample."""
        return self.evidence[index]["fpr_gap"].error * (len(self) / rows) ** 0.5

    def accuracy(self, index: int) -> float:
        known = self.evidence[index]["accuracy"]
        assert isinstance(known, BoundedMean)
        return known.value


def candidates_of(front: hf.Front, certifier: Certifier) -> list[Candidate]:
    """The candidates of ``front.select(..., confidence=...)``."""
    evaluator = front.evaluator
    assert evaluator is not None
    points, _ = selection.searched(front, certifier.question, 8)
    return certifier.candidates(points, lambda rays: evaluator(rays).columns(), 8)


def draw(certifier: Certifier, population: Population, limit: float, seed: int) -> Draw | None:
    """Certify on random rows of the population, and measure the gap on other random rows; None without a ray."""
    rows = np.random.default_rng(seed).choice(len(population), 2 * ROWS, replace=False)
    order = {id(each): index for index, each in enumerate(population.candidates)}
    passed = len(certifier.walk(population.candidates, lambda each: population.sample(order[id(each)], rows[:ROWS])))
    if not passed:
        return None
    index = passed - 1
    gap, new = population.evidence[index]["fpr_gap"].value, population.sample(index, rows[ROWS:])["fpr_gap"].value
    spread = population.error(index, ROWS)
    expected = float(ndtr((limit - gap) / spread) - ndtr((-limit - gap) / spread))
    return Draw(passed, gap, population.accuracy(index), new, expected)


def row(certifier: Certifier, population: Population, limit: float, draws: int, oracle: float) -> str:
    found = [each for each in (draw(certifier, population, limit, seed) for seed in range(draws)) if each is not None]
    violations = sum(each.gap > limit for each in found)
    start = f"| {limit:g} | {certifier.confidence:g} | {violations} | {len(found) / draws:.1%} |"
    if not found:
        return f"{start} - | {oracle:.4f} | - | - | - |"
    accuracy, gap, kept, expected = (
        float(np.mean(values))
        for values in zip(*((each.accuracy, each.gap, each.new_gap <= limit, each.expected) for each in found))
    )
    return f"{start} {accuracy:.4f} | {oracle:.4f} | {gap:.4f} | {kept:.1%} | {expected:.1%} |"


def without(front: hf.Front, truth: hf.Front, limit: float) -> str:
    """The row of a selection on validation rows alone."""
    ray = front.select(maximize="accuracy", subject_to={"fpr_gap": limit}).ray
    assert truth.evaluator is not None
    there = {name: values.item() for name, values in truth.evaluator(ray[None]).columns().items()}
    kept = "no violation" if there["fpr_gap"] <= limit else "violation"
    return f"| {limit:g} | without | {kept} | - | {there['accuracy']:.4f} | | {there['fpr_gap']:.4f} | - | - |"


def passing(limit: float, confidence: float, rows: int, draws: int) -> float:
    """The share of draws of ``rows`` rows in which a classifier without a gap passes the exact test."""
    passed = 0
    for seed in range(draws):
        random = np.random.default_rng(seed)
        sizes = random.multinomial(rows, [*COUNTED, 1 - sum(COUNTED)])[:2]
        values = (random.random(sizes.sum()) < RATE).astype(float)
        members = np.repeat(np.eye(2, dtype=bool), sizes, axis=1)
        passed += BoundedGap(values, (0.0, 1.0), "binomial", members).passes("<=", limit, 1 - confidence)
    return passed / draws


def needed(limits: list[float], confidence: float, draws: int) -> None:
    """Print the share of draws in which a classifier without a gap passes, by rows."""
    sizes = (ROWS, 2 * ROWS, 3 * ROWS, 4 * ROWS)
    print("\n| limit | confidence | " + " | ".join(f"{rows:,} rows" for rows in sizes) + " |")
    print("|---" * (2 + len(sizes)) + "|")
    for limit in limits:
        shares = " | ".join(f"{passing(limit, confidence, rows, draws):.1%}" for rows in sizes)
        print(f"| {limit:g} | {confidence:g} | {shares} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=["acs", "simulated"], default="acs")
    parser.add_argument("--groups", choices=["married", "sex"], default="married")
    parser.add_argument("--limits", type=float, nargs="+", default=[0.05, 0.1, 0.12])
    parser.add_argument("--confidences", type=float, nargs="+", default=[0.95, 0.8])
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--only-needed", action="store_true", help="print the second table only")
    parser.add_argument("--quick", action="store_true", help="smallest settings: shows in seconds that the script runs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.quick:
        options.data, options.limits, options.draws, options.epochs = "simulated", [0.15], 20, 20
    if not options.only_needed:
        certified(options)
    needed(options.limits, options.confidences[0], options.draws)


def certified(options: argparse.Namespace) -> None:
    """Print what certificates promise and cost, by limit and confidence."""
    size = 20_000 if options.quick else 200_000
    sizes = {"train": size // 4, "val": size // 20, "population": size}
    splits, net = simulated(sizes) if options.data == "simulated" else acs(options.groups)
    whole = problem(splits, splits["population"])
    model = train(whole, net, options.epochs)
    few = problem(splits, tuple(column[:ROWS] for column in splits["population"]))  # as many rows as a draw has
    front, truth = hf.evaluate(model, few.val), hf.evaluate(model, whole.calibration, batch_size=8192)
    print("| limit | confidence | violations | certified | accuracy | oracle | gap | on a sample | theory |")
    print("|---|---|---|---|---|---|---|---|---|")
    for limit in options.limits:
        asked = {"maximize": "accuracy", "subject_to": {"fpr_gap": limit}}
        oracle = truth.select(**asked, rounds=4).values["accuracy"]
        print(without(front, truth, limit), flush=True)
        for confidence in options.confidences:
            assert front.origin is not None
            certifier = Certifier(front.origin, Question("accuracy", {"fpr_gap": ("<=", limit)}, True), confidence)
            population = Population(model, whole, candidates_of(front, certifier))
            print(row(certifier, population, limit, options.draws, oracle), flush=True)


if __name__ == "__main__":
    main()
