"""Find the queries that fail under a configuration, with reasons and passages."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Literal

from rag_pipeline.datamodels import ContextJudgement, GoldSpan, Query, ScoredChunk
from rag_pipeline.errors import StoreError
from rag_pipeline.evaluation.answers import load_answers
from rag_pipeline.evaluation.quality import load_judgements, load_labels
from rag_pipeline.evaluation.relevance import gold_labels
from rag_pipeline.evaluation.results import RUN
from rag_pipeline.evaluation.runs import load_queries, load_ranked
from rag_pipeline.evaluation.scores import Scores, read_scores
from rag_pipeline.indexing import read_documents
from rag_pipeline.loading.places import Place, place_of
from rag_pipeline.loading.queries import UNANSWERABLE
from rag_pipeline.workspace import Workspace

Reason = Literal[
    "in no chunk",
    "not retrieved",
    "retrieved below k",
    "not judged",
    "judged not to answer",
    "retrieved but not used",
    "not refused",
    "refused",
    "answered",
]
REASONS: dict[Reason, str] = {
    "in no chunk": "no chunk holds enough of the gold text: the chunking cuts it up",
    "not retrieved": "chunks that answer exist, but none of them was retrieved",
    "retrieved below k": "a chunk that answers was retrieved, but after the first k",
    "not judged": "the judge has not labelled all of the first k, and no labelled chunk answers",
    "judged not to answer": (
        "a chunk that holds gold text is among the first k, but the judge says that it does not "
        "answer"
    ),
    "retrieved but not used": "a chunk that answers is among the first k, but the answer lacks it",
    "not refused": "no document answers the query, but it was answered",
    "refused": "no document answers the query, and it was refused",
    "answered": "a chunk that answers is among the first k",
}
"""Reasons for a failing query, in the order of the stages."""

_USED = 0.5
_PLACED = 3


@dataclass(frozen=True, slots=True)
class RankedPassage:
    """A retrieved chunk with its rank (from 1) and its label.

    `answers` is the label by the judge, or by gold if no judge is set. A missing label is None.
    Only the first 3 chunks have a `place`.
    """

    rank: int
    chunk_id: str
    document_id: str
    start: int
    end: int
    text: str
    answers: bool | None
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class GoldText:
    """A gold span with its text, which is None if the document is gone."""

    document_id: str
    start: int
    end: int
    text: str | None
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The reason why one query fails or succeeds under one configuration.

    `rank` is the rank (from 1) of the first chunk that answers, or None if no chunk answers.
    """

    query: Query
    configuration: str
    k: int
    reason: Reason
    rank: int | None
    gold: tuple[GoldText, ...]
    retrieved: tuple[RankedPassage, ...]
    judgement: ContextJudgement | None = None
    """The judgement of the answer's contexts, or None if it is missing."""

    @property
    def why(self) -> str:
        """Return the reason with this query's ranks, for people."""
        if self.query.gold_documents and not self.gold:
            named = ", ".join(self.query.gold_documents)
            if self.rank is None:
                return f"no chunk of {named} was retrieved"
            return f"the first chunk of {named} has rank {self.rank}"
        if self.reason == "not retrieved" and not self.gold:
            return "none of the judged passages answers; there is no gold text for more detail"
        if self.reason == "retrieved below k":
            return f"the first chunk that answers has rank {self.rank}, after the first {self.k}"
        if self.reason == "answered":
            return f"the chunk at rank {self.rank} answers"
        return REASONS[self.reason].replace("first k", f"first {self.k}")


def failing_queries(workspace: Workspace, configuration: str, k: int = 5) -> list[Diagnosis]:
    """Return every query that fails at k, sorted by reason and then in the order of the queries.

    A query without gold and without a judge's labels never fails. Raise StoreError before the first
    evaluation.
    """
    scores = _scores(workspace, configuration, k)
    measured = scores[f"AnswerPresence@{k}"]

    def may_fail(query: Query) -> bool:
        if measured.get(query.query_id) is None:
            return bool(query.gold_documents)
        return _reason(scores, query.query_id, k) != "answered"

    failing = [query for query in load_queries(workspace) if may_fail(query)]
    found = _diagnose(workspace, configuration, failing, scores, k)
    order = list(REASONS)
    return sorted(
        (d for d in found if d.reason not in ("answered", "not judged", "refused")),
        key=lambda d: order.index(d.reason),
    )


def diagnose(
    workspace: Workspace, configuration: str, query_ids: Collection[str], k: int = 5
) -> list[Diagnosis]:
    """Return the diagnoses of some queries under a configuration."""
    scores = _scores(workspace, configuration, k)
    chosen = [q for q in load_queries(workspace) if q.query_id in query_ids]
    return _diagnose(workspace, configuration, chosen, scores, k)


def _scores(workspace: Workspace, configuration: str, k: int) -> Scores:
    scores = read_scores(workspace, configuration)
    if f"AnswerPresence@{k}" not in scores:
        raise StoreError(
            f"{workspace.config.corpus}: {configuration} has not been evaluated at k = {k}; run: "
            f"rag run {workspace.config.where}"
        )
    return scores


def _diagnose(
    workspace: Workspace, configuration: str, queries: Sequence[Query], scores: Scores, k: int
) -> list[Diagnosis]:
    ids = [query.query_id for query in queries]
    ran = RUN.note(workspace, configuration)
    ranked = load_ranked(workspace, configuration, of=ids) if ran else {}
    is_judged = workspace.config.evaluation.judge is not None
    judge_labels = load_labels(workspace, configuration) if is_judged else {}
    shown = [_span(chunk) for query_id in ids for chunk in ranked.get(query_id, ())[:_PLACED]]
    texts = _texts(workspace, {*shown, *(span for q in queries for span in q.gold_spans)})
    nothing = (None, None)
    judged = load_judgements(workspace, configuration)
    found, answers = [], load_answers(workspace, configuration)
    for query in queries:
        chunks = ranked.get(query.query_id, [])
        by_gold = gold_labels(query, chunks)
        labels: Sequence[bool | None] = by_gold
        if is_judged:
            said = chain(judge_labels.get(query.query_id, ()), repeat(None))
            labels = [label for _, label in zip(chunks, said, strict=False)]
        rank = _first(labels)
        reason = _reason(scores, query.query_id, k, labels, _first(by_gold))
        unknown = scores[f"AnswerPresence@{k}"].get(query.query_id) is None
        if unknown and query.gold_documents and not is_judged:
            late: Reason = "not retrieved" if rank is None else "retrieved below k"
            reason = "answered" if rank is not None and rank <= k else late
        gold = tuple(
            GoldText(s.document_id, s.start, s.end, *texts.get(s, nothing))
            for s in query.gold_spans
        )
        passages = tuple(
            RankedPassage(
                *(number, c.chunk_id, c.document_id, c.start, c.end, c.text, label),
                place=texts.get(_span(c), nothing)[1],
            )
            for number, (c, label) in enumerate(zip(chunks, labels, strict=True), 1)
        )
        judgement = judged.get(query.query_id)
        if UNANSWERABLE in query.tags and (made := answers.get(query.query_id)):
            reason = "not refused" if made.answered else "refused"
        found.append(Diagnosis(query, configuration, k, reason, rank, gold, passages, judgement))
    return found


def _first(labels: Sequence[bool | None]) -> int | None:
    return next((rank for rank, label in enumerate(labels, 1) if label), None)


def _span(chunk: ScoredChunk) -> GoldSpan:
    return GoldSpan(chunk.document_id, chunk.start, chunk.end)


def _reason(
    scores: Scores,
    query_id: str,
    k: int,
    labels: Sequence[bool | None] = (),
    by_gold: int | None = None,
) -> Reason:
    """Return the reason of the earliest stage that fails, or "answered".

    `labels` come from the judge, or from gold if no judge is set. `by_gold` is the first rank that
    answers by gold.
    """
    rank = _first(labels)
    if scores[f"AnswerPresence@{k}"].get(query_id) or (rank is not None and rank <= k):
        stated = scores.get("CriticalRecall", {}).get(query_id)
        if stated is None:
            stated = scores.get("EntityRecall", {}).get(query_id)
        return "answered" if stated is None or stated >= _USED else "retrieved but not used"
    if None in labels[:k]:
        return "not judged"
    if rank is not None:
        return "retrieved below k"
    if by_gold is not None and by_gold <= k:
        return "judged not to answer"
    return "in no chunk" if scores.get("Answerable", {}).get(query_id) == 0 else "not retrieved"


def _texts(workspace: Workspace, spans: Collection[GoldSpan]) -> dict[GoldSpan, tuple[str, Place]]:
    """Return the text and place of spans in the current documents."""
    of_document: dict[str, list[GoldSpan]] = {}
    for span in spans:
        of_document.setdefault(span.document_id, []).append(span)
    return {
        s: (document.text[s.start : s.end], place_of(document, s.start, s.end))
        for document in (read_documents(workspace, sorted(of_document)) if of_document else ())
        for s in of_document[document.document_id]
    }
