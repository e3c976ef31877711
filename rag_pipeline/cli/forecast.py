"""What a run would do, followed through the steps whose input it would change first.

`planning` compares each table with the one before it as that is now. Here the documents that a
step would change are carried on to the steps after it (`document_texts`), and so are the queries
(`questions`), so that calls are counted before anything is spent.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rag_pipeline.calls.costs import Tokens
from rag_pipeline.cli.document_texts import (
    DOCUMENTS,
    Texts,
    Todo,
    documents_to_do,
    look_into,
    spread,
)
from rag_pipeline.cli.payees import Payee, chat_of, paid_model, payee_of
from rag_pipeline.cli.questions import judge_of, judging, reranking
from rag_pipeline.config import Configuration, ContextAwareRetriever, PassageReranker
from rag_pipeline.datamodels import Query
from rag_pipeline.evaluation import runs
from rag_pipeline.indexing import read_documents
from rag_pipeline.loading.queries import read_queries, resolve_queries
from rag_pipeline.models.embedding import call_keys
from rag_pipeline.pipeline.planning import Step, plan_step, steps, upstream
from rag_pipeline.search.pinned import open_index, pin
from rag_pipeline.search.retrieval import read_question
from rag_pipeline.workspace import Workspace

RERANKING = "reranking"
"""A part of a retrieval run that is forecast by itself, being another model's."""

_PARTS = re.compile(r"[;:?!.\n]\s*\S")


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run would do in one step.

    `stale`, `orphaned` and `current` count documents; `chunks` those that would be written, and
    `calls` the texts that would be sent to a model. The last two are None where they are known
    only once documents are loaded or sentences embedded, and not `exact` where they are scaled.
    """

    step: Step
    runs: bool
    stale: int = 0
    orphaned: int = 0
    current: int = 0
    chunks: int | None = 0
    calls: int | None = 0
    exact: bool = True
    asks: int | None = 0
    """Prompts that would be sent to a chat model."""
    model: str = ""
    """The model that would be paid for them, "" where none is."""
    tokens: Tokens = field(default_factory=Tokens)
    usd: float | None = 0.0
    """None where the model's price or the calls are not known."""


def forecast(workspace: Workspace) -> list[Forecast]:
    """Return what a run would do, step by step in its order; build and embed nothing."""
    config = workspace.config
    workspace.cache.refresh()
    todo = documents_to_do(workspace)
    texts: dict[Step, Texts] = {}
    for step in todo:
        if step.asset == "chunks":
            texts |= look_into(workspace, step.partition or "", todo)
    queries = _queries(workspace, todo[DOCUMENTS])
    answered: set[bytes] = set()
    found: dict[Step, Forecast] = {}
    for step in steps(config):
        follows = any(found[before].runs for before in upstream(config, step))
        if step in todo:
            documents = todo[step]
            runs_now = bool(documents.pending or documents.gone)
            known = texts.get(step, Texts())
            counts = len(documents.pending), len(documents.gone), documents.current
        else:
            runs_now = follows or plan_step(workspace, step).must_run
            counts = 0, 0, 0
            known = _of_queries(workspace, step, queries, found) if runs_now else Texts()
        new = [key for key in known.keys if key not in answered]
        missing = set(new) - workspace.cache.known(new)
        answered |= missing
        tokens = sum((known.keys[key] for key in missing), Tokens()) * known.scale
        count = round(len(missing) * known.scale) if known.keys_known else None
        by_chat = chat_of(config, step) is not None
        payee = paid_model(workspace, step) if runs_now else None
        found[step] = Forecast(
            step,
            runs_now,
            *counts,
            chunks=round(known.chunks * known.scale) if known.chunks_known else None,
            calls=0 if by_chat else count,
            exact=known.exact and known.scale == 1.0,
            asks=count if by_chat else 0,
            model=f"{payee.provider} {payee.model}" if payee else "",
            tokens=tokens,
            usd=_usd(workspace, payee, None if count is None else tokens),
        )
        if step.asset == "retrieval_run" and runs_now:
            rerank = _reranking(workspace, step, queries, answered)
            if rerank is not None:
                found[rerank.step] = rerank
    return list(found.values())


def _of_queries(
    workspace: Workspace, step: Step, queries: Sequence[Query], found: Mapping[Step, Forecast]
) -> Texts:
    """Return what a step about queries, which runs, would send to its model but a reranker."""
    config = workspace.config
    known = Texts()
    if step.asset == "retrieval_run":
        configuration = config.configuration(step.partition or "")
        stays = not any(
            found[before].runs for before in upstream(config, step) if before.asset != "queries"
        )
        texts = [query.query for query in queries]
        asked, known.exact = _asked(workspace, configuration, texts, stays)
        embedder = workspace.embedder(configuration.embedding)
        known.keys = spread(asked, call_keys(asked, embedder, "query"))
    elif judge_of(config, step.asset) is not None:
        run, answers = (Step(asset, step.partition) for asset in ("retrieval_run", "answers"))
        asks = judging(
            workspace,
            step,
            queries,
            run_stays=not found[run].runs,
            answers_stay=answers not in found or not found[answers].runs,
        )
        known.keys_known = asks is not None
        known.keys, known.exact = (dict(asks.keys), asks.exact) if asks else ({}, False)
    return known


def _usd(workspace: Workspace, payee: Payee | None, tokens: Tokens | None) -> float | None:
    """Return what the calls would cost, None where their tokens or their price are not known."""
    if payee is None:
        return 0.0
    price = workspace.ledger.prices.price(payee.provider, payee.model)
    return None if price is None or tokens is None else price.usd(tokens, payee.batch)


def _reranking(
    workspace: Workspace, step: Step, queries: Sequence[Query], answered: set[bytes]
) -> Forecast | None:
    """Return what a retrieval run would ask of a reranker that is paid or asked by prompts."""
    config = workspace.config
    configuration = config.configuration(step.partition or "")
    settings = config.rerankers[configuration.reranker]
    if not isinstance(settings, PassageReranker):
        return None
    chat = config.reranker_chat(settings)
    payee = payee_of(workspace, chat or settings)
    if payee is None and chat is None:
        return None
    asks = reranking(workspace, configuration, queries)
    new = {k: t for k, t in (asks.keys if asks else {}).items() if k not in answered}
    answered |= set(new)
    tokens = sum(new.values(), Tokens())
    return Forecast(
        Step(RERANKING, step.partition),
        runs=True,
        exact=False,
        asks=None if asks is None else len(new),
        model=f"{payee.provider} {payee.model}" if payee else "",
        tokens=tokens,
        usd=_usd(workspace, payee, None if asks is None else tokens),
    )


def _queries(workspace: Workspace, documents: Todo) -> list[Query]:
    """Return the queries that would be searched with, as far as their gold spans are known."""
    if not documents.pending and not documents.gone and runs.queries_are_current(workspace):
        return runs.load_queries(workspace)
    path = workspace.config.queries_path
    records = read_queries(path) if path else []
    if documents.pending:
        return [
            Query(
                r.query_id,
                r.query,
                entities={str(kind): groups for kind, groups in r.entities.items()},
            )
            for r in records
        ]

    def text_of(document_id: str) -> str | None:
        found = next(iter(read_documents(workspace, [document_id])), None)
        return found.text if found and document_id not in documents.gone else None

    return resolve_queries(records, text_of)[0]


def _asked(
    workspace: Workspace, configuration: Configuration, queries: Sequence[str], stays: bool
) -> tuple[Sequence[str], bool]:
    """Return what of the queries would be embedded, and whether that is certain.

    A retriever may split a query by what its index knows of the documents: that is certain where
    the index stays, or where a query has one part.
    """
    settings = workspace.config.retrievers[configuration.retriever]
    over = settings.over if isinstance(settings, ContextAwareRetriever) else settings
    # boosted queries have words that are not known before
    boosts = isinstance(settings, ContextAwareRetriever) and settings.variants > 0
    if not getattr(over, "split_query", False):
        return queries, not boosts
    if not stays:
        return queries, not boosts and not any(_PARTS.search(q.strip()) for q in queries)
    index = open_index(workspace, pin(workspace, configuration))
    return [read_question(index, query, over).ask for query in queries], not boosts
