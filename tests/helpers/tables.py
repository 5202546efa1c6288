"""Small tables that look like real ones: people who apply for a loan."""

from __future__ import annotations

from typing import Any

import numpy as np


def people(rows: int = 600, seed: int = 0) -> dict[str, Any]:
    """Columns with numbers, categories, a date, missing values, a group, a label and an amount."""
    draw = np.random.default_rng(seed)
    age = draw.integers(18, 80, rows).astype(float)
    income = np.round(draw.lognormal(10, 0.7, rows), 2)
    job = draw.choice(["cook", "smith", "nurse"], rows)
    group = draw.choice(["north", "south"], rows, p=[0.65, 0.35])
    day = np.datetime64("2025-01-01") + draw.integers(0, 365, rows)
    score = 0.03 * (age - 45) + 0.8 * (np.log(income) - 10) + 0.7 * (group == "north") + 0.4 * (job == "nurse") - 0.4
    label = draw.random(rows) < 1 / (1 + np.exp(-score))
    age[draw.random(rows) < 0.08] = np.nan
    return {
        "age": age,
        "income": income,
        "job": np.where(draw.random(rows) < 0.05, None, job.astype(object)),
        "day": day.astype("datetime64[D]").astype(str).astype(object),
        "group": group.astype(object),
        "paid": np.where(label, "yes", "no").astype(object),
        "amount": 100 * score + draw.normal(0, 20, rows) + 1000,
    }


def without(table: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: column for name, column in table.items() if name not in names}


def csv_of(table: dict[str, Any], separator: str = ",") -> str:
    """The text of a CSV file."""

    def cell(value: Any) -> str:
        return "" if value is None or value != value else str(value)

    lines = [separator.join(table), *(separator.join(map(cell, row)) for row in zip(*table.values()))]
    return "\n".join(lines) + "\n"
