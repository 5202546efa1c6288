"""Record the moving picture of the README: a hand drags the handle over a front, and losses and predictions follow.

python examples/two_digits.py                        # writes the page
python docs/moving.py two_digits.html                # writes docs/explore.webp; needs Chromium

The script opens the page in Chromium, presses the mouse on the handle, moves it along the learned front and takes a
picture after each move. Nothing is drawn over the page but the hand.
"""

from __future__ import annotations

import argparse
import io
import math
import shutil
from itertools import pairwise
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

SIZE = {"width": 1000, "height": 900}
FRAMES, PAUSE, REST = 16, 130, 1400
"""Pictures in each direction, and milliseconds that a picture stays: in motion, and at rest."""
HAND = """
const hand = document.createElementNS("http://www.w3.org/2000/svg", "svg");
hand.setAttribute("viewBox", "0 0 24 28");
hand.style.cssText = "position:fixed;width:34px;pointer-events:none;z-index:9;left:-99px";
hand.innerHTML = `<path d="M9 26 C6 21 3 18 2 16 c-1-2 1-3 3-2 l3 3 V4 c0-2.6 3.6-2.6 3.6 0 v7 c0-2 3.4-2 3.4 0 v1.2
  c0-2 3.2-1.8 3.2 0.2 v1 c0-1.8 3-1.6 3 0.4 V19 c0 3-1.6 4-2 7 z" fill="#fff" stroke="#1c2126" stroke-width="1.6"
  stroke-linejoin="round"/>`;
document.body.append(hand);
addEventListener("pointermove", (event) => {
  hand.style.left = `${event.clientX - 9}px`;
  hand.style.top = `${event.clientY - 1}px`;
}, true);
"""
POINTS = """
[...document.querySelectorAll("#plot circle")].map((circle) => {
  const box = circle.getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2, box.width];
})
"""


def along(points: list[tuple[float, float]], count: int) -> list[tuple[float, float]]:
    """``count`` points at equal distances along a curve, slower at its ends."""
    lengths = [0.0]
    for one, two in pairwise(points):
        lengths.append(lengths[-1] + math.dist(one, two))
    found = []
    for step in range(count):
        reached = lengths[-1] * (1 - math.cos(math.pi * step / (count - 1))) / 2
        found.append(points[min(range(len(points)), key=lambda place: abs(lengths[place] - reached))])
    return found


def record(page: Page) -> list[tuple[Image.Image, int]]:
    """Pictures of the page with their milliseconds, from one end of the front to the other and back."""
    page.evaluate(HAND)
    circles = page.evaluate(POINTS)
    small = min(width for *_, width in circles)
    curve = sorted((x, y) for x, y, width in circles if width < 1.5 * small)
    curve = curve[len(curve) // 12 : -len(curve) // 12]
    there = along(curve, FRAMES)
    frames = []
    page.mouse.move(*there[0])
    page.mouse.down()
    for place in [*there, *there[-2::-1]]:
        page.mouse.move(*place)
        page.wait_for_timeout(250)
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        frames.append((picture, REST if place in (there[0], there[-1]) else PAUSE))
    page.mouse.up()
    return frames[:-1]  # the last is the first again


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("page", type=Path, help="a page of the explorer with two objectives")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "explore.webp")
    options = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.goto(options.page.resolve().as_uri())
        page.wait_for_timeout(1000)
        pictures, times = zip(*record(page))
        browser.close()
    first, *others = pictures
    first.save(options.out, save_all=True, append_images=others, duration=times, loop=0, quality=60, method=4)


if __name__ == "__main__":
    main()
