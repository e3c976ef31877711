"""Make the run of a configuration from an index and queries, as a Parquet file with a note.

The note has a hash of the run's inputs. A run is current until an input changes.
"""

import json
import statistics
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa

from rag_pipeline.calls import CallCounts
from rag_pipeline.calls.costs import Totals
from rag_pipeline.calls.costs.purposes import meter
from rag_pipeline.calls.progress import advance
from rag_pipeline.config import Configuration, Retriever, fingerprint
from rag_pipeline.config.rerankers import PassageReranker
from rag_pipeline.datamodels import Query, ScoredChunk, SearchRequest, SearchResult
from rag_pipeline.errors import ProviderError, StoreError, TextsFailedError
from rag_pipeline.evaluation.learned import cross_fitted, with_weights
from rag_pipeline.evaluation.queries import queries_digest
from rag_pipeline.evaluation.results import PRESENCE, QUERIES, RUN, read_as
from rag_pipeline.loading.queries import problem_of
from rag_pipeline.models.providers.minilm import MiniLMEmbedding
from rag_pipeline.search.index import Index
from rag_pipeline.search.pinned import Pinned, open_index, pin
from rag_pipeline.search.reranking.passages import passage_scorer
from rag_pipeline.search.retrieval import Searcher, cached, parse_query
from rag_pipeline.search.staged import Embed
from rag_pipeline.store import state_digest
from rag_pipeline.store.schemas import CONTEXTUALIZED_CHUNKS_SCHEMA
from rag_pipeline.workspace import Workspace

_CHUNK_COLUMNS = ("chunk_id", "document_id", "start", "end", "score", "text")
_FEW = 0.05
"""Maximum share of queries (0 to 1) on which a model may fail. A run with more failures fails."""


def load_queries(workspace: Workspace) -> list[Query]:
    """Return the resolved queries, or [] before the queries asset has run."""
    return [read_as(Query, json.loads(row["record"])) for row in QUERIES.rows(workspace)]


def answered_queries(workspace: Workspace, configuration: str) -> list[Query]:
    """Return the queries that a configuration answers with its first chunk.

    People's queries come before synthetic queries, and short queries before long ones.
    """
    scores = PRESENCE.rows(workspace, configuration)
    right = {row["query_id"] for row in scores if row["AnswerPresence@1"] == 1.0}
    known = (q for q in load_queries(workspace) if q.query_id in right)
    return sorted(known, key=lambda q: (q.synthetic, len(q.query), q.query))


def count_left_out(workspace: Workspace) -> int:
    """Return the number of queries that are left out because of one or more problems."""
    return _count_lost(QUERIES.note(workspace))


def _count_lost(note: Mapping[str, Any]) -> int:
    return len({problem.split(": gold_spans.", 1)[0] for problem in note.get("problems", [])})


def left_out(workspace: Workspace, note: Mapping[str, Any] | None = None) -> str:
    """Return a sentence with the number of queries that are left out, or "" if none is.

    `note` has the `problems` and the number `read` of other queries than those of the last run.
    """
    note = QUERIES.note(workspace) if note is None else note
    if not (lost := _count_lost(note)) or "read" not in note:
        return ""
    few = "; the measurements say little about them" if 2 * lost > note["read"] else ""
    return (
        f"{lost} of {note['read']} queries {'is' if lost == 1 else 'are'} left out, "
        f"because their gold is not in the documents{few}"
    )


def why_left_out(workspace: Workspace, query_id: str) -> list[str]:
    """Return the problems of a query's gold, or [] if the query is not left out."""
    problems = QUERIES.note(workspace).get("problems", [])
    start = problem_of(query_id)
    return [problem.removeprefix(start) for problem in problems if problem.startswith(start)]


def count_synthetic(workspace: Workspace, query_ids: Collection[str]) -> int:
    """Return the number of synthetic queries among these ids."""
    return sum(q.synthetic and q.query_id in query_ids for q in load_queries(workspace))


def load_groups(workspace: Workspace) -> dict[str, str]:
    """Return each query's group: its `group`, or its first gold document, or the query itself.

    Queries of one group are not independent (see `evaluation.intervals`).
    """
    return {
        q.query_id: q.group or next(iter(q.answering_documents), f"query {q.query_id}")
        for q in load_queries(workspace)
    }


def pinned_of(workspace: Workspace, configuration: str) -> Pinned | None:
    """Return the builds that a configuration's last run searched, or None without a run."""
    record = RUN.note(workspace, configuration).get("pinned")
    return None if record is None else Pinned(**record)


# --- retrieval_run ---


def run_digest(workspace: Workspace, configuration: Configuration, pinned: Pinned) -> str:
    """Hash the inputs of a configuration's run: settings, both indexes, queries."""
    config = workspace.config
    vectors = workspace.vector_index(configuration.vector_key).state(pinned.vector_version)
    return fingerprint(
        "retrieval_run",
        *config.fingerprint_parts("retrievers", configuration.retriever),
        *config.fingerprint_parts("rerankers", configuration.reranker),
        state_digest(vectors),
        pinned.lexical_path,
        queries_digest(workspace),
    )


def run_is_current(workspace: Workspace, configuration: Configuration) -> bool:
    """Return whether a configuration's run was made from the current indexes and queries."""
    note = RUN.note(workspace, configuration.name)
    if not note or not workspace.vector_index(configuration.vector_key).exists():
        return False
    made_from = run_digest(workspace, configuration, pin(workspace, configuration))
    if note["digest"] != _digest_without(made_from, note.get("failed", ())):
        return False
    pinned = Pinned(**note["pinned"])
    table = workspace.store.table(pinned.vector_table, CONTEXTUALIZED_CHUNKS_SCHEMA)
    return table.has_version(pinned.vector_version) and (
        pinned.documents_version is None
        or workspace.documents().has_version(pinned.documents_version)
    )


def run_is_incomplete(workspace: Workspace, configuration: Configuration) -> bool:
    """Return whether a run is current except for queries on which a model failed."""
    failed = RUN.note(workspace, configuration.name).get("failed")
    return bool(failed) and run_is_current(workspace, configuration)


def _digest_without(made_from: str, failed: Sequence[str]) -> str:
    # A later run may add the missing queries.
    return fingerprint(made_from, "without", *failed) if failed else made_from


def update_run(
    workspace: Workspace, configuration: Configuration, only: Sequence[Query] | None = None
) -> dict[str, Any]:
    """Search with the queries in `only`, by default with all. Write the run and return its note."""
    started = time.perf_counter()
    pinned = pin(workspace, configuration)
    made_from = run_digest(workspace, configuration, pinned)
    run = _Run(queries=load_queries(workspace) if only is None else only)
    counts = CallCounts()
    charged = meter.get()
    spent, unpriced = (charged.usd, charged.unpriced) if charged else (0.0, 0)
    searcher = searcher_of(workspace, configuration, pinned, counts)
    searched = run.embed(searcher)
    asked, weights = cross_fitted(searcher, searched, load_groups(workspace))
    made = counts.made
    for queries, settings in asked:
        requests = (SearchRequest(query=query.query) for query in queries)
        found_all = replace(searcher, retriever=settings).search_all(requests)
        for query, found in zip(queries, found_all, strict=True):
            # Cached scores of a model take no time, so only searches with calls are timed.
            run.add(query, found, timed=searcher.score is None or counts.made > made)
            made = counts.made
            advance("queries", 1)
    reranker = workspace.config.rerankers[configuration.reranker]
    run.check_failures(isinstance(reranker, PassageReranker) and reranker.on_error == "fail")
    before = RUN.note(workspace, configuration.name)
    latency_ms = statistics.median(run.latencies) if run.latencies else before.get("latency_ms")
    usd = before.get("usd_per_query")
    if counts.made or not counts.saved:
        usd = usd_per_query(charged, spent, unpriced, counts, len(searched))
    note = {
        "digest": _digest_without(made_from, sorted(run.lacking)),
        "pinned": asdict(pinned),
        "queries": len(run.queries),
        "failed": sorted(run.lacking),
        "calls": asdict(counts),
        "not_reranked": run.not_reranked,
        "not_searched": run.not_searched,
        "seconds": time.perf_counter() - started,
        "latency_ms": latency_ms,
        "usd_per_query": usd,
        "search_texts": run.search_texts,
        "weights": weights,
    }
    vectors = workspace.vector_index(configuration.vector_key)
    vectors.pin(f"run-{configuration.name}", pinned.vector_version)
    if pinned.documents_version is not None:
        workspace.documents().pin(f"run-{configuration.name}", pinned.documents_version)
    RUN.write(workspace, pa.Table.from_pylist(run.rows, RUN.schema), note, configuration.name)
    return note


def searcher_of(
    workspace: Workspace, configuration: Configuration, pinned: Pinned, counts: CallCounts
) -> Searcher:
    """Return the configuration's searcher. A failed reranker keeps the retriever's order."""
    reranker = workspace.config.rerankers[configuration.reranker]
    # The scorer gets the unchanged settings, because the keys of its calls may name them all.
    score = passage_scorer(workspace, reranker, counts)
    if isinstance(reranker, PassageReranker):
        reranker = reranker.model_copy(update={"on_error": "keep_order"})
    return Searcher(
        index=open_index(workspace, pinned),
        retriever=workspace.config.retrievers[configuration.retriever],
        reranker=reranker,
        embed=cached(workspace.embed(configuration.embedding, counts, "query")),
        score=score,
    )


@dataclass(kw_only=True)
class _Run:
    """The rows of a run and the failures of its queries, collected query by query."""

    queries: Sequence[Query]
    rows: list[dict[str, Any]] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    not_reranked: list[str] = field(default_factory=list)
    not_searched: list[str] = field(default_factory=list)
    lacking: set[str] = field(default_factory=set)
    """The ids of queries on which a model failed."""
    search_texts: dict[str, str] = field(default_factory=dict)
    """The search texts that differ from their query, by query id."""

    def embed(self, searcher: Searcher) -> Sequence[Query]:
        """Embed all search texts in few calls, and return the queries whose texts have vectors."""
        texts = [
            parse_query(searcher.index, query.query, searcher.retriever).search_text
            for query in self.queries
        ]
        pairs = list(zip(self.queries, texts, strict=True))
        self.search_texts = {q.query_id: text for q, text in pairs if text != q.query}
        try:
            searcher.embed(texts)
        except TextsFailedError as error:
            failed = {q.query_id: error.failed[text] for q, text in pairs if text in error.failed}
            self.not_searched = [f"{query_id}: {reason}" for query_id, reason in failed.items()]
            if not _are_few(self.not_searched, self.queries):
                raise
            self.lacking |= failed.keys()
            return [query for query in self.queries if query.query_id not in failed]
        return self.queries

    def add(self, query: Query, found: SearchResult, timed: bool) -> None:
        """Add the ranked chunks of a query, and the failures of its model calls."""
        if found.latency_ms is not None and timed:
            self.latencies.append(found.latency_ms)
        if found.rerank_error is not None:
            self.not_reranked.append(f"{query.query_id}: {found.rerank_error}")
            self.lacking.add(query.query_id)
        if found.boost_error is not None:
            self.not_searched.append(f"{query.query_id}: boosted queries: {found.boost_error}")
            self.lacking.add(query.query_id)
        for rank, chunk in enumerate(found.chunks, 1):
            own = {name: getattr(chunk, name) for name in _CHUNK_COLUMNS}
            self.rows.append({"query_id": query.query_id, "rank": rank, **own})

    def check_failures(self, reranker_must_work: bool) -> None:
        """Raise ProviderError if a model failed on more than 5 % and on more than one query.

        Failures of the reranker count only if `reranker_must_work` is True. A run without any
        successful query also fails.
        """
        if reranker_must_work and not _are_few(self.not_reranked, self.queries):
            query_id, _, reason = self.not_reranked[0].partition(": ")
            first = next(q.query for q in self.queries if q.query_id == query_id)
            others = f" (and {len(self.not_reranked) - 1} more queries)"
            raise ProviderError(f"query {first[:80]!r}: {reason}{others}")
        if self.not_searched and not _are_few(self.not_searched, self.queries):
            raise ProviderError("; ".join(self.not_searched[:3]))


def _are_few(failures: Sequence[str], queries: Sequence[Query]) -> bool:
    return len(failures) < len(queries) and len(failures) <= max(1, _FEW * len(queries))


def usd_per_query(
    charged: Totals | None, spent: float, unpriced: int, counts: CallCounts, queries: int
) -> float | None:
    """Return the mean cost of a query's calls in USD. A cached call counts like a new call.

    Return None if a call had no price, or if no meter counted the calls.
    """
    if charged is None or charged.unpriced > unpriced or not queries:
        return None
    share = counts.made / (counts.made + counts.saved) if counts.made else 1.0
    return (charged.usd - spent) / share / queries


def retriever_of(workspace: Workspace, configuration: Configuration) -> Retriever:
    """Return a configuration's retriever, with the weights that its last run learned."""
    weights = RUN.note(workspace, configuration.name).get("weights")
    return with_weights(workspace.config.retrievers[configuration.retriever], weights)


def retrieve_again(
    workspace: Workspace, configuration: Configuration, query: str, counts: CallCounts
) -> Sequence[ScoredChunk]:
    """Search the builds of the last run with another query. Return [] if there is no run."""
    pinned = pinned_of(workspace, configuration.name)
    if pinned is None:  # a dry run without an earlier run
        return []
    searcher = replace(
        searcher_of(workspace, configuration, pinned, counts),
        retriever=retriever_of(workspace, configuration),
        reranker=workspace.config.rerankers[configuration.reranker],
    )
    return searcher.search(SearchRequest(query=query)).chunks


def search_expected(
    workspace: Workspace,
    configuration: Configuration,
    index: Index,
    embed: Embed,
    queries: Sequence[Query],
) -> dict[str, list[dict[str, Any]]]:
    """Search an index without a model as reranker. Return the rows of the run by query id."""
    searcher = Searcher(
        index=index,
        retriever=retriever_of(workspace, configuration),
        reranker=workspace.config.rerankers[configuration.reranker],
        embed=embed,
    )
    run = _Run(queries=queries)
    for query in queries:
        run.add(query, searcher.search(SearchRequest(query=query.query, rerank=False)), timed=False)
    found: dict[str, list[dict[str, Any]]] = {query.query_id: [] for query in queries}
    for row in run.rows:
        found[row["query_id"]].append(row)
    return found


def searched_index(workspace: Workspace, configuration: Configuration) -> Index | None:
    """Return the index of the last run if it has token vectors of the packaged model, or None."""
    settings = workspace.config.embeddings[configuration.embedding]
    pinned = pinned_of(workspace, configuration.name)
    has_tokens = isinstance(settings, MiniLMEmbedding) and settings.token_vectors
    return open_index(workspace, pinned) if pinned and has_tokens else None


def load_search_texts(workspace: Workspace, configuration: str) -> dict[str, str]:
    """Return the search texts of a run that differ from their query, by query id."""
    return dict(RUN.note(workspace, configuration).get("search_texts", {}))


def load_ranked(
    workspace: Workspace, configuration: str, k: int | None = None, of: Sequence[str] | None = None
) -> dict[str, list[ScoredChunk]]:
    """Return the first `k` ranked chunks of every query of a run, best first, by query id.

    `of` limits the queries to these ids. Raise StoreError if there is no run.
    """
    import pyarrow.compute as pc

    run = RUN.read(workspace, configuration)
    if run is None:
        raise StoreError(f"{configuration}: it has no retrieval run; run `rag run`")
    if k is not None:
        run = run.filter(pc.less_equal(run.column("rank"), k))
    if of is not None:
        run = run.filter(pc.is_in(run.column("query_id"), value_set=pa.array(of, pa.string())))
    every = of if of is not None else (query.query_id for query in load_queries(workspace))
    ranked: dict[str, list[ScoredChunk]] = {query_id: [] for query_id in every}
    for row in run.select(["query_id", *_CHUNK_COLUMNS]).to_pylist():
        ranked.setdefault(row.pop("query_id"), []).append(ScoredChunk(**row))
    return ranked


def load_unsearched(workspace: Workspace, configuration: str) -> set[str]:
    """Return the ids of queries without chunks because the embedding model failed."""
    failed = set(RUN.note(workspace, configuration).get("failed", ()))
    return failed and failed - {row["query_id"] for row in RUN.rows(workspace, configuration)}
