"""Compare the prediction of `rag plan --migrate` with the gain of all or some new vectors.

    python -m benchmarks.bench_migrate

The models are the packaged MiniLM and the multilingual e5, the data the sets of `bench_languages`,
the metric AnswerPresence@5 of vectors alone. First: the gain that a sample of 60 chunks predicts,
and the gain of all chunks. Then: the share of that gain with new vectors for 5, 25 or 100 % of the
chunks, documents of other questions first. The other old vectors are mapped into the new space by
the orthogonal map (Schoenemann 1966) of the chunks with both vectors.
"""

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.bench_languages import SETS, indexed
from rag_pipeline.datamodels import Query, Vectors
from rag_pipeline.evaluation.relevance import relevant_chunks
from rag_pipeline.evaluation.runs import load_queries
from rag_pipeline.pipeline.migration import DEPTH, predict
from rag_pipeline.search.vector_index import vectors_of
from rag_pipeline_tests.testing.language_set import Language

OLD, NEW = "minilm", "e5"
KEY = "by_tokens.none"
PARTS = (0.05, 0.25, 1.0)


def mapped(old: Vectors, new: Vectors, others: Vectors) -> Vectors:
    """Return other old vectors in the new space, by the map between these pairs of vectors."""
    left, right = old - old.mean(0), new - new.mean(0)
    u, _, v = np.linalg.svd(left.T @ right)
    length = np.linalg.norm(right) / max(float(np.linalg.norm(left)), 1e-9)
    turned = (others - old.mean(0)) @ u @ v * length + new.mean(0)
    unit: Vectors = turned / np.linalg.norm(turned, axis=1, keepdims=True)
    return unit


def share(vectors: Vectors, asked: Vectors, ids: list[str], gold: list[frozenset[str]]) -> float:
    """Return the share of questions that one of the first chunks answers."""
    best = np.argsort(-(asked @ vectors.T), axis=1, kind="stable")[:, :DEPTH]
    hits = [any(ids[i] in right for i in row) for row, right in zip(best, gold, strict=True)]
    return float(np.mean(hits))


def first(documents: list[str], others: list[Query], part: float) -> np.ndarray:
    """Return which chunks are embedded first: those of documents that others ask about most."""
    asked = Counter(d for query in others for d in query.answering_documents)
    order = sorted(range(len(documents)), key=lambda n: (-asked[documents[n]], documents[n]))
    mine = np.zeros(len(documents), bool)
    mine[order[: max(2, round(part * len(documents)))]] = True
    return mine


def measure(work: Path, language: Language, asked_in: str) -> None:
    """Print the predicted and the measured gain of one set."""
    workspace = indexed(work, language, asked_in)
    found = predict(workspace, OLD, NEW, most_chunks=60)
    gain = found.gain
    assert gain.mean is not None and gain.low is not None and gain.high is not None
    columns = ["chunk_id", "document_id", "start", "end", "vector"]
    batches = (workspace.vector_index(f"{KEY}.{e}").read(columns) for e in (OLD, NEW))
    tables = [pa.Table.from_batches(list(read)).sort_by("chunk_id") for read in batches]
    ids, documents = (tables[0].column(n).to_pylist() for n in ("chunk_id", "document_id"))
    assert ids == tables[1].column("chunk_id").to_pylist()
    old, new = map(vectors_of, tables)
    queries = load_queries(workspace)
    relevant = relevant_chunks(queries, tables[0])
    halves = [queries[0::2], queries[1::2]]
    totals = dict.fromkeys(("old", *PARTS), 0.0)
    for half, others in (halves, halves[::-1]):
        gold = [relevant[query.query_id] for query in half]
        texts = [query.query for query in half]
        by_old, by_new = (workspace.embed(e, None, "query")(texts).vectors for e in (OLD, NEW))
        totals["old"] += share(old, by_old, ids, gold) / 2
        for part in PARTS:
            mine = first(documents, others, part)
            mixed = np.where(mine[:, None], new, mapped(old[mine], new[mine], old))
            totals[part] += share(mixed, by_new, ids, gold) / 2
    whole = totals[1.0] - totals["old"]
    print(
        f"{language} by {asked_in}: predicted {100 * gain.mean:+.1f} ({100 * gain.low:+.1f} to "
        f"{100 * gain.high:+.1f}) from {found.sampled} of {found.chunks} chunks and "
        f"{found.questions} questions; found {100 * whole:+.1f} of {len(queries)}: "
        f"{100 * totals['old']:.1f} -> {100 * totals[1.0]:.1f}"
    )
    for part in PARTS:
        of_whole = (totals[part] - totals["old"]) / whole if whole else float("nan")
        print(
            f"  {100 * part:5.0f} % embedded: {100 * totals[part]:5.1f}, "
            f"{100 * of_whole:6.1f} % of the gain"
        )


def main() -> None:
    """Measure German and Chinese, and English questions about German documents."""
    with tempfile.TemporaryDirectory() as folder:
        for language, asked_in in SETS[:3]:
            measure(Path(folder), language, asked_in)


if __name__ == "__main__":
    main()
