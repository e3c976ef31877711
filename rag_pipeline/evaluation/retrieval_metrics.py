"""Turn the ranked chunks of one query into all retrieval metrics, by the names people publish."""

from collections.abc import Callable, Collection, Sequence

from rag_pipeline.datamodels import Query, ScoredChunk
from rag_pipeline.evaluation import ranking
from rag_pipeline.evaluation.answer_presence import answer_presence, relevance_labels
from rag_pipeline.evaluation.metrics import Direction, Needs, Ranking, RankingMetric

_PRESENCE_CUTOFFS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20)
_CUTOFFS = (1, 3, 5, 10, 20)
_BUDGETS = (2_000, 4_000, 8_000)
_DOCUMENT_CUTOFFS = (1, 3, 5, 10)
DOCUMENT_METRIC = "DocumentPresence@5"
"""What stands in for metrics of spans where gold is whole documents."""
_HEADLINES = {f"AnswerPresence@{k}" for k in (1, 5, 10, 20)} | {
    "nDCG@10",
    "RR@10",
    "R@5",
    "IoU@5",
    DOCUMENT_METRIC,
}

Measure = Callable[[Ranking], float | None]


def _presence(k: int) -> Measure:
    return lambda r: answer_presence(r.labels, k)


def _recall(k: int) -> Measure:
    return lambda r: ranking.recall(r.labels, r.relevant, k)


def _precision(k: int) -> Measure:
    return lambda r: ranking.precision(r.labels, k)


def _span_recall(k: int) -> Measure:
    return lambda r: r.characters(k).recall


def _span_precision(k: int) -> Measure:
    return lambda r: r.characters(k).precision


def _budget_recall(budget: int) -> Measure:
    return lambda r: r.recall_within(budget)


def _iou(k: int) -> Measure:
    return lambda r: r.characters(k).iou


def _document_presence(k: int) -> Measure:
    return lambda r: float(bool(r.documents(k)))


def _document_mismatch(k: int) -> Measure:
    return lambda r: float(not r.documents(k))


def _document_recall(k: int) -> Measure:
    return lambda r: len(r.documents(k)) / len(r.query.answering_documents)


def _metric(
    name: str,
    definition: str,
    measure: Measure,
    needs: Needs,
    depth: int | None = None,
    direction: Direction = "higher",
) -> RankingMetric:
    return RankingMetric(
        name=name,
        definition=definition,
        measure=measure,
        needs=needs,
        depth=depth,
        direction=direction,
        headline=name in _HEADLINES,
    )


RANKING_METRICS = (
    *(
        _metric(
            f"AnswerPresence@{k}",
            f"Whether any of the first {k} chunks answers.",
            _presence(k),
            "labels",
            k,
        )
        for k in _PRESENCE_CUTOFFS
    ),
    _metric(
        "nDCG@10",
        "Discounted gain of the first 10 chunks, over that of an ideal ranking.",
        lambda r: ranking.ndcg(r.labels, r.relevant, 10),
        "relevant",
    ),
    _metric(
        "RR@10",
        "1 / rank of the first chunk that answers, 0 beyond rank 10.",
        lambda r: ranking.reciprocal_rank(r.labels, 10),
        "labels",
        10,
    ),
    _metric(
        "AP",
        "Mean precision at the ranks of all chunks that answer.",
        lambda r: ranking.average_precision(r.labels, r.relevant),
        "relevant",
    ),
    *(
        _metric(f"R@{k}", f"Share of answering chunks in the first {k}.", _recall(k), "relevant")
        for k in _CUTOFFS
    ),
    *(
        _metric(f"P@{k}", f"Share of the first {k} that answers.", _precision(k), "labels", k)
        for k in _CUTOFFS
    ),
    *(
        _metric(f"{name}@{k}", definition.format(f"the first {k} chunks"), measure(k), "spans")
        for name, measure, definition in (
            ("SpanRecall", _span_recall, "Share of the gold characters that {} hold."),
            ("SpanPrecision", _span_precision, "Share of the characters of {} that is gold."),
            ("IoU", _iou, "Gold characters in {}, over those of both together."),
        )
        for k in _CUTOFFS
    ),
    *(
        _metric(
            f"BudgetRecall@{budget}",
            f"Share of the gold characters in the first {budget:,} characters of the chunks.",
            _budget_recall(budget),
            "spans",
        )
        for budget in _BUDGETS
    ),
    *(
        _metric(
            f"DocumentPresence@{k}",
            f"Whether any of the first {k} chunks is of a document that answers.",
            _document_presence(k),
            "documents",
        )
        for k in _DOCUMENT_CUTOFFS
    ),
    *(
        _metric(
            f"DocumentMismatch@{k}",
            f"Whether none of the first {k} chunks is of a document that answers.",
            _document_mismatch(k),
            "documents",
            direction="lower",
        )
        for k in _DOCUMENT_CUTOFFS
    ),
    *(
        _metric(
            f"DocumentRecall@{k}",
            f"Share of the documents that answer of which a chunk is among the first {k}.",
            _document_recall(k),
            "documents",
        )
        for k in _DOCUMENT_CUTOFFS
    ),
    _metric(
        "Answerable",
        "Whether any chunk of the index answers; 0 where the chunking cuts the gold text up.",
        lambda r: float(r.relevant > r.lost),
        "spans",
    ),
)
"""The metrics of retrieval that come with the package, in the order to show them."""

METRICS = tuple(metric.name for metric in RANKING_METRICS)
"""The names of `RANKING_METRICS`."""


def evaluate_query(
    query: Query,
    ranked: Sequence[ScoredChunk],
    relevant_chunk_ids: Collection[str],
    metrics: Sequence[RankingMetric] = RANKING_METRICS,
    lost: int = 0,
) -> dict[str, float | None]:
    """Return the metrics of one query by name; None where one is a share of nothing.

    `ranked` holds the retrieved chunks, best first; `relevant_chunk_ids` all chunks of the same
    chunking that answer the query, and `lost` counts the gold spans that none answers (see
    `judge_chunks`).

    - No gold text (no spans, or empty ones): every metric that needs gold text is None; those of
      documents are measured where documents are gold, too.
    - A lost gold span counts as a relevant chunk that is not found, so that no chunking gains by
      cutting gold up; where no chunk answers, R, nDCG and AP are 0.0 as AnswerPresence is.
    - Nothing retrieved: SpanPrecision is None.

    Raises ValueError if a chunk is ranked twice, or if `relevant_chunk_ids` and the gold spans
    disagree about a ranked chunk, as they do when taken from different chunkings or queries.
    """
    _check_unique(query, ranked)
    labels = relevance_labels(ranked, query.gold_spans)
    has_gold = any(span.end > span.start for span in query.gold_spans)
    relevant_ids = frozenset(relevant_chunk_ids)
    if has_gold:
        _check_agreement(query, ranked, labels, relevant_ids)
    subject = Ranking(query, ranked, labels, len(relevant_ids) + lost, lost)
    has: dict[Needs, bool] = {"chunks": True, "documents": bool(query.answering_documents)}
    return {m.name: m.measure(subject) if has.get(m.needs, has_gold) else None for m in metrics}


def judged_metrics(
    query: Query,
    ranked: Sequence[ScoredChunk],
    labels: Sequence[bool | None],
    metrics: Sequence[RankingMetric] = RANKING_METRICS,
) -> dict[str, float | None]:
    """Return what a judge's labels of the first passages tell: AnswerPresence@k, P@k and RR@10.

    A label that is None is not known. A metric is None where a passage that it rests on has no
    label: one among the first `depth` failed, or `depth` exceeds the labels while more of the
    ranked passages were not judged. A query with a failed label is left out even where another
    label says YES: keeping only those would raise the mean. R@k, nDCG@10 and AP are None, as nobody
    judged the passages that were not retrieved. What needs neither is not among the metrics.
    """

    def measured(metric: RankingMetric) -> float | None:
        k = len(ranked) if metric.depth is None else metric.depth
        first = [label for label in labels[:k] if label is not None]
        complete = len(first) == min(len(labels), k)
        known = complete and (k <= len(labels) or len(labels) >= len(ranked))
        if metric.needs == "relevant" or not known:
            return None
        return metric.measure(Ranking(query, ranked, first, 0))

    return {m.name: measured(m) for m in metrics if m.needs in ("labels", "relevant")}


def _check_unique(query: Query, ranked: Sequence[ScoredChunk]) -> None:
    rank_of: dict[str, int] = {}
    for rank, chunk in enumerate(ranked, 1):
        first = rank_of.setdefault(chunk.chunk_id, rank)
        if first != rank:
            raise ValueError(
                f"query {query.query_id!r}: chunk {chunk.chunk_id!r} is ranked twice, "
                f"at {first} and {rank}"
            )


def _check_agreement(
    query: Query, ranked: Sequence[ScoredChunk], labels: Sequence[bool], relevant: frozenset[str]
) -> None:
    for chunk, label in zip(ranked, labels, strict=True):
        if label != (chunk.chunk_id in relevant):
            raise ValueError(
                f"query {query.query_id!r}: chunk {chunk.chunk_id!r} "
                f"{'answers but is not' if label else 'does not answer but is'} among the relevant "
                f"chunk ids; take both from the same chunking and query"
            )
