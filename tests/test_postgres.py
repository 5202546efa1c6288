"""A study in PostgreSQL, which processes on many machines can share: tried with a real server where there is one."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.tuning import RATES
from tests.helpers.waiting import LIMIT

ROOT = Path(__file__).parents[1]
DRIVERS = {"pg8000": "unix_sock={0}/.s.PGSQL.5432", "psycopg": "host={0}", "psycopg2": "host={0}"}


def binaries() -> Path | None:
    """The newest server that is installed; Debian keeps its programs outside of the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    initdb = str(found[-1]) if found else shutil.which("initdb")
    return Path(initdb).resolve().parent if initdb else None


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a new database, on a socket in a folder of its own: no port, no other machine."""
    pytest.importorskip("optuna")
    driver = next(filter(importlib.util.find_spec, DRIVERS), None)
    if driver is None or (programs := binaries()) is None:
        pytest.skip("needs PostgreSQL (apt-get install postgresql) and a driver (pip install pg8000)")
    user = {"user": "postgres"} if os.geteuid() == 0 else {}  # the server refuses to run as root
    with tempfile.TemporaryDirectory(prefix="pg") as place:
        if user:
            shutil.chown(place, "postgres")

        def run(program: str, *words: str) -> None:
            command, limits = [programs / program, "-D", f"{place}/data", *words], {"check": True, "timeout": LIMIT}
            subprocess.run(command, cwd=place, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, **limits, **user)

        run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        options = f"-c listen_addresses='' -c unix_socket_directories={place} -c fsync=off"
        run("pg_ctl", "start", "-w", "-t", "120", "-l", f"{place}/log", "-o", options)
        try:
            yield f"postgresql+{driver}://postgres@/postgres?{DRIVERS[driver].format(place)}"
        finally:
            run("pg_ctl", "stop", "-m", "immediate")


def test_two_processes_share_a_study(address, tmp_path):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    command = [sys.executable, "-m", "tests.helpers.tuning", str(tmp_path)]
    both = [
        subprocess.Popen([*command, name, address], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
        for name in ("left", "right")
    ]
    said = [process.communicate(timeout=LIMIT)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    found = [json.loads((tmp_path / f"{name}.json").read_text()) for name in ("left", "right")]
    assert all(each["tried"] for each in found)
    tried = [rate for each in found for rate in each["tried"]]
    assert set(tried) == set(RATES) and len(tried) <= len(RATES) + 1
    assert {each["best"] for each in found} <= set(RATES)
