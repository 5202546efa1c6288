"""Fused pieces of networks, each with a plain PyTorch twin that says what it computes."""

from hyperfront.kernels.conv_relu_pool import conv_relu_pool

__all__ = ["conv_relu_pool"]
