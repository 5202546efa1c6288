"""Restarts: torchrun starts all processes of a job again after a failure, and they continue the run of that job.

The agent of torchrun keeps a store, which outlives the processes. The first one that asks leaves a random word there,
the mark of the job, and the run folder has it in ``environment.json``. So another job's run is not continued.
"""

from __future__ import annotations

import os
import uuid
from datetime import timedelta

from torch import distributed as dist

from hyperfront.storage import files
from hyperfront.training.runs import RunFolder

PATIENCE = 60.0
"""Seconds to wait for the store."""


def job_mark() -> str | None:
    """Return the word that the processes of this job share, also after a restart; None if no agent keeps one."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    try:
        place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store = dist.TCPStore(*place, is_master=False, timeout=timedelta(seconds=PATIENCE))
        return store.compare_set("hyperfront: mark of the job", "", uuid.uuid4().hex).decode()
    except (KeyError, ValueError, RuntimeError):
        return None


def continues(folder: RunFolder | None) -> bool:
    """Return whether torchrun restarted this job after a failure, and the folder holds this job's own run."""
    again = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0
    if not again or folder is None or not folder.config.exists() or not folder.environment.exists():
        return False
    stored = files.read_json(folder.environment)
    mark = job_mark()
    return mark is not None and isinstance(stored, dict) and stored.get("job") == mark
