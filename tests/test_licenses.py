"""Dependencies: docs/licenses.md has the license of each, none under the GPL; and their files can be held to hashes."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def script(name: str):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


licenses, hashes = script("licenses"), script("hashes")
PAGE = licenses.listed((DOCS / "licenses.md").read_text())


def test_the_page_lists_every_dependency_that_the_default_install_states():
    assert licenses.direct() and licenses.direct() <= PAGE.keys()


def test_the_page_has_the_license_that_each_package_states():
    """Other versions than those of the page may be installed here, with other licenses."""
    packages = licenses.needed(licenses.PROJECT, licenses.EXTRAS)
    same = {name: package for name, package in packages.items() if PAGE.get(name, ("",))[0] == package.version}
    assert {name: PAGE[name][1] for name in same} == {name: licenses.license_of(p) for name, p in same.items()}


def test_the_default_install_has_no_package_under_the_gpl_and_says_which_one_is_under_the_lgpl():
    found = {name: licenses.license_of(package) for name, package in licenses.needed(licenses.PROJECT).items()}
    assert found
    lesser = {name for name, text in found.items() if re.search(r"LGPL|Lesser General Public", text)}
    full = {n for n, text in found.items() if re.search(r"(?<!L)GPL|General Public", text)} - lesser
    assert not full and lesser <= {"moocore"}
    assert "moocore" in (DOCS / "licenses.md").read_text()


def test_pip_installs_only_files_with_the_hashes_of_its_own_report(tmp_path):
    wheel = tmp_path / "checked-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("checked-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: checked\nVersion: 1\n")
        file.writestr("checked-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr("checked-1.dist-info/RECORD", "")
    local = ["--dry-run", "--ignore-installed", "--no-index", "--find-links", str(tmp_path)]

    def pip(*words: str) -> int:
        command = [sys.executable, "-m", "pip", "install", "--quiet", *local, *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True).returncode

    assert pip("--report", "report.json", "checked") == 0
    (line,) = hashes.lines(json.loads((tmp_path / "report.json").read_text()))
    assert line.startswith("checked==1 --hash=sha256:")
    (tmp_path / "right.txt").write_text(line)
    (tmp_path / "wrong.txt").write_text(line[:-4] + ("0000" if line[-4:] != "0000" else "1111"))
    assert pip("--require-hashes", "--no-deps", "-r", "right.txt") == 0
    assert pip("--require-hashes", "--no-deps", "-r", "wrong.txt") != 0
