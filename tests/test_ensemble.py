"""Ensembles: the mean of models at the same ray is a model with everything that a model has."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import hyperfront as hf
from hyperfront import export
from hyperfront.apps.serve.predictor import Query
from hyperfront.apps.serve.service import serve_model
from hyperfront.errors import CheckpointError, HyperfrontError, TargetError
from hyperfront.model.averaged import Averaged
from hyperfront.storage import checkpoint

RAYS = torch.tensor([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])
X = torch.randn(7, 4, generator=torch.Generator().manual_seed(0))


class Norms(nn.Module):
    """Has BatchNorm, a tied weight, a frozen parameter and a buffer."""

    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 4)
        self.back = nn.Linear(6, 4)
        self.back.weight = self.b.weight
        self.frozen = nn.Parameter(torch.randn(4), requires_grad=False)
        self.register_buffer("shift", torch.randn(4))

    def forward(self, x):
        hidden = self.norm(self.a(x)).relu()
        return self.b(hidden) + self.back(hidden) * self.frozen + self.shift


class Dropped(nn.Module):
    """Resting BatchNorm, dropout, and two outputs by name."""

    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)
        nn.init.uniform_(self.norm.running_mean)

    def forward(self, x, *, more=1.0):
        hidden = nn.functional.dropout(self.norm(self.a(x)), 0.5, self.training)
        return {"logits": self.b(hidden) * more, "value": hidden.sum(1)}


KINDS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)), {"hidden": 5}),
    "chunked": (lambda: nn.Linear(4, 3), {"hypernet": "chunked", "chunk": 5}),
    "low rank": (lambda: nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 3)), {"hypernet": "low_rank", "rank": 2}),
    "linear in the ray": (Norms, {"hypernet": "low_rank", "rank": 2, "linear": True, "base": "freeze"}),
    "film": (Norms, {"hypernet": "film", "hidden": 4}),
    "separate": (lambda: nn.Linear(4, 3), {"hypernet": "separate", "rays": [[0.2, 0.8], [0.9, 0.1]]}),
    "BatchNorm": (Norms, {"hidden": 5}),
    "trained beside": (Norms, {"hidden": 5, "generate": "b.*"}),
}


def member(kind: str, seed: int) -> hf.ParetoModel:
    torch.manual_seed(seed)
    make, options = KINDS[kind]
    model = hf.wrap(make(), ["left", "right"], **options)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn_like(p))
    if model.target.norms:
        model.calibrate(torch.randn(20, 4))
    return model.eval()


@pytest.mark.parametrize("kind", KINDS)
def test_an_ensemble_is_the_mean_at_every_ray_also_from_its_file(kind, tmp_path):
    models = [member(kind, seed) for seed in range(3)]
    expected = torch.stack([model(X, RAYS) for model in models]).mean(0)
    both = hf.ensemble(models, average="values")
    torch.testing.assert_close(both(X, RAYS), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(both.at(RAYS[1])(X), expected[1], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(both(X[:3], RAYS, paired=True), expected[[0, 1, 2], [0, 1, 2]], rtol=1e-4, atol=1e-4)
    both.save(tmp_path / "both.safetensors")
    loaded = hf.load(tmp_path / "both.safetensors", target=KINDS[kind][0]())
    assert torch.equal(loaded(X, RAYS), both(X, RAYS))
    assert loaded.document() == both.document()


def test_an_ensemble_of_one_is_that_model_and_members_may_have_other_targets():
    one = member("mlp", 0)
    torch.testing.assert_close(hf.ensemble([one], average="softmax")(X, RAYS).softmax(-1), one(X, RAYS).softmax(-1))
    wide = hf.wrap(nn.Linear(4, 3), ["left", "right"], hypernet="chunked", chunk=5)
    mixed = hf.ensemble([one, wide], average="values")
    torch.testing.assert_close(mixed(X, RAYS), (one(X, RAYS) + wide(X, RAYS)) / 2)


def test_layers_that_rest_and_outputs_by_name(tmp_path):
    def make():
        torch.manual_seed(3)
        module = Dropped()
        module.norm.eval()
        return hf.wrap(module, ["left", "right"], hidden=4)

    models = [make().eval() for _ in range(2)]
    both = hf.ensemble(models, average=["softmax", "values"])
    found, single = both(X, RAYS), [model(X, RAYS) for model in models]
    expected = sum(each["logits"].softmax(-1) for each in single) / 2
    torch.testing.assert_close(found["logits"].softmax(-1), expected)
    torch.testing.assert_close(found["value"], sum(each["value"] for each in single) / 2)
    both.save(tmp_path / "both.safetensors")
    assert torch.equal(hf.load(tmp_path / "both.safetensors", Dropped())(X, RAYS)["value"], found["value"])


@pytest.mark.parametrize(
    ("word", "shape", "probabilities"),
    [
        ("softmax", (5, 3), lambda y: y.softmax(1)),
        ("softmax:1", (5, 3, 2, 2), lambda y: y.softmax(1)),
        ("softmax:-1", (5, 2, 3), lambda y: y.softmax(2)),
        ("sigmoid", (5,), lambda y: y.sigmoid()),
        ("values", (5, 1), lambda y: y),
    ],
)
def test_probabilities_are_averaged_exactly_also_far_out(word, shape, probabilities):
    generator = torch.Generator().manual_seed(0)
    outputs = [30 * torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(4)]

    class Gives(nn.Module):
        def __init__(self, y):
            super().__init__()
            self.register_buffer("y", y)

        def forward(self):
            return self.y

    found = Averaged(map(Gives, outputs), [word])()
    assert found.isfinite().all()
    torch.testing.assert_close(probabilities(found), sum(map(probabilities, outputs)) / 4)


def test_an_ensemble_evaluates_aligns_and_exports(tmp_path):
    y = X[:, :1], X[:, 1:2]
    losses = {
        "left": lambda output, batch: (output[:, :1] - batch[1]).square().mean(),
        "right": lambda output, batch: (output[:, 1:2] - batch[2]).abs().mean(),
    }
    problem = hf.supervised((X, *y), (X, *y), (X, *y), losses=losses, reference=(4, 4))
    models = [member("mlp", seed) for seed in range(2)]
    hf.align(models[0], problem.val)  # every member keeps its own alignment
    expected = (models[0](X, RAYS) + models[1](X, RAYS)) / 2
    both = hf.ensemble(models, average="values")
    torch.testing.assert_close(both(X, RAYS), expected)
    front = hf.evaluate(both, problem.test, RAYS)
    torch.testing.assert_close(front.losses[:, 0].float(), (expected[..., :1] - y[0]).square().mean((1, 2)))
    both.save(tmp_path / "both.safetensors")
    torch.testing.assert_close(hf.load(tmp_path / "both.safetensors", KINDS["mlp"][0]())(X, RAYS), expected)
    export.weights(both, RAYS[0], tmp_path / "net.safetensors")
    names = set(both.at(RAYS[0]).state_dict())
    assert "members.1.0.weight" in names and len(names) == 8
    exported = torch.export.export(both.at(RAYS[0]), (X,)).module()
    torch.testing.assert_close(exported(X), expected[0])
    graph = export.graph(both, problem)
    assert [*graph.inputs] == ["ray", "input"]  # the name that a member's input has
    torch.testing.assert_close(graph({"ray": RAYS[0], "input": X})[0], expected[0])
    service = serve_model(both, problem)
    (served,) = service.predict([Query(RAYS[:1].numpy(), (X,), len(X))])
    assert service.inputs[0].name == "input"
    torch.testing.assert_close(torch.as_tensor(served[0]), expected[0])


def test_an_ensemble_keeps_the_precision_of_its_members():
    models = [member("mlp", seed).double() for seed in range(2)]
    with torch.no_grad():
        for p in (p for model in models for p in model.parameters()):
            p.add_(1e-9)
    found, expected = (
        hf.ensemble(models, average="values")(X.double(), RAYS),
        sum(m(X.double(), RAYS) for m in models) / 2,
    )
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, expected)


def test_ensembles_that_would_mean_nothing_are_refused(tmp_path):
    one, other = member("mlp", 0), hf.wrap(nn.Linear(4, 3), ["cost", "risk"], hidden=3)
    weighted = member("mlp", 1)
    weighted.record["convention"] = "weights"
    for models, words in (
        ([], "no model"),
        ([one, other], "objectives"),
        ([one, weighted], "convention"),
        ([one, member("film", 1)], "parts that are generated"),
        ([one, member("mlp", 1).double()], "precision"),
        ([one, hf.ensemble([one], average="values")], "all models of an ensemble to one call"),
    ):
        with pytest.raises(HyperfrontError, match=f"(?s){words}"):
            hf.ensemble(models, average="values")
    with pytest.raises(HyperfrontError, match="softmax"):
        hf.ensemble([one], average="softmaxx")
    for average, words in ((["values"] * 2, "one word"), ("softmax", "several classes")):
        narrow = hf.wrap(nn.Linear(4, 1), ["left", "right"], hidden=3)
        with pytest.raises(TargetError, match=words):
            hf.ensemble([narrow], average=average)(X, RAYS)
    both = hf.ensemble([one, one], average="values")
    both.save(tmp_path / "both.safetensors")
    tensors, document = checkpoint.read(tmp_path / "both.safetensors")
    for forge in (lambda options: options["members"][0]["sizes"].append(5), lambda options: options["order"].reverse()):
        _, document = checkpoint.read(tmp_path / "both.safetensors")
        forge(document["model"]["hypernet"]["options"])
        checkpoint.write(tmp_path / "forged.safetensors", tensors, document)
        with pytest.raises(CheckpointError):
            hf.load(tmp_path / "forged.safetensors", KINDS["mlp"][0]())


def test_fit_trains_members_that_differ_and_resumes_their_ensemble(tmp_path):
    y = X[:, :1], X[:, 1:2]
    losses = {
        "left": lambda output, batch: (output[:, :1] - batch[1]).square().mean(),
        "right": lambda output, batch: (output[:, 1:2] - batch[2]).square().mean(),
    }
    problem = hf.supervised((X, *y), (X, *y), losses=losses, reference=(9, 9))

    def make():
        return hf.wrap(nn.Linear(4, 3), ["left", "right"], hidden=4)

    options = {"average": "values", "epochs": 1, "batch_size": 7, "callbacks": [], "validation_rays": 3, "align": True}
    run = hf.fit(make, problem, members=3, seed=5, out=tmp_path, **options)
    torch.manual_seed(6)
    second = hf.fit(make(), problem, seed=6, **(options | {"align": False, "average": None}))
    member = hf.load(tmp_path / "member-1", nn.Linear(4, 3))
    torch.testing.assert_close(member(X, RAYS), second.model(X, RAYS))
    models = [hf.load(tmp_path / f"member-{k}", nn.Linear(4, 3)) for k in range(3)]
    assert len({model(X, RAYS).sum().item() for model in models}) == 3
    bare = hf.ensemble(models, average="values")
    hf.align(bare, problem.val, batch_size=7)
    torch.testing.assert_close(run.model(X, RAYS), bare(X, RAYS))
    assert len(run.history) == 3 and len(run.front) == 3
    before = (tmp_path / "best.safetensors").read_bytes()
    (tmp_path / "best.safetensors").unlink()
    hf.fit(make, problem, members=3, seed=5, out=tmp_path, resume=True, **options)
    assert (tmp_path / "best.safetensors").read_bytes() == before
    torch.testing.assert_close(hf.load(tmp_path, nn.Linear(4, 3))(X, RAYS), run.model(X, RAYS))
    for given, more, words in (
        (make(), {}, "a function that makes a model"),
        (make, {"average": None}, "average="),
        (make, {"average": "mean"}, "values"),
        (make, {"members": 0}, "members"),
        (make, {"solver": hf.LS()}, "weights"),
    ):
        with pytest.raises(HyperfrontError, match=f"(?s){words}"):
            hf.fit(given, problem, **({"members": 2} | options | more))
    with pytest.raises(HyperfrontError, match="fit needs a problem"):
        hf.fit(lambda: None, "people.csv", members=2)
    with pytest.raises(HyperfrontError, match="averages nothing"):
        hf.fit(make(), problem, **options)
    with pytest.raises(CheckpointError, match="a run of one model"):
        hf.fit(make, problem, members=3, out=tmp_path / "member-0", resume=True, **options)
