"""The model card: a description of a model, its training data, its quality and its limitations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from hyperfront import indicators
from hyperfront.errors.signatures import checked
from hyperfront.export.choice import SPLITS, chosen
from hyperfront.export.data import data, decision, groups, intended_use, notes_of
from hyperfront.export.graph import RAY, Graph
from hyperfront.export.int8 import Int8Linear
from hyperfront.export.markdown import between, bullets, escaped, number, table
from hyperfront.export.uncertainty import uncertainty
from hyperfront.front import Front, Selection
from hyperfront.front.intervals import Intervals
from hyperfront.model import ParetoModel
from hyperfront.problem import Problem

ROWS = 11  # the most points of the front in the card
NORMALIZATION = {
    "grid": "BatchNorm uses statistics of training data, interpolated between a grid of rays.",
    "batch": "BatchNorm uses the statistics of the batch: an output depends on what else is in it.",
}
CONVENTIONS = {
    "inverse": "A ray r asks for the point of the front where all r_j l_j are equal, l_j being the losses: the larger "
    "r_j, the smaller the loss j.",
    "weights": "A ray r is the weights of the losses: it asks for the smallest sum of all r_j l_j.",
    "direction": "A ray r asks for the point of the front whose losses are in proportion to r: the larger r_j, the "
    "larger the loss j.",
}
SNIPPETS = {
    ".safetensors": "from {stem} import load\n\nmodule = load({module})\noutputs = module({x})",
    ".pt2": "import torch\n\nmodule = torch.export.load({name!r}).module()\noutputs = module({arguments})",
    ".onnx": "import numpy as np\nimport onnxruntime\n\nsession = onnxruntime.InferenceSession({name!r})\n"
    "outputs = session.run(None, {{{feed}}})",
}


@checked
def card(
    model: ParetoModel,
    front: Front | None,
    *,
    graph: Graph | None = None,
    ray: Sequence[float] | None = None,
    files: Mapping[str, str] | None = None,
    training: Mapping[str, Any] | None = None,
    remarks: Sequence[str] = (),
    problem: Problem | None = None,
    choice: Selection | None = None,
    test: Front | None = None,
    intervals: Sequence[Intervals] = (),
) -> str:
    """Make the card of a model, or of its network at ``ray``, as Markdown.

    ``front`` is the measured front, ``files`` describes each exported file, ``training`` has more lines about the
    training, and ``remarks`` are further limitations. The ``problem`` describes its data, groups and intended use.
    ``choice`` is the selection of the ray, ``test`` the front of this ray on the test data, and ``intervals`` are those
    at the ray, for one or more splits. Words from a checkpoint or a table are escaped.
    """
    kind = type(model.target.skeleton).__name__
    goals = [escaped(name) for name in model.objectives]
    of = f"the trade-off {_ray(ray, goals)}" if ray is not None else f"every trade-off between {', '.join(goals)}"
    sections = {
        "": _purpose(model, ray),
        "Files": _files(files or {}, model, graph, ray),
        "Intended use": intended_use(problem),
        "Chosen trade-off": chosen(choice, test),
        "Uncertainty": uncertainty(intervals),
        "Data": data(model, problem),
        "Groups": groups(problem),
        "Decision": decision(problem),
        "Objectives": _objectives(model),
        "Rays": CONVENTIONS.get(str(model.record.get("convention")), "How rays were used in training is not recorded."),
        "Front": _front(front),
        "Metrics": _metrics(front),
        "Training": _training(model, training or {}),
        "Limits": bullets([*_limits(model, front, graph, problem), *map(escaped, remarks)]),
    }
    body = [f"## {title}\n\n{text}" if title else text for title, text in sections.items() if text]
    about = problem.presentation.title if problem is not None and problem.presentation is not None else ""
    heading = f"# {escaped(about)}\n\n{escaped(kind)}" if about else f"# {escaped(kind)}"
    return f"{heading} for {of}{'.' * bool(about)}\n\n" + "\n\n".join(body) + "\n"


def _purpose(model: ParetoModel, ray: Sequence[float] | None) -> str:
    m = model.m
    if ray is not None:
        return f"One network of a learned Pareto front of {m} objectives. The trade-off is fixed in its weights."
    return (
        f"A model of a whole Pareto front: a hypernetwork maps a ray, {m} non-negative numbers that sum to 1, to the "
        f"weights of a network. Any trade-off between the {m} objectives can be picked when the model is used."
    )


def _files(files: Mapping[str, str], model: ParetoModel, graph: Graph | None, ray: Sequence[float] | None) -> str:
    parts = [table(["file", "what it is"], [[f"`{name}`", escaped(what)] for name, what in files.items()])]
    if graph is not None:
        shapes = [[f"`{name}`", *_shape(graph, name)] for name in graph.inputs]
        parts.append(table(["input", "type", "shape"], shapes))
        parts.append("Outputs: " + ", ".join(f"`{name}`" for name in graph.outputs) + ".")
    inputs = [name for name in graph.inputs if name != RAY] if graph else ["x"]
    values = [f"{1 / model.m:.3g}"] * model.m
    for name in files:
        stem, dot, suffix = name.rpartition(".")
        if dot + suffix not in SNIPPETS:
            continue
        tensor, array = f"torch.tensor([{', '.join(values)}])", f"np.array([{', '.join(values)}], np.float32)"
        known = {RAY: (tensor, array)} if ray is None else {}
        code = SNIPPETS[dot + suffix].format(
            name=name,
            stem=stem,
            module="" if "problem" in model.record else "YourModule()",
            x=", ".join(inputs),
            arguments=", ".join([*(pair[0] for pair in known.values()), *inputs]),
            feed=", ".join([*(f'"{key}": {pair[1]}' for key, pair in known.items()), *(f'"{x}": {x}' for x in inputs)]),
        )
        parts.append(f"```python\n{code}\n```")
    return "\n\n".join(part for part in parts if part)


def _shape(graph: Graph, name: str) -> list[str]:
    tensor = graph.inputs[name]
    sizes = ["batch" if name in graph.batched and axis == 0 else str(size) for axis, size in enumerate(tensor.shape)]
    return [str(tensor.dtype).removeprefix("torch."), f"[{', '.join(sizes)}]"]


def _objectives(model: ParetoModel) -> str:
    units = model.record.get("units") or {}
    columns = [units.get(key) or [default] * model.m for key, default in (("scale", 1), ("ideal", 0), ("maximize", 0))]
    rows = [
        [escaped(name), "maximized" if maximize else "minimized", number(ideal), number(scale)]
        for name, scale, ideal, maximize in zip(model.objectives, *columns)
    ]
    formula = "A loss is (value - ideal) / scale, with the sign turned where the value is maximized."
    return f"{formula}\n\n" + table(["objective", "value is", "ideal", "scale"], rows)


def _front(front: Front | None) -> str:
    if front is None:
        return "Not measured for this export."
    shown = torch.linspace(0, len(front) - 1, min(ROWS, len(front))).round().long().unique().tolist()
    names = [*(f"ray {name}" for name in front.objectives), *front.objectives, *front.scores]
    columns = [*front.rays.T, *front.losses.T, *front.scores.values()]
    rows = [[number(column[row].item()) for column in columns] for row in shown]
    split = front.provenance.get("split")
    where = f" on the {SPLITS.get(split, escaped(split))} data" if split else ""
    of = f"{len(shown)} of {len(front)} measured rays" if len(front) > 1 else "The measured ray"
    return f"{of}{where}; losses, then scores.\n\n" + table(map(escaped, names), rows)


def _metrics(front: Front | None) -> str:
    if front is None:
        return ""
    rows = []
    if len(front) > 1:
        if front.reference:
            point = ", ".join(number(value) for value in front.reference)
            volume = indicators.hypervolume(front.losses, front.reference)
            rows.append([f"hypervolume up to ({point})", number(volume)])
        if front.convention == "direction":
            angle = indicators.cross_angle(front.losses, front.rays).mean().item()
            rows.append(["mean angle between losses and ray", f"{number(angle)} degrees"])
        else:
            rows.append(["uniformity (natural logarithm; 1 is exact)", number(front.uniformity())])
        rows.append(["points that no other dominates", f"{front.nondominated_share():.0%}"])
    rows += [[escaped(name), between(column.aminmax())] for name, column in front.columns().items()]
    return table(["metric", "value"], rows)


def _training(model: ParetoModel, training: Mapping[str, Any]) -> str:
    own = sum(p.numel() for p in model.hypernet.parameters())
    heads = getattr(model.hypernet, "heads", None)
    if isinstance(heads, Int8Linear):
        own += heads.weight.numel() + (0 if heads.bias is None else heads.bias.numel())
    rows = {
        "solver": model.record.get("solver", "not recorded"),
        "seed": model.record.get("seed", "not recorded"),
        "hypernetwork": f"{model.hypernet.kind}, {own:,} parameters"
        + (", heads in int8" if isinstance(heads, Int8Linear) else ""),
        "generated weights": f"{model.target.n:,}",
        **training,
    }
    return table(["setting", "value"], [[escaped(key), escaped(value)] for key, value in rows.items()])


def _limits(model: ParetoModel, front: Front | None, graph: Graph | None, problem: Problem | None) -> list[str]:
    limits = []
    if front is not None and front.provenance.get("split") == "val":
        limits.append(
            "The losses are of the validation data, on which the weights were chosen: expect worse on new data."
        )
    if front is not None and len(front) > 1 and front.nondominated_share() < 1:
        limits.append("Some points of the front are dominated by others: measure before you settle on a ray.")
    if graph is not None and RAY in graph.inputs:
        limits.append(
            "The graph divides the ray by its sum and checks nothing else: rays with negative entries give numbers "
            "without a meaning. Networks between the measured rays were not looked at one by one."
        )
    if model.target.norms:
        limits.append(NORMALIZATION[model.target.batchnorm])
    name = model.record.get("problem")
    notes = notes_of(name)
    if notes is not None:
        limits += notes.all_limits(dict(model.record.get("arguments") or {}))
    elif name is not None and problem is not None and not problem.has_data:
        limits.append("The problem is a formula: how well it is solved says little about networks and data.")
    if problem is not None and problem.presentation.encode is not None:
        limits.append(
            "The network takes numbers and codes of categories. `hyperfront predict` and the server make them of named "
            "columns; the table of columns is in the checkpoint."
        )
    elif graph is None or graph.batched:
        limits.append("The model takes inputs as they were prepared for training, and does not prepare them itself.")
    return limits


def _ray(ray: Sequence[float], goals: Sequence[str]) -> str:
    return ", ".join(f"{name} {number(value)}" for name, value in zip(goals, ray))
