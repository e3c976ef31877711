"""Two loads, runs or releases of one corpus at the same time."""

import pytest

from rag_pipeline import indexing
from rag_pipeline.config import load_config
from rag_pipeline.errors import BusyError, CheckFailedError
from rag_pipeline.indexing import loads as loading
from rag_pipeline.pipeline.inspection import inspect
from rag_pipeline.release import candidate, publishing
from rag_pipeline.store.lease import lease
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.command_line import rag
from rag_pipeline_tests.testing.corpora import DOCUMENTS, write_documents, write_file
from rag_pipeline_tests.testing.leases import held


@pytest.fixture
def holder(corpus_file):
    """Return a process that holds the corpus's lease until its input ends."""
    with held(corpus_file) as child:
        yield child


@pytest.fixture
def beside(monkeypatch):
    """Return what lets another run once, when a function has returned and before that is used."""
    waiting = []

    def let(module, name, other):
        original = getattr(module, name)

        def both(*arguments, **named):
            result = original(*arguments, **named)
            monkeypatch.setattr(module, name, original)
            waiting.remove(name)
            other()
            return result

        monkeypatch.setattr(module, name, both)
        waiting.append(name)

    yield let
    assert not waiting, "nothing came between"


def test_two_loads_at_once_load_each_document_once(config, beside):
    def other():
        indexing.update_documents(Workspace(config))

    beside(loading, "compare", other)
    workspace = Workspace(config)
    indexing.update_documents(workspace)
    assert workspace.documents().count() == len(DOCUMENTS)
    assert inspect(workspace) == []


def test_two_loads_at_once_refuse_a_document_once(tmp_path, config, beside):
    (tmp_path / "documents/broken.txt").write_bytes(b"caf\xe9")
    beside(loading, "compare", lambda: indexing.update_documents(Workspace(config)))
    workspace = Workspace(config)
    indexing.update_documents(workspace)
    assert workspace.quarantine("documents").count() == 1


@pytest.mark.parametrize("name", ["documents", "vector_index.recursive_150.none.minilm"])
def test_rows_that_are_there_twice_are_found_and_mended(config, name):
    list(run(config, "plain"))
    workspace = Workspace(config)
    table = workspace.store.table(name, None)
    once = table.count()
    table.open().add(table.open().to_arrow())
    found = inspect(Workspace(config))
    assert any(f.place == name and "duplicate rows" in f.problem for f in found)
    for finding in found:
        finding.mend()
    list(run(config, "plain"))
    assert table.count() == once
    assert inspect(Workspace(config)) == []


def test_the_next_load_mends_documents_that_are_there_twice(config):
    workspace = Workspace(config)
    indexing.update_documents(workspace)
    table = workspace.documents()
    table.open().add(table.open().to_arrow())
    assert len(indexing.plan_documents(workspace).stale) == len(DOCUMENTS)
    indexing.update_documents(workspace)
    assert table.count() == len(DOCUMENTS)


def test_a_release_pins_the_documents_that_its_chunks_were_made_from(tmp_path, config, beside):
    results = run(config, "plain")
    for result in results:
        if result.step.asset == "leaderboard":
            break
    workspace = Workspace(config)

    def load_an_edit():
        write_documents(tmp_path / "documents", {"policy/travel.md": "# Travel\n\nStay home.\n"})
        indexing.update_documents(Workspace(config))

    beside(publishing, "obstacles", load_an_edit)
    released = publishing.publish(workspace)
    pinned = released.pinned
    texts = {
        d.document_id: d.text
        for d in indexing.read_documents(workspace, list(DOCUMENTS), pinned.documents_version)
    }
    chunks = workspace.store.table(pinned.vector_table, None)
    columns = ["document_id", "start", "end", "text"]
    for batch in chunks.read(columns, version=pinned.vector_version):
        for row in batch.to_pylist():
            assert texts[row["document_id"]][row["start"] : row["end"]] == row["text"]
    assert candidate.obstacles(workspace, config.configuration("plain"))


def test_a_document_edited_while_it_is_loaded_keeps_its_last_good_version(tmp_path, config, beside):
    workspace = Workspace(config)
    indexing.update_documents(workspace)
    name = "policy/leave.md"
    write_documents(tmp_path / "documents", {name: "# Leave\n\nTwenty weeks.\n"})

    def save_again():
        write_documents(tmp_path / "documents", {name: "# Leave\n\nTwenty-one weeks.\n"})

    beside(loading, "compare", save_again)
    report = indexing.update_documents(workspace)
    assert "the earlier version stays" in report.quarantined[name]
    (kept,) = indexing.read_documents(workspace, [name])
    assert kept.text == DOCUMENTS[name]
    assert indexing.plan_documents(workspace).stale == (name,)

    indexing.update_documents(workspace)
    (now,) = indexing.read_documents(workspace, [name])
    assert "Twenty-one" in now.text
    assert workspace.quarantine("documents").count() == 0
    assert indexing.plan_documents(workspace).is_current


def test_an_unread_document_that_is_as_it_was_leaves_quarantine(tmp_path, config, beside):
    workspace = Workspace(config)
    indexing.update_documents(workspace)
    name = "policy/leave.md"
    write_documents(tmp_path / "documents", {name: "# Leave\n\nTwenty weeks.\n"})
    restore = {name: DOCUMENTS[name]}
    beside(loading, "compare", lambda: write_documents(tmp_path / "documents", restore))
    indexing.update_documents(workspace)
    assert workspace.quarantine("documents").count() == 1
    indexing.update_documents(workspace)
    assert workspace.quarantine("documents").count() == 0
    assert indexing.plan_documents(workspace).is_current


def many(tmp_path):
    texts = {f"year/{n:02d}.txt": f"Report number {n} of the year." for n in range(40)}
    write_documents(tmp_path / "documents", texts)
    return [tmp_path / "documents" / name for name in texts]


def test_a_load_that_would_delete_too_much_deletes_nothing_until_it_is_allowed(tmp_path, config):
    paths = many(tmp_path)
    workspace = Workspace(config)
    indexing.update_documents(workspace)
    for path in paths[:11]:
        path.unlink()
    write_documents(tmp_path / "documents", {"new.txt": "Something new."})
    with pytest.raises(CheckFailedError, match=r"11 of 44 loaded documents .* --allow-deletions"):
        indexing.update_documents(workspace)
    assert workspace.documents().count() == 45, "what is new is loaded, and nothing is deleted"

    allowed = write_file(tmp_path, documents={"path": "documents", "max_deleted": 0.25})
    assert indexing.update_documents(Workspace(load_config(allowed))).dropped == 11


def test_up_to_ten_documents_may_always_go(tmp_path, config):
    workspace = Workspace(config)
    indexing.update_documents(workspace)
    for name in list(DOCUMENTS)[1:]:
        (tmp_path / "documents" / name).unlink()
    assert indexing.update_documents(workspace).dropped == len(DOCUMENTS) - 1


def test_the_limit_on_deletions_makes_nothing_anew(tmp_path, config):
    before = indexing.listing_digest(config)
    file = write_file(tmp_path, documents={"path": "documents", "max_deleted": 0.5})
    assert indexing.listing_digest(load_config(file)) == before


def test_a_second_run_says_who_is_at_work(corpus_file, holder):
    done = rag("run", corpus_file)
    assert done.code == 1
    said = " ".join(done.err.split())
    assert f"process {holder.pid} on" in said
    assert "--wait" in said


def test_a_run_may_wait_for_the_one_before_it(config, holder):
    told = []

    def waiting(said):
        told.append(said)
        holder.stdin.close()

    with lease(Workspace(config).store, wait=True, waiting=waiting):
        assert f"process {holder.pid}" in told[0]


def test_a_killed_run_leaves_no_lease(config, holder):
    with pytest.raises(BusyError), lease(Workspace(config).store):
        pass
    holder.kill()
    holder.wait()
    store = Workspace(config).store
    with lease(store), lease(store):  # the steps of a run are in its own process
        pass
