import json
from concurrent.futures import ThreadPoolExecutor
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
    return [record.query_id for record in files.read_questions(path)]


def test_rows_are_appended_once_and_what_is_there_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    before = json.dumps(HUMAN, indent=None) + " "
    path.write_text(before)
    assert files.add(path, [synthetic("a"), synthetic("b")]) == 2
    assert files.add(path, [synthetic("b"), synthetic("c")]) == 1
    assert path.read_text().startswith(before + "\n")
    assert ids(path) == ["h", "a", "b", "c"]
    assert files.counts(files.read_questions(path)) == (1, 3)


def test_what_nobody_accepted_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    files.add(path, [HUMAN, synthetic("a"), synthetic("b")])
    files.change(path, "a", {"query": "What is A?", "metadata": {"review": "accepted"}})
    assert files.without_synthetic(path) == 1
    assert [(r.query_id, r.query) for r in files.read_questions(path)] == [
        ("h", "How long?"),
        ("a", "What is A?"),
    ]


def test_what_was_rejected_is_not_added_again(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    files.add(path, [synthetic("a"), synthetic("b")])
    files.move(path, {"a"})
    assert files.add(path, [synthetic("a"), synthetic("c")]) == 1
    assert ids(path) == ["b", "c"]
    assert files.rejected(path) == {"a"}
    with pytest.raises(InputError, match=r"queries\.jsonl: no query 'z'"):
        files.move(path, {"z"})


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


def test_decisions_and_additions_at_once_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    names = [f"q{n}" for n in range(24)]
    files.add(path, [synthetic(name) for name in names])

    def change(name: str) -> None:
        if int(name[1:]) % 3 == 0:
            files.add(path, [synthetic(f"{name}-more")])
        elif int(name[1:]) % 3 == 1:
            files.move(path, {name})
        else:
            files.change(path, name, {"metadata": {"review": "accepted"}})

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(change, names))
    assert files.rejected(path) == {f"q{n}" for n in range(1, 24, 3)}
    kept = {record.query_id: record.metadata.get("review") for record in files.read_questions(path)}
    assert kept == {
        **{f"q{n}": None for n in range(0, 24, 3)},
        **{f"q{n}-more": None for n in range(0, 24, 3)},
        **{f"q{n}": "accepted" for n in range(2, 24, 3)},
    }
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "queries.jsonl",
        "queries.rejected.jsonl",
    ]


def test_only_line_feeds_end_a_record_and_the_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    odd = '{"query_id": "h", "query": "How\u2028long\x85 and \x0c?", "gold_spans": []}\r\n'
    path.write_bytes(("\ufeff" + odd.replace("\x0c", "\\f")).encode())
    files.add(path, [synthetic("a"), synthetic("b")])
    files.move(path, {"b"})
    files.change(path, "a", {"metadata": {"review": "accepted"}})
    assert ids(path) == ["h", "a"]
    assert odd.replace("\x0c", "\\f").encode() in path.read_bytes()


def test_a_linked_file_is_replaced_where_it_lies_and_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    real, path = tmp_path / "real" / "questions", tmp_path / "queries.jsonl"
    path.symlink_to(real)
    files.add(path, [synthetic("a")])
    real.chmod(0o640)
    files.add(path, [synthetic("b")])
    assert path.is_symlink() and real.stat().st_mode & 0o777 == 0o640
    assert ids(real) == ["a", "b"]


def test_a_second_corpus_in_a_folder_gets_a_file_of_its_own(tmp_path: Path) -> None:
    config = load_config(write_corpus(tmp_path)).model_copy(update={"queries": None})
    (tmp_path / "queries.jsonl").unlink(missing_ok=True)
    assert files.queries_file(config) == tmp_path / "queries.jsonl"
    (tmp_path / "queries.jsonl").write_text(json.dumps(HUMAN))
    assert files.queries_file(config) == tmp_path / f"{config.corpus}.queries.jsonl"
