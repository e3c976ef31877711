"""Judged contexts -> how they do by their position, by their number and by their length."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rag_pipeline.datamodels import ContextJudgement, ScoredChunk
from rag_pipeline.evaluation.quality.context_scores import load_judgements
from rag_pipeline.evaluation.runs import load_ranked
from rag_pipeline.evaluation.scores import Scores, summarize_over, summarize_scores
from rag_pipeline.evaluation.summary import Summary
from rag_pipeline.workspace import Workspace

_COUNTS = ((1, 1), (2, 2), (3, 4), (5, 9), (10, None))
_CHARACTERS = ((0, 999), (1_000, 1_999), (2_000, 3_999), (4_000, 7_999), (8_000, None))
_SCORES = ("ContextRelevance", "EntityF1")


@dataclass(frozen=True, slots=True)
class Part:
    """A share of the contexts or of the queries, and what is measured of it, by name."""

    kind: str
    name: str
    measured: Mapping[str, Summary]


def context_breakdown(
    workspace: Workspace, configuration: str, scores: Scores, groups: Mapping[str, str]
) -> list[Part]:
    """Return the parts by position, by number of contexts and by their characters together.

    Of a position: the share of contexts that are relevant (high or medium), and that the answer
    used. Of a number or a length: the scores of the queries. [] where nothing was judged.
    """
    judged = load_judgements(workspace, configuration)
    depth = max((len(j.contexts) for j in judged.values()), default=0)
    if not depth:
        return []
    ranked = load_ranked(workspace, configuration, depth)
    return [*_by_position(judged, groups), *_by_size(judged, ranked, scores, groups)]


def _by_position(judged: Mapping[str, ContextJudgement], groups: Mapping[str, str]) -> list[Part]:
    found = []
    for place in range(max(len(j.contexts) for j in judged.values())):
        own = {q: j.contexts[place] for q, j in judged.items() if place < len(j.contexts)}
        told = {
            "relevant": {q: float(c.level in ("high", "medium")) for q, c in own.items()},
            "used": {q: float(c.used) for q, c in own.items()},
        }
        found.append(Part("position", str(place + 1), summarize_scores(told, groups)))
    return found


def _by_size(
    judged: Mapping[str, ContextJudgement],
    ranked: Mapping[str, Sequence[ScoredChunk]],
    scores: Scores,
    groups: Mapping[str, str],
) -> list[Part]:
    sizes = {q: len(j.contexts) for q, j in judged.items()}
    lengths = {q: sum(len(c.text) for c in ranked.get(q, ())[:n]) for q, n in sizes.items()}
    found = []
    for kind, own, steps in (
        ("number of contexts", sizes, _COUNTS),
        ("characters of contexts", lengths, _CHARACTERS),
    ):
        for low, high in steps:
            ids = [q for q, n in own.items() if low <= n and (high is None or n <= high)]
            names = (name for name in _SCORES if name in scores)
            measured = {name: summarize_over(scores[name], ids, groups) for name in names}
            if ids:
                found.append(Part(kind, _span(low, high), measured))
    return found


def _span(low: int, high: int | None) -> str:
    if high is None:
        return f"{low:,} or more"
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
