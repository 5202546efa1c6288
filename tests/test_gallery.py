"""The gallery: its commands write its pages, and every page has a picture."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "docs" / "gallery.md"


def test_every_picture_links_to_the_page_that_the_commands_below_it_write():
    sections = GALLERY.read_text().split("\n## ")[1:]
    assert len(sections) == 6
    for section in sections:
        ((page, picture),) = re.findall(r'<a href="gallery/(\w+)\.html">!\[.+\]\(gallery/(\w+)\.webp\)</a>', section)
        assert page == picture and (ROOT / "docs" / "gallery" / f"{picture}.webp").stat().st_size < 40_000
        last = re.findall(r"^\$ (.*)", section, flags=re.MULTILINE)[-1]
        assert f"--static {page}.html" in last or last == f"python examples/{page}.py"


@pytest.mark.slow
def test_the_quick_gallery_has_its_pages(tmp_path):
    command = [sys.executable, str(ROOT / "docs" / "gallery.py"), "pages", "--quick"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {page.name: page.read_text() for page in (tmp_path / "pages").iterdir()}
    assert {*pages} == {"zdt2.html", "film_reviews.html"}
    assert "ZDT2, a concave front" in pages["zdt2.html"] and "Reviews of films" in pages["film_reviews.html"]
