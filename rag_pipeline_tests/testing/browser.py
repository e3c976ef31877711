"""The browser that tests look at pages with."""

import shutil

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on this machine; on Debian: apt-get install chromium"
)
BROWSER_MILLISECONDS = 60_000
"""How long a page may take to show what a test waits for."""
