from typing import Any

import numpy as np
import pytest

from rag_pipeline.answering import NOTHING_ANSWERS, extract_answers
from rag_pipeline.config import ExtractiveAnswers, MiniLMEmbedding
from rag_pipeline.datamodels import ScoredChunk
from rag_pipeline.models.providers import open_embedder

DOCUMENT = (
    "1. Term. This agreement begins on 3 May 2021. The obligations of confidentiality last for "
    "five (5) years from the date of disclosure. 2. Governing law. The laws of Delaware apply to "
    "this agreement. 3. Notices. Notices are sent by registered post."
)


def chunk(start: int, end: int, document_id: str = "nda.txt") -> ScoredChunk:
    return ScoredChunk(
        f"{document_id}#{start}-{end}", document_id, start, end, DOCUMENT[start:end], 1.0
    )


@pytest.fixture(scope="module")
def embed():
    model: Any = open_embedder(MiniLMEmbedding(provider="minilm"))
    return lambda texts: model.embed(texts, "document")


def answer(query, chunks, embed, **settings):
    return extract_answers([(query, chunks)], ExtractiveAnswers(**settings), embed)[0]


def test_the_answer_is_the_sentence_that_answers_with_its_place_in_the_document(embed):
    middle = DOCUMENT.index(" 2. Governing")
    chunks = [chunk(middle + 1, len(DOCUMENT)), chunk(0, middle)]
    found = answer("How long does confidentiality last?", chunks, embed, sentences=1)
    (citation,) = found.citations
    assert found.answered
    assert citation.text == found.text
    assert "five (5) years" in found.text
    assert DOCUMENT[citation.start : citation.end] == citation.text
    assert (citation.number, citation.chunk_id) == (1, chunks[1].chunk_id)


def test_every_citation_is_verbatim_and_there_are_no_more_than_asked_for(embed):
    chunks = [chunk(0, 140), chunk(60, len(DOCUMENT))]
    found = answer("Which law governs this agreement and its term?", chunks, embed, sentences=2)
    assert 1 <= len(found.citations) <= 2
    assert found.text == "\n".join(c.text for c in found.citations)
    assert all(DOCUMENT[c.start : c.end] == c.text for c in found.citations)
    assert len({(c.start, c.end) for c in found.citations}) == len(found.citations)


def test_it_says_when_nothing_answers(embed):
    found = answer("How do I bake sourdough bread?", [chunk(0, len(DOCUMENT))], embed)
    assert (found.answered, found.text, found.citations) == (False, NOTHING_ANSWERS, ())
    assert found.confidence < 0.2
    sure = answer("How long does confidentiality last?", [chunk(0, len(DOCUMENT))], embed)
    assert sure.confidence > 0.2


def test_without_chunks_or_words_nothing_answers_and_no_model_is_asked():
    def refuse(texts):
        raise AssertionError("nothing to embed")

    empty = ScoredChunk("a#0-3", "a", 0, 3, " – ", 1.0)
    for chunks in ([], [empty]):
        assert not answer("How long?", chunks, refuse).answered


def test_only_the_first_contexts_are_read(embed):
    end = DOCUMENT.index("The obligations")
    chunks = [chunk(0, end), chunk(end, len(DOCUMENT))]
    found = answer("How long does confidentiality last?", chunks, embed, contexts=1)
    assert all(citation.chunk_id == chunks[0].chunk_id for citation in found.citations)


def test_the_score_is_the_formula():
    # Two sentences, one term each of the query's two; vectors that favour the second.
    query, first, second = "alpha beta", "Alpha stands here.", "Beta stands there."
    vectors = {query: (1.0, 0.0), first: (0.0, 1.0), second: (0.6, 0.8)}
    text = f"{first} {second}"
    chunks = [ScoredChunk("d#0-37", "d", 0, len(text), text, 1.0)]
    found = answer(query, chunks, lambda texts: np.array([vectors[t] for t in texts]), sentences=1)
    assert found.text == second
    # each term is in one of two sentences: equal weights, so a share of 1/2
    assert found.confidence == pytest.approx(0.6 * 0.6 + 0.4 * 0.5)
