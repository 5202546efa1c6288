"""ResNet18 (He et al., 2016) with two heads, the paper's large target for Multi-MNIST."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional as F

from hyperfront.kernels.layers import channels_last


class ResNet18(nn.Module):
    """Maps ``x [B, 1, 36, 36]`` to the class scores ``[B, 10]`` of the left and of the right image: 11,443,156 weights.

    It has the stem and the four stages of the network for ImageNet, for one channel and images padded to 38 x 38, then
    a layer of 512 units that the heads share.
    """

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, 64, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        widths = [64, 64, 128, 256, 512]
        self.stages = nn.Sequential(
            *(
                nn.Sequential(Block(before, width, stride=1 if before == width else 2), Block(width, width))
                for before, width in pairwise(widths)
            )
        )
        self.fc, self.left, self.right = nn.Linear(512, 512), nn.Linear(512, 10), nn.Linear(512, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.stages(channels_last(self.stem(F.pad(x, (1, 1, 1, 1)))))
        x = F.relu(self.fc(x.mean((2, 3))))
        return self.left(x), self.right(x)


class Block(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut, which is a 1 x 1 convolution where the shape changes."""

    def __init__(self, before: int, width: int, stride: int = 1):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(before, width, 3, stride, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.shortcut = nn.Sequential()
        if stride != 1 or before != width:
            self.shortcut = nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))
