"""Widen ranked chunks to larger passages with the text around each chunk."""

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import numpy as np

from rag_pipeline.config.retrievers import Expand
from rag_pipeline.datamodels import ScoredChunk, Span
from rag_pipeline.loading.text import headings
from rag_pipeline.search.index import Index

EXPAND: tuple[Expand, ...] = get_args(Expand)
"""The values of `expand`, in ascending order of the passages' size."""
_LONGEST = 4_000
"""Maximum length of a section in characters."""


def widened(
    index: Index, chunks: Sequence[ScoredChunk], expand: Expand
) -> list[tuple[int, ScoredChunk]]:
    """Return larger passages that do not overlap, each with the list position of its best chunk.

    `neighbours` adds the chunks before and after a chunk. `section` takes the text between the
    headings around the chunk. If no heading is before the chunk, or if the section has more than
    4,000 characters, `section` adds the neighbours. Without a documents table, the chunks stay
    unchanged.
    """
    if expand == "none" or index.documents is None or not chunks:
        return list(enumerate(chunks))
    texts = index.documents.texts(sorted({chunk.document_id for chunk in chunks}))
    kept: dict[int, ScoredChunk] = {}
    for place, (chunk, near) in enumerate(zip(chunks, _neighbours(index, chunks), strict=True)):
        text = texts.get(chunk.document_id, "")
        if text[chunk.start : chunk.end] != chunk.text:
            kept[place] = chunk
            continue
        start, end = (expand == "section" and _section(text, chunk)) or near
        met = [
            n
            for n, one in kept.items()
            if one.document_id == chunk.document_id and one.start < end and start < one.end
        ]
        start = min([start, *(kept[n].start for n in met)])
        end = max([end, *(kept[n].end for n in met)])
        best = met[0] if met else place
        kept[best] = replace(
            kept.get(best, chunk),
            chunk_id=f"{chunk.document_id}#{start}-{end}",
            start=start,
            end=end,
            text=text[start:end],
            token_signs=b"",
        )
        for n in met[1:]:
            del kept[n]
    return list(kept.items())


def _neighbours(index: Index, chunks: Sequence[ScoredChunk]) -> list[Span]:
    """Return for each chunk the span with its neighbours, or its own span if it is not indexed."""
    at = np.minimum(index.at([chunk.chunk_id for chunk in chunks]), len(index) - 1)
    around = np.column_stack([at, index.neighbours[at]])
    known = np.unique(around[around >= 0])
    rows = index.take(known, ["chunk_id", "start", "end"]).to_pylist()
    of = dict(zip(known.tolist(), rows, strict=True))
    found = []
    for chunk, positions in zip(chunks, around.tolist(), strict=True):
        spans = [(of[p]["start"], of[p]["end"]) for p in positions if p >= 0]
        is_here = of[positions[0]]["chunk_id"] == chunk.chunk_id
        spans = spans if is_here else [(chunk.start, chunk.end)]
        found.append((min(start for start, _ in spans), max(end for _, end in spans)))
    return found


def _section(text: str, chunk: ScoredChunk) -> Span | None:
    start, end = -1, len(text)
    for offset, _, _ in headings(text):
        if offset <= chunk.start:
            start = offset
        elif offset >= chunk.end:
            end = offset
            break
    end = start + len(text[start:end].rstrip())
    return None if start < 0 or end - start > _LONGEST or end < chunk.end else (start, end)
