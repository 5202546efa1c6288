"""The sections of a report, each as HTML; a section without content is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

import torch

from hyperfront.errors import HyperfrontError, ProblemError
from hyperfront.front import Front, evaluate
from hyperfront.front.intervals import Intervals, intervals
from hyperfront.model import ParetoModel
from hyperfront.model.substitution import called
from hyperfront.problem import Problem
from hyperfront.problem.registry import is_builtin
from hyperfront.problem.samples import make_samples
from hyperfront.problem.samples.table import TableSamples
from hyperfront.storage import files, markup
from hyperfront.storage.markup import Markup, number
from hyperfront.training.runs import RunFolder

ROWS = 11
"""The most points of the front in the table."""
SPLITS = {"train": "training rows", "val": "validation rows", "calibration": "calibration rows", "test": "test rows"}
SETTINGS = ("epochs", "batch_size", "rays_per_step", "lr", "schedule", "warmup", "seed", "precision", "align")
MACHINE = ("hyperfront", "torch", "numpy", "python", "platform", "device", "git")


@dataclass(frozen=True, eq=False)
class Subject:
    """The run that the report is about, and the ray that it looks at."""

    model: ParetoModel
    problem: Problem
    front: Front
    folder: RunFolder | None
    chosen: dict[str, Any]
    """The document of the choice of training at this ray, or an empty one."""
    ray: list[float]

    @classmethod
    def of(
        cls, model: ParetoModel, problem: Problem, front: Front, folder: RunFolder | None, ray: Sequence[float] | None
    ) -> Subject:
        made = folder.chosen_ray() if folder else None
        asked = model.check(ray)[0].tolist() if ray is not None else made or [1 / model.m] * model.m
        own = made is not None and folder is not None and torch.allclose(torch.tensor(made), torch.tensor(asked))
        document = files.read_json(folder.choice) if own and folder else {}
        return cls(model, problem, front, folder, document if isinstance(document, dict) else {}, asked)

    @cached_property
    def measured(self) -> dict[str, Front]:
        """The losses and scores at the ray, by split; test rows only where training has looked at them already."""
        if not self.problem.has_data:
            return {"": evaluate(self.model, self.problem, [self.ray])}
        names = ["val" if "val" in self.problem.sources else "train", *(["test"] if "test" in self.chosen else [])]
        return {name: evaluate(self.model, self.problem.split(name), [self.ray]) for name in names}

    @cached_property
    def sure(self) -> list[Intervals]:
        return [intervals(self.model, self.problem.split(name), self.ray) for name in self.measured if name]

    def title(self, name: str) -> str:
        return self.front.meanings[name].title

    def label(self, name: str) -> str:
        return self.front.meanings[name].label


def choice(subject: Subject) -> Markup:
    """The question, the ray, and the values of the goal and the limits."""
    document, lines = subject.chosen, []
    goals = ", ".join(
        f"{subject.title(name)} {entry:.3f}" for name, entry in zip(subject.front.objectives, subject.ray)
    )
    if document:
        asked = f"{'Most' if document['maximize'] else 'Least'} {subject.label(document['goal'])}"
        limits = [f"{subject.label(n)} {sign} {bound:g}" for n, (sign, bound) in document["limits"].items()]
        lines.append(asked + (f", within {', '.join(limits)}" if limits else "") + ", as training was asked to choose.")
    else:
        lines.append("Training was not asked to choose this ray.")
    first = next(iter(subject.measured.values()))
    rows = []
    for name in first.columns():
        sign, bound = document.get("limits", {}).get(name, ("", 0.0))
        role = f"{sign} {bound:g}" if sign else "goal" if name == document.get("goal") else ""
        rows.append([subject.title(name), role, *(number(f.columns()[name].item()) for f in subject.measured.values())])
    head = ["loss or score", "asked", *(SPLITS.get(name, "value") for name in subject.measured)]
    table = markup.table(head, rows, words=(0, 1))
    return Markup("".join(f"<p>{escape(line)}</p>" for line in lines) + markup.note(f"Ray: {goals}") + table)


def uncertainty(subject: Subject) -> Markup:
    """The certificate, and an interval for every loss and score."""
    parts = [_certificate(subject)]
    try:
        sure = subject.sure
    except ProblemError as error:
        return Markup("".join(parts) + markup.note(f"There are no intervals: {error.what}."))
    if not sure:
        return Markup("".join(parts))
    rows = []
    for name, first in sure[0].items():
        ends = [each[name].between(number) for each in sure]
        rows.append([subject.title(name), *ends, f"{first.method}, {first.test}"])
    head = ["loss or score", *(f"{each.rows:,} {SPLITS[each.split]}" for each in sure), "interval"]
    words = (
        f"With probability {sure[0].confidence:g} over the rows, the value of the population is between these numbers, "
        "for one loss or score at a time. Validation rows also chose the model, so their values look too good."
    )
    caveat = [markup.note(f"Warning: {sure[0].caveat}.")] if sure[0].caveat else []
    parts += [f"<p>{escape(words)}</p>", *caveat, markup.table(head, rows, words=(0, len(head) - 1))]
    return Markup("".join(parts))


def _certificate(subject: Subject) -> str:
    found = subject.chosen.get("certificate")
    if not found:
        limited = "<p>No limit is certified: on other rows the limited values may differ by chance.</p>"
        return limited if subject.chosen.get("limits") else ""
    promises = [
        f"{subject.label(name)} {limit['sign']} {limit['limit']:g} ({limit['method']} test)"
        for name, limit in found["limits"].items()
    ]
    return (
        f"<p><strong>Certified</strong> with probability {found['confidence']:g} for the population that the rows were "
        f"drawn from, on {found['rows']:,} calibration rows, which chose nothing: {escape('; '.join(promises))}.</p>"
    )


def groups(subject: Subject) -> Markup:
    """The rates of every group at the ray, for tables."""
    if not subject.problem.has_data:
        return Markup("")
    name = "val" if "val" in subject.problem.sources else "train"
    samples = make_samples(subject.problem, subject.problem.split(name))
    if not isinstance(samples, TableSamples) or not samples.groupings:
        return Markup("")
    with torch.no_grad():
        network = subject.model.at(subject.ray)
        predicted = samples.predict(lambda inputs: called(network, inputs))
    parts = []
    for grouping, found in zip(samples.groupings, predicted["groupings"]):
        rates = [samples.rates(group) for group in found]
        rows = [[kind, *(_cell(kind, rate[kind], samples) for rate in rates)] for kind in rates[0]]
        parts.append(markup.table([grouping.name, *grouping.groups], rows))
    return Markup("".join(parts) + markup.note(f"On {samples.count:,} {SPLITS[name]}."))


def _cell(kind: str, value: float, samples: TableSamples) -> str:
    """Numbers of rows and errors of numbers as they are, rates as percentages."""
    return f"{value:,}" if kind == "rows" else number(value) if samples.decision is None else f"{value:.1%}"


def front(subject: Subject) -> Markup:
    """Pictures of the front, its quality and some of its points."""
    from hyperfront.front import notebook  # needs matplotlib
    from hyperfront.front.plots import static

    own, document = subject.front, subject.chosen
    axes = [next(iter(document["limits"])), document["goal"]] if document.get("limits") else []
    pictures = []
    if len({*axes}) == 2:
        figure = own.plot(x=axes[0], y=axes[1], beside={"chosen": {n: [document["values"][n]] for n in axes}})
        words = f"{subject.title(axes[1])} against {subject.title(axes[0])}"
        pictures.append(markup.picture(static.png(figure, dpi=125), words, width=480))
    try:
        pictures.append(markup.picture(static.png(own.plot(), dpi=125), "the losses of the front", width=480))
    except HyperfrontError as error:
        pictures.append(markup.note(f"There is no picture of the losses: {error.what}."))
    shown = torch.linspace(0, len(own) - 1, min(ROWS, len(own))).round().long().unique().tolist()
    rows = []
    for row in shown:
        ray = ", ".join(f"{entry:.2f}" for entry in own.rays[row].tolist())
        rows.append([ray, *(number(column[row].item()) for column in own.columns().values())])
    points = markup.table(["ray", *(subject.title(name) for name in own.columns())], rows)
    folded = markup.folded(f"{len(shown)} of {len(own)} measured points", points)
    return Markup(markup.beside(*pictures) + markup.facts(notebook.facts(own)) + folded)


def data(subject: Subject) -> Markup:
    """The lines of the problem about its data and groups, and the number of rows of each split."""
    shown, problem = subject.problem.presentation, subject.problem
    lines = [*shown.data, *shown.groups]
    if problem.has_data:
        sources: dict[str, Any] = {name: problem.split(name).source for name in SPLITS if name in problem.sources}
        counts = {name: getattr(source, "rows", None) for name, source in sources.items()}
        lines += [f"{count:,} {SPLITS[name]}" for name, count in counts.items() if count]
    if shown.use:
        lines.append(shown.use)
    if problem.caveat:
        lines.append(f"Warning: {problem.caveat}.")
    return Markup(f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>" if lines else "")


def settings(subject: Subject) -> Markup:
    """Solver, hypernetwork and settings of the training."""
    own = sum(p.numel() for p in subject.model.hypernet.parameters())
    known = {
        "solver": str(subject.model.record.get("solver", "not recorded")),
        "hypernetwork": f"{subject.model.hypernet.kind}, {own:,} parameters",
        "generated weights": f"{subject.model.target.n:,}",
    }
    config = subject.folder.read_config() if subject.folder and subject.folder.config.exists() else {}
    known |= {name.replace("_", " "): str(config[name]) for name in SETTINGS if config.get(name) is not None}
    return markup.facts(known)


def reproduce(subject: Subject) -> Markup:
    """The command that trained the run, if it is known, versions and machine, and how to use the model."""
    if subject.folder is None:
        return Markup("")
    folder = subject.folder
    ray = ", ".join(f"{entry:.6g}" for entry in subject.ray)
    own = "" if is_builtin(subject.model.record.get("problem")) else ", target=YourModule()"
    code = f"import hyperfront as hf\n\nnetwork = hf.load({str(folder.path)!r}{own}).at([{ray}])"
    command = folder.command.read_text("utf-8").strip() if folder.command.exists() else ""
    trained = f"<p>Trained by:</p><pre>{escape(command)}</pre>" if command else ""
    machine = files.read_json(folder.environment) if folder.environment.exists() else {}
    known = {name: str(machine[name]) for name in MACHINE if machine.get(name) is not None}
    return Markup(f"{trained}<p>The network at this ray:</p><pre>{escape(code)}</pre>{markup.facts(known)}")
