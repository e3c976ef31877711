"""The page to ask on, in a real browser."""

import re
from urllib.parse import quote, urlencode

from rag_pipeline_tests.testing.browser import accessibility_faults, needs_chromium
from rag_pipeline_tests.testing.corpora import DOCUMENTS

pytestmark = needs_chromium


def test_a_question_is_answered_with_its_source_highlighted(serving, page, released):
    page.goto(serving().url)
    facts = page.wait_for_selector("#facts:not(:empty)").inner_text()
    passages = released.release().pinned.rows
    assert facts.startswith(f"tiny. 4 documents, {passages} passages, as of ")
    starters = page.locator("#starters button")
    starters.first.wait_for()
    assert "How expensive may a hotel be?" in starters.all_inner_texts()
    assert accessibility_faults(page) == []
    page.keyboard.press("Escape")
    page.locator("body").press("Tab")
    starters.filter(has_text="How expensive may a hotel be?").press("Enter")
    page.wait_for_selector("mark")
    assert "180 euros" in page.inner_text("#answer")
    assert page.evaluate("document.activeElement.id") == "kind", "a screen reader reads it next"
    assert page.inner_text("#confidence").startswith("Confidence: ")
    assert page.inner_text("mark") in DOCUMENTS["policy/travel.md"]
    lines = [line.lstrip("# ") for line in DOCUMENTS["policy/travel.md"].splitlines()]
    shown = page.inner_text("#document").splitlines()
    assert [*filter(None, shown)] == [*filter(None, lines)]
    assert not page.locator(".stage").first.is_visible(), "how it was found is shown on demand"
    page.locator("summary").press("Enter")
    stages = page.locator(".stage b").all_inner_texts()
    assert stages == ["intent", "search", "answer", "citations"]
    assert accessibility_faults(page) == []
    page.locator("body").press("/")
    assert page.evaluate("document.activeElement.id") == "question"


def test_without_an_answer_the_nearest_passages_are_offered(serving, page):
    page.goto(serving().url)
    page.fill("#question", "What is the boiling point of mercury in Tasmania?")
    page.press("#question", "Enter")
    page.wait_for_selector(".source q")
    assert page.inner_text("#kind") == "No answer found"
    assert page.inner_text("#sources-title").startswith("The nearest passages")
    assert 1 <= page.locator(".source").count() <= 3
    said = page.inner_text("#confidence")
    assert said.startswith("Confidence that the documents answer it: low (")
    shown = page.locator(".source q").first.inner_text().removesuffix("…")
    plain = (" ".join(re.sub("[#*|]", " ", text).split()) for text in DOCUMENTS.values())
    assert any(shown in text for text in plain)
    page.wait_for_selector("mark")
    assert accessibility_faults(page) == []


def test_the_address_holds_the_question_and_no_server_gets_it(serving, page):
    url = serving().url
    hotel, sick = "How expensive may a hotel be?", "When is a doctor's note needed?"
    for question, answer in ((hotel, "180 euros"), (sick, "third day")):
        page.goto(f"{url}/?q={quote(question)}")
        page.locator("#answer", has_text=answer).wait_for()
        assert page.input_value("#question") == question, "a link with ?q= is asked"
    page.goto(url)
    got = []
    page.on("request", lambda request: got.append(request.url))
    page.fill("#question", hotel)
    page.press("#question", "Enter")
    page.locator("#answer", has_text="180 euros").wait_for()
    assert page.url == f"{url}/#{urlencode({'q': hotel})}"
    page.reload()
    page.locator("#answer", has_text="180 euros").wait_for()
    page.fill("#question", sick)
    page.press("#question", "Enter")
    page.locator("#answer", has_text="third day").wait_for()
    page.go_back()
    page.locator("#answer", has_text="180 euros").wait_for()
    assert (page.input_value("#question"), page.title().partition(" - ")[0]) == (hotel, hotel)
    page.go_back()
    page.wait_for_selector("#result", state="hidden")
    assert page.is_visible("#starters") and page.input_value("#question") == ""
    assert not [address for address in got if "hotel" in address.partition("#")[0]]


def test_the_question_before_completes_the_next(serving, page):
    page.goto(serving().url)
    whole = "Which law governs the Cedar NDA?"
    for question in ("Which law governs the Acme NDA?", "And the Cedar NDA?"):
        page.fill("#question", question)
        page.press("#question", "Enter")
        page.wait_for_function("asked => document.title.startsWith(asked)", arg=question)
        page.wait_for_selector("#ask:enabled")
    assert whole in page.inner_text("#kind")
    page.reload()
    page.locator("#kind", has_text=whole).wait_for()
    page.click("#alone")
    page.wait_for_selector("#alone", state="hidden")
    page.wait_for_selector("#ask:enabled")
    assert page.url.endswith(f"/#{urlencode({'q': question})}"), "no question before"
    assert whole not in page.inner_text("#kind")
    page.click("#new")
    page.wait_for_selector("#result", state="hidden")
    assert page.input_value("#question") == "" and page.is_hidden("#new")
    assert page.url == page.url.partition("#")[0]


def test_tables_and_headings_of_a_document_are_laid_out_and_its_span_stays_marked(serving, page):
    page.goto(serving().url)

    def laid_out(name, text, quote):
        page.evaluate(
            """([name, text, start, end]) => {
              at("result").hidden = false;
              layOut(at("document"), name, text, start, end);
            }""",
            [name, text, text.index(quote), text.index(quote) + len(quote)],
        )
        assert accessibility_faults(page) == []
        tags = "elements => elements.map((one) => one.tagName + ' ' + one.textContent.trim())"
        marked = page.locator("#document mark").all_text_contents()
        return page.eval_on_selector_all("#document :is(h3, h4, th, td, p)", tags), marked

    word = "# <b>Cars</b>\n\nAll.\n\n| | |\n|---|---|\n| Reg | Due |\n| G \\| 1 | **May** |\n## End"
    elements, marked = laid_out("cars.docx", word, "| G \\| 1 | **May** |")
    assert elements == [
        *("H3 <b>Cars</b>", "P All.", "TH Reg", "TH Due", "TD G \\| 1", "TD May", "H4 End"),
    ]
    assert [one.strip() for one in marked] == ["G \\| 1", "May"]
    separated = 'Reg;Due\n"a; <i>b</i>";May\n'
    elements, marked = laid_out("cars.csv", separated, '"a; <i>b</i>"')
    assert elements == ["TH Reg", "TH Due", "TD a; <i>b</i>", "TD May"]
    assert marked == ["a; <i>b</i>"]
    elements, marked = laid_out("notes.py", "# no heading\n| no | table |", "heading\n| no")
    assert (elements, marked) == ([], ["heading\n| no"])
    assert page.inner_text("#document") == "# no heading\n| no | table |"


def test_a_token_is_asked_for_and_used(serving, tab):
    tab.goto(serving(token="a-token-of-some-length").url)
    tab.wait_for_selector("#token", state="visible")
    tab.fill("#token", "a-token-of-some-length")
    tab.fill("#question", "When is a doctor's note needed?")
    tab.click("#ask")
    tab.wait_for_selector("mark")
    assert "third day" in tab.inner_text("#answer")


def test_a_quoted_row_has_no_pipes_and_a_phone_scrolls_to_its_source(serving, page):
    page.goto(serving().url)
    page.set_viewport_size({"width": 390, "height": 850})
    page.fill("#question", "How expensive may a hotel be?")
    page.press("#question", "Enter")
    page.wait_for_selector("mark")
    page.click("#source-1")
    assert page.evaluate("scrollY") > 0, "the source began in the lower half"
    bottom = page.evaluate("document.querySelector('mark').getBoundingClientRect().bottom")
    assert bottom <= 850, "the mark is on the screen"
    page.evaluate("showAnswer('Meaning: weak\\n“| Yellow | Battery \\\\| cell |  |” [1]', [])")
    assert page.inner_text("#answer").split("\n")[1] == r"“Yellow · Battery \| cell” [1]"
    page.evaluate("showAnswer('“* Ask [Ada](a.md).” [1] “# Fees” [2]', [])")
    assert page.inner_text("#answer") == "“Ask Ada.” [1] “Fees” [2]"
    rows = [r"| a.md | “\| Tow \| £90 \|” [1] |", "| b.md | No fee. [2] |"]
    table = "\n".join(["Both:", "| document | what it says |", "| --- | --- |", *rows, "", "So."])
    page.evaluate("text => showAnswer(text, ['No fee.'])", table)
    assert page.inner_text("#answer :is(mark)") == "No fee."
    assert page.locator("#answer :is(th, td)").all_inner_texts() == [
        *("document", "what it says", "a.md", "“Tow · £90” [1]", "b.md", "No fee. [2]"),
    ]
    assert "|" not in page.inner_text("#answer") and "---" not in page.inner_text("#answer")
    assert accessibility_faults(page) == []


def test_each_source_names_its_document(serving, page):
    page.goto(serving().url)
    sources = [("x/a.md", 1, "row 3"), ("x/a.md", 2, "row 1"), ("b.md", 3, "page 1")]
    shown = page.evaluate(
        """sources => sources.map(([document_id, number, label], n, all) => {
          const like = { corpus: "tiny", verified: true, supports: true, copies: [] };
          const above = n ? { ...like, document_id: all[n - 1][0] } : undefined;
          return sourceButton({ ...like, document_id, number, place: { label } }, "", above);
        }).map((item) => item.querySelector("b").textContent + "; "
          + item.querySelector("small").textContent.split("·")[0].trim())""",
        sources,
    )
    assert shown == ["[1] x/a.md; row 3", "[2] a.md; row 1", "[3] b.md; page 1"]
