"""LeNet with two heads, the paper's target for Multi-MNIST."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


class LeNet(nn.Module):
    """``x [B, 1, 36, 36]`` to the class scores ``[B, 10]`` of the left and of the right image: 31,910 weights.

    The paper's code has no activation between its last two layers, which are then one linear map; the baselines it
    is compared with have one. ``relu=False`` leaves it out.
    """

    def __init__(self, *, relu: bool = True):
        super().__init__()
        self.relu = relu
        self.conv1, self.conv2 = nn.Conv2d(1, 10, 9), nn.Conv2d(10, 20, 5)
        self.fc, self.left, self.right = nn.Linear(500, 50), nn.Linear(50, 10), nn.Linear(50, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = self.fc(x.flatten(1))
        if self.relu:
            x = F.relu(x)
        return self.left(x), self.right(x)
