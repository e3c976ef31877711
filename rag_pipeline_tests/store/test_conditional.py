"""Of two writers one wins, in a folder and on a bucket."""

import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from rag_pipeline import release
from rag_pipeline.config import load_config
from rag_pipeline.errors import StoreError
from rag_pipeline.store import Store
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.corpora import write_corpus
from rag_pipeline_tests.testing.forked import Forked

COUNT_UP = """
import sys
from rag_pipeline.store import Store
url, writer, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = Store(url, "tiny")
print("ready", flush=True)
sys.stdin.readline()
for _ in range(times):
    while True:
        value, tag = store.read_tagged_json("counter.json")
        if store.write_json_if("counter.json", [value[0] + 1, writer], tag):
            break
"""
"""Adds one to a counter the given number of times; repeats when another writer was first."""


def test_a_file_is_created_once(any_store):
    store = any_store
    assert store.read_tagged_json("a/b.json") == (None, None)
    assert store.write_json_if("a/b.json", "first", None)
    assert not store.write_json_if("a/b.json", "second", None)
    assert store.read_json("a/b.json") == "first"


def test_a_file_is_replaced_only_as_it_was_read(any_store):
    store = any_store
    store.write_json_if("a.json", 1, None)
    _, mine = store.read_tagged_json("a.json")
    _, theirs = store.read_tagged_json("a.json")
    assert store.write_json_if("a.json", 2, theirs)
    assert not store.write_json_if("a.json", 3, mine)
    assert store.read_json("a.json") == 2
    store.remove_file("a.json")
    assert not store.write_json_if("a.json", 3, mine)
    assert store.read_json("a.json") is None


def test_no_process_overwrites_what_it_has_not_seen(store):
    store.write_json_if("counter.json", [0, ""], None)
    processes = [Forked(COUNT_UP, store.url, name, 50) for name in "abc"]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:  # all count together
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert store.read_json("counter.json")[0] == 150
    assert store.list("") == ["counter.json"], "no lock and no temporary file is left"


def test_one_of_many_creates(store):
    stores = [Store(store.url, "tiny") for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda n: stores[n].write_json_if("release.json", n, None), range(8)))
    assert sum(won) == 1
    assert store.read_json("release.json") == won.index(True)


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
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
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
            moves.append(release.publish(other))  # the other one releases just before this
        return write(store, path, value, tag)

    monkeypatch.setattr(Store, "write_json_if", beaten)
    left = f"release-{number:06}"
    assert release.publish(evaluated).release_id == moves[0].release_id == left
    assert [r.release_id for r in release.history(evaluated)] == [left]
    assert release.current(evaluated).previous is None
    pins = evaluated.vector_index("recursive_150.none.minilm").pins()
    assert [name for name in pins if name.startswith("release-")] == [left]


def test_a_roll_back_does_not_undo_a_release_made_meanwhile(evaluated, monkeypatch):
    first = release.publish(evaluated)
    store = evaluated.store
    write = Store.write_json_if

    def beaten(at, path, value, tag):
        record, current = store.read_tagged_json(path)
        write(store, path, {**record, "held_back": ["another move"]}, current)
        return write(at, path, value, tag)

    monkeypatch.setattr(Store, "write_json_if", beaten)
    with pytest.raises(StoreError, match="another release was made meanwhile, nothing was rolled"):
        release.roll_back(evaluated, first.release_id)
    assert store.read_json("releases/current.json")["held_back"] == ["another move"]
