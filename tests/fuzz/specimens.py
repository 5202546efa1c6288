"""Values for arguments: what a user passes, what is nearly that, and what nobody should pass."""

from __future__ import annotations

import decimal
import fractions
import math
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import hyperfront as hf
from hyperfront import front, preferences, problem, solvers, tabular
from hyperfront.problem.sources import TensorSource
from hyperfront.problem.units import Units

NAN, INF = math.nan, math.inf


class Net(nn.Module):
    """A small module whose errors are its own."""

    def __init__(self, width: int = 2):
        super().__init__()
        self.layer = nn.Linear(3, width)

    def forward(self, *x: Any, **more: Any) -> Tensor:
        return self.layer(*x, **more)


def square(output: Any, batch: Any) -> Tensor:
    return (output - batch[1]).square().mean()


def size(output: Any, batch: Any) -> Tensor:
    return output.abs().mean()


def halves(batch: Any) -> Tensor:
    place = torch.arange(len(batch[0]))
    return torch.stack([place % 2 == 0, place % 2 == 1])


def point(x: Tensor) -> Tensor:
    return torch.stack([x.square().sum(), (x - 1).square().sum()])


def worst(losses: Tensor, rays: Tensor) -> Tensor:
    return (losses * rays).amax(-1)


def decide(output: Any) -> Tensor:
    return output.double().sigmoid()


def same(value: Any, *_: Any, **__: Any) -> Any:
    return value


def nothing(*_: Any, **__: Any) -> None:
    return None


def text(*_: Any, **__: Any) -> str:
    return "text"


FUNCTIONS = (square, size, halves, point, worst, decide, same, nothing, text, len, Net, torch.sum)


def table(draw: Random) -> dict[str, list[Any]]:
    """A table with two classes and two groups."""
    rows = draw.choice((60, 80))
    return {
        "age": [20 + (7 * i) % 50 for i in range(rows)],
        "group": list(f"{draw.getrandbits(rows):0{rows}b}".translate({48: "a", 49: "b"})),
        "y": [i % 2 for i in range(rows)],
    }


class Shared:
    """What is too slow to be made for every input."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        x = torch.randn(12, 3)
        data = (x, x[:, :2] * 2)
        losses = {"a": square, "b": hf.Loss(size, label="size", bounds=(0, 9))}
        scores = {"s": hf.Score(size, maximize=True)}
        self.problem = hf.supervised(
            data,
            data,
            losses=losses,
            scores=scores,
            reference=(9, 9),
            make_target=Net,
            calibration=(x + 1, x[:, :2] + 1),
        )
        self.analytic = hf.analytic(point, variables=2, reference=(2, 2))
        self.model = hf.wrap(Net(), ["a", "b"], hidden=2).eval()
        self.point_model = self.analytic.model(hidden=2).eval()
        self.front = hf.evaluate(self.model, self.problem.val, 3)
        self.table_problem = tabular.problem(table(Random(0)), "y", sensitive="group", smallest_group=5)
        self.table_model = self.table_problem.model(hidden=2).eval()
        self.schema = tabular.schema_of(self.table_model)
        self.choice = self.front.select(minimize="a", rounds=0)


def tensor(draw: Random) -> Tensor:
    """Losses, rays or anything of the kind."""
    shape = draw.choice(((3, 2), (3, 2), (2, 2), (1, 2), (4, 3), (3,), (2,), (0, 2), (3, 0), (), (2, 2, 2), (3, 2, 2)))
    kind = draw.choice((torch.float64, torch.float32, torch.float64, torch.float32, torch.int64, torch.bool))
    made = torch.rand(shape, generator=torch.Generator().manual_seed(draw.randrange(100)), dtype=torch.float64)
    how = draw.randrange(12)
    if how < 4 and made.ndim and made.numel():
        made = made / made.sum(-1, keepdim=True)
    elif how == 4 and made.numel():
        made.view(-1)[0] = draw.choice((NAN, INF, -INF, -1.0, 0.0, 1e300, -1e-300))
    elif how == 5:
        made = made * draw.choice((0, 1e-30, 1e30, -1))
    made = made.to(kind)
    if how == 6 and kind.is_floating_point:
        made.requires_grad_()
    return made


def odd_tensor(draw: Random) -> Any:
    """Tensors that hold no numbers, or hold them in other ways."""
    with torch.no_grad():
        return draw.choice(
            (
                lambda: torch.empty(3, 2, device="meta"),
                lambda: torch.ones(3, 2).to_sparse(),
                lambda: torch.ones(3, 2, dtype=torch.complex64),
                lambda: torch.ones(3, 2, dtype=torch.float16),
                lambda: torch.ones(3, 2, dtype=torch.bfloat16),
                lambda: torch.ones(3, 2, dtype=torch.int8),
                lambda: torch.ones(3, 2).T,
                lambda: torch.ones(1).expand(10**5),
                lambda: torch.ones(1, 1).expand(5000, 2),
                lambda: torch.full((3, 2), NAN),
                lambda: nn.Parameter(torch.ones(3, 2)),
                lambda: torch.quantize_per_tensor(torch.ones(3, 2), 0.1, 0, torch.quint8),
                lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
            )
        )()


def array(draw: Random) -> Any:
    return draw.choice(
        (
            lambda: np.random.default_rng(0).random((3, 2)),
            lambda: np.array([0.5, 0.5]),
            lambda: np.array(["a", "b"]),
            lambda: np.array([None, 1], dtype=object),
            lambda: np.zeros((0, 2)),
            lambda: np.array([1 + 2j, 0]),
            lambda: np.array(0.5),
            lambda: np.array(["2020-01-01"], dtype="datetime64[D]"),
            lambda: np.arange(4),
            lambda: np.broadcast_to(np.ones(1), 10**5),
        )
    )()


NUMBERS = (0, 1, 2, 3, 5, 0.5, 0.2, 1.0, 1e-3, 0.95, np.float32(0.5), np.int64(3), fractions.Fraction(1, 2))
ODD_NUMBERS = (
    *(-1, -0.5, 10**6, 10**12, 2**63, 2**64, 10**400, -(10**12), NAN, INF, -INF, 1e308, 5e-324, True, False, 1 + 1j),
    *(np.bool_(True), np.float64(NAN), decimal.Decimal("0.5"), decimal.Decimal("NaN"), np.datetime64("2020-01-01")),
)
TEXTS = ("a", "b", "y", "group", "age", "weights", "hypernetwork", "inverse", "direction", "auto", "grid", "mlp", "s")
ODD_TEXTS = (
    "",
    "A",
    "Best",
    "hypernet",
    "weigths",
    "x\0y",
    "\ud800",
    "é" * 50,
    "a" * 10_000,
    "../a",
    "*",
    "[",
    "0.5",
    b"a",
)
PATHS = (
    "out.json",
    "out.csv",
    "missing/out.json",
    "x.pt2",
    Path("net.safetensors"),
    "front.html",
    "a" * 300,
    "..",
    ".",
)
LISTS: tuple[Any, ...] = (
    ["a", "b"],
    ("a", "b"),
    ["a", "b", "c"],
    [0.5, 0.5],
    (2.0, 2.0),
    (0.0, 1.0),
    [[0.5, 0.5], [0.2, 0.8]],
    ((0.5, 0.5),),
    ["a"],
    ["a", "a"],
    [],
    (),
    [None],
    [[]],
    [1, "a"],
    [0.5, NAN],
    [[0.5, 0.5], [0.5]],
    ["a", ["b"]],
    {"a"},
    frozenset(),
    range(3),
    (">=", 0.5),
    ("<", 0.5),
    range(10**12),
)
MAPPINGS: tuple[Any, ...] = (
    {},
    {"a": 1.0},
    {"a": 0.5, "b": 0.5},
    {"b": (">=", 0.1)},
    {"b": ("<=", NAN)},
    {"a": None},
    {1: 2},
    {"a": {"a": {}}},
    {"x": 1},
    {"a": "b"},
    {"rows": 3},
    {"label": "a", "unit": "", "maximize": None, "bounds": None},
    {"train": 0.5, "val": 0.5},
    {None: None},
)


def nested(draw: Random) -> Any:
    """A value inside containers."""
    value: Any = draw.choice((None, 1.0, "a", torch.ones(2), NAN))
    depth = draw.choice((1, 2, 3, 50, 3000))
    kinds = draw.getrandbits(2 * depth)
    for place in range(0, 2 * depth, 2):
        kind = kinds >> place & 3
        value = {"a": value} if kind == 0 else (value,) if kind == 1 else [value]
    return value


def frame(draw: Random) -> Any:
    """A table as users hold it."""
    import pandas as pd

    columns: dict[str, list[Any]] = table(draw)
    change = draw.randrange(8)
    if change == 0:
        columns["y"][3] = None
    elif change == 1:
        columns["age"][3] = draw.choice((None, NAN, "x", INF, [], {}))
    elif change == 2:
        columns[draw.choice("xyz")] = [draw.choice((None, 1, "a", 0.5)) for _ in columns["y"]]
    elif change == 3:
        columns = {name: values[:5] for name, values in columns.items()}
    elif change == 4:
        columns["group"] = columns["group"][:-1]
        return columns
    return pd.DataFrame(columns) if draw.random() < 0.5 else columns


def containers(draw: Random) -> Any:
    return draw.choice((list, tuple))(draw.choice(LISTS[:-1]))


def pool(shared: Shared) -> dict[str, Any]:
    """Objects by kind, and functions that make them."""
    weights = {"a": torch.ones(3), "b": torch.zeros(3)}
    return {
        "objects": [
            *(shared.problem, shared.analytic, shared.model, shared.point_model, shared.front, shared.schema),
            *(shared.table_problem, shared.table_model, shared.choice, shared.problem.val, shared.analytic.val),
            *(solvers.EPO(), solvers.LS(), solvers.Clip(0.1), solvers.MGDA(), solvers.Status.AS_NAMED),
            *(solvers.Average([[0.5, 0.5], [0.2, 0.8]]), solvers.Normalize(2.0), solvers.NormalizeByStart()),
            *(hf.Dirichlet(0.5), preferences.FixedRays([[0.5, 0.5]]), Net(), nn.Linear(3, 2), nn.Identity()),
            *(problem.Meaning("a"), problem.Mean(square), problem.Gathered(size), problem.SetLoss(square, same)),
            *(hf.Gap(size, halves), hf.Loss(square), hf.Score(size, maximize=False), hf.Presentation("title")),
            *(hf.Decision(decide, ("no", "yes")), front.Question("a"), front.Spread(0, 1, 1), shared.choice.question),
            *(torch.Generator(), Units((1.0, 1.0), (0.0, 0.0), (False, False)), TensorSource((torch.ones(4, 3),) * 2)),
            *(shared.schema.columns[0], shared.problem.measures, shared.problem.sources, shared.problem.scores),
            *(weights, shared.schema.document(), problem.Truth(torch.rand(3, 2), 1.0, same)),
        ],
        "functions": list(FUNCTIONS),
        "odd": [object(), type, Exception("x"), NotImplemented, ..., torch.float32, torch.device("cpu"), Random, hf],
    }
