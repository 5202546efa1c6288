"""LeNet with two heads, the paper's target for Multi-MNIST."""

from __future__ import annotations

from torch import Tensor, nn

from hyperfront.kernels.layers import ConvReluPool, linear


class LeNet(nn.Module):
    """Maps ``x [B, 1, 36, 36]`` to the class scores ``[B, 10]`` of the left and of the right image: 31,910 weights.

    The paper's code has no activation between its last two layers, which are then one linear map; the code of its
    baselines has a ReLU. ``relu=False`` leaves the ReLU out.
    """

    def __init__(self, *, relu: bool = True):
        super().__init__()
        self.relu = relu
        self.conv1, self.conv2 = ConvReluPool(1, 10, 9), ConvReluPool(10, 20, 5)
        self.fc, self.left, self.right = nn.Linear(500, 50), nn.Linear(50, 10), nn.Linear(50, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.conv2(self.conv1(x)).flatten(1)
        x = linear(x, self.fc, relu=self.relu)
        return linear(x, self.left), linear(x, self.right)
