"""Releases are published once, from sound builds, and pin what they serve."""

import pytest

from rag_pipeline import Corpus, indexing, release
from rag_pipeline.config import load_config
from rag_pipeline.errors import CheckFailedError, InputError, StoreError
from rag_pipeline.release import publishing
from rag_pipeline.store import Store
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import index, run
from rag_pipeline_tests.testing.corpora import DOCUMENTS, copy_corpus, write_corpus, write_documents

ONE = {"chunking": "recursive_150", "embedding": "minilm", "retriever": "dense"}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the folder of a corpus that has been run, with its release taken back."""
    folder = tmp_path_factory.mktemp("built")
    file = write_corpus(folder, configurations=[{"name": "one", **ONE}])
    list(run(load_config(file)))
    for name in ("current.json", "release-000001.json"):
        (folder / "store" / "tiny" / "releases" / name).unlink()
    return folder


@pytest.fixture
def evaluated(built, tmp_path):
    copy_corpus(built, tmp_path)
    return Workspace(load_config(tmp_path / "tiny.yaml"))


# Beaten to the pointer, its manifest had the first number already: the winner's has the second.
@pytest.mark.parametrize(
    ("beaten_to", "number"), [("releases/release-", 1), ("releases/current.json", 2)]
)
def test_of_two_releasers_one_wins_and_the_other_finds_its_release(
    evaluated, monkeypatch, beaten_to, number
):
    other = Workspace(evaluated.config)
    moves = []
    write = Store.write_json_if

    def beaten(store, path, value, tag):
        if store is evaluated.store and path.startswith(beaten_to) and not moves:
            moves.append(publishing.publish(other))  # the other one releases just before this
        return write(store, path, value, tag)

    monkeypatch.setattr(Store, "write_json_if", beaten)
    left = f"release-{number:06}"
    assert publishing.publish(evaluated).release_id == moves[0].release_id == left
    assert [r.release_id for r in release.history(evaluated)] == [left]
    assert release.current(evaluated).previous is None
    pins = evaluated.vector_index("recursive_150.none.minilm").pins()
    assert [name for name in pins if name.startswith("release-")] == [left]


def test_a_roll_back_does_not_undo_a_release_made_meanwhile(evaluated, monkeypatch):
    first = publishing.publish(evaluated)
    store = evaluated.store
    write = Store.write_json_if

    def beaten(at, path, value, tag):
        record, current = store.read_tagged_json(path)
        write(store, path, {**record, "held_back": ["another move"]}, current)
        return write(at, path, value, tag)

    monkeypatch.setattr(Store, "write_json_if", beaten)
    with pytest.raises(StoreError, match="changed the served release, so nothing was rolled back"):
        publishing.roll_back(evaluated, first.release_id)
    assert store.read_json("releases/current.json")["held_back"] == ["another move"]


def edit(folder, number):
    text = DOCUMENTS["policy/travel.md"].replace("180 euros", f"{number} euros")
    write_documents(folder / "documents", {"policy/travel.md": text})


def test_a_stale_build_is_not_released(tmp_path, built_file):
    edit(tmp_path, 250)
    workspace = Workspace(load_config(built_file))
    indexing.update_documents(workspace)
    with pytest.raises(
        CheckFailedError, match=r"chunks recursive_150 is not current \(1 document "
    ):
        publishing.publish(workspace)
    assert "180 euros" in Corpus.load(built_file).search("hotel price a night", k=1)[0].text


def test_a_build_that_fails_a_check_is_not_released_even_after_the_failing_run(
    tmp_path, built_file, run_all
):
    edit(tmp_path, 250)
    workspace = Workspace(load_config(built_file))
    index(workspace, "recursive_150")
    table = workspace.chunks("recursive_150").open()
    table.update(where="text LIKE '%250 euros%'", values={"text": "not in the document"})
    with pytest.raises(CheckFailedError, match="text_differs in 1 of 4: policy/travel"):
        run_all(built_file)
    assert "180 euros" in Corpus.load(built_file).search("hotel price a night", k=1)[0].text


def test_a_release_pins_versions_against_rebuilding_and_clean_up(tmp_path, built_file):
    corpus = Corpus.load(built_file)
    pinned = corpus.release().pinned
    table = corpus.workspace.store.table(pinned.vector_table, None)
    for number in range(3):
        edit(tmp_path, number)
        index(corpus.workspace, pinned.vector_table.removeprefix("vector_index."))
    assert corpus.release().release_id in table.open().tags.list()
    assert table.version > pinned.vector_version
    assert "180 euros" in corpus.search("hotel price a night", k=1)[0].text
    assert corpus.release().release_id in corpus.workspace.documents().open().tags.list()
    assert corpus.document("policy/travel.md").text == DOCUMENTS["policy/travel.md"]
    with pytest.raises(InputError, match="no document"):
        corpus.document("policy/none.md")
