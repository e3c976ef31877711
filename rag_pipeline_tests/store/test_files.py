"""Files are written whole. Of two writers one wins; a full or read-only disk is one clear error."""

import gc
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.bench_cycles import edit, reindex, write_cycling
from rag_pipeline import Corpus
from rag_pipeline.config import load_config
from rag_pipeline.errors import ConfigError, StoreError
from rag_pipeline.pipeline.inspection import inspect
from rag_pipeline.pipeline.planning import plan_step, steps
from rag_pipeline.pipeline.template import write_file
from rag_pipeline.store import Store
from rag_pipeline.store.files import replace_text
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.command_line import rag
from rag_pipeline_tests.testing.disks import mount
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


QUESTION = "fee of contract 0"


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory) -> Iterator[Path]:
    """Return a corpus of one release whose store is a file system of 4 MB."""
    folder = tmp_path_factory.mktemp("small")
    write_cycling(folder, 5)
    (folder / "store").mkdir()
    mount("-t", "tmpfs", "-o", "size=4m", "tmpfs", folder / "store")
    try:
        reindex(Workspace(load_config(folder / "cycling.yaml")))
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder / "store"], check=True)


def served(folder: Path) -> str:
    return Corpus.load(folder / "cycling.yaml").search(QUESTION, k=1)[0].text


def assert_finishes(folder: Path, fee: int) -> None:
    workspace = Workspace(load_config(folder / "cycling.yaml"))
    reindex(workspace)
    assert not any(plan_step(workspace, step).must_run for step in steps(workspace.config))
    assert inspect(workspace) == []
    assert f"is {fee} euros" in served(folder)


# Where the space ends: in a table, in the lexical index, in the database of calls.
@pytest.mark.parametrize(("left", "fee"), [(0, 101), (40_960, 102), (98_304, 103)])
def test_a_full_disk_is_one_error_and_the_next_run_finishes(small_disk, left, fee):
    before = served(small_disk)
    edit(small_disk, 0, fee)
    gc.collect()  # a removed file keeps its space while an index that was searched has it open
    filler = small_disk / "store" / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(small_disk / "store").free - left))
    try:
        with pytest.raises(StoreError, match=r"(?i)no space left|disk is full|bytes are free"):
            reindex(Workspace(load_config(small_disk / "cycling.yaml")))
        assert served(small_disk) == before
    finally:
        filler.unlink()
    assert_finishes(small_disk, fee)


def test_a_read_only_store_is_one_error_and_serves_on(small_disk):
    store = small_disk / "store"
    before = served(small_disk)
    edit(small_disk, 0, 200)
    mount("--bind", store, store)
    try:
        mount("-o", "remount,ro,bind", store)
        outcome = rag("run", small_disk / "cycling.yaml", "--quiet")
        assert outcome.code == 1
        assert "Read-only file system" in outcome.err
        assert "Traceback" not in outcome.err and len(outcome.err.splitlines()) == 1
        assert served(small_disk) == before
    finally:
        subprocess.run(["umount", "-l", store], check=True)
    assert_finishes(small_disk, 200)


@pytest.mark.parametrize(
    ("umask", "file", "folder"), [(0o022, 0o644, 0o755), (0o077, 0o600, 0o700)]
)
def test_a_server_of_another_user_reads_what_a_run_built(tmp_path, umask, file, folder):
    before = os.umask(umask)
    try:
        store = Store(str(tmp_path / "store"), "tiny")
        store.write_json("a.json", 1)
        store.write_json_if("b.json", 1, None)
        built = store.files.new_folder("lexical/x")
        (built / "index").write_text("index")
        store.publish_folder(built, "lexical/x")
        with store.files.try_lock("run.lease", {}) as _:
            pass
    finally:
        os.umask(before)
    for path in (tmp_path / "store").rglob("*"):
        wanted = folder if path.is_dir() else file
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_a_file_that_has_no_room_stays_as_it_was(tmp_path):
    mount("-t", "tmpfs", "-o", "size=16k", "tmpfs", tmp_path)
    try:
        (tmp_path / "c.yaml").write_text("written by hand")
        (tmp_path / "filler").write_bytes(bytes(4096))
        with pytest.raises(
            ConfigError, match=r"--output .*c\.yaml: cannot write it: No space left"
        ):
            write_file("--output", tmp_path / "c.yaml", "x" * 20_000)
        assert (tmp_path / "c.yaml").read_text() == "written by hand"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["c.yaml", "filler"]
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)


def test_what_is_no_regular_file_is_written_to():
    reader, writer = os.pipe()
    replace_text(Path(f"/proc/self/fd/{writer}"), "text")
    os.close(writer)
    with os.fdopen(reader) as pipe:
        assert pipe.read() == "text"
