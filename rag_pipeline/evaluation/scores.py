"""Score files -> all metrics of a configuration, by metric and query."""

from collections.abc import Iterable, Mapping

import pyarrow as pa

from rag_pipeline.config import CorpusConfig
from rag_pipeline.errors import ConfigError
from rag_pipeline.evaluation.context_quality.scores import CONTEXT_METRICS
from rag_pipeline.evaluation.retrieval_metrics import METRICS
from rag_pipeline.workspace import Workspace

Values = Mapping[str, float | None]
"""A metric's values by query id; None where it is not defined or could not be judged."""
Scores = Mapping[str, Values]
"""Values by metric."""

SCORE_ASSETS = ("answer_presence", "entity_scores", "context_scores")
"""The assets that write `evaluation/<asset>/<configuration>.parquet`, one row a query."""

LATER_METRICS = (
    "EntityPrecision",
    "EntityRecall",
    "EntityF1",
    "CriticalRecall",
    *CONTEXT_METRICS,
)
"""The metrics of answers and contexts, which exist where these are evaluated."""

LOWER_IS_BETTER = frozenset({"RankingPenalty", "MissingItems"})
UNDIRECTED = frozenset({"RelevantCount"})
"""Metrics of which neither more nor less is better."""


def score_file(asset: str, configuration: str) -> str:
    """Return where an asset's scores of a configuration stand."""
    return f"evaluation/{asset}/{configuration}.parquet"


def read_scores(workspace: Workspace, configuration: str) -> dict[str, dict[str, float | None]]:
    """Return every metric of a configuration that has been evaluated, {} before the first."""
    found: dict[str, dict[str, float | None]] = {}
    for asset in SCORE_ASSETS:
        table = workspace.store.read_parquet(score_file(asset, configuration))
        if table is not None:
            found |= columns_of(table)
    return found


def columns_of(table: pa.Table) -> dict[str, dict[str, float | None]]:
    """Return the numeric columns of a table of scores by their names, each by query id."""
    ids = table.column("query_id").to_pylist()
    return {
        field.name: dict(zip(ids, table.column(field.name).to_pylist(), strict=True))
        for field in table.schema
        if pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
    }


def scores_digests(workspace: Workspace, configuration: str) -> list[str | None]:
    """Return what each of a configuration's score files was made from."""
    notes = (workspace.store.read_note(score_file(a, configuration)) for a in SCORE_ASSETS)
    return [note.get("digest") for note in notes]


def check_metric_names(config: CorpusConfig, also: Iterable[str] = ()) -> None:
    """Raise ConfigError for a `serve_metric` or a gate metric that nothing measures."""
    known = [*METRICS, *LATER_METRICS, *also]
    named = {"serve_metric": [config.serve_metric], "gate.metrics": config.gate.metrics}
    for place, metrics in named.items():
        for metric in metrics:
            if metric not in known:
                raise ConfigError(
                    f"{config.where}: {place}: {metric!r} is not one of: {', '.join(known)}"
                )
