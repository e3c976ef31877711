"""Choose the default's weights by all other domains, and measure the domain left out.

    python -m benchmarks.bench_domains [--data FOLDER] [--sets NAME ...] [--work FOLDER]

Each data set is a domain. It is indexed as `rag init` writes it, and searched with each pair of a
weight of vectors (BM25 has the rest) and a weight of MaxSim. The pair with the highest mean of the
other sets' published metrics is measured on the set itself.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean

import numpy as np

from benchmarks.bench_datasets import SETS, default_searcher, prepared, present, rag
from benchmarks.shared import heading, row
from rag_pipeline.config import load_config
from rag_pipeline.datamodels import SearchRequest
from rag_pipeline.evaluation.relevance import judge_chunks
from rag_pipeline.evaluation.retrieval_metrics import RANKING_METRICS, evaluate_query
from rag_pipeline.evaluation.runs import load_queries
from rag_pipeline.workspace import Workspace

PAIRS = tuple(product((40, 50, 60), (40, 50, 60)))
DEFAULT = (50, 50)
ENGLISH = [name for name in SETS if not name.startswith("xquad")]

Figures = dict[tuple[int, int], list[float]]
"""The published metrics of a set in percent, by both weights in percent."""


def measured(name: str, file: Path) -> Figures:
    """Return the published metrics of an indexed set under each pair of weights."""
    workspace = Workspace(load_config(file))
    searcher, queries = default_searcher(workspace), load_queries(workspace)
    index = searcher.index
    chunks = index.take(np.arange(len(index)), ["chunk_id", "document_id", "start", "end"])
    relevant = judge_chunks(queries, chunks)
    metrics = [metric for metric in RANKING_METRICS if metric.name in SETS[name].metrics]
    found: Figures = {}
    for dense, late in PAIRS:
        weights = {"dense_weight": dense / 100, "lexical_weight": 1 - dense / 100}
        weighed = replace(
            searcher,
            retriever=searcher.retriever.model_copy(update=weights),
            reranker=searcher.reranker.model_copy(update={"weight": late / 100}),
        )
        results = weighed.search_all(SearchRequest(query=query.query) for query in queries)
        values = [
            evaluate_query(query, result.chunks, chunk_ids, metrics, lost)
            for query, result in zip(queries, results, strict=True)
            for chunk_ids, lost in [relevant[query.query_id]]
        ]
        found[dense, late] = [100 * _mean(one[m.name] for one in values) for m in metrics]
    return found


def _mean(values: Iterable[float | None]) -> float:
    return fmean(value for value in values if value is not None)


def mean_gain(figures: Figures, pair: tuple[int, int]) -> float:
    """Return the mean gain of a pair of weights over the mean of all pairs, in points."""
    means = {one: sum(values) / len(values) for one, values in figures.items()}
    return means[pair] - sum(means.values()) / len(means)


def shown(values: list[float]) -> str:
    return " / ".join(f"{value:.1f}" for value in values)


def main() -> None:
    found: dict[str, Figures] = {}
    for name, data, work in present(__doc__, ENGLISH):
        file = prepared(name, data, work)
        rag("run", str(file), "--configuration", "default", "--quiet")
        found[name] = measured(name, file)
    show(found)


def show(found: dict[str, Figures]) -> None:
    """Print each domain's figures by default, and with the weights that the others choose."""
    heading("domain", "metrics", "default", "chosen on the others", "with these weights")
    for name, figures in found.items():
        others = [other for domain, other in found.items() if domain != name]
        best = max(PAIRS, key=lambda pair: sum(mean_gain(other, pair) for other in others))
        chosen = "{} %, {} %".format(*best)
        row(
            name,
            ", ".join(SETS[name].metrics),
            shown(figures[DEFAULT]),
            chosen,
            shown(figures[best]),
        )


if __name__ == "__main__":
    main()
