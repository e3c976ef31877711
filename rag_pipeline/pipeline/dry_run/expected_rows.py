"""Predict the chunks that each query finds in a changed index, before the index is built.

The prediction starts with the chunks that the query found in the last run. In a changed document,
the most similar chunk of the new text replaces a chunk. All other new chunks compete with the last
run's chunks by BM25.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np

from rag_pipeline.datamodels import Query
from rag_pipeline.search.tokenization import Tokenizer

Row = dict[str, Any]
"""A run's row without its query and rank, or a new chunk with its `context`."""

_ALIKE = 0.5
"""Minimum share (0 to 1) of the shorter chunk's word pairs that a similar chunk also has."""


@dataclass(slots=True)
class Change:
    """The documents that a run would change in an index, and their new chunks."""

    stale: frozenset[str] = frozenset()
    orphaned: frozenset[str] = frozenset()
    chunks: dict[str, list[Row]] = field(default_factory=dict)
    """The new chunks by document. Stale documents with unknown chunks are left out."""
    is_whole: bool = False
    """Whether `chunks` are all chunks of the new index."""


def expect_rows(
    queries: Sequence[Query],
    last: Mapping[str, Sequence[Row]],
    before: Iterable[Row],
    change: Change,
    k: int,
    tokenizer: Tokenizer,
    *,
    rest: Mapping[str, Sequence[Row]],
    reranked: int = 0,
    borrowed: bool = False,
) -> dict[str, list[Row | None]]:
    """Return the expected rows of each query by query id, at most `k`, best first.

    `last` has the rows of the last run by query id. `before` has the old chunks of stale documents.
    `rest` has the rows that each query now finds in unchanged documents, or is empty. A reranker
    orders the first `reranked` rows. In the result, None means a chunk of unknown text. A query
    without expected rows is left out. If `borrowed` is True, the last run is of another
    configuration, and the ranks of its rows are averaged with the ranks of BM25.
    """
    pairs = _Pairs(tokenizer)
    old: dict[str, list[Row]] = {}
    for row in before:
        old.setdefault(row["document_id"], []).append(row)
    known = {d: frozenset().union(*(pairs[row["text"]] for row in own)) for d, own in old.items()}
    fresh = [
        chunk
        for document_id, chunks in change.chunks.items()
        for chunk in chunks
        if not _are_alike(pairs[chunk["text"]], known.get(document_id, frozenset()))
    ]
    kept: dict[str, list[Row | None]] = {}
    replaced: dict[str, list[Row]] = {}
    for query in queries:
        own = last.get(query.query_id, ())[:k]
        stays = [row for row in own if row["document_id"] not in change.stale | change.orphaned]
        others: list[Row | None] = list(rest.get(query.query_id, stays))
        news: dict[int, list[Row | None]] = {}
        for rank, row in enumerate(own):
            document_id, chunk_id = row["document_id"], row["chunk_id"]
            if document_id in change.stale and document_id not in change.chunks:
                news[rank] = [None]
            elif document_id in change.stale:
                if chunk_id not in replaced:
                    replaced[chunk_id] = _successors(row, change.chunks[document_id], pairs)
                news[rank] = list(replaced[chunk_id])
        if reranked:  # the reranker gives the same order to the chunks that it reads again
            read = reranked - len(
                _distinct(n for r, some in news.items() if r < reranked for n in some)
            )
            ids = {row["chunk_id"] for row in others[:read] if row}
            others = [*(r for r in own[:reranked] if r["chunk_id"] in ids), *others]
            others = _distinct(others)
        shift = 0
        for rank, found in news.items():
            others[rank + shift : rank + shift] = found
            shift += len(found) - 1
        kept[query.query_id] = _distinct(others)
        if len(own) == k and not change.is_whole and not rest:
            # Unknown chunks move up from below the last rank.
            kept[query.query_id] += [None] * (k - len(kept[query.query_id]))
    if fresh and (change.is_whole or any(kept.values())):
        _insert(queries, kept, fresh, tokenizer, borrowed)
    return {query_id: rows[:k] for query_id, rows in kept.items() if rows}


def place_unseen(rows: list[Row | None], last: Sequence[Row], change: Change, count: int) -> None:
    """Give a random rank to each old chunk that is new among a reranker's first `count` chunks.

    The reranker has not scored these chunks for this query. Low ranks are more likely, because the
    search ranked these chunks below the others. New chunks keep the ranks of BM25. Each plan gives
    the same ranks.
    """
    seen = {row["chunk_id"] for row in last[:count]}
    seen |= {chunk["chunk_id"] for chunks in change.chunks.values() for chunk in chunks}
    placed: list[Row | None] = [
        row for row in rows[:count] if row is not None and row["chunk_id"] in seen
    ]
    moved = [row for row in rows[:count] if row is None or row["chunk_id"] not in seen]
    for number, row in enumerate(moved):
        name = f"{number} {row['chunk_id'] if row else ''} {last[0]['chunk_id']}"
        placed.insert(round(Random(name).random() ** 0.5 * len(placed)), row)
    rows[:count] = placed


def _distinct(rows: Iterable[Row | None]) -> list[Row | None]:
    """Return the first row of each chunk, in order, and every None."""
    first: dict[Any, Row | None] = {}
    for number, row in enumerate(rows):
        first.setdefault(row["chunk_id"] if row else number, row)
    return list(first.values())


class _Pairs(dict[str, frozenset[Any]]):
    """The distinct pairs of neighbouring terms, by text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def __missing__(self, text: str) -> frozenset[Any]:
        terms = self.tokenizer.tokenize(text)
        found = self[text] = frozenset(pairwise(terms) if len(terms) > 1 else terms)
        return found


def _are_alike(one: frozenset[Any], other: frozenset[Any]) -> bool:
    shared = len(one & other)
    return shared > 0 and shared >= _ALIKE * min(len(one), len(other))


def _successors(row: Row, chunks: Sequence[Row], pairs: _Pairs) -> list[Row]:
    """Return the chunk that has the text of `row`, or else all similar chunks, best match first."""
    mine = pairs[row["text"]]
    same = [chunk for chunk in chunks if chunk["text"] == row["text"]][:1]
    alike = [chunk for chunk in chunks if _are_alike(mine, pairs[chunk["text"]])]
    return same or sorted(alike, key=lambda chunk: -len(mine & pairs[chunk["text"]]))


def _insert(
    queries: Sequence[Query],
    kept: Mapping[str, list[Row | None]],
    fresh: Sequence[Row],
    tokenizer: Tokenizer,
    borrowed: bool,
) -> None:
    """Insert the new chunks into each query's rows. BM25 over all known chunks decides the rank."""
    import bm25s

    pool = {row["text"]: None for rows in kept.values() for row in rows if row}
    texts = dict.fromkeys([*pool, *(chunk["text"] for chunk in fresh)])
    place = {text: n for n, text in enumerate(texts)}
    engine = bm25s.BM25(method="lucene")
    engine.index([tokenizer.tokenize(text) for text in place], show_progress=False)
    for query in queries:
        terms = [t for t in tokenizer.tokenize(query.query) if t in engine.vocab_dict]
        scores = engine.get_scores(terms) if terms else np.zeros(len(place))
        known = np.sort(scores[: len(pool)])
        rows = kept[query.query_id]
        present = {row["chunk_id"] for row in rows if row}
        merged: list[tuple[float, float, Row | None]] = []
        for rank, row in enumerate(rows):
            better = int((scores > scores[place[row["text"]]]).sum()) if row else rank
            merged.append(((rank + better) / 2 if borrowed else rank, 0.0, row))
        for chunk in fresh:
            if chunk["chunk_id"] not in present:
                score = float(scores[place[chunk["text"]]])
                low, high = np.searchsorted(known, score), np.searchsorted(known, score, "right")
                middle = len(known) - (int(low) + int(high)) / 2
                merged.append((middle - 0.5, -score - 1, chunk))
        rows[:] = [row for _, _, row in sorted(merged, key=lambda one: one[:2])]
