"""Write two small tables to the current folder: people.csv, made up, and diabetes.csv, from scikit-learn.

python examples/write_tables.py         # no training, a second

In people.csv, group a is hired more often than group b at the same age and school. diabetes.csv has 442 patients with
the progress of their disease after a year.
"""

from __future__ import annotations

import argparse
import csv
import random
from pathlib import Path

SCHOOLS = ("none", "middle", "high")


def people(rows: int) -> list[tuple[object, ...]]:
    """Rows of age, school, group and whether the person was hired."""
    draw = random.Random(0)
    table = []
    for _ in range(rows):
        age, school, group = draw.randint(20, 64), draw.choice(SCHOOLS), draw.choice("ab")
        score = age / 20 + 2 * (school == "high") + 0.8 * (group == "a") + draw.gauss(0, 1)
        table.append((age, school, group, "yes" if score > 3.5 else "no"))
    return table


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer people")
    quick = parser.parse_args().quick
    with Path("people.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("age", "school", "group", "hired"), *people(100 if quick else 2000)])
    from sklearn.datasets import load_diabetes

    load_diabetes(as_frame=True, scaled=False).frame.rename(columns={"target": "progress"}).to_csv(
        "diabetes.csv", index=False
    )
    print("wrote people.csv and diabetes.csv")


if __name__ == "__main__":
    main()
