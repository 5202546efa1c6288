"""The table of methods by name. A new baseline is a file of its own, and one line in :data:`METHODS`."""

from __future__ import annotations

from hyperfront.comparison import hypernetwork, taught
from hyperfront.comparison.baselines import cpmtl, evolutionary, fair_classifiers, per_ray, single_task
from hyperfront.comparison.method import ComparisonJob, Method, Trained
from hyperfront.errors import unknown_name

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        *hypernetwork.METHODS,
        *per_ray.METHODS,
        *taught.METHODS,
        cpmtl.METHOD,
        *evolutionary.METHODS,
        single_task.METHOD,
        *fair_classifiers.METHODS,
    )
}


def find_method(name: str) -> Method:
    """The method of that name, or an error that suggests the nearest one."""
    if name not in METHODS:
        raise unknown_name("method", name, METHODS)
    return METHODS[name]


def stored_method(name: str, family: str) -> Method:
    """The method that a result file names; a record with defaults where the table does not have it."""
    return METHODS.get(name) or Method(name, label=name, summary="", family=family, train=_unknown)


def summary() -> str:
    """All methods, grouped by the models that they train, in one line for help texts."""
    groups: dict[str, list[str]] = {}
    for method in METHODS.values():
        groups.setdefault(method.summary, []).append(method.name)
    return "; ".join(f"{_listed(names)}: {summary}" for summary, names in groups.items())


def _listed(names: list[str]) -> str:
    """List names, with a common first word once.

    >>> _listed(["phn-epo", "phn-ls"]), _listed(["epo", "ls"])
    ('phn-(epo, ls)', 'epo, ls')
    """
    word = names[0].partition("-")[0] + "-"
    if len(names) == 1 or not all(name.startswith(word) for name in names):
        return ", ".join(names)
    return f"{word}({', '.join(name.removeprefix(word) for name in names)})"


def _unknown(job: ComparisonJob) -> Trained:
    raise unknown_name("method", job.method.name, METHODS)
