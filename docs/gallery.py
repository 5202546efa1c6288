"""Build the pages of the gallery: run the commands that docs/gallery.md shows, and keep the pages that they write.

python docs/gallery.py build/docs/gallery                # the six pages; two minutes on one core
python docs/gallery.py build/docs/gallery --pictures     # their pictures in docs/gallery, too; needs Chromium
python docs/gallery.py build/quick --quick               # two of the pages, after an epoch or two
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
SIZE, SHOWN = {"width": 1360, "height": 860}, (680, 430)
"""The part of a page that a picture shows, and the size of the picture, in pixels."""
QUICK = re.compile("zdt2|film_reviews")
"""The pages of the quick form: one of a command, and one of a script."""


def sections() -> list[list[str]]:
    """The commands of each section of the gallery."""
    blocks = re.findall(r"^```console\n(.*?)^```", (DOCS / "gallery.md").read_text(), flags=re.DOTALL | re.MULTILINE)
    return [re.findall(r"^\$ (.*)", block, flags=re.MULTILINE) for block in blocks]


def quickly(command: str) -> str:
    """The command with less to train."""
    return f"{command} --epochs 1" if " train " in command else f"{command} --quick" if "python" in command else command


def run(command: str, folder: Path) -> None:
    """Run a command of the gallery in a folder."""
    program, *words = shlex.split(command)
    words = ["-m", "hyperfront", *words] if program == "hyperfront" else [str(ROOT / words[0]), *words[1:]]
    environment = (
        {"OMP_NUM_THREADS": "1"} | os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path])}
    )
    done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{command}\n{done.stdout}{done.stderr}")


def build(section: list[str], out: Path) -> Path:
    """Run the commands of a section, and return its page."""
    with TemporaryDirectory() as folder:
        for command in section:
            run(command, Path(folder))
        (page,) = Path(folder).glob("*.html")
        return Path(shutil.copy(page, out))


def photograph(pages: list[Path], out: Path) -> None:
    """Write a picture of the first screen of each page."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright, TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE)
        for file in pages:
            page.goto(file.resolve().as_uri())
            page.wait_for_timeout(1000)
            page.screenshot(path=Path(folder) / "page.png")
            picture = Image.open(Path(folder) / "page.png").convert("RGB").resize(SHOWN, Image.Resampling.LANCZOS)
            picture.save(out / f"{file.stem}.webp", quality=80, method=6)
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path, help="folder for the pages")
    parser.add_argument("--pictures", action="store_true", help="write the pictures of docs/gallery, too")
    parser.add_argument("--quick", action="store_true", help="two of the pages, after an epoch or two")
    options = parser.parse_args()
    chosen = sections()
    if options.quick:
        chosen = [[quickly(each) for each in section] for section in chosen if QUICK.search(section[-1])]
    options.out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pages = [*pool.map(partial(build, out=options.out), chosen)]
    if options.pictures:
        photograph(pages, DOCS / "gallery")
    sys.stdout.write(f"wrote {', '.join(page.name for page in pages)} to {options.out}\n")


if __name__ == "__main__":
    main()
