"""Tell whether a chunk answers a gold span."""

from typing import Protocol


class SpanLike(Protocol):
    """A half-open range of a document's text in code points: a gold span or a chunk."""

    @property
    def document_id(self) -> str: ...  # noqa: D102

    @property
    def start(self) -> int: ...  # noqa: D102

    @property
    def end(self) -> int: ...  # noqa: D102


def answers(chunk: SpanLike, gold: SpanLike) -> bool:
    """Return whether a chunk answers a gold span (judge `gold`).

    Both must lie in one document, and share at least half of the shorter span. An empty span never
    answers.
    """
    if chunk.document_id != gold.document_id:
        return False
    shared = min(chunk.end, gold.end) - max(chunk.start, gold.start)
    return shared > 0 and 2 * shared >= min(chunk.end - chunk.start, gold.end - gold.start)
