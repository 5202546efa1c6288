"""Two handwritten digits in one image, one network for both: which digit matters more is chosen afterwards.

python examples/two_digits.py           # writes two_digits.html; ten seconds on one core
python examples/two_digits.py --quick   # the same with fewer images

The images are composed of the 8 x 8 digits that scikit-learn brings, as Multi-MNIST is of MNIST: the second digit lies
below and to the right of the first, and covers a part of it.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

import hyperfront as hf
from hyperfront.problem.samples import Classified, image

SHIFT, SIDE = 5, 13
"""How far the second digit lies from the first, and the side of the composed images, in pixels."""
DIGITS = [str(digit) for digit in range(10)]


class TwoHeads(nn.Module):
    """Images ``[B, 1, 13, 13]`` to the logits of the upper and of the lower digit, ``[B, 10]`` each."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 5 * 5, 6), nn.Tanh()
        )
        self.upper, self.lower = nn.Linear(6, 10), nn.Linear(6, 10)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        features = self.body(images)
        return self.upper(features), self.lower(features)


def composed(rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """Images ``[rows, 1, 13, 13]``, and the classes of the upper and of the lower digit ``[rows]``."""
    from sklearn.datasets import load_digits

    known = load_digits()
    digits, labels = torch.tensor(known.images, dtype=torch.float) / 16, torch.tensor(known.target)
    upper, lower = torch.randint(len(digits), (2, rows), generator=torch.Generator().manual_seed(0))
    images = torch.maximum(pad(digits[upper], (0, SHIFT, 0, SHIFT)), pad(digits[lower], (SHIFT, 0, SHIFT, 0)))
    return images[:, None], labels[upper], labels[lower]


def problem(rows: int = 4800) -> hf.Problem:
    """Two losses for one network: the cross entropy of each digit."""
    data = composed(rows)
    cut = (slice(rows * 4 // 5), slice(rows * 4 // 5, None))
    train, val = (tuple(each[part] for each in data) for part in cut)

    def right(digit: int) -> hf.Score:
        return hf.Score(
            lambda outputs, batch: (outputs[digit].argmax(1) == batch[1 + digit]).float().mean(), maximize=True
        )

    return hf.supervised(
        train,
        val,
        losses={
            "upper digit": lambda outputs, batch: cross_entropy(outputs[0], batch[1]),
            "lower digit": lambda outputs, batch: cross_entropy(outputs[1], batch[2]),
        },
        scores={"upper accuracy": right(0), "lower accuracy": right(1)},
        reference=(2, 2),
        make_target=TwoHeads,
        presentation=hf.Presentation(
            title="Two digits in one image",
            samples=lambda split: Classified(
                split,
                classes={"upper digit": DIGITS, "lower digit": DIGITS},
                show=lambda batch, row: image(batch[0][row]),
                truth=lambda batch: [batch[1], batch[2]],
            ),
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer images, two epochs")
    quick = parser.parse_args().quick
    torch.manual_seed(0)
    own = problem(300 if quick else 4800)
    model = hf.wrap(TwoHeads(), own.objectives, hidden=64)
    run = hf.fit(model, own, epochs=2 if quick else 20, batch_size=96, rays_per_step=4, lr=5e-3, seed=0)
    hf.explore(run, own).save("two_digits.html")
    print("wrote two_digits.html")


if __name__ == "__main__":
    main()
