"""Milliseconds that ``import hyperfront`` takes beyond torch, and the modules that it loads.

python benchmarks/import_time.py          # twelve fresh processes, one after the other: half a minute

Each process imports torch first, then hyperfront. Processor time leaves out the time in which other programs have the
core; elapsed time is what a user waits for.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from statistics import median

CODE = """
import sys, time, torch
before, busy = time.perf_counter(), time.process_time()
import hyperfront
print(1e3 * (time.process_time() - busy), 1e3 * (time.perf_counter() - before))
print(sum(name.partition(".")[0] == "hyperfront" for name in sys.modules))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one process, only to see that it runs")
    processes = 1 if parser.parse_args().quick else 12
    command = [sys.executable, "-c", CODE]
    runs = (subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(processes + 1))
    printed = [run.stdout.split() for run in runs][1:]  # the first run may still compile or read from the disk
    busy, elapsed = ([float(words[column]) for words in printed] for column in (0, 1))
    print("| processes | modules | processor time, least | median | elapsed, least | median |")
    print("|---|---|---|---|---|---|")
    numbers = " | ".join(f"{number:.0f}" for each in (busy, elapsed) for number in (min(each), median(each)))
    print(f"| {processes} | {printed[0][2]} | {numbers} |")


if __name__ == "__main__":
    main()
