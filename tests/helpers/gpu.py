"""What tests of the GPU's programs and engines share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@contextlib.contextmanager
def exact_products() -> Iterator[None]:
    """Matrix products and convolutions without TF32."""
    places = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [place.allow_tf32 for place in places]
    for place in places:
        place.allow_tf32 = False
    try:
        yield
    finally:
        for place, value in zip(places, before):
            place.allow_tf32 = value
