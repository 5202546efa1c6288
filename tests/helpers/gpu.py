"""What tests of the GPU's programs and engines share."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@contextlib.contextmanager
def load() -> Iterator[None]:
    """Inside, the GPU multiplies large matrices on a stream of its own, so that other kernels start late."""
    stop = threading.Event()

    def work() -> None:
        factor, stream = torch.randn(4096, 4096, device="cuda"), torch.cuda.Stream()
        with torch.cuda.stream(stream):
            while not stop.is_set():
                for _ in range(4):
                    factor @ factor
                stream.synchronize()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


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
