"""Modules that the tests wrap: each stands for a kind that users bring. They also load where there is no hyperfront."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))


class ConvNet(nn.Module):
    """A small CNN with BatchNorm in two places."""

    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)
        self.conv2, self.norm2 = nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm1(self.conv1(x)))
        x = F.relu(self.norm2(self.conv2(x)))
        return self.head(x.mean((2, 3)))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0][:, -1])


class TiedTransformer(nn.Module):
    """A Transformer encoder whose output layer is its embedding."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.decoder = nn.Linear(8, 11, bias=False)
        self.decoder.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.decoder(self.encoder(self.embedding(tokens)))


class TwoInputs(nn.Module):
    """Two inputs, a buffer, a dict as output."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(3, 4), nn.Linear(2, 4)
        self.register_buffer("offset", torch.arange(4.0))

    def forward(self, a: Tensor, b: Tensor) -> dict[str, Tensor]:
        hidden = torch.tanh(self.left(a) + self.right(b)) + self.offset
        return {"sum": hidden.sum(-1), "hidden": hidden}


class ViT(nn.Module):
    """A vision Transformer with two heads; with the defaults, the encoder of ViT-B/16 (86 million weights)."""

    def __init__(self, *, image: int = 224, patch: int = 16, width: int = 768, depth: int = 12, heads: int = 12):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, (image // patch) ** 2 + 1, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, F.gelu, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, nn.LayerNorm(width), enable_nested_tensor=False)
        self.left, self.right = nn.Linear(width, 10), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        patches = self.patches(x).flatten(2).mT
        x = torch.cat([self.token.expand(len(x), -1, -1), patches], dim=1) + self.positions[:, : patches.shape[1] + 1]
        x = self.encoder(x)[:, 0]
        return self.left(x), self.right(x)


class Adapted(nn.Module):
    """A frozen linear layer with a low-rank adapter inside, its tensors named as ``peft`` names them."""

    def __init__(self, base: nn.Linear, rank: int = 2):
        super().__init__()
        self.base_layer = base.requires_grad_(False)
        self.lora_A = nn.ModuleDict({"default": nn.Linear(base.in_features, rank, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(rank, base.out_features, bias=False)})

    def forward(self, x: Tensor) -> Tensor:
        return self.base_layer(x) + self.lora_B["default"](self.lora_A["default"](x))


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


# name: (module, inputs with 6 rows)
CASES = {
    "mlp": lambda: (mlp(), torch.randn(6, 5, generator=generator())),
    "conv net with BatchNorm": lambda: (ConvNet(), torch.randn(6, 1, 9, 9, generator=generator())),
    "LSTM": lambda: (Recurrent(), torch.randn(6, 5, 4, generator=generator())),
    "tied Transformer": lambda: (TiedTransformer(), torch.randint(11, (6, 7), generator=generator())),
    "two inputs, dict output": lambda: (
        TwoInputs(),
        (torch.randn(6, 3, generator=generator()), torch.randn(6, 2, generator=generator())),
    ),
}
