"""Builds that are killed, and searches while a build runs."""

import signal
import threading

import pytest

from rag_pipeline import Corpus
from rag_pipeline_tests.testing.corpora import (
    copy_corpus,
    many_documents,
    write_documents,
    write_only,
)
from rag_pipeline_tests.testing.killed_runs import (
    PLACES,
    Log,
    built_alone,
    differences,
    start,
    start_together,
)


def builds_seen(corpus: Corpus) -> set[str]:
    found = corpus.search("notice of a data breach", k=30)
    return {chunk.text[:7] for chunk in found if chunk.text.startswith("build")}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    return built_alone(write_only(folder, many_documents(12, "build 1")))


def assert_as_undisturbed(file, log, undisturbed):
    assert differences(file, log, undisturbed) == []
    assert Corpus.load(file).search("notice of a data breach", k=1)


@pytest.mark.long
def test_a_build_killed_in_every_part_of_it_ends_as_if_nothing_had_happened(tmp_path, undisturbed):
    documents = many_documents(12, "build 1")
    added = documents.popitem()
    file, log = write_only(tmp_path, documents), tmp_path / "killed.log"
    for place, times in PLACES:
        assert start(file, log, place, times).wait() == -signal.SIGKILL, f"{place} not reached"
        write_documents(tmp_path / "documents", dict([added]))  # for BM25 to be built anew
    assert start(file, log).wait() == 0
    seen = Log.read(log)
    assert [place for place, _ in seen.kills] == [place for place, _ in PLACES]
    assert all(batches for _, batches in seen.kills), "a kill before the first batch"
    assert_as_undisturbed(file, seen, undisturbed)


@pytest.mark.long
def test_runs_at_once_of_which_some_are_killed_end_as_one_that_is_alone(tmp_path, undisturbed):
    file, log = write_only(tmp_path, many_documents(12, "build 1")), tmp_path / "calls.log"
    children = start_together(file, log, [("batch", 2)] * 3)
    codes = [child.wait() for child in children]
    # There are more batches than the three could do with one each.
    assert -signal.SIGKILL in codes
    assert set(codes) <= {0, -signal.SIGKILL}, (tmp_path / "calls.err").read_text()
    assert start(file, log).wait() == 0
    assert_as_undisturbed(file, Log.read(log), undisturbed)


def test_searches_during_a_rebuild_never_fail_and_see_one_build(tmp_path, undisturbed):
    file, log = write_only(tmp_path, many_documents(12, "build 1")), tmp_path / "log"
    copy_corpus(undisturbed.file.parent / "store", tmp_path / "store")
    corpus = Corpus.load(file)
    write_documents(tmp_path / "documents", many_documents(12, "build 2"))

    seen: list[set[str]] = []
    done = threading.Event()

    def search() -> None:
        while not done.wait(0.1):  # the build needs some of the time too
            seen.append(builds_seen(corpus))

    searchers = [threading.Thread(target=search) for _ in range(2)]
    errors: list[object] = []
    threading.excepthook = lambda failure: errors.append(failure.exc_value)
    child = start(file, log)
    for searcher in searchers:
        searcher.start()
    assert child.wait() == 0
    done.set()
    for searcher in searchers:
        searcher.join()
    threading.excepthook = threading.__excepthook__
    assert errors == []
    assert all(len(builds) <= 1 for builds in seen), "a search saw two builds"
    assert {"build 1"} in seen
    corpus.reopen()
    assert builds_seen(corpus) == {"build 2"}
