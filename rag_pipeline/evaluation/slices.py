"""Compute means over slices of the queries and of the judged contexts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rag_pipeline.datamodels import ContextJudgement, Query, ScoredChunk
from rag_pipeline.evaluation.intervals import Summary
from rag_pipeline.evaluation.quality import load_judgements
from rag_pipeline.evaluation.runs import load_ranked
from rag_pipeline.evaluation.scores import Scores, Values, summarize_over, summarize_scores
from rag_pipeline.workspace import Workspace

SHORT, LONG = 10, 16
"""Short queries have at most `SHORT` words. Long queries have at least `LONG` words."""
_COUNTS = ((1, 1), (2, 2), (3, 4), (5, 9), (10, None))
_CHARACTERS = ((0, 999), (1_000, 1_999), (2_000, 3_999), (4_000, 7_999), (8_000, None))
_SCORES = ("ContextRelevance", "EntityF1")


@dataclass(frozen=True, slots=True)
class Slice:
    """Queries with a common property (see `slices_of`), and a metric's mean over them."""

    kind: str
    name: str
    summary: Summary


def slices(
    queries: Sequence[Query], values: Values, groups: Mapping[str, str] | None = None
) -> list[Slice]:
    """Return every slice with its mean of a metric, sorted by kind and then by ascending mean."""
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

    def worst_first(s: Slice) -> tuple[object, ...]:
        mean = s.summary.mean
        return kinds.index(s.kind), mean is None, mean or 0.0, -s.summary.n, s.name

    return sorted(found, key=worst_first)


def slices_of(query: Query) -> Mapping[str, Iterable[str]]:
    """Return the slices of a query by kind. A query may be in several slices of a kind, or none."""
    return {
        "tag": query.tags,
        "length": [_length(query.query)],
        "answer type": query.critical_types or sorted(query.entities),
        "document": query.answering_documents,
        "gold passages": [_range(*step) for step in _COUNTS if _is_within(_gold(query), *step)],
    }


def _gold(query: Query) -> int:
    return len(query.gold_spans) + len(query.gold_documents)


def _is_within(number: int, low: int, high: int | None) -> bool:
    return low <= number and (high is None or number <= high)


def _length(question: str) -> str:
    words = len(question.split())
    if words <= SHORT:
        return f"up to {SHORT} words"
    return f"{LONG} words or more" if words >= LONG else f"{SHORT + 1} to {LONG - 1} words"


@dataclass(frozen=True, slots=True)
class ContextPart:
    """A part of the contexts or of the queries, with its metrics by name."""

    kind: str
    name: str
    measured: Mapping[str, Summary]


def context_breakdown(
    workspace: Workspace, configuration: str, scores: Scores, groups: Mapping[str, str]
) -> list[ContextPart]:
    """Divide contexts by their position, and queries by the number and length of their contexts.

    Parts by position have the shares of relevant (high or medium) and of used contexts. Parts by
    number or length (in characters) have the scores of the queries. Return [] without judgements.
    """
    judged = load_judgements(workspace, configuration)
    depth = max((len(j.contexts) for j in judged.values()), default=0)
    if not depth:
        return []
    ranked = load_ranked(workspace, configuration, depth)
    return [*_by_position(judged, groups), *_by_size(judged, ranked, scores, groups)]


def _by_position(
    judged: Mapping[str, ContextJudgement], groups: Mapping[str, str]
) -> list[ContextPart]:
    found = []
    for place in range(max(len(j.contexts) for j in judged.values())):
        own = {q: j.contexts[place] for q, j in judged.items() if place < len(j.contexts)}
        told = {
            "relevant": {q: float(c.level in ("high", "medium")) for q, c in own.items()},
            "used": {q: float(c.used) for q, c in own.items()},
        }
        found.append(ContextPart("position", str(place + 1), summarize_scores(told, groups)))
    return found


def _by_size(
    judged: Mapping[str, ContextJudgement],
    ranked: Mapping[str, Sequence[ScoredChunk]],
    scores: Scores,
    groups: Mapping[str, str],
) -> list[ContextPart]:
    sizes = {q: len(j.contexts) for q, j in judged.items()}
    lengths = {q: sum(len(c.text) for c in ranked.get(q, ())[:n]) for q, n in sizes.items()}
    found = []
    for kind, own, steps in (
        ("number of contexts", sizes, _COUNTS),
        ("characters of contexts", lengths, _CHARACTERS),
    ):
        for low, high in steps:
            ids = [q for q, n in own.items() if _is_within(n, low, high)]
            names = (name for name in _SCORES if name in scores)
            measured = {name: summarize_over(scores[name], ids, groups) for name in names}
            if ids:
                found.append(ContextPart(kind, _range(low, high), measured))
    return found


def _range(low: int, high: int | None) -> str:
    if high is None:
        return f"{low:,} or more"
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
