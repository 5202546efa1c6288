"""A requirements file with the hash of every package, from a report of pip.

python -m pip install --dry-run --ignore-installed --report report.json -c constraints.txt '.[serve]'
python docs/hashes.py report.json > requirements-hashes.txt
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def lines(report: dict[str, Any]) -> list[str]:
    """One line for each package that comes as a file: ``name==version --hash=sha256:...``; the project has none."""
    found = []
    for entry in report["install"]:
        if "dir_info" in entry["download_info"]:
            continue
        package, file = entry["metadata"], entry["download_info"]["archive_info"]
        found.append(f"{package['name'].lower()}=={package['version']} --hash=sha256:{file['hashes']['sha256']}")
    return sorted(found)


if __name__ == "__main__":
    print("\n".join(lines(json.loads(Path(sys.argv[1]).read_text()))))  # noqa: T201
