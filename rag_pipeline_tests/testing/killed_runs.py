"""Runs in separate processes that are killed at given places, and their results."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rag_pipeline.config import load_config
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.forked import Forked

# Logs every text sent to the model, and runs the corpus like `rag run`, but without the lease:
# tables have to stay right by themselves.
_CHILD = """
import hashlib, os, signal, sys
from rag_pipeline.config import load_config
from rag_pipeline.indexing import lexical
from rag_pipeline.models.providers import minilm
from rag_pipeline.release import publishing
from rag_pipeline.store import Store, Table

place, left = sys.argv[3], [int(sys.argv[4])]
def log(line):
    with open(sys.argv[2], "a") as file:
        file.write(line + "\\n")
def reached(name):
    if name == place:
        left[0] -= 1
        if not left[0]:
            log(f"killed: {name}")
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

embed = minilm.MiniLM.embed
def logged(self, texts, input_type="document"):
    log(" ".join(hashlib.sha256(t.encode()).hexdigest() for t in texts))
    return embed(self, texts, input_type)
minilm.MiniLM.embed = logged
minilm.TOKENS_PER_BATCH = 512
of_vectors = lambda table, *_: table.name.startswith("vector_index")
killed_at(minilm.MiniLM, "embed", "batch")
killed_at(Table, "_committed", "table write", of_vectors, before=True)
killed_at(Store, "publish_folder", "bm25 publishing", before=True)
killed_at(publishing, "_pin", "release pinned")
killed_at(publishing, "_move_pointer", "release unserved", before=True)
build = lexical.build_lexical_index
def interrupted(engine, batches, *others):
    def read():
        for batch in batches:
            yield batch
            reached("bm25 build")
    return build(engine, read(), *others)
lexical.build_lexical_index = interrupted

from rag_pipeline_tests.testing.dagster_projects import run
print("ready", flush=True)
sys.stdin.read()
for result in run(load_config(sys.argv[1])):
    pass
"""
PLACES = (
    ("batch", 2),
    ("bm25 build", 1),
    ("bm25 publishing", 1),
    ("table write", 1),
    ("release pinned", 1),
    ("release unserved", 1),
)
"""The places where runs are killed, each with the number of the visit that kills.

A document that is added after the first run lets a later run get further.
"""


def start(file: Path, log: Path, place: str = "", times: int = 1) -> Forked:
    """Start a run that is killed at the given visit to a place."""
    (run,) = start_together(file, log, [(place, times)])
    return run


def start_together(file: Path, log: Path, places: Sequence[tuple[str, int]]) -> list[Forked]:
    """Start a run for each place; all begin together."""
    errors = log.with_suffix(".err")
    runs = [Forked(_CHILD, file, log, place, times, stderr=errors) for place, times in places]
    for run in runs:
        assert run.stdout.readline() == "ready\n"
    for run in runs:
        run.stdin.close()
    return runs


class Log(NamedTuple):
    """The texts that runs sent to the model, and the places of their kills."""

    batches: list[list[str]]
    """The hashes of each batch's texts."""
    kills: list[tuple[str, int]]
    """Each place, with the number of batches before."""

    @classmethod
    def read(cls, file: Path) -> "Log":
        made = cls([], [])
        for line in file.read_text().splitlines():
            if line.startswith("killed: "):
                made.kills.append((line.removeprefix("killed: "), len(made.batches)))
            else:
                made.batches.append(line.split())
        return made

    @property
    def texts(self) -> set[str]:
        return {text for batch in self.batches for text in batch}


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


class Undisturbed(NamedTuple):
    """The rows of an undisturbed run, and the texts that it embeds."""

    file: Path
    rows: dict[str, list[str]]
    texts: set[str]


def built_alone(file: Path) -> Undisturbed:
    """Build a corpus by one run."""
    log = file.with_suffix(".calls")
    assert start(file, log).wait() == 0
    return Undisturbed(file, contents(file), Log.read(log).texts)


def differences(file: Path, log: Log, undisturbed: Undisturbed) -> Sequence[str]:
    """Return the differences between a corpus and an undisturbed one.

    After each kill, only the batch in flight may be sent again.
    """
    found = []
    rows = contents(file)
    for name, expected in undisturbed.rows.items():
        if rows[name] != expected:
            found.append(f"{name} holds other rows ({len(rows[name])}, not {len(expected)})")
    if log.texts != undisturbed.texts:
        found.append(f"{len(log.texts)} texts embedded, not {len(undisturbed.texts)}")
    sent, largest = sum(map(len, log.batches)), max(map(len, log.batches))
    if sent - len(log.texts) > len(log.kills) * largest:
        found.append(f"{sent} texts sent for {len(log.texts)}, after {len(log.kills)} kills")
    return found
