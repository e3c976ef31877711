import pyarrow as pa
import pytest

from rag_pipeline.evaluation.results import JUDGED, LABELS, PRESENCE, QUERIES, RUN, SCORES
from rag_pipeline.pipeline.registry import ASSETS
from rag_pipeline.workspace import Workspace


def test_files_lie_where_stores_have_them():
    assert QUERIES.file() == "evaluation/queries.parquet"
    assert RUN.file("plain") == "evaluation/retrieval_run/plain.parquet"
    judged = ("relevance_labels", "answers", "entity_scores", "context_scores")
    assert [JUDGED[name].file("a") for name in judged] == [
        f"evaluation/{n}/a.parquet" for n in judged
    ]
    assert {results.name for results in (QUERIES, RUN, *SCORES, *JUDGED.values())} <= set(ASSETS)


def test_rows_and_note_are_read_back_and_other_columns_refused(workspace: Workspace):
    assert PRESENCE.rows(workspace, "plain") == []
    assert PRESENCE.digest(workspace, "plain") is None
    table = pa.table({"query_id": ["q1"], "AP": [0.5]})
    PRESENCE.write(workspace, table, {"digest": "d"}, "plain")
    assert PRESENCE.rows(workspace, "plain") == [{"query_id": "q1", "AP": 0.5}]
    assert PRESENCE.digest(workspace, "plain") == "d"
    assert list(PRESENCE.notes(workspace)) == [{"digest": "d"}]
    with pytest.raises(ValueError, match="relevance_labels: columns"):
        LABELS.write(workspace, table, {}, "plain")
    with pytest.raises(ValueError, match="answer_presence: columns"):
        PRESENCE.write(workspace, pa.table({"query_id": ["q1"], "AP": ["high"]}), {}, "plain")
