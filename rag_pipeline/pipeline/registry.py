"""List the assets of a corpus. Each row has an asset's inputs, partitions, plan, checks and texts.

Plans, Dagster's definitions and sensors, the command line's texts, costs and retention read these
rows. A new asset needs a row and a function that makes the asset.
"""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from rag_pipeline import indexing, release
from rag_pipeline.calls.costs import totals_by
from rag_pipeline.config import CorpusConfig, Key, Settings
from rag_pipeline.config.corpus import VECTORS_VERSION
from rag_pipeline.errors import NotReleasedError
from rag_pipeline.evaluation import quality, results, runs
from rag_pipeline.evaluation.answers import count_questions
from rag_pipeline.evaluation.leaderboard import (
    LEADERBOARD_FILE,
    LEADERBOARD_VERSION,
    leaderboard_digest,
    leaderboard_is_current,
)
from rag_pipeline.evaluation.queries import QUERIES_VERSION, queries_are_current, queries_digest
from rag_pipeline.evaluation.results import JudgedResults
from rag_pipeline.pipeline import updates
from rag_pipeline.pipeline.asset import Asset, Check, ModelSettings
from rag_pipeline.pipeline.metadata import Materialized
from rag_pipeline.pipeline.updates import SHARDS_OF_DOCUMENTS, shards_of_table
from rag_pipeline.release.candidate import check_contexts, check_gate, is_current
from rag_pipeline.release.checks import INCREMENTAL_CHECKS, check_queries_complete
from rag_pipeline.release.manifest import CURRENT, FORMAT
from rag_pipeline.search.pinned import pin
from rag_pipeline.store import schemas, state_digest
from rag_pipeline.workspace import Workspace


def _method_models(stage: str, config: CorpusConfig, key: Key) -> list[ModelSettings]:
    used = config.variants(stage)[getattr(key, stage)].models_used(config)
    return [one for one in used if isinstance(one, ModelSettings)]


def _embedding_models(config: CorpusConfig, key: Key) -> list[ModelSettings]:
    return [config.embeddings[key.embedding]]


def _methods(stages: Sequence[str], config: CorpusConfig, key: Key) -> list[Settings]:
    """Return the settings of a partition's variants in these stages, or [] for the empty key."""
    chosen = config.configuration(key) if key.configuration else None
    return [
        config.chosen(chosen, stage) if chosen else config.variants(stage)[getattr(key, stage)]
        for stage in stages
        if key
    ]


def _table_asset(name: str) -> "partial[Asset]":
    """Return the common part of a row for a table that is built document by document."""
    open_partition = indexing.TABLES[name]

    def made_from(workspace: Workspace, key: Key) -> tuple[object, ...]:
        opened = open_partition(workspace, key)
        return opened.fingerprint, state_digest(opened.upstream.state())

    return partial(
        Asset,
        name=name,
        plan=lambda workspace, key: indexing.plan(open_partition(workspace, key)),
        open_partition=open_partition,
        build=partial(updates.table, open_partition),
        made_from=made_from,
        checks=(Check(f"{name}_is_sound", INCREMENTAL_CHECKS[name]),),
        shards=shards_of_table(name, open_partition),
        kind="lancedb",
        shown_counts=(("rows_written", "chunks"),),
    )


def _results_asset(made: JudgedResults) -> "partial[Asset]":
    """Return the common part of a row for a file with a model's results for each query."""
    return partial(
        Asset,
        name=made.name,
        reads=tuple(before.name for before in made.reads),
        partitioned_by="configuration",
        is_current=made.is_current,
        place=made.file,
        is_incomplete=made.is_incomplete,
        has_new_inputs=made.has_new_inputs,
        made_from=lambda workspace, key: (made.made_from(workspace, key),),
        kind="parquet",
        methods=lambda config, key: [made.settings(config.evaluation)],
        models=lambda config, key: made.chats(config),
        runs_dry=True,
    )


def _lexical_paths(workspace: Workspace, key: Key) -> tuple[str, ...]:
    engines = workspace.config.lexical_engines(key)
    return tuple(workspace.lexical_path(key, engine) for engine in engines)


def _run_is_current(workspace: Workspace, key: Key) -> bool:
    configuration = workspace.config.configuration(key)
    return runs.run_is_current(workspace, configuration) and not _run_is_incomplete(workspace, key)


def _run_is_incomplete(workspace: Workspace, key: Key) -> bool:
    return runs.run_is_incomplete(workspace, workspace.config.configuration(key))


def _run_has_new_inputs(workspace: Workspace, key: Key) -> bool:
    configuration = workspace.config.configuration(key)
    pinned = results.RUN.note(workspace, configuration.name).get("pinned")
    return pinned is not None and pinned != asdict(pin(workspace, configuration))


def _run_inputs(workspace: Workspace, key: Key) -> tuple[object, ...]:
    configuration = workspace.config.configuration(key)
    return (runs.run_digest(workspace, configuration, pin(workspace, configuration)),)


def _update_leaderboard(workspace: Workspace, _: Key) -> Materialized:
    readers = partial(configurations_of, workspace.config)
    costs = totals_by(workspace.ledger.charges(), "configuration", readers)
    return updates.leaderboard(workspace, costs)


def _release_inputs(workspace: Workspace, _: Key) -> tuple[object, ...]:
    config = workspace.config
    try:
        served = release.current(workspace).release_id
    except NotReleasedError:
        served = None
    digest = leaderboard_digest(workspace)
    return digest, config.serve, config.serve_metric, config.gate, served


_ROWS = (
    Asset(
        name="documents",
        table=lambda workspace, _: workspace.documents(),
        columns=schemas.DOCUMENTS_SCHEMA,
        plan=lambda workspace, _: indexing.plan_documents(workspace),
        build=updates.documents,
        shards=SHARDS_OF_DOCUMENTS,
        made_from=lambda workspace, _: (indexing.listing_digest(workspace.config),),
        checks=(Check("documents_are_sound", INCREMENTAL_CHECKS["documents"]),),
        of_files=True,
        methods=lambda config, key: [config.documents],
        watched=True,
        priority=20,
        kind="lancedb",
        about="Decoded files and JSON Lines records. Unusable documents go to quarantine with the "
        "reason.",
        activity="read files",
        unit="documents",
        shown_counts=(("rows_written", "read"),),
    ),
    Asset(
        name="queries",
        reads=("documents",),
        is_current=lambda workspace, _: queries_are_current(workspace),
        update=updates.queries,
        made_from=lambda workspace, _: (queries_digest(workspace),),
        methods=lambda config, key: [f"queries {QUERIES_VERSION}"],
        state=lambda workspace, _: str(results.QUERIES.digest(workspace)),
        checks=(
            Check("gold_spans_lie_in_documents", INCREMENTAL_CHECKS["queries"]),
            Check("no_query_left_out", check_queries_complete, blocking=False),
        ),
        of_files=True,
        priority=10,
        kind="parquet",
        about="The questions, with their gold spans resolved against the documents.",
        activity="find the answers of the questions in the documents",
    ),
    _table_asset("chunks")(
        reads=("documents",),
        partitioned_by="chunking",
        table=Workspace.chunks,
        columns=schemas.CHUNKS_SCHEMA,
        unit="documents",
        about="Spans of each document's text.",
        activity="cut documents into chunks",
        shown_counts=(("documents_worked_on", "documents"), ("rows_written", "chunks")),
        methods=partial(_methods, ("chunking",)),
        models=partial(_method_models, "chunking"),
    ),
    _table_asset("contextualized_chunks")(
        reads=("chunks",),
        partitioned_by="contextualizer",
        table=Workspace.contextualized_chunks,
        columns=schemas.CONTEXTUALIZED_CHUNKS_SCHEMA,
        unit="chunks",
        about="Chunks with the short context that is indexed before them.",
        activity="note where each chunk stands",
        methods=partial(_methods, ("contextualizer",)),
        models=partial(_method_models, "contextualizer"),
    ),
    Asset(
        name="lexical_index",
        reads=("contextualized_chunks",),
        partitioned_by="contextualizer",
        applies=lambda config, configuration: bool(config.engine(configuration)),
        is_current=lambda workspace, key: not indexing.plan_lexical(workspace, key),
        place=lambda key: f"lexical/{key}",
        update=updates.lexical_index,
        cleanup="after",
        made_from=_lexical_paths,
        methods=lambda config, key: [config.lexical],
        state=lambda workspace, key: " ".join(_lexical_paths(workspace, key)),
        checks=(Check("lexical_index_is_sound", INCREMENTAL_CHECKS["lexical_index"]),),
        kind="bm25",
        about="BM25 over contextualized chunks.",
        activity="index the words of all chunks",
        unit="chunks",
        total=lambda workspace, key: workspace.contextualized_chunks(key).count(),
        shown_counts=(("rows_written", "chunks"),),
    ),
    _table_asset("vector_index")(
        reads=("contextualized_chunks",),
        partitioned_by="embedding",
        table=Workspace.vector_index,
        columns=schemas.vector_schema(-1, token_vectors=True),
        unit="texts",
        about="Contextualized chunks with a unit vector each, in LanceDB.",
        activity="index the meaning of chunks",
        methods=lambda config, key: [
            f"vectors {VECTORS_VERSION}",
            *_methods(("embedding",), config, key),
        ],
        models=_embedding_models,
    ),
    Asset(
        name="retrieval_run",
        reads=("vector_index", "lexical_index", "queries"),
        partitioned_by="configuration",
        is_current=_run_is_current,
        is_incomplete=_run_is_incomplete,
        has_new_inputs=_run_has_new_inputs,
        place=results.RUN.file,
        update=updates.retrieval_run,
        made_from=_run_inputs,
        kind="parquet",
        about="The ranked chunks of every query.",
        activity="search for every question",
        unit="queries",
        total=lambda workspace, key: len(runs.load_queries(workspace)),
        shown_counts=(("queries", "searches"),),
        methods=partial(_methods, ("retriever", "reranker")),
        models=_embedding_models,
    ),
    _results_asset(results.LABELS)(
        update=updates.relevance_labels,
        about="A chat model's YES or NO for each query's first passages, and its agreement with "
        "gold.",
        activity="let a chat model judge the found passages",
        shown_counts=(("judged", "judged"), ("missing", "missing")),
        applies=lambda config, _: config.evaluation.judge is not None,
    ),
    Asset(
        name="answer_presence",
        reads=("retrieval_run", "relevance_labels"),
        partitioned_by="configuration",
        is_current=quality.scores_are_current,
        place=results.PRESENCE.file,
        update=updates.answer_presence,
        made_from=lambda workspace, key: (quality.scores_digest(workspace, key),),
        methods=lambda config, key: [f"answer_presence {quality.SCORES_VERSION}"],
        kind="parquet",
        about="Answer Presence@k and ranking metrics per query, judged by gold spans or relevance "
        "labels.",
        activity="count the searches that found the answer",
    ),
    _results_asset(results.ANSWERS)(
        update=updates.answers,
        about="An answer to every query from the first chunks of its run, with citations.",
        activity="answer every question",
        unit="answers and trials",
        total=lambda workspace, key: count_questions(
            workspace, workspace.config.configuration(key)
        ),
        shown_counts=(
            ("queries", "answers"),
            ("missing_judgements", "missing"),
            ("placed_by", "trials for the confidence"),
        ),
    ),
    _results_asset(results.ENTITY_SCORES)(
        update=updates.entity_scores,
        about="Precision, recall and F1 of the facts in the answers, per query.",
        activity="compare the answers with the facts",
        shown_counts=(("annotated_queries", "answers"), ("missing_judgements", "missing")),
        made_by="answers",
    ),
    _results_asset(results.CONTEXT_SCORES)(
        update=updates.context_scores,
        about="Relevance, use, completeness and ranking of the contexts of each query.",
        activity="judge the passages behind the answers",
        shown_counts=(("queries", "answers"), ("missing_judgements", "missing")),
        made_by="answers",
    ),
    Asset(
        name="leaderboard",
        reads=tuple(scores.name for scores in results.SCORES),
        is_current=lambda workspace, _: leaderboard_is_current(workspace),
        place=lambda _: LEADERBOARD_FILE,
        update=_update_leaderboard,
        made_from=lambda workspace, _: (leaderboard_digest(workspace),),
        methods=lambda config, key: [f"leaderboard {LEADERBOARD_VERSION}"],
        # The comparison leaves out a configuration that can't be built.
        needs_all_inputs=False,
        watched=True,
        priority=10,
        kind="json",
        about="Every configuration with its metrics, best first.",
        activity="compare the configurations",
        checks=(
            Check("gate_lets_it_through", check_gate, blocking=False),
            Check("contexts_are_healthy", check_contexts, blocking=False),
        ),
    ),
    Asset(
        name="release",
        reads=("leaderboard",),
        is_current=lambda workspace, _: is_current(workspace),
        place=lambda _: CURRENT,
        update=updates.publish_release,
        # Before the gate, because the store must not grow while the gate refuses releases.
        cleanup="before",
        made_from=_release_inputs,
        methods=lambda config, key: [f"manifest {FORMAT}"],
        watched=True,
        now=updates.served,
        priority=20,
        kind="json",
        about="The manifest that pins the served configuration and its exact builds.",
        activity="serve the best",
    ),
    Asset(
        name="assistant_prompts",
        reads=("queries", "release"),
        made_from=lambda workspace, _: (),
        on_demand=True,
        kind="json",
        about="The prompts of the assistant's model, with examples of good answers if they raise "
        "its score. Made only on demand, because the work costs several answers per query.",
        activity="optimize the assistant's prompts",
    ),
)

ASSETS = {row.name: row for row in _ROWS}
"""Every asset by name, in the order of the data flow."""


def asset_of(name: str) -> Asset:
    """Return an asset's row. Raise ValueError with the known names if the name is unknown."""
    if name not in ASSETS:
        raise ValueError(f"no asset {name!r}; there are: {', '.join(ASSETS)}")
    return ASSETS[name]


def configurations_of(config: CorpusConfig, asset: str, partition: str) -> tuple[str, ...]:
    """Return the names of the configurations that read a partition of an asset.

    An asset that is not in `ASSETS` counts as partitioned by configuration.
    """
    level = ASSETS[asset].partitioned_by if asset in ASSETS else "configuration"
    return tuple(config.readers(level, partition))
