"""Notes for the model cards of the built-in problems with data: sources, inputs, and limits of the conclusions."""

from __future__ import annotations

from hyperfront.problem.registry import Notes
from hyperfront.zoo.data.registry import dataset


def _sources(*names: str) -> tuple[str, ...]:
    return tuple(f"{dataset(name).title}. Licence: {dataset(name).license}." for name in names)


def _composites(*datasets: str) -> Notes:
    return Notes(
        _sources(*datasets),
        "Grey images of 36 x 36 pixels from 0 to 1: of two images of 28 x 28, one near the top left and one near the "
        "bottom right, the brighter pixel.",
        ("Trained on composites of two images that a program made; images from elsewhere may be different.",),
        {
            ("split", "paper"): "Validation composites are made of training images, so validation losses are too good.",
            ("relu", False): "LeNet has no activation between its last two layers, as in the paper's code.",
        },
    )


def _people(source: str, group: str, *limits: str) -> Notes:
    return Notes(
        _sources(source),
        "Numbers with mean 0 and variance 1 over the training rows, and categories as rows of one table of embeddings "
        "(the columns in turn).",
        (
            f"Fairness is measured between two groups by {group}, in false positives and false negatives. It says "
            "nothing about other groups, other definitions, or other populations.",
            "A network that predicts the same for everybody is perfectly fair: look at the accuracy too.",
            *limits,
        ),
        {("gap", "logit"): "The penalties compare logits, which are not bounded by 1."},
    )


NOTES: dict[str, Notes] = {
    "multi-mnist": _composites("mnist"),
    "multi-fashion": _composites("fashion_mnist"),
    "multi-fashion-mnist": _composites("mnist", "fashion_mnist"),
    "adult": _people("adult", "sex"),
    "default": _people("default_credit", "sex"),
    "bank": _people(
        "bank_marketing",
        "age (under 25 or from 60)",
        "The duration of a call is an input, which is only known when the answer is known too.",
    ),
    "acs": _people("acs", "sex", "One state of the USA, 2015 to 2018. Children are rows too: see the column AGEP."),
    "sarcos": Notes(
        _sources("sarcos"),
        "Positions, velocities and accelerations of seven joints.",
        ("One robot arm, one recording: nothing is known about other arms or other motions.",),
        {
            ("split", "paper"): "Every test row is also in the training file, so the test losses are too good.",
            ("inputs", "standardized"): "Inputs have mean 0 and variance 1 over the training rows.",
        },
    ),
    "nyuv2": Notes(
        _sources("nyuv2"),
        "RGB images, each channel from -1 to 1.",
        ("Indoor images of one depth sensor; 17 % of the pixels have no label and are not judged.",),
        {("split", "paper"): "Training images show most of the rooms of the test images, so losses are too good."},
    ),
}
