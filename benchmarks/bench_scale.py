"""How build, memory, size and latency grow with the corpus: 10^4, 10^5, 10^6 chunks.

    python -m benchmarks.bench_scale [--chunks N ...] [--folder DIR]

Builds the default of `rag init` over generated documents (see `scale_corpus`) with the product's
code. Vectors and token vectors are random. Every step runs in its own process, and its peak is the
resident memory of that process. The time of a query excludes its embedding. `--folder` keeps the
build and skips finished steps; `scale_plot` draws its measurements. `--step` is for the processes
of the steps.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.processes import kibibytes
from benchmarks.scale_corpus import Asked, ScaleCorpus
from benchmarks.shared import options
from rag_pipeline.config import load_config
from rag_pipeline.datamodels import SearchRequest
from rag_pipeline.indexing import (
    TablePartition,
    build_shard,
    finish,
    open_partition,
    plan,
    update,
    update_documents,
    update_lexical,
)
from rag_pipeline.indexing.tables import read_in_order
from rag_pipeline.models.embedding import Embedded
from rag_pipeline.pipeline.planning import Step, plan_step, steps
from rag_pipeline.pipeline.template import write_corpus_file
from rag_pipeline.search import vector_index
from rag_pipeline.search.index import Index
from rag_pipeline.search.lexical_index import open_lexical_index
from rag_pipeline.search.reranking.late_interaction import MaxSimReranker
from rag_pipeline.search.reranking.none import NoReranker
from rag_pipeline.search.retrieval import Searcher
from rag_pipeline.search.retrievers import single_pass
from rag_pipeline.store.schemas import CONTEXTUALIZED_CHUNKS_SCHEMA
from rag_pipeline.workspace import Workspace

QUERIES, WARM = 200, 20
CONFIGURATION = "default"
Result = dict[str, Any]


class Scale:
    """One corpus of generated documents in a folder."""

    def __init__(self, folder: Path, chunks: int) -> None:
        self.folder = folder
        self.documents = folder / "documents"
        self.corpus = ScaleCorpus(chunks)
        self.file = folder / "scale.yaml"
        if not self.file.exists():
            self.documents.mkdir(parents=True, exist_ok=True)
            places = "scale", self.documents, None, str(folder / "store"), self.file
            write_corpus_file(*places, shown=str(self.file), force=False)
        self.config = load_config(self.file)
        self.workspace = Workspace(self.config)
        self.chosen = self.config.configuration(CONFIGURATION)

    def vectors(self) -> TablePartition:
        """Return the vector table with random vectors."""
        key = self.chosen.vector_key
        partition = open_partition(self.workspace, "vector_index", key)

        def build(ids: Sequence[str], _: object) -> Iterator[pa.RecordBatch]:
            names = CONTEXTUALIZED_CHUNKS_SCHEMA.names
            for batch in read_in_order(partition.upstream, names, ids):
                documents = batch.column("document_id").to_pylist()

                def made(texts: Sequence[str], of: Sequence[str] = documents) -> Embedded:
                    return self.corpus.embedded(texts, of)

                yield from vector_index.index_chunks(
                    [batch], made, partition.table.schema, partition.fingerprint
                )

        return replace(partition, build=build)

    def edit(self) -> None:
        """Write another edition of one document."""
        editions = self.folder / "editions"
        edition = int(editions.read_text()) + 1 if editions.exists() else 1
        editions.write_text(str(edition))
        self.corpus.write_one(self.documents, self.corpus.documents // 2, edition)

    def index(self) -> Index:
        lexical = self.workspace.lexical_path(self.chosen.context_key, "bm25s")
        folder = self.workspace.store.local_folder(lexical)
        table = self.workspace.vector_index(self.chosen.vector_key)
        return Index.open(table.dataset(), open_lexical_index(folder))

    def queries(self, index: Index) -> list[Asked]:
        at = np.linspace(0, len(index) - 1, QUERIES).astype(np.int64)
        rows = index.take(at, ["document_id", "text", "vector"])
        vectors = vector_index.vectors_of(rows)
        texts, ids = rows.column("text").to_pylist(), rows.column("document_id").to_pylist()
        return [
            self.corpus.asked(text, document_id, vector, seed)
            for seed, (text, document_id, vector) in enumerate(
                zip(texts, ids, vectors, strict=True)
            )
        ]


# --- steps ---


def generate(scale: Scale) -> Result:
    scale.corpus.write(scale.documents)
    return {"documents": scale.corpus.documents}


def documents(scale: Scale) -> Result:
    return {"documents": update_documents(scale.workspace).documents}


def chunks(scale: Scale) -> Result:
    return {"rows": update(scale.workspace, "chunks", scale.chosen.chunking).rows}


def contexts(scale: Scale) -> Result:
    return {"rows": update(scale.workspace, "contextualized_chunks", scale.chosen.context_key).rows}


def lexical(scale: Scale) -> Result:
    return {"rows": update_lexical(scale.workspace, scale.chosen.context_key).rows}


def vectors(scale: Scale) -> Result:
    partition = scale.vectors()
    return {"rows": sum(build_shard(partition, shard).rows for shard in plan(partition).shards)}


def vector_maintenance(scale: Scale) -> Result:
    finish(scale.vectors(), [], changed=True)
    return {}


def opened(scale: Scale) -> Result:
    return {"rows": len(scale.index())}


def queried(scale: Scale) -> Result:
    index = scale.index()
    queries = scale.queries(index)
    retriever = single_pass(scale.config.retrievers[scale.chosen.retriever])
    assert retriever.method == "hybrid"
    rerankers = {
        "hybrid": NoReranker(method="none"),
        "hybrid, maxsim": MaxSimReranker(method="maxsim", weight=0.5, candidates=50),
    }
    result: Result = {}
    for name, reranker in rerankers.items():
        seconds = []
        for query in [*queries[:WARM], *queries]:
            started = time.perf_counter()
            searcher = Searcher(
                index=index, retriever=retriever, reranker=reranker, embed=query.embed
            )
            searcher.search(SearchRequest(query=query.text))
            seconds.append(time.perf_counter() - started)
        p50, p95 = 1000 * np.percentile(seconds[WARM:], [50, 95])
        result |= {f"{name} p50 ms": round(p50, 1), f"{name} p95 ms": round(p95, 1)}
    return result


def recalled(scale: Scale) -> Result:
    """Return the share of the ten nearest by exact search that the index finds."""
    index = scale.index()
    queries = scale.queries(index)
    asked = np.array([query.encoded.vectors[0] for query in queries])
    nearest = np.zeros((len(queries), 0), np.int64)
    cosines = np.zeros((len(queries), 0), np.float32)
    for batch in index.table.to_batches(["vector"], batch_size=8192, with_row_id=True):
        rows = pa.Table.from_batches([batch])
        found = asked @ vector_index.vectors_of(rows).T
        ids = np.broadcast_to(rows.column("_rowid").to_numpy().astype(np.int64), found.shape)
        nearest = np.concatenate([nearest, ids], axis=1)
        cosines = np.concatenate([cosines, found], axis=1)
        best = np.argsort(-cosines, axis=1)[:, :10]
        nearest = np.take_along_axis(nearest, best, axis=1)
        cosines = np.take_along_axis(cosines, best, axis=1)
    shares = [
        np.isin(
            vector_index.search(index.table, query.encoded.vectors[0], 200)
            .slice(0, 10)
            .column("_rowid")
            .to_numpy()
            .astype(np.int64),
            exact,
        ).mean()
        for query, exact in zip(queries, nearest, strict=True)
    ]
    return {"recall@10": round(float(np.mean(shares)), 4)}


def unchanged(scale: Scale) -> Result:
    """Plan every indexing step, as `rag run` does, and find nothing to do."""
    every = steps(scale.config, CONFIGURATION)
    wanted = [s for s in every if s.row.table or s.row.kind == "bm25"]
    todo = [plan_step(scale.workspace, step) for step in wanted]
    return {"steps": len(todo), "stale": sum(plan.must_run for plan in todo)}


def changed(scale: Scale) -> Result:
    """Edit one document, and bring every table and index up to date."""
    scale.edit()
    result: Result = {}
    done: dict[str, Callable[[], object]] = {
        "documents": lambda: documents(scale),
        "chunks": lambda: chunks(scale),
        "contexts": lambda: contexts(scale),
        "lexical": lambda: lexical(scale),
        "vectors": lambda: _revise_vectors(scale),
    }
    for name, act in done.items():
        started = time.perf_counter()
        act()
        result[f"{name} s"] = round(time.perf_counter() - started, 2)
    if plan_step(scale.workspace, Step("vector_index", scale.chosen.vector_key)).must_run:
        raise RuntimeError("one changed document is not up to date")
    return result


def _revise_vectors(scale: Scale) -> None:
    partition = scale.vectors()
    todo = plan(partition)
    for shard in todo.shards:
        build_shard(partition, shard)
    finish(partition, todo.orphaned, changed=True)


STEPS: dict[str, Callable[[Scale], Result]] = {
    step.__name__: step
    for step in (
        *(generate, documents, chunks, contexts, lexical, vectors, vector_maintenance),
        *(opened, queried, recalled, unchanged, changed),
    )
}
BUILDING = tuple(STEPS)[:7]
"""Steps that are done once in a folder."""


def run_step(scale: Scale, name: str) -> Result:
    started, cpu = time.perf_counter(), time.process_time()
    result = STEPS[name](scale)
    return {
        "seconds": round(time.perf_counter() - started, 1),
        "cpu": round(time.process_time() - cpu, 1),
        "peak_mib": kibibytes("self", "VmHWM") // 1024,
        **result,
    }


def sizes(scale: Scale) -> Result:
    files = scale.workspace.store.files
    places = {name: f"tables/{name}" for name in files.list("tables")}
    places["lexical"] = scale.workspace.lexical_path(scale.chosen.context_key, "bm25s")
    total = {name: sum(files.sizes(path).values()) for name, path in sorted(places.items())}
    return {name: round(size / 2**20) for name, size in total.items()}


def measure(folder: Path, chunks: int) -> None:
    """Run every step over one size, and print a line for each."""
    print(f"\n{chunks:,} chunks")
    done = folder / "done.json"
    known: dict[str, Result] = json.loads(done.read_text()) if done.exists() else {}
    for name in STEPS:
        if name not in BUILDING or name not in known:
            arguments = ["--step", name, "--folder", str(folder), "--chunks", str(chunks)]
            command = [sys.executable, "-W", "ignore", "-m", __spec__.name, *arguments]
            made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            known[name] = json.loads(made.stdout.splitlines()[-1])
            done.write_text(json.dumps(known, indent=1))
        said = "  ".join(f"{key} {value}" for key, value in known[name].items())
        print(f"  {name:20} {said}", flush=True)
    scale = Scale(folder, chunks)
    known["sizes"] = sizes(scale)
    done.write_text(json.dumps(known, indent=1))
    said = "  ".join(f"{name} {size}" for name, size in known["sizes"].items())
    print(f"  MiB on disk          {said}")


def main() -> None:
    given = options(__doc__, chunks=[10_000, 100_000, 1_000_000], folder=Path, step="")
    if given.step:
        print(json.dumps(run_step(Scale(given.folder, given.chunks[0]), given.step)))
        return
    for chunks in given.chunks:
        with tempfile.TemporaryDirectory() as temporary:
            folder = (given.folder or Path(temporary)) / str(chunks)
            folder.mkdir(parents=True, exist_ok=True)
            measure(folder, chunks)


if __name__ == "__main__":
    main()
