"""A vector table with an index through hundreds of nights, with limits that fail.

Each night replaces the vectors of 1 % of the documents; their centres drift. Recall@10 must stay at
0.95. Fragments, index parts, files, bytes and the 95th percentile of the search time of the last
sixth of nights must be at most 1.2 times those of the first.

python -m benchmarks.bench_nights --cycles 300 --rows 100000
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.shared import heading, options, row, windows
from rag_pipeline.search import vector_index
from rag_pipeline.store import Store, Table
from rag_pipeline.store.lance import MAX_FRAGMENTS, indexes

CHUNKS = 10
"""Number of chunks of each document."""
SLACK = 1.2
_CENTRES = 200
_NOISE = 0.5
_QUERIES = 40
_TIMES = 3
"""Number of times that a search is timed; the best time counts, as the machine may be busy."""
_K = 10


class Night(NamedTuple):
    """The measurements of a table after a night."""

    recall: float
    """Share of the 10 true neighbours that a search finds, over 40 queries."""
    p95_ms: float
    fragments: int
    parts: int
    """Largest number of parts of an index."""
    partitions: int
    unindexed: float
    """The largest share of the rows that an index lacks."""
    files: int
    bytes: int
    upkeep_seconds: float


class _Vectors:
    """Unit vectors around centres that move on a little each night."""

    def __init__(self, dimension: int, seed: int = 7) -> None:
        self._chance = np.random.default_rng(seed)
        self._centres = self._unit(self._chance.normal(size=(_CENTRES, dimension)))

    def drift(self) -> None:
        step = 0.05 * self._unit(self._chance.normal(size=self._centres.shape))
        self._centres = self._unit(self._centres + step)

    def take(self, count: int) -> npt.NDArray[np.float32]:
        centres = self._centres[self._chance.integers(0, _CENTRES, count)]
        noise = self._unit(self._chance.normal(size=centres.shape))
        return self._unit(centres + _NOISE * noise).astype(np.float32)

    @staticmethod
    def _unit(vectors: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def nights(folder: Path, cycles: int, rows: int, dimension: int = 64) -> Iterator[Night]:
    """Build a table of `rows` rows, and replace 1 % of its documents each night."""
    texts = ("document_id", "content_hash", "fingerprint", "chunk_id")
    vectors = ("vector", pa.list_(pa.float32(), dimension))
    schema = pa.schema([*((name, pa.string()) for name in texts), vectors])
    table = Store(str(folder), "nights", timedelta(0)).table("vector_index.nights", schema)
    table.ensure()
    made = _Vectors(dimension)
    documents = rows // CHUNKS
    held = np.empty((rows, dimension), np.float32)
    changed = max(1, documents // 100)
    for cycle in range(cycles + 1):
        first = (cycle - 1) * changed
        ids = [(first + place) % documents for place in range(changed)] if cycle else []
        made.drift()
        for document in ids or range(documents):
            held[document * CHUNKS : (document + 1) * CHUNKS] = made.take(CHUNKS)
        _write(table, ids or list(range(documents)), held, str(cycle), replace=bool(cycle))
        started = time.perf_counter()
        vector_index.maintain(table)
        yield _measure(folder, table, held, made.take(_QUERIES), time.perf_counter() - started)


def _write(
    table: Table, documents: list[int], held: npt.NDArray[np.float32], made: str, replace: bool
) -> None:
    places = [d * CHUNKS + n for d in documents for n in range(CHUNKS)]
    names = [f"d{p // CHUNKS:07d}" for p in places]
    columns = [
        pa.array(names),
        pa.array([made] * len(places)),
        pa.array(["f"] * len(places)),
        pa.array([f"c{p}" for p in places]),
        pa.FixedSizeListArray.from_arrays(pa.array(held[places].ravel()), held.shape[1]),
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=table.schema)
    table.replace(list(dict.fromkeys(names)) if replace else [], [batch])


def _measure(
    folder: Path,
    table: Table,
    held: npt.NDArray[np.float32],
    queries: npt.NDArray[np.float32],
    upkeep_seconds: float,
) -> Night:
    lance = table.dataset()
    probes = vector_index.index_probes(lance)
    vector_index.search(lance, queries[0], _K, probes=probes)  # reads the index into memory
    found, seconds = 0, []
    for query in queries:
        times = []
        for _ in range(_TIMES):
            started = time.perf_counter()
            nearest = vector_index.search(lance, query, _K, probes=probes)
            times.append(time.perf_counter() - started)
        seconds.append(min(times))
        true = np.argpartition(-(held @ query), _K)[:_K]
        found += len({f"c{p}" for p in true} & set(nearest.column("chunk_id").to_pylist()))
    told = indexes(lance)
    files = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return Night(
        recall=found / (_K * len(queries)),
        p95_ms=float(np.percentile(seconds, 95)) * 1000,
        fragments=len(lance.get_fragments()),
        parts=max((t["num_indices"] for t in told), default=0),
        partitions=max((len(t["indices"][0].get("partitions", ())) for t in told), default=0),
        unindexed=max((1 - t["num_indexed_rows"] / len(held) for t in told), default=1.0),
        files=len(files),
        bytes=sum(files),
        upkeep_seconds=upkeep_seconds,
    )


def _window(measured: list[Night]) -> int:
    # Fragments gather until they are merged: as many nights as that takes, at least.
    return max(MAX_FRAGMENTS + 1, len(measured) // 6)


def worn(measured: list[Night]) -> list[str]:
    """Return the measurements that became worse over the nights."""
    window = _window(measured)
    early, late = measured[1 : window + 1], measured[-window:]
    faults = []
    lowest = min(n.recall for n in measured)
    if lowest < 0.95:
        faults.append(f"recall@10 fell to {lowest:.3f}, below 0.95")
    for name in ("fragments", "parts", "files", "bytes"):
        before = max(getattr(n, name) for n in early)
        after = max(getattr(n, name) for n in late)
        if after > SLACK * before:
            faults.append(f"{name} grew from {before:,} to {after:,}")
    return faults


def main() -> None:
    arguments = options(__doc__, cycles=300, rows=100_000)
    with tempfile.TemporaryDirectory() as folder:
        measured = list(nights(Path(folder), arguments.cycles, arguments.rows))
    counts = ("fragments", "parts", "partitions", "files")
    heading("nights", "recall@10 (min)", "p95 ms", *counts, "MB", "upkeep s")
    for shown, part in windows(measured, 6):
        lowest, p95 = min(n.recall for n in part), np.median([n.p95_ms for n in part])
        most = (max(getattr(n, name) for n in part) for name in counts)
        megabytes = max(n.bytes for n in part) / 1e6
        upkeep = np.mean([n.upkeep_seconds for n in part])
        row(shown, f"{lowest:.3f}", f"{p95:.1f}", *most, f"{megabytes:.1f}", f"{upkeep:.2f}")
    faults = worn(measured)
    window = _window(measured)
    sides = measured[1 : window + 1], measured[-window:]
    early, late = (float(np.median([n.p95_ms for n in side])) for side in sides)
    if late > SLACK * early:
        faults.append(f"p95 grew from {early:.1f} to {late:.1f} ms")
    for fault in faults:
        print(f"FAILED: {fault}")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
