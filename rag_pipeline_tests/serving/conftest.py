from contextlib import ExitStack

import pytest

from rag_pipeline.assistant import open_assistant
from rag_pipeline_tests.testing import app_server
from rag_pipeline_tests.testing.browser import BROWSER_MILLISECONDS


@pytest.fixture
def own(released):
    return open_assistant([released])


@pytest.fixture
def serving(own):
    """Return a function that starts a server with settings; all are stopped at the end."""
    with ExitStack() as running:
        yield lambda **settings: running.enter_context(app_server.serving(own, **settings))


@pytest.fixture
def tab(browser):
    """Return a page of the browser, without conditions."""
    page = browser.new_page()
    page.set_default_timeout(BROWSER_MILLISECONDS)
    yield page
    page.close()


@pytest.fixture(params=[(1280, "light"), (390, "dark")], ids=["wide", "narrow"])
def page(request, browser, tmp_path):
    """Return a page of a light or a dark screen; it must fit, and complain of nothing."""
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(BROWSER_MILLISECONDS)
    complaints = []
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    page.screenshot(path=tmp_path / "page.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert complaints == []
    context.close()
