"""An answer's citations -> sources, each held against the document that it is said to be of."""

from collections.abc import Callable, Mapping, Sequence

from rag_pipeline.answering.forms import verified
from rag_pipeline.assistant.results import Passage, Source
from rag_pipeline.datamodels import Answer, Citation, Document, ScoredChunk
from rag_pipeline.loading.places import Place, place_of

Held = Callable[[str, str, bool], Document | None]
"""From a dataset, a document's id and whether it is from outside to the document, if it is held."""


def cited(
    answer: Answer, passages: Sequence[Passage], held: Held
) -> tuple[Answer, tuple[Source, ...]]:
    """Return an answer with its citations verified, and their sources."""
    of_chunk = {p.chunk.chunk_id: p for p in reversed(passages)}
    answer = verified(answer, lambda c: _bears_out(c, of_chunk, held))
    sources = tuple(
        Source(
            c.number,
            passage.dataset,
            c.document_id,
            c.start,
            c.end,
            c.text,
            c.supports,
            passage.origin,
            place_in(c, passage, held),
        )
        for c in answer.citations
        if (passage := of_chunk.get(c.chunk_id)) is not None
    )
    return answer, sources


def place_in(span: Citation | ScoredChunk, passage: Passage, held: Held) -> Place | None:
    """Return where a span stands in a passage's document, None where that is not held."""
    document = held(passage.dataset, span.document_id, passage.origin is not None)
    return None if document is None else place_of(document, span.start, span.end)


def _bears_out(citation: Citation, of_chunk: Mapping[str, Passage], held: Held) -> bool:
    passage = of_chunk.get(citation.chunk_id)
    if passage is None or passage.chunk.document_id != citation.document_id:
        return False
    document = held(passage.dataset, citation.document_id, passage.origin is not None)
    if document is None:
        return citation.text in passage.chunk.text
    return document.text[citation.start : citation.end] == citation.text
