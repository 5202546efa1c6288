"""A kind of run in a folder of its own, beside what an uninterrupted run of the same kind leaves there."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.kinds import Kind
from tests.faults.processes import DEAD, Changes, in_child, tear


class Trial:
    """Runs a kind of run in children, and compares its files with those of an uninterrupted run."""

    def __init__(self, kind: Kind, place: Path):
        self.kind, self.place = kind, place
        self.folder, self.said = place / "run", place / "said"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        start = time.perf_counter()
        self.changes = self._changes()
        self.seconds = time.perf_counter() - start
        self.wanted = kind.results(self.folder)

    def _changes(self) -> list[tuple[str, str]]:
        """Run without faults, and return the changes of files, each with the name of its file."""
        log, seen = self.place / "changes.json", []

        def whole() -> None:
            Changes(self.folder, lambda _, event, path: seen.append((event, Path(path).name))).watch()
            self.kind.run(self.folder)
            log.write_text(json.dumps(seen))

        self.expect(in_child(whole, self.said), 0)
        return [tuple(change) for change in json.loads(log.read_text())]

    def begin(self) -> None:
        """Remove the run."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def die(self, place: int) -> int:
        """Run until the change number ``place``, and return the exit code: 0 if the run ended before."""

        def at(count: int, event: str, path: str) -> None:
            if count == place:
                if event == "flush":
                    tear(path)
                os._exit(DEAD)

        code = self.run(at)
        self.expect(code, 0, DEAD)
        return code

    def die_in_the_last_epoch(self) -> None:
        """Leave a run whose last epoch is not in a checkpoint; two checkpoints are older."""
        appended = [place for place, change in enumerate(self.changes, 1) if change == ("open", "metrics.jsonl")]
        self.begin()
        self.expect(self.die(appended[-1]), DEAD)

    def run(
        self,
        at: Callable[[int, str, str], None] = lambda *_: None,
        *,
        before: Callable[[], Any] = lambda: None,
        during: Callable[[int], Any] | None = None,
    ) -> int:
        """Begin or continue the run, and return the exit code.

        ``at`` is called before every change; ``before`` in the child at the start, ``during`` meanwhile outside of it.
        """

        def work() -> None:
            before()
            Changes(self.folder, at).watch()
            self.kind.run(self.folder)

        return in_child(work, self.said, during=during)

    def finish(self, *, without: tuple[str, ...] = (), **options: Any) -> list[str]:
        """Continue without faults, and return the names of files that differ from the uninterrupted run."""
        code = self.run(**options)
        return self.differences(without) if code == 0 else [f"exit code {code}: {self.said.read_text()[-500:]}"]

    def differences(self, without: tuple[str, ...] = ()) -> list[str]:
        """The names of files that differ from the uninterrupted run, but for those ``without``."""
        found, wanted = self.kind.results(self.folder), self.wanted
        names = sorted((found.keys() | wanted.keys()) - {*without})
        return [name for name in names if found.get(name, "missing") != wanted.get(name, "missing")]

    def expect(self, code: int, *codes: int) -> None:
        if code not in codes:
            raise AssertionError(f"{self.kind.name}: exit code {code}: {self.said.read_text()}")
