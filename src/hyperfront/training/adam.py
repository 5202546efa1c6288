"""Adam with PyTorch's results; on a GPU it takes one launch for all plain gradients, and one for factored gradients.

PyTorch's fused kernel gives each thread block 65,536 numbers, so that the three million numbers of a small hypernetwork
occupy only a third of a large GPU.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hyperfront.kernels import on_gpu
from hyperfront.kernels.factors import Factors


class Adam(torch.optim.Adam):
    """Adam with the update, options and state of ``torch.optim.Adam``."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._factors = Factors()

    @property
    def factors(self) -> Factors | None:
        """The store for gradients as factors (:mod:`hyperfront.kernels.factors`); None if they cannot be used."""
        return self._factors if len(self.param_groups) == 1 and self._suits(self.param_groups[0]) else None

    def zero_grad(self, set_to_none: bool = True) -> None:
        super().zero_grad(set_to_none)
        self._factors.take()

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        if closure is not None or not all(self._suits(group) for group in self.param_groups):
            return super().step(closure)
        from hyperfront.kernels.gpu.adam import adam_on_gpu  # needs Triton
        from hyperfront.kernels.gpu.outer_adam import outer_adam_on_gpu

        for group in self.param_groups:
            parameters, gradients, first, second, steps = ([] for _ in range(5))
            self._init_group(group, parameters, gradients, first, second, [], steps)
            layers, counts = self._layers()
            if not parameters and not layers:
                continue
            torch._foreach_add_(steps + counts, 1)
            gradients = [gradient.contiguous() for gradient in gradients]
            settings = {key: group[key] for key in ("betas", "eps", "weight_decay")}
            rate = self._rate(group)
            adam_on_gpu(parameters, gradients, first, second, steps, rate, **settings)
            outer_adam_on_gpu(layers, counts[:1], rate, **settings)
        return None

    def _layers(self) -> tuple[list[tuple[Tensor, ...]], list[Tensor]]:
        """Return the layers whose gradients are factors, each with its moments, and their numbers of steps."""
        layers, counts = [], []
        for layer in self._factors.take():
            tensors = []
            for parameter in (layer.weight, layer.bias):
                state = self.state[parameter]
                if not state:  # PyTorch's initial state
                    state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
                    state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
                tensors += [parameter, state["exp_avg"], state["exp_avg_sq"]]
                counts.append(state["step"])
            layers.append((*tensors, layer.g, layer.x))
        return layers, counts

    def _rate(self, group: dict[str, Any]) -> Tensor:
        """Return the learning rate as a tensor on the device."""
        if isinstance(group["lr"], Tensor) and group["lr"].is_cuda:
            return group["lr"]
        return torch.full((), float(group["lr"]), device=group["params"][0].device)

    def _suits(self, group: dict[str, Any]) -> bool:
        unusual = any(group[key] for key in ("amsgrad", "maximize", "differentiable", "decoupled_weight_decay"))
        unusual = unusual or not group["capturable"]  # otherwise steps are counted on the CPU
        return not unusual and all(
            on_gpu(p) and p.dtype == torch.float32 and p.is_contiguous() for p in group["params"]
        )
