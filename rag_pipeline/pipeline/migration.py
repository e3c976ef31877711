"""Predict the gain and cost of another embedding from a sample of the chunks.

The sample has whole documents, alternately with and without gold spans. Both models search only the
sample, once per question. The sample's vectors stay in the call cache, so a run that builds the new
index does not pay for them again.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rag_pipeline.calls import CallCounts
from rag_pipeline.calls.costs import ChargedTokens, attributed
from rag_pipeline.calls.recording import RecordingCache
from rag_pipeline.config import Configuration
from rag_pipeline.datamodels import Vectors
from rag_pipeline.errors import ConfigError, StoreError, UnknownReplyError
from rag_pipeline.evaluation.intervals import group_names
from rag_pipeline.evaluation.relevance import relevant_chunks
from rag_pipeline.evaluation.runs import load_groups, load_queries
from rag_pipeline.evaluation.significance import Comparison, compare_family
from rag_pipeline.models.embedding import embed_tokens
from rag_pipeline.pipeline.dry_run.priced_models import price, priced_model
from rag_pipeline.search.vector_index import indexed_texts, vectors_of
from rag_pipeline.workspace import Workspace

MOST_CHUNKS = 300
METRIC, DEPTH = "AnswerPresence@5", 5
_COLUMNS = ("chunk_id", "document_id", "start", "end", "text", "context")
_TEXTS_AT_ONCE = 2_048


@dataclass(frozen=True, slots=True)
class Prediction:
    """The predicted gain and cost of a migration to another embedding.

    `shares` are the shares (0 to 1) of `questions` that the old and the new model answer. Both
    search `sampled` of all `chunks`. A run would have to embed `left` more texts with `tokens`
    tokens. `usd` is None if the price is unknown. `seconds` is None if the sample needed no call.
    """

    key: str
    new: str
    chunks: int
    sampled: int
    questions: int
    shares: tuple[float, float]
    gain: Comparison
    left: int
    tokens: int
    usd: float | None
    seconds: float | None


def predict(workspace: Workspace, old: str, new: str, most_chunks: int = MOST_CHUNKS) -> Prediction:
    """Embed a sample with the new model, and predict the gain and the remaining cost and time.

    Raise ConfigError for an unknown embedding. Raise StoreError if the old vectors are missing, or
    if no question has a gold span in the sample. Raise ProviderError if a model fails.
    """
    key = _configuration(workspace, old, new).vector_key
    table = workspace.vector_index(key)
    if not table.exists():
        raise StoreError(f"{key} has no vectors; run: rag run {workspace.config.where}")
    sizes = {document_id: state.rows for document_id, state in table.state().items()}
    queries = [query for query in load_queries(workspace) if query.gold_spans]
    about = {d for query in queries for d in query.answering_documents}
    chosen = _sample(sizes, about, most_chunks)
    rows = pa.Table.from_batches(list(table.read([*_COLUMNS, "vector"], chosen)))
    relevant = relevant_chunks(queries, rows)
    asked = [query for query in queries if relevant[query.query_id]]
    if not asked:
        raise StoreError(
            f"{workspace.config.corpus}: no question has a gold span in the {len(rows)} sampled "
            f"chunks, so the gain is unknown; add questions: see `rag questions`"
        )
    texts = [text for batch in rows.to_batches() for text in indexed_texts(batch)]
    documents = rows.column("document_id").to_pylist()
    counts, started = CallCounts(), time.perf_counter()
    with attributed("migration", new):
        made = workspace.embed(new, counts)(texts, documents).vectors
        seconds = time.perf_counter() - started
        questions = [query.query for query in asked]
        searched = [workspace.embed(e, None, "query")(questions).vectors for e in (old, new)]
    ids = rows.column("chunk_id").to_pylist()
    gold = [relevant[query.query_id] for query in asked]
    found = [
        _answered(vectors, by, ids, gold)
        for vectors, by in zip((vectors_of(rows), made), searched, strict=True)
    ]
    gain = compare_family(
        {METRIC: list(zip(found[1], found[0], strict=True))},
        groups={METRIC: group_names((q.query_id for q in asked), load_groups(workspace))},
    )[METRIC]
    left, tokens = _left(workspace, new, table)
    speed = counts.made / seconds if counts.made else None
    return Prediction(
        key,
        new,
        sum(sizes.values()),
        len(rows),
        len(asked),
        (float(np.mean(found[0])), float(np.mean(found[1]))),
        gain,
        left,
        tokens.input,
        price(workspace, priced_model(workspace, workspace.config.embeddings[new]), tokens),
        left / speed if speed else None,
    )


def _configuration(workspace: Workspace, old: str, new: str) -> Configuration:
    config = workspace.config
    for name in (old, new):
        if name not in config.embeddings:
            raise ConfigError(
                f"{config.where}: no embedding {name!r}; there are: {', '.join(config.embeddings)}"
            )
    if old == new:
        raise ConfigError(f"{config.where}: both embeddings are {old!r}; name two embeddings")
    for configuration in config.all_configurations.values():
        if configuration.embedding == old:
            return configuration
    raise ConfigError(f"{config.where}: no configuration has the embedding {old!r}")


def _sample(sizes: dict[str, int], about: set[str], most: int) -> list[str]:
    """Return the ids of documents with at most `most` chunks in total, but at least one id.

    Documents in `about` alternate with other documents. The same documents always give the same
    sample, so its texts are embedded only once.
    """
    chance = random.Random(0)
    kinds = [sorted(sizes.keys() & about), sorted(sizes.keys() - about)]
    for kind in kinds:
        chance.shuffle(kind)
    chosen: list[str] = []
    total = 0
    while any(kinds):
        for kind in kinds:
            if kind:
                document_id = kind.pop()
                if total + sizes[document_id] <= most or not chosen:
                    chosen.append(document_id)
                    total += sizes[document_id]
    return chosen


def _answered(
    vectors: Vectors, queries: Vectors, ids: Sequence[str], gold: Sequence[frozenset[str]]
) -> list[float]:
    """Return 1.0 for each query with a gold chunk among its first `DEPTH` chunks, else 0.0."""
    cosines = queries @ vectors.T
    best = np.argsort(-cosines, axis=1, kind="stable")[:, :DEPTH]
    return [float(any(ids[i] in right for i in row)) for row, right in zip(best, gold, strict=True)]


def _left(workspace: Workspace, new: str, table: Any) -> tuple[int, ChargedTokens]:
    """Return the number of texts without a vector of the new model, and their tokens."""
    dry = RecordingCache.of(workspace.cache)
    embedder = workspace.embedder(new)
    model = priced_model(workspace, workspace.config.embeddings[new])
    if model is not None:
        known = workspace.ledger.learned(model.provider, model.model, "embedding", "vector_index")
        dry.learned = lambda kind, _: known
    calls: dict[bytes, ChargedTokens] = {}
    for batch in table.read(["document_id", "text", "context"], batch_rows=_TEXTS_AT_ONCE):
        dry.begin(reads=False)
        try:
            embed_tokens(
                indexed_texts(batch), embedder, dry,
                documents=batch.column("document_id").to_pylist(),
            )  # fmt: skip
        except UnknownReplyError:
            calls |= dry.missing.get("embedding", {})
    return len(calls), sum(calls.values(), ChargedTokens())
