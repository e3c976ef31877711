"""The leaderboard as an object: every configuration with its metrics and verdicts, best first."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from rag_pipeline.calls import CallCounts
from rag_pipeline.calls.costs import Totals
from rag_pipeline.errors import InputError, StoreError
from rag_pipeline.evaluation.best_of_many import BestOfMany
from rag_pipeline.evaluation.results import read_as
from rag_pipeline.evaluation.scores import direction
from rag_pipeline.evaluation.significance import Comparison
from rag_pipeline.evaluation.summary import UNMEASURED, Summary

Against = Mapping[str, Mapping[str, Comparison]]
"""Comparisons by what they are with (`baseline` or `released`) and by metric."""


def origin(synthetic: int, queries: int) -> str:
    """Return a sentence on how many questions are synthetic; "" where none is."""
    if not synthetic:
        return ""
    told = f"synthetic questions: {synthetic} of {queries}"
    only = synthetic == queries
    return told + ("; none was asked by a person" if only else "; figures mix both kinds")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRow:
    """One configuration: its variants, its metrics, what its run took, its comparisons."""

    name: str
    chunking: str
    contextualizer: str
    embedding: str
    retriever: str
    reranker: str
    chunks: int
    """Chunks in the index that was searched."""
    seconds: float
    """Duration of the run over all queries."""
    calls: CallCounts
    """Calls of the run."""
    costs: Totals = field(default_factory=Totals)
    """What all calls for this configuration have cost so far."""
    latency_ms: float | None = None
    """Median time of a search, one query at a time."""
    usd_per_query: float | None = None
    """What the calls of a search cost; None where that is not known."""
    metrics: Mapping[str, Summary]
    against: Against = field(default_factory=dict)

    def summary(self, metric: str) -> Summary:
        """Return a metric's mean and interval; `UNMEASURED` where it was not measured."""
        return self.metrics.get(metric, UNMEASURED)

    def comparison(self, kind: str, metric: str) -> Comparison | None:
        """Return a comparison, None with itself or where the metric was not compared."""
        return self.against.get(kind, {}).get(metric)


@dataclass(frozen=True, slots=True)
class ComparedWith:
    """What the rows are compared with: a name for people and the configuration."""

    label: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """All evaluated configurations, best first by the metric `sorted_by`."""

    digest: str
    """Hash of everything that is shown."""
    corpus: str
    sorted_by: str
    queries_left_out: int
    configurations: tuple[BoardRow, ...]
    queries: int = 0
    """Queries that are asked; leaderboards of earlier versions do not say it."""
    synthetic: int = 0
    """Count of those that `rag questions` made from the documents."""
    few_groups: int | None = None
    """Number of documents or groups that all questions are about, where these are too few."""
    chosen: BestOfMany | None = None
    """What choosing the best by `serve_metric` is worth; None for one configuration."""
    compared_with: Mapping[str, ComparedWith | None] = field(default_factory=dict)
    """By kind, `baseline` and `released`; None where there is none."""

    @property
    def origin(self) -> str:
        """Return a sentence on how many questions are synthetic; "" where none is."""
        return origin(self.synthetic, self.queries)

    @property
    def scope(self) -> str:
        """Return a sentence on what the intervals speak of; "" where documents are enough."""
        if self.few_groups is None:
            return ""
        if self.few_groups == 1:
            return (
                "too few documents: all questions are about one document or group, so intervals "
                "and verdicts speak of further questions about it, not of other documents"
            )
        return (
            f"too few documents: all questions are about {self.few_groups} documents or groups; "
            f"intervals are as wide as so few allow, and hardly any difference can be told. Ask "
            f"about more documents, or give questions a `group` of their own to speak of these only"
        )

    @property
    def references(self) -> dict[str, str]:
        """Return the configuration that the rows are compared with, by kind."""
        return {kind: found.name for kind, found in self.compared_with.items() if found}

    def names(self) -> list[str]:
        """Return the names of the configurations, best first."""
        return [row.name for row in self.configurations]

    def sorted_on(self, metric: str) -> "Board":
        """Return the board sorted by another metric; raise InputError naming the known ones."""
        if not self.configurations:
            return self
        known = self.configurations[0].metrics
        if metric not in known:
            raise InputError(f"--sort {metric!r} is not one of: {', '.join(known)}")
        rows = best_first(self.configurations, metric)
        return replace(self, sorted_by=metric, configurations=rows)

    def record(self) -> dict[str, Any]:
        """Return the board as plain JSON values."""
        return asdict(self)


def best_first(rows: Iterable[BoardRow], metric: str) -> tuple[BoardRow, ...]:
    """Sort rows by their mean of a metric, the better one first, unmeasured ones last."""
    sign = 1 if direction(metric) == "lower" else -1
    means = ((row.summary(metric).mean, row) for row in rows)
    ordered = sorted(means, key=lambda pair: (pair[0] is None, sign * (pair[0] or 0.0)))
    return tuple(row for _, row in ordered)


def read_board(record: Any, place: str) -> Board:
    """Return the board of a JSON record; raise StoreError naming `place` for anything else."""
    try:
        return read_as(Board, record)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise StoreError(
            f"{place}: not a leaderboard: {where}: {first['msg']}; run `rag run` again"
        ) from None
