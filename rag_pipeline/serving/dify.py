"""Serve a corpus to Dify as an external knowledge base, and search a Dify dataset as a corpus.

Sources: Dify's External Knowledge API (`POST /retrieval`) and its Knowledge API
(`POST /datasets/{id}/retrieve`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from rag_pipeline.assistant import Assistant
from rag_pipeline.assistant.corpora import with_releases
from rag_pipeline.datamodels import Document, ScoredChunk, SearchRequest, SearchResult
from rag_pipeline.errors import InputError, ProviderError, RagPipelineError
from rag_pipeline.search.deadlines import in_parallel
from rag_pipeline.search.ranking import weighted_gains
from rag_pipeline.search.staged import boosted_queries, documents_of
from rag_pipeline.serving.conditions import MetadataCondition
from rag_pipeline.serving.messages import told
from rag_pipeline.serving.outgoing import post_json

PATH = "/retrieval"
_BAD_HEADER, _NOT_AUTHORIZED, _NO_KNOWLEDGE, _INVALID = 1001, 1002, 2001, 400
_MOST = 100
"""Maximum number of segments that Dify returns."""
_STAGES = (3, 1)
_BOOST_WEIGHT = 0.1


class _Setting(BaseModel):
    top_k: int = Field(ge=1, le=100)
    score_threshold: float = Field(default=0.0, ge=0.0)


class _Wanted(BaseModel):
    knowledge_id: str = Field(min_length=1, max_length=200)
    query: str = Field(min_length=1, max_length=4000)
    retrieval_setting: _Setting
    metadata_condition: MetadataCondition | None = None


def retrieval(
    assistant: Assistant, body: bytes, keep: Callable[[str, Sequence[str]], None]
) -> tuple[int, dict[str, Any]]:
    """Return the status and JSON of the reply to a request of Dify.

    `keep` gets the query and the names of its datasets. A record's score is the probability (0 to
    1) that the passage answers. Records below the request's threshold are left out.
    """
    try:
        wanted = _Wanted.model_validate_json(body)
    except ValidationError as error:
        place = ".".join(str(step) for step in error.errors()[0]["loc"])
        return 400, _failure(_INVALID, f"{place or 'body'}: {error.errors()[0]['msg']}")
    if wanted.knowledge_id not in assistant.corpora:
        return 404, _failure(_NO_KNOWLEDGE, "The knowledge does not exist")
    keep(wanted.query, [wanted.knowledge_id])
    try:
        condition = wanted.metadata_condition
        where = condition.where() if condition is not None else None
        asked = wanted.query, wanted.knowledge_id, wanted.retrieval_setting.top_k, where
        corpus = assistant.corpora[wanted.knowledge_id]
        rated, releases = with_releases([corpus], lambda: assistant.rated(*asked))
        places = assistant.places([passage for passage, _ in rated])
        note = " ".join(release.note for release in releases)
    except InputError as error:
        return 400, _failure(_INVALID, told(error))
    except RagPipelineError as error:
        return 500, _failure(500, told(error))
    records = [
        {
            "content": p.text,
            "score": score,
            "title": p.title or p.document_id,
            "metadata": {
                **p.metadata,
                "document_id": p.document_id,
                "start": p.start,
                "end": p.end,
                **({"note": note} if note else {}),
                **({"place": place.label} if place else {}),
                **({"page": place.page, "boxes": place.boxes} if place and place.page else {}),
            },
        }
        for (p, score), place in zip(rated, places, strict=True)
        if score >= wanted.retrieval_setting.score_threshold
    ]
    return 200, {"records": records}


def refusal(status: int, reason: str, has_token: bool) -> dict[str, Any]:
    """Return the JSON of the reply to a request that `Guards` refuses."""
    if status == 401:
        return _failure(_NOT_AUTHORIZED if has_token else _BAD_HEADER, reason)
    return _failure(status, reason)


def _failure(code: int, message: str) -> dict[str, Any]:
    return {"error_code": code, "error_msg": message}


class DifyDataset:
    """A Dify dataset that the assistant searches like a corpus.

    Its segments become chunks with the start 0, because Dify's replies have no offsets.
    """

    shows_documents = False

    def __init__(self, name: str, endpoint: str, key: str) -> None:
        self.name = name
        self._url = f"{endpoint.rstrip('/')}/datasets/{name}/retrieve"
        self._key = key

    def __repr__(self) -> str:
        return f"DifyDataset({self.name!r})"

    def search(self, request: SearchRequest) -> SearchResult:
        """Retrieve segments by the query, and by boosted queries in the first documents.

        Boosted queries are full-text searches. All boosted queries of a document together add at
        most 0.1 to a segment's score. By default, each of three documents gets one boosted query.
        Raise InputError for a filter, because Dify's segments do not support filters.
        """
        if request.where is not None:
            raise InputError(f"{self.name}: a Dify dataset does not support `where`; remove it")
        query, k, document_id = request.query, request.k or _MOST, request.document_id
        if document_id is None:
            chunks = self._retrieve(query, min(k, _MOST))
        else:
            # Dify filters by name only if the dataset's built-in fields are on.
            named = self._retrieve(query, _MOST, document_id)
            chunks = named or self._retrieve(query, _MOST, document_id, filtered=False)
        files, variants = request.stages or ((0, 0) if request.is_neutral else _STAGES)
        boosted = boosted_queries(query, chunks, files, variants, request.boost)
        chunks = self._boosted(chunks, boosted)
        documents = documents_of(chunks)
        return SearchResult(query=query, chunks=chunks[:k], documents=documents, boosted=boosted)

    def _boosted(
        self, chunks: list[ScoredChunk], boosted: Mapping[str, Sequence[str]]
    ) -> list[ScoredChunk]:
        known = {chunk.chunk_id: chunk for chunk in chunks}
        scores = {chunk.chunk_id: chunk.score for chunk in chunks}
        lowest = {chunk.document_id: chunk.score for chunk in chunks}
        asked = [(d, query) for d, queries in boosted.items() for query in queries]

        def search(one: tuple[str, str]) -> list[ScoredChunk]:
            return self._retrieve(one[1], _MOST, one[0], "full_text_search", filtered=False)

        for (document_id, _), found in zip(asked, in_parallel(search, asked), strict=True):
            share = _BOOST_WEIGHT / len(boosted[document_id])
            for chunk_id, gain in weighted_gains([(c.chunk_id, c.score) for c in found], share):
                scores[chunk_id] = scores.get(chunk_id, lowest[document_id]) + gain
            known = {**{c.chunk_id: c for c in found}, **known}
        ranked = sorted(scores, key=lambda chunk_id: -scores[chunk_id])
        return [replace(known[chunk_id], score=scores[chunk_id]) for chunk_id in ranked]

    def _retrieve(
        self,
        query: str,
        k: int,
        document_id: str | None = None,
        method: str = "hybrid_search",
        filtered: bool = True,
    ) -> list[ScoredChunk]:
        """Return the segments that one request finds, of `document_id` if it is given."""
        model: dict[str, Any] = {
            "search_method": method,
            "reranking_enable": False,
            "top_k": k,
            "score_threshold_enabled": False,
        }
        if document_id is not None and filtered:
            only = {"name": "document_name", "comparison_operator": "is", "value": document_id}
            filters = {"logical_operator": "and", "conditions": [only]}
            model["metadata_filtering_conditions"] = filters
        records = self._post({"query": query, "retrieval_model": model})
        chunks = {c.chunk_id: c for c in map(self._chunk, records, range(len(records)))}
        return [c for c in chunks.values() if document_id in (None, c.document_id)]

    def document(self, document_id: str) -> Document:
        """Raise InputError, because Dify's retrieval returns no documents."""
        raise InputError(f"{self.name}: {document_id[:200]!r}: Dify returns no whole documents")

    def describe(self) -> dict[str, Any]:
        """Return the dataset's name and kind without a request."""
        return {"name": self.name, "description": "a Dify dataset"}

    def _post(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        reply = post_json(f"{self.name}: Dify", self._url, body, headers)
        try:
            return [r for r in reply["records"] if isinstance(r["segment"], dict)]
        except (KeyError, TypeError):
            raise ProviderError(f"{self.name}: Dify's reply lacks `records`") from None

    def _chunk(self, record: dict[str, Any], rank: int) -> ScoredChunk:
        segment = record["segment"]
        text = str(segment.get("content", ""))
        document = segment.get("document") or {}
        name = str(document.get("name") or document.get("id") or "document")
        score = record.get("score")
        return ScoredChunk(
            f"{name}#{segment.get('id', rank)}",
            name,
            0,
            len(text),
            text,
            float(score) if isinstance(score, int | float) else 1.0 / (rank + 1),
            title=name,
        )
