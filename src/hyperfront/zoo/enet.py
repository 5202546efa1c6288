"""ENet, a small network for dense prediction (Paszke, Chaurasia, Kim and Culurciello 2016, arXiv 1606.02147).

                output
initial         16 x H/2 x W/2   3x3 convolution to 13 maps, beside a 2x2 max-pooling of the image
1.0             64 x H/4 x W/4   downsampling
1.1 to 1.4      64 x H/4 x W/4   regular
2.0            128 x H/8 x W/8   downsampling
2.1 to 2.8     128 x H/8 x W/8   regular, dilated 2, asymmetric 5, dilated 4,
                                 regular, dilated 8, asymmetric 5, dilated 16
3.1 to 3.8     128 x H/8 x W/8   the same eight again
4.0             64 x H/4 x W/4   upsampling, with the places of the maxima that 2.0 found
4.1, 4.2        64 x H/4 x W/4   regular
5.0             16 x H/2 x W/2   upsampling, with the places of the maxima that 1.0 found
5.1             16 x H/2 x W/2   regular
full          outputs x H x W    3x3 transposed convolution

Each numbered row is a bottleneck ``PReLU(main(x) + extension(x))``, whose extension projects to a quarter of the
channels, convolves, and expands again, with BatchNorm and PReLU in between and spatial dropout at the end. The paper
leaves the biases of projections out; here the other convolutions before a BatchNorm have none either, since BatchNorm
would cancel them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hyperfront.kernels.layers import normalized


class ENet(nn.Module):
    """``images [B, 3, H, W] -> [B, outputs, H, W]``, with ``H`` and ``W`` multiples of 8.

    >>> ENet(14)(torch.zeros(2, 3, 32, 40)).shape
    torch.Size([2, 14, 32, 40])
    """

    def __init__(self, outputs: int):
        super().__init__()
        self.initial = Initial()
        self.down1, self.stage1 = Down(16, 64, dropout=0.01), nn.Sequential(*(regular(64, 0.01) for _ in range(4)))
        self.down2, self.stage2, self.stage3 = Down(64, 128), context(128), context(128)
        self.up4, self.stage4 = Up(128, 64), nn.Sequential(regular(64), regular(64))
        self.up5, self.stage5 = Up(64, 16), regular(16)
        self.full = nn.ConvTranspose2d(16, outputs, 3, stride=2, padding=1, output_padding=1)

    def forward(self, images: Tensor) -> Tensor:
        x, places1 = self.down1(self.initial(images))
        x, places2 = self.down2(self.stage1(x))
        x = self.stage3(self.stage2(x))
        x = self.stage4(self.up4(x, places2))
        x = self.stage5(self.up5(x, places1))
        return self.full(x)


class Initial(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 13, 3, stride=2, padding=1, bias=False)
        self.norm, self.activation = nn.BatchNorm2d(16), nn.PReLU(16)

    def forward(self, images: Tensor) -> Tensor:
        both = torch.cat([self.convolution(images), F.max_pool2d(images, 2)], dim=1)
        return normalized(both, self.norm, self.activation.weight)


class Bottleneck(nn.Module):
    """A bottleneck whose main branch is the input itself."""

    def __init__(self, channels: int, convolution: list[nn.Module], dropout: float):
        super().__init__()
        inner = channels // 4
        project = nn.Conv2d(channels, inner, 1, bias=False)
        self.extension = Extension(project, convolution, channels, dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.extension(x, main=x)


class Down(nn.Module):
    """Half the resolution. The main branch is a max-pooling, with channels of zeros added; the places of the maxima go
    to the decoder."""

    def __init__(self, channels: int, outputs: int, dropout: float = 0.1):
        super().__init__()
        inner = outputs // 4
        project = nn.Conv2d(channels, inner, 2, stride=2, bias=False)
        self.added = outputs - channels
        self.extension = Extension(project, [nn.Conv2d(inner, inner, 3, padding=1, bias=False)], outputs, dropout)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        pooled, places = F.max_pool2d(x, 2, return_indices=True)
        main = F.pad(pooled, (0, 0, 0, 0, 0, self.added))
        return self.extension(x, main=main), places


class Up(nn.Module):
    """Twice the resolution. The main branch is a 1x1 convolution, put where the encoder found its maxima."""

    def __init__(self, channels: int, outputs: int, dropout: float = 0.1):
        super().__init__()
        inner = outputs // 4
        project = nn.Conv2d(channels, inner, 1, bias=False)
        full = nn.ConvTranspose2d(inner, inner, 3, stride=2, padding=1, output_padding=1, bias=False)
        self.main = nn.Sequential(nn.Conv2d(channels, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.extension = Extension(project, [full], outputs, dropout)

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        return self.extension(x, main=unpool(self.main(x), places))


class Extension(nn.Module):
    """The branch beside the main one: reduces channels, convolves, expands to ``outputs``, and adds the main branch."""

    def __init__(self, project: nn.Conv2d, convolution: list[nn.Module], outputs: int, dropout: float):
        super().__init__()
        inner = project.out_channels
        self.project, self.norm1, self.activation1 = project, nn.BatchNorm2d(inner), nn.PReLU(inner)
        self.convolution, self.norm2, self.activation2 = (
            nn.Sequential(*convolution),
            nn.BatchNorm2d(inner),
            nn.PReLU(inner),
        )
        self.expand, self.norm3 = nn.Conv2d(inner, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.dropout, self.activation = dropout, nn.PReLU(outputs)

    def forward(self, x: Tensor, main: Tensor) -> Tensor:
        y = normalized(self.project(x), self.norm1, self.activation1.weight)
        y = normalized(self.convolution(y), self.norm2, self.activation2.weight)
        y = self.expand(y)
        keep = F.dropout(y.new_ones(y.shape[:2]), self.dropout) if self.training else None  # whole channels
        return normalized(y, self.norm3, self.activation.weight, shortcut=main, keep=keep)


def regular(channels: int, dropout: float = 0.1) -> Bottleneck:
    return dilated(channels, 1, dropout)


def dilated(channels: int, dilation: int, dropout: float = 0.1) -> Bottleneck:
    inner = channels // 4
    convolution = nn.Conv2d(inner, inner, 3, padding=dilation, dilation=dilation, bias=False)
    return Bottleneck(channels, [convolution], dropout)


def asymmetric(channels: int, size: int = 5, dropout: float = 0.1) -> Bottleneck:
    """A bottleneck with convolutions of ``size x 1`` and ``1 x size`` instead of ``size x size``."""
    inner = channels // 4
    tall = nn.Conv2d(inner, inner, (size, 1), padding=(size // 2, 0), bias=False)
    wide = nn.Conv2d(inner, inner, (1, size), padding=(0, size // 2), bias=False)
    return Bottleneck(channels, [tall, wide], dropout)


def context(channels: int) -> nn.Sequential:
    """The eight bottlenecks of stages 2 and 3, with growing receptive fields."""
    return nn.Sequential(
        regular(channels),
        dilated(channels, 2),
        asymmetric(channels),
        dilated(channels, 4),
        regular(channels),
        dilated(channels, 8),
        asymmetric(channels),
        dilated(channels, 16),
    )


def unpool(x: Tensor, places: Tensor) -> Tensor:
    """Put ``x [B, C, H, W]`` at its ``places`` in ``[B, C, 2H, 2W]``, with zeros elsewhere.

    It computes ``max_unpool2d`` by a scatter, without its check of indices, which waits for the GPU.
    """
    height, width = x.shape[-2:]
    zeros = x.new_zeros(*x.shape[:-2], 4 * height * width)
    return zeros.scatter(-1, places.flatten(-2), x.flatten(-2)).unflatten(-1, (2 * height, 2 * width))
