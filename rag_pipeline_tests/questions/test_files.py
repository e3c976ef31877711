import json
from pathlib import Path

import pytest

from rag_pipeline.config import load_config
from rag_pipeline.errors import InputError
from rag_pipeline.questions import files
from rag_pipeline_tests.testing.corpora import write_corpus

HUMAN = {"query_id": "h", "query": "How long?", "gold_spans": []}


def synthetic(name: str, **more) -> dict:
    return {"query_id": name, "query": f"What is {name}?", "synthetic": True, **more}


def ids(path: Path) -> list[str]:
    return [record.query_id for record in files.held(path)]


def test_rows_are_appended_once_and_what_is_there_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    before = json.dumps(HUMAN, indent=None) + " "
    path.write_text(before)
    assert files.add(path, [synthetic("a"), synthetic("b")]) == 2
    assert files.add(path, [synthetic("b"), synthetic("c")]) == 1
    assert path.read_text().startswith(before + "\n")
    assert ids(path) == ["h", "a", "b", "c"]
    assert files.counts(files.held(path)) == (1, 3)


def test_what_nobody_accepted_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    files.add(path, [HUMAN, synthetic("a"), synthetic("b")])
    files.decide(path, "a", {"query": "What is A?", "metadata": {"review": "accepted"}})
    assert files.without_synthetic(path) == 1
    assert [(r.query_id, r.query) for r in files.held(path)] == [
        ("h", "How long?"),
        ("a", "What is A?"),
    ]


def test_what_was_rejected_is_not_added_again(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    files.add(path, [synthetic("a"), synthetic("b")])
    files.decide(path, "a", None)
    assert files.add(path, [synthetic("a"), synthetic("c")]) == 1
    assert ids(path) == ["b", "c"]
    assert files.rejected(path) == {"a"}


def test_a_question_that_is_not_there_cannot_be_decided_on(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    files.add(path, [synthetic("a")])
    with pytest.raises(InputError, match=r"queries\.jsonl: no query 'z'"):
        files.decide(path, "z", None)


def test_a_corpus_file_without_queries_is_given_its_line(tmp_path: Path) -> None:
    file = write_corpus(tmp_path)
    text = file.read_text()
    without = "\n".join(line for line in text.splitlines() if "queries" not in line) + "\n"
    file.write_text(without)
    assert load_config(file).queries_path is None
    files.name_in_corpus_file(file, file.parent / "queries.jsonl")
    config = load_config(file)
    assert config.queries_path.resolve() == (file.parent / "queries.jsonl").resolve()
    changed = [line for line in file.read_text().splitlines() if "queries" not in line]
    assert changed == without.splitlines()
