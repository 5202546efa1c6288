"""The sections of a model card on data, groups, decision and intended use."""

from __future__ import annotations

from typing import Any

from hyperfront.errors import DataError
from hyperfront.export.markdown import bullets, escaped
from hyperfront.model import ParetoModel
from hyperfront.problem import Problem
from hyperfront.problem.registry import Notes, entry, is_builtin


def notes_of(name: Any) -> Notes | None:
    """The notes on the data of a built-in problem, if it has any."""
    return entry(name).notes if is_builtin(name) else None


def intended_use(problem: Problem | None) -> str:
    """The intended use, as the problem states it."""
    return escaped(problem.presentation.use) if problem else ""


def data(model: ParetoModel, problem: Problem | None) -> str:
    """Describe the training data: by the lines of the problem, or by the notes of a built-in problem."""
    lines = [escaped(line) for line in problem.presentation.data] if problem else []
    if problem is not None and problem.has_data:
        lines += _counts(problem)
    name = model.record.get("problem")
    if name is None or (lines and notes_of(name) is None):
        return bullets(lines) or "A problem of the user's own: the checkpoint does not describe its data."
    given = dict(model.record.get("arguments") or {})
    arguments = ", ".join(f"{key} = {value}" for key, value in given.items() if value is not None)
    first = f"Problem {escaped(name)}" + (f" with {escaped(arguments)}." if arguments else ".")
    notes = notes_of(name)
    if notes is not None:
        return "\n\n".join([first, bullets([*notes.sources, *lines]), notes.inputs])
    return f"{first} It has no data: the network is the point itself (`theta`), and its losses are a formula."


def _counts(problem: Problem) -> list[str]:
    """The rows of each split, where the data are there and know how many they are."""
    try:
        names = [*problem.sources, *(["calibration"] if "calibration" in problem.sources else [])]
        sources: dict[str, Any] = {split: problem.split(split).source for split in dict.fromkeys(names)}
        counts = {split: getattr(source, "rows", None) for split, source in sources.items()}
    except DataError:
        return []
    if None in counts.values():
        return []
    return ["Rows: " + ", ".join(f"{rows:,} {split}" for split, rows in counts.items())]


def groups(problem: Problem | None) -> str:
    """The groups that gaps compare."""
    return bullets(map(escaped, problem.presentation.groups)) if problem else ""


def decision(problem: Problem | None) -> str:
    """Describe how an output becomes a label."""
    rule = problem.presentation.decision if problem else None
    if rule is None:
        return ""
    if len(rule.classes) > 2:
        return f"The label is the most probable of {escaped(', '.join(rule.classes))}."
    no, yes = map(escaped, rule.classes)
    return f"The label is {yes} where its probability is above {rule.threshold:g}, else {no}."
