import os
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from rag_pipeline import Corpus
from rag_pipeline import corpus as module
from rag_pipeline.datamodels import Caller, SearchRequest
from rag_pipeline.errors import InputError, NotReleasedError, StoreError
from rag_pipeline.release.candidate import choose, gate_decision
from rag_pipeline.release.manifest import load, pointer
from rag_pipeline.search.pinned import open_builds
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import DOCUMENTS, rule, write_corpus, write_documents


def edit(folder, number):
    text = DOCUMENTS["policy/travel.md"].replace("180 euros", f"{number} euros")
    write_documents(folder / "documents", {"policy/travel.md": text})


def test_nothing_is_served_before_the_first_release(corpus_file):
    corpus = Corpus.load(corpus_file)
    with pytest.raises(NotReleasedError, match="nothing has been released yet; run: rag run"):
        corpus.search("anything")
    with pytest.raises(NotReleasedError):
        corpus.roll_back()
    assert corpus.releases() == []


def priority():
    """Return the priority value of this thread; 0 where threads have none."""
    linux = sys.platform == "linux"
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) if linux else 0


class NeverWaitedFor(Future):
    def result(self, timeout=None):
        raise AssertionError("a search waits for the opening")


def test_after_a_quiet_time_the_first_requests_wait_for_a_new_release(
    tmp_path, built_file, run_all, monkeypatch
):
    monkeypatch.setattr(module, "_LOOK_SECONDS", {False: 600.0})
    corpus = Corpus.load(built_file)
    corpus.is_server = True
    first = corpus.search("hotel price a night", k=1)
    edit(tmp_path, 250)
    run_all(built_file)
    may_open = threading.Event()

    def held(workspace, pinned, before):
        assert may_open.wait(300)
        return open_builds(workspace, pinned, before)

    monkeypatch.setattr("rag_pipeline.release.opening.open_builds", held)
    monkeypatch.setattr(module, "_QUIET_WAIT_SECONDS", 0.01)
    corpus._looked = corpus._next_look = -600.0  # ten minutes are over
    assert corpus.search("hotel price a night", k=1) == first, "the wait is bounded"

    corpus._wait_until = 1e9
    corpus._next_look = float("inf")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(corpus.search, "hotel price a night", k=1)
        may_open.set()
        assert "250 euros" in waiting.result(300)[0].text, "other requests wait, too"

    monkeypatch.setattr(module, "_QUIET_WAIT_SECONDS", 300.0)
    edit(tmp_path, 300)
    run_all(built_file)
    corpus._looked = corpus._next_look = -600.0
    assert "300 euros" in corpus.search("hotel price a night", k=1)[0].text


@pytest.mark.parametrize("large", [False, True])
def test_searches_continue_while_a_new_release_opens(
    tmp_path, built_file, run_all, monkeypatch, large
):
    corpus = Corpus.load(built_file)
    first = corpus.search("hotel price a night", k=1)
    edit(tmp_path, 250)
    run_all(built_file)
    begun, searched, waited, reused, nice = threading.Event(), threading.Event(), [], [], []

    def held(workspace, pinned, before):
        begun.set()
        waited.append(searched.wait(300))
        reused.append(before)
        nice.append(priority())
        return open_builds(workspace, pinned, before)

    monkeypatch.setattr("rag_pipeline.release.opening.open_builds", held)
    if large:
        monkeypatch.setattr("rag_pipeline.corpus._AT_ONCE_CHUNKS", 1)
        monkeypatch.setattr("rag_pipeline.corpus.Future", NeverWaitedFor)
    assert corpus.search("hotel price a night", k=1) == first
    assert begun.wait(300)
    for _ in range(3):
        assert corpus.search("hotel price a night", k=1) == first
    assert corpus.release().release_id == "release-000002"
    assert corpus.searched().release_id == "release-000001"
    assert "180 euros" in corpus.document("policy/travel.md").text, "of what is searched"
    earlier = corpus._served.searcher.index
    monkeypatch.setattr(NeverWaitedFor, "result", Future.result)
    searched.set()
    assert corpus.reopen().release_id == "release-000002"
    assert reused == [earlier], "what both have is not read again"
    assert nice == [min(priority() + 5, 19) if sys.platform == "linux" else 0]
    assert waited == [True], "one opening, which searches went on beside"
    assert "250 euros" in corpus.search("hotel price a night", k=1)[0].text
    assert "250 euros" in corpus.document("policy/travel.md").text


def test_searches_keep_the_old_release_if_the_new_one_fails_to_open(
    tmp_path, built_file, run_all, monkeypatch, caplog
):
    corpus = Corpus.load(built_file)
    first = corpus.search("hotel price a night", k=1)
    edit(tmp_path, 250)
    run_all(built_file)

    def torn(workspace, pinned, before):
        raise StoreError("a file is missing")

    monkeypatch.setattr("rag_pipeline.release.opening.open_builds", torn)
    with pytest.raises(StoreError, match="a file is missing"):
        corpus.reopen()
    assert corpus.search("hotel price a night", k=1) == first
    assert "release-000002: searches stay with release-000001: a file is missing" in caplog.text
    monkeypatch.undo()
    assert corpus.reopen().release_id == "release-000002"
    assert "250 euros" in corpus.search("hotel price a night", k=1)[0].text


def test_rolling_back_serves_the_old_rows_and_skips_the_new_build(tmp_path, built_file, run_all):
    three = [rule("default", retriever="hybrid"), rule("plain"), rule("markdown", "markdown")]
    write_corpus(tmp_path, configurations=three)
    edit(tmp_path, 250)
    run_all(built_file)
    corpus = Corpus.load(built_file)
    assert corpus.roll_back().release_id == "release-000001"
    assert "180 euros" in corpus.search("hotel price a night", k=1)[0].text
    today = corpus.release().created[:10]
    told = f"rolled back on {today}: answers come from release-000001 of {today}, without"
    for of in (None, "policy/travel.md"):
        warned = corpus.ask("How expensive may a hotel be?", document_id=of).warnings
        assert [one.startswith(told) for one in warned] == [True]
    german = corpus.ask("Wie teuer darf ein Hotel in der Nacht sein?").warnings
    assert german[0].startswith(
        f"zurückgesetzt am {today}: release-000001 vom {today} antwortet, ohne"
    )
    assert corpus.roll_back("release-000002").release_id == "release-000002"
    assert corpus.ask("How expensive may a hotel be?").warnings == ()
    corpus.roll_back()

    # Without a change, no configuration is released, also not after a new question.
    assert len(corpus.config.all_configurations) > 1
    queries = tmp_path / "queries.jsonl"
    first = queries.read_text().splitlines()[0]
    for more in ("", first.replace('"query_id": "', '"query_id": "again_') + "\n"):
        queries.write_text(queries.read_text() + more)
        run_all(built_file)
        assert corpus.release().release_id == "release-000001"
        decision = gate_decision(Workspace(corpus.config))
        assert decision.allowed and decision.reasons[0].startswith("release-000001 (rolled back to")
    # An earlier version recorded the digest of the rolled-back release alone.
    store, rolled_back = corpus.workspace.store, load(corpus.workspace, "release-000002")
    now = {"release_id": "release-000001", "rolled_back": f"{today}T00:00:00+00:00"}
    store.write_json("releases/current.json", {**now, "held_back": [rolled_back.digest]})
    chosen, reasons = choose(Workspace(corpus.config))
    assert (rolled_back.configuration, chosen.name) == ("default", "plain")
    told = f"not chosen, because the build was rolled back: {rolled_back.configuration} ("
    assert reasons[-1].startswith(told)
    for number, why in ((3, rolled_back.reasons[0]), (2, reasons[0])):
        assert why.startswith(f"none of {number} configurations is surely better than ")
        assert why.endswith(", so the first of the corpus file that may be served is chosen")
    corpus.roll_back("release-000002")
    corpus.roll_back("release-000001")
    edit(tmp_path, 300)
    run_all(built_file)
    corpus.reopen()
    assert "300 euros" in corpus.search("hotel price a night", k=1)[0].text


def test_rolling_back_to_an_unknown_or_missing_release_is_refused(built_file):
    corpus = Corpus.load(built_file)
    with pytest.raises(NotReleasedError, match=r"no release 'nope'; there are: release-000001"):
        corpus.roll_back("nope")
    with pytest.raises(NotReleasedError, match="is the first release; there is none before it"):
        corpus.roll_back()


@pytest.mark.parametrize(
    ("query", "k", "where", "message"),
    [
        ("  ", 5, None, "the query is empty"),
        ("???", 5, None, "the query has no letter or digit"),
        ("caf\udce9", 5, None, "the query is not UTF-8 text, at character 4"),
        ("hotel", 0, None, "k is 0"),
        ("hotel", 5, "nonsense ===", "--where 'nonsense ==='"),
        ("hotel", 5, "no_such_column = 1", "no_such_column"),
        ("hotel", 5, "start = 0; DROP TABLE a", "is not allowed"),
        ("hotel", 5, "start = 0 LIMIT 1", "--where 'start = 0 LIMIT 1'"),
    ],
)
def test_an_invalid_search_is_explained(released, query, k, where, message):
    with pytest.raises(InputError) as error:
        released.search(query, k=k, where=where)
    assert message in str(error.value)


def test_a_request_with_stages_discovers_documents_and_without_stages_is_the_search(built_file):
    corpus = Corpus.load(built_file)
    query = "hotel price a night"
    plain = corpus.retrieve(SearchRequest(query=query, k=3, stages=(3, 0), discover=True))
    assert plain.chunks == corpus.search(query, k=3)
    assert plain.documents[0].document_id == "policy/travel.md"
    assert plain.boosted == {}
    request = SearchRequest(query=query, k=3, stages=(1, 1), boost=lambda document, _: [document])
    assert corpus.retrieve(request).boosted == {"policy/travel.md": ["policy/travel.md"]}


def test_answers_read_no_more_than_the_release_was_measured_with(tmp_path, run_all):
    retrievers = {"dense": {"method": "dense", "k": 2}}
    file = write_corpus(tmp_path, retrievers=retrievers, configurations=[rule("plain")])
    run_all(file)
    corpus = Corpus.load(file)
    for k, found in ((5, 2), (1, 1)):
        request = SearchRequest(query="hotel price a night", k=k, deepen=False)
        assert len(corpus.retrieve(request).chunks) == found
    assert len(corpus.search("hotel price a night", k=5)) == 5, "who asks for more gets them"


def test_a_corpus_answers_with_the_questions_before(released):
    made = released.ask(
        "And the Cedar NDA?", turns=["How long does confidentiality last under the Acme NDA?"]
    )
    assert made.sources[0].document_id == "nda/cedar.txt"
    assert made.releases[0].release == released.release().release_id
    assert "Switzerland" in released.ask("Which law governs the Cedar NDA?").text
    nobody = Caller(frozenset(), frozenset())
    with pytest.raises(InputError):
        released.ask("How long does confidentiality last under the Acme NDA?", caller=nobody)


def test_a_server_looks_into_a_bucket_once_a_second(built_file, monkeypatch):
    looks = []

    def counted(workspace):
        looks.append(1)
        return pointer(workspace)

    monkeypatch.setattr(module, "pointer", counted)
    corpus = Corpus.load(built_file)
    for _ in range(3):
        corpus.search("hotel price a night", k=1)
    assert len(looks) == 3, "a look into a folder costs nothing"
    corpus.is_server = True
    monkeypatch.setattr(type(corpus.workspace.store.files), "shared", True)
    monkeypatch.setattr(module, "_LOOK_SECONDS", {True: 600.0})
    for _ in range(3):
        corpus.search("hotel price a night", k=1)
    assert len(looks) == 4
    corpus._next_look = 0.0  # the second is over
    corpus.search("hotel price a night", k=1)
    assert len(looks) == 5
