"""How fast the explorer answers a drag: predictions for the sample inputs at a new ray, over HTTP, on one CPU thread.

LeNet with the hypernetwork of the recipe `best` (images are random: time does not depend on what they show). A drag
asks for predictions at a ray that was never asked for; the values beside them are interpolated in the page. Once with
nothing else going on, once while the dense front is being measured in the same process. The bar is 50 ms.

    OMP_NUM_THREADS=1 python benchmarks/explorer.py
"""

from __future__ import annotations

import argparse
import http.client
import statistics
import time
from urllib.parse import urlparse

import torch

import hyperfront as hf
from hyperfront.apps.explorer.exploration import Exploration
from hyperfront.apps.explorer.session import Session
from hyperfront.zoo.lenet import LeNet

BAR = 0.050


def exploration(rows: int) -> Exploration:
    """A LeNet that was never trained, shown as Multi-MNIST is."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (rows, 1, 36, 36), dtype=torch.uint8, generator=generator)
    labels = [torch.randint(0, 10, (rows,), generator=generator) for _ in range(2)]
    cross_entropy = torch.nn.functional.cross_entropy
    problem = hf.supervised(
        (images, *labels),
        (images, *labels),
        losses={
            "left": lambda output, batch: cross_entropy(output[0], batch[1]),
            "right": lambda output, batch: cross_entropy(output[1], batch[2]),
        },
        inputs=lambda batch: batch[0] * (1 / 255),
        identity={"problem": "multi-mnist", "arguments": {}},
        make_target=LeNet,
    )
    torch.manual_seed(0)
    session = Session(problem.model(hidden=128, initialization="plain"), problem)
    return Exploration(session, name="benchmark", python="", baselines=[])


def drag(connection: http.client.HTTPConnection, path: str, first: float) -> float:
    """Seconds until predictions are there."""
    start = time.perf_counter()
    connection.request("GET", f"{path}api/predict?ray={first:.6f},{1 - first:.6f}")
    answer = connection.getresponse()
    content = answer.read()
    seconds = time.perf_counter() - start
    assert answer.status == 200, content
    return seconds


def measure(url: str, drags: int) -> list[float]:
    connection = http.client.HTTPConnection(urlparse(url).netloc)
    path = urlparse(url).path
    rays = torch.rand(drags + 20, generator=torch.Generator().manual_seed(1)).tolist()
    return [drag(connection, path, first) for first in rays][20:]  # the first ones warm up


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--drags", type=int, default=300)
    parser.add_argument("--rows", type=int, default=12_000, help="validation rows; Multi-MNIST has 12,000")
    parser.add_argument("--quick", action="store_true", help="smallest settings: shows in seconds that the script runs")
    options = parser.parse_args()
    if options.quick:
        options.drags, options.rows = 5, 200
    torch.set_num_threads(1)
    page = exploration(options.rows)
    shown = len(page.session.samples.document()["items"])
    print(f"LeNet, {shown} sample images, {options.drags} drags; bar {BAR * 1e3:.0f} ms")
    print(f"{'':<36}{'median':>10}{'slowest of 100':>16}")
    beside = page.url  # from here on the dense front is being measured
    busy = measure(beside, options.drags)
    assert len(page.session.front) > 2
    page.session.stop()
    with page.session._measuring:  # the ray at hand has been measured
        pass
    quiet = measure(beside, options.drags)
    for name, times in (("nothing else going on", quiet), ("while the front is measured", busy)):
        slowest = statistics.quantiles(times, n=100)[98]
        print(f"{name:<36}{statistics.median(times) * 1e3:>7.1f} ms{slowest * 1e3:>13.1f} ms")
    start = time.perf_counter()
    page.session.measure([0.4, 0.6])
    exact = (time.perf_counter() - start) * 1e3
    print(f"{'exact losses on release':<36}{exact:>7.1f} ms   {options.rows:,} validation rows")
    page.close()


if __name__ == "__main__":
    main()
