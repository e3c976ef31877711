"""Turn the ranked chunks of one query into all retrieval metrics, by the names people publish."""

from collections.abc import Collection, Sequence

from rag_pipeline.datamodels import Query, ScoredChunk
from rag_pipeline.evaluation import ranking
from rag_pipeline.evaluation.answer_presence import answer_presence, relevance_labels
from rag_pipeline.evaluation.spans import count_characters

_PRESENCE_CUTOFFS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20)
_CUTOFFS = (1, 3, 5, 10, 20)

METRICS: tuple[str, ...] = (
    *(f"AnswerPresence@{k}" for k in _PRESENCE_CUTOFFS),
    "nDCG@10",
    "RR@10",
    "AP",
    *(f"{name}@{k}" for name in ("R", "P", "SpanRecall", "SpanPrecision", "IoU") for k in _CUTOFFS),
)
"""Every metric that `evaluate_query` returns, in the order to show them."""


def evaluate_query(
    query: Query, ranked: Sequence[ScoredChunk], relevant_chunk_ids: Collection[str]
) -> dict[str, float | None]:
    """Return every metric of `METRICS` for one query; None where it is a share of nothing.

    `ranked` holds the retrieved chunks, best first; `relevant_chunk_ids` all chunks of the same
    chunking that answer the query (see `relevant_chunks`).

    - No gold text (no spans, or empty ones): every metric is None.
    - No chunk of the chunking answers: AnswerPresence, P and RR are 0.0; R, nDCG and AP are None.
    - Nothing retrieved: SpanPrecision is None.

    Raises ValueError if a chunk is ranked twice, or if `relevant_chunk_ids` and the gold spans
    disagree about a ranked chunk, as they do when taken from different chunkings or queries.
    """
    _check_unique(query, ranked)
    if not any(span.end > span.start for span in query.gold_spans):
        return dict.fromkeys(METRICS)
    labels = relevance_labels(ranked, query.gold_spans)
    relevant_ids = frozenset(relevant_chunk_ids)
    _check_agreement(query, ranked, labels, relevant_ids)
    relevant = len(relevant_ids)
    values: dict[str, float | None] = {
        "nDCG@10": ranking.ndcg(labels, relevant, 10),
        "RR@10": ranking.reciprocal_rank(labels, 10),
        "AP": ranking.average_precision(labels, relevant),
    }
    for k in _PRESENCE_CUTOFFS:
        values[f"AnswerPresence@{k}"] = answer_presence(labels, k)
    for k in _CUTOFFS:
        characters = count_characters(ranked, query.gold_spans, k)
        values[f"R@{k}"] = ranking.recall(labels, relevant, k)
        values[f"P@{k}"] = ranking.precision(labels, k)
        values[f"SpanRecall@{k}"] = characters.recall
        values[f"SpanPrecision@{k}"] = characters.precision
        values[f"IoU@{k}"] = characters.iou
    return {name: values[name] for name in METRICS}


def judged_metrics(labels: Sequence[bool | None], retrieved: int) -> dict[str, float | None]:
    """Return what a judge's labels of the first passages tell: AnswerPresence@k, P@k and RR@10.

    A label that is None is not known. A metric is None where a passage that it rests on has no
    label: one among the first k failed, or k exceeds the labels while more of the `retrieved`
    passages were not judged. A query with a failed label is left out even where another label
    says YES: keeping only those would raise the mean. R@k, nDCG@10 and AP are None, as nobody
    judged the passages that were not retrieved.
    """

    def known(k: int) -> list[bool] | None:
        first = [label for label in labels[:k] if label is not None]
        judged = len(first) == min(len(labels), k)
        return first if judged and (k <= len(labels) or len(labels) >= retrieved) else None

    values: dict[str, float | None] = {"nDCG@10": None, "AP": None}
    ten = known(10)
    values["RR@10"] = None if ten is None else ranking.reciprocal_rank(ten, 10)
    for k in _PRESENCE_CUTOFFS:
        first = known(k)
        values[f"AnswerPresence@{k}"] = None if first is None else answer_presence(first, k)
    for k in _CUTOFFS:
        first = known(k)
        values[f"P@{k}"] = None if first is None else ranking.precision(first, k)
        values[f"R@{k}"] = None
    return values


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
