"""Figure 9: which pixels speak for a class, by ray (Multi-MNIST).

Integrated gradients (Sundararajan, Taly & Yan, 2017; from captum), starting at the black image. With the score ``f_c``
of class ``c``,

    a_c(x) = x * mean over k of  d f_c / d x at ((k - 1/2) / K) x,      sum of a_c = f_c(x) - f_c(0) for large K

where ``f_c(x) = sum_j r_j softmax(logits_j(x))_c`` is the probability that a guess of the class is right, if task ``j``
is asked for with probability ``r_j``. The paper shows SHAP values; both share out ``f_c(x) - f_c(baseline)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hyperfront.errors import HyperfrontError
from hyperfront.model import ParetoModel
from hyperfront.problem import Problem
from hyperfront.training.runs import RunFolder
from reproduction.drawing import panels
from reproduction.item_result import ItemResult, Table
from reproduction.store import Store

RAYS = ((0.99, 0.01), (0.5, 0.5), (0.01, 0.99))
STEPS, IMAGES, ROWS = 32, 100, 2048
"""Steps of an integral, images whose attributions are computed, and images whose classes are guessed."""
COLUMNS = ("ray", "to the left class", "share", "to the right class", "share", "left accuracy", "right accuracy")
DIGITS = (7, 3)
"""Labels of the image in the figure: as in the paper, 7 at the top left and 3 at the bottom right."""


def integrated_gradients(
    network: nn.Module, images: Tensor, ray: Tensor, classes: Tensor, steps: int = STEPS
) -> Tensor:
    """Attributions ``[B, K, H, W]`` of images ``[B, 1, H, W]`` to ``K`` classes of each, ``[B, K]``."""
    try:
        from captum.attr import IntegratedGradients
    except ImportError:
        raise HyperfrontError("attributions need captum", fix="pip install 'hyperfront[compare]'") from None

    def scores(x: Tensor) -> Tensor:
        return torch.stack([logits.softmax(-1) for logits in network(x)], dim=-1) @ ray.to(x)

    method = IntegratedGradients(scores)
    each = (method.attribute(images, target=own, n_steps=steps, method="riemann_middle") for own in classes.unbind(1))
    return torch.cat([*each], dim=1)


def attribution(store: Store, study: str) -> ItemResult:
    """Draw the attributions of one image, and compute over many images on which side a class has its pixels."""
    found = store.measure(study, store.results(study, ["phn-epo"])[0], "attribution", _measure)
    rows = [
        (f"({ray[0]:g}, {ray[1]:g})", *(f"{value:.2f}" for value in (m1, s1, m2, s2, *accuracies)))
        for ray, (m1, m2), (s1, s2), accuracies in zip(RAYS, found["mass"], found["shares"], found["accuracies"])
    ]
    title = f"Attribution to the true classes of {found['images']} test images; its share in the top left half"
    numbers = {key: found[key] for key in ("shares", "accuracies", "mass", "labels")}
    return ItemResult([Table(title, COLUMNS, rows)], _figure(found), numbers=numbers)


def _measure(model: ParetoModel, problem: Problem, run: RunFolder) -> dict[str, Any]:
    model = model.cpu().eval()
    batch = next(iter(problem.test.source.batches(ROWS, torch.device("cpu"))))
    images, left, right = problem.inputs(batch), batch[1], batch[2]
    wanted = ((left == DIGITS[0]) & (right == DIGITS[1])).nonzero()[:, 0]
    example = int(wanted[0]) if len(wanted) else 0
    side = images.shape[-1]
    place = torch.arange(side)[:, None] + torch.arange(side) - (side - 1)
    above = (1 - place.sign()) / 2  # pixels on the diagonal count half
    measured: dict[str, list[Any]] = {"attributions": [], "shares": [], "mass": [], "accuracies": []}
    some, both = images[:IMAGES], torch.stack([left, right], dim=1)[:IMAGES]
    for ray in map(torch.tensor, RAYS):
        network = model.at(ray)
        (picture,) = integrated_gradients(network, images[[example]], ray, torch.arange(10)[None])
        measured["attributions"].append([_rounded(each) for each in picture])
        found = integrated_gradients(network, some, ray, both)
        positive = found.clamp_min(0)
        share = ((positive * above).sum((2, 3)) / positive.sum((2, 3)).clamp_min(1e-12)).mean(0)
        measured["shares"].append(share.tolist())
        measured["mass"].append(found.sum((2, 3)).mean(0).tolist())
        with torch.no_grad():
            guesses = [logits.argmax(-1) for logits in network(images)]
        right_ones = [(guess == label).double().mean().item() for guess, label in zip(guesses, (left, right))]
        measured["accuracies"].append(right_ones)
    labels = [int(left[example]), int(right[example])]
    return {"image": _rounded(images[example, 0]), "labels": labels, **measured, "images": len(some)}


def _rounded(picture: Tensor) -> list[list[float]]:
    return [[float(f"{value:.3g}") for value in row] for row in picture.tolist()]


def _figure(found: dict[str, Any]) -> Any:
    pictures, image = np.array(found["attributions"]), np.array(found["image"])
    with panels(len(RAYS), 11, width=0.9, height=0.95) as (figure, axes):
        for place, ray, row in zip(axes, RAYS, pictures):
            most = np.abs(row).max() or 1.0
            place[0].set_ylabel(f"({ray[0]:g}, {ray[1]:g})", fontsize=7)
            for each, picture in zip(place, [None, *row]):
                each.grid(False)
                each.set(xticks=[], yticks=[])
                each.imshow(image, cmap="gray_r", alpha=1 if picture is None else 0.15)
                if picture is not None:
                    each.imshow(picture, cmap="bwr", vmin=-most, vmax=most, alpha=0.85)
        for each, title in zip(axes[0], ["image", *map(str, range(10))]):
            each.set_title(title, fontsize=8)
        left, right = found["labels"]
        figure.suptitle(f"Labels {left} (top left) and {right} (bottom right); red speaks for a class", fontsize=9)
    return figure
