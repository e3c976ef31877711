import pyarrow as pa
import pytest

from rag_pipeline.evaluation.results import LABELS, PRESENCE
from rag_pipeline.workspace import Workspace


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
