"""Values per query -> means over slices of the queries: tag, length, document, answer type."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rag_pipeline.datamodels import Query
from rag_pipeline.evaluation.scores import Values, summarize_over
from rag_pipeline.evaluation.summary import Summary

SHORT, LONG = 10, 16
"""Questions of up to `SHORT` words are short, of at least `LONG` words long."""


@dataclass(frozen=True, slots=True)
class Slice:
    """The queries that share something, and a metric's mean over them."""

    kind: str
    name: str
    summary: Summary


def slices(
    queries: Sequence[Query], values: Values, groups: Mapping[str, str] | None = None
) -> list[Slice]:
    """Return a metric's mean over every slice, by kind, the worst of each kind first.

    A query may be in several slices of one kind, or in none.
    """
    members: dict[tuple[str, str], list[str]] = {}
    for query in queries:
        for kind, names in slices_of(query).items():
            for name in names:
                members.setdefault((kind, name), []).append(query.query_id)
    kinds = list(dict.fromkeys(kind for kind, _ in members))
    found = [
        Slice(kind, name, summarize_over(values, ids, groups or {}))
        for (kind, name), ids in members.items()
    ]
    return sorted(found, key=lambda s: (kinds.index(s.kind), *_worst_first(s.summary), s.name))


def slices_of(query: Query) -> Mapping[str, Iterable[str]]:
    """Return the slices that a query is in, by kind."""
    return {
        "tag": query.tags,
        "length": [_length(query.query)],
        "answer type": query.critical_types or sorted(query.entities),
        "document": query.answering_documents,
    }


def _length(question: str) -> str:
    words = len(question.split())
    if words <= SHORT:
        return f"up to {SHORT} words"
    return f"{LONG} words or more" if words >= LONG else f"{SHORT + 1} to {LONG - 1} words"


def _worst_first(summary: Summary) -> tuple[bool, float, int]:
    return summary.mean is None, summary.mean or 0.0, -summary.n
