"""Builds that are killed, and searches while a build runs."""

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

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
from rag_pipeline.orchestration.runner import run
print("ready", flush=True)
for result in run(load_config(sys.argv[1])):
    pass
"""


def start(file: Path, log: Path) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", CHILD, str(file), str(log)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert child.stdout is not None
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


@pytest.mark.long
def test_a_build_killed_at_ten_random_moments_ends_as_if_nothing_had_happened(tmp_path):
    documents = many_documents(24, "build 1")
    undisturbed = write_only(tmp_path / "undisturbed", documents)
    calls = tmp_path / "calls.log"
    child = start(undisturbed, calls)
    assert child.wait() == 0
    expected, batches = contents(undisturbed), calls.read_text().splitlines()

    file, log = write_only(tmp_path / "killed", documents), tmp_path / "killed.log"
    chance = random.Random(11)
    killed = 0
    while killed < 10:
        child = start(file, log)
        try:
            assert child.wait(timeout=chance.uniform(0.05, 1.2)) == 0
            break  # it was done before it could be killed
        except subprocess.TimeoutExpired:
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
            killed += 1
    else:
        assert start(file, log).wait() == 0
    assert contents(file) == expected

    texts = {text for batch in batches for text in batch.split()}
    sent = log.read_text().split()
    largest = max(len(line.split()) for line in log.read_text().splitlines())
    assert set(sent) == texts
    assert len(sent) - len(texts) <= killed * largest, "at most one batch again after each kill"


def test_searches_during_a_rebuild_never_fail_and_see_one_build(tmp_path):
    file = write_only(tmp_path, many_documents(12, "build 1"))
    log = tmp_path / "log"
    assert start(file, log).wait() == 0
    corpus = Corpus.load(file)
    write_documents(tmp_path / "documents", many_documents(12, "build 2"))

    seen: list[set[str]] = []
    done = threading.Event()

    def search() -> None:
        while not done.wait(0.02):  # the build needs some of the time too
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
