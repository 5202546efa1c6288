"""Adapters of peft, in and out: modules that carry them, and low-rank models as LoRA folders."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import hyperfront as hf
from hyperfront.errors import HyperfrontError
from hyperfront.export import adapters
from hyperfront.model.statistics import grid

peft = pytest.importorskip("peft")
RAYS = torch.tensor([[0.2, 0.3, 0.5], [0.7, 0.2, 0.1]])
OBJECTIVES = ["first", "second/third", "last"]


class Net(nn.Module):
    """An embedding, a convolution and linear layers of different ranks."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 6)
        self.conv = nn.Conv1d(6, 5, 3, padding=1)
        self.body = nn.Sequential(nn.Linear(5, 8), nn.Tanh())
        self.head = nn.ModuleDict({"body": nn.Linear(8, 2)})

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.conv(self.embed(x).mT).mT
        return self.head["body"](self.body(hidden)).mean(1)


def trained(**options) -> tuple[nn.Module, hf.ParetoModel]:
    """A low-rank model away from its start, and the module that it was made of."""
    torch.manual_seed(0)
    module = Net()
    model = hf.wrap(module, OBJECTIVES, hypernet="low_rank", **options)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return module, model.eval()


def with_base(module: nn.Module, folder) -> nn.Module:
    if (folder / "base.safetensors").exists():
        module.load_state_dict(load_file(folder / "base.safetensors"), strict=False)
    return module


X = torch.randint(0, 7, (9, 4), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("base", ["train", "freeze"])
def test_adapters_scaled_by_the_ray_are_the_network_at_that_ray(tmp_path, base):
    module, model = trained(linear=True, base=base)
    written = adapters(model, tmp_path)
    assert [path.name for path in written] == ["first", "second-third", "last"]
    loaded = peft.PeftModel.from_pretrained(with_base(module, tmp_path), written[0], adapter_name="0")
    for index, path in enumerate(written[1:], 1):
        loaded.load_adapter(path, adapter_name=str(index))
    for number, ray in enumerate(RAYS):
        loaded.add_weighted_adapter(["0", "1", "2"], ray.tolist(), f"ray {number}", combination_type="cat")
        loaded.set_adapter(f"ray {number}")
        torch.testing.assert_close(loaded.eval()(X), model.at(ray)(X), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("options", [{"rank": 2}, {"linear": True}, {"base": "freeze"}], ids=str)
def test_one_adapter_for_each_ray(tmp_path, options):
    _, model = trained(**options)
    for path, ray in zip(adapters(model, tmp_path, RAYS), RAYS):
        torch.manual_seed(0)
        loaded = peft.PeftModel.from_pretrained(with_base(Net(), tmp_path), path)
        torch.testing.assert_close(loaded.eval()(X), model.at(ray)(X), rtol=1e-5, atol=1e-5)


CONFIGS = {
    "LoRA": lambda: peft.LoraConfig(r=2, target_modules=["0"]),
    "DoRA": lambda: peft.LoraConfig(r=2, target_modules=["0"], use_dora=True),
    "IA3": lambda: peft.IA3Config(target_modules=["0"], feedforward_modules=[]),
    "LoHa": lambda: peft.LoHaConfig(r=2, target_modules=["0"]),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_adapters_of_a_peft_model_are_what_is_generated(tmp_path, name):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
    adapted = peft.get_peft_model(module, CONFIGS[name]())
    model = hf.wrap(adapted, ["left", "right"], hidden=6)
    trainable = {key for key, parameter in adapted.named_parameters() if parameter.requires_grad}
    assert trainable and trainable == set(model.target.assembly.names)
    x = torch.randn(5, 4)
    assert hf.check(model, x, lambda net: (net(x).square().mean(), (net(x) - 1).square().mean())).error < 1e-4
    with torch.no_grad():
        for parameter in model.hypernet.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    at = model.at([0.3, 0.7])
    at.save_pretrained(tmp_path)
    torch.manual_seed(0)
    again = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
    torch.testing.assert_close(peft.PeftModel.from_pretrained(again, tmp_path).eval()(x), at(x), rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of transformers, when peft calls it
@pytest.mark.parametrize("kind", ["PrefixTuningConfig", "PromptTuningConfig"])
def test_the_prefix_of_a_language_model_is_generated(tmp_path, kind):
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 11, "n_positions": 16, "n_embd": 8, "n_layer": 2, "n_head": 2, "use_cache": False}

    def make() -> nn.Module:
        torch.manual_seed(0)
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)).eval()

    adapted = peft.get_peft_model(make(), getattr(peft, kind)(task_type="CAUSAL_LM", num_virtual_tokens=3)).eval()
    model = hf.wrap(adapted, ["left", "right"], hidden=6, batching="loop")
    assert model.target.assembly.names == ("prompt_encoder.default.embedding.weight",)
    x = {"input_ids": torch.randint(0, 11, (4, 5))}
    losses = lambda net: ((logits := net(**x).logits).square().mean(), (logits - 1).square().mean())  # noqa: E731
    assert hf.check(model, x, losses).error < 1e-4
    with torch.no_grad():
        for parameter in model.hypernet.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    first, second = (model.at(ray) for ray in ([0.3, 0.7], [0.8, 0.2]))
    first.save_pretrained(tmp_path)
    again = peft.PeftModel.from_pretrained(make(), tmp_path).eval()
    torch.testing.assert_close(again(**x).logits, first(**x).logits, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(second(**x).logits, first(**x).logits)


def test_only_low_rank_models_are_adapters(tmp_path):
    with pytest.raises(HyperfrontError, match="only low-rank"):
        adapters(hf.wrap(nn.Linear(3, 2), OBJECTIVES), tmp_path)
    with pytest.raises(HyperfrontError, match="linear in the ray"):
        adapters(hf.wrap(nn.Linear(3, 2), OBJECTIVES, hypernet="low_rank"), tmp_path)
    attention = hf.wrap(nn.MultiheadAttention(4, 2), OBJECTIVES, hypernet="low_rank", linear=True)
    with pytest.raises(HyperfrontError, match="no LoRA for this tensor"):
        adapters(attention, tmp_path)


class Tied(nn.Module):
    """A language model whose embedding is its head."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(7, 6), nn.Linear(6, 7, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embed(x))


OTHERS = {
    "BatchNorm": (lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5)), "*", "statistics of its own"),
    "tied": (Tied, "*", "share a weight"),
    "attention": (lambda: nn.MultiheadAttention(4, 2), "out_proj.weight", "no LoRA"),
    "encoder": (lambda: nn.TransformerEncoderLayer(4, 2, 8), "linear1.weight", "no LoRA"),
    "dilation": (lambda: nn.Conv1d(3, 4, 3, dilation=2, padding="same"), "*", "no LoRA"),
    "padding": (lambda: nn.Conv1d(3, 4, 3, padding=1, padding_mode="circular"), "*", "no LoRA"),
    "one channel": (lambda: nn.Conv1d(3, 1, 3), "*", "no LoRA"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_modules_with_which_peft_would_compute_something_else_are_refused(tmp_path, name):
    make, generate, words = OTHERS[name]
    model = hf.wrap(make(), OBJECTIVES, hypernet="low_rank", generate=generate).eval()
    with pytest.raises(HyperfrontError, match=words):
        adapters(model, tmp_path, RAYS)
    assert not [*tmp_path.iterdir()]


def test_scales_that_are_not_the_ray_and_folders_of_one_name_are_refused(tmp_path):
    _, model = trained(linear=True)
    model.alignment = torch.zeros(len(hf.rays(grid(3), m=3)), 3)
    with pytest.raises(HyperfrontError, match="not the ray"):
        adapters(model, tmp_path)
    twins = hf.wrap(nn.Linear(3, 2), ["a b", "a-b"], hypernet="low_rank", linear=True)
    with pytest.raises(HyperfrontError, match="one name"):
        adapters(twins, tmp_path)


def test_running_means_of_a_shared_batchnorm_are_in_the_base(tmp_path):
    def make() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 2))

    model = hf.wrap(make(), OBJECTIVES, hypernet="low_rank", batchnorm="shared")
    x = torch.randn(20, 4) + 3
    model.train()(x, RAYS)  # which moves them
    (path,) = adapters(model.eval(), tmp_path, RAYS[:1])
    loaded = peft.PeftModel.from_pretrained(with_base(make(), tmp_path), path).eval()
    torch.testing.assert_close(loaded(x), model.at(RAYS[0])(x), rtol=1e-5, atol=1e-5)


def test_a_model_in_a_folder_of_its_own(tmp_path):
    _, model = trained(rank=2)
    model.save_pretrained(tmp_path / "model")
    again = hf.ParetoModel.from_pretrained(tmp_path / "model", Net())
    torch.testing.assert_close(again(X, RAYS), model(X, RAYS), rtol=0, atol=0)
    assert again.objectives == tuple(OBJECTIVES)
