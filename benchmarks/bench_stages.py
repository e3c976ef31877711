"""The gain of each step of an answer without a model: the default with and without the step.

    python -m benchmarks.bench_stages [--data FOLDER] [--sets NAME ...] [--work FOLDER] [--most N]

Prints gains in percentage points with the 95 % interval of the paired difference: how often the
first cited sentence, and any, hits the gold text; on the sample also the F1 of the facts. Boosted
queries are not part of the default; they are added to it.
"""

import zlib
from typing import Any

from benchmarks.bench_ablation import cell
from benchmarks.bench_citations import SETTINGS, SHARES, built, found_for, hits
from benchmarks.shared import heading, row, working
from rag_pipeline import Corpus
from rag_pipeline.answering.forms import form_answers
from rag_pipeline.answering.intent import detect
from rag_pipeline.answering.reading import sentence_vectors
from rag_pipeline.datamodels import Kind, Query
from rag_pipeline.evaluation.entities.rules import extract
from rag_pipeline.evaluation.entities.scores import score_entities
from rag_pipeline.evaluation.runs import load_queries
from rag_pipeline.evaluation.significance import differences


def answered(
    corpus: Corpus,
    query: Query,
    kind: Kind | None = None,
    further: bool = True,
    boosted: bool = False,
) -> dict[str, float]:
    """Answer a question as the assistant does without a model; return what hits."""
    found = found_for(corpus, query, kind or detect(query.query).kind, further, boosted)
    (answer,) = form_answers([found], SETTINGS, sentence_vectors, corpus.calibration())
    cited = [hits(c, query) for c in answer.citations[: SETTINGS.sentences]]
    made = {"first cited": float(cited[:1] == [True]), "any cited": float(any(cited))}
    if query.entities:
        text = answer.text if answer.answered else ""
        score = score_entities(text, extract(text), query.entities, query.critical_types)
        made |= {"EntityF1": score.total.f1 or 0.0}
    return made


STAGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "intent": ({}, {"kind": "general"}),
    "further passages": ({}, {"further": False}),
    "boosted queries": ({"boosted": True}, {}),
}
"""The settings of an answer with each stage, and without."""


def main() -> None:
    with working(__doc__, SHARES, most=1_000) as arguments:
        for name in arguments.sets:
            corpus = built(name, arguments.data, arguments.work / name)
            report(name, corpus, arguments.most)


def report(name: str, corpus: Corpus, most: int) -> None:
    """Print a set's table."""
    queries = [q for q in load_queries(corpus.workspace) if q.gold_spans]
    queries = sorted(queries, key=lambda q: zlib.crc32(q.query_id.encode()))[:most]
    metrics = ["first cited", "any cited", *(["EntityF1"] if name == "sample" else [])]
    print()
    heading(f"{name}, n = {len(queries)}", *metrics)
    for stage, sides in STAGES.items():
        both = [[answered(corpus, query, **side) for side in sides] for query in queries]
        found = differences({m: [(one[m], other[m]) for one, other in both] for m in metrics})
        row(stage, *(cell(found[m]) for m in metrics))


if __name__ == "__main__":
    main()
