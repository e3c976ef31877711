import asyncio
import threading
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda

from rag_pipeline.errors import InputError
from rag_pipeline.serving.langchain import Measured, MeasuringRetriever, RagPipelineRetriever
from rag_pipeline_tests.testing.corpora import DOCUMENTS


def test_documents_carry_their_places(released):
    retriever = RagPipelineRetriever(corpus=released, k=2)
    found = retriever.invoke("How expensive may a hotel be?")
    assert len(found) == 2
    for document in found:
        place = document.metadata
        text = DOCUMENTS[place["document_id"]]
        assert text[place["start"] : place["end"]] == document.page_content
        assert document.id == f"{place['document_id']}#{place['start']}-{place['end']}"
    assert found[0].metadata["document_id"] == "policy/travel.md"
    assert found[0].metadata["place"]["label"].startswith("section ")
    assert found[0].metadata["score"] >= found[1].metadata["score"]
    assert asyncio.run(retriever.ainvoke("How expensive may a hotel be?")) == found


def test_a_filter_and_a_chain(released):
    retriever = RagPipelineRetriever(corpus=released, where="document_id LIKE 'nda/%'")

    def places(found: list[Any]) -> set[str]:
        return {d.metadata["document_id"] for d in found}

    chain: Any = retriever | RunnableLambda(places)
    assert chain.invoke("hotel") == {"nda/acme.txt", "nda/cedar.txt"}
    with pytest.raises(InputError, match="the query is empty"):
        retriever.invoke(" ")


def test_a_search_leaves_the_event_loop_free(released, monkeypatch):
    searching, searched = threading.Event(), threading.Event()
    search = released.search

    def held(*arguments):
        searching.set()
        assert searched.wait(300)
        return search(*arguments)

    monkeypatch.setattr(released, "search", held)

    async def both():
        task = asyncio.create_task(RagPipelineRetriever(corpus=released).ainvoke("hotel"))
        while not searching.is_set():
            await asyncio.sleep(0.01)
        searched.set()  # the loop runs while the search waits
        return await task

    assert asyncio.run(both())


AXES = {
    "Where is the harbour?": (1.0, 0.0),
    "The harbour is north.": (1.0, 0.0),
    "Ferries cost 40 euros.": (0.5, 0.75**0.5),
    "Cats sleep.": (0.0, 1.0),
}


def embed(texts):
    """Cosines with the question: 1, 0.5 and 0, which are high, medium and none."""
    return np.array([AXES[text] for text in texts], np.float32)


class Fixed(BaseRetriever):
    """A retriever of another make: documents without id or place."""

    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(text) for text in list(AXES)[1:]]


@contextmanager
def measuring():
    measured = []
    with MeasuringRetriever(
        retriever=Fixed(), on_measured=measured.append, embed=embed
    ) as retriever:
        yield retriever, measured


def test_contexts_are_scored_by_the_published_formulas():
    with measuring() as (retriever, measured):
        documents = retriever.retriever.invoke("Where is the harbour?")
        retriever.measure("Where is the harbour?", documents, "Go where the harbour is: north.")
    ((query, contexts, metrics),) = [(m.query, m.contexts, m.metrics) for m in measured]
    assert (query, contexts) == ("Where is the harbour?", 3)
    # (1.0 + 0.7 + 0) / 3, and the high one has no phrase of its own that the answer repeats.
    assert metrics["ContextRelevance"] == pytest.approx(1.7 / 3 - 0.1)
    assert metrics["ContextPrecision"] == 1.0
    assert metrics["RelevantCount"] == 2
    assert metrics["MissingItems"] == 0
    assert metrics["UsageRate"] == 0


def test_without_an_answer_one_is_extracted():
    with measuring() as (retriever, measured):
        found = retriever.invoke("Where is the harbour?")
        assert asyncio.run(retriever.ainvoke("Where is the harbour?")) == found
    assert [m.query for m in measured] == ["Where is the harbour?"] * 2
    assert all(m.metrics["UsageRate"] > 0 for m in measured)
    assert [m.metrics["MissingItems"] for m in measured] == [0, 0]


def test_no_contexts_have_no_metrics():
    with measuring() as (retriever, measured):
        retriever.measure("Where is the harbour?", [])
    assert set(measured[0].metrics.values()) == {None}


def test_scoring_never_holds_the_retrieval_up_and_is_bounded():
    scoring, go_on = threading.Event(), threading.Event()
    measured = []

    def slow(result: Measured) -> None:
        scoring.set()
        assert go_on.wait(300)
        measured.append(result)

    retriever = MeasuringRetriever(retriever=Fixed(), on_measured=slow, embed=embed, waiting=2)
    retriever.invoke("Where is the harbour?")
    assert scoring.wait(300)
    for _ in range(5):  # one is being scored, two wait, three are skipped
        assert len(retriever.invoke("Where is the harbour?")) == 3
    assert retriever.skipped == 3
    assert measured == []
    go_on.set()
    retriever.close()
    assert len(measured) == 3


def test_a_failing_callback_is_counted_and_the_rest_go_on(caplog):
    calls = []

    def failing(result: Measured) -> None:
        calls.append(result)
        if len(calls) == 1:
            raise ValueError("full disk")

    with MeasuringRetriever(retriever=Fixed(), on_measured=failing, embed=embed) as retriever:
        retriever.invoke("Where is the harbour?")
        retriever.invoke("Where is the harbour?")
    assert len(calls) == 2
    assert retriever.failed == 1
    assert "full disk" in caplog.text
