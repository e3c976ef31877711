"""Small corpora that tests write, and the folders of larger ones."""

import json
import random
import shutil
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml

from rag_pipeline import Corpus

DOCUMENTS = {
    "nda/acme.txt": (
        "MUTUAL NON-DISCLOSURE AGREEMENT\n\n"
        "This agreement is made between Acme Rockets Inc. and Birch Paper Ltd. on 3 May 2021.\n\n"
        "1. Term. The obligations of confidentiality last for five (5) years from the date of "
        "disclosure.\n\n"
        "2. Governing law. The laws of the State of Delaware apply to this agreement.\n"
    ),
    "nda/cedar.txt": (
        "NON-DISCLOSURE AGREEMENT\n\n"
        "This agreement is made between Cedar Boats LLC and Dune Sand GmbH on 9 June 2022.\n\n"
        "1. Term. The obligations of confidentiality last for two (2) years from the date of "
        "disclosure.\n\n"
        "2. Governing law. The laws of Switzerland apply to this agreement.\n"
    ),
    "policy/leave.md": (
        "# Leave policy of Acme Rockets\n\n## Parental leave\n\nEvery parent may take sixteen "
        "weeks of paid leave within a year of the birth.\n\n## Sick leave\n\nA doctor's note is "
        "needed from the third day of sickness on.\n"
    ),
    "policy/travel.md": (
        "# Travel policy of Cedar Boats\n\n## Flights\n\nFlights under six hours are booked in "
        "economy class.\n\n## Hotels\n\nHotels cost at most 180 euros a night; more needs the "
        "consent of a manager.\n"
    ),
}
QUERIES = [
    ("q1", "How long does confidentiality last under the Acme NDA?", "nda/acme.txt", "five (5) y"),
    ("q2", "Which law governs the agreement with Dune Sand?", "nda/cedar.txt", "laws of Switz"),
    ("q3", "When is a doctor's note needed?", "policy/leave.md", "from the third day"),
    ("q4", "How expensive may a hotel be?", "policy/travel.md", "at most 180 euros a night"),
]


def write_documents(folder: Path, documents: Mapping[str, str]) -> None:
    for name, text in documents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())


def rule(
    name: str,
    chunking: str = "recursive_150",
    contextualizer: str = "none",
    embedding: str = "minilm",
    retriever: str = "dense",
    **more: str,
) -> dict[str, str]:
    """Return a named configuration."""
    stages = {"chunking": chunking, "contextualizer": contextualizer, "embedding": embedding}
    return {"name": name, **stages, "retriever": retriever, **more}


def attributes(**changes: Any) -> dict[str, Any]:
    return {
        "corpus": "tiny",
        "documents": {"path": "documents"},
        "queries": "queries.jsonl",
        "store": "store",
        "chunkings": {
            "recursive_150": {"method": "recursive", "max_characters": 150},
            "markdown": {"method": "markdown"},
        },
        "contextualizers": {"none": {"method": "none"}, "structural": {"method": "structural"}},
        "retrievers": {
            "dense": {"method": "dense", "k": 20},
            "hybrid": {"method": "hybrid", "k": 20},
        },
        "configurations": [
            rule("default", contextualizer="structural", retriever="hybrid"),
            rule("plain"),
        ],
        **changes,
    }


def question(query_id: str, query: str, document_id: str, quote: str) -> dict[str, Any]:
    """Return the record of a question with one gold span."""
    gold = {"document_id": document_id, "quote": quote}
    return {"query_id": query_id, "query": query, "gold_spans": [gold]}


def write_questions(folder: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write the queries file of a corpus."""
    lines = (json.dumps(record) + "\n" for record in records)
    (folder / "queries.jsonl").write_text("".join(lines))


def read_questions(folder: Path) -> list[dict[str, Any]]:
    """Return the records of a corpus's queries file."""
    return [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]


def write_corpus(folder: Path, **changes: Any) -> Path:
    """Write documents, queries and corpus file; return the corpus file."""
    write_documents(folder / "documents", DOCUMENTS)
    write_questions(folder, [question(*asked) for asked in QUERIES])
    return write_file(folder, **changes)


def write_file(folder: Path, **changes: Any) -> Path:
    """Write the corpus file alone."""
    file = folder / "tiny.yaml"
    content = {"type": "rag_pipeline.RagPipeline", "attributes": attributes(**changes)}
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


_WORDS = "party notice term clause renewal fee audit claim data breach tax wage visa lease".split()


def many_documents(count: int, marker: str) -> dict[str, str]:
    """Return documents of five paragraphs of the same words in other orders."""
    chance = random.Random(7)
    return {
        f"d{n:02d}.txt": "\n\n".join(
            f"{marker} document {n} paragraph {p}: " + " ".join(chance.choices(_WORDS, k=30)) + "."
            for p in range(5)
        )
        for n in range(count)
    }


def write_only(folder: Path, documents: dict[str, str]) -> Path:
    """Write a corpus of these documents alone, without queries."""
    file = write_corpus(folder, queries=None)
    for old in (folder / "documents").rglob("*.*"):
        old.unlink()
    write_documents(folder / "documents", documents)
    return file


TEMPLATE = "Read: {document}\n--\nSituate: {chunk}!"


def llm_contexts(url: str, **changes: Any) -> dict[str, Any]:
    """Return the settings of a corpus whose contexts a chat model writes."""
    return {
        "chats": {"small": {"provider": "openai", "model": "m", "base_url": url, **changes}},
        "contextualizers": {"llm": {"method": "llm", "chat": "small", "template": TEMPLATE}},
        "configurations": [rule("contextual", contextualizer="llm")],
    }


def paid_contexts(folder: Path, url: str, **changes: Any) -> dict[str, Any]:
    """Return the settings of a corpus whose chat model costs 10 USD a million output tokens."""
    host = url.removeprefix("http://").removesuffix("/v1")
    models = {"m": {"input": 1.0, "output": 10.0}}
    prices = {"providers": {host: {"date": "2026-11-21", "models": models}}}
    (folder / "prices.yaml").write_text(yaml.safe_dump(prices))
    settings = llm_contexts(url, max_concurrency=1)
    settings["configurations"][0]["chunking"] = "markdown"
    return {**settings, "prices": str(folder / "prices.yaml"), **changes}


def copy_corpus(source: Path, target: Path) -> None:
    """Copy a folder with a store, and each database in it as one transaction.

    An earlier test may still close a database; SQLite then removes the files beside it.
    """
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.sqlite*"), dirs_exist_ok=True)
    for file in source.rglob("*.sqlite"):
        copied = target / file.relative_to(source)
        with closing(sqlite3.connect(file)) as old, closing(sqlite3.connect(copied)) as new:
            old.backup(new)


def renamed_corpus(corpus: Corpus, folder: Path, name: str) -> Corpus:
    """Return a copy of a corpus with another name, in a new folder."""
    folder.mkdir()
    copy_corpus(corpus.config.documents_path.parent, folder)
    (folder / "store" / corpus.name).rename(folder / "store" / name)
    file = folder / "tiny.yaml"
    file.write_text(file.read_text().replace(f"corpus: {corpus.name}", f"corpus: {name}"))
    return Corpus.load(file)
