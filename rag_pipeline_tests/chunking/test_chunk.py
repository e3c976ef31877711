import hashlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_pipeline.chunking import chunk
from rag_pipeline.chunking.fixed import FixedChunking
from rag_pipeline.chunking.given import GivenChunking
from rag_pipeline.chunking.markdown import MarkdownChunking
from rag_pipeline.chunking.recursive import RecursiveChunking
from rag_pipeline.chunking.semantic import SemanticChunking
from rag_pipeline.chunking.windows import SentencesChunking
from rag_pipeline.config import Chunking
from rag_pipeline.datamodels import Chunk, Document, Vectors
from rag_pipeline_tests.testing.chunking import Embedding

LIMIT = 40
METHODS: list[Chunking] = [
    FixedChunking(method="fixed", tokens=8),
    FixedChunking(method="fixed", tokens=9, overlap=8),
    SentencesChunking(method="sentences", max_characters=LIMIT, overlap=30),
    SentencesChunking(method="sentences", max_characters=LIMIT),
    RecursiveChunking(method="recursive", max_characters=LIMIT),
    MarkdownChunking(method="markdown", max_characters=LIMIT),
    SemanticChunking(method="semantic", threshold=0.5, min_characters=20, max_characters=LIMIT),
    SemanticChunking(
        method="semantic", threshold=0.0, window=0, min_characters=0, max_characters=LIMIT
    ),
]
NAMES = [
    *("fixed", "overlapping", "sharing", "windows"),
    *("recursive", "markdown", "semantic", "sentences"),
]

MARKUP = st.one_of(
    st.sampled_from(["\n", "\n\n", "\r\n", "\r", " ", "\t", "\f", "\x85", "\u2028"]),
    st.sampled_from([". ", "? ", "... ", "。", "; (a) ", "1. ", "e.g. ", "Inc. The ", "word"]),
    st.sampled_from(["# ", "## ", "===\n", "---\n", "```\n", "> ", "- ", "<!--"]),
    st.sampled_from(
        ["Long" * 15, "é", "한글", "\u0301", "\u0315", "😀", "\x00", "\u200d", "\ufeff"]
    ),
)
TEXTS = st.one_of(st.text(max_size=200), st.lists(MARKUP, max_size=80).map("".join))


def document(text: str) -> Document:
    return Document("a/b.md", "0" * 64, text)


def hashed(texts: Sequence[str]) -> Vectors:
    """Embed any text as four numbers of its hash."""
    digests = [hashlib.blake2b(text.encode(), digest_size=4).digest() for text in texts]
    return np.array([list(digest) for digest in digests], np.float32) - 127.5


def check_laws(text: str, chunks: Sequence[Chunk]) -> None:
    spans = [(c.start, c.end) for c in chunks]
    assert spans == sorted(set(spans))
    covered = bytearray(len(text))
    for c in chunks:
        assert 0 <= c.start < c.end <= len(text)
        assert c.text == text[c.start : c.end] == c.text.strip()
        covered[c.start : c.end] = b"\x01" * (c.end - c.start)
    assert all(covered[i] or text[i].isspace() for i in range(len(text)))


@pytest.mark.parametrize("method", METHODS, ids=NAMES)
@settings(max_examples=100)
@given(text=TEXTS)
def test_chunks_are_ordered_trimmed_slices_that_cover_the_text(method: Chunking, text: str) -> None:
    chunks = chunk(document(text), method, Embedding(hashed))

    check_laws(text, chunks)
    assert {c.document_id for c in chunks} <= {"a/b.md"}
    assert chunk(document(text), method, Embedding(hashed)) == chunks


@pytest.mark.parametrize("method", METHODS[3:], ids=NAMES[3:])
@settings(max_examples=100)
@given(text=TEXTS)
def test_the_maximum_holds_and_chunks_do_not_overlap(method: Chunking, text: str) -> None:
    chunks = chunk(document(text), method, Embedding(hashed))

    assert all(len(c.text) <= LIMIT for c in chunks)
    assert all(left.end <= right.start for left, right in pairwise(chunks))


@pytest.mark.parametrize("method", METHODS, ids=NAMES)
def test_blank_documents_have_no_chunks(method: Chunking) -> None:
    assert chunk(document(""), method, Embedding(hashed)) == []
    assert chunk(document(" \n\u00a0\r\n\t\u2028"), method, Embedding(hashed)) == []


@pytest.mark.parametrize("method", METHODS, ids=NAMES)
def test_one_sentence_is_one_chunk(method: Chunking) -> None:
    [only] = chunk(document("\n Pay in 30 days. \n"), method, Embedding(hashed))

    assert only == Chunk("a/b.md", 2, 17, "Pay in 30 days.")
    assert only.chunk_id == "a/b.md#2-17"


def test_what_a_method_needs_must_be_passed() -> None:
    with pytest.raises(ValueError, match="embeds texts: pass models="):
        chunk(document("One. Two."), SemanticChunking(method="semantic"))
    with pytest.raises(ValueError, match="reads a corpus file: pass models="):
        chunk(document("One. Two."), GivenChunking(method="given"))
