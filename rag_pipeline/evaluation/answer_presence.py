"""Judge ranked chunks against gold spans: which of them answer, and does one of the first k.

Lengths are Unicode code points.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol


class SpanLike(Protocol):
    """A half-open range of a document's text: gold spans, chunks and scored chunks are spans."""

    @property
    def document_id(self) -> str: ...  # noqa: D102

    @property
    def start(self) -> int: ...  # noqa: D102

    @property
    def end(self) -> int: ...  # noqa: D102


def answers(chunk: SpanLike, gold: SpanLike) -> bool:
    """Tell whether a chunk answers a gold span (judge `gold`).

    It does when both lie in the same document and share at least half of the shorter of the two.
    An empty span neither answers nor is answered.
    """
    if chunk.document_id != gold.document_id:
        return False
    shared = min(chunk.end, gold.end) - max(chunk.start, gold.start)
    return shared > 0 and 2 * shared >= min(chunk.end - chunk.start, gold.end - gold.start)


def relevance_labels(ranked: Sequence[SpanLike], gold_spans: Iterable[SpanLike]) -> list[bool]:
    """Tell for each chunk, best first, whether it answers any of the gold spans."""
    spans = list(gold_spans)
    return [any(answers(chunk, gold) for gold in spans) for chunk in ranked]


def answer_presence(labels: Sequence[bool], k: int) -> float:
    """Return AnswerPresence@k: 1.0 if any of the first k chunks answers, else 0.0.

    Its mean over queries estimates how often a generator that reads k chunks can answer at all.
    trec_eval calls it `success`, others hit rate.
    """
    return float(any(labels[:k]))
