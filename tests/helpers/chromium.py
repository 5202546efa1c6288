"""A real browser for the tests of pages: Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers.waiting import LIMIT

PATH = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
REASON = "needs Chromium: `make browser`, or install it by hand"


PATIENCE = 1000 * LIMIT
"""Milliseconds that a page may take for anything, on a busy machine."""


def patient(make: Callable[..., Any]) -> Callable[..., Any]:
    """Let the pages that a method of the browser makes wait for longer than half a minute."""

    def made(**options: Any) -> Any:
        found = make(**options)
        found.set_default_timeout(PATIENCE)
        return found

    return made


@pytest.fixture(scope="module")
def chromium():
    """The browser. It ends with the module: while it lives, so does an event loop, and others cannot run theirs."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install 'hyperfront[test]'")
    with playwright.sync_playwright() as running:
        args = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = running.chromium.launch(executable_path=PATH, args=args, timeout=PATIENCE)
        browser.new_context, browser.new_page = patient(browser.new_context), patient(browser.new_page)
        yield browser
        browser.close()
