"""Documents loaded in shards, as by several processes: equal to one load of all."""

import json
import os
import threading
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import boto3
import pytest
from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from rag_pipeline import indexing
from rag_pipeline.calls.progress import listening
from rag_pipeline.config import load_config
from rag_pipeline.datamodels import Document
from rag_pipeline.errors import DocumentError, StoreError, UnreadDocumentError
from rag_pipeline.indexing import Loaded, Report, loads
from rag_pipeline.indexing.loads import load_all
from rag_pipeline.loading import bucket as bucket_module
from rag_pipeline.loading import parser_process
from rag_pipeline.loading.sources import SourceFile
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.loading.test_parser_process import start_anew, with_pdf_parser
from rag_pipeline_tests.testing.corpora import DOCUMENTS, write_documents, write_file
from rag_pipeline_tests.testing.scanning import items, workspace_of

T = TypeVar("T")
Order = Callable[[Sequence[int]], Sequence[int]]


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(loads, "_SHARD_DOCUMENTS", 2)


def handed(value: object, kind: type[T]) -> T:
    """Return a value as one process writes it and another reads it."""
    return TypeAdapter(kind).validate_json(json.dumps(to_jsonable_python(value)))


def load(workspace: Workspace, order: Order = lambda places: places) -> Report:
    """Plan, load each shard with a workspace of its own, in some order, and finish."""
    stale, _, found = indexing.plan_load(workspace)
    shards = indexing.load_shards(stale)
    made = {}
    for place in order(range(len(shards))):
        built = indexing.load_shard(Workspace(workspace.config), handed(shards[place], list))
        made[place] = handed(built, Loaded)
    return indexing.finish_load(Workspace(workspace.config), found, [*made.values()])


def rows(workspace: Workspace) -> list[list[dict[str, Any]]]:
    tables = workspace.documents(), workspace.quarantine("documents")
    return [sorted(t.open().to_arrow().to_pylist(), key=lambda r: r["document_id"]) for t in tables]


def record(name: str, text: str) -> str:
    return json.dumps({"id": name, "text": text}) + "\n"


def pack(path: Path, **members: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(f"{name}.txt", text)


@pytest.fixture
def pair(tmp_path):
    """Return what makes two workspaces of the same documents, each with a store of its own."""

    def make(**changes: object) -> tuple[Workspace, Workspace]:
        made = []
        for name in ("alone", "shared"):
            (tmp_path / name).mkdir(exist_ok=True)
            settings = {"path": str(tmp_path / "documents"), **changes}
            file = write_file(tmp_path / name, queries=None, documents=settings)
            made.append(Workspace(load_config(file)))
        return made[0], made[1]

    return make


def check_equal(
    alone: Workspace, shared: Workspace, order: Order = lambda places: places
) -> Report:
    """Load both ways; compare the rows, the reports and the next plans."""
    one, many = indexing.update_documents(alone), load(shared, order)
    assert rows(shared) == rows(alone)
    one.seconds = many.seconds = 0
    assert many == one
    assert indexing.plan_documents(shared) == indexing.plan_documents(alone)
    assert indexing.loaded_listing(shared) == indexing.loaded_listing(alone)
    assert shared.documents().duplicated() == []
    return many


def test_files_archives_records_and_what_is_wrong_with_them(tmp_path, pair):
    folder = tmp_path / "documents"
    write_documents(folder, {**DOCUMENTS, "empty.txt": ""})
    write_documents(folder, {"a.jsonl": "".join(record(f"r{n}", f"Record {n}.") for n in range(5))})
    write_documents(
        folder, {"b.jsonl": record("r1", "Said again.") + record("nda/acme.txt", "No.")}
    )
    (folder / "broken.txt").write_bytes(b"\x00\x01")
    pack(folder / "many.zip", one="The first.", two="The second.", three="The third.")
    (tmp_path / "given.csv").write_text("document_id,title,year\nr2,Given,2020\nnda/cedar.txt,,1\n")
    alone, shared = pair(metadata=str(tmp_path / "given.csv"))
    assert len(indexing.load_shards(indexing.plan_load(shared)[0])) == 8
    report = check_equal(alone, shared, lambda places: places[::-1])
    assert (report.documents, len(report.quarantined)) == (12, 4)
    assert check_equal(alone, shared).documents == 0
    assert indexing.load_shards(indexing.plan_load(shared)[0]) == []

    (folder / "nda/acme.txt").unlink()  # whose name a record has, which came first
    (folder / "policy/leave.md").unlink()
    pack(folder / "many.zip", one="The first.", two="Another.")
    report = check_equal(alone, shared)
    assert (report.documents, report.dropped) == (1, 3)


def test_a_shard_that_fails_leaves_the_rest_and_alone_is_left_to_do(tmp_path, pair, monkeypatch):
    write_documents(tmp_path / "documents", {f"{n}.txt": f"Number {n}." for n in range(6)})
    alone, shared = pair()
    done, wait = [], loads._wait

    def failing(*started):
        done.append(started)
        if len(done) == 4:
            raise StoreError("torn")
        return wait(*started)

    with monkeypatch.context() as patched, pytest.raises(StoreError):
        patched.setattr(loads, "_wait", failing)
        patched.setattr(loads, "MAX_SHARD_DOCUMENTS", 1)
        load(shared)
    assert [row["document_id"] for row in rows(shared)[0]] == ["0.txt", "1.txt", "2.txt"]
    assert indexing.loaded_listing(shared) is None
    indexing.update_documents(alone)
    assert load(shared).documents == 3
    assert rows(shared) == rows(alone)


def test_a_shard_that_is_done_twice_and_two_loads_at_once_change_nothing(tmp_path, pair):
    write_documents(tmp_path / "documents", {**DOCUMENTS, "b.txt": "caf\xe9", "e.txt": ""})
    alone, shared = pair()
    plans = [indexing.plan_load(shared), indexing.plan_load(Workspace(shared.config))]
    made: list[list[Loaded]] = [[], []]
    for shard in indexing.load_shards(plans[0][0]):
        for mine in (0, 1, 0):
            made[mine].append(indexing.load_shard(shared, shard))
    # Of a retried shard, Dagster keeps the second result.
    reports = [
        indexing.finish_load(shared, plans[0][2], made[0][1::2]),
        indexing.finish_load(shared, plans[1][2], made[1]),
    ]
    one = indexing.update_documents(alone)
    assert rows(shared) == rows(alone)
    assert [r.documents for r in reports] == [one.documents] * 2
    assert indexing.plan_documents(shared).is_current


def test_what_cannot_be_read_now_keeps_what_was_loaded(tmp_path, pair, monkeypatch):
    texts = {f"open/{n}.txt": f"Number {n}." for n in range(3)}
    write_documents(tmp_path / "documents", {**DOCUMENTS, **texts})
    alone, shared = pair()
    check_equal(alone, shared)
    scandir = os.scandir

    def refusing(path):
        if str(path).endswith("policy"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    write_documents(tmp_path / "documents", {n: t + " Edited." for n, t in texts.items()})
    monkeypatch.setattr(os, "scandir", refusing)
    report = check_equal(alone, shared)
    assert list(report.quarantined) == ["policy"]
    assert set(shared.documents().state()) == {*DOCUMENTS, *texts}
    monkeypatch.undo()

    write_documents(tmp_path / "documents", {"open/1.txt": "Planned."})
    stale, _, found = indexing.plan_load(shared)
    write_documents(tmp_path / "documents", {"open/1.txt": "Edited while it waits."})
    (made,) = (indexing.load_shard(shared, shard) for shard in indexing.load_shards(stale))
    report = indexing.finish_load(shared, found, [made])
    told = "it changed after it was listed; run again; the earlier version stays"
    assert report.quarantined == {"open/1.txt": told}
    kept = {row["document_id"]: row["text"] for row in rows(shared)[0]}
    assert kept["open/1.txt"] == "Number 1. Edited."
    assert load(shared).documents == 1


# --- objects of a bucket ---


def put(key: str, text: str) -> None:
    boto3.client("s3").put_object(Bucket="bucket", Key=f"raw/{key}", Body=text.encode())


def delete(key: str) -> None:
    boto3.client("s3").delete_object(Bucket="bucket", Key=f"raw/{key}")


IN_BUCKET = {"path": "", "s3": "s3://bucket/raw"}


@pytest.mark.parametrize("order", [lambda places: places, lambda places: places[::-1]])
def test_objects_whose_ids_meet_in_two_shards_are_chosen_as_by_one_process(bucket, pair, order):
    alone, shared = pair(**IN_BUCKET)
    put("a.txt", "Alone.")
    put("b.jsonl", record("x", "X of b.") + record("y", "Y of b."))
    put("c.txt", "Alone, too.")
    put("d.jsonl", record("x", "X of d.") + record("z", "Z of d."))
    put("e.jsonl", record("z", "Z of e.") + record("b", ""))
    report = check_equal(alone, shared, order)
    assert set(report.quarantined) == {"d.jsonl:x", "e.jsonl:z", "b"}
    assert check_equal(alone, shared, order).documents == 1, "what lost is looked at each time"

    put("a.jsonl", record("y", "Y of a, which comes too late."))
    put("d.jsonl", record("x", "X of d, edited.") + record("w", "W of d."))
    put("f.txt", "New.")
    put("g.txt", "New, too.")
    check_equal(alone, shared, order)
    texts = {row["document_id"]: row["text"] for row in rows(shared)[0]}
    assert (texts["x"], texts["y"], texts["z"]) == ("X of b.", "Y of b.", "Z of e.")

    delete("b.jsonl")
    report = check_equal(alone, shared, order)
    texts = {row["document_id"]: row["text"] for row in rows(shared)[0]}
    assert (texts["x"], texts["y"]) == ("X of d, edited.", "Y of a, which comes too late.")
    assert report.dropped
    assert indexing.plan_documents(shared).is_current


def test_a_shared_id_keeps_a_row_while_its_objects_are_read_again(bucket, pair, monkeypatch):
    _, shared = pair(**IN_BUCKET)
    put("b.jsonl", record("x", "X of b."))
    put("c.txt", "Alone.")
    put("d.txt", "Alone, too.")
    put("e.jsonl", record("x", "X of e."))
    read, seen = loads.load_stale, []

    def watched(workspace, stale, taken=None, gone=None):
        if taken is not None:
            seen.append({row["document_id"] for row in rows(workspace)[0]})
        return read(workspace, stale, taken, gone)

    monkeypatch.setattr(loads, "load_stale", watched)
    report = load(shared)
    assert seen == [{"x", "c.txt", "d.txt"}]
    assert list(report.quarantined) == ["e.jsonl:x"]
    assert {row["text"] for row in rows(shared)[0]} >= {"X of b."}


def test_records_that_move_to_another_object_are_dropped_nowhere(bucket, pair):
    alone, shared = pair(**IN_BUCKET)
    for key in "abc":
        put(f"{key}.jsonl", record(f"{key}1", f"{key}, one.") + record(f"{key}2", f"{key}, two."))
    check_equal(alone, shared)
    for old, new in (("a", "f"), ("b", "g"), ("c", "h")):
        delete(f"{old}.jsonl")
        put(f"{new}.jsonl", record(f"{old}1", f"{old}, one.") + record(f"{old}2", "Edited."))
    report = check_equal(alone, shared)
    assert (report.documents, report.dropped) == (6, 0)
    assert indexing.plan_documents(shared).is_current


def test_records_of_an_object_that_cannot_be_fetched_stay(bucket, pair, monkeypatch):
    alone, shared = pair(**IN_BUCKET)
    put("a.txt", "Alone.")
    put("b.jsonl", record("b1", "One.") + record("b2", "Two."))
    check_equal(alone, shared)
    copy, failed = bucket_module._copy, []

    def failing(source, listed, target):
        if listed.relative == "b.jsonl":
            failed.append(listed.relative)
            raise UnreadDocumentError(listed.relative, "the connection was cut")
        copy(source, listed, target)

    put("a.txt", "Alone, edited.")
    put("b.jsonl", record("b1", "One, edited."))
    with monkeypatch.context() as patched:
        patched.setattr(bucket_module, "_copy", failing)
        report = check_equal(alone, shared)
    assert failed == ["b.jsonl"] * 2
    assert list(report.quarantined) == ["b.jsonl"]
    texts = {row["document_id"]: row["text"] for row in rows(shared)[0]}
    assert texts == {"a.txt": "Alone, edited.", "b1": "One.", "b2": "Two."}
    check_equal(alone, shared)
    texts = {row["document_id"]: row["text"] for row in rows(shared)[0]}
    assert texts == {"a.txt": "Alone, edited.", "b1": "One, edited."}


def test_a_shard_fetches_what_it_was_handed_and_lists_nothing(bucket, pair, monkeypatch):
    _, shared = pair(**IN_BUCKET)
    for key in "abcde":
        put(f"{key}.txt", f"Text {key}.")
    stale, _, found = indexing.plan_load(shared)
    shards = indexing.load_shards(stale)
    assert len(shards) == 3
    fetched = []
    copy = bucket_module._copy

    def counted(source, listed, target):
        fetched.append(listed.relative)
        copy(source, listed, target)

    with monkeypatch.context() as patched:
        patched.setattr(bucket_module, "_copy", counted)
        patched.setattr(bucket_module, "list_bucket", None)
        made = [indexing.load_shard(shared, shards[1])]
        assert fetched == ["c.txt", "d.txt"]
        put("e.txt", "Changed since.")
        made += [indexing.load_shard(shared, shards[0]), indexing.load_shard(shared, shards[2])]
    report = indexing.finish_load(shared, found, made)
    assert report.quarantined == {"e.txt": "it changed after it was listed; run again"}
    assert indexing.loaded_listing(shared) is None
    assert load(shared).documents == 1
    assert indexing.plan_documents(shared).is_current


MEETING = """(
    open(raw.decode().split()[0] + str(os.getpid()), 'w').close(),
    [__import__('time').sleep(0.01) for _ in range(3000)
     if len(os.listdir(raw.decode().split()[0])) < int(raw.decode().split()[1])],
    parsers.Parsed(str(os.getpid()), ''),
)[2]"""
"""Waits until as many processes as the file names are at a document."""


def listed(folder: Path) -> list[SourceFile]:
    return [one for one in items(folder) if isinstance(one, SourceFile)]


def meeting_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int) -> Path:
    (tmp_path / "met").mkdir()
    folder = tmp_path / "documents"
    folder.mkdir()
    for number in range(processes):
        (folder / f"{number}.pdf").write_text(f"{tmp_path}/met/ {processes} {number}")
    child = with_pdf_parser("None").replace("lambda *_: None", f"lambda _, raw: {MEETING}")
    start_anew(monkeypatch, child)
    return folder


def test_documents_are_parsed_in_parallel(tmp_path, monkeypatch):
    sources = listed(meeting_of(tmp_path, monkeypatch, 3))
    loaded = [document for _, document in load_all(sources, 3)]
    texts = {document.text for document in loaded if isinstance(document, Document)}
    assert len(texts) == 3, "each by a process of its own"
    parsers = parser_process._parsers()
    assert {str(process.pid) for process in parsers.idle} == texts
    assert not parsers.busy


def test_documents_come_in_the_order_of_the_sources(tmp_path):
    for number in range(200):
        (tmp_path / f"{number:03}.txt").write_text(f"Number {number}")
    (tmp_path / "050.txt").write_bytes(b"")
    sources = listed(tmp_path)
    (tmp_path / "060.txt").write_text("Changed")
    loaded = list(load_all(sources, 4))
    assert [source for source, _ in loaded] == sources
    errors = {n: d for n, (_, d) in enumerate(loaded) if isinstance(d, DocumentError)}
    assert {n: e.reason for n, e in errors.items()} == {
        50: "empty: 0 bytes",
        60: "it changed after it was listed; run again",
    }
    assert isinstance(errors[60], UnreadDocumentError)
    texts = [d.text for _, d in loaded if isinstance(d, Document)]
    assert texts == [f"Number {n}" for n in range(200) if n not in errors]


def test_a_slow_document_hides_no_later_one_from_the_progress(tmp_path, monkeypatch):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name)
    other, parse = threading.Event(), SourceFile.parse

    def slow(source, raw):
        assert source.document_id == "b.txt" or other.wait(60), "b.txt is not counted"
        return parse(source, raw)

    monkeypatch.setattr(SourceFile, "parse", slow)
    with listening(lambda *_: other.set()):
        assert len(list(load_all(listed(tmp_path), 2))) == 2


def test_an_abandoned_load_stops_its_parsers(tmp_path, monkeypatch):
    start_anew(monkeypatch, with_pdf_parser("__import__('time').sleep(600)"))
    for name in ("b.pdf", "c.pdf"):
        (tmp_path / name).write_bytes(b"%PDF-1.4")
    (tmp_path / "a.txt").write_text("Fees")
    loading = load_all(listed(tmp_path) * 40, 2)
    first, document = next(loading)
    assert (first.document_id, isinstance(document, Document)) == ("a.txt", True)
    loading.close()
    parsers = parser_process._parsers()
    assert not parsers.busy
    assert all(process.poll() is not None for process in parsers.idle)
    assert not [t for t in threading.enumerate() if t.name.startswith("load")]


def test_a_corpus_sets_the_number_of_parsers(tmp_path, monkeypatch):
    meeting_of(tmp_path, monkeypatch, 2)
    workspace = workspace_of(tmp_path, path="documents", processes=2)
    assert indexing.update_documents(workspace).documents == 2
    assert len(list((tmp_path / "met").iterdir())) == 2
