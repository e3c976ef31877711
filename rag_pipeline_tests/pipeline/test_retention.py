import os
import sqlite3
import time
from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.bench_cycles import cycles, edit, reindex, write_cycling
from rag_pipeline import Corpus, indexing, release
from rag_pipeline.config import load_config
from rag_pipeline.errors import NotReleasedError
from rag_pipeline.pipeline import retention
from rag_pipeline.pipeline.dry_run import needed_calls
from rag_pipeline.pipeline.planning import plan_step, steps
from rag_pipeline.release import publishing
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import copy_corpus, rule, write_corpus, write_file


@pytest.mark.long
def test_a_store_stays_level_over_re_index_cycles(tmp_path):
    measured = list(cycles(tmp_path, 9, documents=20))
    # Fragments gather over some cycles before they are compacted: halves, not single cycles.
    early, late = measured[2:6], measured[6:]
    assert max(c.bytes for c in late) < 1.25 * max(c.bytes for c in early)
    assert max(c.files for c in late) < 1.25 * max(c.files for c in early)
    assert measured[-1].versions == measured[5].versions
    # What other threads have open comes and goes; one that is left open in each cycle adds up.
    fewest_early, fewest_late = (min(c.handles for c in part) for part in (early, late))
    assert fewest_late - fewest_early < len(early)
    assert {c.releases for c in measured[5:]} == {4}, "3 kept, and the newest made after"
    workspace = Workspace(load_config(tmp_path / "cycling.yaml"))
    forget_uses(workspace)
    retention.collect(workspace)
    assert len(release.names(workspace)) == 3
    # 20 documents, a chunk each, and one question: answers for earlier texts are gone, for
    # these there are all.
    assert len(workspace.cache) == 21
    assert Corpus(workspace.config).search("fee of contract 14", k=1)[0].text.startswith("Contract")
    assert retention.collect(workspace) == []


def test_what_steps_of_failed_runs_handed_on_goes_in_time(workspace):
    store = workspace.store
    for run_id, days in (("failed", 8), ("at-work", 0)):
        store.write_json(f"steps/{run_id}/plan.json", ["a.txt"])
        path = f"{store.url}/{store.corpus}/steps/{run_id}"
        for place in (path, f"{path}/plan.json"):
            os.utime(place, (time.time() - days * 86_400,) * 2)
    freed = retention.sweep(workspace)
    assert [(f.what, f.name) for f in freed] == [("step values", "failed")]
    assert store.list("steps") == ["at-work"]


def test_nothing_that_is_needed_is_freed(tmp_path, run_all):
    kept = {"keep_releases": 1, "keep_days": 0, "version_hours": 0, "calls_days": 0}
    semantic = {"semantic": {"method": "semantic", "min_characters": 20, "max_characters": 120}}
    file = write_corpus(
        tmp_path,
        retention=kept,
        chunkings=semantic,
        configurations=[{"chunking": "semantic", "embedding": "minilm", "retriever": "hybrid"}],
    )
    run_all(file)
    workspace = Workspace(load_config(file))
    forget_uses(workspace)
    needed = set(needed_calls(workspace))
    freed = retention.collect(workspace)
    # Of the sentences that answers were chosen from, those that `semantic` never saw.
    assert {(f.what, f.why) for f in freed} <= {("calls", "long unused and not needed")}
    assert workspace.cache.known(list(needed)) == needed, "sentences, chunks and questions"
    assert retention.collect(workspace) == []
    assert not any(plan_step(workspace, step).must_run for step in steps(workspace.config))
    assert Corpus(workspace.config).search("How expensive may a hotel be?")


def forget_uses(workspace):
    """Make all answers unused: their times are whole seconds, and tests are fast."""
    with sqlite3.connect(workspace.store.calls_path) as connection:
        connection.execute("UPDATE rag_answers SET used = 0")


@pytest.fixture
def shrunk(tmp_path, run_all):
    """Return a workspace whose file has lost the configuration `plain` and its contextualizer."""
    run_all(write_corpus(tmp_path, serve="default"))
    one = rule("default", contextualizer="structural", retriever="hybrid")

    def shrink(**kept):
        return Workspace(
            load_config(
                write_file(
                    tmp_path,
                    contextualizers={"structural": {"method": "structural"}},
                    configurations=[one],
                    retention=kept,
                )
            )
        )

    return shrink


def test_what_left_the_corpus_file_waits_and_then_goes(shrunk):
    waiting = shrunk()
    told = retention.collect(waiting, dry_run=True)
    days = waiting.config.retention.keep_days
    removal = f"{datetime.now(UTC) + timedelta(days):%Y-%m-%d}"
    assert {t.kept_until[:10] for t in told if t.what == "table"} == {removal}
    assert {t.what for t in retention.collect(waiting)} <= {"pin"}
    due = shrunk(keep_days=0)
    said = retention.collect(due, dry_run=True)
    freed = retention.collect(due)
    assert {(t.what, t.name) for t in said} == {(t.what, t.name) for t in freed}
    names = {t.name for t in freed if t.what == "table"}
    assert names == {
        "contextualized_chunks.recursive_150.none",
        "vector_index.recursive_150.none.minilm",
    }
    assert "evaluation/retrieval_run/plain.parquet" in {t.name for t in freed}
    assert due.store.tables() == [
        "chunks.recursive_150",
        "contextualized_chunks.recursive_150.structural",
        "documents",
        "quarantine.documents",
        "vector_index.recursive_150.structural.minilm",
    ]
    assert Corpus(due.config).search("How expensive may a hotel be?")


@pytest.mark.parametrize(
    ("name", "orphaned"),
    [
        ("documents", False),
        ("quarantine.documents", False),
        ("chunks.recursive_150", False),
        ("chunks.gone", True),
        ("quarantine.chunks.gone", True),
        ("vector_index.recursive_150.gone.minilm", True),
        ("vector_index.a.b", False),
        ("chunks", False),
        ("answers.gone", False),  # a file, not a table
        ("strangers.a", False),
    ],
)
def test_a_table_of_a_variant_that_the_file_lacks_is_orphaned(tmp_path, name, orphaned):
    assert retention._is_orphaned(Workspace(load_config(write_corpus(tmp_path))), name) == orphaned


def test_a_table_that_a_release_pins_outlives_its_variant(tmp_path, run_all, shrunk):
    workspace = shrunk(keep_days=0)
    pinned = release.current(workspace).pinned.vector_table
    file = write_file(tmp_path, serve="plain", retention={"keep_days": 0})
    run_all(file)  # a newer release of another table
    again = shrunk(keep_days=0)
    served = release.current(again).pinned.vector_table
    assert served != pinned
    assert not retention._is_orphaned(again, pinned) and retention._is_orphaned(again, served)
    retention.collect(again)
    assert served in again.store.tables()
    assert Corpus(again.config).search("How expensive may a hotel be?")


def test_releases_that_are_forgotten_take_their_pins_and_scores_along(tmp_path):
    workspace = Workspace(load_config(write_cycling(tmp_path, 5)))
    for cycle in range(5):
        edit(tmp_path, 0, cycle)
        reindex(workspace)
    publishing.roll_back(workspace, "release-000002")
    retention.collect(workspace)
    kept = [f"release-{n:06d}" for n in (2, 3, 4, 5)]  # the served release, and the 3 newest
    served = release.current(workspace)
    assert (served.release_id, release.names(workspace)) == ("release-000002", kept)
    table = workspace.vector_index("fixed.none.minilm")
    assert sorted(table.pins()) == [*kept, "run-one"]
    assert workspace.store.list("released_scores") == [f"{name}.parquet" for name in kept]
    assert "is 1 euros" in Corpus(workspace.config).search("fee of contract 0", k=1)[0].text


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Return a folder with a corpus of three releases; change it nowhere but in a copy."""
    folder = tmp_path_factory.mktemp("built")
    workspace = Workspace(load_config(write_cycling(folder, 3)))
    for cycle in range(3):
        edit(folder, 0, cycle)
        reindex(workspace)
    return folder


@pytest.fixture
def three_releases(template, tmp_path):
    copy_corpus(template, tmp_path)
    return Workspace(load_config(tmp_path / "cycling.yaml"))


def test_a_release_that_is_served_again_while_it_is_forgotten_stays(three_releases, monkeypatch):
    workspace = three_releases
    old = release.load(workspace, "release-000001")
    remove = workspace.store.remove_file

    def rolled_back_before(path):
        monkeypatch.undo()
        publishing.roll_back(workspace, "release-000001")
        remove(path)

    monkeypatch.setattr(workspace.store, "remove_file", rolled_back_before)
    assert not publishing.forget(workspace, old)
    assert release.current(workspace) == old
    assert "is 0 euros" in Corpus(workspace.config).search("fee of contract 0", k=1)[0].text


def test_a_release_that_is_forgotten_while_it_is_rolled_back_to_is_not_served(
    three_releases, monkeypatch
):
    workspace = three_releases
    old = release.load(workspace, "release-000001")
    write = workspace.store.write_json_if

    def forgotten_before(*arguments):
        monkeypatch.undo()
        assert publishing.forget(workspace, old)
        return write(*arguments)

    monkeypatch.setattr(workspace.store, "write_json_if", forgotten_before)
    with pytest.raises(NotReleasedError, match="no release 'release-000001'"):
        publishing.roll_back(workspace, "release-000001")
    assert release.current(workspace).release_id == "release-000003"


def test_a_pin_of_a_release_that_is_being_made_stays(three_releases):
    table = three_releases.vector_index("fixed.none.minilm")
    table.pin("release-000004", table.version)
    retention.collect(three_releases)
    assert "release-000004" in table.pins()


def test_the_remains_of_a_killed_build_go_after_a_day(tmp_path):
    workspace = Workspace(load_config(write_cycling(tmp_path, 3)))
    indexing.update_documents(workspace)
    young = workspace.store.files.new_folder("lexical/fixed.none/x")
    old = workspace.store.files.new_folder("lexical/fixed.none/y")
    os.utime(old, (time.time() - 90_000,) * 2)
    (freed,) = [t for t in retention.collect(workspace) if t.what == "leftover"]
    assert freed.name == f"lexical/fixed.none/{old.name}"
    assert young.is_dir() and not old.exists()
