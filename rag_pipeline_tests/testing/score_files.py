"""Score files as the evaluation writes them, with values chosen by hand."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from rag_pipeline.datamodels import Query
from rag_pipeline.evaluation.queries import save_queries
from rag_pipeline.evaluation.results import SCORES
from rag_pipeline.workspace import Workspace


def write_questions(workspace: Workspace, texts: Mapping[str, str]) -> None:
    queries = [Query(query_id, text) for query_id, text in texts.items()]
    save_queries(workspace, "d", queries, [], len(queries))


def write_scores(
    workspace: Workspace,
    configuration: str,
    metrics: Mapping[str, Sequence[float | None]],
    asset: str = "answer_presence",
) -> None:
    """Write values of the queries q0, q1, … by metric."""
    n = len(next(iter(metrics.values())))
    columns = {"query_id": pa.array([f"q{i}" for i in range(n)])}
    columns |= {m: pa.array(values, pa.float64()) for m, values in metrics.items()}
    (file,) = (results.file(configuration) for results in SCORES if results.name == asset)
    workspace.store.write_parquet(file, pa.table(columns), {"digest": configuration})
