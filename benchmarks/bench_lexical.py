"""Time the BM25 engines on generated text against rank_bm25 in the same run.

    python -m benchmarks.bench_lexical [--chunks 100000]

Words follow Zipf's law. Agreement is the share of queries whose ten best chunks are rank_bm25's,
chunks of (almost) equal score being exchangeable.
"""

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa

from benchmarks.shared import heading, options, row
from rag_pipeline.config import Lexical, LexicalEngine
from rag_pipeline.search.lexical_index import build_lexical_index, open_lexical_index

WORDS_PER_CHUNK = 100
VOCABULARY = 60_000
BATCH = 4096
REFERENCE = "rank_bm25"
QUERIES = 200
REFERENCE_QUERIES = 50

Hits = list[tuple[str, float]]


def main() -> None:
    given = options(__doc__, chunks=100_000)
    words = _words(np.random.default_rng(0))
    drawn = np.random.default_rng(1)
    queries = [" ".join(_draw(words, 6, drawn)) for _ in range(QUERIES)]
    found: dict[str, list[Hits]] = {}
    seconds: dict[str, tuple[float, float, float]] = {}
    for engine in get_args(LexicalEngine):
        wanted = queries[:REFERENCE_QUERIES] if engine == REFERENCE else queries
        found[engine], seconds[engine] = _run(engine, words, given.chunks, wanted)

    print(f"BM25 over {given.chunks:,} chunks of {WORDS_PER_CHUNK} words")
    heading("engine", "build s", "open s", "ms a query", "times as fast", "same top 10")
    for engine, (build, opened, query) in seconds.items():
        pairs = list(zip(found[engine], found[REFERENCE], strict=False))
        same = sum(_same(hits, reference) for hits, reference in pairs)
        took = f"{build:.1f}", f"{opened:.2f}", f"{query * 1000:.2f}"
        row(engine, *took, f"{seconds[REFERENCE][2] / query:.3g}", f"{same} of {len(pairs)}")


def _run(
    engine: str, words: np.ndarray, chunks: int, queries: list[str]
) -> tuple[list[Hits], tuple[float, float, float]]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / engine
        started = time.perf_counter()
        build_lexical_index(engine, _chunks(words, chunks), Lexical(), folder)
        built = time.perf_counter()
        index = open_lexical_index(folder)
        opened = time.perf_counter()
        index.search(queries[0], 10)  # the first search loads files
        times, hits = [], []
        for query in queries:
            start = time.perf_counter()
            hits.append(index.search(query, 10))
            times.append(time.perf_counter() - start)
        return hits, (built - started, opened - built, statistics.median(times))


def _words(rng: np.random.Generator) -> np.ndarray:
    letters = rng.integers(97, 123, (VOCABULARY, 10), dtype=np.uint8)
    lengths = rng.integers(3, 11, VOCABULARY)
    spelled = [bytes(row[:n]).decode() for row, n in zip(letters, lengths, strict=True)]
    return np.array(spelled, dtype=object)


def _draw(words: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    weights = 1 / np.arange(1, len(words) + 1)
    return words[rng.choice(len(words), count, p=weights / weights.sum())]


def _chunks(words: np.ndarray, chunks: int) -> Iterator[pa.RecordBatch]:
    rng = np.random.default_rng(2)
    for start in range(0, chunks, BATCH):
        rows = range(start, min(start + BATCH, chunks))
        drawn = _draw(words, len(rows) * WORDS_PER_CHUNK, rng).reshape(len(rows), -1)
        yield pa.record_batch(
            {
                "chunk_id": [f"document_{row // 20}#{row}" for row in rows],
                "document_id": [f"document_{row // 20}" for row in rows],
                "text": [" ".join(chunk) for chunk in drawn],
                "context": pa.nulls(len(rows), pa.string()),
                "title": [""] * len(rows),
                "start": list(rows),
            }
        )


def _same(hits: Hits, reference: Hits) -> bool:
    scores = np.array([score for _, score in hits])
    expected = np.array([score for _, score in reference])
    if len(scores) != len(expected) or not np.allclose(scores, expected, rtol=1e-5):
        return False
    last = expected[-1] * (1 + 1e-5) if len(expected) else 0.0
    return {i for i, s in hits if s > last} == {i for i, s in reference if s > last}


if __name__ == "__main__":
    main()
