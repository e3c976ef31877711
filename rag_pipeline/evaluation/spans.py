"""Count characters: how much of the gold text was retrieved, among how much else.

The definitions are those of Smith and Troynikov, Evaluating Chunking Strategies for Retrieval,
Chroma Technical Report, 2024, on characters (Unicode code points) in place of tokens.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rag_pipeline.datamodels import GoldSpan
from rag_pipeline.evaluation.answer_presence import SpanLike


@dataclass(frozen=True, slots=True)
class CharacterCounts:
    """Characters behind the span metrics of one query at one cutoff.

    `gold`: characters of the gold spans, overlaps counted once. `retrieved`: characters of the
    retrieved chunks, counted again for each chunk that repeats them, as Chroma does: a reader of
    the chunks reads them again. `found`: gold characters that any retrieved chunk covers, counted
    once.
    """

    gold: int
    retrieved: int
    found: int

    @property
    def recall(self) -> float | None:
        """Return found / gold; None without gold characters."""
        return self.found / self.gold if self.gold else None

    @property
    def precision(self) -> float | None:
        """Return found / retrieved; None where nothing was retrieved."""
        return self.found / self.retrieved if self.retrieved else None

    @property
    def iou(self) -> float | None:
        """Return found / (gold + retrieved - found), intersection over union; None over nothing."""
        union = self.gold + self.retrieved - self.found
        return self.found / union if union else None


def count_characters(
    ranked: Sequence[SpanLike], gold_spans: Sequence[SpanLike], k: int
) -> CharacterCounts:
    """Count gold, retrieved and found characters for the first k chunks."""
    top = ranked[:k]
    gold = union_length(gold_spans)
    return CharacterCounts(
        gold=gold,
        retrieved=sum(max(0, chunk.end - chunk.start) for chunk in top),
        found=gold + union_length(top) - union_length([*gold_spans, *top]),
    )


def characters_within(
    ranked: Sequence[SpanLike], gold_spans: Sequence[SpanLike], budget: int
) -> CharacterCounts:
    """Count gold, retrieved and found characters for the first `budget` characters of the chunks.

    The chunk that passes the budget is cut there, so that chunks of every size are compared by the
    same amount of text.
    """
    top: list[SpanLike] = []
    for chunk in ranked:
        if budget <= 0:
            break
        end = min(chunk.end, chunk.start + budget)
        top.append(GoldSpan(chunk.document_id, chunk.start, end))
        budget -= end - chunk.start
    return count_characters(top, gold_spans, len(top))


def union_length(spans: Iterable[SpanLike]) -> int:
    """Return how many characters at least one of the spans covers."""
    length, document, reached = 0, None, 0
    for document_id, start, end in sorted((s.document_id, s.start, s.end) for s in spans):
        if document_id != document:
            document, reached = document_id, 0
        if end > max(start, reached):
            length += end - max(start, reached)
            reached = end
    return length
