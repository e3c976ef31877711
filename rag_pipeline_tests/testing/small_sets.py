"""Small sets of each format, and what tests ask of folders."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline.errors import InputError
from rag_pipeline.loading.importers import import_dataset


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, str):
        path.write_bytes(content.encode())
    else:
        path.write_text(json.dumps(content), encoding="utf-8")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def text_of(destination: Path, document_id: str) -> str:
    return (destination / "documents" / document_id).read_bytes().decode()


def tree(folder: Path) -> dict[str, bytes]:
    files = (p for p in folder.rglob("*") if p.is_file())
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in files}


def span(document_id: str, start: int, end: int) -> dict[str, Any]:
    return {"document_id": document_id, "start": start, "end": end}


def snippet(path: str, start: int, end: int, answer: str | None = None) -> dict[str, Any]:
    fields = {"file_path": path, "span": [start, end]}
    return fields if answer is None else {**fields, "answer": answer}


def legalbench(folder: Path, *tests: dict[str, Any], name: str = "cuad") -> Path:
    write(folder / "corpus/cuad/fee.txt", "The fee is 5 €. It is due.\n\n")
    write(folder / "corpus/cuad/unasked.txt", "Nothing.")
    write(folder / f"benchmarks/{name}.json", {"tests": list(tests)})
    return folder


FEE = {"query": "What is due?", "snippets": [snippet("cuad/fee.txt", 4, 14, "fee is 5 €")]}


def chroma(folder: Path, rows: str) -> Path:
    write(folder / "wiki.md", " A cat sat.\nA dog ran. ")
    write(folder / "questions_df.csv", "question,references,corpus_id\n" + rows)
    return folder


def reference(content: str, start: int, end: int) -> str:
    value = json.dumps([{"content": content, "start_index": start, "end_index": end}])
    return '"' + value.replace('"', '""') + '"'


CAT = f"Who sat?,{reference('cat sat', 3, 10)},wiki\n"


def given_chunks(doc_id: str, uuid: str, content: str, *chunks: str) -> dict[str, Any]:
    given = [
        {"chunk_id": f"{doc_id}_{i}", "original_index": i, "content": c}
        for i, c in enumerate(chunks)
    ]
    return {"doc_id": doc_id, "original_uuid": uuid, "content": content, "chunks": given}


def anthropic(folder: Path, documents: list[Any], *questions: dict[str, Any]) -> Path:
    write(folder / "codebase_chunks.json", documents)
    write(folder / "evaluation_set.jsonl", "\n".join(json.dumps(q) for q in questions) + "\n")
    return folder


CODE = given_chunks("doc_1", "u1", "a = 1\nb = 2\n", "a = 1\n", "b = 2\n")
ASSIGNED = {"query": "What is b?", "answer": "2", "golden_chunk_uuids": [["u1", 1]]}

LABELS = {
    "nda-1": {"short_description": "Return", "hypothesis": "Papers go back."},
    "nda-2": {"short_description": "Copies", "hypothesis": "Copies are fine."},
}


def agreement(file_name: str, text: str, spans: list[Any], **annotations: Any) -> dict[str, Any]:
    given = {
        key.replace("_", "-"): {"choice": choice, "spans": indices}
        for key, (choice, indices) in annotations.items()
    }
    return {
        "id": 1,
        "file_name": file_name,
        "text": text,
        "spans": spans,
        "annotation_sets": [{"annotations": given}],
    }


NDA = agreement(
    "Acme%20NDA_v1.pdf",
    "Return all papers.\nNever copy.",
    [[0, 18], [19, 30]],
    nda_1=("Entailment", [0]),
    nda_2=("Contradiction", [1, 0]),
)


def contractnli(folder: Path, *documents: Any) -> Path:
    write(folder / "train.json", {"documents": list(documents), "labels": LABELS})
    return folder


BEIR = {
    "corpus.jsonl": '{"_id": "d/1", "title": "Cats", "text": "A cat sat."}\n'
    '{"_id": "d2", "title": "", "text": "A dog ran."}\n{"_id": "d3", "title": "", "text": " "}\n',
    "queries.jsonl": '{"_id": "q1", "text": "Who sat?"}\n{"_id": "q2", "text": "Unjudged?"}\n'
    '{"_id": "q3", "text": "Irrelevant?"}\n',
    "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td/1\t2\nq1\td2\t1\nq1\tgone\t1\nq3\td2\t0\n",
}
TREC = {
    "topics.txt": "<top>\n<num> Number: 301\n<title> Who sat?\n\n<desc> Description:\n</top>\n",
    "qrels.txt": "301 0 d/1 2\n301 0 d2 1\n301 0 d4 0\n302 0 d2 1\n",
    "corpus/d/1.txt": "Cats\n\nA cat sat.",
    "corpus/all.sgml": "<DOC>\n<DOCNO> d2 </DOCNO>\n<TEXT>\nA dog &amp; a <b>cow</b> ran.\n"
    "</TEXT></DOC>"
    "<DOC><DOCNO>d4</DOCNO><TEXT>Cold.</TEXT></DOC>",
}


def files(folder: Path, contents: dict[str, str]) -> Path:
    for name, content in contents.items():
        write(folder / name, content)
    return folder


SMALL: dict[str, Callable[[Path], Path]] = {
    "legalbench-rag": lambda folder: legalbench(folder, FEE),
    "chroma-chunking": lambda folder: chroma(folder, CAT),
    "anthropic-contextual": lambda folder: anthropic(folder, [CODE], ASSIGNED),
    "contractnli": lambda folder: contractnli(folder, NDA),
    "beir": lambda folder: files(folder, BEIR),
    "trec": lambda folder: files(folder, TREC),
}


def refused(format: str, source: Path, out: Path) -> str:
    before = tree(out) if out.is_dir() else None
    with pytest.raises(InputError) as caught:
        import_dataset(format, source, out)
    assert (tree(out) if out.is_dir() else None) == before
    return str(caught.value)
