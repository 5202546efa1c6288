"""Draw the figure of docs/rays.md: the points that five rays name on one concave front, in each convention.

python examples/rays_figure.py          # writes rays.svg to the current folder; no training, a few seconds

The front is the exact one of Fonseca's problem. In the convention ``inverse`` a ray names the point with equal
``r_j l_j``, with ``weights`` a point with the least ``sum_j r_j l_j``, and with ``direction`` the point whose losses
are in the proportions of the ray.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure
from torch import Tensor

import hyperfront as hf
from hyperfront.front.plots.static import COLORMAP, STYLE
from hyperfront.preferences import convert
from hyperfront.zoo.toys import fonseca

RAYS = hf.rays(7, m=2).double()[1:-1]
TITLES = {
    "inverse": "inverse (EPO, Tchebycheff)\nequal $r_j\\, l_j$",
    "weights": "weights (LS)\nleast $r_1 l_1 + r_2 l_2$",
    "direction": "direction (PBI, COSMOS, HVMax)\n$l$ proportional to $r$",
}


def named_points(front: Tensor, convention: str) -> Tensor:
    """The point of the front ``[N, 2]`` that each of the rays names, ``[R, 2]``."""
    if convention == "weights":
        return front[(RAYS @ front.T).argmin(1)]
    rays = convert(RAYS, convention, "inverse")
    products = (rays[:, None] * front).log()
    return front[(products[..., 0] - products[..., 1]).abs().argmin(1)]


def draw() -> Figure:
    """Three panels, one for each convention."""
    front = fonseca().truth.points.double()
    with rc_context(STYLE | {"text.parse_math": True}):
        figure = Figure(figsize=(9.6, 3.6), layout="constrained")
        for axes, (convention, title) in zip(figure.subplots(1, 3, sharey=True), TITLES.items()):
            axes.plot(*front.T, color="#55606e", linewidth=1.2)
            for ray, point in zip(RAYS, named_points(front, convention)):
                color = COLORMAP(float(ray[0]))
                if convention != "weights":
                    axes.plot([0, point[0]], [0, point[1]], color=color, linewidth=0.9, linestyle="--")
                label = f"({ray[0]:.2f}, {ray[1]:.2f})"
                axes.plot(*point, "o", color=color, markersize=7, label=label, zorder=3)
            axes.set_title(title, fontsize=10)
            axes.set(xlim=(-0.03, 1.05), ylim=(-0.03, 1.05), xlabel="$l_1$")
        axes.legend(title="ray", fontsize=8, loc="upper right")
        figure.axes[0].set_ylabel("$l_2$")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the same: it is quick anyway")
    parser.add_argument("--out", type=Path, default=Path("rays.svg"))
    out = parser.parse_args().out
    with rc_context({"svg.hashsalt": "rays"}):
        draw().savefig(out, metadata={"Date": None} if out.suffix == ".svg" else None)
    print(f"wrote {out}")


if __name__ == "__main__":
    main()
