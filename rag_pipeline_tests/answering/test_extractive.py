import math
from dataclasses import replace

import numpy as np
import pytest

from rag_pipeline.answering import agreement
from rag_pipeline.answering.agreement import ranked_sentences
from rag_pipeline.answering.extractive import (
    FEATURES,
    NOTHING_ANSWERS,
    extract_answers,
    sentence_features,
)
from rag_pipeline.answering.forms import form_answers
from rag_pipeline.answering.reading import Cut, Passage, read_passages, sentence_vectors
from rag_pipeline.answering.sentences import is_table_head, spans_of
from rag_pipeline.config import ExtractiveAnswers
from rag_pipeline.config.models import Tokens
from rag_pipeline.datamodels import ScoredChunk, SearchResult
from rag_pipeline.models.providers.minilm import MiniLMTokens
from rag_pipeline_tests.testing.chunking import scored

DOCUMENT = (
    "1. Term. This agreement begins on 3 May 2021. The obligations of confidentiality last for "
    "five (5) years from the date of disclosure. 2. Governing law. The laws of Delaware apply to "
    "this agreement. 3. Notices. Notices are sent by registered post."
)


def chunk(start: int, end: int, document_id: str = "nda.txt") -> ScoredChunk:
    return scored(document_id, DOCUMENT[start:end], start=start)


EQUAL = np.ones(40_000, np.float32)
"""Weights of an index with token vectors: its passages are read by tokens."""


def answer(query, chunks, weights=EQUAL, **settings):
    found = SearchResult(query=query, chunks=chunks, token_weights=weights)
    return extract_answers([found], ExtractiveAnswers(**settings), sentence_vectors)[0]


def test_the_answer_is_the_sentence_that_answers_with_its_place_in_the_document():
    middle = DOCUMENT.index(" 2. Governing")
    chunks = [chunk(middle + 1, len(DOCUMENT)), chunk(0, middle)]
    found = answer("How long does confidentiality last?", chunks, sentences=1)
    (citation,) = found.citations
    assert found.answered
    assert citation.text == found.text
    assert "five (5) years" in found.text
    assert DOCUMENT[citation.start : citation.end] == citation.text
    assert (citation.number, citation.chunk_id) == (1, chunks[1].chunk_id)


def test_every_citation_is_verbatim_and_there_are_no_more_than_asked_for():
    chunks = [chunk(0, 140), chunk(60, len(DOCUMENT))]
    found = answer("Which law governs this agreement and its term?", chunks, sentences=2)
    assert 1 <= len(found.citations) <= 2
    assert found.text == "\n".join(c.text for c in found.citations)
    assert all(DOCUMENT[c.start : c.end] == c.text for c in found.citations)
    assert len({(c.start, c.end) for c in found.citations}) == len(found.citations)


def test_the_best_sentence_is_cited_first():
    found = answer("Which law governs the agreement?", [chunk(0, len(DOCUMENT))], sentences=3)
    assert "Delaware" in found.citations[0].text
    assert [c.number for c in found.citations] == list(range(1, len(found.citations) + 1))


def test_it_says_when_nothing_answers():
    found = answer("How do I bake sourdough bread?", [chunk(0, len(DOCUMENT))])
    assert (found.answered, found.text, found.citations) == (False, NOTHING_ANSWERS, ())
    sure = answer("How long does confidentiality last?", [chunk(0, len(DOCUMENT))])
    assert sure.confidence > found.confidence


def test_without_chunks_or_words_nothing_answers_and_no_model_is_asked():
    class Refusing:
        def question(self, text):
            raise AssertionError("nothing to read")

        passage = question

    for chunks in ([], [scored("a", " – ")]):
        found = SearchResult(query="How long?", chunks=chunks)
        (made,) = extract_answers([found], ExtractiveAnswers(), Refusing())
        assert not made.answered


def test_only_the_first_contexts_are_read():
    end = DOCUMENT.index("The obligations")
    chunks = [chunk(0, end), chunk(end, len(DOCUMENT))]
    found = answer("How long does confidentiality last?", chunks, contexts=1)
    assert all(citation.chunk_id == chunks[0].chunk_id for citation in found.citations)


def test_further_passages_are_read_only_where_the_first_hardly_meet_the_question():
    end = DOCUMENT.index("The obligations")
    unlike = scored("lunch.txt", "The canteen opens at noon on all days.")
    long = chunk(end, len(DOCUMENT))
    query = "How long do the obligations of confidentiality last?"

    def cited(first_chunk, other):
        chunks = [first_chunk, other]
        found = SearchResult(query=query, chunks=chunks, contexts=1, token_weights=EQUAL)
        (made,) = form_answers([found], ExtractiveAnswers(), sentence_vectors)
        return {citation.document_id for citation in made.citations}

    assert cited(unlike, long) == {"nda.txt"}
    assert cited(long, unlike) == {"nda.txt"}
    again = scored("other.txt", long.text.replace("five", "six"))
    assert cited(long, again) == {"nda.txt"}


def test_a_name_that_the_question_holds_weighs_less_than_what_it_asks(monkeypatch):
    monkeypatch.setattr(agreement, "multilingual", lambda: None)
    text = "All of it is made for Halvorsk Marine. The penalty is paid at once."
    found = answer(
        "What penalty does Halvorsk Marine owe?",
        [scored("d", text)],
        None,
    )
    assert found.citations[0].text == "The penalty is paid at once."


class _Two:
    """Reads a query of two tokens, and a chunk of two sentences with one token each."""

    def question(self, text):
        return Tokens(np.array([1, 2], np.uint32), np.array([[1.0, 0.0], [0.0, 1.0]], np.float32))

    def passage(self, chunk):
        # By its signs (1, -1) / root of 2, the first sentence's token is near the query's first,
        # the third, which is the context's, near the second.
        signs = np.array([[1, 0], [1, 1], [0, 1]], np.float32)
        return Passage(chunk, signs, lambda: Cut(np.array([1, 3], np.uint32), np.array([0, 19])))


def test_features_are_what_the_definitions_say():
    text = "Alpha stands here. Beta stands for ten days."
    chunks = [scored("d", text, 0.5)]
    weights = np.array([1.0, 3.0, 1.0, 2.0], np.float32)
    query = "how long alpha beta?"
    read = read_passages(query, chunks, _Two())
    sentences, found = sentence_features(query, read, _Two(), weights)
    assert [s.text for s in sentences] == ["Alpha stands here.", "Beta stands for ten days."]
    half = 1 / math.sqrt(2)
    first, second = (dict(zip(FEATURES, row, strict=True)) for row in found)
    # The query's tokens weigh 3 : 1; the first sentence is at cosines (+, -), the second at (+, +);
    # the context, at (-, +), counts 0.7.
    assert first["late interaction"] == pytest.approx(half * (0.75 + 0.25 * 0.7))
    assert second["late interaction"] == pytest.approx(half)
    # Of two values each is one standard deviation from their mean.
    assert [first["standardised"], second["standardised"]] == pytest.approx([-1, 1], abs=1e-4)
    # One passage alone is at its own mean, and both tokens are nearest to the query's first.
    assert [first["passage"], second["backwards"]] == pytest.approx([0, 0], abs=1e-2)
    assert [first["length"], second["length"]] == pytest.approx([math.log(18), math.log(25)])
    assert [first["rank"], first["score"], first["leading document"]] == [1, 1, 1]
    assert [first["other kind of fact"], second["other kind of fact"]] == [1, 0]


def test_the_sentence_is_cited_that_answers_and_not_the_one_that_names_the_parties():
    parts = [
        "This agreement is made between Halvorsk Marine and Brennwater Robotics.",
        "It takes effect when both have signed it.",
        "Shared secrets are kept for three years after it ends.",
    ]
    text = " ".join(parts)
    context = "Mutual NDA between Halvorsk Marine and Brennwater Robotics"
    (made,) = MiniLMTokens().embed_tokens([f"{text}\n\n{context}"], "document")[1]
    signs = np.packbits(made.vectors > 0, axis=1).tobytes()
    found = answer(
        "What becomes of secrets that Halvorsk Marine shared?",
        [scored("a", text, token_signs=signs)],
    )
    assert found.citations[0].text == parts[2]


@pytest.mark.parametrize(
    "head",
    [
        "| Grade | Hotel limit | Daily allowance |\n| --- | :-: | --- |\n",
        "| | | |\n| --- | --- | --- |\n| Grade | Hotel limit | Daily allowance |\n",  # Word's
    ],
)
def test_a_table_answers_by_its_rows_and_never_by_the_names_of_its_columns(head):
    text = f"# Travel\n\n{head}| Junior | EUR 110 | EUR 28 |\n| Director | EUR 220 | EUR 45 |\n\n"
    text += "Expenses are paid within 14 days."
    chunks = [scored("a.md", text)]
    found = answer("What is the hotel limit of a director?", chunks, sentences=5, confidence=0)
    assert found.citations[0].text == "| Director | EUR 220 | EUR 45 |"
    assert "Grade" not in found.text
    read = read_passages("hotel limit", chunks, sentence_vectors)
    sentences, features = sentence_features("hotel limit", read, sentence_vectors)
    late = dict(zip((s.text[:9] for s in sentences), features[:, 0], strict=True))
    # The names of the columns count for the rows, and for nothing after the table.
    assert late["| Junior "] > late["Expenses "] + 0.1


@pytest.mark.parametrize(
    ("query", "quoted"),
    [("When is the party?", 1), ("Who sent the mail on the party?", 4)],
)
def test_fields_of_a_mail_are_quoted_only_if_asked_for_and_salutations_never(query, quoted):
    fields = "From: Ada <ada@firm.example>\n\nDate: Mon, 29 Jun 2026\n\nSubject: The party\n\n"
    text = f"{fields}Dear Ben, dear Cleo,\n\nIt moves to 19 September.\n\nKind regards\nAda"
    for suffix, count in ((".eml", quoted), (".md", 4)):
        chunk = ScoredChunk("c", f"mail{suffix}", 0, len(text), text, 1.0)
        read = read_passages(query, [chunk], sentence_vectors)
        sentences, _ = sentence_features(query, read, sentence_vectors)
        assert len(sentences) == count
        assert sentences[-1].text == "It moves to 19 September."


def test_tokens_that_an_index_keeps_are_not_embedded_again(monkeypatch):
    text = DOCUMENT[:140]
    model = MiniLMTokens()
    (made,) = model.embed_tokens([f"{text}\n\nIts context"], "document")[1]
    kept = np.packbits(made.vectors > 0, axis=1).tobytes()
    of_index = scored("nda.txt", text, token_signs=kept)
    asked = sentence_vectors.question("How long does confidentiality last?")
    assert len(asked.ids) == 4  # long, confidential, ##ity, last

    def refuse(*_):
        raise AssertionError("embedded again")

    monkeypatch.setattr(MiniLMTokens, "embed_tokens", refuse)
    found = answer("How long does confidentiality last?", [of_index])
    assert "five (5) years" in found.citations[0].text


def test_a_passage_longer_than_the_model_reads_is_read_to_its_end():
    filler = "Invoices are sent by post, with a copy for the files of the other side. " * 40
    text = f"{filler}The obligations of confidentiality last for five (5) years."
    found = answer("How long does confidentiality last?", [scored("a", text)])
    assert found.citations[0].text == "The obligations of confidentiality last for five (5) years."


def test_of_passages_to_embed_only_those_that_hold_the_questions_words_are_read():
    own = "The obligations of confidentiality last for five (5) years."
    others = [scored(f"o{n}", f"Invoice number {n} was paid late.") for n in range(30)]
    chunks = [*others, scored("nda", own)]
    found = answer("How long does confidentiality last?", chunks, contexts=50)
    assert found.citations[0].text == own


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Wie lange müssen Rechnungen aufbewahrt werden?", "Invoices are kept for ten years."),
        ("How long is a rehearsal?", "Eine Probe dauert drei Stunden."),
    ],
)
def test_a_sentence_in_another_language_answers_by_its_meaning(query, expected):
    english = "The office opens at nine. Invoices are kept for ten years. How long is a parcel?"
    german = "Türen müssen lange offen bleiben. Eine Probe dauert drei Stunden. Kuchen ist da."
    chunks = [scored("en.txt", english, 0.9), scored("de.txt", german, 0.9)]
    found = answer(query, chunks if expected in german else chunks[::-1], None, confidence=0)
    assert found.citations[0].text == expected


def test_the_first_passages_are_read_if_the_others_share_more_words_with_the_question():
    first = [scored(f"{n}.txt", "Nothing of the kind stands here.") for n in range(5)]
    others = [scored(f"{n}.txt", "The hotel limit rises.") for n in range(5, 12)]
    read = read_passages("hotel limit", [*first, *others], _Two())
    assert [one.rank for one in read] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_bold_lead_in_belongs_to_its_sentence():
    text = "**7. Summer party.** Friday 11 July. All come.\n\n**Note:** Bring **your own.** Cups."
    parts = ["**7. Summer party.** Friday 11 July.", "All come.", "**Note:** Bring **your own.**"]
    assert [text[a:b] for a, b in spans_of(scored("a", text))] == [*parts, "Cups."]


def test_a_date_or_a_sentence_in_a_cell_ends_no_row():
    text = "| No. | Due |\n| --- | --- |\n| 4 | 14.06. | Open. Late. |\n| 5 | 30.09. | - |\n\nBoth."
    rows = ["| No. | Due |", "| --- | --- |", "| 4 | 14.06. | Open. Late. |", "| 5 | 30.09. | - |"]
    assert [text[a:b] for a, b in spans_of(scored("a", text))] == [*rows, "Both."]


def test_the_sentences_of_a_csv_file_are_its_rows():
    text = 'no,part,price\n7,"rope,\nlong",3.20\n4541,2025-04-10,41\n'
    chunk = scored("a.csv", text, context="columns: no,part,price")
    rows = [text[a:b] for a, b in spans_of(chunk)]
    assert rows == ["no,part,price", '7,"rope,\nlong",3.20', "4541,2025-04-10,41"]
    assert is_table_head(chunk, 0) and not is_table_head(replace(chunk, start=9), 0)
    ranked = ranked_sentences("What is the price of 4541?", [chunk])
    assert [one.text for one in ranked.sentences] == [rows[2], rows[1]]
    # "price" is in the contexts of both rows, and "4541" in one row.
    price, code = math.log(1 + 3 / 2.5), math.log(1 + 3 / 1.5)
    matches = [one.match for one in ranked.sentences]
    assert matches == pytest.approx([1.0, price / (price + code)])


def test_a_numbered_heading_is_one_span_and_no_quotation():
    text = "## 16. The oven\n\nThe oven is hot."
    assert [text[a:b] for a, b in spans_of(scored("a", text))] == ["## 16. The oven", text[17:]]
    quoted = answer("What is the oven?", [scored("a", text)], confidence=0.0).citations
    assert [c.text for c in quoted] == ["The oven is hot."]


def test_equal_sentences_of_a_document_are_quoted_once():
    text = "The oven is hot at six."
    copies = [scored("a", text), scored("a", text, start=500), scored("b", text)]
    for weights in (None, EQUAL):
        for most in (2, 3):
            settings = {"confidence": 0.0, "sentences": most}
            quoted = answer("When is the oven hot?", copies, weights, **settings).citations
            assert [c.document_id for c in quoted] == ["a", "b"]


def test_an_object_of_a_json_file_is_one_sentence():
    text = '{"site": "Ulm", "people": [{"name": "A}"}, {"name": "B", "phone": "41. 2"}]}'
    chunk = ScoredChunk("a.json#0", "a.json", 0, len(text), text, 1.0)
    assert [text[start:end] for start, end in spans_of(chunk)] == [
        '{"site": "Ulm", "people": [', '{"name": "A}"}', '{"name": "B", "phone": "41. 2"}',
    ]  # fmt: skip
    mixed = replace(chunk, text='{"meta": {"a": 1}, "body": "Open on Monday. Shut on Sunday."}')
    assert [mixed.text[start:end] for start, end in spans_of(mixed)] == [
        '{"meta":', '{"a": 1}', '"body": "Open on Monday.', 'Shut on Sunday."}',
    ]  # fmt: skip
    long = replace(chunk, text='{"a": "' + "x" * 300 + '"}')
    assert spans_of(long) == [(0, 309)], "no object is short"
