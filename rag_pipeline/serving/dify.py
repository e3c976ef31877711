"""Dify, both ways: our index as its external knowledge base, its dataset as one of ours.

Sources: Dify's External Knowledge API (`POST /retrieval`) and its Knowledge API
(`POST /datasets/{id}/retrieve`).
"""

from typing import Any

from pydantic import BaseModel, Field, ValidationError

from rag_pipeline.assistant import Assistant
from rag_pipeline.assistant.datasets import Boost, DatasetSearch, Found
from rag_pipeline.datamodels import Document, ScoredChunk
from rag_pipeline.errors import InputError, ProviderError, RagPipelineError
from rag_pipeline.search.staged import Discovered
from rag_pipeline.serving.outgoing import post_json

_NO_KNOWLEDGE = 2001
_INVALID = 1002
_MOST = 100
"""Maximum number of segments that Dify returns."""


class _Setting(BaseModel):
    top_k: int = Field(ge=1, le=100)
    score_threshold: float = Field(default=0.0, ge=0.0)


class _Wanted(BaseModel):
    knowledge_id: str = Field(min_length=1, max_length=200)
    query: str = Field(min_length=1, max_length=4000)
    retrieval_setting: _Setting
    metadata_condition: dict[str, Any] | None = None


def retrieval(assistant: Assistant, body: bytes) -> tuple[int, dict[str, Any]]:
    """Answer Dify's external knowledge request; return the status and the JSON of the reply.

    A record's score tells how surely it answers, 0..1, as an answer's confidence does; those below
    the threshold are left out.
    """
    try:
        wanted = _Wanted.model_validate_json(body)
    except ValidationError as error:
        place = ".".join(str(step) for step in error.errors()[0]["loc"])
        return 400, _failure(_INVALID, f"{place or 'body'}: {error.errors()[0]['msg']}")
    if wanted.metadata_condition and wanted.metadata_condition.get("conditions"):
        # Left out, the condition would let everything through.
        return 400, _failure(
            _INVALID, "metadata_condition: filters are not supported; remove the conditions"
        )
    if wanted.knowledge_id not in assistant.datasets:
        return 404, _failure(_NO_KNOWLEDGE, "The knowledge does not exist")
    try:
        found = assistant.search(
            wanted.query, [wanted.knowledge_id], k=wanted.retrieval_setting.top_k
        )
        places = assistant.places(found)
        scores = assistant.confidences(wanted.query, found)
    except RagPipelineError as error:
        return 500, _failure(500, str(error))
    records: list[dict[str, Any]] = [
        {
            "content": p.chunk.text,
            "score": score,
            "title": p.chunk.title or p.chunk.document_id,
            "metadata": {
                **p.chunk.metadata,
                "document_id": p.chunk.document_id,
                "start": p.chunk.start,
                "end": p.chunk.end,
                **({"place": place.label} if place else {}),
                **({"page": place.page} if place and place.page else {}),
            },
        }
        for p, place, score in zip(found, places, scores, strict=True)
    ]
    limit = wanted.retrieval_setting.score_threshold
    return 200, {"records": [r for r in records if r["score"] >= limit]}


def _failure(code: int, message: str) -> dict[str, Any]:
    return {"error_code": code, "error_msg": message}


class DifyDataset:
    """A Dify dataset as a dataset of ours; its segments are documents' chunks without offsets."""

    shows_documents = False

    def __init__(self, name: str, endpoint: str, key: str) -> None:
        self.name = name
        self._url = f"{endpoint.rstrip('/')}/datasets/{name}/retrieve"
        self._key = key

    def __repr__(self) -> str:
        return f"DifyDataset({self.name!r})"

    def search(self, wanted: DatasetSearch, boost: Boost | None = None) -> Found:
        """Retrieve segments; one document is chosen among what Dify returns.

        Raises InputError for a filter, which Dify's segments can't be held against.
        """
        if wanted.where is not None:
            raise InputError(f"{self.name}: `where` filters our own indexes, not a Dify dataset")
        body = {
            "query": wanted.query,
            "retrieval_model": {
                "search_method": "hybrid_search",
                "reranking_enable": False,
                "top_k": min(wanted.k, _MOST) if wanted.document_id is None else _MOST,
                "score_threshold_enabled": False,
            },
        }
        records = self._post(body)
        chunks = [self._chunk(record, rank) for rank, record in enumerate(records)]
        if wanted.document_id is not None:
            chunks = [c for c in chunks if c.document_id == wanted.document_id]
        documents: dict[str, Discovered] = {}
        for chunk in chunks:
            named = Discovered(chunk.document_id, chunk.title, chunk.score)
            documents.setdefault(chunk.document_id, named)
        return Found(chunks[: wanted.k], list(documents.values()), {})

    def document(self, document_id: str) -> Document:
        """Raise InputError: Dify's retrieval returns segments, not documents."""
        raise InputError(f"{self.name}: {document_id[:200]!r} can't be shown: Dify keeps it")

    def describe(self) -> dict[str, Any]:
        """Return what is known without asking."""
        return {"name": self.name, "description": "a Dify dataset"}

    def _post(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        reply = post_json(f"{self.name}: Dify", self._url, body, headers)
        try:
            return [r for r in reply["records"] if isinstance(r["segment"], dict)]
        except (KeyError, TypeError):
            raise ProviderError(f"{self.name}: Dify's reply is not what it should be") from None

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
