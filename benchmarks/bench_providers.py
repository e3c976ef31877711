"""2,000 chunks through each embedding API, and 200 queries through each reranker, 30 % failing.

A server on loopback answers, refuses, hangs, cuts off, garbles and shortens its replies; all must
come out complete, in order, and each be paid for once.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from rag_pipeline.calls import CallCache
from rag_pipeline.config import Embedding, Reranker
from rag_pipeline.models.embedding import embed_tokens
from rag_pipeline.models.providers import open_embedder, open_scorer
from rag_pipeline.search.reranking import Asked, score_passages
from rag_pipeline_tests.testing.model_faults import faulty
from rag_pipeline_tests.testing.model_replies import score_of, vector_of
from rag_pipeline_tests.testing.model_server import ModelServer, serving

CHUNKS, DOCUMENT, QUERIES = 2000, 10, 200
_EMBEDDING: TypeAdapter[Any] = TypeAdapter(Embedding)
_RERANKER: TypeAdapter[Any] = TypeAdapter(Reranker)
_OPERATION = {"max_concurrency": 32, "timeout_seconds": 6.0}


def embedded(settings: dict[str, Any], contextual: bool = False) -> Callable[..., int]:
    def run(server: ModelServer, cache: CallCache) -> int:
        model = {"base_url": server.url, "max_texts": 4, **_OPERATION, **settings}
        embedder = open_embedder(_EMBEDDING.validate_python(model))
        texts = [f"chunk {n}" for n in range(CHUNKS)]
        documents = [f"{n // DOCUMENT}" for n in range(CHUNKS)]
        made = embed_tokens(texts, embedder, cache, documents=documents).vectors
        expected = texts
        if contextual:
            whole = [" | ".join(texts[n : n + DOCUMENT]) for n in range(0, CHUNKS, DOCUMENT)]
            expected = [f"{text} in {whole[n // DOCUMENT]}" for n, text in enumerate(texts)]
        right = np.stack([vector_of(text, embedder.dimension) for text in expected])
        np.testing.assert_allclose(made, right, atol=1e-6)
        assert sorted(server.answered) == sorted(texts)
        return CHUNKS

    return run


def reranked(settings: dict[str, Any]) -> Callable[..., int]:
    def run(server: ModelServer, cache: CallCache) -> int:
        model = {"base_url": server.url, **_OPERATION, **settings}
        scorer = open_scorer(_RERANKER.validate_python(model))
        passages = tuple(f"passage {n}" for n in range(20))
        asked = [Asked(f"which passage is {n}", passages) for n in range(QUERIES)]
        found = score_passages(asked, scorer, cache)
        assert found == [[score_of(q, p) for p in given] for q, given in asked]
        assert sorted(server.answered) == sorted(query for query, _ in asked)
        return QUERIES

    return run


RUNS: dict[str, Callable[..., int]] = {
    "openai embeddings": embedded(
        {"provider": "openai", "model": "own", "dimensions": 64, "shorten": True}
    ),
    "voyage embeddings": embedded({"provider": "voyage", "dimensions": 256}),
    "voyage contextualized": embedded(
        {"provider": "voyage", "model": "voyage-context-3", "dimensions": 256}, contextual=True
    ),
    "voyage rerank": reranked({"method": "voyage"}),
    "cohere rerank": reranked({"method": "cohere"}),
    "jina rerank": reranked({"method": "jina"}),
}


def main() -> None:
    sys.stdout.write("| API | inputs | requests | failed | seconds |\n|---|---|---|---|---|\n")
    for name, run in RUNS.items():
        with (
            serving(faults=faulty(11, hang_seconds=3.0)) as server,
            tempfile.TemporaryDirectory() as place,
        ):
            started = time.perf_counter()
            inputs = run(server, CallCache(Path(place) / "calls.sqlite"))
            seconds = time.perf_counter() - started
            needed = len({str(body) for body in server.bodies})
            requests = len(server.requests)
            share = (requests - needed) / requests
            sys.stdout.write(f"| {name} | {inputs} | {requests} | {share:.0%} | {seconds:.1f} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
