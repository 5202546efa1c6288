"""A real browser for the tests of pages: Chromium, driven by Playwright."""

from __future__ import annotations

import shutil

import pytest

PATH = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
REASON = "needs Chromium: `make browser`, or install it by hand"


@pytest.fixture(scope="module")
def chromium():
    """The browser. It ends with the module: while it lives, so does an event loop, and others cannot run theirs."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install 'hyperfront[test]'")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=PATH, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()
