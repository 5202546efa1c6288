"""Run inputs in forked children, with a bound on memory and a watchdog, and count what happens."""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from hyperfront.errors import HyperfrontError

OWN = str(Path(__file__).parent / "specimens.py")
"""An error in a function of this file is the user's own error: the user passed that function."""
MEMORY = 2 * 2**30
"""Bytes of address space that a child may take beyond its address space at the start."""
CALLS_OF_OTHERS = {
    ("substitution.py", "__call__"),
    ("presentation.py", "labels"),
    ("alignment.py", "align"),
    ("backward.py", "each_loss"),
    ("target.py", "__init__"),
    ("settings.py", "make_optimizer"),
    ("settings.py", "make_schedule"),
    ("epochs.py", "rays"),
    ("loop.py", "_measured"),
    ("roles.py", "chosen"),
    ("graph.py", "forward"),
    ("problem.py", "model"),
}
"""Where the package calls the user's modules and functions: an error of these calls passes through unchanged."""
PATIENCE = 5
"""A child that is silent for this many bounds is killed: its signal handler cannot run."""
RETURNED, REFUSED, MISFIT, OWN_ERROR = (
    "returned",
    "refused",
    "did not fit the signature",
    "raised by the user's function",
)
FOREIGN, HANG, CRASH, WRONG = "foreign exceptions", "hangs", "crashes", "wrong results"
DEFECTS = (FOREIGN, HANG, CRASH, WRONG)


class Outcome(NamedTuple):
    """The result of one input."""

    part: str
    """The function, format or route."""
    kind: str
    text: str = ""
    """A description, for defects."""


class Family(Protocol):
    """A kind of input: :meth:`run` makes input ``number`` and tries it."""

    name: str
    seconds: float
    """The bound on the time of one input."""
    batch: int
    """The number of inputs of one child."""

    def prepare(self) -> None:
        """Import and make what all inputs share, before children are forked."""

    def run(self, number: int) -> Outcome: ...


class Wrong(Exception):
    """Raised for a result that lacks a property it should have."""


class Late(BaseException):
    """Raised in an input that takes too long. No code catches it as an error of its own."""


@dataclass
class Counts:
    """The counts of a campaign, and its findings by place."""

    inputs: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    parts: dict[str, Counter[str]] = field(default_factory=dict)
    findings: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, number: int, outcome: Outcome) -> None:
        self.inputs += 1
        self.kinds[outcome.kind] += 1
        self.parts.setdefault(outcome.part, Counter())[outcome.kind] += 1
        if outcome.kind in DEFECTS:
            place = f"{outcome.part} {outcome.kind} {' '.join(outcome.text.split())[:60]}"
            entry = self.findings.setdefault(
                place, {"number": number, "part": outcome.part, "times": 0, "text": outcome.text[:1500]}
            )
            entry["times"] += 1

    @property
    def defects(self) -> int:
        return sum(self.kinds[kind] for kind in DEFECTS)


def attempt(part: str, call: Callable[[], Any]) -> Outcome:
    """Call, and say what happened."""
    try:
        call()
    except HyperfrontError:
        return Outcome(part, REFUSED)
    except Wrong as wrong:
        return Outcome(part, WRONG, str(wrong))
    except Late:
        return Outcome(part, HANG, "the call took too long")
    except BaseException as error:
        if of_user(error):
            return Outcome(part, OWN_ERROR)
        return Outcome(part, FOREIGN, described(error))
    return Outcome(part, RETURNED)


def of_user(error: BaseException) -> bool:
    """Whether the user's function raised the error, or could not be called with what it was made for."""
    codes = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    ours = [code for code in codes if "/hyperfront/" in code.co_filename]
    place = (Path(ours[-1].co_filename).name, ours[-1].co_name) if ours else None
    beyond = isinstance(error, TypeError) or codes[-1] is not ours[-1]
    return any(code.co_filename == OWN for code in codes) or (place in CALLS_OF_OTHERS and beyond)


def described(error: BaseException) -> str:
    """The type and place of an error, its message, and our frames that led there."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/hyperfront/" in frame.filename]
    ours = [f"{frame.filename.rpartition('/hyperfront/')[2]}:{frame.lineno}" for frame in frames] or ["?"]
    return f"{type(error).__name__} at {ours[-1]}: {str(error)[:200]!r}\n{' > '.join(ours)}"


def campaign(family: Family, numbers: range, *, tell: Callable[[Counts], None] = lambda counts: None) -> Counts:
    """Run the inputs, and count what happened."""
    family.prepare()
    gc.collect()
    gc.freeze()
    counts = Counts()
    for start in range(numbers.start, numbers.stop, family.batch):
        for number, outcome in _in_children(family, range(start, min(start + family.batch, numbers.stop))):
            counts.add(number, outcome)
        tell(counts)
    return counts


def _in_children(family: Family, numbers: range) -> Iterator[tuple[int, Outcome]]:
    """Run a batch in a child; where the child dies, another child continues after the input that it died of."""
    position = numbers.start
    while position < numbers.stop:
        done, death = yield from _in_child(family, range(position, numbers.stop))
        position += done
        if death and position < numbers.stop:
            yield position, Outcome("?", *death)
            position += 1


def _in_child(
    family: Family, numbers: range
) -> Generator[tuple[int, Outcome], None, tuple[int, tuple[str, str] | None]]:
    """Fork a child and yield its outcomes; return how many there were, and why the child died."""
    read, write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    if not (child := os.fork()):
        os.close(read)
        _be_child(family, numbers, write)
    os.close(write)
    done, rest, death = 0, b"", None
    while True:
        if not select.select([read], [], [], family.seconds * PATIENCE)[0]:
            os.kill(child, signal.SIGKILL)
            death = (HANG, "the process did not react and was killed")
            break
        if not (data := os.read(read, 1 << 16)):
            break
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield numbers.start + done, Outcome(*json.loads(line))
            done += 1
    os.close(read)
    status = os.waitpid(child, 0)[1]
    if death is None and status != 0:
        death = (CRASH, f"the process ended with status {status}")
    return done, death


def _be_child(family: Family, numbers: range, write: int) -> None:
    """Run the inputs in this process, a child, and end it."""
    status = 1
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="fuzz-", dir=memory)
    try:
        os.chdir(folder)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nowhere, standard)
        limit_memory()
        signal.signal(signal.SIGALRM, _late)
        for number in numbers:
            os.write(write, json.dumps(bounded(family, number)).encode() + b"\n")
        status = 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(status)


def bounded(family: Family, number: int) -> Outcome:
    """Run one input within its time."""
    signal.setitimer(signal.ITIMER_REAL, family.seconds)
    try:
        return family.run(number)
    except Late:
        return Outcome("?", HANG, "making the input took too long")
    except Exception as error:
        return Outcome("the fuzzer itself", FOREIGN, "".join(traceback.format_exception(error)[-3:]))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _late(*_: object) -> None:
    raise Late


def limit_memory() -> None:
    """Bound the address space of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
