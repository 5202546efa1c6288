"""Adam as PyTorch has it, with one Triton launch for all parameters on a GPU.

PyTorch's fused kernel gives each thread block 65,536 numbers, so that the three million of a small hypernetwork occupy
a third of a large GPU.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hyperfront.kernels import on_gpu


class Adam(torch.optim.Adam):
    """The same update, options and state as ``torch.optim.Adam``."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        if closure is not None or not all(self._suits(group) for group in self.param_groups):
            return super().step(closure)
        from hyperfront.kernels.gpu.adam import adam_on_gpu  # needs Triton

        for group in self.param_groups:
            parameters, gradients, first, second, steps = ([] for _ in range(5))
            self._init_group(group, parameters, gradients, first, second, [], steps)
            if not parameters:
                continue
            torch._foreach_add_(steps, 1)
            gradients = [gradient.contiguous() for gradient in gradients]
            settings = {key: group[key] for key in ("betas", "eps", "weight_decay")}
            adam_on_gpu(parameters, gradients, first, second, steps, self._rate(group, parameters[0]), **settings)
        return None

    def _rate(self, group: dict[str, Any], like: Tensor) -> Tensor:
        """The learning rate on the device."""
        if isinstance(group["lr"], Tensor) and group["lr"].is_cuda:
            return group["lr"]
        return torch.full((), float(group["lr"]), device=like.device)

    def _suits(self, group: dict[str, Any]) -> bool:
        unusual = any(group[key] for key in ("amsgrad", "maximize", "differentiable", "decoupled_weight_decay"))
        unusual = unusual or not group["capturable"]  # which would count its steps on the CPU
        return not unusual and all(
            on_gpu(p) and p.dtype == torch.float32 and p.is_contiguous() for p in group["params"] if p.grad is not None
        )
