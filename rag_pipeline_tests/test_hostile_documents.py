"""One corpus of hostile and good documents, run once through `rag`.

An unusable document is quarantined with its reason; no good document is lost.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline.config import load_config
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing import formats
from rag_pipeline_tests.testing.broken_documents import BROKEN, BROKEN_LINES
from rag_pipeline_tests.testing.broken_queries import LOST_SPANS, TEXT
from rag_pipeline_tests.testing.command_line import Outcome, rag, said
from rag_pipeline_tests.testing.corpora import attributes, write_file, write_questions

GOOD: dict[str, bytes] = {
    "plain.txt": b"The umbrella stand costs twelve crowns.",
    "with-mark.txt": "\ufeffThe umbrella stand is green.".encode(),
    "utf16.txt": "The umbrella stand weighs four kilograms.".encode("utf-16"),
    "caf\u00e9.md": "# Umbrella stands\n\nThey stand in every café.".encode(),
    "no-suffix": b"The umbrella stand has no suffix.",
    "front.md": b"---\n[broken\n---\nThe umbrella stand opens with broken front matter.",
    "controls.txt": b"The umbrella stand has \x1b[31mred\x1b[0m and \x07 bells.",
    "table.csv": b"item,price\numbrella stand,12\n",
    "page.html": b"<p>The umbrella stand <b>page</b>",
    "paper.pdf": formats.pdf_bytes("The umbrella stand paper"),
    "letter.docx": formats.docx_bytes(body="The umbrella stand letter."),
    "slides.pptx": formats.pptx_bytes("The umbrella stand slides"),
    "sheet.xlsx": formats.xlsx_bytes(),
    "record.json": b'{"text": "The umbrella stand record."}',
    "a": TEXT.encode(),
    "b": b"Other.",
}
HOSTILE_FILES: dict[str, str] = {
    **{f"bad/{name}": reason for name, _, reason in BROKEN},
    **{f"lines/{n:02d}.jsonl:2": reason for n, (_, reason) in enumerate(BROKEN_LINES)},
    "bad/broken-link.txt": "a broken link: there is no nowhere.txt",
    "bad/loop.txt": "a link that leads to itself",
    "bad/escape.txt": "a link that leaves the documents folder",
    "bad/folder-link": "a link to a folder is not followed",
    "bad/pipe.txt": "not a regular file",
    "bad/new\\nline.txt": "the file name is not UTF-8 or has control or invisible characters",
    "bad/caf\\udce9.txt": "the file name is not UTF-8 or has control or invisible characters",
    "bad/huge.txt": "oversized: 2,000,001 bytes are more than documents.max_bytes, 2,000,000",
    "twins.jsonl:2": "duplicate document_id 'plain.txt'",
}
GOOD_IDS = {
    *GOOD,
    "twin-of-nobody",
    *(f"lines/{n:02d}.jsonl:{line}" for n in range(len(BROKEN_LINES)) for line in (1, 3)),
}


def write_hostile(folder: Path) -> None:
    bad, lines = folder / "bad", folder / "lines"
    bad.mkdir(parents=True)
    lines.mkdir()
    for name, raw in GOOD.items():
        (folder / name).write_bytes(raw)
    for name, raw, _ in BROKEN:
        (bad / name).write_bytes(raw)
    for number, (line, _) in enumerate(BROKEN_LINES):
        before, after = (
            json.dumps({"text": f"The umbrella stand {side} broken line {number}."}).encode()
            for side in ("before", "after")
        )
        (lines / f"{number:02d}.jsonl").write_bytes(before + b"\n" + line + b"\n" + after)
    (bad / "broken-link.txt").symlink_to("nowhere.txt")
    (bad / "loop.txt").symlink_to("loop.txt")
    (bad / "escape.txt").symlink_to("/etc/hostname")
    (bad / "folder-link").symlink_to("../lines")
    os.mkfifo(bad / "pipe.txt")
    (bad / "new\nline.txt").write_text("x")
    (bad / os.fsdecode(b"caf\xe9.txt")).write_text("x")
    (bad / "huge.txt").write_bytes(b"x" * 2_000_001)
    (folder / "twins.jsonl").write_text(
        '{"id": "twin-of-nobody", "text": "The umbrella stand twin."}\n'
        '{"id": "plain.txt", "text": "The false umbrella stand."}\n'
    )


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, Outcome, Path]:
    folder = tmp_path_factory.mktemp("hostile")
    write_hostile(folder / "documents")
    good = {"document_id": "b", "quote": "Other"}
    queries = [
        {"query_id": f"bad{n}", "query": "x", "gold_spans": [good, span]}
        for n, (span, _) in enumerate(LOST_SPANS)
    ]
    queries.append({"query_id": "good", "query": "What else?", "gold_spans": [good]})
    write_questions(folder, queries)
    file = write_file(
        folder,
        documents={"path": "documents", "max_bytes": 2_000_000},
        configurations=[attributes()["configurations"][1]],
    )
    return Workspace(load_config(file)), rag("run", file), file


def test_a_hostile_corpus_is_indexed_and_released(hostile: Any) -> None:
    workspace, outcome, file = hostile
    assert (outcome.code, outcome.err) == (0, "")
    assert "Traceback" not in outcome.out
    assert f"{len(HOSTILE_FILES)} documents in quarantine" in outcome.out
    lost = f"{len(LOST_SPANS)} of {len(LOST_SPANS) + 1} queries are left out"
    assert outcome.out.count("left out") == outcome.out.count(lost) == 1
    assert "to drop them: rag questions drop" in outcome.out
    assert set(workspace.documents().state()) == GOOD_IDS
    assert set(workspace.quarantine("documents").state()) == set(HOSTILE_FILES)
    assert set(workspace.vector_index("recursive_150.none.minilm").state()) == GOOD_IDS
    again = rag("run", file)
    assert again.code == 0
    assert "nothing to do: all " in again.out


@pytest.fixture(scope="module")
def refused(hostile: Any) -> dict[str, str]:
    rows: Iterator[Any] = hostile[0].quarantine("documents").read(["document_id", "reason"])
    return {r["document_id"]: r["reason"] for batch in rows for r in batch.to_pylist()}


@pytest.mark.parametrize(("document_id", "reason"), HOSTILE_FILES.items())
def test_a_hostile_document_is_quarantined_with_its_reason(
    refused: dict[str, str], document_id: str, reason: str
) -> None:
    assert reason in refused[document_id]
    assert "\n" not in refused[document_id]
    assert len(refused[document_id]) < 300


@pytest.fixture(scope="module")
def found(hostile: Any) -> dict[str, str]:
    """Return the texts that a search finds, by document."""
    shown = said("search", "umbrella stand", "-k", "1000", "--json", "-c", hostile[2])
    texts: dict[str, str] = {}
    for chunk in json.loads(shown):
        texts[chunk["document_id"]] = texts.get(chunk["document_id"], "") + chunk["text"]
    return texts


@pytest.mark.parametrize("document_id", sorted(GOOD_IDS))
def test_a_good_document_is_found(found: dict[str, str], document_id: str) -> None:
    assert found[document_id].strip()


@pytest.mark.parametrize("number", range(len(LOST_SPANS)))
def test_a_query_with_a_missing_span_is_left_out(hostile: Any, number: int) -> None:
    note = hostile[0].store.read_note("evaluation/queries.parquet")
    (problem,) = (p for p in note["problems"] if p.startswith(f"query bad{number}: "))
    assert LOST_SPANS[number][1] in problem
    (row,) = hostile[0].store.read_json("evaluation/leaderboard.json")["configurations"]
    assert row["metrics"]["AnswerPresence@20"]["n"] == 1, "the good query is measured"
