"""``hyperfront problems``: the built-in problems that train, compare and tune take."""

from __future__ import annotations

from typing import Annotated

import tyro

from hyperfront.apps.cli.output import console
from hyperfront.problem.registry import entry
from hyperfront.problem.registry import problems as registered


def problems(
    name: Annotated[
        str | None, tyro.conf.Positional, tyro.conf.arg(metavar="PROBLEM", help_behavior_hint="(default: all)")
    ] = None,
) -> None:
    """List the built-in problems, with their presets and arguments.

    The first preset is the default. The first value of an argument is its default; N stands for a number. Examples:
        hyperfront problems
        hyperfront problems adult
        hyperfront train dtlz2 --arguments m=4
        hyperfront train adult --preset best --arguments gap=logit

    Args:
        name: The problem to show.
    """
    for each in registered() if name is None else [name]:
        known = entry(each)
        console.print(f"[bold]{each}[/bold]  {known.summary}", soft_wrap=True)
        console.print(f"  presets    {', '.join(known.presets)}", soft_wrap=True)
        if known.arguments:
            console.print(f"  arguments  {known.arguments}", soft_wrap=True, markup=False)
