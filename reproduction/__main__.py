"""``python -m reproduction``: make the paper's tables and figures, list them, or show them on one page."""

from __future__ import annotations

import sys

import tyro
from tyro.extras import SubcommandApp

from hyperfront.apps.cli import guarded
from reproduction.command import list_items, make
from reproduction.report_command import report


def main(arguments: list[str] | None = None) -> None:
    app = SubcommandApp()
    for name, function in {"make": make, "list": list_items, "report": report}.items():
        app.command(name=name, help=(function.__doc__ or "").partition("\n")[0])(function)
    given = sys.argv[1:] if arguments is None else arguments
    with guarded():
        app.cli(prog="python -m reproduction", args=given or ["--help"], config=(tyro.conf.FlagCreatePairsOff,))


if __name__ == "__main__":
    main()
