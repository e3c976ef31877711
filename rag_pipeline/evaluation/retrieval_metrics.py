"""Compute all retrieval metrics of one query's ranked chunks, by their published names."""

from collections.abc import Callable, Collection, Iterator, Sequence

from rag_pipeline.datamodels import Query, ScoredChunk
from rag_pipeline.evaluation.metrics import (
    Direction,
    Needs,
    Ranking,
    RankingMetric,
    answer_presence,
    average_precision,
    graded_ndcg,
    ndcg,
    precision,
    recall,
    reciprocal_rank,
)
from rag_pipeline.evaluation.relevance import relevance_labels

_PRESENCE_CUTOFFS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20)
_CUTOFFS = (1, 3, 5, 10, 20)
_BUDGETS = (2_000, 4_000, 8_000)
_FEW_CUTOFFS = (1, 3, 5, 10)
DOCUMENT_METRIC = "DocumentPresence@5"
"""The metric that replaces the metrics of spans if all gold is whole documents."""
_HEADLINES = {
    *(f"AnswerPresence@{k}" for k in (1, 5, 10, 20)),
    *("nDCG@10", "RR@10", "R@5", "IoU@5", DOCUMENT_METRIC),
}

Measure = Callable[[Ranking, int], float | None]


def _at(
    cutoffs: Sequence[int],
    name: str,
    needs: Needs,
    measure: Measure,
    definition: str,
    direction: Direction = "higher",
) -> Iterator[RankingMetric]:
    """Yield a metric at each cutoff k. Only the first k chunks need `labels`."""
    for k in cutoffs:
        yield RankingMetric(
            name=f"{name}@{k}",
            definition=definition.format(k=k),
            measure=_cut(measure, k),
            needs=needs,
            depth=k if needs == "labels" else None,
            direction=direction,
            headline=f"{name}@{k}" in _HEADLINES,
        )


def _cut(measure: Measure, k: int) -> Callable[[Ranking], float | None]:
    return lambda r: measure(r, k)


RANKING_METRICS = (
    *_at(_PRESENCE_CUTOFFS, "AnswerPresence", "labels", lambda r, k: answer_presence(r.labels, k),
         "Whether any of the first {k} chunks answers."),
    *_at((10,), "nDCG", "relevant", lambda r, k: ndcg(r.labels, r.relevant, k),
         "Discounted gain of the first {k} chunks, over the gain of an ideal ranking."),
    *_at((10,), "RR", "labels", lambda r, k: reciprocal_rank(r.labels, k),
         "1 / rank of the first chunk that answers, 0 beyond rank {k}."),
    RankingMetric(
        name="AP", definition="Mean precision at the ranks of all chunks that answer.",
        measure=lambda r: average_precision(r.labels, r.relevant),
        needs="relevant", headline=False,
    ),
    *_at(_CUTOFFS, "R", "relevant", lambda r, k: recall(r.labels, r.relevant, k),
         "Share of answering chunks in the first {k}."),
    *_at(_CUTOFFS, "P", "labels", lambda r, k: precision(r.labels, k),
         "Share of the first {k} chunks that answer."),
    *_at(_CUTOFFS, "SpanRecall", "spans", lambda r, k: r.characters(k).recall,
         "Share of the gold characters in the first {k} chunks."),
    *_at(_CUTOFFS, "SpanPrecision", "spans", lambda r, k: r.characters(k).precision,
         "Share of the characters of the first {k} chunks that are gold."),
    *_at(_CUTOFFS, "IoU", "spans", lambda r, k: r.characters(k).iou,
         "Gold characters in the first {k} chunks, over all characters of gold and chunks."),
    *_at(_BUDGETS, "BudgetRecall", "spans", Ranking.recall_within,
         "Share of the gold characters in the first {k:,} characters of the chunks."),
    *_at(_FEW_CUTOFFS, "DocumentPresence", "documents", lambda r, k: float(bool(r.documents(k))),
         "Whether any of the first {k} chunks is of a document that answers."),
    *_at(_FEW_CUTOFFS, "DocumentMismatch", "documents", lambda r, k: float(not r.documents(k)),
         "Whether none of the first {k} chunks is of a document that answers.", "lower"),
    *_at(_FEW_CUTOFFS, "DocumentRecall", "documents",
         lambda r, k: len(r.documents(k)) / len(r.query.answering_documents),
         "Share of the answering documents with a chunk among the first {k}."),
    *_at((10,), "DocumentNDCG", "documents",
         lambda r, k: graded_ndcg(r.document_grades(), [*r.gold_grades().values()], k),
         "Discounted grades of the first {k} documents, over the grades of an ideal ranking."),
    RankingMetric(
        name="DocumentAP", needs="documents", headline=False,
        measure=lambda r: average_precision(
            [*map(bool, r.document_grades())], len(r.gold_grades())
        ),
        definition="Mean precision at the ranks of all documents that answer.",
    ),
    *_at((1, 5, 10, 20), "AllGold", "documents", Ranking.all_gold,
         "Whether the first {k} chunks hold all gold spans and gold documents."),
    RankingMetric(
        name="Answerable", needs="spans", headline=False,
        measure=lambda r: float(r.relevant > r.lost),
        definition="Whether any chunk of the index answers. 0 means that the chunking cuts up the "
        "gold text.",
    ),
)  # fmt: skip

METRICS = tuple(metric.name for metric in RANKING_METRICS)


def evaluate_query(
    query: Query,
    ranked: Sequence[ScoredChunk],
    relevant_chunk_ids: Collection[str],
    metrics: Sequence[RankingMetric] = RANKING_METRICS,
    lost: int = 0,
) -> dict[str, float | None]:
    """Return the metrics of one query by name. A ratio with denominator 0 is None.

    `ranked` has the retrieved chunks, best first. `relevant_chunk_ids` has all chunks of the same
    chunking that answer the query. `lost` is the number of gold spans that no chunk answers (see
    `judge_chunks`). A lost gold span counts as a relevant chunk that is not retrieved. A metric is
    None if the query lacks its input (see `RankingMetric`).
    """
    labels = relevance_labels(ranked, query.gold_spans)
    has_gold = any(span.end > span.start for span in query.gold_spans)
    relevant_ids = frozenset(relevant_chunk_ids)
    subject = Ranking(query, ranked, labels, len(relevant_ids) + lost, lost)
    has: dict[Needs, bool] = {"chunks": True, "documents": bool(query.answering_documents)}
    return {m.name: m.measure(subject) if has.get(m.needs, has_gold) else None for m in metrics}


def judged_metrics(
    query: Query,
    ranked: Sequence[ScoredChunk],
    labels: Sequence[bool | None],
    metrics: Sequence[RankingMetric] = RANKING_METRICS,
) -> dict[str, float | None]:
    """Return AnswerPresence@k, P@k and RR@10 by a judge's labels of the first passages.

    A passage has no label if its judgement failed (None), or if it is after the last judged
    passage. A metric is None if another label could change it. For example, a YES at rank 1 decides
    AnswerPresence@5, but five NOs are needed for 0. So a mean over few decided queries is too high,
    and its `missing` counts the other queries.

    R@k, nDCG@10 and AP are None, because passages that were not retrieved have no labels. All other
    metrics are left out.
    """
    known = [*labels, *[None] * (len(ranked) - len(labels))]

    def measured(metric: RankingMetric) -> float | None:
        first = known[: metric.depth]
        is_complete = None not in first
        # Each of the package's own metrics grows with every relevant passage.
        if metric.needs == "relevant" or not (is_complete or metric in RANKING_METRICS):
            return None
        filled = ([unknown if label is None else label for label in first] for unknown in (0, 1))
        least, most = (
            metric.measure(Ranking(query, ranked, list(map(bool, one)), 0)) for one in filled
        )
        return least if least == most else None

    return {m.name: measured(m) for m in metrics if m.needs in ("labels", "relevant")}


def short_name(metric: str) -> str:
    """Return the column heading of a metric, such as AP@5 for AnswerPresence@5."""
    names = {"AnswerPresence": "AP", "DocumentPresence": "Doc", "DocumentMismatch": "Miss"}
    name, at, k = metric.partition("@")
    return f"{names.get(name, name)}{at}{k}"
