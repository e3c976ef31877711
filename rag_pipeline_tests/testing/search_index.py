"""A small index of random vectors and words, and the settings to search it with."""

import random
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rag_pipeline.config import Lexical
from rag_pipeline.datamodels import Document
from rag_pipeline.indexing.loads import document_rows
from rag_pipeline.models.embedding import Embedded
from rag_pipeline.search import vector_index
from rag_pipeline.search.documents import PinnedDocuments
from rag_pipeline.search.index import Index
from rag_pipeline.search.lexical_index import build_lexical_index, open_lexical_index
from rag_pipeline.search.reranking.late_interaction import MaxSimReranker
from rag_pipeline.search.reranking.none import NoReranker
from rag_pipeline.search.retrievers.dense import DenseRetriever
from rag_pipeline.search.retrievers.hybrid import HybridRetriever
from rag_pipeline.search.retrievers.lexical import LexicalRetriever
from rag_pipeline.store import Store, Table
from rag_pipeline.store.schemas import (
    CONTEXTUALIZED_CHUNKS_SCHEMA,
    DOCUMENTS_SCHEMA,
    rows_of,
    vector_schema,
)

DIMENSION = 8
WORDS = [f"w{n}" for n in range(30)]


def random_chunks(
    seed: int = 0, documents: int = 12, per_document: int = 6
) -> list[dict[str, Any]]:
    """Chunks of documents that are named after a word of their own, with random vectors."""
    rng = random.Random(seed)
    return [
        {
            "document_id": f"name{d}.txt",
            "content_hash": "h",
            "fingerprint": "f",
            "chunk_id": f"name{d}.txt#{n}-{n + 1}",
            "start": n,
            "end": n + 1,
            "text": " ".join(rng.choices(WORDS, k=8)),
            "title": "",
            "metadata": f'{{"parity": {d % 2}}}',
            "context": "",
        }
        for d in range(documents)
        for n in range(per_document)
    ]


def vector_of(key: str) -> np.ndarray:
    vector: np.ndarray = (
        np.random.default_rng(list(key.encode())).normal(size=DIMENSION).astype(np.float32)
    )
    return vector / np.linalg.norm(vector)


def tokens_of(key: str, count: int = 4) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(list(key.encode()))
    vectors = random.normal(size=(count, DIMENSION)).astype(np.float32)
    return random.integers(0, 50, count).astype(np.uint32), vectors


def signs_of(key: str) -> bytes:
    ids, vectors = tokens_of(key)
    return ids.tobytes() + np.packbits(vectors > 0, axis=1).tobytes()


def given(made: Any, _: Any) -> Any:
    return made


def index_of(
    folder: Path,
    rows: list[dict[str, Any]],
    order: Sequence[int] | None = None,
    engine: str = "bm25s",
) -> Index:
    rows = rows if order is None else [rows[n] for n in order]
    columns = {name: [row[name] for row in rows] for name in CONTEXTUALIZED_CHUNKS_SCHEMA.names}
    batch = rows_of(columns, CONTEXTUALIZED_CHUNKS_SCHEMA)
    vectors = np.stack([vector_of(row["chunk_id"]) for row in rows])
    tokens = [signs_of(row["chunk_id"]) for row in rows]
    table = Store(str(folder), "tiny").table("v", vector_schema(DIMENSION, token_vectors=True))
    table.ensure()
    half = len(rows) // 2
    for rows_ in (slice(0, half), slice(half, len(rows))):
        made: Any = Embedded(vectors[rows_], tokens[rows_])
        part = batch.slice(rows_.start, rows_.stop - rows_.start)
        table.replace(
            [], vector_index.index_chunks([part], partial(given, made), table.schema, "f")
        )
    build_lexical_index(engine, [batch], Lexical(language="none"), folder / "lexical")
    return Index.open(table.dataset(), open_lexical_index(folder / "lexical"))


def documents_of(folder: Path, texts: Mapping[str, str]) -> tuple[Table, PinnedDocuments]:
    """Return a table of documents with these texts by id, and the reader of its version."""
    documents = [Document(name, "h", text, metadata={"n": 1}) for name, text in texts.items()]
    table = Store(str(folder), "tiny").table("documents", DOCUMENTS_SCHEMA)
    table.ensure()
    table.replace([*texts], [document_rows(documents, "f", dict.fromkeys(texts))])
    return table, PinnedDocuments(table, table.version)


def hybrid(**settings: Any) -> HybridRetriever:
    return HybridRetriever(method="hybrid", **{"k": 100, **settings})


def embed(texts: Sequence[str]) -> Embedded:
    """Embed every text as the same vector and tokens."""
    return Embedded(np.stack([VECTOR] * len(texts)), [TOKENS] * len(texts))


QUERY = "w1 w2 name3"
VECTOR = vector_of("query")
IDS, VECTORS = tokens_of("query", 3)
TOKENS = IDS.tobytes() + VECTORS.astype(np.float16).tobytes()
NO = NoReranker(method="none")
DISCOVER = {"document_weight": 2.0, "split_query": True}
MAXSIM = MaxSimReranker(method="maxsim", weight=0.4, candidates=20)
ALL = [
    DenseRetriever(method="dense", k=100),
    LexicalRetriever(method="lexical", k=100),
    hybrid(),
    hybrid(fusion="rrf"),
    hybrid(**DISCOVER),
    hybrid(**DISCOVER, candidates=3, k=5),
    hybrid(**DISCOVER, neighbour_weight=0.5),
]
