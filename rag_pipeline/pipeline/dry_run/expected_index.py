"""Build the index that a run would search, with expected contexts and vectors.

The replies of models are unknown. A new chunk takes the context and the vector of the most similar
chunks that its document has in the last index. If there are none, a local model embeds the chunk.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from rag_pipeline.calls.database import parts
from rag_pipeline.config import Configuration, Lexical
from rag_pipeline.config.models import LocalEmbedder
from rag_pipeline.errors import StoreError
from rag_pipeline.evaluation.results import RUN
from rag_pipeline.evaluation.runs import pinned_of
from rag_pipeline.models.embedding import request
from rag_pipeline.pipeline.dry_run.workspace import DryWorkspace
from rag_pipeline.search.index import Index
from rag_pipeline.search.lexical_index import (
    EarlierIndex,
    LexicalIndex,
    build_lexical_index,
    built_with,
    is_extensible,
    open_lexical_index,
)
from rag_pipeline.search.tokenization import Tokenizer, tokenizer_of
from rag_pipeline.store import Table
from rag_pipeline.store.schemas import CONTEXTUALIZED_CHUNKS_SCHEMA

Row = dict[str, Any]
"""A row of a vector index, or of a run without its query and rank."""

_NEW: Row = {"context": None, "token_ids": b"", "token_vectors": b""}
_ALIKE = 0.5
"""Minimum share (0 to 1) of the shorter chunk's word pairs that a similar chunk also has."""
_AT_ONCE = 64
"""Number of documents whose old rows are in memory at the same time."""
_EMBEDDED = 64
"""Maximum number of new chunks that a local model embeds, which may take seconds."""


@dataclass(slots=True)
class Change:
    """The documents that a run would change in an index, and their new chunks."""

    stale: frozenset[str] = frozenset()
    orphaned: frozenset[str] = frozenset()
    chunks: dict[str, list[Row]] = field(default_factory=dict)
    """The new chunks by document. Stale documents with unknown chunks are left out."""
    is_whole: bool = False
    """Whether `chunks` are all chunks of the new index."""


@dataclass(frozen=True, slots=True)
class LastIndex:
    """A version of a table of vectors, and the lexical index of its chunks."""

    table: Table
    version: int
    lexical: Path | None
    """The folder of the lexical index, or None if there is none."""
    embedder: LocalEmbedder | None
    """The local model of the vectors, or None for a remote model."""
    is_comparable: bool
    """Whether the vectors are of the model that the run uses."""

    @property
    def dimension(self) -> int:
        """Return the length of the vectors."""
        return int(self.table.schema.field("vector").type.list_size)

    def rows(self, document_ids: Sequence[str]) -> dict[str, list[Row]]:
        """Return the rows of each document."""
        found: dict[str, list[Row]] = {document_id: [] for document_id in document_ids}
        for row in self.table.read_rows(self.table.schema.names, document_ids, self.version):
            found[row["document_id"]].append(row)
        return found


@dataclass(frozen=True, slots=True)
class ExpectedIndex:
    """The index that a run would search."""

    index: Index
    origins: dict[str, str]
    """The text of the most similar old chunk, by the text of a new chunk."""


def last_index(dry: DryWorkspace, configuration: Configuration) -> LastIndex | None:
    """Return the index of the last run, or of the most similar configuration's last run."""
    alike = [
        (c == configuration, c.embedding == configuration.embedding,
         c.chunking == configuration.chunking, c.name)
        for c in dry.config.all_configurations.values() if RUN.note(dry, c.name)
    ]  # fmt: skip
    nearest = dry.config.configuration(max(alike)[-1]) if alike else configuration
    pinned = pinned_of(dry, nearest.name)
    table = dry.dry_table(pinned.vector_table if pinned else "")
    if pinned is None or not table.has_version(pinned.vector_version):
        return None
    lexical = None
    if pinned.lexical_path is not None:
        with suppress(StoreError):
            lexical = dry.store.local_folder(pinned.lexical_path)
    embedder = dry.embedder(configuration.embedding)
    schema = table.dataset(pinned.vector_version).schema
    table = dry.store.table(pinned.vector_table, schema)
    last = LastIndex(table, pinned.vector_version, lexical, None, False)
    if nearest.embedding != configuration.embedding or last.dimension != embedder.dimension:
        return last
    local = embedder if isinstance(embedder, LocalEmbedder) else None
    return replace(last, embedder=local, is_comparable=True)


def expect_index(last: LastIndex, change: Change, lexical: Lexical, folder: Path) -> ExpectedIndex:
    """Build an index in an empty folder. Documents with unknown new chunks keep the old chunks."""
    import lance

    origins: dict[str, str] = {}
    gone = change.chunks.keys() | change.orphaned
    kept = [] if change.is_whole else sorted(last.table.state(last.version).keys() - gone)
    new = list(_new_rows(last, change, _Pairs(tokenizer_of(lexical)), origins))
    unchanged = last.table.read(last.table.schema.names, kept, last.version)
    reader = pa.RecordBatchReader.from_batches(last.table.schema, chain(unchanged, new))
    table = lance.write_dataset(reader, str(folder / "expected.lance"))
    known, earlier, rows = last.lexical, None, iter(new)
    if known and is_extensible(known) and built_with(known) == lexical:
        earlier = EarlierIndex(known, kept)
    else:
        rows = table.to_batches(columns=CONTEXTUALIZED_CHUNKS_SCHEMA.names)
    build_lexical_index("bm25s", rows, lexical, folder / "lexical", earlier)
    return ExpectedIndex(Index.open(table, open_lexical_index(folder / "lexical")), origins)


def reorder(rows: list[Row], scores: Mapping[str, float], count: int) -> None:
    """Order the first `count` rows by a reranker's scores by text, best first.

    A row without a score gets a random rank. Low ranks are more likely, because the search ranked
    most of these rows below the others. Each plan gives the same ranks.
    """
    first = rows[:count]
    placed = [(scores[row["text"]], row) for row in first if row["text"] in scores]
    placed.sort(key=lambda one: -one[0])
    for row in first:
        if row["text"] not in scores:
            chance = Random(f"{row['chunk_id']} {[r['chunk_id'] for r in first]}").random()
            place = round(chance**0.5 * len(placed))
            placed.insert(place, (placed[place - 1 if place else 0][0] if placed else 0.0, row))
    lowest = placed[-1][0] if placed else 0.0
    placed += [(lowest, row) for row in rows[count:]]
    rows[:] = [{**row, "score": score} for score, row in placed]


class _Pairs(dict[str, frozenset[Any]]):
    """The distinct pairs of neighbouring terms, by text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def __missing__(self, text: str) -> frozenset[Any]:
        terms = self.tokenizer.tokenize(text)
        found = self[text] = frozenset(pairwise(terms) if len(terms) > 1 else terms)
        return found


def _new_rows(
    last: LastIndex, change: Change, pairs: _Pairs, origins: dict[str, str]
) -> Iterator[pa.RecordBatch]:
    lexical = open_lexical_index(last.lexical) if last.lexical else None
    embedded = 0
    for some in parts(sorted(change.chunks), _AT_ONCE):
        old = last.rows(some)
        made = []
        for chunk in (chunk for document_id in some for chunk in change.chunks[document_id]):
            alike = _alike(chunk, old[chunk["document_id"]], pairs)
            if alike:
                origins[chunk["text"]] = alike[0][1]["text"]
            elif last.embedder is not None and embedded < _EMBEDDED:
                embedded += 1
                vectors = request([chunk["text"]], last.embedder, "document").vectors
                alike = [(1, {"vector": vectors[0], **_NEW})]
            else:
                alike = [(1, {**_nearest(chunk, last, lexical), **_NEW})]
            made.append(_expected_row(chunk, alike))
        pairs.clear()
        yield pa.RecordBatch.from_pylist(made, last.table.schema)


def _alike(chunk: Row, old: Sequence[Row], pairs: _Pairs) -> list[tuple[int, Row]]:
    """Return the similar chunks with their numbers of common word pairs, most similar first."""
    same = [row for row in old if row["text"] == chunk["text"]]
    if same:
        return [(1, same[0])]
    mine, found = pairs[chunk["text"]], []
    for row in old:
        shared = len(mine & pairs[row["text"]])
        if shared and shared >= _ALIKE * min(len(mine), len(pairs[row["text"]])):
            found.append((shared, row))
    return sorted(found, key=lambda one: -one[0])


def _nearest(chunk: Row, last: LastIndex, lexical: LexicalIndex | None) -> Row:
    """Return the old chunk with the best BM25 score for a chunk's text, or else a zero vector."""
    for chunk_id, _ in lexical.search(chunk["text"], 1) if lexical else ():
        document_id = chunk_id.rpartition("#")[0]
        for row in last.rows([document_id])[document_id]:
            if row["chunk_id"] == chunk_id:
                return row
    return {"vector": np.zeros(last.dimension)}


def _expected_row(chunk: Row, alike: Sequence[tuple[int, Row]]) -> Row:
    """Return a new chunk with the most similar chunk's context, and the mean vector of all."""
    weights, vectors = zip(*((shared, row["vector"]) for shared, row in alike), strict=True)
    vector = np.average(np.array(vectors, np.float32), axis=0, weights=weights)
    vector /= max(float(np.linalg.norm(vector)), 1e-12)
    expected = {**alike[0][1], **chunk, "context": alike[0][1]["context"]}
    return {**expected, "vector": vector.astype(np.float32)}
