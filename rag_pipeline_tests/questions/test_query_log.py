"""A server's log -> a representative sample of its questions."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from rag_pipeline.errors import InputError
from rag_pipeline.questions.query_log import read_feedback, read_log, sample, torn_lines

PLACES = {"notice": (1.0, 0.0, 0.0), "leave": (0.0, 1.0, 0.0), "price": (0.0, 0.0, 1.0)}


def embed(texts):
    """Put a question where its subject is, a little off by its length."""
    found = np.array([next(v for k, v in PLACES.items() if k in t) for t in texts])
    found += np.array([[0.01, 0.005, 0.002]]) * [[len(t) % 7] for t in texts]
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def test_a_log_is_counted_by_what_is_asked(tmp_path: Path) -> None:
    log = tmp_path / "asked.jsonl"
    lines = [json.dumps({"time": "t", "query": q}) for q in ("How long?", "how  long", "How long?")]
    log.write_text("\n".join([*lines, "What is the price", "", " "]))
    assert read_log(log) == {"How long?": 3, "What is the price": 1}
    log.write_text('{"query": 5}\n')
    with pytest.raises(InputError, match=r'asked.jsonl:1: has no text as "query"'):
        read_log(log)


def test_lines_that_a_kill_tore_are_left_out(tmp_path: Path) -> None:
    log = tmp_path / "asked.jsonl"
    log.write_text('How long?\n{"time": "t", "que\n{"query": "What is the price"}\n{"query": "Wh')
    assert read_log(log) == {"How long?": 1, "What is the price": 1}
    assert torn_lines(log) == [2, 4]


def test_one_of_each_cluster_stands_for_the_others_those_for_most_first() -> None:
    asked = Counter(
        {"what notice?": 1, "notice, how long": 5, "paid leave?": 2, "leave days": 1, "price?": 1}
    )
    found = sample(asked, 3, embed)
    assert [one.asked for one in found] == [6, 3, 1]
    assert {one.query for one in found} <= set(asked)
    assert sorted(q for one in found for q in (one.query, *one.like)) == sorted(asked)
    assert found == sample(asked, 3, embed)
    assert [one.asked for one in sample(asked, 1, embed)] == [10]
    assert sum(one.asked for one in sample(asked, 99, embed)) == 10


def test_what_is_known_is_left_out() -> None:
    asked = Counter({"what notice?": 1, "price?": 1})
    assert [one.query for one in sample(asked, 5, embed, ["What  NOTICE"])] == ["price?"]
    assert sample(asked, 5, embed, list(asked)) == []


def test_feedback_names_passages_of_its_corpus(tmp_path):
    span = {"document_id": "a.txt", "start": 0, "end": 3}
    kept = {**span, "text": "The", "content_hash": "0"}
    other = {**kept, "start": 4, "end": 7, "text": "fee"}
    lines = [
        {"query": "What is due?", "corpus": "tiny", "verdict": "wrong", "passage": kept},
        {"query": "what is due", "corpus": "tiny", "verdict": "helpful", "sources": [kept, other]},
        {"query": "When?", "corpus": "tiny", "verdict": "wrong", "sources": [other]},
        {"query": "Why?", "corpus": "another", "verdict": "helpful", "sources": [kept]},
        {"query": "Only asked?", "datasets": []},
    ]
    file = tmp_path / "feedback.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    due, when = read_feedback(file, "tiny")
    assert (due.query, due.asked, when.query, when.named) == ("What is due?", 2, "When?", ())
    assert due.row()["gold_spans"] == [
        {**span, "quote": "The"},
        {**span, "start": 4, "end": 7, "quote": "fee"},
    ]
