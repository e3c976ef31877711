"""Chunks of tests, and the indexes built of them."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from rag_pipeline.config import Lexical
from rag_pipeline.search.lexical_index import LexicalIndex, build_lexical_index, open_lexical_index

ENGINES = ["bm25s", "rank_bm25", "lance"]
PLAIN = Lexical(language="none")

Row = tuple[str, str, str | None]
"""Chunk id, text, context."""


def batches(rows: Sequence[Row], size: int = 100) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), size):
        ids, texts, contexts = zip(*rows[start : start + size], strict=True)
        columns = {
            "chunk_id": ids,
            "document_id": [chunk_id.partition("#")[0] for chunk_id in ids],
            "text": texts,
        }
        columns = {name: pa.array(values, pa.string()) for name, values in columns.items()}
        titles = pa.array([None] * len(ids), pa.string())
        starts = pa.array(range(start, start + len(ids)), pa.int64())
        columns |= {"context": pa.array(contexts, pa.string()), "title": titles}
        yield pa.record_batch({**columns, "start": starts})


def head_rows(rows: Sequence[tuple[str, int, str, str]]) -> pa.RecordBatch:
    """Return document ids, starts, texts and titles as a batch."""
    names = ("document_id", "start", "text", "title")
    columns = zip(*rows, strict=True) if rows else ((), (), (), ())
    types = (pa.string(), pa.int64(), pa.string(), pa.string())
    arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
    return pa.record_batch(arrays, names=list(names))


def built(engine: str, rows: Sequence[Row], folder: Path, options: Lexical = PLAIN) -> LexicalIndex:
    build_lexical_index(engine, batches(rows), options, folder)
    return open_lexical_index(folder)


def rows_of(texts: Sequence[str]) -> list[Row]:
    return [(f"d{number // 7}#{number:05}", text, None) for number, text in enumerate(texts)]


def zipf_texts(count: int, seed: int, vocabulary: int = 300) -> list[str]:
    rng = random.Random(seed)
    words = [f"w{number}" for number in range(vocabulary)]
    weights = [1 / (rank + 1) for rank in range(vocabulary)]
    return [" ".join(rng.choices(words, weights, k=rng.randint(1, 40))) for _ in range(count)]


def zipf_queries(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [
        " ".join(f"w{rng.randrange(300)}" for _ in range(rng.randint(1, 6))) for _ in range(count)
    ]
