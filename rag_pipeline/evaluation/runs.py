"""Index and queries -> the run of a configuration, its scores per query, and the leaderboard.

Each is one Parquet file with a note of what it was made from; it is current while that holds.
"""

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from rag_pipeline.calls import CallCounts
from rag_pipeline.config import Configuration, fingerprint
from rag_pipeline.datamodels import CONTEXTUALIZED_CHUNKS_SCHEMA, GoldSpan, Query, ScoredChunk
from rag_pipeline.errors import StoreError
from rag_pipeline.evaluation.relevance import relevant_chunks
from rag_pipeline.evaluation.retrieval_metrics import METRICS, evaluate_query
from rag_pipeline.evaluation.summary import Summary, summarize_all
from rag_pipeline.indexing import read_documents
from rag_pipeline.lexical_index import open_lexical_index
from rag_pipeline.progress import advance
from rag_pipeline.queries import read_queries, resolve_queries
from rag_pipeline.retrieval import EncodedQuestion, Index, read_question, retrieve
from rag_pipeline.store import state_digest
from rag_pipeline.workspace import Workspace

QUERIES_FILE = "evaluation/queries.parquet"
LEADERBOARD_FILE = "evaluation/leaderboard.json"
SCORES_VERSION = 1
_RUN_SCHEMA = pa.schema(
    [
        ("query_id", pa.string()),
        ("rank", pa.int32()),
        ("chunk_id", pa.string()),
        ("document_id", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("score", pa.float64()),
        ("text", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Pinned:
    """The exact builds that a configuration's run searched, and that a release serves."""

    vector_table: str
    vector_version: int
    lexical_path: str | None
    rows: int


# --- queries ---


def queries_digest(workspace: Workspace) -> str:
    """Hash the queries file and the documents that its gold spans point into."""
    path = workspace.config.queries_path
    content = path.read_bytes() if path and path.is_file() else b""
    documents = state_digest(workspace.documents().state())
    return fingerprint("queries", hashlib.sha256(content).hexdigest(), documents)


def queries_are_current(workspace: Workspace) -> bool:
    """Return whether the resolved queries are those of the file and the documents as they are."""
    return workspace.store.read_note(QUERIES_FILE).get("digest") == queries_digest(workspace)


def update_queries(workspace: Workspace) -> list[str]:
    """Resolve the queries' gold spans against the loaded documents; return the problems.

    A query with a span that can't be resolved is left out and reported, the rest go on.
    """
    made_from = queries_digest(workspace)
    path = workspace.config.queries_path
    records = read_queries(path) if path else []

    def text_of(document_id: str) -> str | None:
        found = next(iter(read_documents(workspace, [document_id])), None)
        return found.text if found else None

    queries, problems = resolve_queries(records, text_of)
    rows = pa.table(
        {
            "query_id": pa.array([q.query_id for q in queries], pa.string()),
            "query": pa.array([q.query for q in queries], pa.string()),
            "record": pa.array([json.dumps(asdict(q)) for q in queries], pa.string()),
        }
    )
    note = {"digest": made_from, "problems": problems, "read": len(records)}
    workspace.store.write_parquet(QUERIES_FILE, rows, note)
    return problems


def load_queries(workspace: Workspace) -> list[Query]:
    """Return the resolved queries; [] before the queries asset has run."""
    rows = workspace.store.read_parquet(QUERIES_FILE)
    if rows is None:
        return []
    return [_query(json.loads(record)) for record in rows.column("record").to_pylist()]


def _query(record: dict[str, Any]) -> Query:
    return Query(
        query_id=record["query_id"],
        query=record["query"],
        gold_spans=tuple(GoldSpan(**span) for span in record["gold_spans"]),
        answer=record["answer"],
        entities={
            kind: tuple(tuple(variants) for variants in groups)
            for kind, groups in record["entities"].items()
        },
        critical_types=tuple(record["critical_types"]),
        tags=tuple(record["tags"]),
    )


# --- retrieval_run ---


def run_file(configuration: str) -> str:
    """Return where a configuration's run stands."""
    return f"evaluation/retrieval_run/{configuration}.parquet"


def scores_file(configuration: str) -> str:
    """Return where a configuration's scores per query stand."""
    return f"evaluation/answer_presence/{configuration}.parquet"


def run_digest(workspace: Workspace, configuration: Configuration, pinned: Pinned) -> str:
    """Hash what a configuration's run depends on: settings, both indexes, queries."""
    config = workspace.config
    vectors = workspace.vector_index(configuration.vector_key).state(pinned.vector_version)
    return fingerprint(
        "retrieval_run",
        config.retrievers[configuration.retriever],
        config.rerankers[configuration.reranker],
        state_digest(vectors),
        pinned.lexical_path,
        queries_digest(workspace),
    )


def run_is_current(workspace: Workspace, configuration: Configuration) -> bool:
    """Return whether a configuration's run was made from the indexes and queries as they are."""
    made_from = workspace.store.read_note(run_file(configuration.name)).get("digest")
    if made_from is None or not workspace.vector_index(configuration.vector_key).exists():
        return False
    return bool(made_from == run_digest(workspace, configuration, pin(workspace, configuration)))


def update_run(workspace: Workspace, configuration: Configuration) -> dict[str, Any]:
    """Retrieve for every query under one configuration; return the note of the run."""
    started = time.perf_counter()
    pinned = pin(workspace, configuration)
    made_from = run_digest(workspace, configuration, pinned)
    queries = load_queries(workspace)
    counts = CallCounts()
    index = open_index(workspace, pinned)
    settings = workspace.config.retrievers[configuration.retriever]
    questions = [read_question(index, q.query, settings) for q in queries]
    embed = workspace.embed(configuration.embedding, counts, "query")
    made = embed([question.ask for question in questions])
    encoded = (EncodedQuestion(*parts) for parts in zip(*made, strict=True))
    reranker = workspace.config.rerankers[configuration.reranker]
    columns: dict[str, list[Any]] = {name: [] for name in _RUN_SCHEMA.names}
    for query, question, code in zip(queries, questions, encoded, strict=True):
        for rank, chunk in enumerate(retrieve(index, question, code, settings, reranker), 1):
            columns["query_id"].append(query.query_id)
            columns["rank"].append(rank)
            for name in ("chunk_id", "document_id", "start", "end", "score", "text"):
                columns[name].append(getattr(chunk, name))
        advance("queries", 1)
    note = {
        "digest": made_from,
        "pinned": asdict(pinned),
        "queries": len(queries),
        "calls": asdict(counts),
        "seconds": time.perf_counter() - started,
    }
    rows = pa.table(columns, schema=_RUN_SCHEMA)
    workspace.store.write_parquet(run_file(configuration.name), rows, note)
    return note


def pin(workspace: Workspace, configuration: Configuration) -> Pinned:
    """Return the builds that a configuration stands on now."""
    table = workspace.vector_index(configuration.vector_key)
    lance = table.open()
    return Pinned(
        vector_table=table.name,
        vector_version=int(lance.version),
        lexical_path=_lexical_path(workspace, configuration),
        rows=int(lance.count_rows()),
    )


def open_index(workspace: Workspace, pinned: Pinned) -> Index:
    """Open the pinned builds for searching."""
    table = workspace.store.table(pinned.vector_table, CONTEXTUALIZED_CHUNKS_SCHEMA)
    lexical = None
    if pinned.lexical_path is not None:
        lexical = open_lexical_index(workspace.store.local_folder(pinned.lexical_path))
    return Index.open(table.open(pinned.vector_version), lexical)


def _lexical_path(workspace: Workspace, configuration: Configuration) -> str | None:
    engine = workspace.config.engine(configuration)
    return engine and workspace.lexical_path(configuration.context_key, engine)


# --- answer_presence ---


def scores_are_current(workspace: Workspace, configuration: Configuration) -> bool:
    """Return whether a configuration's scores are of its run as it is."""
    note = workspace.store.read_note(scores_file(configuration.name))
    return bool(note) and note.get("digest") == _scores_digest(workspace, configuration.name)


def update_scores(workspace: Workspace, configuration: Configuration) -> dict[str, Summary]:
    """Measure a configuration's run against the gold spans, per query; return the summaries."""
    made_from = _scores_digest(workspace, configuration.name)
    run = workspace.store.read_parquet(run_file(configuration.name))
    if run is None:
        raise StoreError(
            f"{configuration.name}: no retrieval run; materialize retrieval_run before it"
        )
    queries = load_queries(workspace)
    # The chunks that were searched, not those of today: a rank is judged by its own chunking.
    pinned = Pinned(**workspace.store.read_note(run_file(configuration.name))["pinned"])
    chunks = workspace.store.table(pinned.vector_table, CONTEXTUALIZED_CHUNKS_SCHEMA)
    spans = ["chunk_id", "document_id", "start", "end"]
    gold_documents = sorted({s.document_id for q in queries for s in q.gold_spans})
    relevant = relevant_chunks(
        queries, chunks.read(spans, gold_documents, version=pinned.vector_version)
    )
    ranked: dict[str, list[ScoredChunk]] = {q.query_id: [] for q in queries}
    for row in run.to_pylist():
        row.pop("rank")
        ranked.setdefault(row.pop("query_id"), []).append(ScoredChunk(**row))
    scores = [evaluate_query(q, ranked[q.query_id], relevant[q.query_id]) for q in queries]
    columns = {"query_id": pa.array([q.query_id for q in queries], pa.string())}
    for name in METRICS:
        columns[name] = pa.array([s[name] for s in scores], pa.float64())
    workspace.store.write_parquet(
        scores_file(configuration.name), pa.table(columns), {"digest": made_from}
    )
    return summarize_all(scores)


def load_scores(workspace: Workspace, configuration: str) -> list[dict[str, Any]]:
    """Return a configuration's scores, one row a query."""
    rows = workspace.store.read_parquet(scores_file(configuration))
    return [] if rows is None else list(rows.to_pylist())


def _scores_digest(workspace: Workspace, configuration: str) -> str:
    run = workspace.store.read_note(run_file(configuration)).get("digest")
    return fingerprint("answer_presence", SCORES_VERSION, run)


# --- leaderboard ---


def leaderboard_digest(workspace: Workspace) -> str:
    """Hash the scores that a leaderboard shows."""
    names = list(workspace.config.all_configurations)
    notes = [workspace.store.read_note(scores_file(name)).get("digest") for name in names]
    unanswered = workspace.store.read_note(QUERIES_FILE).get("problems", [])
    return fingerprint("leaderboard", workspace.config.serve_metric, names, notes, unanswered)


def leaderboard_is_current(workspace: Workspace) -> bool:
    """Return whether the leaderboard shows the scores as they are."""
    written = workspace.store.read_json(LEADERBOARD_FILE) or {}
    return bool(written.get("digest") == leaderboard_digest(workspace))


def update_leaderboard(workspace: Workspace) -> dict[str, Any]:
    """Summarize every evaluated configuration, best first by the serving metric."""
    left_out = len(workspace.store.read_note(QUERIES_FILE).get("problems", []))
    rows = []
    for name, configuration in workspace.config.all_configurations.items():
        scores = load_scores(workspace, name)
        note = workspace.store.read_note(run_file(name))
        if not note:
            continue
        for score in scores:
            score.pop("query_id")
        summaries = summarize_all(scores) if scores else {}
        rows.append(
            {
                "name": name,
                **configuration.model_dump(exclude={"name"}),
                "chunks": note["pinned"]["rows"],
                "metrics": {m: _plain(summaries.get(m)) for m in METRICS},
            }
        )
    metric = workspace.config.serve_metric
    rows.sort(key=lambda row: best_first(row["metrics"][metric]["mean"]))
    leaderboard = {
        "digest": leaderboard_digest(workspace),
        "corpus": workspace.config.corpus,
        "sorted_by": metric,
        "queries_left_out": left_out,
        "configurations": rows,
    }
    workspace.store.write_json(LEADERBOARD_FILE, leaderboard)
    return leaderboard


def best_first(mean: float | None) -> tuple[bool, float]:
    """Return the key that sorts means from high to low and unmeasured ones last."""
    return mean is None, -(mean or 0.0)


def load_leaderboard(workspace: Workspace) -> dict[str, Any]:
    """Return the last leaderboard; raise StoreError when there is none."""
    written: dict[str, Any] | None = workspace.store.read_json(LEADERBOARD_FILE)
    if written is None:
        raise StoreError(
            f"{workspace.config.corpus}: nothing has been evaluated yet; run: rag run "
            f"{workspace.config.where}"
        )
    return written


def _plain(summary: Summary | None) -> Mapping[str, Any]:
    return asdict(summary) if summary else asdict(Summary(None, 0, 0, None, None))
