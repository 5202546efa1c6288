"""Training in bfloat16 and TF32, and autocast that a user has opened."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch import Tensor, nn

import hyperfront as hf
from hyperfront.errors import HyperfrontError
from hyperfront.training.precision import products

RAY = [0.3, 0.7]


class Watched(nn.Module):
    """An MLP that remembers the types of its activations."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(4, 8), nn.Linear(8, 1)
        self.seen: list[torch.dtype] = []

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(x))
        self.seen.append(hidden.dtype)
        return self.head(hidden)[:, 0]


def problem() -> hf.Problem:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(256, 4, generator=generator)
    y = torch.stack([x[:, 0] * x[:, 1], x[:, 2] * x[:, 3]], dim=1)
    return hf.supervised(
        train=(x, y),
        val=(x, y),
        losses={
            "left": lambda o, b: (o - b[1][:, 0]).square().mean(),
            "right": lambda o, b: (o - b[1][:, 1]).square().mean(),
        },
        reference=(3, 3),
    )


def model() -> hf.ParetoModel:
    torch.manual_seed(0)
    return hf.wrap(Watched(), ["left", "right"], hidden=10)


def trained(precision, rays_per_step: int = 1) -> tuple[hf.Run, set[torch.dtype]]:
    made = model()
    run = hf.fit(
        made, problem(), epochs=4, batch_size=32, rays_per_step=rays_per_step, precision=precision, callbacks=[]
    )
    return run, set(made.target.skeleton.seen)


@pytest.mark.parametrize("rays", [1, 2])
def test_bf16_trains_in_bfloat16_and_validates_in_float32(rays):
    exact, types = trained(None, rays)
    assert types == {torch.float32}
    rounded, types = trained("bf16", rays)
    assert types == {torch.bfloat16, torch.float32}
    volumes = [run.history[-1]["validation"]["hypervolume"] for run in (exact, rounded)]
    assert volumes[0] != volumes[1] and abs(volumes[0] - volumes[1]) < 0.05 * volumes[0]


def steps(opened: bool) -> Tensor:
    """The parameters after five steps; autocast is open around each, or around them all."""
    data = problem().train.source
    made = model()
    optimizer = torch.optim.SGD(made.parameters(), lr=0.5)
    x, y = data.tensors if hasattr(data, "tensors") else next(data.batches(64, made.device))
    cast = torch.autocast("cpu", torch.bfloat16)
    with cast if opened else contextlib.nullcontext():
        for _ in range(5):
            with contextlib.nullcontext() if opened else torch.autocast("cpu", torch.bfloat16):
                optimizer.zero_grad()
                hf.backward(
                    made,
                    RAY,
                    lambda net: [(net(x) - y[:, j]).square().mean() for j in range(2)],
                    solver=hf.EPO(),
                )
            optimizer.step()
    assert set(made.target.skeleton.seen) == {torch.bfloat16}
    assert all(p.grad.dtype == torch.float32 for p in made.parameters())
    return torch.cat([p.detach().flatten() for p in made.parameters()])


def test_autocast_around_a_loop_never_sees_old_weights():
    torch.testing.assert_close(steps(opened=True), steps(opened=False), rtol=0, atol=0)


def test_fit_inside_autocast_is_refused():
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(HyperfrontError, match='precision="bf16"'):
        hf.fit(model(), problem(), callbacks=[])


def test_a_precision_is_known_by_its_name():
    with pytest.raises(HyperfrontError, match="did you mean 'bf16'"):
        hf.fit(model(), problem(), precision="bf1", callbacks=[])


@pytest.mark.parametrize(("precision", "rounded"), [("tf32", True), ("float32", False)])
def test_products_are_set_for_the_run_and_set_back(precision, rounded):
    def settings() -> tuple[str, bool]:
        return torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32

    before = settings()
    with products(precision):
        assert settings() == ("high" if rounded else "highest", rounded)
    assert settings() == before
