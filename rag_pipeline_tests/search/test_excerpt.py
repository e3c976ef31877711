from rag_pipeline.search.excerpt import excerpt

LEASE = (
    "2.1 Base rent under the Kestrel lease is USD 31,250 a month. "
    "2.2 The Kestrel lease abates it for the first six (6) months if the Tenant pays when due. "
    "3.1 The Tenant of the Kestrel lease shall provide a security deposit of USD 93,750. "
    "3.2 It is returned within sixty days after the Kestrel lease ends."
)


def test_a_text_that_fits_is_shown_whole():
    assert excerpt("One\n  two.", "two", 8) == "One two."


def test_the_sentence_that_the_query_asks_for_is_shown_first():
    shown = excerpt(LEASE, "What is the security deposit under the Kestrel lease?", 100)
    assert shown == "…" + LEASE[LEASE.index("3.1") :][:98] + "…"
    assert "a security deposit of USD 93,750." in shown


def test_the_last_sentences_are_shown_with_those_before():
    shown = excerpt(LEASE, "When is it returned after the end?", 160)
    assert shown == "…" + LEASE[LEASE.index("3.1") :]


def test_without_a_word_of_the_query_the_beginning_is_shown():
    assert excerpt(LEASE, "xylophone", 20) == "2.1 Base rent under…"
    assert excerpt("x" * 400, "", 10) == "x" * 9 + "…"
