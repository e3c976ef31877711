"""Builds that are killed, and searches while a build runs."""

import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

import pytest

from rag_pipeline import Corpus
from rag_pipeline.config import load_config
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import (
    many_documents,
    write_documents,
    write_only,
)

# Logs every text that is sent to the model, then runs the corpus as `rag run` does.
CHILD = """
import hashlib, sys
from pathlib import Path
from rag_pipeline.config import load_config
from rag_pipeline.models.providers import minilm
embed = minilm.MiniLM.embed
def logged(self, texts, input_type="document"):
    with open(sys.argv[2], "a") as log:
        log.write(" ".join(hashlib.sha256(t.encode()).hexdigest() for t in texts) + "\\n")
    return embed(self, texts, input_type)
minilm.MiniLM.embed = logged
minilm.TOKENS_PER_BATCH = 512

import os, signal
from rag_pipeline.indexing import lexical
from rag_pipeline.release import moving
from rag_pipeline.store import Store, Table
place, left = sys.argv[3], [int(sys.argv[4])]
def reached(name):
    if name == place:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
def killed_at(owner, function, name, when=lambda *arguments: True, before=False):
    original = getattr(owner, function)
    def wrapped(*arguments, **named):
        if before and when(*arguments):
            reached(name)
        result = original(*arguments, **named)
        if not before and when(*arguments):
            reached(name)
        return result
    setattr(owner, function, wrapped)
of_vectors = lambda table, *_: table.name.startswith("vector_index")
killed_at(minilm.MiniLM, "embed", "batch")
killed_at(Table, "drop", "table write", of_vectors)
killed_at(Store, "publish_folder", "bm25 publishing", before=True)
killed_at(moving, "_pin", "release pinned")
killed_at(moving, "_serve", "release unserved", before=True)
build = lexical.build_lexical_index
def interrupted(engine, batches, *others):
    def read():
        for batch in batches:
            yield batch
            reached("bm25 build")
    return build(engine, read(), *others)
lexical.build_lexical_index = interrupted

from rag_pipeline.orchestration.runner import run
print("ready", flush=True)
for result in run(load_config(sys.argv[1])):
    pass
"""
PLACES = (
    ("bm25 build", 1),
    ("bm25 publishing", 1),
    ("batch", 3),
    ("table write", 1),
    ("release pinned", 1),
    ("release unserved", 1),
)
"""Where a run is killed, and at which time that it gets there; a run gets further than the last."""


def start(file: Path, log: Path, place: str = "", times: int = 1) -> subprocess.Popen[str]:
    """Start a run that is killed when it reaches a place for so many times."""
    child = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", CHILD, str(file), str(log), place, str(times)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert child.stdout is not None
    with child.stdout:  # it says no more
        assert child.stdout.readline() == "ready\n"
    return child


def contents(file: Path) -> dict[str, list[str]]:
    """Return every table's rows, the vectors among them, in a fixed order."""
    workspace = Workspace(load_config(file))
    found = {}
    for context in ("none", "structural"):
        key = f"recursive_150.{context}"
        for table in (
            workspace.contextualized_chunks(key),
            workspace.vector_index(f"{key}.minilm"),
        ):
            rows = table.open().to_arrow().to_pylist()
            found[table.name] = sorted(repr(sorted(row.items())) for row in rows)
    return found


def builds_seen(corpus: Corpus) -> set[str]:
    found = corpus.search("notice of a data breach", k=30)
    return {chunk.text[:7] for chunk in found if chunk.text.startswith("build")}


class Undisturbed(NamedTuple):
    file: Path
    rows: dict[str, list[str]]
    texts: set[str]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Return what a run builds that nothing disturbs, and the texts that it embeds."""
    folder = tmp_path_factory.mktemp("undisturbed")
    file, log = write_only(folder, many_documents(12, "build 1")), folder / "calls.log"
    assert start(file, log).wait() == 0
    return Undisturbed(file, contents(file), set(log.read_text().split()))


def assert_as_undisturbed(file, log, undisturbed, killed):
    _, rows, texts = undisturbed
    assert contents(file) == rows
    sent = log.read_text().split()
    largest = max(len(line.split()) for line in log.read_text().splitlines())
    assert set(sent) == texts
    assert len(sent) - len(texts) <= killed * largest, "at most one batch again after each kill"
    assert Corpus.load(file).search("notice of a data breach", k=1)


@pytest.mark.long
def test_a_build_killed_in_every_part_of_it_ends_as_if_nothing_had_happened(tmp_path, undisturbed):
    file, log = write_only(tmp_path, many_documents(12, "build 1")), tmp_path / "killed.log"
    for place, times in PLACES:
        assert start(file, log, place, times).wait() == -signal.SIGKILL, f"{place} not reached"
        if not place.startswith("bm25"):  # which is built first
            assert len(log.read_text().splitlines()) > 1, "a kill before the first batch"
    assert start(file, log).wait() == 0
    assert_as_undisturbed(file, log, undisturbed, killed=len(PLACES))


@pytest.mark.long
def test_runs_at_once_of_which_some_are_killed_end_as_one_that_is_alone(tmp_path, undisturbed):
    """Without the lease, which `rag run` takes: tables stay right by themselves."""
    file, log = write_only(tmp_path, many_documents(12, "build 1")), tmp_path / "calls.log"
    children = [start(file, log, "batch", 2) for _ in range(3)]
    codes = [child.wait() for child in children]
    # There are more batches than the three could do with one each.
    assert -signal.SIGKILL in codes
    assert set(codes) <= {0, -signal.SIGKILL}
    assert start(file, log).wait() == 0
    assert_as_undisturbed(file, log, undisturbed, codes.count(-signal.SIGKILL))


def test_searches_during_a_rebuild_never_fail_and_see_one_build(tmp_path, undisturbed):
    file, log = write_only(tmp_path, many_documents(12, "build 1")), tmp_path / "log"
    shutil.copytree(undisturbed.file.parent / "store", tmp_path / "store")
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
