from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from rag_pipeline import indexing
from rag_pipeline.calls import CallCounts
from rag_pipeline.config import load_config
from rag_pipeline.datamodels import Answer
from rag_pipeline.errors import StoreError
from rag_pipeline.evaluation import explanation
from rag_pipeline.evaluation.answers import save_answers
from rag_pipeline.evaluation.explanation import diagnose, failing_queries
from rag_pipeline.evaluation.queries import update_queries
from rag_pipeline.evaluation.results import LABELS, RUN
from rag_pipeline.evaluation.runs import load_queries
from rag_pipeline.loading.queries import UNANSWERABLE
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import DOCUMENTS, write_file
from rag_pipeline_tests.testing.score_files import write_scores

TEXT = DOCUMENTS["policy/travel.md"]


@pytest.fixture
def evaluated(workspace):
    """Return a workspace with a run in which q2 answers at 7, q3 and q4 never, q1 at 1."""
    indexing.update_documents(workspace)
    assert update_queries(workspace) == []
    gold = {q.query_id: q.gold_spans[0] for q in load_queries(workspace)}
    rows = []
    for query_id, at in (("q1", 1), ("q2", 7), ("q3", None), ("q4", None)):
        for rank in range(1, 9):
            start, end, document = rank, rank + 30, "policy/travel.md"
            if rank == at:
                span = gold[query_id]
                start, end, document = span.start, span.end, span.document_id
            text = DOCUMENTS[document][start:end]
            row = (query_id, rank, f"{document}#{start}-{end}", document, start, end, 1.0, text)
            rows.append(dict(zip(RUN.schema.names, row, strict=True)))
    table = pa.Table.from_pylist(rows, schema=RUN.schema)
    workspace.store.write_parquet(RUN.file("plain"), table, {"digest": "d"})
    return workspace


def scored(workspace, asset="answer_presence", **metrics):
    columns = {"query_id": pa.array(["q1", "q2", "q3", "q4"])}
    columns |= {m.replace("_at_", "@"): pa.array(v, pa.float64()) for m, v in metrics.items()}
    workspace.store.write_parquet(
        f"evaluation/{asset}/plain.parquet", pa.table(columns), {"digest": "d"}
    )


def test_each_failure_has_its_reason_the_earliest_stage_first(evaluated):
    scored(evaluated, AnswerPresence_at_5=[1, 0, 0, 0], Answerable=[1, 1, 1, 0])
    found = failing_queries(evaluated, "plain")
    assert [(d.query.query_id, d.reason, d.rank) for d in found] == [
        ("q4", "in no chunk", None),
        ("q3", "not retrieved", None),
        ("q2", "retrieved below k", 7),
    ]
    assert found[2].why == "the first chunk that answers has rank 7, after the first 5"
    assert [p.answers for p in found[2].retrieved] == [False] * 6 + [True, False]
    assert found[0].gold[0].text == "at most 180 euros a night"
    assert found[0].retrieved[0].text == TEXT[1:31]


def test_an_answer_that_lacks_the_facts_has_not_used_what_was_retrieved(evaluated):
    scored(evaluated, AnswerPresence_at_5=[1, 1, 1, None])
    assert failing_queries(evaluated, "plain") == []
    scored(evaluated, "entity_scores", EntityRecall=[0, 1, None, None], CriticalRecall=[None] * 4)
    (found,) = failing_queries(evaluated, "plain")
    assert (found.query.query_id, found.reason) == ("q1", "retrieved but not used")
    scored(evaluated, "entity_scores", EntityRecall=[0, 1, 1, 1], CriticalRecall=[1, 0, 1, 1])
    (found,) = failing_queries(evaluated, "plain")
    assert found.query.query_id == "q2", "critical facts count before others"


def test_a_query_without_an_answer_is_refused_or_not(evaluated, monkeypatch):
    scored(evaluated, AnswerPresence_at_5=[1, 0, None, None])
    queries = load_queries(evaluated)
    made = [Answer("x", answered=query.query_id != "q4") for query in queries]
    save_answers(evaluated, "plain", "source", queries, made, CallCounts())
    asked = [replace(q, gold_spans=(), tags=(UNANSWERABLE,)) for q in queries[2:4]]
    monkeypatch.setattr(explanation, "load_queries", lambda _: asked)
    assert [(d.reason, d.why) for d in diagnose(evaluated, "plain", ["q3", "q4"])] == [
        ("not refused", "no document answers the query, but it was answered"),
        ("refused", "no document answers the query, and it was refused"),
    ]


def test_a_document_that_is_gone_leaves_no_gold_text(evaluated, tmp_path):
    scored(evaluated, AnswerPresence_at_5=[1, 0, 0, 0], Answerable=[1, 1, 1, 0])
    (tmp_path / "documents/policy/travel.md").unlink()
    indexing.update_documents(evaluated)
    (found,) = diagnose(evaluated, "plain", ["q4"])
    assert found.gold[0].text is None


def test_before_the_evaluation_there_is_nothing_to_diagnose(workspace):
    with pytest.raises(StoreError, match="plain has not been evaluated at k = 5; run: rag run"):
        failing_queries(workspace, "plain")
    write_scores(workspace, "plain", {"AnswerPresence@5": [1.0]})
    assert failing_queries(workspace, "plain") == []


def with_judge(workspace, labels):
    """Return the workspace with a judge's labels of the first passages."""
    judge = {"judge": "llm", "chat": "judge", "passages": 3}
    chat = {"provider": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
    folder = Path(workspace.config.where).parent
    file = write_file(folder, chats={"judge": chat}, evaluation={"relevance": judge})
    rows = [(q, label) for q, said in labels.items() for label in said]
    table = pa.table({"query_id": [q for q, _ in rows], "label": [label for _, label in rows]})
    judged = Workspace(load_config(file))
    judged.store.write_parquet(LABELS.file("plain"), table, {"digest": "d"})
    return judged


def test_a_judge_tells_which_passages_answer(evaluated):
    no = [False] * 8
    judged = with_judge(evaluated, {"q1": no, "q2": no, "q3": no, "q4": [*no[:6], True, False]})
    # Gold says that no chunk answers q4.
    scored(judged, AnswerPresence_at_5=[0, 0, 0, 0], Answerable=[1, 1, 1, 0])
    found = {d.query.query_id: d for d in failing_queries(judged, "plain")}
    assert {q: d.reason for q, d in found.items()} == {
        "q1": "judged not to answer",
        "q2": "not retrieved",
        "q3": "not retrieved",
        "q4": "retrieved below k",
    }
    assert "the judge says that it does not answer" in found["q1"].why
    assert "first 5" in found["q1"].why
    assert [p.answers for p in found["q4"].retrieved] == [False] * 6 + [True, False]


def test_what_the_judge_has_not_read_is_no_answer_and_no_failure(evaluated):
    labels = {"q1": [True], "q2": [False, False, True], "q3": [False] * 3, "q4": [False] * 3}
    judged = with_judge(evaluated, labels)
    # A YES settles Answer Presence@5; three NOs do not.
    scored(judged, AnswerPresence_at_5=[1, 1, None, None], Answerable=[1, 1, 1, 0])
    assert failing_queries(judged, "plain") == []
    found = {d.query.query_id: d for d in diagnose(judged, "plain", ["q1", "q2", "q3"])}
    assert {q: (d.reason, d.rank) for q, d in found.items()} == {
        "q1": ("answered", 1),
        "q2": ("answered", 3),
        "q3": ("not judged", None),
    }
    assert found["q1"].why == "the chunk at rank 1 answers"
    assert found["q3"].why == (
        "the judge has not labelled all of the first 5, and no labelled chunk answers"
    )
    assert [p.answers for p in found["q3"].retrieved[:5]] == [False] * 3 + [None] * 2
