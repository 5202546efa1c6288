"""One process of a job whose first process dies once; `torchrun -m tests.helpers.restarted_fit OUT` restarts it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import hyperfront as hf
from hyperfront.training import Callback
from tests.helpers.shared_fit import fitted


class DiesOnce(Callback):
    """Kills its process after the second epoch, in the first attempt of the job."""

    def epoch_ended(self, record: dict) -> None:
        if record["epoch"] == 2 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    fitted("tensors", "means", solver=hf.EPO(), epochs=3, out=Path(sys.argv[1]), callbacks=[DiesOnce()])
    sys.stdout.flush()
    os._exit(0)
