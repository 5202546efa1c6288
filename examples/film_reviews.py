"""A network of your own on texts: a review praises a film or blames it, and both kinds of errors have a price.

python examples/film_reviews.py           # writes film_reviews.html; ten seconds on one core
python examples/film_reviews.py --quick   # the same with fewer reviews

The reviews are made up: the more of their words are good, the likelier they praise. "not" turns the word after it.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import hyperfront as hf
from hyperfront.problem.samples import Classified, text

WORDS = ["not", "bad", "dull", "loud", "fine", "good", "great", "plot", "very", "actor"]
VALUES = torch.tensor([0.0, -2, -1, -1, 1, 1, 2, 0, 0, 0])


def reviews(rows: int) -> tuple[Tensor, Tensor]:
    """Words as codes ``[rows, 6]``, and whether each review praises ``[rows]``."""
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(len(WORDS), (rows, 6), generator=generator)
    sign = torch.ones(rows, 6)
    sign[:, 1:] -= 2.0 * (codes[:, :-1] == 0)
    score = (VALUES[codes] * sign).sum(1) + torch.randn(rows, generator=generator)
    return codes, (score > 0).long()


def network() -> nn.Module:
    """Codes ``[B, 6]`` to the logits of blame and praise ``[B, 2]``."""
    return nn.Sequential(nn.Embedding(len(WORDS), 6), nn.Flatten(), nn.Linear(36, 16), nn.ReLU(), nn.Linear(16, 2))


def weighted(*weights: float):
    """Cross entropy in which the classes have these weights."""
    return lambda output, batch: cross_entropy(output, batch[1], weight=torch.tensor(weights))


def share(label: int, other: int):
    """The share of reviews with a label that get the other one."""
    return lambda output, batch: ((output.argmax(1) == other) & (batch[1] == label)).float().mean()


def problem(rows: int = 4000) -> hf.Problem:
    """Two losses that weigh the two kinds of errors."""
    codes, labels = reviews(rows)
    cut = rows * 3 // 4
    return hf.supervised(
        (codes[:cut], labels[:cut]),
        (codes[cut:], labels[cut:]),
        losses={"missed praise": weighted(1.0, 9.0), "missed blame": weighted(9.0, 1.0)},
        scores={
            "praise called blame": hf.Score(share(1, 0), maximize=False),
            "blame called praise": hf.Score(share(0, 1), maximize=False),
        },
        reference=(2, 2),
        make_target=network,
        presentation=hf.Presentation(
            title="Reviews of films",
            notes="The model says whether a review praises or blames a film; each kind of error has its price.",
            samples=lambda split: Classified(
                split,
                classes={"review": ["blame", "praise"]},
                show=lambda batch, row: text(" ".join(WORDS[code] for code in batch[0][row])),
                truth=lambda batch: [batch[1]],
            ),
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer reviews, two epochs")
    quick = parser.parse_args().quick
    torch.manual_seed(0)
    own = problem(300 if quick else 4000)
    model = hf.wrap(network(), own.objectives, hidden=64)
    run = hf.fit(model, own, epochs=2 if quick else 20, batch_size=96, rays_per_step=4, lr=5e-3, seed=0)
    hf.explore(run, own).save("film_reviews.html")
    print("wrote film_reviews.html")


if __name__ == "__main__":
    main()
