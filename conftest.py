"""Threads and signals of the tests, and the markers that choose among them: slow, gpu, data, browser.

Tests run on one thread: their tensors are small, and threads that compete for cores slow each other down tenfold.
"""

import os
import signal

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for this process, before torch is imported, and for those it starts
os.environ.setdefault("WANDB_X_SERVICE_WAIT", "300")  # seconds; by default its service must start in half a minute
os.environ.setdefault("WANDB_INIT_TIMEOUT", "300")

import pytest
import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)
# The same examples in every run, however long a busy machine takes for them.
settings.register_profile(
    "hyperfront", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("hyperfront")
# A shell lets jobs in the background ignore Ctrl-C, and nohup lets them ignore SIGHUP; the tests send both.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # so that the GPU's programs are tested too


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests whose marker names something that this machine lacks; the reason says how to get it."""
    from tests.helpers import chromium, data

    lacking = {
        "data": data.DATA is None and data.REASON,
        "browser": chromium.PATH is None and chromium.REASON,
        "gpu": not torch.cuda.is_available() and "needs a CUDA device",
    }
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
        for marker, reason in lacking.items():
            if reason and item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))
