"""A store through many re-index cycles: size, fragments, open files and time per cycle.

python -m benchmarks.bench_cycles --cycles 200
"""

import gc
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.corpora import write_corpus
from benchmarks.shared import heading, options, row, windows
from rag_pipeline import release
from rag_pipeline.config import load_config
from rag_pipeline.pipeline.driver import make
from rag_pipeline.pipeline.planning import steps
from rag_pipeline.workspace import Workspace

DOCUMENTS = 100


class Cycle(NamedTuple):
    """The time of one cycle, and the state after it."""

    seconds: float
    bytes: int
    """Without SQLite's logs, which grow to 4 MB at most before they are written back."""
    files: int
    fragments: int
    """The most that any table has."""
    versions: int
    """The most that any table has."""
    handles: int
    releases: int
    answers: int


def write_cycling(folder: Path, documents: int = DOCUMENTS) -> Path:
    """Write tiny documents, one query and a corpus file that keeps as little as it may."""
    (folder / "documents").mkdir(parents=True)
    for number in range(documents):
        edit(folder, number, 0)
    query = '{"query_id": "q", "query": "fee of contract 0", "gold_spans": []}\n'
    (folder / "queries.jsonl").write_text(query)
    one = {"name": "one", "chunking": "fixed", "embedding": "minilm", "retriever": "hybrid"}
    return write_corpus(
        folder,
        "cycling",
        queries="queries.jsonl",
        chunkings={"fixed": {"method": "fixed", "tokens": 40}},
        retrievers={"hybrid": {"method": "hybrid"}},
        configurations=[one],
        retention={"keep_releases": 3, "keep_days": 0, "version_hours": 0, "calls_days": 0},
    )


def edit(folder: Path, number: int, cycle: int) -> None:
    text = f"Contract {number}. The fee is {cycle} euros a month, due on day {number % 28 + 1}.\n"
    (folder / "documents" / f"{number:04d}.txt").write_text(text)


def reindex(workspace: Workspace) -> None:
    """Make and check all steps in order, without Dagster's own time."""
    for step in steps(workspace.config):
        make(workspace, step)


def cycles(folder: Path, count: int, documents: int = DOCUMENTS) -> Iterator[Cycle]:
    """Change 1 % of the documents, index, release and measure, again and again."""
    file = write_cycling(folder, documents)
    workspace = Workspace(load_config(file))
    changed = max(1, documents // 100)
    for cycle in range(count + 1):
        for place in range(changed if cycle else 0):
            edit(folder, (cycle * changed + place) % documents, cycle)
        started = time.perf_counter()
        reindex(workspace)
        yield _measure(workspace, folder / "store", time.perf_counter() - started)


def _measure(workspace: Workspace, store: Path, seconds: float) -> Cycle:
    gc.collect()  # what waits to be collected is not left open
    files = [path for path in store.rglob("*") if path.is_file()]
    tables = [workspace.store.table(name, None).open() for name in workspace.store.tables()]
    return Cycle(
        seconds=seconds,
        bytes=sum(path.stat().st_size for path in files if not path.name.endswith("-wal")),
        files=len(files),
        fragments=max(t.stats()["fragment_stats"]["num_fragments"] for t in tables),
        versions=max(len(t.list_versions()) for t in tables),
        handles=sum(1 for _ in Path("/proc/self/fd").iterdir()),
        releases=len(release.names(workspace)),
        answers=len(workspace.cache),
    )


def main() -> None:
    arguments = options(__doc__, cycles=200, documents=DOCUMENTS)
    with tempfile.TemporaryDirectory() as folder:
        measured = list(cycles(Path(folder), arguments.cycles, arguments.documents))
    print(f"{arguments.documents} documents, 1 % of them changed in each cycle")
    counts = ("files", "fragments", "versions", "handles", "releases")
    heading("cycles", "seconds (median)", "MB", *counts)
    for cycles_shown, part in windows(measured, 10):
        seconds = f"{median(c.seconds for c in part):.2f}"
        megabytes = f"{max(c.bytes for c in part) / 1e6:.2f}"
        most = (max(getattr(c, name) for c in part) for name in counts)
        row(cycles_shown, seconds, megabytes, *most)


if __name__ == "__main__":
    main()
