"""A real browser for the tests of pages: Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import pytest

from tests.helpers.waiting import LIMIT

PATH = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DESKTOP = {"width": 1280, "height": 860}
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


@contextmanager
def opened(browser, url, **options):
    """A page, on which nothing may go wrong and which may ask nobody but its own server."""
    context = browser.new_context(**{"viewport": DESKTOP, "reduced_motion": "reduce", **options})
    page = context.new_page()
    faults = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda line: faults.append(line.text) if line.type == "error" else None)
    page.on("dialog", lambda dialog: faults.append(dialog.message))
    page.on(
        "request", lambda request: None if request.url.startswith(url.split("#")[0]) else faults.append(request.url)
    )
    page.goto(url)
    page.wait_for_function("() => state.predictions !== null")
    yield page
    context.close()
    assert not [fault for fault in faults if "422" not in fault]
