"""Define metrics, and compute metrics of one query's ranking from labels and characters.

`labels` has a flag for each retrieved chunk, best first: whether it is relevant. `relevant` counts
the relevant chunks of the whole index. Cutoffs k are at least 1. If no chunk is relevant, every
metric is 0, as in trec_eval. The caller leaves out queries without gold.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from rag_pipeline.chunking.spans import SpanLike, answers
from rag_pipeline.datamodels import GoldSpan, Query, ScoredChunk

Direction = Literal["higher", "lower", "neither"]
Needs = Literal["labels", "relevant", "spans", "documents", "chunks"]
Subject = TypeVar("Subject", contravariant=True)


def answer_presence(labels: Sequence[bool], k: int) -> float:
    """Return AnswerPresence@k: 1.0 if any of the first k chunks answers, else 0.0.

    trec_eval calls this metric `success`. Another name is hit rate.
    """
    return float(any(labels[:k]))


def precision(labels: Sequence[bool], k: int) -> float:
    """Return P@k: relevant chunks among the first k, divided by k even if fewer are retrieved.

    Source: van Rijsbergen, Information Retrieval, 1979. trec_eval calls this metric `P`.
    """
    return sum(labels[:k]) / k


def recall(labels: Sequence[bool], relevant: int, k: int) -> float:
    """Return R@k: the share of the relevant chunks that are among the first k.

    Source: van Rijsbergen, Information Retrieval, 1979. trec_eval calls this metric `recall`. If
    each gold span is a whole chunk, R@k is Pass@k of Anthropic's Introducing Contextual Retrieval
    (2024).
    """
    return sum(labels[:k]) / relevant if relevant else 0.0


def ndcg(labels: Sequence[bool], relevant: int, k: int) -> float:
    """Return nDCG@k: the gain of the first k chunks over the highest possible gain.

    The gain is the sum of 1 / log2(rank + 1) over relevant chunks. Source: Järvelin and Kekäläinen,
    Cumulated gain-based evaluation of IR techniques, 2002. trec_eval calls this metric `ndcg_cut`.
    """
    return graded_ndcg(labels, [1] * relevant, k)


def graded_ndcg(grades: Sequence[float], ideal: Sequence[float], k: int) -> float:
    """Return nDCG@k of `grades`, the gains of items in ranked order.

    `ideal` has the grades above 0 of all items, also of items that are not ranked.
    """

    def gain(best_first: Sequence[float]) -> float:
        return sum(grade / math.log2(rank + 1) for rank, grade in enumerate(best_first[:k], 1))

    return gain(grades) / gain(sorted(ideal, reverse=True)) if ideal else 0.0


def reciprocal_rank(labels: Sequence[bool], k: int) -> float:
    """Return RR@k: 1 / rank of the first relevant chunk, or 0.0 if none is among the first k.

    MRR@k is its mean. Source: Kantor and Voorhees, The TREC-5 confusion track, 2000.
    """
    return next((1 / rank for rank, label in enumerate(labels[:k], 1) if label), 0.0)


def average_precision(labels: Sequence[bool], relevant: int) -> float:
    """Return AP: the mean over all relevant chunks of the precision at their rank.

    Relevant chunks that were not retrieved count as precision 0. Source: Harman, Evaluation issues
    in information retrieval, 1992. trec_eval calls this metric `map`.
    """
    if not relevant:
        return 0.0
    found, total = 0, 0.0
    for rank, label in enumerate(labels, 1):
        if label:
            found += 1
            total += found / rank
    return total / relevant


@dataclass(frozen=True, slots=True)
class CharacterCounts:
    """Character counts of one query at one cutoff, in Unicode code points.

    `gold` counts each character of the gold spans once. `retrieved` counts the characters of all
    retrieved chunks, with repetitions. `found` counts each gold character in a retrieved chunk
    once. Source: Smith and Troynikov, Evaluating Chunking Strategies for Retrieval, Chroma
    Technical Report, 2024, with characters instead of tokens.
    """

    gold: int
    retrieved: int
    found: int

    @property
    def recall(self) -> float | None:
        """Return found / gold, or None without gold characters."""
        return self.found / self.gold if self.gold else None

    @property
    def precision(self) -> float | None:
        """Return found / retrieved, or None if nothing was retrieved."""
        return self.found / self.retrieved if self.retrieved else None

    @property
    def iou(self) -> float | None:
        """Return found / (gold + retrieved - found), the intersection over union.

        Return None if the divisor is 0.
        """
        union = self.gold + self.retrieved - self.found
        return self.found / union if union else None


def count_characters(
    ranked: Sequence[SpanLike], gold_spans: Sequence[SpanLike], k: int
) -> CharacterCounts:
    """Count gold, retrieved and found characters of the first k chunks."""
    top = ranked[:k]
    gold = union_length(gold_spans)
    return CharacterCounts(
        gold=gold,
        retrieved=sum(max(0, chunk.end - chunk.start) for chunk in top),
        found=gold + union_length(top) - union_length([*gold_spans, *top]),
    )


def union_length(spans: Iterable[SpanLike]) -> int:
    """Return the number of characters that at least one of the spans covers."""
    length, document, reached = 0, None, 0
    for document_id, start, end in sorted((s.document_id, s.start, s.end) for s in spans):
        if document_id != document:
            document, reached = document_id, 0
        if end > max(start, reached):
            length += end - max(start, reached)
            reached = end
    return length


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric(Generic[Subject]):
    """A number per query, measured on the query's ranking, answer or contexts."""

    name: str
    definition: str
    """One sentence for people, without the metric's name."""
    measure: Callable[[Subject], float | None]
    """A function that returns the value, or None if the value is not defined."""
    direction: Direction = "higher"
    is_share: bool = True
    """Whether values are from 0 to 1 and are shown in percent."""
    headline: bool = True
    """Whether leaderboards show and compare the metric by default."""
    version: int = 1
    """A version to increase when the values change. Runs then measure the metric again."""


@dataclass(frozen=True)
class Ranking:
    """One query's retrieved chunks, best first, and their labels."""

    query: Query
    chunks: Sequence[ScoredChunk]
    labels: Sequence[bool]
    """Whether each chunk answers the query, by gold or by a judge."""
    relevant: int
    """Number of chunks of the whole index that answer, plus `lost`."""
    lost: int = 0
    """Number of gold spans that no chunk of the index answers."""
    _characters: dict[int, CharacterCounts] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def characters(self, k: int) -> CharacterCounts:
        """Return the character counts of the first k chunks."""
        if k not in self._characters:
            self._characters[k] = count_characters(self.chunks, self.query.gold_spans, k)
        return self._characters[k]

    def documents(self, k: int) -> set[str]:
        """Return the ids of the answering documents that have one of the first k chunks."""
        return {c.document_id for c in self.chunks[:k]}.intersection(self.query.answering_documents)

    def all_gold(self, k: int) -> float:
        """Return 1.0 if the first k chunks answer all gold spans and gold documents, else 0.0."""
        first = self.chunks[:k]
        spans = (span for span in self.query.gold_spans if span.end > span.start)
        found = all(any(answers(chunk, span) for chunk in first) for span in spans)
        return float(found and {c.document_id for c in first}.issuperset(self.query.gold_documents))

    def document_grades(self) -> list[int]:
        """Return the grades of the retrieved documents in order. Irrelevant documents have 0."""
        gold = self.gold_grades()
        return [gold.get(d, 0) for d in dict.fromkeys(c.document_id for c in self.chunks)]

    def gold_grades(self) -> dict[str, int]:
        """Return the grade of each document that answers. The default grade is 1."""
        return {d: self.query.grades.get(d, 1) for d in self.query.answering_documents}

    def recall_within(self, budget: int) -> float | None:
        """Return the share of gold characters in the first `budget` characters of the chunks.

        Return None without gold characters. The last chunk is cut at the budget, so chunkings of
        any size are comparable.
        """
        top: list[SpanLike] = []
        for chunk in self.chunks:
            if budget <= 0:
                break
            end = min(chunk.end, chunk.start + budget)
            top.append(GoldSpan(chunk.document_id, chunk.start, end))
            budget -= end - chunk.start
        return count_characters(top, self.query.gold_spans, len(top)).recall


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingMetric(Metric[Ranking]):
    """A metric of retrieval. `needs` names the required input, apart from the chunks.

    - `labels`: labels by gold or a judge, of the first `depth` chunks (None: of all chunks).
    - `relevant`: the number of relevant chunks in the index, by gold only.
    - `spans`: gold spans.
    - `documents`: gold spans or gold documents.
    - `chunks`: no other input. Queries without gold are also measured.
    """

    needs: Needs
    depth: int | None = None
