"""The assets of a corpus, a row each: what it reads, how it is partitioned, planned and checked.

Everything that goes asset by asset follows from these rows: plans, Dagster's definitions and
sensors, the words of the command line, costs, retention. A new asset is a row and its function.
"""

from collections.abc import Mapping
from functools import partial

from rag_pipeline import indexing, release
from rag_pipeline.calls.costs import Totals, totals_by
from rag_pipeline.config import ChatSettings, CorpusConfig, EmbeddingSettings, Key, Settings
from rag_pipeline.errors import NotReleasedError
from rag_pipeline.evaluation import quality, runs
from rag_pipeline.evaluation.health import alert_subjects
from rag_pipeline.evaluation.leaderboard import (
    LEADERBOARD_FILE,
    leaderboard_digest,
    leaderboard_is_current,
)
from rag_pipeline.evaluation.results import (
    ANSWERS,
    CONTEXT_SCORES,
    ENTITY_SCORES,
    LABELS,
    PRESENCE,
    QUERIES,
    RUN,
    SCORES,
    JudgedResults,
)
from rag_pipeline.pipeline import updates
from rag_pipeline.pipeline.asset import Asset, Check, ModelSettings
from rag_pipeline.pipeline.sharding import SHARDS_OF_DOCUMENTS, shards_of_table
from rag_pipeline.release.candidate import check_gate
from rag_pipeline.release.checks import check_queries_complete
from rag_pipeline.release.incremental_checks import INCREMENTAL_CHECKS
from rag_pipeline.release.manifest import CURRENT
from rag_pipeline.search.pinned import pin
from rag_pipeline.store import state_digest
from rag_pipeline.workspace import Workspace


def _sharded(name: str) -> "partial[Asset]":
    """Return what makes the row of a table of documents' rows that is built in shards."""
    stage = indexing.STAGES[name]

    def made_from(workspace: Workspace, key: Key) -> tuple[object, ...]:
        opened = stage(workspace, key)
        return opened.fingerprint, state_digest(opened.upstream.state())

    return partial(
        Asset,
        name=name,
        plan=lambda workspace, key: indexing.plan(stage(workspace, key)),
        update=lambda workspace, key: updates.sharded(stage(workspace, key)),
        made_from=made_from,
        checks=(Check(f"{name}_is_sound", INCREMENTAL_CHECKS[name]),),
        sharded=True,
        shards=shards_of_table(name, stage),
        kind="lancedb",
        words=(("rows_written", "chunks"),),
    )


def _judged(results: JudgedResults) -> "partial[Asset]":
    """Return what makes the row of a file about one configuration's queries that models fill."""
    return partial(
        Asset,
        name=results.name,
        reads=tuple(before.name for before in results.reads),
        by="configuration",
        is_current=results.is_current,
        place=results.file,
        is_incomplete=results.is_incomplete,
        made_from=lambda workspace, key: (results.made_from(workspace, key),),
        kind="parquet",
        models=lambda config, key: results.chats(config),
        runs_dry=True,
    )


def _models(config: CorpusConfig, stage: Settings) -> list[ModelSettings]:
    return [s for s in stage.models_used(config) if isinstance(s, ChatSettings | EmbeddingSettings)]


def _costs(workspace: Workspace) -> Mapping[str, Totals]:
    readers = partial(configurations_of, workspace.config)
    return totals_by(workspace.ledger.charges(), "configuration", readers)


def _run_inputs(workspace: Workspace, key: Key) -> tuple[object, ...]:
    configuration = workspace.config.configuration(key)
    return (runs.run_digest(workspace, configuration, pin(workspace, configuration)),)


def _run_is_incomplete(workspace: Workspace, key: Key) -> bool:
    return runs.run_is_incomplete(workspace, workspace.config.configuration(key))


def _lexical_paths(workspace: Workspace, key: Key) -> tuple[str, ...]:
    engines = workspace.config.lexical_engines(key)
    return tuple(workspace.lexical_path(key, engine) for engine in engines)


def _release_inputs(workspace: Workspace, _: Key) -> tuple[object, ...]:
    config = workspace.config
    try:
        served = release.current(workspace).release_id
    except NotReleasedError:
        served = None
    digest = leaderboard_digest(workspace)
    return digest, config.serve, config.serve_metric, config.gate.metrics, served


_ROWS = (
    Asset(
        name="documents",
        table=lambda workspace, _: workspace.documents(),
        plan=lambda workspace, _: indexing.plan_documents(workspace),
        update=updates.documents,
        shards=SHARDS_OF_DOCUMENTS,
        made_from=lambda workspace, _: (indexing.listing_digest(workspace.config),),
        checks=(Check("documents_are_sound", INCREMENTAL_CHECKS["documents"]),),
        of_files=True,
        watched=True,
        priority=20,
        kind="lancedb",
        about="Files and JSON Lines records, decoded. What can't be used is quarantined with the "
        "reason.",
        doing="load files",
        unit="documents",
        words=(("rows_written", "loaded"),),
    ),
    Asset(
        name="queries",
        reads=("documents",),
        is_current=lambda workspace, _: runs.queries_are_current(workspace),
        update=updates.queries,
        made_from=lambda workspace, _: (runs.queries_digest(workspace),),
        state=lambda workspace, _: str(QUERIES.digest(workspace)),
        checks=(
            Check("gold_spans_lie_in_documents", INCREMENTAL_CHECKS["queries"]),
            Check("no_query_left_out", check_queries_complete, blocking=False),
        ),
        of_files=True,
        priority=10,
        kind="parquet",
        about="The questions, with their gold spans resolved against the documents.",
        doing="find their gold spans",
    ),
    _sharded("chunks")(
        reads=("documents",),
        by="chunking",
        table=Workspace.chunks,
        unit="documents",
        about="Spans of each document's text.",
        doing="cut documents into chunks",
        words=(("documents_worked_on", "documents"), ("rows_written", "chunks")),
        models=lambda config, key: _models(config, config.chunkings[key.chunking]),
    ),
    _sharded("contextualized_chunks")(
        reads=("chunks",),
        by="contextualizer",
        table=Workspace.contextualized_chunks,
        unit="chunks",
        about="Chunks with the short context that is indexed before them.",
        doing="put contexts before chunks",
        models=lambda config, key: _models(config, config.contextualizers[key.contextualizer]),
    ),
    Asset(
        name="lexical_index",
        reads=("contextualized_chunks",),
        by="contextualizer",
        applies=lambda config, configuration: bool(config.engine(configuration)),
        is_current=lambda workspace, key: not indexing.plan_lexical(workspace, key),
        place=lambda key: f"lexical/{key}",
        update=updates.lexical_index,
        sweep="after",
        made_from=_lexical_paths,
        state=lambda workspace, key: " ".join(_lexical_paths(workspace, key)),
        checks=(Check("lexical_index_is_sound", INCREMENTAL_CHECKS["lexical_index"]),),
        kind="bm25",
        about="BM25 over contextualized chunks.",
        doing="index all chunks for BM25",
        unit="chunks",
        total=lambda workspace, key: workspace.contextualized_chunks(key).count(),
        words=(("rows_written", "chunks"),),
    ),
    _sharded("vector_index")(
        reads=("contextualized_chunks",),
        by="embedding",
        table=Workspace.vector_index,
        unit="texts",
        about="Contextualized chunks with a unit vector each, in LanceDB.",
        doing="embed chunks",
        models=lambda config, key: [config.embeddings[key.embedding]],
    ),
    Asset(
        name="retrieval_run",
        reads=("vector_index", "lexical_index", "queries"),
        by="configuration",
        is_current=lambda workspace, key: (
            runs.run_is_current(workspace, workspace.config.configuration(key))
            and not _run_is_incomplete(workspace, key)
        ),
        is_incomplete=_run_is_incomplete,
        place=RUN.file,
        update=updates.retrieval_run,
        made_from=_run_inputs,
        kind="parquet",
        about="The ranked chunks of every query.",
        doing="search with every query",
        unit="queries",
        words=(("queries", "queries"),),
        models=lambda config, key: [config.embeddings[key.embedding]],
    ),
    _judged(LABELS)(
        update=updates.relevance_labels,
        about="A chat model's YES or NO for each query's first passages, and how far it agrees "
        "with gold.",
        doing="let a chat model judge what was found",
        words=(("judged", "judged"), ("missing", "missing")),
        applies=lambda config, _: config.evaluation.judge is not None,
    ),
    Asset(
        name="answer_presence",
        reads=("retrieval_run", "relevance_labels"),
        by="configuration",
        is_current=lambda workspace, key: quality.scores_are_current(
            workspace, workspace.config.configuration(key)
        ),
        place=PRESENCE.file,
        update=updates.answer_presence,
        made_from=lambda workspace, key: (quality.scores_digest(workspace, key),),
        kind="parquet",
        about="Answer Presence@k and ranking metrics per query, judged by gold spans or relevance "
        "labels.",
        doing="measure what was found",
    ),
    _judged(ANSWERS)(
        update=updates.answers,
        about="An answer to every query from the first chunks of its run, with citations.",
        doing="answer every query",
        words=(("queries", "answers"), ("missing_judgements", "missing")),
    ),
    _judged(ENTITY_SCORES)(
        update=updates.entity_scores,
        about="Precision, recall and F1 of the facts in the answers, per query.",
        doing="hold the answers to the facts",
        words=(("annotated_queries", "queries"), ("missing_judgements", "missing")),
        made_with="answers",
    ),
    _judged(CONTEXT_SCORES)(
        update=updates.context_scores,
        about="How relevant, used, complete and well ranked the contexts of each query are.",
        doing="judge the contexts",
        alerts=lambda config: alert_subjects(config.evaluation.health),
        words=(("queries", "queries"), ("missing_judgements", "missing")),
        made_with="answers",
    ),
    Asset(
        name="leaderboard",
        reads=tuple(results.name for results in SCORES),
        is_current=lambda workspace, _: leaderboard_is_current(workspace),
        place=lambda _: LEADERBOARD_FILE,
        update=lambda workspace, _: updates.leaderboard(workspace, _costs(workspace)),
        made_from=lambda workspace, _: (leaderboard_digest(workspace),),
        # One configuration that can't be built holds back itself, not the comparison of the rest.
        holds_back=False,
        priority=10,
        kind="json",
        about="Every configuration with its metrics, best first.",
        doing="compare the configurations",
        checks=(Check("gate_lets_it_through", check_gate, blocking=False),),
    ),
    Asset(
        name="release",
        reads=("leaderboard",),
        is_current=lambda workspace, _: release.is_current(workspace),
        place=lambda _: CURRENT,
        update=updates.publish_release,
        # Before the gate: a store stays level even where nothing is let through for long.
        sweep="before",
        made_from=_release_inputs,
        watched=True,
        priority=20,
        kind="json",
        about="The manifest that pins the configuration and the exact builds that are served.",
        doing="serve the best",
    ),
    Asset(
        name="assistant_prompts",
        reads=("queries", "release"),
        made_from=lambda workspace, _: (),
        on_demand=True,
        kind="json",
        about="The prompts of the assistant's model, with examples of good answers where these "
        "make it score higher. Made on demand alone: it costs some answers a query.",
        doing="optimize the assistant's prompts",
    ),
)

ASSETS = {row.name: row for row in _ROWS}
"""Every asset by name, in the order of the flow."""


def asset_of(name: str) -> Asset:
    """Return an asset's row; raise ValueError naming the known ones."""
    if name not in ASSETS:
        raise ValueError(f"no asset {name!r}; there are: {', '.join(ASSETS)}")
    return ASSETS[name]


def configurations_of(config: CorpusConfig, asset: str, partition: str) -> tuple[str, ...]:
    """Return the configurations that read what a call was charged to, listed here or not."""
    by = ASSETS[asset].by if asset in ASSETS else "configuration"
    return config.configurations_of(by, partition)
