"""No caller can measure whether callers with other labels asked the same before.

The measure is the number of calls of each function of this package, not a time.
"""

import sys
import threading
from collections import Counter
from contextlib import suppress

import pytest

from rag_pipeline import Corpus
from rag_pipeline.assistant import open_assistant
from rag_pipeline.datamodels import ANYBODY, OPERATOR, Caller
from rag_pipeline.errors import InputError
from rag_pipeline.serving.langchain import RagPipelineRetriever
from rag_pipeline.serving.tools import health_of
from rag_pipeline_tests.testing.labelled import LABELS
from rag_pipeline_tests.testing.leaks import PATHS

ASKED = [
    ("How long does the periwinkle agreement last?", "board/periwinkle.txt", ""),
    ("What does the nutmeg agreement cost?", "open/nutmeg.txt", "document_id LIKE 'open/%'"),
]


def by_langchain(seen, query, document, where):
    released = seen.corpora["tiny"]
    caller = released.caller
    return RagPipelineRetriever(corpus=released.corpus, where=where, caller=caller).invoke(query)


WAYS = {name: way for name, (_, way) in PATHS.items()} | {"langchain": by_langchain}
CACHED = {"search", "v1 search", "ask", "discover", "vector store"}
"""Ways with a cache of their whole result."""


def opened(corpus):
    """Return a new assistant that has read everything that is the same for all callers."""
    own = open_assistant([Corpus(corpus.config)])
    own.ask("Which agreements are there?")
    for document_id in LABELS:
        own.find_document(document_id)
    for caller in (OPERATOR, *CALLERS):
        health_of(own.seen_by(caller))
    return own


CALLERS = [Caller(frozenset({"board"})), Caller(frozenset({"hr"})), ANYBODY]


def read(seen, name, asked):
    with suppress(InputError):
        WAYS[name](seen, asked[0], asked[1], asked[2] or None)


def work(*case):
    """Return how often `read` calls each function of this package."""
    calls = Counter()

    def count(frame, event, value):
        code = frame.f_code
        if event == "call" and "/rag_pipeline/" in code.co_filename:
            calls[code.co_filename, code.co_name] += 1

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        read(*case)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return calls


@pytest.mark.parametrize(
    ("first", "second"), [(CALLERS[0], CALLERS[1]), (CALLERS[1], ANYBODY), (OPERATOR, ANYBODY)]
)
def test_an_earlier_question_of_other_labels_saves_no_work(corpus, first, second):
    cases = [(name, asked) for asked in ASKED for name in WAYS]
    for caller in (first, second):  # functions of a text alone are known from now on
        seen = opened(corpus).seen_by(caller)
        for case in cases:
            read(seen, *case)
    shared, alone = opened(corpus), opened(corpus)
    for case in cases:
        read(shared.seen_by(first), *case)
        after = work(shared.seen_by(second), *case)
        assert after == work(alone.seen_by(second), *case), case
        again = work(shared.seen_by(second), *case)
        assert case[0] not in CACHED or again.total() < after.total() / 2, case
