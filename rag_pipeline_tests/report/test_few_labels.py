"""Questions without gold beside some with: a mean of all of them, in the report."""

import pyarrow as pa
import pytest

from rag_pipeline.config import load_config
from rag_pipeline.datamodels import Query
from rag_pipeline.evaluation.queries import save_queries
from rag_pipeline.evaluation.results import RUN
from rag_pipeline.report.content import few_labels, presence
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import write_corpus

RIGHT, WRONG = "either party may give thirty days notice", "the hotel serves breakfast"


@pytest.fixture
def workspace(tmp_path):
    """Return a corpus where one is asked of 24 documents, and every third finds the wrong text."""
    workspace = Workspace(load_config(write_corpus(tmp_path)))
    queries = [Query(f"q{i:02}", "how long is the notice") for i in range(24)]
    queries.append(Query("none", "how long is the notice", tags=("unanswerable",)))
    queries.append(Query("made", "how long is the notice", synthetic=True))
    save_queries(workspace, "d", queries, [], len(queries))
    rows = [
        (q.query_id, rank, f"{i}#{rank}", f"{i}.txt", 0, len(text), 1.0 - rank / 10, text)
        for i, q in enumerate(queries)
        for rank, text in enumerate((RIGHT, WRONG)[:: 1 if i % 3 else -1], 1)
    ]
    columns = dict(zip(RUN.schema.names, zip(*rows, strict=True), strict=True))
    RUN.write(workspace, pa.table(columns, schema=RUN.schema), {"digest": "d", "asks": {}}, "one")
    return workspace, queries


def test_predictions_complete_the_gold_of_some_queries(workspace):
    corpus, queries = workspace
    gold = {f"q{i:02}": float(bool(i % 3)) for i in range(9)}
    found = few_labels(corpus, "one", queries, {"AnswerPresence@1": gold}, {})
    assert found is not None
    # The unanswerable and the synthetic query are not samples of people's queries.
    assert (found.labelled, found.judged) == (9, 24)
    assert found.mean == pytest.approx(2 / 3, abs=0.05)
    assert found.high - found.low < 0.8 * (found.gold_high - found.gold_low)


def test_with_full_gold_nothing_is_predicted(workspace):
    corpus, queries = workspace
    gold = {q.query_id: 1.0 for q in queries[:24]}
    assert few_labels(corpus, "one", queries, {"AnswerPresence@1": gold}, {}) is None


def test_a_missing_label_matters_only_without_a_yes():
    assert presence([None, True]) == 1.0
    assert presence([None, False]) is None
    assert presence([False, False]) == 0.0
    assert presence([]) is None
