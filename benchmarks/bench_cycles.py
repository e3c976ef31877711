"""A store through many re-index cycles: size, fragments, open files and time per cycle.

python -m benchmarks.bench_cycles --cycles 200
"""

import argparse
import gc
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.corpora import write_corpus
from rag_pipeline import release
from rag_pipeline.config import load_config
from rag_pipeline.pipeline.driver import make
from rag_pipeline.pipeline.planning import steps
from rag_pipeline.workspace import Workspace

DOCUMENTS = 100


class Cycle(NamedTuple):
    """The time of one cycle, and the state after it."""

    number: int
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
        yield _measure(workspace, folder / "store", cycle, time.perf_counter() - started)


def _measure(workspace: Workspace, store: Path, number: int, seconds: float) -> Cycle:
    gc.collect()  # what waits to be collected is not left open
    files = [path for path in store.rglob("*") if path.is_file()]
    tables = [workspace.store.table(name, None).open() for name in workspace.store.tables()]
    return Cycle(
        number=number,
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = list(cycles(Path(folder), arguments.cycles, arguments.documents))
    print(f"{arguments.documents} documents, 1 % of them changed in each cycle")
    print("cycles   seconds (median)     MB   files  fragments  versions  handles  releases")
    width = max(1, arguments.cycles // 10)
    for first in range(1, len(measured), width):
        part = measured[first : first + width]
        print(
            f"{part[0].number:3}-{part[-1].number:<3}  {median(c.seconds for c in part):14.2f}"
            f"  {max(c.bytes for c in part) / 1e6:9.2f}  {max(c.files for c in part):6}"
            f"  {max(c.fragments for c in part):9}  {max(c.versions for c in part):8}"
            f"  {max(c.handles for c in part):7}  {max(c.releases for c in part):8}"
        )


if __name__ == "__main__":
    main()
