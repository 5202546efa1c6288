"""The section of a model card on the chosen trade-off: its limits, its values, and the guarantee."""

from __future__ import annotations

from hyperfront.errors import HyperfrontError
from hyperfront.export.markdown import bullets, escaped, number, table
from hyperfront.front import Front, Selection

SPLITS = {"val": "validation", "test": "test"}


def chosen(choice: Selection | None, test: Front | None) -> str:
    """The question, the values at its ray on the rows that chose it and on test rows, and the certificate."""
    if choice is None:
        return ""
    reached = test.columns() if test is not None else {}
    if test is not None and (len(test) != 1 or not {*choice.values} <= {*reached}):
        raise HyperfrontError(
            "the test front is not the chosen point",
            got=f"{len(test)} rays, {', '.join(reached)}",
            expected=f"1 ray, with {', '.join(choice.values)}",
            fix="hf.evaluate(model, problem.test, choice.ray)",
        )
    rows = []
    for name, value in choice.values.items():
        sign, bound = choice.limits.get(name, ("", 0.0))
        asked = f"{sign} {number(bound)}" if sign else "goal" if name == choice.goal else ""
        on_test = [number(reached[name].item())] if test is not None else []
        rows.append([escaped(choice.meanings[name].title), asked, number(value), *on_test])
    header = ["loss or score", "asked", SPLITS.get(choice.split or "", "measured"), *(["test"] if test else [])]
    parts = [f"Asked: {escaped(choice.question)}.", table(header, rows)]
    if choice.certificate is None:
        limited = "No limit is certified: on other rows the limited values may differ by chance."
        return "\n\n".join([*parts, *([limited] if choice.limits else [])])
    certified = [escaped(line.strip()) for line in str(choice.certificate).splitlines()]
    return "\n\n".join([*parts, bullets(certified)])
