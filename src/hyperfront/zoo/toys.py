"""Problems with known fronts. Each carries its formula, reference point, exact front and its exact hypervolume.

Bounded problems keep their points in the box by ``lo + (hi - lo) sin^2(z + pi/4)`` (:class:`hyperfront.problem.Point`).
"""

from __future__ import annotations

import itertools
import math
from typing import Literal

import torch
from torch import Tensor

from hyperfront.errors import ProblemError, unknown_name
from hyperfront.problem import Problem, analytic
from hyperfront.problem.recipe import Recipe
from hyperfront.problem.registry import Entry
from hyperfront.zoo.truths import curve, unit_sphere

BOXES = ("sine", "sigmoid")


def fonseca(variables: int = 100) -> Problem:
    """Fonseca & Fleming (1995), the paper's illustrative example (section 5.1). Unbounded, concave front.

        l1 = 1 - exp(-|x - 1/sqrt(d)|^2),   l2 = 1 - exp(-|x + 1/sqrt(d)|^2)

    The optimal points are ``x = t/sqrt(d) (1, ..., 1)`` with ``t`` in [-1, 1]. Up to the reference (1, 1) the front
    dominates ``exp(-4) + 2 exp(-2) sqrt(pi/2) erf(sqrt(2))``.
    """
    _at_least(variables, 1)
    return _gaussians("fonseca", variables, bounds=None)


def vlmop2(variables: int = 2) -> Problem:
    """VLMOP2 (Van Veldhuizen & Lamont, 1999): the objectives of :func:`fonseca` in the box [-2, 2]^d."""
    _at_least(variables, 1)
    return _gaussians("vlmop2", variables, bounds=(-2.0, 2.0))


def _gaussians(name: str, variables: int, bounds: tuple[float, float] | None) -> Problem:
    center = 1 / math.sqrt(variables)

    def function(x: Tensor) -> Tensor:
        squares = torch.stack([(x - center).square().sum(), (x + center).square().sum()])
        return -torch.expm1(-squares)

    def front(t: Tensor) -> Tensor:
        return -torch.expm1(-torch.stack([(t - 1).square(), (t + 1).square()], dim=-1))

    volume = math.exp(-4) + 2 * math.exp(-2) * math.sqrt(math.pi / 2) * math.erf(math.sqrt(2))
    return analytic(
        function,
        variables=variables,
        bounds=bounds,
        reference=(1.0, 1.0),
        truth=curve(front, [(-1.0, 1.0)], volume),
        identity={"problem": name, "arguments": {"variables": variables}},
    )


def zdt1(variables: int = 30) -> Problem:
    """ZDT1 (Zitzler, Deb & Thiele, 2000) in [0, 1]^d: convex front ``l2 = 1 - sqrt(l1)``.

        l1 = x1,   l2 = g (1 - sqrt(x1 / g)),   g = 1 + 9 mean(x2, ..., xd)

    Up to (1.1, 1.1) the front dominates ``0.1 + 2/3 + 0.11``.
    """

    def ratio(x1: Tensor, g: Tensor) -> Tensor:
        return 1 - (x1 / g).clamp_min(1e-12).sqrt()  # the slope of the root is infinite at 0

    # in terms of the root, since the curve is vertical at 0
    truth = curve(lambda s: torch.stack([s.square(), 1 - s], dim=-1), [(0.0, 1.0)], 0.1 + 2 / 3 + 0.11)
    return _zdt("zdt1", variables, ratio, truth)


def zdt2(variables: int = 30, box: Literal["sine", "sigmoid"] = "sine") -> Problem:
    """ZDT2 (Zitzler, Deb & Thiele, 2000) in [0, 1]^d: concave front ``l2 = 1 - l1^2``.

        l1 = x1,   l2 = g (1 - (x1 / g)^2),   g = 1 + 9 mean(x2, ..., xd)

    The paper prints it without the factor ``g``; this is the standard definition. Up to (1.1, 1.1) the front dominates
    ``0.1 + 1/3 + 0.11``. In the ``box`` of a sigmoid, whose gradient vanishes at the faces, descent stops before the
    front, as the paper's EPO does.
    """
    if box not in BOXES:
        raise unknown_name("box of zdt2", str(box), BOXES)
    truth = curve(lambda t: torch.stack([t, 1 - t.square()], dim=-1), [(0.0, 1.0)], 0.1 + 1 / 3 + 0.11)
    return _zdt("zdt2", variables, lambda x1, g: 1 - (x1 / g).square(), truth, sigmoid=box == "sigmoid")


def zdt3(variables: int = 30) -> Problem:
    """ZDT3 (Zitzler, Deb & Thiele, 2000) in [0, 1]^d: five separate pieces of ``l2 = 1 - sqrt(l1) - l1 sin(10 pi l1)``.

        l1 = x1,   f2 = g (1 - sqrt(x1 / g) - x1 / g sin(10 pi x1)),   g = 1 + 9 mean(x2, ..., xd)

    ``f2`` goes down to -0.77, and losses must be positive under EPO, so ``l2 = f2 + 1`` (an ideal value of -1). Rays
    that point into a gap have no exact solution, and EPO, which is a local method, stays on the piece where it starts.
    Up to (1.1, 2.1) the hypervolume is that of the pieces, in closed form.
    """

    def ratio(x1: Tensor, g: Tensor) -> Tensor:
        share = x1 / g
        return 1 - share.clamp_min(1e-12).sqrt() - share * torch.sin(10 * math.pi * x1)

    pieces = _zdt3_pieces()
    roots = [(math.sqrt(start), math.sqrt(end)) for start, end in pieces]
    volume = _zdt3_hypervolume(pieces, (1.1, 2.1))
    front = curve(lambda s: torch.stack([s.square(), _zdt3(s.square()) + 1], dim=-1), roots, volume)
    return _zdt("zdt3", variables, ratio, front, reference=(1.1, 2.1), ideal={"l2": -1.0})


def _zdt(name: str, variables: int, ratio, truth, reference=(1.1, 1.1), sigmoid: bool = False, **units) -> Problem:
    _at_least(variables, 2)

    def function(x: Tensor) -> Tensor:
        x = torch.sigmoid(x) if sigmoid else x
        g = 1 + 9 * x[1:].mean()
        return torch.stack([x[0], g * ratio(x[0], g)])

    return analytic(
        function,
        variables=variables,
        bounds=None if sigmoid else (0.0, 1.0),
        reference=reference,
        truth=truth,
        identity={"problem": name, "arguments": {"variables": variables, **({"box": "sigmoid"} if sigmoid else {})}},
        **units,
    )


def _zdt3(t: Tensor) -> Tensor:
    return 1 - t.sqrt() - t * torch.sin(10 * math.pi * t)


def _zdt3_pieces() -> list[tuple[float, float]]:
    """A piece ends at a local minimum of the curve and the next begins where the curve comes below that minimum."""

    def value(t: float) -> float:
        return 1 - math.sqrt(t) - t * math.sin(10 * math.pi * t)

    def slope(t: float) -> float:
        return -0.5 / math.sqrt(t) - math.sin(10 * math.pi * t) - 10 * math.pi * t * math.cos(10 * math.pi * t)

    pieces, start = [], 0.0
    for wave in range(5):
        end = _root(slope, 0.2 * wave + 0.03, 0.2 * wave + 0.1)
        pieces.append((start, end))
        if wave < 4:
            level, peak = value(end), _root(slope, 0.2 * wave + 0.1, 0.2 * wave + 0.2)
            start = _root(lambda t, level=level: value(t) - level, peak, 0.2 * (wave + 1) + 0.07)
    return pieces


def _root(function, low: float, high: float) -> float:
    """Bisection to the last bit."""
    sign = math.copysign(1.0, function(low))
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if function(middle) * sign > 0 else (low, middle)
    return high


def _zdt3_hypervolume(pieces: list[tuple[float, float]], reference: tuple[float, float]) -> float:
    """Area between the staircase of the front and the reference: closed form on the pieces, constant in the gaps."""

    def area_below(t: float) -> float:  # of l2 = 2 - sqrt(t) - t sin(w t)
        w = 10 * math.pi
        return 2 * t - 2 / 3 * t**1.5 - math.sin(w * t) / w**2 + t * math.cos(w * t) / w

    volume = 0.0
    for index, (start, end) in enumerate(pieces):
        volume += (end - start) * reference[1] - (area_below(end) - area_below(start))
        until = pieces[index + 1][0] if index + 1 < len(pieces) else reference[0]
        volume += (until - end) * (reference[1] - 1 - float(_zdt3(torch.tensor(end, dtype=torch.float64))))
    return volume


def dtlz2(m: int = 3, distance_variables: int = 10) -> Problem:
    """DTLZ2 (Deb, Thiele, Laumanns & Zitzler, 2002) in [0, 1]^(m - 1 + k): the front is the unit sphere.

        l1 = (1 + g) cos(x1 pi/2) ... cos(x_{m-1} pi/2),   l_m = (1 + g) sin(x1 pi/2),   g = sum (x_i - 1/2)^2

    over the last ``k`` variables. Up to (1.1, ..., 1.1) the front dominates ``1.1^m - V_m / 2^m``, with the volume of
    the unit ball ``V_m = pi^(m/2) / Gamma(m/2 + 1)``.
    """
    _at_least(m, 2, "m")
    if m > 1000:
        raise ProblemError("m is out of range", got=m, expected="at most 1000 objectives")
    _at_least(distance_variables, 1, "distance_variables")

    def function(x: Tensor) -> Tensor:
        g = (x[m - 1 :] - 0.5).square().sum()
        x = x[: m - 1]
        one = torch.ones_like(g)
        cosine = torch.sin((1 - x) * (math.pi / 2))  # unlike cos(x pi/2), never below 0 by rounding
        # products of the first m-1, ..., 0 cosines; the gradient of cumprod would look for zeros, and stop a GPU
        cosines = torch.stack([one, *itertools.accumulate(cosine.unbind(), torch.mul)]).flip(0)
        sines = torch.cat([one[None], torch.sin(x * (math.pi / 2)).flip(0)])
        return (1 + g) * cosines * sines

    volume = 1.1**m - math.exp(m / 2 * math.log(math.pi) - math.lgamma(m / 2 + 1) - m * math.log(2))
    return analytic(
        function,
        variables=m - 1 + distance_variables,
        objectives=[f"l{j + 1}" for j in range(m)],
        bounds=(0.0, 1.0),
        reference=(1.1,) * m,
        truth=unit_sphere(m, volume),
        identity={"problem": "dtlz2", "arguments": {"m": m, "distance_variables": distance_variables}},
    )


def problem2() -> Problem:
    """Problem 2 of Evtushenko & Posypkin (2013) in [0, 1]^2: front ``l1 = (1 - l2^2) / 3``, concave.

        l1 = ((x1 - 1) x2^2 + 1) / 3,   l2 = x2

    The paper (Appendix B.1) prints ``l2 = x1``, with which the single point (0, 0) is optimal; this is the original
    definition. Up to (1.1, 1.1) the front dominates ``1.1 - 2/9 + 0.11``.
    """

    def function(x: Tensor) -> Tensor:
        return torch.stack([((x[0] - 1) * x[1].square() + 1) / 3, x[1]])

    truth = curve(lambda t: torch.stack([(1 - t.square()) / 3, t], dim=-1), [(0.0, 1.0)], 1.1 - 2 / 9 + 0.11)
    return analytic(
        function,
        variables=2,
        bounds=(0.0, 1.0),
        reference=(1.1, 1.1),
        truth=truth,
        identity={"problem": "problem2", "arguments": {}},
    )


def _at_least(value: int, least: int, name: str = "variables") -> None:
    if not isinstance(value, int) or value < least:
        raise ProblemError(f"{name} is out of range", got=repr(value), expected=f"an integer >= {least}")


TOY = Recipe(rays_per_step=16, separate={"lr": 1e-2})
ENTRIES = {
    "fonseca": Entry(fonseca, "two Gaussian wells, concave front", {"best": TOY}, "variables=100"),
    "vlmop2": Entry(vlmop2, "the two wells of fonseca, in the box [-2, 2]^d", {"best": TOY}, "variables=2"),
    "zdt1": Entry(zdt1, "convex front", {"best": TOY}, "variables=30"),
    "zdt2": Entry(zdt2, "concave front", {"best": TOY}, "variables=30 box=sine|sigmoid"),
    "zdt3": Entry(zdt3, "front in five pieces; EPO stays on one", {"best": TOY}, "variables=30"),
    "dtlz2": Entry(
        dtlz2,
        "the unit sphere, any number of objectives",
        {"best": Recipe(epochs=60, rays_per_step=64, alpha=1.0, evaluation_rays=45, separate={"lr": 1e-2})},
        "m=3 distance_variables=10",
    ),
    "problem2": Entry(problem2, "Problem 2 of Evtushenko & Posypkin, concave front", {"best": TOY}),
}
