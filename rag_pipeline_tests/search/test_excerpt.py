from rag_pipeline.datamodels import ScoredChunk
from rag_pipeline.search.excerpt import excerpt, readable
from rag_pipeline.serving.local import with_excerpts

LEASE = (
    "2.1 Base rent under the Kestrel lease is USD 31,250 a month. "
    "2.2 The Kestrel lease abates it for the first six (6) months if the Tenant pays when due. "
    "3.1 The Tenant of the Kestrel lease shall provide a security deposit of USD 93,750. "
    "3.2 It is returned within sixty days after the Kestrel lease ends."
)


def test_a_text_that_fits_is_shown_whole():
    assert excerpt("One\n  two.", "two", 8).text == "One two."


def test_the_sentence_that_the_query_asks_for_is_shown_first():
    shown = excerpt(LEASE, "What is the security deposit under the Kestrel lease?", 100).text
    assert shown == "…" + LEASE[LEASE.index("3.1") :][:98] + "…"
    assert "a security deposit of USD 93,750." in shown


def test_the_last_sentences_are_shown_with_those_before():
    shown = excerpt(LEASE, "When is it returned after the end?", 160).text
    assert shown == "…" + LEASE[LEASE.index("3.1") :]


def test_without_a_word_of_the_query_the_beginning_is_shown():
    assert excerpt(LEASE, "xylophone", 20).text == "2.1 Base rent under…"
    assert excerpt("x" * 400, "", 10).text == "x" * 9 + "…"


def test_a_word_within_a_long_sentence_is_shown():
    words = "and so on " * 40
    shown = excerpt(
        f"First, {words}the pump is replaced, {words}", "Who replaces the pumps?", 80
    ).text
    assert len(shown) <= 80 and "the pump is replaced," in shown


def test_a_word_is_found_by_its_stem_in_the_language_of_the_text():
    text = "Das Büro ist im ersten Stock. " * 9 + "Die Verträge liegen beim Einkauf."
    assert excerpt(text, "Wo liegt der Vertrag?", 60).text.endswith(
        "Die Verträge liegen beim Einkauf."
    )


def test_headings_and_rows_are_shown_without_their_marks():
    rows = "| part | count |\n|---|---|\n| P-1 | 4 |"
    text = f"# Stock\n\n## Hall A\nFans are\nspare. Ask Ada.\n\n{rows}"
    assert (
        excerpt(text, "", 99).text
        == "Stock: Hall A: Fans are spare. Ask Ada. part · count; P-1 · 4"
    )
    assert excerpt(text, "P-1", 12).text == "…P-1 · 4"
    assert excerpt(text, "spare fans", 20).text == "…Fans are spare. As…"


def test_emphasis_and_bars_of_rows_are_left_out():
    quoted = "“The fee is **12 %**, *not* 2**3 or 5 * 4 * 3.” [1]\n“| **Tow** | a \\| b |” [2]"
    plain = "“The fee is 12 %, not 2**3 or 5 * 4 * 3.” [1]\n“Tow · a \\| b” [2]"
    assert readable(quoted) == plain
    assert readable("“* Ask [Ada](a.md).” [1] “## Fees” [2] “- a\n- b” [3]") == (
        "“Ask Ada.” [1] “Fees” [2] “- a\n- b” [3]"
    )
    assert excerpt("**Note:** the *fee* is due.", "fee", 80).text == "Note: the fee is due."


def test_the_span_of_an_excerpt_holds_its_words_in_the_text():
    text = "See [the **old** terms](https://a.example/1).\n\n## Fees\n\n| Tow | £90 |\n\nAsk Ada."
    for query, words in (("tow", "Tow | £90 |\n\nAsk Ada"), ("old", "See [the **old** terms")):
        part = excerpt(text, query, 19)
        assert text[part.start : part.end] == words
    chunk = ScoredChunk("d#5", "d", 5, 99, text, 1.0)
    (passage,) = with_excerpts([chunk], "tow", lambda chunks: [None for _ in chunks])
    assert (passage.excerpt.start, passage.excerpt.end) == (5, 5 + len(text))
    assert (passage.start, passage.text) == (5, text)


def test_the_place_of_an_excerpt_is_asked_by_its_span_in_the_document():
    text = "x " * 200 + "Tow costs £90."
    asked = []

    def places(found):
        asked.append([(one.start, one.end) for one in found])
        return [None] * len(found)

    with_excerpts([ScoredChunk("d#5", "d", 5, 419, text, 1.0)], "tow", places)
    # At once, so that a document is read once; from a third of 300 before Tow, at 400.
    assert asked == [[(5, 419), (5 + 300, 5 + 413)]]
