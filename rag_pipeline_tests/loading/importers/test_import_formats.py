from pathlib import Path

import pytest

from rag_pipeline.loading.importers import ImportReport, import_dataset
from rag_pipeline.loading.queries import read_queries, resolve_queries
from rag_pipeline_tests.testing.small_sets import (
    ASSIGNED,
    CAT,
    CODE,
    FEE,
    LABELS,
    NDA,
    SMALL,
    TREC,
    agreement,
    anthropic,
    chroma,
    contractnli,
    files,
    given_chunks,
    legalbench,
    lines,
    reference,
    snippet,
    span,
    text_of,
    tree,
    write,
)


def test_legalbench(tmp_path: Path) -> None:
    out = tmp_path / "out"
    tagged = {**FEE, "tags": ["hard"]}
    done: list[tuple[int, int]] = []
    report = import_dataset(
        "legalbench-rag",
        legalbench(tmp_path / "in", FEE, tagged),
        out,
        progress=lambda count, total: done.append((count, total)),
    )
    assert report == ImportReport(
        documents=2,
        queries=2,
        chunks=0,
        skipped=(),
        reanchored=0,
        paths=(out / "documents", out / "queries.jsonl"),
    )
    assert done == [(1, 2), (2, 2)]
    assert tree(out / "documents") == tree(tmp_path / "in/corpus")
    assert lines(out / "queries.jsonl") == [
        {
            "query_id": f"legalbench-rag-cuad-000{number}",
            "query": "What is due?",
            "gold_spans": [span("cuad/fee.txt", 4, 14)],
            "tags": tags,
        }
        for number, tags in [(1, ["cuad"]), (2, ["cuad", "hard"])]
    ]


def test_legalbench_reads_every_benchmark_and_skips_missing_documents(tmp_path: Path) -> None:
    absent = {"query": "?", "snippets": [snippet("maud/none.txt", 0, 3, "abc")]}
    nothing = {"query": "?", "snippets": []}
    legalbench(tmp_path / "in", FEE)
    legalbench(tmp_path / "in", absent, nothing, FEE, name="maud")
    write(tmp_path / "in/corpus/latin.txt", "fünf".encode("latin-1"))
    write(tmp_path / "in/corpus/.DS_Store", b"\x00")
    report = import_dataset("legalbench-rag", tmp_path / "in", tmp_path / "out")
    assert (report.documents, report.queries) == (2, 2)
    assert report.skipped == (
        ".DS_Store: a hidden file, not a document",
        "latin.txt: not UTF-8: invalid start byte at byte 1",
        "legalbench-rag-maud-0001: span 0-3 of 'maud/none.txt': the document is not in the set",
        "legalbench-rag-maud-0002: no evidence",
    )
    ids = [q["query_id"] for q in lines(tmp_path / "out/queries.jsonl")]
    assert ids == ["legalbench-rag-cuad-0001", "legalbench-rag-maud-0003"]


def test_chroma(tmp_path: Path) -> None:
    rows = CAT + f"Who?,{reference('dog', 14, 17)},gone\n"
    write(tmp_path / "in/README.md", "Read me.")
    write(tmp_path / "in/corpora/chat.md", "Hello\r\nHello")
    rows += f"What is said?,{reference('Hello', 6, 11)},chat\n"
    report = import_dataset("chroma-chunking", chroma(tmp_path / "in", rows), tmp_path / "out")
    assert (report.documents, report.queries, report.reanchored) == (2, 2, 1)
    assert report.skipped == (
        "README.md: not a corpus: no question in questions_df.csv is about it",
        "chroma-chunking-0002: the corpus 'gone' is missing",
    )
    assert text_of(tmp_path / "out", "wiki.md") == " A cat sat.\nA dog ran. "
    assert text_of(tmp_path / "out", "chat.md") == "Hello\r\nHello"
    assert lines(tmp_path / "out/queries.jsonl") == [
        {
            "query_id": "chroma-chunking-0001",
            "query": "Who sat?",
            "gold_spans": [span("wiki.md", 3, 10)],
            "tags": ["wiki"],
        },
        {
            "query_id": "chroma-chunking-0003",
            "query": "What is said?",
            "gold_spans": [span("chat.md", 7, 12)],
            "tags": ["chat"],
        },
    ]


def test_anthropic(tmp_path: Path) -> None:
    question = {
        **ASSIGNED,
        "golden_chunk_uuids": [["u1", 1], ["u1", 0], ["u1", 1]],
        "meta": {"repo_name": "acme/tools"},
    }
    out = tmp_path / "out"
    report = import_dataset(
        "anthropic-contextual", anthropic(tmp_path / "in", [CODE], question), out
    )
    assert (report.documents, report.queries, report.chunks, report.skipped) == (1, 1, 2, ())
    assert report.paths == (out / "documents", out / "queries.jsonl", out / "chunks.jsonl")
    assert text_of(out, "doc_1.txt") == "a = 1\nb = 2\n"
    assert lines(out / "chunks.jsonl") == [span("doc_1.txt", 0, 6), span("doc_1.txt", 6, 12)]
    assert lines(out / "queries.jsonl") == [
        {
            "query_id": "anthropic-contextual-0001",
            "query": "What is b?",
            "gold_spans": [span("doc_1.txt", 6, 12), span("doc_1.txt", 0, 6)],
            "answer": "2",
            "tags": ["acme/tools"],
        }
    ]


@pytest.mark.parametrize(
    ("content", "chunks", "spans"),
    [
        ("x\nx\nx\n", ("x\n", "x\n", "x\n"), [(0, 2), (2, 4), (4, 6)]),
        ("}\n}\n\n}\n}", ("}\n}", "}\n}"), [(0, 3), (5, 8)]),
    ],
    ids=["repeated", "gap of white space"],
)
def test_given_chunks_are_found_in_order(
    tmp_path: Path, content: str, chunks: tuple[str, ...], spans: list[tuple[int, int]]
) -> None:
    source = anthropic(tmp_path / "in", [given_chunks("d", "u", content, *chunks)])
    import_dataset("anthropic-contextual", source, tmp_path / "out")
    assert lines(tmp_path / "out/chunks.jsonl") == [span("d.txt", *place) for place in spans]


def test_missing_golden_chunks_are_skipped(tmp_path: Path) -> None:
    document = given_chunks("d", "u", "a\nb\nb\n", "a\n", "lost\n", "b\n")
    places = [["u", 1], ["u", 9], ["v", 0], ["u", 2]]
    questions = [{"query": "?", "golden_chunk_uuids": [place]} for place in places]
    source = anthropic(tmp_path / "in", [document], *questions)
    report = import_dataset("anthropic-contextual", source, tmp_path / "out")
    assert report.skipped == (
        "chunk d_1: its text is not in d.txt",
        "anthropic-contextual-0001: golden chunk ('u', 1): the set has no such chunk",
        "anthropic-contextual-0002: golden chunk ('u', 9): the set has no such chunk",
        "anthropic-contextual-0003: golden chunk ('v', 0): the set has no such chunk",
    )
    (query,) = lines(tmp_path / "out/queries.jsonl")
    assert query["gold_spans"] == [span("d.txt", 2, 4)]


def test_contractnli(tmp_path: Path) -> None:
    other = agreement("b.txt", "Hi. Ho.", [[0, 3], [4, 7]], nda_1=("NotMentioned", []))
    contractnli(tmp_path / "in", NDA, other)
    write(tmp_path / "in/test.json", {"documents": [{**NDA}], "labels": LABELS})
    report = import_dataset("contractnli", tmp_path / "in", tmp_path / "out")
    assert (report.documents, report.queries) == (2, 2)
    assert report.skipped == ("contractnli-0003: no evidence: nda-1 is NotMentioned in 'b.txt'",)
    name = "Acme%20NDA_v1.pdf.txt"
    assert text_of(tmp_path / "out", name) == NDA["text"]
    asked = 'Which clauses of "Acme NDA v1.pdf" support or contradict this: '
    assert lines(tmp_path / "out/queries.jsonl") == [
        {
            "query_id": "contractnli-0001",
            "query": asked + "Papers go back.",
            "gold_spans": [span(name, 0, 18)],
            "answer": "Entailment",
            "tags": ["nda-1", "Entailment"],
        },
        {
            "query_id": "contractnli-0002",
            "query": asked + "Copies are fine.",
            "gold_spans": [span(name, 0, 18), span(name, 19, 30)],
            "answer": "Contradiction",
            "tags": ["nda-2", "Contradiction"],
        },
    ]
    alone = import_dataset("contractnli", tmp_path / "in/test.json", tmp_path / "alone")
    assert (alone.documents, alone.queries) == (1, 2)


def test_contractnli_names_are_made_safe_and_unique(tmp_path: Path) -> None:
    names = ["../../evil", "/etc/passwd", "A.txt", "a.TXT", "", "..", "x\x00\ny.txt", "é" * 300]
    documents = [agreement(n, f"Text {i}.", []) for i, n in enumerate(names)]
    import_dataset("contractnli", contractnli(tmp_path / "in", *documents), tmp_path / "o/out")
    assert tree(tmp_path / "o/out/documents") == {
        "_.._evil.txt": b"Text 0.",
        "_etc_passwd.txt": b"Text 1.",
        "A.txt": b"Text 2.",
        "a (2).txt": b"Text 3.",
        "document.txt": b"Text 4.",
        "document (2).txt": b"Text 5.",
        "x__y.txt": b"Text 6.",
        f"{'é' * 90}.txt": b"Text 7.",
    }
    assert {p.name for p in tmp_path.iterdir()} == {"in", "o"}
    assert {p.name for p in (tmp_path / "o").iterdir()} == {"out"}


@pytest.mark.parametrize("format", ["beir", "trec"])
def test_judged_documents_are_gold_with_their_grades(tmp_path: Path, format: str) -> None:
    import_dataset(format, SMALL[format](tmp_path / "in"), tmp_path / "out")
    (query,) = lines(tmp_path / "out/queries.jsonl")
    assert query["query"] == "Who sat?"
    assert query["gold_spans"] == [
        {"document_id": "d2.txt"},
        {"document_id": "d_1.txt", "grade": 2},
    ]
    assert text_of(tmp_path / "out", "d_1.txt") == "Cats\n\nA cat sat."
    found = resolve_queries(read_queries(tmp_path / "out/queries.jsonl"), lambda name: "A text.")[0]
    assert found[0].gold_documents == ("d2.txt", "d_1.txt")
    assert found[0].grades == {"d_1.txt": 2}


@pytest.mark.parametrize(
    "topics", ['<topic number="301">\n<query>Who sat?</query>', "301\tWho sat?"]
)
def test_topics_of_other_tracks(tmp_path: Path, topics: str) -> None:
    source = files(tmp_path / "in", {**TREC, "topics.txt": topics})
    import_dataset("trec", source, tmp_path / "out")
    (query,) = lines(tmp_path / "out/queries.jsonl")
    assert (query["query_id"], query["query"]) == ("301", "Who sat?")
