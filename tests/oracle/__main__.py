"""``python -m tests.oracle``: every case under every feature, as a table.

    python -m tests.oracle [--markdown FILE] [--only WORD ...] [--compiled] [--device cuda] [--times 20]

It takes a few minutes on one core, and as many more with ``--compiled``. ``pip install -e '.[modules]'`` installs the
packages of other people that it tries.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

from tests.oracle.features import COMPILED, FEATURES, ON_GPU
from tests.oracle.oracle import Outcome, examine
from tests.oracle.setup import BFLOAT16, SINGLE
from tests.oracle.table import as_document
from tests.oracle.zoo import CASES


def main(arguments: list[str] | None = None) -> int:
    """The number of cells that are silently wrong, as the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle")
    parser.add_argument("--markdown", type=Path, help="write the table there")
    parser.add_argument("--only", nargs="*", default=[""], help="cases whose names have one of these words")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda for every engine and stream setting")
    parser.add_argument("--times", type=int, default=1, help="repeat every comparison, and keep the worst")
    parser.add_argument("--compiled", action="store_true", help="try torch.compile on the cases that ask for it, too")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    features = ON_GPU if asked.device == "cuda" else FEATURES | (COMPILED if asked.compiled else {})
    found: dict[str, dict[str, Outcome]] = {}
    for name, case in CASES.items():
        if case.missing or not any(word in name for word in asked.only):
            continue
        began = time.perf_counter()
        found[name] = {}
        for feature, setting in features.items():
            if feature in COMPILED and not case.compiled:
                continue
            tried = [examine(case, feature, setting, asked.device) for _ in range(asked.times)]
            found[name][feature] = max(tried, key=_badness)
        bad = {feature: outcome for feature, outcome in found[name].items() if outcome.kind in ("wrong", "failed")}
        told = "; ".join(f"{feature} {' '.join(str(outcome).split())[:120]}" for feature, outcome in bad.items())
        print(f"{name:45} {time.perf_counter() - began:5.1f} s  {told or 'right or refused'}", flush=True)
    if asked.markdown:
        allowed = {"float64": 1e-9, "single": SINGLE, "bfloat16": BFLOAT16}
        compiled = sum(case.compiled for case in CASES.values())
        asked.markdown.write_text(as_document(found, allowed=allowed, compiled=compiled, columns=list(features)))
    wrong = sum(outcome.kind == "wrong" for row in found.values() for outcome in row.values())
    print(f"{len(found)} modules, {wrong} cells silently wrong")
    return wrong


def _badness(outcome: Outcome) -> tuple[bool, bool, float]:
    return outcome.kind == "wrong", outcome.kind == "failed", outcome.error


if __name__ == "__main__":
    raise SystemExit(main() > 0)
