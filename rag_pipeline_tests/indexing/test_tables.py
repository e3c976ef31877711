import json
from contextlib import contextmanager

import pytest

from rag_pipeline import indexing
from rag_pipeline.config import load_config
from rag_pipeline.indexing import lexical, tables
from rag_pipeline.search.lexical_index import build_lexical_index, open_lexical_index
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import index
from rag_pipeline_tests.testing.corpora import DOCUMENTS, write_corpus, write_documents, write_file
from rag_pipeline_tests.testing.model_faults import Fault
from rag_pipeline_tests.testing.model_replies import DIMENSION
from rag_pipeline_tests.testing.model_server import serving


def rows(table):
    return [row for batch in table.read(table.schema.names[:6]) for row in batch.to_pylist()]


def test_documents_that_cannot_be_used_are_kept_apart_with_the_reason(tmp_path, workspace):
    (tmp_path / "documents/broken.txt").write_bytes(b"caf\xe9")
    (tmp_path / "documents/empty.md").write_bytes(b" \n")
    report = indexing.update_documents(workspace)
    assert report.documents == 4
    assert set(report.quarantined) == {"broken.txt", "empty.md"}
    assert set(workspace.documents().state()) == set(DOCUMENTS)
    assert indexing.plan_documents(workspace).is_current, "a known bad file is not tried again"

    (tmp_path / "documents/broken.txt").write_text("now it is fine")
    assert indexing.plan_documents(workspace).stale == ("broken.txt",)
    indexing.update_documents(workspace)
    assert "broken.txt" in workspace.documents().state()
    assert set(workspace.quarantine("documents").state()) == {"empty.md"}

    (tmp_path / "documents/broken.txt").write_bytes(b"caf\xe9")
    indexing.update_documents(workspace)
    assert "broken.txt" not in workspace.documents().state()


def test_stages_wait_for_the_stage_before_them(tmp_path, workspace):
    index(workspace, "recursive_150")
    chunkings = {"recursive_150": {"method": "recursive", "max_characters": 80}}
    changed = Workspace(load_config(write_file(tmp_path, chunkings=chunkings)))
    partition = indexing.open_partition(changed, "contextualized_chunks", "recursive_150.none")
    plan = indexing.plan(partition)
    assert (plan.stale, plan.waiting) == ((), 4)
    indexing.update(changed, "contextualized_chunks", "recursive_150.none")
    assert changed.contextualized_chunks("recursive_150.none").count() == 0


def test_shards_are_bounded_and_a_failed_one_is_done_alone(tmp_path, workspace, monkeypatch):
    monkeypatch.setattr(tables, "MAX_SHARD_DOCUMENTS", 1)
    indexing.update_documents(workspace)
    partition = indexing.open_partition(workspace, "chunks", "recursive_150")
    shards = indexing.plan(partition).shards
    assert shards == tuple((name,) for name in sorted(DOCUMENTS))
    for shard in shards[:3]:
        indexing.build_shard(partition, shard)
    assert indexing.plan(partition).shards == shards[3:]


def test_a_document_that_cannot_be_chunked_is_quarantined_and_the_rest_goes_on(tmp_path):
    file = write_corpus(tmp_path, chunkings={"recursive_150": {"method": "given"}})
    spans = [
        {"document_id": "nda/acme.txt", "start": 0, "end": 40},
        {"document_id": "policy/leave.md", "start": 0, "end": 10_000},
    ]
    (tmp_path / "chunks.jsonl").write_text("\n".join(json.dumps(span) for span in spans))
    workspace = Workspace(load_config(file))
    report = index(workspace, "recursive_150")
    assert list(report.quarantined) == ["policy/leave.md"]
    assert set(workspace.chunks("recursive_150").state()) == {"nda/acme.txt"}
    plan = indexing.plan(indexing.open_partition(workspace, "chunks", "recursive_150"))
    assert plan.is_current, "documents without given chunks are not part of this chunking"


def test_a_lexical_index_is_built_once_per_content(workspace):
    key = "recursive_150.structural"
    index(workspace, key)
    assert indexing.plan_lexical(workspace, key) == ["bm25s"]
    built = indexing.update_lexical(workspace, key)
    assert built.rows == workspace.contextualized_chunks(key).count()
    assert indexing.plan_lexical(workspace, key) == []
    assert indexing.update_lexical(workspace, key).rows == 0


def test_after_an_edit_a_lexical_index_reads_the_edited_documents_alone(
    tmp_path, workspace, monkeypatch
):
    key = "recursive_150.structural"
    read = []

    def bring_up_to_date():
        index(workspace, key)
        indexing.update_lexical(workspace, key)
        path = workspace.store.local_folder(workspace.lexical_path(key, "bm25s"))
        return open_lexical_index(path)

    def noting(engine, batches, settings, folder, earlier=None):
        kept = [batch for batch in batches if batch.num_rows]
        read.append({i for batch in kept for i in batch.column("document_id").to_pylist()})
        return build_lexical_index(engine, kept, settings, folder, earlier)

    monkeypatch.setattr(lexical, "build_lexical_index", noting)
    bring_up_to_date()
    write_documents(tmp_path / "documents", {"new.txt": "A zeppelin is leased by the parties."})
    (tmp_path / "documents/nda/acme.txt").write_text("Nothing is agreed but a zeppelin.")
    (tmp_path / "documents/policy/leave.md").unlink()
    grown = bring_up_to_date()
    assert read == [set(DOCUMENTS), {"new.txt", "nda/acme.txt"}]
    found = {chunk_id.partition("#")[0] for chunk_id, _ in grown.search("zeppelin", 9)}
    assert found == {"new.txt", "nda/acme.txt"}
    stored = workspace.contextualized_chunks(key).open().to_arrow().column("chunk_id").to_pylist()
    assert sorted(grown.chunk_ids.to_pylist()) == sorted(stored)


@contextmanager
def refusing(text, tmp_path, monkeypatch, **chunkings):
    """Serve an embedding that fails on texts with a text; yield the server and a corpus of it."""
    monkeypatch.setattr("rag_pipeline.calls.endpoint._FIRST_BACKOFF", 0.01)

    def faults(path, body):
        return Fault(500) if any(text in sent for sent in body["input"]) else None

    with serving(faults=faults) as server:
        remote: dict[str, object] = {"provider": "openai", "model": "m", "base_url": server.url}
        remote |= {"dimensions": DIMENSION, "patience_seconds": 0.3}
        (chunking,) = chunkings or ["markdown"]
        configuration = {"chunking": chunking, "contextualizer": "none", "embedding": "remote"}
        file = write_corpus(
            tmp_path,
            embeddings={"remote": remote},
            configurations=[{"name": "default", **configuration, "retriever": "dense"}],
            **({"chunkings": chunkings} if chunkings else {}),
        )
        yield server, Workspace(load_config(file))


def test_a_document_that_cannot_be_embedded_is_named_and_the_rest_goes_on(tmp_path, monkeypatch):
    with refusing("180 euros", tmp_path, monkeypatch) as (server, workspace):
        for _ in range(2):
            report = index(workspace, "markdown.none.remote")
            assert set(report.failed) == {"policy/travel.md"}
            assert "HTTP 500" in report.failed["policy/travel.md"]
        partition = indexing.open_partition(workspace, "vector_index", "markdown.none.remote")
        assert set(partition.table.state()) == set(DOCUMENTS) - {"policy/travel.md"}
        assert indexing.plan(partition).stale == ("policy/travel.md",)
        assert max(server.billed.values()) == 1


def test_a_document_whose_sentences_cannot_be_embedded_is_named_and_the_others_are_cut(
    tmp_path, monkeypatch
):
    semantic = {"method": "semantic", "embedding": "remote", "window": 0}
    with refusing("180 euros", tmp_path, monkeypatch, semantic=semantic) as (_, workspace):
        report = index(workspace, "semantic")
        assert set(report.failed) == {"policy/travel.md"}
        assert set(workspace.chunks("semantic").state()) == set(DOCUMENTS) - {"policy/travel.md"}
        plan = indexing.plan(indexing.open_partition(workspace, "chunks", "semantic"))
        sizes = {name: len(text) for name, text in DOCUMENTS.items()}
        share = sizes["policy/travel.md"] / sum(sizes.values())
        assert plan.missing_share == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize("others_are_built", [True, False])
def test_an_old_text_is_dropped_when_its_document_is_to_blame_and_not_the_model(
    tmp_path, monkeypatch, others_are_built
):
    """A model that fails on all that it is asked may be down: nothing is lost by its outage."""
    changed = {"policy/travel.md": DOCUMENTS["policy/travel.md"].replace("180 e", "190 e")}
    if others_are_built:
        changed["policy/leave.md"] = DOCUMENTS["policy/leave.md"].replace("sixteen", "twenty")

    with refusing("190 euros", tmp_path, monkeypatch) as (_, workspace):

        def update():
            report = index(workspace, "markdown.none.remote")
            partition = indexing.open_partition(workspace, "vector_index", "markdown.none.remote")
            return report.failed, set(partition.table.state()), indexing.plan(partition)

        assert update()[:2] == ({}, set(DOCUMENTS))
        write_documents(tmp_path / "documents", changed)
        failed, built, plan = update()
        assert set(failed) == {"policy/travel.md"}
        if not others_are_built:
            assert built == set(DOCUMENTS)
            assert not plan.is_usable, "what is served has the old text, and all of it"
            failed, built, plan = update()
            assert set(failed) == {"policy/travel.md"}, "again, so it is the document"
        assert built == set(DOCUMENTS) - {"policy/travel.md"}
        assert plan.missing == plan.stale == ("policy/travel.md",)
        assert plan.is_usable
