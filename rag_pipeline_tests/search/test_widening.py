"""Small chunks are returned as larger passages, each word once."""

from dataclasses import replace

import pytest

from rag_pipeline.search.widening import widened
from rag_pipeline_tests.testing.chunking import scored
from rag_pipeline_tests.testing.search_index import documents_of, index_of, random_chunks

TEXT = "# One\n\naaaa bbbb\ncccc\n\n# Two\n\ndddd\n"
SPANS = [(7, 11), (12, 16), (17, 21), (30, 34)]
"""aaaa, bbbb and cccc under the first heading, dddd under the second."""


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    rows = random_chunks(documents=2, per_document=4)
    for row, (start, end) in zip(rows, SPANS * 2, strict=True):
        row |= {"start": start, "end": end, "text": TEXT[start:end]}
        row["chunk_id"] = f"{row['document_id']}#{start}-{end}"
    folder = tmp_path_factory.mktemp("index")
    texts = dict.fromkeys([row["document_id"] for row in rows], TEXT)
    return replace(index_of(folder, rows), documents=documents_of(folder, texts)[1])


def chunk(number, score, document="name0.txt"):
    start, end = SPANS[number]
    return scored(document, TEXT[start:end], score, start)


def found(index, numbers, expand):
    ranked = [chunk(n, 1.0 - place / 10) for place, n in enumerate(numbers)]
    return [(c.text, c.score) for _, c in widened(index, ranked, expand)]


def test_chunks_are_returned_with_those_beside_them(index):
    assert found(index, [0], "neighbours") == [("aaaa bbbb", 1.0)]
    assert found(index, [1], "neighbours") == [("aaaa bbbb\ncccc", 1.0)]
    assert found(index, [3], "neighbours") == [("cccc\n\n# Two\n\ndddd", 1.0)]


def test_a_section_goes_from_its_heading_to_the_next(index):
    assert found(index, [1], "section") == [("# One\n\naaaa bbbb\ncccc", 1.0)]
    assert found(index, [3, 0], "section") == [
        ("# Two\n\ndddd", 1.0),
        ("# One\n\naaaa bbbb\ncccc", 0.9),
    ]


def test_passages_that_meet_are_one_at_the_better_rank(index):
    # cccc and dddd share no chunk, aaaa joins them by bbbb; the other document stays apart.
    ranked = [chunk(3, 1.0), chunk(1, 0.9, "name1.txt"), chunk(0, 0.8), chunk(2, 0.7)]
    ((place, first), (_, other)) = widened(index, ranked, "neighbours")
    assert place == 0
    assert (first.text, first.score) == (TEXT[7:34], 1.0)
    assert first.chunk_id == "name0.txt#7-34"
    assert (other.document_id, other.text) == ("name1.txt", TEXT[7:21])


def test_without_texts_or_by_default_chunks_stay_as_they_are(index):
    ranked = [chunk(0, 1.0), chunk(1, 0.9)]
    assert widened(index, ranked, "none") == [(0, ranked[0]), (1, ranked[1])]
    assert widened(replace(index, documents=None), ranked, "section") == [*enumerate(ranked)]


def test_a_chunk_of_another_release_stays_as_it_is(index):
    gone = scored("name0.txt", TEXT[8:12], start=8)
    assert widened(index, [gone], "neighbours")[0][1].text == TEXT[8:12]
    changed = replace(chunk(1, 1.0), text="other")
    assert widened(index, [changed], "section") == [(0, changed)]
