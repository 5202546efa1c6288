"""Where studies are run and their results are kept: what is finished is never run again.

::

    OUT/PRESET/tuned/PROBLEM-METHOD.json                    settings that were chosen on validation data
    OUT/PRESET/studies/STUDY/results/METHOD-SEED.json       one result for each method and seed
    OUT/PRESET/studies/STUDY/looks/METHOD-SEED-LOOK.json    what else was measured on that model
    OUT/PRESET/studies/STUDY/times/METHOD.json              how long the method takes
    RUNS/PRESET/STUDY/METHOD-SEED/                          the run: large, and needed for new looks only
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from hyperfront.comparison.compare import check_settings, compare
from hyperfront.comparison.formats import filled
from hyperfront.comparison.method import Job
from hyperfront.comparison.methods import EVOLUTIONARY, find_method
from hyperfront.comparison.protocol import Protocol
from hyperfront.comparison.result import Result, loaded
from hyperfront.comparison.timing import seconds_apart, seconds_together
from hyperfront.comparison.tune import tune
from hyperfront.comparison.tuned import Tuned
from hyperfront.errors import CheckpointError, unknown_name
from hyperfront.model import ParetoModel
from hyperfront.preferences import rays as laid_out
from hyperfront.problem import Problem
from hyperfront.problem.registry import build
from hyperfront.storage import files, locks
from hyperfront.storage.provenance import describe, environment
from hyperfront.training import Progress
from hyperfront.training.runs import Run, RunFolder
from hyperfront.zoo.toys import ENTRIES as TOYS
from reproduction.studies import STUDIES, Study

PRESETS = ("full", "smoke")
Notify = Callable[[str, bool], None]
"""Called before each part of the work with its name, and whether it was finished before."""


@dataclass(frozen=True, eq=False)
class Workshop:
    """Studies of one preset. A workshop that does not ``train`` reads what is there, and leaves out what is not."""

    out: Path
    preset: str = "smoke"
    train: bool = True
    seeds: int | None = None
    """Instead of as many as each study has."""
    device: str = "auto"
    data_dir: Path | None = None
    runs: Path = Path("runs/reproduce")
    progress: bool = False
    notify: Notify = lambda part, finished: None
    _problems: dict[str, Problem] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise unknown_name("preset", self.preset, PRESETS)

    def study(self, name: str) -> Study:
        study = STUDIES[name] if self.preset == "full" else STUDIES[name].shrunk()
        return study if self.seeds is None else replace(study, seeds=self.seeds)

    def results(self, name: str, methods: Sequence[str] | None = None) -> list[Result]:
        """The results of a study, or of some of its methods, which is run as far as it has not been."""
        study, folder = self.study(name), self.folder(name)
        methods = study.methods if methods is None else methods
        if not self.train:
            return [result for result in self._there(name) if result.method in methods]

        def tell(method: str, seed: int, result: Result | None) -> None:
            if result is None:  # what was seen on an earlier model is not true of the one to come
                for look in (folder / "looks").glob(f"{method}-{seed}-*.json"):
                    look.unlink()
            self.notify(f"{name}: {method}, seed {seed}", result is not None)

        return compare(
            self.problem(study),
            methods,
            self.plan(study),
            seeds=range(study.seeds),
            folder=folder,
            runs=self.runs_of(name),
            progress=self.progress,
            notify=tell,
        )

    def _there(self, name: str) -> list[Result]:
        """The results in the folder of a study that have its settings."""
        study, files = self.study(name), (self.folder(name) / "results").glob("*.json")
        found = {(result.method, result.seed): result for result in loaded(files) if self._fits(result, study)}
        return sorted(found.values(), key=lambda r: (study.methods.index(r.method), r.seed))

    def look(
        self, name: str, method: str, seed: int, what: str, measure: Callable[[ParetoModel, Problem, RunFolder], Any]
    ) -> Any:
        """Something else measured on a model of a study: kept, so that it is measured once. None where it is missing
        and nothing is trained."""
        return self.part(
            f"studies/{name}/looks/{method}-{seed}-{what}", lambda: self._measured(name, method, seed, measure)
        )

    def seconds(self, name: str, method: str) -> dict[str, Any] | None:
        """How long a method of a study takes: ``training``, all models at once, and ``one_by_one``. Measured from a few
        epochs after the results are there, since those may have been made side by side."""
        study = self.study(name)
        plan, problem = self.plan(study), self.problem(study)

        def measure() -> dict[str, Any]:
            together, apart = (time(method, plan, problem) for time in (seconds_together, seconds_apart))
            where = environment(torch.device(plan.device))
            return {"training": together, "one_by_one": apart, "environment": where}

        settings = plan.settings(method) | {"rays": study.rays}
        return self.part(f"studies/{name}/times/{method}", measure, made_with=settings)

    def part(self, name: str, make: Callable[[], Any], *, made_with: Mapping[str, Any] | None = None) -> Any:
        """Any piece of work whose result is JSON, done once; and again, if it was ``made_with`` other settings."""
        file = self.out / self.preset / f"{name}.json"
        if file.exists():
            known = files.read_json(file)
            if made_with is None or filled(known.get("made_with", {})) == filled(made_with):
                self.notify(name, True)
                return known
        if not self.train:
            return None
        self.notify(name, False)

        def make_it(file: Path) -> None:
            found = make() if made_with is None else {**make(), "made_with": made_with}
            files.write_json(file, found)

        locks.share_out([file], make_it)
        return files.read_json(file)

    def problem(self, study: Study) -> Problem:
        """The problem of a study; its data are read once for all studies."""
        arguments = study.recipe().arguments
        key = f"{study.problem} {sorted(arguments.items())}"
        if key not in self._problems:
            where = None if study.problem in TOYS else self.data_dir
            self._problems[key] = build(study.problem, data_dir=where, **arguments)
        return self._problems[key]

    def plan(self, study: Study) -> Protocol:
        problem = self.problem(study)
        return Protocol(
            preset=study.preset,
            recipe=study.recipe(),
            rays=laid_out(study.rays, problem.m),
            tuned={method: self.tuned(study, method) or {} for method in study.methods},
            solver=study.solver,
            options={"cpmtl": study.expansion, **dict.fromkeys(EVOLUTIONARY, study.budget)},
            device=self.device_for(problem),
        )

    def tuned(self, study: Study, method: str) -> dict[str, Any] | None:
        """The settings of a method on a problem, which all its studies have. None where they are missing and nothing
        is trained."""
        if not study.search or method in EVOLUTIONARY:  # those have no learning rate
            return {}
        method = find_method(method).trained_as
        # chosen in the first study of the list with that problem and method, whichever asks first
        same = (other for other in STUDIES.values() if other.search and other.problem == study.problem)
        first = next(other for other in same if method in other.methods)
        plan = self.plan(replace(first, search={}))
        made_with = plan.settings(method) | {"rays": first.rays, "search": describe(first.search)}
        name = f"tuned/{study.problem}-{method}"
        found = self.part(name, lambda: asdict(self._tuned(first, method, plan)), made_with=made_with)
        return found and found["settings"]

    def _tuned(self, study: Study, method: str, plan: Protocol) -> Tuned:
        trials = self.runs_of(f"tuned-{study.problem}-{method}") / "trials.db"
        files.make_folder(trials.parent)
        return tune(
            self.problem(study),
            method,
            plan,
            space=study.search,
            storage=f"sqlite:///{trials}",
            callbacks=[Progress()] if self.progress else [],
        )

    def _fits(self, result: Result, study: Study) -> bool:
        """Whether a result is one that the study asks for."""
        if result.method not in study.methods or self.tuned(study, result.method) is None:
            return False
        try:
            check_settings(result, self.plan(study), self.problem(study))
        except CheckpointError:
            return False
        return True

    def device_for(self, problem: Problem) -> str:
        if self.device != "auto":
            return self.device
        return "cuda" if problem.has_data and torch.cuda.is_available() else "cpu"

    def folder(self, name: str) -> Path:
        return self.out / self.preset / "studies" / name

    def runs_of(self, name: str) -> Path:
        return self.runs / self.preset / name

    def _measured(self, name: str, method: str, seed: int, measure: Callable) -> Any:
        study = self.study(name)
        problem, callbacks = self.problem(study), [Progress()] if self.progress else []
        # trains where the result is there but the model is gone, and refuses a model with other settings
        known = find_method(method)
        run, _ = known.train(Job(known, self.plan(study), problem, seed, self.runs_of(name), callbacks))
        _check_same(run, next(r for r in self._there(name) if (r.method, r.seed) == (method, seed)))
        return measure(run.model, problem, run.folder)


def _check_same(run: Run, result: Result) -> None:
    """A look belongs beside a result only if it is one at the same model."""
    reached = torch.tensor(result.fronts["val"]["losses"], dtype=torch.float64)
    if run.front is None or not torch.allclose(run.front.losses.double(), reached, rtol=1e-3, atol=1e-9):
        raise CheckpointError(
            "the model is not the one that the result is of",
            got=f"other validation losses in {run.folder.path if run.folder else 'memory'}",
            expected=f"those of {result.method}, seed {result.seed}",
            fix="remove the result file, so that both are made anew",
        )
