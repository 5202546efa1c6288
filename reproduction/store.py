"""The store: it runs studies and keeps their results. Finished parts are never run again.

::

    OUT/PRESET/tuned/PROBLEM-METHOD.json                       settings that were chosen on validation data
    OUT/PRESET/studies/STUDY/results/METHOD-SEED.json          one result for each method and seed
    OUT/PRESET/studies/STUDY/measurements/METHOD-SEED-*.json   other measurements of that model
    OUT/PRESET/studies/STUDY/times/METHOD.json                 the time of the method
    RUNS/PRESET/STUDY/METHOD-SEED/                             the run: large, and needed for new measurements only
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from hyperfront.apps.cli.arguments import choose_device
from hyperfront.comparison.compare import compare
from hyperfront.comparison.formats import filled
from hyperfront.comparison.method import ComparisonJob
from hyperfront.comparison.methods import find_method
from hyperfront.comparison.protocol import Protocol
from hyperfront.comparison.result import Result
from hyperfront.comparison.timing import seconds_apart, seconds_together
from hyperfront.comparison.tune import tune
from hyperfront.errors import CheckpointError, unknown_name
from hyperfront.model import ParetoModel
from hyperfront.preferences import rays
from hyperfront.problem import Problem
from hyperfront.problem.registry import build
from hyperfront.storage import files, locks
from hyperfront.storage.provenance import describe, environment
from hyperfront.storage.schemas import respell
from hyperfront.training import Progress
from hyperfront.training.runs import Run
from hyperfront.zoo.toys import ENTRIES as TOYS
from reproduction.studies import STUDIES, Study

PRESETS = ("full", "smoke")


@dataclass(frozen=True, eq=False)
class Store:
    """Studies of one preset."""

    out: Path
    preset: str = "smoke"
    train: bool = True
    """Whether missing parts are trained; otherwise they are an error."""
    device: str = "auto"
    data_dir: Path | None = None
    runs: Path = Path("runs/reproduce")
    notify: Callable[[str], None] | None = None
    """A function that is called before each part that is trained or measured, with its name; training then shows its
    progress."""
    environments: list[dict[str, Any]] = field(default_factory=list)
    """Environments of the results that were asked for."""
    _problems: dict[str, Problem] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise unknown_name("preset", self.preset, PRESETS)

    def study(self, name: str) -> Study:
        return STUDIES[name] if self.preset == "full" else STUDIES[name].smoke()

    def results(self, name: str, methods: Sequence[str] | None = None) -> list[Result]:
        """The results of all seeds of a study, or of some of its methods; missing ones are trained."""
        study, folder = self.study(name), self.folder(name)

        def tell(method: str, seed: int, known: Result | None) -> None:
            if known is None:
                self._begin(f"{name}: {method}, seed {seed}")
                for file in (folder / "measurements").glob(f"{method}-{seed}-*.json"):
                    file.unlink()  # measurements of an earlier model do not apply to the next

        work = {"folder": folder, "runs": self.runs_of(name), "progress": self.notify is not None, "notify": tell}
        methods, seeds = methods or study.methods, range(study.seeds)
        found = compare(self.problem(study), methods, self.protocol(study), seeds=seeds, **work)
        self.environments.extend(dict(result.environment) for result in found)
        return found

    def measure(self, name: str, result: Result, what: str, measure: Callable[[ParetoModel, Problem, Any], Any]) -> Any:
        """Make another measurement of the model of a result, once."""

        def make() -> Any:
            study, known = self.study(name), find_method(result.method)
            problem = self.problem(study)
            # trains again if the model was removed, and refuses a model with other settings
            job = ComparisonJob(known, self.protocol(study), problem, result.seed, self.runs_of(name), self.callbacks)
            run, _ = known.train(job)
            _check_same(run, result)
            return measure(run.model, problem, run.folder)

        return self.part(f"studies/{name}/measurements/{result.method}-{result.seed}-{what}", make)

    def seconds(self, name: str, method: str) -> dict[str, float]:
        """Seconds that a method of a study takes: ``training``, all models at once, and ``one_by_one``. Both are
        measured from a few epochs after training, since studies may be trained side by side."""
        study = self.study(name)
        protocol, problem = self.protocol(study), self.problem(study)

        def make() -> dict[str, Any]:
            together, apart = (time(method, protocol, problem) for time in (seconds_together, seconds_apart))
            where = environment(torch.device(protocol.device))
            return {"training": together, "one_by_one": apart, "environment": where}

        settings = protocol.settings(method) | {"rays": study.rays}
        found = self.part(f"studies/{name}/times/{method}", make, made_with=settings)
        return {key: found[key] for key in ("training", "one_by_one")}

    def part(self, name: str, make: Callable[[], Any], *, made_with: Mapping[str, Any] | None = None) -> Any:
        """The JSON document that ``make`` returns. It is made once, and again if the file was ``made_with`` other
        settings."""
        file = self.out / self.preset / f"{name}.json"
        if file.exists():
            known = respell(files.read_json(file))
            if made_with is None or filled(known.get("made_with", {})) == filled(made_with):
                return known
        self._begin(name)
        note = {} if made_with is None else {"made_with": made_with}
        locks.share_out([file], lambda file: files.write_json(file, {**make(), **note} if note else make()))
        return files.read_json(file)

    def _begin(self, part: str) -> None:
        """Name a part that is missing; an error, if nothing is to be trained."""
        if not self.train:
            raise CheckpointError("this part is missing", got=part, fix="python -m reproduction make ITEM")
        if self.notify:
            self.notify(part)

    def problem(self, study: Study) -> Problem:
        """The problem of a study; all studies share its data."""
        arguments = study.recipe().arguments
        key = f"{study.problem} {sorted(arguments.items())}"
        if key not in self._problems:
            where = None if study.problem in TOYS else self.data_dir
            self._problems[key] = build(study.problem, data_dir=where, **arguments)
        return self._problems[key]

    def protocol(self, study: Study) -> Protocol:
        problem = self.problem(study)
        return Protocol(
            preset=study.preset,
            recipe=study.recipe(),
            rays=rays(study.rays, problem.m),
            tuned={method: self.tuned(study, method) for method in study.methods},
            solver=study.solver,
            options={name: find_method(name).options(**given) for name, given in study.options.items()},  # pyrefly: ignore
            device=str(choose_device(self.device, problem)),
        )

    def tuned(self, study: Study, method: str) -> dict[str, Any]:
        """The chosen settings of a method on a problem, which all its studies share."""
        method = find_method(method).trained_as
        if not study.search or not find_method(method).tunable:
            return {}
        # the first study of the list with that problem and method decides
        same = (other for other in STUDIES.values() if other.search and other.problem == study.problem)
        first = next(other for other in same if method in other.methods)
        protocol = self.protocol(replace(first, search={}))

        def make() -> dict[str, Any]:
            trials = self.runs_of(f"tuned-{study.problem}-{method}") / "trials.db"
            files.make_folder(trials.parent)
            options = {"space": first.search, "storage": f"sqlite:///{trials}", "callbacks": self.callbacks}
            return asdict(tune(self.problem(first), method, protocol, **options))

        made_with = protocol.settings(method) | {"rays": first.rays, "search": describe(first.search)}
        return self.part(f"tuned/{study.problem}-{method}", make, made_with=made_with)["settings"]

    @property
    def callbacks(self) -> list[Progress]:
        return [Progress()] if self.notify else []

    def folder(self, name: str) -> Path:
        return self.out / self.preset / "studies" / name

    def runs_of(self, name: str) -> Path:
        return self.runs / self.preset / name


def _check_same(run: Run, result: Result) -> None:
    """Raise an error if the run holds another model than the result."""
    reached = torch.tensor(result.fronts["val"]["losses"], dtype=torch.float64)
    if run.front is None or not torch.allclose(run.front.losses.double(), reached, rtol=1e-3, atol=1e-9):
        raise CheckpointError(
            "this run trained another model than the stored result",
            got=f"other validation losses in {run.folder.path if run.folder else 'memory'}",
            expected=f"the losses of {result.method}, seed {result.seed}",
            fix="remove the result file; the same command then trains and measures the model again",
        )
