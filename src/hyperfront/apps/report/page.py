"""The page of a report: one HTML text with pictures inside, which needs no script, no server and no network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

from hyperfront.apps.report import sections
from hyperfront.apps.report.sections import Subject
from hyperfront.errors import HyperfrontError
from hyperfront.front import Front
from hyperfront.model import ParetoModel
from hyperfront.problem import Problem
from hyperfront.storage.markup import Markup
from hyperfront.training.runs import RunFolder

STYLE = """
:root { color-scheme: light dark; --ink: #22262b; --paper: #f6f6f3; --card: #ffffff; --line: #dfe3e8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --paper: #15181b; --card: #1e2226; --line: #363c42; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); line-height: 1.5;
  font-family: system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 900px; margin: 0 auto; padding: 20px 16px 60px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 14px 18px;
  margin: 14px 0; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 8px 0; } h2 { font-size: 1.1rem; margin: 0 0 8px; }
p { margin: 6px 0; } pre { white-space: pre-wrap; background: var(--paper); padding: 10px; border-radius: 8px; }
ul { margin: 6px 0; padding-left: 20px; }
td, th { overflow-wrap: break-word; }
td:first-child, td:last-child { white-space: normal !important; overflow-wrap: normal; }
td:last-child { min-width: 6em; }
@media (max-width: 640px) {
  table { font-size: 0.78rem; } section { padding: 12px; }
  td, th { padding: 2px 4px !important; white-space: normal !important; min-width: 0 !important; }
}
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""Tables have inline styles; nothing else is allowed."""
Section = Callable[[Subject], Markup]
SECTIONS: Mapping[str, Section] = {
    "The chosen trade-off": sections.choice,
    "How sure it is": sections.uncertainty,
    "Groups": sections.groups,
    "The front": sections.front,
    "Data": sections.data,
    "Settings": sections.settings,
    "How to reproduce": sections.reproduce,
}


def report(
    model: ParetoModel,
    problem: Problem,
    front: Front,
    folder: RunFolder | None = None,
    *,
    ray: Sequence[float] | None = None,
    title: str | None = None,
    notes: str | None = None,
) -> str:
    """Make the report of a model with its measured ``front``; ``ray`` is by default the choice of training, or else the
    equal ray. ``title`` and ``notes`` replace those of the problem."""
    if not len(front):
        raise HyperfrontError("there is nothing to report", got="a front without rays")
    subject = Subject.of(model, problem, front, folder, ray)
    shown = problem.presentation
    heading = title or shown.title or (folder.path.resolve().name if folder else problem.name)
    words = [part.strip() for part in (shown.notes if notes is None else notes).split("\n\n") if part.strip()]
    parts = [f"<h1>{escape(heading)}</h1>", *(f"<p>{escape(part)}</p>" for part in words)]
    for name, section in SECTIONS.items():
        if body := section(subject):
            parts.append(f"<section><h2>{escape(name)}</h2>{body}</section>")
    return PAGE.format(title=escape(heading), policy=POLICY, style=STYLE, body="\n".join(parts))


PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>{style}</style>
</head>
<body><main>
{body}
</main></body>
</html>
"""
