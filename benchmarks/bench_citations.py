"""The share of cited sentences that hit the gold text, in answers of the default without a model.

    python -m benchmarks.bench_citations [--data FOLDER] [--sets NAME ...] [--work FOLDER] [--fit]

`answering.extractive.FEATURES` is fitted to the questions of half of the documents. The output is
for the other questions, and for all. `--fit` prints the weights that the first half gives.
"""

import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.bench_datasets import SETS as PUBLIC
from benchmarks.bench_datasets import prepared, rag
from benchmarks.corpora import write_sample
from benchmarks.shared import working
from rag_pipeline import Corpus
from rag_pipeline.answering.confidence import read_result
from rag_pipeline.answering.extractive import FEATURES, sentence_features
from rag_pipeline.answering.forms import contexts_of, distinct, form_answers, most_contexts_of
from rag_pipeline.answering.intent import detect
from rag_pipeline.answering.reading import sentence_vectors
from rag_pipeline.config import ExtractiveAnswers, load_config
from rag_pipeline.datamodels import (
    Citation,
    Kind,
    Query,
    ScoredChunk,
    SearchRequest,
    SearchResult,
)
from rag_pipeline.evaluation.runs import load_queries

Floats = npt.NDArray[np.float64]
SHARES = {"sample": 1.0, "legalbench-rag": 0.3, "chroma-chunking": 0.5, "privacy-qa": 0.0}
"""How much each set's questions count in the fit: the largest is no more than twice the least.

`FEATURES` is fitted without PrivacyQA.
"""
_PENALTY = 3.0
SETTINGS = ExtractiveAnswers()


class Measured(NamedTuple):
    """One question: whether it is reported, its hits, and its features."""

    reported: bool
    held: bool
    cited: list[bool]
    features: Floats
    hits: Floats


def hits(span: Citation | ScoredChunk | tuple[str, int, int], query: Query) -> bool:
    document_id, start, end = (
        span if isinstance(span, tuple) else (span.document_id, span.start, span.end)
    )
    return any(
        gold.document_id == document_id and start < gold.end and gold.start < end
        for gold in query.gold_spans
    )


def _reported(query: Query, name: str) -> bool:
    gold = query.gold_spans[0].document_id
    # Chroma's three long documents are split by their questions.
    return bool(
        zlib.crc32(f"{gold}{query.query_id if name.startswith('chroma') else ''}".encode()) % 2
    )


def found_for(
    corpus: Corpus, query: Query, kind: Kind, further: bool = True, boosted: bool = False
) -> SearchResult:
    """Return a query with the passages that the assistant reads without a model.

    Without `further` these are the first passages alone; `boosted` searches in stages.
    """
    contexts = contexts_of(query.query, kind, SETTINGS)
    request = SearchRequest(
        query=query.query,
        k=most_contexts_of(query.query, kind, SETTINGS) if further else contexts,
        stages=(3, 1) if boosted else None,
        deepen=False,
        tokens=True,
    )
    found = corpus.retrieve(request)
    return replace(found, chunks=distinct(found.chunks), kind=kind, contexts=contexts)


def measured(name: str, corpus: Corpus) -> Iterator[Measured]:
    """Answer each question that has gold as the assistant does without a model."""
    for query in load_queries(corpus.workspace):
        if not query.gold_spans:
            continue
        found = found_for(corpus, query, detect(query.query).kind)
        (answer,) = form_answers([found], SETTINGS, sentence_vectors, corpus.calibration())
        read, _ = read_result(found, sentence_vectors)
        sentences, features = sentence_features(
            found.search_text, read, sentence_vectors, found.token_weights
        )
        places = [(s.chunk.document_id, s.start, s.start + len(s.text)) for s in sentences]
        yield Measured(
            _reported(query, name),
            any(hits(one.chunk, query) for one in read),
            [hits(c, query) for c in answer.citations[: SETTINGS.sentences]],
            features,
            np.array([hits(place, query) for place in places], float),
        )


def fitted(rows: Sequence[tuple[float, Measured]]) -> Floats:
    """Return the weights of a logistic regression, for features as they are."""
    rows = [(share, one) for share, one in rows if one.hits.any()]
    features = np.vstack([one.features for _, one in rows])
    hits = np.concatenate([one.hits for _, one in rows])
    counts = np.concatenate([np.full(len(one.hits), s / len(one.hits)) for s, one in rows])
    counts *= len(counts) / counts.sum()
    scale = features.std(axis=0) + 1e-9
    inputs = np.c_[(features - features.mean(axis=0)) / scale, np.ones(len(features))]
    penalty = np.diag([_PENALTY] * features.shape[1] + [1e-6])
    weights = np.zeros(inputs.shape[1])
    for _ in range(30):  # Newton's method
        chance = 1 / (1 + np.exp(-inputs @ weights))
        gradient = inputs.T @ (counts * (chance - hits)) + penalty @ weights
        curve = (inputs * (counts * chance * (1 - chance))[:, None]).T @ inputs + penalty
        weights -= np.linalg.solve(curve, gradient)
    found: Floats = weights[:-1] / scale
    return found


def _line(told: str, rows: Sequence[Measured]) -> str:
    held = np.mean([one.held for one in rows])
    first = np.mean([one.cited[:1] == [True] for one in rows])
    some = np.mean([any(one.cited) for one in rows])
    cited = np.mean([len(one.cited) for one in rows])
    return (
        f"  {told:9} n {len(rows):3}   passages hold it {100 * held:5.1f}   first cited hits "
        f"{100 * first:5.1f}   any {100 * some:5.1f} ({100 * some / held:5.1f} of held)   "
        f"{cited:.2f} cited\n"
    )


def main() -> None:
    with working(__doc__, SHARES, fit=False) as arguments:
        of_set: dict[str, list[Measured]] = {}
        for name in arguments.sets:
            corpus = built(name, arguments.data, arguments.work / name)
            of_set[name] = list(measured(name, corpus))
            sys.stdout.write(f"{name}\n")
            sys.stdout.write(_line("reported", [o for o in of_set[name] if o.reported]))
            sys.stdout.write(_line("all", of_set[name]))
            sys.stdout.flush()
        if arguments.fit:
            own = [(SHARES[n], o) for n, rows in of_set.items() for o in rows if not o.reported]
            for feature, weight in zip(FEATURES, fitted(own), strict=True):
                sys.stdout.write(f"  {feature:20} {weight:6.2f}   now {FEATURES[feature]:6.2f}\n")


def built(name: str, data: Path, work: Path) -> Corpus:
    """Return a set's corpus with its default configuration released."""
    work.mkdir(parents=True, exist_ok=True)
    file = work / name / "corpus.yaml"
    if name == "sample":
        file = write_sample(work)
    elif not file.exists():
        prepared(name, data / PUBLIC[name].path, work)
    rag("run", str(file), "--configuration", "default", "--quiet")
    return Corpus(load_config(file))


if __name__ == "__main__":
    main()
