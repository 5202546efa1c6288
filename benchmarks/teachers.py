"""What a teacher gives: one network for all rays, without and with a teacher, beside one model for each ray.

Every method is measured at the same rays, with the epochs chosen for it on the validation rows of another split
(SARCOS: chosen on ``blocks``, measured on ``final``; Adult: on split 0, measured on split 1). All are trained with LS.

    separate            one model for each ray
    separate, taught    the same on the labels of the largest ensemble, at each model's own ray
    plain, taught       one plain network on the labels of the ensemble at the central ray, used at all rays
    ours                one hypernetwork
    K averaged          the ensemble of K hypernetworks itself
    ours, K teachers    one hypernetwork on the labels of the ensemble of K hypernetworks

kept HV is the test hypervolume of the points that validation data would keep. Rows are training rows that went backward
through a network, seconds are of one CPU core, both with the teachers'. Every part is a file in ``--out``; finished
parts are not repeated.

    python benchmarks/teachers.py --out parts --json docs/teachers.json            # all parts, then the table
    python benchmarks/teachers.py --out parts --only sarcos-1 --minutes 10         # one seed, as many parts as fit
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import hyperfront as hf
from hyperfront import preferences
from hyperfront.comparison.baselines import fit_stacked
from hyperfront.comparison.kept import measured
from hyperfront.comparison.paired import paired
from hyperfront.problem import Problem
from hyperfront.problem.lesson import taught
from hyperfront.problem.recipe import Recipe
from hyperfront.problem.registry import build
from hyperfront.storage import files, markdown
from hyperfront.training.runs import Run


class Study(NamedTuple):
    """A problem, the rays, and how a teacher labels it."""

    name: str
    choosing: dict[str, Any]
    """Arguments of the problem on which settings are chosen."""
    final: dict[str, Any]
    """Arguments of the problem that is measured."""
    rays: int
    average: str
    label: int
    lr: float
    epochs: dict[str, list[int]]
    """The epochs that are tried for each method."""
    batch: int
    teachers: tuple[int, ...]


STUDIES = {
    "sarcos": Study(
        "sarcos", {"split": "blocks", "rows": 2000}, {"split": "final", "rows": 2000}, 10, "values", 1, 1e-3,
        {"separate": [10, 20, 40], "ours": [25, 50]}, 32, (1, 2, 4),
    ),
    "adult": Study(
        "adult", {"draw": 0, "rows": 2000}, {"draw": 1, "rows": 2000}, 10, "sigmoid", 2, 1e-3,
        {"separate": [5, 10, 20], "ours": [10, 20]}, 32, (1, 2, 4),
    ),
}  # fmt: skip
QUICK = {
    "sarcos": STUDIES["sarcos"]._replace(
        choosing={"split": "blocks", "rows": 200}, final={"split": "final", "rows": 200}, rays=3,
        epochs={"separate": [1], "ours": [1]}, batch=16, teachers=(1, 2),
    )
}  # fmt: skip
RAYS_PER_STEP, VALIDATIONS = 4, 5


class Trained(NamedTuple):
    """A run, the rows that went backward, and seconds that the teachers took before."""

    run: Run
    rows: int
    before: float = 0.0


class Bench:
    """The parts of one study and seed: each trains once, and its front and costs are in a file."""

    def __init__(self, study: Study, seed: int, folder: Path, deadline: float, *, final: bool = True):
        self.study, self.seed, self.folder, self.deadline = study, seed, folder, deadline
        self.problem: Problem = build(study.name, **(study.final if final else study.choosing))
        self.prefix = f"{study.name}-{seed}" if final else f"{study.name}-choosing"
        self.rays = preferences.rays(study.rays, self.problem.m)
        self.steps = self.problem.train.source.steps(RAYS_PER_STEP * study.batch)

    def part(self, name: str, run: Callable[[], Trained]) -> dict[str, Any]:
        """Return the part of this name; if it has no file, train it."""
        file = self.folder / f"{self.prefix}-{name}.json"
        if file.exists():
            return files.read_json(file)
        if time.perf_counter() > self.deadline:
            raise TimeoutError(name)
        start = time.process_time()
        done, rows, before = run()
        seconds = time.process_time() - start + before
        assert done.front is not None
        test = hf.evaluate(done.model, self.problem.test, done.front.rays)
        fronts = {"val": done.front.losses, "test": test.losses}
        found = {key: [[float(f"{v:.6g}") for v in row] for row in losses.tolist()] for key, losses in fronts.items()}
        found |= {"rows": rows, "seconds": round(seconds, 1)}
        files.write_json(file, found)
        print(file.stem, {k: round(v, 4) for k, v in self.measures(found).items()}, f"{seconds:.0f} s", flush=True)
        return found

    def measures(self, part: dict[str, Any]) -> dict[str, float]:
        val, test = (torch.tensor(part[key], dtype=torch.float64) for key in ("val", "test"))
        return measured(val, test, self.problem.reference or ())._asdict()

    # ---- what is trained -------------------------------------------------------------------------------------------

    def separate(self, epochs: int, rays: Tensor | None = None, problem: Problem | None = None) -> Trained:
        """One model for each ray, side by side."""
        rays = self.rays if rays is None else rays
        recipe = Recipe(epochs=epochs, batch_size=self.study.batch, lr=self.study.lr, validate_every=every(epochs))
        run = fit_stacked(problem or self.problem, rays, hf.LS(), recipe, seed=self.seed, callbacks=())
        return Trained(run, run.history[-1]["step"] * self.study.batch * len(rays))

    def ours(self, epochs: int, member: int, teacher: hf.ParetoModel | None = None) -> Trained:
        """One hypernetwork, on true labels or on a teacher's."""
        seed, size = 1000 * self.seed + member, RAYS_PER_STEP * self.study.batch
        torch.manual_seed(seed)
        model = self.problem.model(hidden=25)
        run = hf.fit(
            model, self.lesson(teacher), solver=hf.LS(), preferences=hf.Dirichlet(1.0), epochs=epochs, batch_size=size,
            rays_per_step=RAYS_PER_STEP, lr=self.study.lr, warmup=30, validation_rays=self.rays,
            validate_every=every(epochs), seed=seed, callbacks=(),
        )  # fmt: skip
        return Trained(run, run.history[-1]["step"] * size)

    def lesson(self, teacher: hf.ParetoModel | None) -> Problem:
        if teacher is None:
            return self.problem
        return taught(self.problem, teacher, relabel=self.study.average, labels=self.study.label)

    def member(self, epochs: int, number: int) -> tuple[hf.ParetoModel, dict[str, Any]]:
        """A teacher, which is kept in a file; the first is ``ours`` without a teacher."""
        file = self.folder / f"{self.prefix}-member{number}.safetensors"

        def train() -> Trained:
            done = self.ours(epochs, number)
            done.run.model.save(file)
            return done

        found = self.part("ours" if number == 0 else f"member{number}", train)
        assert self.problem.make_target is not None
        return hf.load(file, target=self.problem.make_target()), found

    def averaged(self, members: list[hf.ParetoModel]) -> hf.ParetoModel:
        return hf.ensemble(members, average=self.study.average)

    def all_parts(self, chosen: dict[str, int]) -> Iterator[dict[str, Any]]:
        """Train every method that is not in a file yet."""
        most, epochs = max(self.study.teachers), chosen["ours"]
        yield self.part("separate", lambda: self.separate(chosen["separate"]))
        pairs = [self.member(epochs, number) for number in range(most)]
        models, spent = [model for model, _ in pairs], [(part["rows"], part["seconds"]) for _, part in pairs]
        whole = self.averaged(models)

        def with_teachers(count: int, done: Trained) -> Trained:
            rows, seconds = (sum(each) for each in zip(*spent[:count]))
            return Trained(done.run, done.rows + round(rows), seconds)

        central = torch.full((1, self.problem.m), 1 / self.problem.m)
        lesson = self.lesson(whole)
        plain = f"plain, {most} teachers"
        yield self.part(plain, lambda: with_teachers(most, self.separate(epochs, central, lesson)))
        taught_too = f"separate, {most} teachers"
        yield self.part(taught_too, lambda: with_teachers(most, self.separate(chosen["separate"], None, lesson)))
        for count in sorted(self.study.teachers, reverse=True):
            one = self.averaged(models[:count])
            if count > 1:
                front = hf.evaluate(one, self.problem.val, self.rays)
                run = Run(model=one, front=front, history=[], folder=None)
                yield self.part(f"{count} averaged", lambda: with_teachers(count, Trained(run, 0)))  # noqa: B023
            name = f"ours, {count} teacher{'s' * (count > 1)}"
            yield self.part(name, lambda: with_teachers(count, self.ours(epochs, 500 + count, one)))  # noqa: B023


def every(epochs: int) -> int:
    return max(1, epochs // VALIDATIONS)


def choose(study: Study, folder: Path, deadline: float) -> dict[str, int]:
    """Choose the epochs of each method by the hypervolume on validation rows of the other split."""
    bench, chosen = Bench(study, 0, folder, deadline, final=False), {}
    for method, epochs in study.epochs.items():
        found = {}
        for count in epochs:
            run = bench.separate if method == "separate" else lambda count: bench.ours(count, 0)
            part = bench.part(f"{method}-{count}", lambda: run(count))  # noqa: B023
            val = torch.tensor(part["val"], dtype=torch.float64)
            found[count] = measured(val, val, bench.problem.reference or ()).kept
        chosen[method] = max(found, key=found.__getitem__)
    return chosen


def table(study: Study, chosen: dict[str, int], parts: dict[str, dict[int, dict[str, float]]]) -> str:
    """A row for each method, and the differences to the methods that ours has to be above."""
    columns = ["method", "seeds", "kept HV", "pooled HV", "single points", "points", "rows (million)", "CPU seconds"]

    def mean(method: str, key: str) -> float:
        return sum(found[key] for found in parts[method].values()) / len(parts[method])

    rows = [
        [
            method, str(len(parts[method])), *(f"{mean(method, key):.4f}" for key in ("kept", "pooled", "single")),
            f"{mean(method, 'points'):.1f}", f"{mean(method, 'rows') / 1e6:.2f}", f"{mean(method, 'seconds'):,.0f}",
        ]
        for method in parts
    ]  # fmt: skip
    words = f"{study.name}, {study.rays} rays; epochs chosen: " + ", ".join(f"{k} {v}" for k, v in chosen.items())
    return (
        f"{words}\n\n" + markdown.as_markdown(columns, rows) + "\n" + "".join(f"\n- {line}" for line in compared(parts))
    )


def compared(parts: dict[str, dict[int, dict[str, float]]]) -> Iterator[str]:
    """Differences of kept hypervolume, with 95 % intervals over seeds."""
    kept = {method: {seed: found["kept"] for seed, found in seeds.items()} for method, seeds in parts.items()}
    ours = [name for name in kept if name.startswith("ours")]
    others = [name for name in kept if name.startswith(("separate", "plain"))]
    for one in ours:
        for other in [*others, *(["ours"] if one != "ours" else [])]:
            if len(kept[one].keys() & kept[other].keys()) > 1:
                yield f"kept HV, {one} beside {other}: {paired(kept[one], kept[other])}"


def read_parts(bench: Bench, seeds: list[int]) -> dict[str, dict[int, dict[str, float]]]:
    """The measures and costs of all parts that have files, by method and seed."""
    found: dict[str, dict[int, dict[str, float]]] = {}
    for seed in seeds:
        start = f"{bench.study.name}-{seed}-"
        for file in sorted(bench.folder.glob(f"{start}*.json")):
            if (method := file.stem.removeprefix(start)).startswith("member"):
                continue
            part = files.read_json(file)
            costs = {"rows": part["rows"], "seconds": part["seconds"]}
            found.setdefault(method, {})[seed] = bench.measures(part) | costs
    return dict(sorted(found.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two short seeds of SARCOS")
    parser.add_argument("--out", type=Path, default=Path("parts"), help="the folder of finished parts")
    parser.add_argument("--only", nargs="*", default=[], metavar="STUDY-SEED", help="such as sarcos-1; default: all")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=1e6, help="start no part after so many minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all measures there")
    options = parser.parse_args()
    studies, seeds = (QUICK, 2) if options.quick else (STUDIES, options.seeds)
    try:
        hf.evaluate(build("sarcos", rows=100).model(hidden=2), build("sarcos", rows=100).val, 1)
    except hf.HyperfrontError as error:
        print(f"this script needs data: {error.what}")
        return
    deadline, document = time.perf_counter() + 60 * options.minutes, {}
    for study in studies.values():
        if options.only and not any(name.startswith(f"{study.name}-") for name in options.only):
            continue
        try:
            chosen = choose(study, options.out, deadline)
            for seed in range(seeds):
                if not options.only or f"{study.name}-{seed}" in options.only:
                    for _ in Bench(study, seed, options.out, deadline).all_parts(chosen):
                        pass
        except TimeoutError as error:
            print(f"no time left before {study.name}: {error}")
            continue
        finally:
            parts = read_parts(Bench(study, 0, options.out, deadline), [*range(seeds)])
        print(table(study, chosen, parts) + "\n")
        document[study.name] = {"chosen": chosen, "parts": parts, "table": table(study, chosen, parts)}
    if options.json:
        options.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
