"""Load by wrk: a closed loop over many connections, or requests at a fixed rate, each with the latencies of answers."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

PROGRAM = shutil.which("wrk")
MISSING = "this script needs wrk (Debian: apt install wrk)"
_SCRIPT = """
local ffi = require("ffi")
ffi.cdef[[typedef struct { long s; long ns; } stamp; int clock_gettime(int, stamp *);]]
local stamp, due = ffi.new("stamp"), nil

local function now()
  ffi.C.clock_gettime(1, stamp)
  return tonumber(stamp.s) + tonumber(stamp.ns) * 1e-9
end

wrk.method, wrk.path = "POST", "%(path)s"
wrk.headers["Content-Type"] = "application/json"
wrk.body = [==[%(body)s]==]

if %(rate)s > 0 then
  function delay()  -- milliseconds until the next request is due, on whichever connection is free
    local time = now()
    due = math.max(due or time, time - 1) + 1 / %(rate)s
    return math.max(0, (due - time) * 1000)
  end
end

function setup(thread) threads = {thread} end
function init() good, late, refused, other = 0, 0, 0, 0 end
function response(status)
  if status == 200 then good = good + 1
  elseif status == 503 then late = late + 1
  elseif status == 429 then refused = refused + 1
  else other = other + 1 end
end

function done(summary, latency)
  local thread, errors = threads[1], summary.errors
  io.write(string.format(
    'FOUND {"seconds": %%f, "requests": %%d, "p50": %%f, "p99": %%f, "p999": %%f, "lost": %%d, '..
    '"good": %%d, "late": %%d, "refused": %%d, "other": %%d}\\n',
    summary.duration / 1e6, summary.requests, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    latency:percentile(99.9) / 1e3, errors.connect + errors.read + errors.write + errors.timeout,
    thread:get("good"), thread:get("late"), thread:get("refused"), thread:get("other")))
end
"""


@dataclass(frozen=True)
class Load:
    """What wrk saw: percentiles in milliseconds, over all answers; ``lost`` counts requests without an answer."""

    seconds: float
    requests: int
    p50: float
    p99: float
    p999: float
    lost: int
    good: int
    late: int
    refused: int
    other: int

    @property
    def rate(self) -> float:
        """Answers with status 200 a second."""
        return self.good / self.seconds


def start(port: int, path: str, body: str, connections: int, seconds: float, rate: float = 0) -> subprocess.Popen:
    """Start wrk with one thread; ``rate`` is the number of requests a second, or 0 for a closed loop."""
    assert PROGRAM is not None
    with tempfile.NamedTemporaryFile("w", suffix=".lua", delete=False) as script:
        script.write(_SCRIPT % {"path": path, "body": body, "rate": rate})
    length = f"{max(1, round(seconds))}s"
    command = [PROGRAM, "-t1", f"-c{connections}", f"-d{length}", "--timeout", "30s", "-s", script.name]
    return subprocess.Popen([*command, f"http://127.0.0.1:{port}"], stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen) -> Load:
    """Wait for wrk, and read its numbers."""
    text, _ = process.communicate()
    Path(process.args[-2]).unlink()
    assert process.returncode == 0, text
    (line,) = [line for line in text.splitlines() if line.startswith("FOUND ")]
    return Load(**json.loads(line.removeprefix("FOUND ")))
