"""The browser that tests look at pages with."""

import shutil

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on this machine; on Debian: apt-get install chromium"
)
BROWSER_MILLISECONDS = 60_000
"""How long a page may take to show what a test waits for."""


def accessibility_faults(page: Page) -> list[str]:
    """Return each rule that axe-core finds broken on a page, with the element that breaks it."""
    found = Axe().run(page).response["violations"]
    return [f"{rule['id']}: {node['html']}" for rule in found for node in rule["nodes"]]
