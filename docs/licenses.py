"""The licenses of all dependencies, as packages state them: ``python docs/licenses.py > docs/licenses.md``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = "hyperfront"
EXTRAS = ("explore", "serve", "export", "sklearn", "tabular", "lightning", "data", "compare", "log", "mlflow", "wandb")
"""The extras for users."""
_SHORT = {
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "BSD License": "BSD",
    "MIT License": "MIT",
    "The MIT License": "MIT",
}


def license_of(package: Distribution) -> str:
    """The license that a package states: an expression, else its classifiers, else a name."""
    found = package.metadata
    if expression := found.get("License-Expression"):
        return expression
    prefix = "License :: OSI Approved :: "
    named = [text.removeprefix(prefix) for text in found.get_all("Classifier", []) if text.startswith(prefix)]
    stated = " AND ".join(named) or (found.get("License") or "").strip().partition("\n")[0] or "not stated"
    return _SHORT.get(stated, stated)


def needed(name: str, extras: Iterable[str] = ()) -> dict[str, Distribution]:
    """The installed packages that a package needs with these extras, and those that they need, by name."""
    found: dict[str, Distribution] = {}
    waiting = [(name, frozenset(extras))]
    seen = set(waiting)
    while waiting:
        package, wanted = waiting.pop()
        for text in distribution(package).requires or ():
            requirement = Requirement(text)
            marker = requirement.marker
            if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in ("", *wanted)):
                continue
            key = canonicalize_name(requirement.name)
            try:
                own = distribution(key)
            except PackageNotFoundError:
                continue
            if key != canonicalize_name(PROJECT):
                found[key] = own
            if (entry := (key, frozenset(requirement.extras))) not in seen:
                seen.add(entry)
                waiting.append(entry)
    return dict(sorted(found.items()))


def direct() -> set[str]:
    """The names of the dependencies that the default install states itself."""
    texts = [Requirement(text) for text in distribution(PROJECT).requires or ()]
    return {canonicalize_name(r.name) for r in texts if r.marker is None or r.marker.evaluate({"extra": ""})}


def listed(page: str) -> dict[str, tuple[str, str]]:
    """The version and the license of each package on the page."""
    return {name: (version, text) for name, version, text in re.findall(r"^\| (\S+) \| (\S+) \| (.+?) \|", page, re.M)}


def table(packages: dict[str, Distribution]) -> str:
    rows = [f"| {name} | {package.version} | {license_of(package)} |" for name, package in packages.items()]
    return "\n".join(["| package | version | license |", "|---|---|---|", *rows])


def page() -> str:
    """The page in Markdown."""
    own = needed(PROJECT)
    more = {name: package for name, package in needed(PROJECT, EXTRAS).items() if name not in own}
    return f"""# Licenses

hyperfront itself is under the MIT license. These are the licenses that its dependencies state, with the versions of
`constraints.txt`, written by `python docs/licenses.py > docs/licenses.md`. None is under the GPL. One package of the
default install, moocore (exact hypervolumes), is under the LGPL: you may use it from any program; whoever passes on a
changed moocore must pass on its source too. With a GPU, PyTorch also installs NVIDIA's libraries, which have licenses
of their own.

## The default install

{table(own)}

## Further packages of the extras {", ".join(EXTRAS)}

{table(more)}
"""


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201
