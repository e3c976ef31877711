import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

from rag_pipeline.loading.importers import import_dataset
from rag_pipeline_tests.testing.corpora import data_folder as real
from rag_pipeline_tests.testing.small_sets import lines, text_of, tree


def texts_of(destination: Path, query: dict[str, Any]) -> list[str]:
    return [
        text_of(destination, s["document_id"])[s["start"] : s["end"]] for s in query["gold_spans"]
    ]


def test_real_legalbench(tmp_path: Path) -> None:
    source = real("legalbench_rag")
    report = import_dataset("legalbench-rag", source, tmp_path)
    assert (report.documents, report.queries, report.skipped) == (51, 487, ())
    assert tree(tmp_path / "documents") == tree(source / "corpus")
    tests = json.loads((source / "benchmarks/contractnli.json").read_bytes())["tests"]
    queries = lines(tmp_path / "queries.jsonl")
    assert [q["query"] for q in queries] == [t["query"] for t in tests]
    for query, test in zip(queries, tests, strict=True):
        assert texts_of(tmp_path, query) == [s["answer"] for s in test["snippets"]]


def test_real_chroma(tmp_path: Path) -> None:
    source = real("chroma_chunking")
    report = import_dataset("chroma-chunking", source, tmp_path)
    assert (report.documents, report.queries, report.skipped) == (3, 297, ())
    queries = lines(tmp_path / "queries.jsonl")
    assert Counter(t for q in queries for t in q["tags"]) == {
        "wikitexts": 144,
        "finance": 97,
        "chatlogs": 56,
    }
    assert sum(len(q["gold_spans"]) for q in queries) == 500
    with (source / "questions_df.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for query, row in zip(queries, rows, strict=True):
        references = json.loads(row["references"])
        assert query["query"] == row["question"]
        assert texts_of(tmp_path, query) == [r["content"] for r in references]


def test_real_anthropic(tmp_path: Path) -> None:
    source = real("anthropic_contextual")
    report = import_dataset("anthropic-contextual", source, tmp_path)
    assert (report.documents, report.queries, report.chunks) == (90, 124, 737)
    assert (report.skipped, report.reanchored) == ((), 0)
    documents = json.loads((source / "codebase_chunks.json").read_bytes())
    given_texts = [c["content"] for d in documents for c in d["chunks"]]
    chunks = lines(tmp_path / "chunks.jsonl")
    found = [text_of(tmp_path, c["document_id"])[c["start"] : c["end"]] for c in chunks]
    assert found == given_texts
    spans = [(c["document_id"], c["start"], c["end"]) for c in chunks]
    assert len(set(spans)) == 737
    questions = lines(source / "evaluation_set.jsonl")
    for query, question in zip(lines(tmp_path / "queries.jsonl"), questions, strict=True):
        assert query["answer"] == question["answer"]
        golden = {(c["doc_uuid"], c["index"]): c["content"] for c in question["golden_chunks"]}
        expected = [golden[uuid, index] for uuid, index in question["golden_chunk_uuids"]]
        assert texts_of(tmp_path, query) == expected
        assert {tuple(s.values()) for s in query["gold_spans"]} <= set(spans)


def test_real_contractnli(tmp_path: Path) -> None:
    source, documents = tmp_path / "in", []
    source.mkdir()
    for name in ("dev_small.json", "train_small.json"):
        content = (real("contractnli") / name).read_bytes()
        (source / name).write_bytes(content)
        documents += json.loads(content)["documents"]
    report = import_dataset("contractnli", source, tmp_path / "out")
    assert (report.documents, report.queries, len(report.skipped)) == (4, 57, 11)
    assert all("is NotMentioned in" in reason for reason in report.skipped)
    expected = [
        [d["text"][slice(*d["spans"][i])] for i in sorted(a["spans"])]
        for d in documents
        for a in d["annotation_sets"][0]["annotations"].values()
        if a["choice"] != "NotMentioned"
    ]
    out = tmp_path / "out"
    assert [texts_of(out, q) for q in lines(out / "queries.jsonl")] == expected
