"""A metric: its name, definition, direction and measure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from rag_pipeline.datamodels import Query, ScoredChunk
from rag_pipeline.evaluation.ranking_metrics import (
    CharacterCounts,
    characters_within,
    count_characters,
)

Direction = Literal["higher", "lower", "neither"]
Needs = Literal["labels", "relevant", "spans", "documents", "chunks"]
Subject = TypeVar("Subject", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric(Generic[Subject]):
    """A number of one query, measured on a subject: its ranking, its answer or its contexts."""

    name: str
    definition: str
    """One sentence for people, without the name."""
    measure: Callable[[Subject], float | None]
    """Returns None if the metric is not defined."""
    direction: Direction = "higher"
    is_share: bool = True
    """Whether values lie in 0..1 and are shown in percent."""
    headline: bool = True
    """Whether leaderboards show and compare it by default."""
    version: int = 1
    """Raise it when the values change; scores are then measured again."""


@dataclass(frozen=True)
class Ranking:
    """One query's retrieved chunks, best first, and which of them are relevant."""

    query: Query
    chunks: Sequence[ScoredChunk]
    labels: Sequence[bool]
    """Whether each chunk answers the query, by gold or by a judge."""
    relevant: int
    """Count of the chunks of the whole index that answer, plus `lost`: such gold is not found."""
    lost: int = 0
    """Count of the gold spans that no chunk of the index answers."""
    _characters: dict[int, CharacterCounts] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def characters(self, k: int) -> CharacterCounts:
        """Return the characters of the gold spans and the first k chunks."""
        if k not in self._characters:
            self._characters[k] = count_characters(self.chunks, self.query.gold_spans, k)
        return self._characters[k]

    def documents(self, k: int) -> set[str]:
        """Return the documents of the first k chunks that answer."""
        return {c.document_id for c in self.chunks[:k]}.intersection(self.query.answering_documents)

    def recall_within(self, budget: int) -> float | None:
        """Return the share of gold characters in the first `budget` characters of the chunks."""
        return characters_within(self.chunks, self.query.gold_spans, budget).recall


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingMetric(Metric[Ranking]):
    """A metric of retrieval. `needs` says which data it needs in addition to the ranked chunks.

    - `labels`: labels of the first `depth` chunks (of all without `depth`), by gold or a judge.
    - `relevant`: the number of relevant chunks in the index, by gold only.
    - `spans`: gold spans.
    - `documents`: gold spans or gold documents.
    - `chunks`: nothing; queries without gold are measured too.
    """

    needs: Needs
    depth: int | None = None
