"""The page to ask on, in a real browser."""

from rag_pipeline_tests.testing.browser import needs_chromium
from rag_pipeline_tests.testing.corpora import DOCUMENTS

pytestmark = needs_chromium


def test_a_question_is_answered_with_its_source_highlighted(serving, page):
    page.goto(serving().url)
    page.fill("#question", "How expensive may a hotel be?")
    page.press("#question", "Enter")
    page.wait_for_selector("mark")
    assert "180 euros" in page.inner_text("#answer")
    assert page.inner_text("mark") in DOCUMENTS["policy/travel.md"]
    assert page.inner_text("#document").strip() == DOCUMENTS["policy/travel.md"].strip()
    stages = [b.inner_text() for b in page.query_selector_all(".stage b")]
    assert stages == ["intent", "search", "answer", "citations"]


def test_a_token_is_asked_for_and_used(serving, tab):
    tab.goto(serving(token="a-token-of-some-length").url)
    tab.wait_for_selector("#token", state="visible")
    tab.fill("#token", "a-token-of-some-length")
    tab.fill("#question", "When is a doctor's note needed?")
    tab.click("#ask")
    tab.wait_for_selector("mark")
    assert "third day" in tab.inner_text("#answer")
