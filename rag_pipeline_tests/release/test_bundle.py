import hashlib
import io
import json
import math
import random
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rag_pipeline import Corpus
from rag_pipeline.config import load_config
from rag_pipeline.errors import InputError, StoreError
from rag_pipeline.release import bundle, manifest, publishing
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.command_line import said
from rag_pipeline_tests.testing.corpora import DOCUMENTS, rule, write_corpus, write_documents
from rag_pipeline_tests.testing.leases import held
from rag_pipeline_tests.testing.model_server import serving

QUESTION = "How expensive may a hotel be?"


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Return a released corpus's file and the bundle of its release; change neither."""
    folder = tmp_path_factory.mktemp("exported")
    file = write_corpus(folder, serve="default")
    for _ in run(load_config(file)):
        pass
    bundle.export(Workspace(load_config(file)), "release-000001", folder / "release.zip")
    return file, folder / "release.zip"


def test_another_machine_serves_what_was_exported(exported, tmp_path, monkeypatch):
    file, _ = exported
    zipped = tmp_path / "carried.zip"
    shown = said("export", "current", zipped, "-c", file)
    assert "release-000001, " in shown
    (there := tmp_path / "there").mkdir()
    monkeypatch.chdir(there)
    shown = said("import-release", zipped)
    assert shown.startswith("wrote tiny.yaml\nserving release-000001 (default)\n")

    here, imported = Corpus.load(file), Corpus.load("tiny.yaml")
    assert imported.search(QUESTION) == here.search(QUESTION)
    where = "json_get_string(metadata, 'suffix') = '.md'"
    assert imported.search(QUESTION, where=where) == here.search(QUESTION, where=where)
    assert imported.document("policy/travel.md") == here.document("policy/travel.md")
    assert imported.release().metrics == here.release().metrics
    assert imported.release().reasons[-1].startswith("imported: release-000001, made ")

    # A second import is a release of its own, and the first can be rolled back to.
    shown = said("import-release", zipped)
    assert shown.startswith("serving release-000001, here release-000002 (default)\n")
    assert [r.release_id for r in imported.releases()] == ["release-000002", "release-000001"]
    assert imported.roll_back().release_id == "release-000001"
    assert imported.search(QUESTION) == here.search(QUESTION)


def test_a_bundle_carries_the_variants_that_it_refers_to(tmp_path, run_all, monkeypatch):
    with serving() as server:
        file = write_corpus(
            tmp_path,
            chats={"small": {"provider": "openai", "model": "m", "base_url": server.url}},
            chunkings={"semantic": {"method": "semantic", "embedding": "sentences"}},
            contextualizers={"llm": {"method": "llm", "chat": "small"}},
            embeddings={name: {"provider": "minilm"} for name in ("minilm", "sentences")},
            configurations=[
                rule("default", chunking="semantic", contextualizer="llm", retriever="dense")
            ],
        )
        run_all(file)
    bundle.export(Workspace(load_config(file)), "release-000001", tmp_path / "carried.zip")
    (there := tmp_path / "there").mkdir()
    monkeypatch.chdir(there)
    said("import-release", "../carried.zip", "--trust-endpoints")
    here, imported = Corpus.load(file), Corpus.load("tiny.yaml")
    assert imported.config.chat("small").identity == here.config.chat("small").identity
    assert imported.search(QUESTION) == here.search(QUESTION)


def test_an_old_release_is_exported_unchanged(tmp_path, run_all):
    file = write_corpus(tmp_path, serve="default")
    run_all(file)
    text = DOCUMENTS["policy/travel.md"].replace("180 euros", "250 euros")
    write_documents(tmp_path / "documents", {"policy/travel.md": text})
    run_all(file)
    bundle.export(Workspace(load_config(file)), "release-000001", tmp_path / "old.zip")
    there = Workspace(load_config(file).model_copy(update={"store": str(tmp_path / "there")}))
    assert bundle.import_release(there, tmp_path / "old.zip").pinned.documents_version
    corpus = Corpus(there.config)
    assert "180 euros" in corpus.search(QUESTION, k=1)[0].text
    assert "180 euros" in corpus.document("policy/travel.md").text


def elsewhere(exported, folder):
    """Return an empty store of the same corpus."""
    config = load_config(exported[0])
    return Workspace(config.model_copy(update={"store": str(folder / "there")}))


def test_an_import_waits_for_a_run(exported, tmp_path):
    other = write_corpus(tmp_path)
    told = []
    with held(other) as holder:

        def waiting(said):
            told.append(said)
            holder.stdin.close()

        bundle.import_release(Workspace(load_config(other)), exported[1], waiting)
        assert f"process {holder.pid}" in told[0]


def test_an_interrupted_import_is_repeated(exported, tmp_path, monkeypatch):
    workspace = elsewhere(exported, tmp_path)

    def stopped(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(bundle, "maintain", stopped)
    with pytest.raises(KeyboardInterrupt):
        bundle.import_release(workspace, exported[1])
    monkeypatch.undo()
    assert workspace.store.tables()
    assert bundle.import_release(workspace, exported[1]).release_id == "release-000001"


def test_an_import_keeps_a_release_made_meanwhile(exported, tmp_path, monkeypatch):
    workspace = elsewhere(exported, tmp_path)
    bundle.import_release(workspace, exported[1])
    hashed = manifest.hash_files

    def beside(*arguments):
        monkeypatch.undo()
        publishing.serve_imported(workspace, replace(made, configuration="other"), None)
        return hashed(*arguments)

    made = manifest.current(workspace)
    monkeypatch.setattr(publishing, "hash_files", beside)
    with pytest.raises(StoreError, match="changed the served release; import again"):
        publishing.serve_imported(workspace, made, None)
    served = manifest.current(workspace)
    assert (served.release_id, served.configuration) == ("release-000002", "other")
    assert "release-000002" in workspace.store.table(made.pinned.vector_table, None).pins()


def test_a_store_with_its_own_builds_is_refused(exported):
    file, zipped = exported
    refused = pytest.raises(StoreError, match="has its own builds; import into another store")
    with held(file), refused:  # nobody waits for a refusal
        bundle.import_release(Workspace(load_config(file)), zipped)


def test_an_existing_file_is_not_overwritten(exported):
    file, zipped = exported
    with pytest.raises(InputError, match=r"release\.zip exists already"):
        bundle.export(Workspace(load_config(file)), "release-000001", zipped)


def rewritten(zipped: Path, target: Path, change) -> Path:
    """Copy a bundle, with its listing and its files changed."""
    with zipfile.ZipFile(zipped) as source:
        files = {name: source.read(name) for name in source.namelist()}
    listing = json.loads(files.pop("bundle.json"))
    change(listing, files)
    with zipfile.ZipFile(target, "w") as out:
        out.writestr("bundle.json", json.dumps(listing))
        for name, content in files.items():
            out.writestr(name, content)
    return target


def listed(name):
    def change(listing, files):
        listing["files"] = {**listing["files"], name: listing["files"]["documents.arrow"]}
        files[name] = files["documents.arrow"]

    return change


def given(value, *place):
    """Return a change of one value of the listing."""

    def change(listing, _):
        for key in place[:-1]:
            listing = listing[key]
        listing[place[-1]] = value

    return change


def altered(listing, files):
    content = bytearray(files["vectors.arrow"])
    content[len(content) // 2] ^= 1
    files["vectors.arrow"] = bytes(content)


PINNED = ("release", "pinned")


def replaced(listing, files, name, content):
    """Replace a file of the bundle, with its right size and hash."""
    files[name] = content
    digest = hashlib.sha256(content).hexdigest()
    listing["files"][name] = {"bytes": len(content), "sha256": digest}


def of_content(content, name="vectors.arrow"):
    """Return a change of a whole file."""
    return lambda listing, files: replaced(listing, files, name, content)


def of_some_rows(name, *rows):
    """Return a change that keeps a slice of a file's rows."""

    def change(listing, files):
        stored = pa.ipc.open_stream(files[name]).read_all()
        replaced(listing, files, name, stream_of(stored.slice(*rows)))

    return change


def of_growing_rows(listing, files):
    rows = pa.ipc.open_stream(files["documents.arrow"]).read_all()
    texts = pa.array(["0" * 5_000_000] * len(rows))
    at = rows.column_names.index("text")
    rows = rows.set_column(at, rows.schema.field("text"), texts)
    replaced(listing, files, "documents.arrow", stream_of(rows))


def of_a_column(file, name, value):
    """Return a change of a column of a file to one value."""

    def change(listing, files):
        rows = pa.ipc.open_stream(files[file]).read_all()
        at, field = rows.column_names.index(name), rows.schema.field(name)
        values = pa.array([value] * len(rows), getattr(field.type, "storage_type", field.type))
        if field.type == pa.json_(pa.utf8()):
            values = pa.ExtensionArray.from_storage(field.type, values)
        replaced(listing, files, file, stream_of(rows.set_column(at, field, values)))

    return change


def of_postings_outside(listing, files):
    name = "lexical/indices.csc.index.npy"
    rows = np.load(io.BytesIO(files[name])) + 1_000_000
    np.save(sink := io.BytesIO(), rows)
    replaced(listing, files, name, sink.getvalue())
    parts = json.loads(files["lexical/FILES.json"])
    parts[name.removeprefix("lexical/")] = listing["files"][name]
    replaced(listing, files, "lexical/FILES.json", json.dumps(parts).encode())


def of_a_torn_index(listing, files):
    name = next(name for name in files if name.startswith("lexical/") and "chunks" in name)
    replaced(listing, files, name, b"{}")


def of_a_variable(listing, files):
    listing["release"]["settings"]["embedding"]["note"] = "x\" {{ env('HOME') }}"


def stream_of(rows):
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, rows.schema, options=options) as out:
        out.write_table(rows)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (listed("../../outside.txt"), r"lists '\.\./\.\./outside\.txt', which is not a safe name"),
        (listed("/tmp/outside.txt"), "lists '/tmp/outside.txt', which is not a safe name"),
        (
            given("../../outside", *PINNED, "vector_table"),
            r"names '\.\./\.\./outside', which is not a safe name",
        ),
        (
            given("lexical/../../../outside", *PINNED, "lexical_path"),
            r"names 'lexical/\.\./.*', which is not a safe name",
        ),
        (
            given("releases", *PINNED, "lexical_path"),
            "'releases' is not the path of a BM25 index",
        ),
        (
            lambda _, files: files.update({"vectors.arrow": files["vectors.arrow"] + b"more"}),
            r"the size of vectors\.arrow differs from bundle\.json",
        ),
        (
            given(10**18, "files", "vectors.arrow", "bytes"),
            r"the size of vectors\.arrow differs from bundle\.json",
        ),
        (altered, r"vectors\.arrow is incomplete or altered: its hash differs"),
        (lambda _, files: files.pop("vectors.arrow"), r"not a release bundle: .*vectors\.arrow"),
        (given(9, "format"), "bundle format 9, this version reads 2"),
        (given(9, "release", "format"), "manifest format 9, this version reads 2"),
        (given("other", "corpus"), "belongs to corpus 'other', not 'tiny'"),
        (given({}, "release", "settings"), r"settings\.chunking: Field required"),
        (given("s3://elsewhere", "named", "store"), "it has settings of: store"),
        (given([], "named"), "not a release bundle"),
        (given({}, "release", "settings", "names"), "not a release bundle: 'chunking'"),
        (given(5, "release", "configuration"), "not a manifest .configuration: "),
        (given(3, "release", "unknown"), "not a manifest .unknown: "),
        (given(3, *PINNED, "unknown"), "not a manifest .pinned.unknown: "),
        (given(None, "release", "created"), "not a manifest .created: "),
        (given([], *PINNED, "lexical_path"), "not a manifest .pinned.lexical_path: "),
        (given(None, *PINNED, "lexical_path"), "None is not the path of a BM25 index"),
        (of_content(random.Random(0).randbytes(50_000)), "not a release bundle"),
        (of_content(bytes(3_000_000)), "not a release bundle"),
        (of_content(stream_of(pa.table({"text": ["b"]}))), "not a release bundle"),
        (
            of_some_rows("vectors.arrow", 1),
            r"\.arrow has \d+ rows, but the manifest has \d+",
        ),
        (of_growing_rows, r"documents\.arrow grows to more than 100 times its size"),
        (of_some_rows("documents.arrow", 0, 1), r"documents\.arrow lacks 'nda/"),
        (of_a_column("vectors.arrow", "end", 10**9), "is not the id of its chunk"),
        (of_a_column("vectors.arrow", "text", "other"), "the text differs from the document"),
        (of_a_column("vectors.arrow", "metadata", "[" * 9_999 + "]" * 9_999), "recursion depth"),
        (of_a_column("vectors.arrow", "metadata", '{"a": {"b": 1}}'), "are not named values"),
        (of_a_column("vectors.arrow", "vector", [math.inf] * 384), "whose length is not 1"),
        (of_a_column("vectors.arrow", "vector", [0.0] * 384), "whose length is not 1"),
        (of_a_column("documents.arrow", "page_map", b"torn"), "incorrect header check"),
        (of_a_column("documents.arrow", "characters", -1), r"the text has \d+ characters"),
        (of_a_column("documents.arrow", "document_id", "a\u202eb"), "invisible characters"),
        (of_postings_outside, "the arrays of the BM25 index are damaged"),
        (of_content(b"PAR1" + bytes(100) + b"PAR1", "scores.parquet"), "not a release bundle"),
        (of_a_torn_index, "not a release bundle: .*lexical"),
        (of_content(b"a file", "lexical"), "lexical(/.*)? is a file and a folder"),
        (of_a_variable, r"settings contain \{\{ env\('HOME'\) \}\}, which would read a variable"),
    ],
)
def test_a_damaged_bundle_changes_nothing(exported, tmp_path, change, message):
    bad = rewritten(exported[1], tmp_path / "bad.zip", change)
    with pytest.raises(InputError, match=message):
        bundle.import_release(elsewhere(exported, tmp_path), bad)
    left = [p for p in tmp_path.rglob("*") if p.is_file() and p != bad]
    assert [p.name for p in left if p.stat().st_size] == [], "the lease's file holds nothing"


def test_a_compressed_bundle_is_refused(exported, tmp_path):
    with zipfile.ZipFile(exported[1]) as source, zipfile.ZipFile(tmp_path / "z.zip", "w") as out:
        for name in source.namelist():
            out.writestr(name, source.read(name), zipfile.ZIP_DEFLATED)
    with pytest.raises(InputError, match="is compressed, but bundles are not"):
        bundle.import_release(elsewhere(exported, tmp_path), tmp_path / "z.zip")


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_bundle_with_one_wrong_bit_is_refused_or_read_correctly(exported, tmp_path, monkeypatch):
    file, zipped = exported
    workspace = elsewhere(exported, tmp_path)
    bundle.import_release(workspace, zipped)
    before = contents(tmp_path / "there")
    taken = []

    def write_builds(_, listing, folder, file):
        taken.append((listing, contents(folder)))

    monkeypatch.setattr(bundle, "_write_builds", write_builds)
    bundle.import_release(workspace, zipped)
    raw = zipped.read_bytes()
    with zipfile.ZipFile(zipped) as archive:
        end = archive.start_dir  # the end of the files and the start of the central directory
        heads = [entry.header_offset + n for entry in archive.infolist() for n in range(0, 30, 5)]
    bad, refused = tmp_path / "bad.zip", 0
    first, rest, last = (end, end + 57), (end, len(raw), 7), (len(raw) - 22, len(raw))
    for place in [*heads, *range(0, end, 1009), *range(*first), *range(*rest), *range(*last)]:
        bad.write_bytes(raw[:place] + bytes([raw[place] ^ 1 << place % 8]) + raw[place + 1 :])
        try:
            bundle.import_release(workspace, bad)
        except InputError as error:
            assert str(error).startswith(f"{bad}: ")
            refused += 1
    assert refused > 150
    assert all(one == taken[0] for one in taken), "names and contents, from whatever was accepted"
    assert contents(tmp_path / "there") == before
    monkeypatch.undo()
    assert Corpus(workspace.config).search(QUESTION) == Corpus.load(file).search(QUESTION)


def test_another_kind_of_file_is_named(exported, tmp_path):
    (tmp_path / "notes.zip").write_text("notes")
    with pytest.raises(InputError, match=r"notes\.zip: not a release bundle"):
        bundle.import_release(elsewhere(exported, tmp_path), tmp_path / "notes.zip")
