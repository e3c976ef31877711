"""Work of a request runs in its threads, and stops at its next step after the request has ended."""

import threading
from contextvars import ContextVar, copy_context

import pytest

from rag_pipeline.datamodels import SearchRequest
from rag_pipeline.errors import RequestEndedError
from rag_pipeline.search import deadlines
from rag_pipeline.search.retrieval import Searcher
from rag_pipeline_tests.testing.search_index import (
    NO,
    QUERY,
    embed,
    hybrid,
    index_of,
    random_chunks,
)


def test_work_goes_on_only_while_its_request_does():
    deadlines.check()
    with deadlines.request():
        context = copy_context()  # what a thread of the request works in
        context.run(deadlines.check)
    with pytest.raises(RequestEndedError):
        context.run(deadlines.check)
    deadlines.check()


def test_a_search_of_an_ended_request_reads_nothing(tmp_path):
    embedded = []

    def counted(texts):
        embedded.append(texts)
        return embed(texts)

    index = index_of(tmp_path, random_chunks())
    searcher = Searcher(index=index, retriever=hybrid(), reranker=NO, embed=counted)
    with deadlines.request():
        context = copy_context()
        assert context.run(searcher.search, SearchRequest(query=QUERY, k=3)).chunks
    assert len(embedded) == 1
    with pytest.raises(RequestEndedError):
        context.run(searcher.search, SearchRequest(query=QUERY, k=3))
    assert len(embedded) == 1


def test_work_is_done_in_parallel_and_in_the_callers_context():
    noted = ContextVar("noted", default="")
    noted.set("mine")
    both = threading.Barrier(2)

    def work(item):
        both.wait(300)  # one after the other, the first would wait in vain
        return noted.get(), item

    assert deadlines.in_parallel(work, ["a", "b"]) == [("mine", "a"), ("mine", "b")]
    assert deadlines.in_parallel(len, []) == []
