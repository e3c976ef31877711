"""The ways in which a caller reads a labelled corpus, and what a reply gives away."""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

from rag_pipeline.assistant import Assistant
from rag_pipeline.client.records import AskBody, NamedPassage, PageQuery, SearchBody
from rag_pipeline.datamodels import SearchRequest
from rag_pipeline.errors import InputError
from rag_pipeline.serving.pages import page_view
from rag_pipeline.serving.question_log import QuestionLog
from rag_pipeline.serving.review import ReviewRequest, next_question
from rag_pipeline.serving.tools import AssistantAnswer, document_of, found_passages, health_of
from rag_pipeline.serving.v1.feedback import quoted_passage
from rag_pipeline.serving.v1.filters import Comparison
from rag_pipeline.serving.v1.openai import VectorStoreQuery, vector_store_page
from rag_pipeline.serving.v1.routes import answered
from rag_pipeline_tests.testing.labelled import LABELS, plain, seen_with

WORDS = {document: word for document, (word, _) in LABELS.items()}
FILTERS = [
    "",
    "document_id LIKE 'hr/%'",
    "json_get_string(metadata, 'budget') = 'periwinkle'",
    "CAST(json_get_string(metadata, 'budget') AS INT) > 12",
    "json_get_int(metadata, 'budget') IS NULL",
    "start = 0 AND document_id > 'hr'",
]
PATHS: dict[str, tuple[int, Callable[[Assistant, str, str, str | None], Any]]] = {
    "search": (6, lambda seen, q, d, w: seen.search(q, k=5, where=w)),
    "v1 search": (
        3,
        lambda seen, q, d, w: found_passages(seen, SearchBody(query=q, where=w or "")),
    ),
    "v1 follow-up": (
        3,
        lambda seen, q, d, w: answered(
            seen, AskBody(query="and how long?", turns=[q], where=w or ""), QuestionLog()
        ).model_dump(exclude={"trace"}),
    ),
    "vector store": (
        4,
        lambda seen, q, d, w: vector_store_page(
            seen,
            VectorStoreQuery(query=q, filters=Comparison(type="gte", key="filename", value=d)),
            "tiny",
        ),
    ),
    "feedback": (
        10,
        lambda seen, q, d, w: quoted_passage(
            seen, "tiny", NamedPassage(document_id=d, start=3, end=40)
        ),
    ),
    "search document": (4, lambda seen, q, d, w: seen.search(q, document_id=d, where=w)),
    "discover": (4, lambda seen, q, d, w: seen.discover(q, where=w)),
    "rated": (3, lambda seen, q, d, w: seen.rated(q, "tiny", 5, w)),
    "ask": (3, lambda seen, q, d, w: AssistantAnswer.model_validate(seen.ask(q, where=w))),
    "ask document": (
        2,
        lambda seen, q, d, w: AssistantAnswer.model_validate(seen.ask(q, document_id=d)),
    ),
    "document": (30, lambda seen, q, d, w: document_of(seen, d)),
    "page": (10, lambda seen, q, d, w: page_view(seen, PageQuery(document_id=d, page=1))),
    "datasets": (10, lambda seen, q, d, w: health_of(seen)),
    "review": (20, lambda seen, q, d, w: next_question(seen, ReviewRequest())),
    "cached": (
        8,
        lambda seen, q, d, w: seen.corpora["tiny"].search(
            SearchRequest(query="How long do the agreements last?", k=5, is_neutral=True)
        ),
    ),
}
"""The weight of each way of reading in the process, and the way."""


def outcome(path: str, seen: Assistant, query: str, document: str, where: str) -> str:
    """Return what a caller learns: a result, or the text of an error."""
    try:
        return json.dumps(plain(PATHS[path][1](seen, query, document, where or None)))
    except InputError as error:
        return f"error: {error}"


def leaked(said: str, labels: Iterable[str], query: str, document: str, where: str) -> set[str]:
    """Return the words of hidden documents in a text, besides those of the request."""
    said = said.replace("\\", "")  # escapes of the query's quotes
    # A question that is completed from the query has no question mark of it.
    for own in sorted((query, query.rstrip("?!. "), document, where), key=len, reverse=True):
        said = said.replace(own, "") if own else said
    # The key entities of an answer repeat what the query puts between quotes.
    seen, quoted = seen_with(labels), re.findall('"(.+?)"', query)
    words = (w for d, w in WORDS.items() if d not in seen and w not in quoted)
    return {w for w in words if re.search(w, said, re.IGNORECASE)}


def http_paths(query: str, document: str, where: str) -> list[tuple[str, Any]]:
    """Return the paths of the server with bodies; None is for GET."""
    dify = {"knowledge_id": "tiny", "query": query, "retrieval_setting": {"top_k": 5}}
    name, operator = ("budget", "is") if where else ("document_id", "start with")
    asked = [{"role": "user", "content": query}]
    span = {"document_id": document, "start": 3, "end": 40}
    judged = {"query": query, "corpus": "tiny", "verdict": "wrong", "passage": span}
    only = {"name": name, "comparison_operator": operator, "value": "periwinkle"}
    return [
        ("/v1/ask", {"query": query}),
        ("/v1/ask", {"query": query, "document_id": document}),
        ("/v1/ask", {"query": query, "stream": True}),
        ("/v1/ask", {"query": "and how long?", "turns": [query]}),
        ("/v1/search", {"query": query, "where": where}),
        ("/v1/search", {"query": query, "document_id": document}),
        ("/v1/vector_stores/tiny/search", {"query": query}),
        (
            "/v1/vector_stores/tiny/search",
            {"query": [query], "filters": {"type": "gte", "key": "budget", "value": "periw"}},
        ),
        ("/v1/chat/completions", {"model": "tiny", "messages": asked}),
        ("/v1/chat/completions", {"model": "tiny", "messages": asked, "stream": True}),
        ("/v1/models", None),
        ("/v1/feedback", judged),
        (f"/v1/documents/{quote(document, safe='')}?corpus=tiny", None),
        (f"/v1/pages/{quote(document, safe='')}?page=1", None),
        ("/v1/corpora", None),
        ("/retrieval", dify),
        ("/retrieval", {**dify, "metadata_condition": {"conditions": [only]}}),
        ("/api/review/next", {}),
        ("/api/review/decide", {"query_id": document, "decision": "reject"}),
        ("/health", None),
    ]
