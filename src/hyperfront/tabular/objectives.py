"""The objectives of a table by name.

Each name means a loss, which is trained, and a score, which is read: a loss uses probabilities, since decisions have no
gradient, and its name begins with ``smooth_``; a score uses decisions. Losses of a regression are measured in standard
deviations of the target, and their names begin with ``scaled_``; scores keep its unit. Names that have a loss only,
such as ``log_loss``, keep their name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from hyperfront.errors import HyperfrontError, ProblemError, unknown_name
from hyperfront.problem import Described, Loss, Measure, Score
from hyperfront.problem.losses import as_measure
from hyperfront.tabular import measures as of
from hyperfront.tabular.schema import Schema

UNIT = (0.0, 1.0)
Own = Callable[[Any, Any], Tensor] | Measure
Objectives = Sequence[str] | Mapping[str, str | Own]


@dataclass(frozen=True)
class Named:
    """The meaning of a name: the loss for training, the score for reading, or only one of them."""

    label: str
    loss: Callable[..., Any] | None = None
    """Makes a measure or function from the schema and the numbers in the name."""
    score: Callable[..., Any] | None = None
    bounds: tuple[float, float] | None = UNIT
    unit: str = ""
    power: int = 1
    """The power of the target's unit, for regression."""
    maximize: bool = False
    grouped: bool = False
    numbers: tuple[float, ...] = ()
    """Default values of the numbers after the name, such as the level of ``quantile_error:0.9``."""


def _mean(quantity: of.Quantity) -> Callable[..., Any]:
    return lambda schema: of.mean(quantity)


def _rate(quantity: of.Quantity, rows: of.Rows) -> Callable[..., Any]:
    return lambda schema: of.rate(quantity, rows)


def _gap(quantity: of.Quantity, rows: of.Rows = of.everyone) -> Callable[..., Any]:
    return lambda schema: of.gap(quantity, rows, len(schema.groups))


def _pair(label: str, make: Callable[[of.Quantity], Callable[..., Any]], **options: Any) -> Named:
    """A name whose loss uses the probability and whose score uses the decision."""
    return Named(label, make(of.probability), make(of.decision), **options)


def _weighted(schema: Schema, positive: float, negative: float) -> Any:
    def cost(output: Tensor, batch: Any) -> Tensor:
        chance = output.sigmoid()
        return torch.where(batch[2] == 1, negative * (1 - chance), positive * chance).mean()

    return cost


def _weighted_decision(schema: Schema, positive: float, negative: float) -> Any:
    def cost(output: Tensor, batch: Any) -> Tensor:
        chosen = (output > 0).to(output)
        return torch.where(batch[2] == 1, negative * (1 - chosen), positive * chosen).mean()

    return cost


BINARY = {
    "log_loss": Named("log loss", _mean(of.log_loss), bounds=None, unit="nats"),
    "log_loss_of_positives": Named("log loss of positives", _rate(of.log_loss, of.positives), bounds=None, unit="nats"),
    "log_loss_of_negatives": Named("log loss of negatives", _rate(of.log_loss, of.negatives), bounds=None, unit="nats"),
    "brier": Named("Brier loss", lambda schema: lambda out, batch: (out.sigmoid() - batch[2]).square().mean()),
    "error": _pair("error", lambda q: _mean(of.error(q))),
    "accuracy": Named("accuracy", score=_mean(of.rejection(of.error(of.decision))), maximize=True),
    "selection": _pair("selection rate", lambda q: _rate(q, of.everyone)),
    "fpr": _pair("false positive rate", lambda q: _rate(q, of.negatives)),
    "fnr": _pair("false negative rate", lambda q: _rate(of.rejection(q), of.positives)),
    "weighted_errors": Named(
        "cost of false positives and negatives", _weighted, _weighted_decision, bounds=None, numbers=(1.0, 1.0)
    ),
    "calibration": Named("miscalibration", lambda schema: of.miscalibration(len(schema.groups))),
    "calibration_error": Named("calibration error", score=lambda schema: of.calibration_error()),
    "selection_gap": _pair("gap in selection rates", lambda q: _gap(q), grouped=True),
    "fpr_gap": _pair("gap in false positive rates", lambda q: _gap(q, of.negatives), grouped=True),
    "fnr_gap": _pair("gap in false negative rates", lambda q: _gap(of.rejection(q), of.positives), grouped=True),
    "error_gap": _pair("gap in errors", lambda q: _gap(of.error(q)), grouped=True),
}
CLASSES = {
    "log_loss": Named("log loss", _mean(of.class_log_loss), bounds=None, unit="nats"),
    "balanced_log_loss": Named(
        "log loss, classes weighted equally",
        lambda schema: of.balanced(of.class_log_loss, len(schema.classes)),
        bounds=None,
        unit="nats",
    ),
    "brier": Named("Brier loss", _mean(of.class_brier)),
    "error": Named("error", _mean(of.class_error), _mean(of.class_mistake)),
    "balanced_error": Named(
        "error, classes weighted equally",
        lambda schema: of.balanced(of.class_error, len(schema.classes)),
        lambda schema: of.balanced(of.class_mistake, len(schema.classes)),
    ),
    "accuracy": Named("accuracy", score=_mean(of.rejection(of.class_mistake)), maximize=True),
    "error_gap": Named("gap in errors", _gap(of.class_error), _gap(of.class_mistake), grouped=True),
}


def _residual(f: Callable[[Tensor], Tensor]) -> of.Quantity:
    """A quantity of the residual ``y - f``."""
    return lambda output, batch: f(batch[2].to(output) - output)


def _pinball(schema: Schema, level: float) -> Any:
    return of.mean(_residual(lambda rest: torch.maximum(level * rest, (level - 1) * rest)))


def _both(label: str, make: Callable[..., Any], **options: Any) -> Named:
    return Named(label, make, make, bounds=None, **options)


REGRESSION = {
    "squared_error": _both("squared error", _mean(_residual(torch.square)), power=2),
    "absolute_error": _both("absolute error", _mean(_residual(torch.abs))),
    "quantile_error": _both("quantile error", _pinball, numbers=(0.5,)),
    "underprediction": _both("underprediction", _mean(_residual(lambda rest: rest.clamp_min(0)))),
    "overprediction": _both("overprediction", _mean(_residual(lambda rest: (-rest).clamp_min(0)))),
    "r2": Named("R\u00b2", score=lambda schema: of.explained(), bounds=None, maximize=True),
    "mean_gap": _both("gap in mean predictions", _gap(lambda output, batch: output), grouped=True),
    "error_gap": _both("gap in absolute errors", _gap(_residual(torch.abs)), grouped=True),
}
NAMES: dict[str, dict[str, Named]] = {"binary": BINARY, "classes": CLASSES, "regression": REGRESSION}
PREFIX = {"binary": "smooth_", "classes": "smooth_", "regression": "scaled_"}


def default_objectives(schema: Schema) -> tuple[str, ...]:
    """Return the default objectives of a table."""
    if schema.task == "binary":
        return (
            ("log_loss", "fpr_gap", "fnr_gap") if schema.groups else ("log_loss_of_positives", "log_loss_of_negatives")
        )
    if schema.task == "classes":
        return ("log_loss", "error_gap" if schema.groups else "balanced_log_loss")
    return ("squared_error", "mean_gap") if schema.groups else ("underprediction", "overprediction")


def default_scores(schema: Schema) -> tuple[str, ...]:
    """Return the scores of a table besides the scores of its objectives."""
    usual = {
        "binary": ("error", "accuracy", "fpr", "fnr"),
        "classes": ("error", "accuracy"),
        "regression": ("absolute_error", "r2"),
    }[schema.task]
    return usual + (tuple(n for n, named in NAMES[schema.task].items() if named.grouped) if schema.groups else ())


def losses_of(schema: Schema, objectives: Mapping[str, str | Own]) -> dict[str, Loss]:
    """The losses by name of objective."""
    return {key: _loss(schema, name) if isinstance(name, str) else _own(key, name) for key, name in objectives.items()}


def scores_of(schema: Schema, names: Sequence[str], taken: Sequence[str] = ()) -> dict[str, Score]:
    """The scores of these names, as far as the names have one, except names that are ``taken``."""
    found = {}
    for spelled in dict.fromkeys(names):
        named, numbers = find(schema, spelled)
        if named.score is not None and spelled not in taken:
            unit, bounds = named.unit, named.bounds
            found[spelled] = Score(
                named.score(schema, *numbers),
                label=_label(named, numbers),
                unit=unit,
                bounds=bounds,
                maximize=named.maximize,
            )
    return found


def by_name(schema: Schema, objectives: Objectives | None) -> dict[str, str | Own]:
    """The objectives by the name of their loss; a sequence of names gets the names of the losses."""
    if objectives is None:
        objectives = default_objectives(schema)
    if isinstance(objectives, str):
        objectives = (objectives,)
    if isinstance(objectives, Mapping):
        return dict(objectives)
    prefix = PREFIX[schema.task]
    return {(prefix if find(schema, name)[0].score is not None else "") + name: name for name in objectives}


def worst(schema: Schema, objectives: Mapping[str, str | Own]) -> tuple[float, ...] | None:
    """The reference point of the hypervolume: a loss of 1, or of 2 standard deviations; None with own functions."""
    if not all(isinstance(name, str) for name in objectives.values()):
        return None
    large = {"log_loss": max(1.0, len(schema.classes) / 2), "weighted_errors": 1.0}
    values = []
    for spelled in objectives.values():
        _, numbers = find(schema, str(spelled))
        name = str(spelled).partition(":")[0]
        values.append(2.0 if schema.task == "regression" else max(large.get(name, 1.0), *numbers, 0.0))
    return tuple(values)


def find(schema: Schema, spelled: str) -> tuple[Named, tuple[float, ...]]:
    """Find the meaning of a name such as ``quantile_error:0.9`` for the table, and its numbers."""
    name, *texts = spelled.split(":")
    known = NAMES[schema.task]
    if name not in known:
        elsewhere = [task for task, names in NAMES.items() if name in names]
        found = unknown_name(f"objective of a table ({schema.task}):", name, known)
        raise (
            found
            if not elsewhere
            else HyperfrontError(
                f"the objective {name!r} is for another kind of target",
                got=f"the target {schema.target!r} is {schema.task}",
                expected="one of " + ", ".join(sorted(known)),
                fix=f'task="{elsewhere[0]}", if the target is that',
            )
        )
    named = known[name]
    if named.grouped and not schema.groups:
        raise ProblemError(
            f"the objective {name!r} compares groups, and the table has none",
            fix='name the column of the groups: sensitive="column" (--sensitive column on the command line)',
        )
    try:
        numbers = tuple(map(float, texts)) or named.numbers
    except ValueError:
        numbers = ()
    if len(numbers) != len(named.numbers) or not all(0 <= number < 1e6 for number in numbers):
        raise ProblemError(
            f"the objective {spelled!r} has unusable numbers",
            expected=":".join([name, *(f"{number:g}" for number in named.numbers)]),
        )
    return named, numbers


def _loss(schema: Schema, spelled: str) -> Loss:
    named, numbers = find(schema, spelled)
    if named.loss is None:
        raise ProblemError(
            f"the objective {spelled!r} is a score and cannot be trained",
            fix="train log_loss or error, and maximize the score when you select: it is reported beside the losses",
        )
    made, label = named.loss(schema, *numbers), _label(named, numbers)
    if schema.task == "regression":
        scaled = of.Scaled(as_measure(made), schema.spread**named.power)
        return Loss(scaled, label=f"{label} (standard deviations)")
    return Loss(
        made, label=label if named.score is None else f"{label} (probabilities)", unit=named.unit, bounds=named.bounds
    )


def _own(key: str, given: Own) -> Loss:
    if isinstance(given, Described) and not isinstance(given, Loss):
        raise ProblemError(f"the objective {key!r} is a Score", fix="hf.Loss(f), or a function f(output, batch)")
    return given if isinstance(given, Loss) else Loss(given)


def unknown_function(key: str) -> Loss:
    """The loss of an own function that a file names and does not hold; it raises an error when it is computed."""
    return Loss(partial(_refuse, key))


def _refuse(key: str, output: Any, batch: Any) -> Tensor:
    raise ProblemError(
        f"the objective {key!r} is your own function, which a run folder does not hold",
        fix="pass the problem: problem= in Python, --problem package.module:factory on the command line",
    )


def _label(named: Named, numbers: tuple[float, ...]) -> str:
    return named.label + (f" ({', '.join(f'{number:g}' for number in numbers)})" if numbers else "")
