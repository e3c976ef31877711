"""Latency of a query, besides its embedding, over generated chunks: dense, hybrid, the default's.

    python -m benchmarks.bench_retrieval [--chunks N ...]

Words follow Zipf's law, vectors lie in clusters, 20 chunks make a document, and every query names
one by a word of its file name.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rag_pipeline.config import (
    DenseRetriever,
    HybridRetriever,
    Lexical,
    MaxSimReranker,
    NoReranker,
    Reranker,
)
from rag_pipeline.datamodels import CONTEXTUALIZED_CHUNKS_SCHEMA, rows_of, vector_schema
from rag_pipeline.models.embedding import Embedded
from rag_pipeline.search import vector_index
from rag_pipeline.search.lexical_index import build_lexical_index, open_lexical_index
from rag_pipeline.search.retrieval import EncodedQuestion, Index, read_question, retrieve
from rag_pipeline.store import Store

DIMENSION, TOKENS, WORDS, PER_DOCUMENT, BATCH = 384, 100, 80, 20, 4000
QUERY_TOKENS, QUERIES, CLUSTERS, VOCABULARY = 20, 200, 500, 30_000

HYBRID = {"dense_weight": 0.4, "lexical_weight": 0.6, "top_k": 50}
NONE, MAXSIM = NoReranker(method="none"), MaxSimReranker(method="maxsim", candidates=50)
DISCOVER = HybridRetriever(
    method="hybrid",
    document_weight=2.5,
    split_query=True,
    neighbour_weight=0.1,
    candidates=200,
    **HYBRID,
)
CONFIGURATIONS: dict[str, tuple[DenseRetriever | HybridRetriever, Reranker]] = {
    "dense": (DenseRetriever(method="dense", top_k=50), NONE),
    "hybrid": (HybridRetriever(method="hybrid", **HYBRID), NONE),
    "hybrid, documents": (DISCOVER, NONE),
    "hybrid, documents, maxsim": (DISCOVER, MAXSIM),
}


class Corpus:
    """Generates the rows of an index and queries for it."""

    def __init__(self, chunks: int) -> None:
        self.chunks = chunks
        self.rng = np.random.default_rng(0)
        self.centres = self.rng.normal(size=(CLUSTERS, DIMENSION)).astype(np.float32)
        self.words = np.array([f"word{n}" for n in range(VOCABULARY)])
        shares = 1 / np.arange(1, VOCABULARY + 1)
        self.shares = np.cumsum(shares / shares.sum())

    def draw(self, count: int) -> list[str]:
        numbers = np.searchsorted(self.shares, self.rng.random(count))
        return list(self.words[np.minimum(numbers, VOCABULARY - 1)])

    def vectors(self, count: int) -> np.ndarray:
        """Return unit vectors whose cosine to their cluster's centre is about 0.8."""
        noise = self.rng.normal(size=(count, DIMENSION)).astype(np.float32)
        vectors = self.centres[self.rng.integers(0, CLUSTERS, count)] + 0.75 * noise
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def batches(self) -> Iterator[tuple[pa.RecordBatch, Embedded]]:
        for first in range(0, self.chunks, BATCH):
            count = min(BATCH, self.chunks - first)
            ids = [f"name{(first + n) // PER_DOCUMENT}.txt" for n in range(count)]
            starts = [(first + n) % PER_DOCUMENT * 500 for n in range(count)]
            columns: dict[str, Any] = {
                "document_id": ids,
                "content_hash": ["h"] * count,
                "fingerprint": ["f"] * count,
                "chunk_id": [f"{i}#{s}-{s + 500}" for i, s in zip(ids, starts, strict=True)],
                "start": starts,
                "end": [start + 500 for start in starts],
                "text": [" ".join(self.draw(WORDS)) for _ in range(count)],
                "title": [""] * count,
                "metadata": ["{}"] * count,
                "context": [""] * count,
            }
            tokens = self.rng.integers(0, VOCABULARY, (count, TOKENS), dtype=np.uint32)
            bits = self.rng.integers(0, 256, (count, TOKENS * DIMENSION // 8), dtype=np.uint8)
            packed = [t.tobytes() + b.tobytes() for t, b in zip(tokens, bits, strict=True)]
            batch = rows_of(columns, CONTEXTUALIZED_CHUNKS_SCHEMA)
            yield batch, Embedded(self.vectors(count), packed)

    def queries(self) -> Iterator[tuple[str, EncodedQuestion]]:
        for _ in range(QUERIES):
            name = self.rng.integers(0, self.chunks // PER_DOCUMENT)
            tokens = self.rng.integers(0, VOCABULARY, QUERY_TOKENS, dtype=np.uint32)
            vectors = self.rng.normal(size=(QUERY_TOKENS, DIMENSION)) / DIMENSION**0.5
            packed = tokens.tobytes() + vectors.astype(np.float16).tobytes()
            text = f"name{name}; {' '.join(self.draw(8))}"
            yield text, EncodedQuestion(self.vectors(1)[0], packed)


def _given(made: Embedded, _: object) -> Embedded:
    return made


def build(corpus: Corpus, folder: Path) -> Index:
    """Build both indexes as `rag run` does and open them."""
    schema = vector_schema(DIMENSION, token_vectors=True)
    table = Store(str(folder), "generated").table("vectors", schema)
    table.ensure()

    def stored() -> Iterator[pa.RecordBatch]:
        for batch, made in corpus.batches():
            rows = vector_index.index_chunks([batch], partial(_given, made), schema, "f")
            table.replace([], list(rows))
            yield batch

    build_lexical_index("bm25s", stored(), Lexical(), folder / "lexical")
    vector_index.maintain(table)
    return Index.open(table.open(), open_lexical_index(folder / "lexical"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, nargs="*", default=[2_000, 100_000])
    for chunks in parser.parse_args().chunks:
        with tempfile.TemporaryDirectory() as folder:
            corpus = Corpus(chunks)
            index = build(corpus, Path(folder))
            queries = list(corpus.queries())
            sys.stdout.write(f"\n{chunks:,} chunks, milliseconds a query: p50, p95\n")
            for name, (retriever, reranker) in CONFIGURATIONS.items():
                seconds = []
                for text, encoded in [*queries[:10], *queries]:
                    started = time.perf_counter()
                    question = read_question(index, text, retriever)
                    retrieve(index, question, encoded, retriever, reranker)
                    seconds.append(time.perf_counter() - started)
                p50, p95 = 1000 * np.percentile(seconds[10:], [50, 95])
                sys.stdout.write(f"  {name:26} {p50:6.1f} {p95:6.1f}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
