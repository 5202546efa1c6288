"""Layers of ``torch.nn`` that take rows: linear, convolution, normalization, activation."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tests.oracle.case import NO_VMAP, Case


def randn(*shape: int) -> Callable[[], Tensor]:
    """Numbers of a shape, drawn when they are asked for."""
    return lambda: torch.randn(*shape)


def between(first: nn.Module, last: nn.Module, *inside: nn.Module) -> nn.Module:
    """The layers that a case is about, between two that move their inputs and outputs."""
    return nn.Sequential(first, *inside, last)


def flat(*layers: nn.Module) -> nn.Module:
    """The layers, and all that they return of a row in one line."""
    return nn.Sequential(*layers, nn.Flatten())


class Bilinear(nn.Module):
    """Two inputs."""

    def __init__(self):
        super().__init__()
        self.both, self.head = nn.Bilinear(3, 2, 4), nn.Linear(4, 2)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.head(torch.tanh(self.both(a, b)))


class Residual(nn.Module):
    """A residual block of an image network, with a gate for each channel."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.second, self.last = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(4, 2, 1), nn.ReLU(), nn.Conv2d(2, 4, 1), nn.Sigmoid()
        )
        self.shortcut, self.head = nn.Conv2d(3, 4, 1), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.last(self.second(torch.relu(self.norm(self.first(x)))))
        return self.head(torch.relu(y * self.gate(y) + self.shortcut(x)).mean((2, 3)))


class UNet(nn.Module):
    """Down, up, and a bridge between."""

    def __init__(self):
        super().__init__()
        self.down, self.inner = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(4, 4, 2, stride=2), nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        high = torch.relu(self.down(x))
        low = torch.relu(self.inner(nn.functional.avg_pool2d(high, 2)))
        return self.out(torch.cat([high, self.up(low)], 1))


CASES = [
    Case("MLP", lambda: nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)), randn(6, 5), compiled=True),
    Case("Bilinear", Bilinear, lambda: (torch.randn(6, 3), torch.randn(6, 2))),
    Case(
        "Conv1d", lambda: flat(nn.Conv1d(2, 3, 3), nn.Tanh(), nn.Conv1d(3, 2, 3, groups=1, dilation=2)), randn(6, 2, 9)
    ),
    Case(
        "Conv2d",
        lambda: flat(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3, groups=2)),
        randn(6, 2, 7, 7),
        compiled=True,
    ),
    Case("Conv3d", lambda: flat(nn.Conv3d(1, 2, 2), nn.Tanh(), nn.Conv3d(2, 2, 2)), randn(4, 1, 4, 4, 4)),
    Case("ConvTranspose1d", lambda: flat(nn.Conv1d(2, 3, 3), nn.Tanh(), nn.ConvTranspose1d(3, 2, 3)), randn(4, 2, 6)),
    Case(
        "ConvTranspose2d",
        lambda: flat(nn.Conv2d(2, 3, 3), nn.Tanh(), nn.ConvTranspose2d(3, 2, 2, stride=2)),
        randn(4, 2, 5, 5),
    ),
    Case(
        "ConvTranspose3d",
        lambda: flat(nn.Conv3d(1, 2, 2), nn.Tanh(), nn.ConvTranspose3d(2, 1, 2)),
        randn(3, 1, 3, 3, 3),
    ),
    Case(
        "Conv2d, circular, max pooling",
        lambda: flat(nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), nn.MaxPool2d(2), nn.Conv2d(3, 2, 1)),
        randn(4, 2, 6, 6),
    ),
    Case(
        "Conv2d, channels last",
        lambda: flat(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3)).to(memory_format=torch.channels_last),
        lambda: torch.randn(4, 3, 7, 7).to(memory_format=torch.channels_last),
    ),
    Case("residual block with gates", Residual, randn(6, 3, 6, 6), compiled=True),
    Case("U-Net", UNet, randn(4, 2, 4, 4)),
    Case("BatchNorm1d", lambda: between(nn.Linear(4, 6), nn.Linear(6, 2), nn.BatchNorm1d(6), nn.Tanh()), randn(8, 4)),
    Case(
        "BatchNorm2d",
        lambda: flat(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 3)),
        randn(6, 2, 6, 6),
    ),
    Case("BatchNorm3d", lambda: flat(nn.Conv3d(1, 2, 2), nn.BatchNorm3d(2), nn.Tanh()), randn(4, 1, 3, 3, 3)),
    Case("GroupNorm", lambda: flat(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.Tanh()), randn(4, 2, 5, 5)),
    Case("LayerNorm", lambda: between(nn.Linear(4, 6), nn.Linear(6, 2), nn.LayerNorm(6), nn.GELU()), randn(6, 4)),
    Case("RMSNorm", lambda: between(nn.Linear(4, 6), nn.Linear(6, 2), nn.RMSNorm(6), nn.SiLU()), randn(6, 4)),
    Case(
        "InstanceNorm2d",
        lambda: flat(nn.Conv2d(2, 3, 3), nn.InstanceNorm2d(3, affine=True), nn.Tanh()),
        randn(4, 2, 6, 6),
    ),
    Case(
        "InstanceNorm1d, tracked",
        lambda: flat(nn.Conv1d(2, 3, 3), nn.InstanceNorm1d(3, affine=True, track_running_stats=True), nn.Tanh()),
        randn(4, 2, 8),
        refused=NO_VMAP,
    ),
    Case("PReLU", lambda: between(nn.Linear(4, 6), nn.Linear(6, 2), nn.PReLU(6)), randn(6, 4)),
    Case(
        "LocalResponseNorm",
        lambda: flat(nn.Conv2d(2, 4, 3), nn.LocalResponseNorm(2), nn.Conv2d(4, 2, 1)),
        randn(4, 2, 5, 5),
    ),
    Case("PixelShuffle", lambda: flat(nn.Conv2d(2, 8, 3), nn.PixelShuffle(2), nn.Conv2d(2, 2, 3)), randn(4, 2, 5, 5)),
    Case(
        "Dropout",
        lambda: between(nn.Linear(4, 8), nn.Linear(8, 2), nn.Tanh(), nn.Dropout(0.4)),
        randn(6, 4),
        random=True,
    ),
    Case(
        "AlphaDropout, FeatureDropout",
        lambda: flat(nn.Conv2d(2, 4, 3), nn.Dropout2d(0.3), nn.SELU(), nn.AlphaDropout(0.2), nn.Conv2d(4, 2, 3)),
        randn(4, 2, 6, 6),
        random=True,
    ),
    Case(
        "RReLU",
        lambda: between(nn.Linear(4, 8), nn.Linear(8, 2), nn.RReLU()),
        randn(6, 4),
        random=True,
        refused=NO_VMAP,
    ),
]
