"""What people hand over: batches and outputs of every container, modules with habits, things that are refused."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
import warnings
from collections import UserDict, namedtuple
from types import MappingProxyType

import optree
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.utils.rnn import PackedSequence, pack_sequence
from torch.utils.data import DataLoader

import hyperfront as hf
from hyperfront.apps.shared.cache import WeightCache
from hyperfront.errors import LossError, ProblemError, TargetError
from hyperfront.preferences import FixedRays
from hyperfront.problem import Gathered
from hyperfront.problem.units import Units
from hyperfront.solvers import (
    COSMOS,
    MGDA,
    PBI,
    PMTL,
    Clip,
    HVMax,
    Normalize,
    SmoothTchebycheff,
    Status,
    Tchebycheff,
    chain,
)
from hyperfront.storage.batches import arguments, row_range, rows, split, take, to_device
from hyperfront.storage.containers import opened
from hyperfront.storage.nests import leaves, map_tensors, tensors
from hyperfront.training import Progress
from hyperfront.training.ideals import Ideals
from hyperfront.training.scales import warn_of_scales

CPU = torch.device("cpu")
RAYS = torch.tensor([[0.3, 0.7], [0.6, 0.4]])
Pair = namedtuple("Pair", "x y")


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: Tensor
    y: Tensor
    note: str = "kept"


class Encoding(UserDict):
    """A batch as tokenizers return it: entries are attributes, and there is more on it than its entries."""

    source = "text"

    def __getattr__(self, name: str):
        if name == "data" or name not in self.data:
            raise AttributeError(name)
        return self.data[name]


class Rows(list):
    """A list with a name."""

    name = "rows"


class Graph:
    """A batch as libraries of graphs make it: attributes, a ``to`` that moves it in place, no rows anywhere."""

    def __init__(self, nodes: int, edges: int, graphs: int, seed: int = 0):
        generator = torch.Generator().manual_seed(seed)
        self.x = torch.randn(nodes, 4, generator=generator)
        self.edge_index = torch.randint(0, nodes, (2, edges), generator=generator)
        self.batch = torch.arange(nodes) % graphs
        self.y = torch.randn(graphs, 2, generator=generator)
        self.num_graphs, self.moves = graphs, 0

    def to(self, device) -> Graph:
        self.x, self.y, self.moves = self.x.to(device), self.y.to(device), self.moves + 1
        return self


def xy(count: int = 64, seed: int = 0) -> tuple[Tensor, Tensor]:
    x = torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))
    return x, torch.stack([x[:, 0] * x[:, 1], x[:, 2] * x[:, 3]], 1)


def losses(get_y, get_output=lambda output: output):
    """Two losses of an output ``[B, 1]`` and targets ``[B, 2]``."""
    return {
        name: lambda output, batch, j=j: (get_output(output)[:, 0] - get_y(batch)[:, j]).square().mean()
        for j, name in enumerate(("first", "second"))
    }


def model(module: nn.Module | None = None, **options):
    torch.manual_seed(0)
    return hf.wrap(module or nn.Linear(4, 1), ["first", "second"], **{"hidden": 8} | options)


def fit(model, problem, **options):
    defaults = {"epochs": 2, "batch_size": 16, "rays_per_step": 2, "solver": hf.LS(), "callbacks": []}
    return hf.fit(model, problem, **defaults | options)


CONTAINERS = {
    "tuple": lambda x, y: (x, y),
    "dict": lambda x, y: {"x": x, "y": y},
    "named tuple": Pair,
    "mapping": lambda x, y: Encoding(x=x, y=y),
    "read-only mapping": lambda x, y: MappingProxyType({"x": x, "y": y}),
    "dataclass": Frozen,
    "list": lambda x, y: Rows([x, y]),
    "nested": lambda x, y: {"all": Encoding(inner=Frozen(x, y))},
}


# ---- batches -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_every_container_of_tensors_is_cut_moved_and_kept(make):
    x, y = xy(6)
    batch = make(x, y)
    assert rows(batch) == 6 and all(map(torch.equal, tensors(batch), (x, y)))
    for new, index in (
        (split(batch, 2), lambda t: t.view(2, 3, -1)),
        (row_range(batch, 1, 4), lambda t: t[1:4]),
        (take(batch, torch.tensor([5, 0])), lambda t: t[[5, 0]]),
        (to_device(batch, CPU), lambda t: t),
    ):
        assert type(new) is type(batch)
        assert all(map(torch.equal, tensors(new), (index(x), index(y))))
    both = map_tensors(torch.add, batch, batch)
    assert type(both) is type(batch) and torch.equal(tensors(both)[1], y + y)
    assert torch.equal(tensors(batch)[0], x)  # itself as it was


def test_containers_keep_what_is_no_tensor():
    x, y = xy(6)
    assert map_tensors(len, Frozen(x, y)) == Frozen(6, 6, "kept")
    halves = split(Encoding(x=x, y=y), 2)
    assert halves.source == "text" and torch.equal(halves.x, halves["x"])
    assert [".".join(path) for path, _ in leaves({"a": Encoding(b=Frozen(x, y))})] == ["a.b.x", "a.b.y", "a.b.note"]


def test_what_pytorch_s_pytrees_know_is_opened_as_they_say():
    class Registered:
        def __init__(self, value):
            self.value = value

    torch.utils._pytree.register_pytree_node(Registered, lambda r: ([r.value], None), lambda v, _: Registered(*v))
    doubled = map_tensors(lambda t: 2 * t, {"it": Registered(torch.ones(3))})
    assert isinstance(doubled["it"], Registered) and torch.equal(doubled["it"].value, torch.full((3,), 2.0))


def test_a_container_that_cannot_be_made_anew_says_how_to_register_it():
    class Stubborn(tuple):
        def __new__(cls, first, second):
            return super().__new__(cls, (first, second))

    with pytest.raises(hf.HyperfrontError, match=r"(?s)Stubborn.*register_pytree_node"):
        map_tensors(lambda t: t, Stubborn(torch.ones(1), torch.ones(1)))
    optree.register_pytree_node(Stubborn, lambda s: (tuple(s), None), lambda _, s: Stubborn(*s), namespace="hyperfront")
    assert isinstance(map_tensors(lambda t: t, Stubborn(torch.ones(1), torch.ones(1))), Stubborn)


@pytest.mark.parametrize("name", ["dict", "named tuple", "mapping", "dataclass", "nested"])
def test_training_does_not_depend_on_the_container(name):
    """As tensors in memory and from a loader, split among rays, validated and gathered: the numbers of a tuple."""
    x, y = xy()
    get = {"tuple": lambda b: b, "nested": lambda b: (b["all"].inner.x, b["all"].inner.y)}
    get |= {"dict": lambda b: (b["x"], b["y"]), "mapping": lambda b: (b.x, b.y)}

    def run(name: str, loader: bool):
        make, of = CONTAINERS[name], get.get(name, lambda b: (b.x, b.y))
        parts = [make(*row_range((x, y), start, start + 16)) for start in range(0, 64, 16)]
        train, val = (parts, parts) if loader else (make(x, y), make(x, y))
        problem = hf.supervised(
            train,
            val,
            inputs=lambda b: of(b)[0],
            losses=losses(lambda b: of(b)[1]),
            scores={
                "gathered": hf.Score(Gathered(lambda output, b: (output - of(b)[1]).abs().median()), maximize=False)
            },
            reference=(9, 9),
        )
        torch.manual_seed(0)
        front = fit(model(), problem).front
        return front.losses, front.scores["gathered"]

    for loader in (False, True):
        for found, expected in zip(run(name, loader), run("tuple", loader), strict=True):
            assert torch.equal(found, expected)


def test_a_mapping_is_keyword_arguments_and_a_packed_sequence_one_argument():
    packed = pack_sequence([torch.ones(3, 2), torch.ones(1, 2)])
    assert arguments(Encoding(ids=3)) == ((), {"ids": 3})
    assert arguments(packed)[0][0] is packed


# ---- rows ----------------------------------------------------------------------------------------------------------


class GraphNet(nn.Module):
    """The mean over the nodes of each graph."""

    def __init__(self):
        super().__init__()
        self.f = nn.Linear(4, 1)

    def forward(self, graph: Graph) -> Tensor:
        sums = torch.zeros(graph.num_graphs, 1).index_add(0, graph.batch, self.f(graph.x))
        return sums / graph.batch.bincount(minlength=graph.num_graphs)[:, None]


def graphs() -> list[Graph]:
    return [Graph(12, 30, 3, seed=0), Graph(9, 20, 2, seed=1), Graph(20, 40, 5, seed=2)]


def graph_problem(**options):
    data = graphs()
    return hf.supervised(data, data, inputs=lambda g: (g,), losses=losses(lambda g: g.y), reference=(9, 9), **options)


def test_graphs_train_where_somebody_counts_their_rows():
    problem = graph_problem(rows=lambda graph: graph.num_graphs)
    for options in ({"rays_per_step": 1}, {"share_batch": True}):
        trained = model(GraphNet())
        run = fit(trained, problem, **options)
    outputs = [(trained.at(run.front.rays[3])(graph)[:, 0], graph.y) for graph in graphs()]
    for j in range(2):  # a mean over graphs, not over batches
        whole = torch.cat([(output - y[:, j]).square() for output, y in outputs]).mean()
        torch.testing.assert_close(run.front.losses[3, j].float(), whole)


def test_moving_a_thing_that_moves_itself_leaves_the_given_one_alone():
    graph = Graph(4, 4, 2)
    moved = to_device({"graph": graph}, CPU)["graph"]
    assert moved.moves == 1 and graph.moves == 0


@pytest.mark.parametrize("options", [{}, {"share_batch": True}])
def test_graphs_whose_rows_nobody_counts_are_refused(options):
    with pytest.raises(ProblemError, match=r"(?s)Graph.*rows="):
        fit(model(GraphNet()), graph_problem(), **options)


def test_batches_with_counted_rows_are_not_split_among_rays():
    """Nodes could be split where there happen to be as many edges; graphs would be torn apart."""
    with pytest.raises(ProblemError, match="share_batch=True"):
        fit(model(GraphNet()), graph_problem(rows=lambda graph: graph.num_graphs))


def test_tensors_in_memory_have_their_rows_first():
    x, y = xy()
    with pytest.raises(ProblemError, match="first dimension"):
        hf.supervised((x, y), losses=losses(lambda b: b[1]), rows=3)
    with pytest.raises(ProblemError, match="neither a number nor a function"):
        hf.supervised([(x, y)], losses=losses(lambda b: b[1]), rows="all")


def test_a_last_partial_batch_is_dropped_whatever_its_rows_are():
    x, y = xy(10)
    loader = DataLoader(list(zip(x, y)), batch_size=4, collate_fn=lambda pairs: [torch.stack(p) for p in zip(*pairs)])
    problem = hf.supervised(loader, losses=losses(lambda b: b[1]), rows=lambda b: 7 * len(b[0]))
    batches = list(problem.train.source.epoch(4, torch.Generator(), CPU, 0))
    assert [len(batch[0]) for batch in batches] == [4, 4] and problem.train.source.steps(4) == 2


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.GRU(4, 5, batch_first=True), nn.Linear(5, 1)

    def forward(self, packed: PackedSequence) -> Tensor:
        return self.head(self.rnn(packed)[1][0])


def test_packed_sequences_train_and_evaluate():
    generator = torch.Generator().manual_seed(0)
    data = []
    for lengths in ((5, 3, 2), (4, 4)):
        sequences = [torch.randn(length, 4, generator=generator) for length in lengths]
        data.append((pack_sequence(sequences), torch.randn(len(lengths), 2, generator=generator)))
    problem = hf.supervised(data, data, losses=losses(lambda b: b[1]), rows=lambda b: len(b[1]), reference=(9, 9))
    trained = model(Recurrent())
    run = fit(trained, problem, share_batch=True)
    found = [(trained.at(run.front.rays[0])(x)[:, 0] - y[:, 1]).square() for x, y in data]
    torch.testing.assert_close(run.front.losses[0, 1].float(), torch.cat(found).mean())
    with pytest.raises(ProblemError, match="PackedSequence"):
        rows(pack_sequence([torch.ones(3, 2)]))  # 3 numbers of rows in 3 steps of 1 sequence


@pytest.mark.parametrize("strange", [Graph(4, 4, 2), torch.ones(4).numpy(), object()], ids=["moves", "array", "object"])
def test_what_may_have_rows_of_its_own_is_not_silently_kept_whole(strange):
    with pytest.raises(ProblemError):
        split((torch.ones(4), {"strange": strange}), 2)


# ---- outputs -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Output(dict):
    """An output as transformers have it: a dict, a dataclass, and a node of PyTorch's pytrees."""

    logits: Tensor | None = None
    hidden: tuple[Tensor, ...] | None = None

    def __post_init__(self):
        self.update({k: v for k in ("logits", "hidden") if (v := self.__dict__[k]) is not None})


torch.utils._pytree.register_pytree_node(
    Output, lambda o: (list(o.values()), list(o)), lambda values, keys: Output(**dict(zip(keys, values)))
)


class Returns(nn.Module):
    """A module that puts its output into something."""

    def __init__(self, put):
        super().__init__()
        self.f, self.put = nn.Linear(4, 3), put

    def forward(self, x: Tensor):
        return self.put(self.f(x))


@pytest.mark.parametrize("batching", ["loop", "vmap", "auto"])
@pytest.mark.parametrize(
    "put",
    [
        lambda y: Output(logits=y, hidden=(y, -y)),
        lambda y: Frozen(y, y.sum(1)),
        lambda y: Encoding(logits=y, none=None, kind="text"),
        lambda y: {"deep": [Frozen(y, Encoding(x=y))]},
    ],
    ids=["model output", "dataclass", "mapping", "nested"],
)
def test_outputs_of_several_rays_have_the_type_of_the_module_s(put, batching):
    x, wrapped = xy(5)[0], model(Returns(put), batching=batching).eval()
    for rays in (RAYS, RAYS[:1]):
        stacked = wrapped(x, rays)
        each = [wrapped.at(ray)(x) for ray in rays]
        assert type(stacked) is type(each[0])
        for found, *alone in zip(tensors(stacked), *map(tensors, each), strict=True):
            torch.testing.assert_close(found, torch.stack(alone))
        if isinstance(stacked, Output):
            assert stacked.logits.shape == (len(rays), 5, 3) and stacked.logits is stacked["logits"]
    assert tensors(wrapped(x[:2], RAYS, paired=True))[0].shape[:2] == (2, 3)


@pytest.mark.parametrize("batching", ["loop", "vmap", "auto"])
@pytest.mark.parametrize("count", [1, 2])
def test_what_cannot_be_stacked_is_named_with_its_place(batching, count):
    class Cache:
        def __init__(self, keys):
            self.keys = keys

    wrapped = model(Returns(lambda y: Output(logits=y, hidden=(y, Cache(y)))), batching=batching)
    if count == 1 and batching == "vmap":
        return
    with pytest.raises(TargetError, match=r"(?s)hidden\.1: Cache.*register_pytree_node\(Cache"):
        wrapped(xy(5)[0], RAYS[:count])


def test_losses_see_the_module_s_own_output():
    x, y = xy()
    problem = hf.supervised(
        (x, y), (x, y), losses=losses(lambda b: b[1], lambda output: output.logits), reference=(9, 9)
    )
    front = fit(model(Returns(lambda y: Output(logits=y))), problem).front
    plain = hf.supervised((x, y), (x, y), losses=losses(lambda b: b[1]), reference=(9, 9))
    assert torch.equal(front.losses, fit(model(nn.Linear(4, 3)), plain).front.losses)


def test_a_copy_of_a_container_shares_nothing_that_is_replaced():
    batch = Encoding(x=torch.ones(2))
    closed = opened(batch).close({"x": torch.zeros(2)})
    assert closed.x.sum() == 0 and batch.x.sum() == 2 and copy.copy(batch).x is batch.x


# ---- modules that keep things on themselves ------------------------------------------------------------------------


class Keeps(nn.Module):
    """A module that keeps activations on itself, in several places."""

    def __init__(self):
        super().__init__()
        self.f, self.g = nn.Linear(4, 8), nn.Linear(8, 1)
        self.aux, self.last, self.maps = None, Frozen(torch.zeros(1), torch.zeros(1)), []
        self.g.maps = self.maps

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.f(x)
        self.aux, self.last = hidden.square().mean(), Frozen(hidden, hidden.tanh())
        self.maps[:] = [hidden]
        return self.g(hidden)


@pytest.mark.parametrize("how", ["fit", "loop", "backward"])
def test_a_module_that_keeps_activations_can_be_taken_out_copied_and_pickled(how):
    x, y = xy()
    wrapped = model(Keeps(), batching="loop" if how == "loop" else "auto")
    if how == "backward":
        of = losses(lambda b: b[1]).values()
        hf.backward(wrapped, RAYS, lambda net: [f(net(x), (x, y)) for f in of], solver=hf.LS())
    else:
        fit(wrapped, hf.supervised((x, y), losses=losses(lambda b: b[1])))
    wrapped.eval()
    expected = wrapped(x, RAYS[:1])[0]
    copied, pickled = copy.deepcopy(wrapped), pickle.loads(pickle.dumps(wrapped))
    for plain in (wrapped.at(RAYS[0]), copied.at(RAYS[0]), pickled.at(RAYS[0])):
        assert torch.equal(plain(x), expected)
        assert plain.g.maps is plain.maps and plain.aux == plain.f(x).square().mean()
    assert torch.equal(copied(x, RAYS[:1])[0], expected) and torch.equal(pickled(x, RAYS[:1])[0], expected)


def test_a_module_that_was_called_can_be_wrapped_and_stays_as_it_is():
    x, used = xy(8)[0], Keeps()
    used(x)
    before = used.aux
    wrapped = model(used)
    assert used.aux is before and before.grad_fn is not None
    assert torch.equal(wrapped.target.skeleton.aux, before) and wrapped.target.skeleton.aux.is_leaf


def test_weight_norm_of_the_old_kind_can_be_wrapped():
    """Its weight is an attribute that a hook computes anew before every call."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        wrapped = model(nn.utils.weight_norm(nn.Linear(4, 1)), batching="loop").eval()
    x = xy(8)[0]
    theta = wrapped.weights(RAYS)
    for row, output, ray in zip(theta, wrapped(x, RAYS), RAYS, strict=True):
        values = wrapped.target.unpack(row)
        g, v = values["weight_g"], values["weight_v"]
        torch.testing.assert_close(output, x @ (g * v / v.norm(dim=1, keepdim=True)).T + values["bias"])
        torch.testing.assert_close(wrapped.at(ray)(x), output)


# ---- modules and losses that take derivatives ----------------------------------------------------------------------


class Physics(nn.Module):
    """``u(t)`` and its derivative, as physics-informed networks are written."""

    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, t: Tensor) -> tuple[Tensor, Tensor]:
        t = t.detach().requires_grad_()
        u = self.f(t)
        return u, torch.autograd.grad(u.sum(), t, create_graph=True)[0]


def slopes(wrapped, ray, t: Tensor) -> Tensor:
    """The derivative of the network at ``ray``, by its formula."""
    first, _, last = wrapped.at(ray).f if isinstance(wrapped.target.skeleton, Physics) else wrapped.at(ray)
    return (1 - torch.tanh(first(t)).square()) * first.weight[:, 0] @ last.weight.T


@pytest.mark.parametrize("batching", ["loop", "auto"])
def test_a_module_that_takes_derivatives_is_evaluated_and_served(batching):
    t = torch.linspace(0, 1, 32)[:, None]
    of = {"first": lambda o, b: (o[1] + o[0]).square().mean(), "second": lambda o, b: (o[0] - b[1]).square().mean()}
    problem = hf.supervised((t, t.exp()), (t, t.exp()), losses=of, reference=(9, 9))
    wrapped = model(Physics(), batching=batching)
    front = fit(wrapped, problem, solver=hf.EPO()).front
    wrapped.eval()
    with torch.no_grad():
        u, du = wrapped(t, RAYS)
        for ray, value, slope in zip(RAYS, u, du, strict=True):
            torch.testing.assert_close(slope, slopes(wrapped, ray, t))
            torch.testing.assert_close(value, wrapped.at(ray).f(t))
        assert not du.requires_grad
        expected = (slopes(wrapped, front.rays[0], t) + wrapped.at(front.rays[0]).f(t)).square().mean()
    torch.testing.assert_close(front.losses[0, 0].float(), expected)
    with torch.inference_mode():  # as a server predicts
        cache = WeightCache(wrapped)
        for weights, slope in zip(cache.get(RAYS.numpy()), du, strict=True):
            torch.testing.assert_close(cache.run(weights, t)[1].clone(), slope)


class Adapting(nn.Module):
    """Takes a step down its own loss before it answers, as MAML and test-time training do."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, t: Tensor) -> Tensor:
        own = dict(self.net.named_parameters())
        with torch.enable_grad():
            start = self.net(torch.ones(2, 1)).square().mean()
            slopes = torch.autograd.grad(start, list(own.values()), create_graph=True)
        moved = {name: value - 0.1 * slope for (name, value), slope in zip(own.items(), slopes)}
        return torch.func.functional_call(self.net, moved, (t,))


@pytest.mark.parametrize("batching", ["loop", "auto"])
def test_a_module_that_takes_derivatives_by_its_weights_is_checked_trained_and_evaluated(batching):
    t = torch.linspace(0, 1, 32)[:, None]
    of = {"first": lambda o, b: o.square().mean(), "second": lambda o, b: (o - b[1]).square().mean()}
    problem = hf.supervised((t, t.exp()), (t, t.exp()), losses=of, reference=(9, 9))
    wrapped = model(Adapting(), batching=batching)
    assert hf.check(wrapped, t, lambda net: (net(t).square().mean(), (net(t) - t).square().mean())).error < 1e-3
    front = fit(wrapped, problem, solver=hf.EPO()).front
    expected = wrapped.at(front.rays[0])(t).square().mean()
    torch.testing.assert_close(front.losses[0, 0].float(), expected)
    wrapped.eval()
    with torch.inference_mode():
        outputs = wrapped(t, RAYS).clone()
    for ray, output in zip(RAYS, outputs, strict=True):
        torch.testing.assert_close(output, wrapped.at(ray)(t))


def test_a_loss_that_takes_derivatives_of_the_output_is_evaluated():
    t = torch.linspace(0, 1, 32)[:, None]

    def ode(output: Tensor, batch) -> Tensor:
        return (torch.autograd.grad(output.sum(), batch[0], create_graph=True)[0] + output).square().mean()

    problem = hf.supervised(
        (t, t.exp()),
        (t, t.exp()),
        inputs=lambda batch: batch[0].requires_grad_(),
        losses={"first": ode, "second": lambda output, batch: (output - batch[1]).square().mean()},
        reference=(9, 9),
    )
    wrapped = model(nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1)))
    front = fit(wrapped, problem).front
    ray = front.rays[3]
    with torch.no_grad():
        expected = (slopes(wrapped, ray, t) + wrapped.at(ray)(t)).square().mean()
    torch.testing.assert_close(front.losses[3, 0].float(), expected)


def test_other_failures_without_gradients_stay_what_they_are():
    with torch.no_grad(), pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        model()(torch.ones(2, 3), RAYS)


# ---- signs of losses -----------------------------------------------------------------------------------------------

ANY_SIGN = [hf.LS(), MGDA(), HVMax(cosine=0.0), COSMOS(0.0), chain(Normalize(2.0, ideal=-9.0), PBI())]
NEED_POSITIVE = [
    hf.EPO(),
    Tchebycheff(),
    SmoothTchebycheff(),
    PBI(),
    COSMOS(1.0),
    PMTL(),
    HVMax(),
    chain(hf.EPO(), Clip(low=0.01)),
]
IDEAL = {"first": -1.0, "second": -1.0}


def bowls(shift: float, at: float = -1.0, **options) -> hf.Problem:
    """Two bowls with their minima, ``shift``, at ``x = at`` and ``x = 1``; training starts at ``x = 0``."""

    def function(x: Tensor) -> Tensor:
        return torch.stack([(x - at).square().sum(), (x - 1).square().sum()]) + shift

    return hf.analytic(function, variables=4, objectives=("first", "second"), reference=(9, 9), **options)


def train(problem: hf.Problem, solver, **options):
    torch.manual_seed(0)
    return fit(problem.model(), problem, solver=solver, **{"epochs": 1, "rays_per_step": 4, "lr": 1e-2} | options)


@pytest.mark.parametrize("solver", NEED_POSITIVE, ids=str)
def test_solvers_that_need_losses_above_zero_refuse_others(solver):
    losses, gram = torch.tensor([[1.0, 2.0], [1.0, -2.0], [0.0, 2.0]]), torch.eye(2).expand(3, 2, 2)
    rays = torch.tensor([[0.3, 0.7], [0.4, 0.6], [0.5, 0.5]])
    _, status = solver(losses, rays, gram)
    assert (status == Status.INVALID).tolist() == [False, True, False]
    with pytest.raises(LossError, match=r"(?s)'first'.*ideal=\{'first'"):
        train(bowls(-20.0), solver)
    with pytest.raises(LossError, match="negative"):
        wrapped = bowls(0).model()
        hf.backward(wrapped, rays, lambda net: bowls(-20.0).function(net()), solver=solver)


@pytest.mark.parametrize("solver", ANY_SIGN, ids=str)
def test_solvers_that_take_losses_of_any_sign_do(solver):
    if isinstance(solver, MGDA):  # which moves all rays to one point
        losses, gram = torch.tensor([[-1.0, 2.0]]), torch.eye(2)[None]
        assert solver(losses, torch.tensor([[0.3, 0.7]]), gram)[1].item() == Status.AS_NAMED
    else:
        assert train(bowls(-5.0), solver).history[-1]["status"] == {"as_named": 400}


@pytest.mark.parametrize("solver", NEED_POSITIVE, ids=str)
def test_a_loss_that_turns_negative_later_is_an_error_without_an_ideal(solver):
    with pytest.raises(LossError, match=r"(?s)'(first|second)'.*epoch 1, step \d+.*ideal="):
        train(bowls(-2.0), solver, epochs=20, lr=3e-2)


@pytest.mark.parametrize("solver", NEED_POSITIVE[:6], ids=str)
def test_the_ideal_makes_any_shift_the_same_problem(solver):
    """Shifted losses, with that shift as ideal, train like losses that were never shifted."""
    shifted, plain = train(bowls(-1.0, ideal=IDEAL), solver), train(bowls(0.0), solver)
    torch.testing.assert_close(shifted.front.losses, plain.front.losses, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("own", [False, True], ids=["ideal of the problem", "ideal of the solver"])
def test_a_loss_below_its_ideal_is_counted_and_the_run_goes_on(own):
    """The ideal is a guess that is too high by .5; rays at the end of the front find that out."""
    problem = bowls(0.0) if own else bowls(0.0, ideal={"first": 0.5})
    solver = Tchebycheff(ideal=(0.5, 0.0)) if own else hf.EPO()
    at_an_end = FixedRays.of(torch.tensor([[0.99999, 0.00001]]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the mean may be below too
        run = train(problem, solver, preferences=at_an_end, epochs=4, rays_per_step=1, schedule="constant")
    counts = [record["status"] for record in run.history]
    assert sum(count.get("floored", 0) for count in counts) > 0
    assert sum(map(sum, (count.values() for count in counts))) == 400


def test_a_mean_loss_below_its_ideal_is_warned_of_once():
    ideals = Ideals(("a", "b"), Units.of(("a", "b"), None, {"a": 2.0}, ()), hf.EPO(), CPU)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for means in ({"a": 0.1, "b": 1.0}, {"a": -1e-6, "b": 1.0}, {"a": -0.1, "b": 1.0}, {"a": -0.2, "b": 1.0}):
            ideals.warn(means)
    assert len(seen) == 1 and "ideal of a:" in str(seen[0].message)


def test_an_ideal_far_above_the_first_losses_is_an_error_before_the_first_step():
    with pytest.raises(LossError, match="'second'"):
        train(bowls(0.0, ideal={"second": 5.0}), hf.EPO())


@pytest.mark.parametrize("rounding", [0.0, 1e-6, 9e-6, 1.1e-5])
def test_rounding_below_the_ideal_is_a_loss_of_zero(rounding):
    """At the start the first loss is its ideal, -1, or a little less."""
    problem = bowls(-1.0, at=0.0, ideal={"first": -1.0 + rounding, "second": -1.0})
    if rounding > 1e-5:
        with pytest.raises(LossError, match="'first'"):
            train(problem, hf.EPO())
        return
    run = train(problem, hf.EPO(), epochs=3)
    assert run.history[0]["status"]["floored"] >= 4 and run.front.uniformity() > 0.9


def test_a_raised_loss_is_solved_like_one_at_its_ideal():
    units = Units.of(("a", "b"), {"a": 2.0}, {"a": 2.0}, ())
    rays, gram = torch.tensor([[0.3, 0.7]]), torch.tensor([[[2.0, -1.0], [-1.0, 3.0]]])
    for solver in (hf.EPO(), Tchebycheff(), PBI(), HVMax(), PMTL()):
        rays, gram = rays.expand(2, 2), gram.expand(2, 2, 2)
        ideals = Ideals(("a", "b"), units, solver, CPU)
        low, zero = (torch.tensor([[value, 1.0], [2.0, 1.0]]) for value in (-0.5, 0.0))
        weights, status = ideals.around(low, rays, gram)
        assert torch.equal(weights, solver(zero, rays, gram)[0])
        assert status.tolist() == [Status.FLOORED, Status.AS_NAMED]
        negative = torch.tensor([[1.0, -1.0], [2.0, 1.0]])  # which has no ideal
        assert ideals.around(negative, rays, gram)[1].tolist()[0] == Status.INVALID


def test_uniformity_is_not_defined_for_negative_losses():
    def front(*losses):
        return hf.Front(("a", "b"), torch.full((len(losses), 2), 0.5), torch.tensor(losses, dtype=torch.float64))

    assert front((1.0, 1.0)).uniformity() == 1
    assert math.isnan(front((1.0, 1.0), (-1.0, 1.0)).uniformity())
    assert front((-1e-7, 2.0), (1.0, 1.0)).uniformity() == front((0.0, 2.0), (1.0, 1.0)).uniformity()
    record = train(bowls(-5.0), hf.LS()).history[-1]
    assert record["validation"]["uniformity"] is None


# ---- sizes of losses -----------------------------------------------------------------------------------------------


def unbalanced(sizes: tuple[float, float], **options) -> hf.Problem:
    """Two objectives that are of these sizes at the start."""

    def function(x: Tensor) -> Tensor:
        return torch.stack([(x + 1).square().mean(), (x - 1).square().mean()]) * torch.tensor(sizes)

    return hf.analytic(function, variables=4, objectives=("tiny", "huge"), **options)


@pytest.mark.parametrize("solver", [hf.EPO(), SmoothTchebycheff(), hf.LS(), chain(hf.LS(), Clip(low=0.01))], ids=str)
def test_losses_of_very_different_sizes_are_named_with_their_scale(solver):
    with pytest.warns(UserWarning, match=r"(?s)tiny 1\.0e-06, huge 1\.0e\+03.*scale=\{'tiny': 1e-06, 'huge': 1e\+03\}"):
        train(unbalanced((1e-6, 1e3)), solver)


@pytest.mark.parametrize(
    ("sizes", "solver", "options"),
    [
        ((1e-6, 1e3), hf.EPO(), {"scale": {"tiny": 1e-6, "huge": 1e3}}),
        ((1e-6, 1e3), chain(Normalize((4e-6, 4e3)), hf.EPO()), {}),
        ((1.0, 9e3), hf.LS(), {}),
        ((0.0, 1.0), hf.LS(), {}),
    ],
)
def test_losses_of_similar_or_normalized_sizes_are_not_warned_of(sizes, solver, options):
    problem = unbalanced(sizes, **options)
    step = hf.Step(problem.model(), problem, solver)
    losses = torch.stack([problem.losses(step.model.target.network(row), ()) for row in step.model.weights(RAYS)])
    warn_of_scales(losses, problem.objectives, solver)


# ---- parameters ----------------------------------------------------------------------------------------------------


class Spectral(nn.Module):
    """A layer in Fourier space, with complex weights."""

    def __init__(self):
        super().__init__()
        self.odd = nn.Parameter(torch.ones(3))  # so that the complex numbers begin at an odd place
        self.w, self.head = nn.Parameter(torch.randn(3, dtype=torch.cfloat)), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.fft.irfft(torch.fft.rfft(x) * self.w * self.odd, n=4))


@pytest.mark.parametrize(
    ("options", "generated"),
    [({}, True), ({"hypernet": "chunked"}, True), ({"generate": "head.*"}, False), ({"hypernet": "film"}, False)],
    ids=["mlp", "chunked", "trained", "film"],
)
@pytest.mark.parametrize("solver", [hf.LS(), hf.EPO()], ids=["LS", "EPO"])
def test_complex_parameters_are_generated_or_trained(options, generated, solver, tmp_path):
    x, y = xy()
    wrapped = model(Spectral(), **options)
    assert (wrapped.target.tensors[1].role == "generated") is generated
    before = wrapped.at(RAYS[0]).w.detach().clone()
    problem = hf.supervised((x, y), (x, y), losses=losses(lambda b: b[1]), reference=(9, 9))
    for count in (1, 2):
        fit(wrapped, problem, solver=solver, rays_per_step=count)
    wrapped.eval().save(tmp_path / "model.safetensors")
    loaded = hf.load(tmp_path / "model.safetensors", target=Spectral())
    for ray in RAYS:
        plain = wrapped.at(ray)
        assert plain.w.dtype == torch.complex64 and not torch.equal(plain.w, before)
        torch.testing.assert_close(wrapped(x, ray[None])[0], plain(x))
        torch.testing.assert_close(loaded(x, ray[None])[0], plain(x))
    assert torch.equal(wrapped.at(RAYS[0]).w, wrapped.at(RAYS[1]).w) is not generated


def test_gradients_of_complex_parameters_are_those_of_autograd():
    x, y = xy()
    wrapped = model(Spectral())
    leaf = wrapped.weights(RAYS[0]).detach()[0].requires_grad_()
    plain = wrapped.at(RAYS[0])
    of = losses(lambda b: b[1])["first"]
    (found,) = torch.autograd.grad(of(wrapped.target.network(leaf)(x), (x, y)), leaf)
    of(plain(x), (x, y)).backward()
    torch.testing.assert_close(wrapped.target.unpack(found)["w"], plain.w.grad)
    torch.testing.assert_close(wrapped.target.unpack(found)["head.weight"], plain.head.weight.grad)


@pytest.mark.parametrize("generate", ["*", "1.*"], ids=["generated", "trained"])
@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_embeddings_with_sparse_gradients_train(kind, generate):
    x, y = torch.arange(64).view(64, 1) % 9, xy()[1]
    found = []
    for sparse in (True, False):
        torch.manual_seed(0)
        module = nn.Sequential(kind(9, 4, sparse=sparse), nn.Sequential(nn.Flatten(), nn.Linear(4, 1)))
        wrapped = model(module, generate=generate)
        problem = hf.supervised((x, y), (x, y), losses=losses(lambda b: b[1]), reference=(9, 9))
        found.append(fit(wrapped, problem, solver=hf.EPO()).front.losses)
        assert wrapped.at(RAYS[0])[0].sparse is sparse
    assert torch.equal(*found)


def test_an_embedding_that_rescales_a_generated_weight_is_refused():
    module = nn.Sequential(nn.Embedding(9, 4, max_norm=1.0), nn.Flatten(), nn.Linear(4, 1))
    with pytest.raises(TargetError, match=r"(?s)max_norm.*0\.weight.*generate="):
        model(module)
    x, y = torch.arange(64).view(64, 1) % 9, xy()[1]
    wrapped = model(module, generate="2.*")
    fit(wrapped, hf.supervised((x, y), losses=losses(lambda b: b[1])))
    assert wrapped.at(RAYS[0])[0].weight.norm(dim=1).max() <= 1 + 1e-2


# ---- other things than expected ------------------------------------------------------------------------------------


def small_problem() -> hf.Problem:
    x, y = xy(32)
    return hf.supervised((x, y), (x, y), losses=losses(lambda b: b[1]), reference=(9, 9))


HANDED = {
    "plain module to fit": (lambda: fit(nn.Linear(4, 1), small_problem()), "got: +a Linear"),
    "class to fit": (lambda: fit(hf.ParetoModel, small_problem()), "got: +the class ParetoModel"),
    "plain module to evaluate": (lambda: hf.evaluate(nn.Linear(4, 1), small_problem().val), "evaluate works.*Linear"),
    "run to evaluate": (lambda: hf.evaluate(fit(model(), small_problem()), small_problem().val), r"Run\.model"),
    "plain module to align": (lambda: hf.align(nn.Linear(4, 1), small_problem().val), "align works.*Linear"),
    "plain module to backward": (
        lambda: hf.backward(nn.Linear(4, 1), RAYS, lambda net: (), solver=hf.LS()),
        "backward works.*Linear",
    ),
    "wrapper to fit": (lambda: fit(nn.DataParallel(model()), small_problem()), r"DataParallel\.module"),
    "model to explore": (lambda: hf.explore(model()), "explore opens a run.*ParetoModel"),
    "data to fit": (lambda: fit(model(), xy()), "fit needs a problem.*tuple"),
    "class of preferences": (lambda: fit(model(), small_problem(), preferences=hf.Dirichlet), "the class Dirichlet"),
    "class of callbacks": (lambda: fit(model(), small_problem(), callbacks=[Progress]), "the class Progress"),
    "one callback": (lambda: fit(model(), small_problem(), callbacks=Progress()), "callbacks are a list"),
    "optimizer": (
        lambda: fit(model(), small_problem(), optimizer=torch.optim.SGD(model().parameters(), lr=0.1)),
        r"a SGD.*optimizer=lambda parameters: torch\.optim\.SGD\(parameters",
    ),
    "name of an optimizer": (lambda: fit(model(), small_problem(), optimizer="sgd"), "got: +a str"),
    "no optimizer": (lambda: fit(model(), small_problem(), optimizer=lambda p: None), "optimizer= returned.*NoneType"),
    "schedule": (
        lambda: fit(
            model(),
            small_problem(),
            schedule=torch.optim.lr_scheduler.ConstantLR(torch.optim.SGD(model().parameters(), lr=0.1)),
        ),
        "a ConstantLR",
    ),
    "no schedule": (lambda: fit(model(), small_problem(), schedule=lambda o: 3), "schedule= returned.*int"),
}


@pytest.mark.parametrize("name", HANDED)
def test_other_things_than_expected_are_named(name):
    call, message = HANDED[name]
    with pytest.raises(hf.HyperfrontError, match=f"(?s){message}"):
        call()


def test_parameters_in_pieces_are_refused(tmp_path):
    """As ``fully_shard`` leaves them: DTensors, here on a mesh of one process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        mesh = dist.device_mesh.init_device_mesh("cpu", (1,))
        whole, module = model(), nn.Linear(4, 1)
        for sharded in (whole, module):
            fully_shard(sharded, mesh=mesh)
        calls = {
            "fit": lambda: fit(whole, small_problem()),
            "evaluate": lambda: hf.evaluate(whole, small_problem().val),
            "backward": lambda: hf.backward(whole, RAYS, lambda net: (), solver=hf.LS()),
            "save": lambda: whole.save(tmp_path / "model.safetensors"),
            "wrap": lambda: model(module),
            "the model": lambda: whole.at(RAYS[0]),
        }
        for use, call in calls.items():
            with pytest.raises(TargetError, match=f"(?s){use} needs all of a parameter.*DTensor"):
                call()
    finally:
        dist.destroy_process_group()


# ---- a first batch that does not fit -------------------------------------------------------------------------------


def two_layers() -> nn.Module:
    return nn.Sequential(nn.Sequential(nn.Linear(4, 3), nn.Tanh()), nn.Linear(3, 1))


X, Y = xy(32)
MISFITS = {
    "width": ((X[:, :3], Y), {}, TargetError, r"module fails.*cannot be.*0\.0: Linear, in Sequential on float32"),
    "type": ((X.double(), Y), {}, TargetError, r"module fails.*0\.0: Linear, in Sequential on float64 \[\d+, 4\]"),
    "target": ((X, Y[:, :1]), {}, LossError, r"'second' fails.*index 1.*batch of 0: float32 \[\d+, 4\], 1: float32"),
    "arguments": ((X, Y), {"inputs": tuple}, TargetError, "module fails.*positional.*Sequential on 0: float32"),
    "inputs": ((X, Y), {"inputs": lambda b: b[2]}, ProblemError, "inputs= fails.*out of range.*batch of 0: float32"),
    "score": (
        (X, Y),
        {"scores": {"gap": hf.Score(lambda o, b: o @ b[0], maximize=False)}},
        LossError,
        "score 'gap' fails.*shapes cannot",
    ),
}


@pytest.mark.parametrize("batching", ["auto", "loop", "vmap"])
@pytest.mark.parametrize("name", MISFITS)
def test_a_first_batch_that_does_not_fit_names_layer_or_objective_and_shapes(name, batching):
    data, options, kind, message = MISFITS[name]
    problem = hf.supervised(data, losses=losses(lambda b: b[1]), **options)
    with pytest.raises(kind, match=f"(?s){message}") as caught:
        fit(
            model(two_layers(), batching=batching), problem, rays_per_step=1 if batching == "loop" else 2, batch_size=32
        )
    assert isinstance(caught.value.__cause__, (RuntimeError, TypeError, IndexError))


def test_the_batch_of_one_ray_is_what_the_message_shows():
    problem = hf.supervised((X[:, :3], Y), losses=losses(lambda b: b[1]))
    with pytest.raises(TargetError, match=r"on float32 \[8, 3\]"):
        fit(model(two_layers()), problem, rays_per_step=4, batch_size=32)
