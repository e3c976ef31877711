"""The page to ask on, in a real browser."""

import pytest

from rag_pipeline_tests.testing.browser import BROWSER_MILLISECONDS, needs_chromium
from rag_pipeline_tests.testing.corpora import DOCUMENTS

pytestmark = needs_chromium


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_a_question_is_answered_with_its_source_highlighted(
    serving, browser, tmp_path, width, scheme
):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(BROWSER_MILLISECONDS)
    complaints = []
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(serving().url)
    page.fill("#question", "How expensive may a hotel be?")
    page.press("#question", "Enter")
    page.wait_for_selector("mark")
    assert "180 euros" in page.inner_text("#answer")
    assert page.inner_text("mark") in DOCUMENTS["policy/travel.md"]
    assert page.inner_text("#document").strip() == DOCUMENTS["policy/travel.md"].strip()
    assert [b.inner_text() for b in page.query_selector_all(".stage b")] == [
        "intent",
        "search",
        "answer",
        "citations",
    ]
    page.screenshot(path=tmp_path / "page.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert complaints == []
    context.close()


def test_a_token_is_asked_for_and_used(serving, browser):
    page = browser.new_page()
    page.set_default_timeout(BROWSER_MILLISECONDS)
    page.goto(serving(token="a-token-of-some-length").url)
    page.wait_for_selector("#token", state="visible")
    page.fill("#token", "a-token-of-some-length")
    page.fill("#question", "When is a doctor's note needed?")
    page.click("#ask")
    page.wait_for_selector("mark")
    assert "third day" in page.inner_text("#answer")
    page.close()
