"""One of two processes that share a study; `python -m tests.helpers.tuning FOLDER NAME ADDRESS`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import hyperfront as hf
from hyperfront.comparison import Protocol
from hyperfront.comparison.tune import tune
from hyperfront.problem.recipe import Recipe
from hyperfront.training import Callback
from hyperfront.zoo import toys
from tests.helpers.waiting import until

RATES = [1e-3, 3e-3, 1e-2, 3e-2]


class Meets(Callback):
    """Waits in the first epoch until the other process has begun a trial too."""

    def __init__(self, folder: Path, name: str):
        self.folder, self.name = folder, name

    def epoch_ended(self, record: dict[str, Any]) -> None:
        (self.folder / f"{self.name}.begun").touch()
        until(lambda: len(list(self.folder.glob("*.begun"))) == 2)


def main() -> None:
    folder, name, address = Path(sys.argv[1]), *sys.argv[2:]
    tried: list[float] = []
    found = tune(
        toys.fonseca(variables=3),
        "phn-ls",
        Protocol("quick", Recipe(epochs=2), hf.rays(3, 2)),
        space={"lr": RATES},
        storage=address,
        callbacks=[Meets(folder, name)],
        notify=lambda study, trial: tried.append(trial.params["lr"]),
    )
    (folder / f"{name}.json").write_text(json.dumps({"tried": tried, "best": found.settings["lr"]}))


if __name__ == "__main__":
    main()
