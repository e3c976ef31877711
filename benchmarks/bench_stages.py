"""The gain of each step of an answer without a model: the default with and without the step.

    python -m benchmarks.bench_stages [--data FOLDER] [--sets NAME ...] [--work FOLDER] [--most N]

Prints gains in percentage points with the 95 % interval of the paired difference: how often the
first cited sentence, and any, hits the gold text; on the sample also the F1 of the facts. Boosted
queries are not part of the default; they are added to it.
"""

import sys
import zlib
from collections.abc import Callable

from benchmarks.bench_ablation import cell
from benchmarks.bench_citations import SETTINGS, SHARES, built, found_for, hits
from benchmarks.shared import working
from rag_pipeline import Corpus
from rag_pipeline.answering import detect, form_answers, sentence_vectors
from rag_pipeline.datamodels import Kind, Query
from rag_pipeline.evaluation.entities.rules import extract
from rag_pipeline.evaluation.entities.scores import score_entities
from rag_pipeline.evaluation.runs import load_queries
from rag_pipeline.evaluation.significance import differences

Metrics = dict[str, float]


def answered(
    corpus: Corpus, query: Query, kind: Kind, further: bool = True, boosted: bool = False
) -> Metrics:
    """Answer a question as the assistant does without a model; return what hits."""
    found = found_for(corpus, query, kind, further, boosted)
    (answer,) = form_answers([found], SETTINGS, sentence_vectors, corpus.calibration())
    cited = [hits(c, query) for c in answer.citations[: SETTINGS.sentences]]
    made = {"first cited": float(cited[:1] == [True]), "any cited": float(any(cited))}
    if query.entities:
        text = answer.text if answer.answered else ""
        score = score_entities(text, extract(text), query.entities, query.critical_types)
        made |= {"EntityF1": score.total.f1 or 0.0}
    return made


STAGES: dict[str, Callable[[Corpus, Query], tuple[Metrics, Metrics]]] = {
    "intent": lambda corpus, q: (
        answered(corpus, q, detect(q.query).kind),
        answered(corpus, q, "general"),
    ),
    "further passages": lambda corpus, q: (
        answered(corpus, q, detect(q.query).kind),
        answered(corpus, q, detect(q.query).kind, further=False),
    ),
    "boosted queries": lambda corpus, q: (
        answered(corpus, q, detect(q.query).kind, boosted=True),
        answered(corpus, q, detect(q.query).kind),
    ),
}
"""Each stage: a question's metrics with it, and without."""


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
    sys.stdout.write(f"\n| {name}, n = {len(queries)} | {' | '.join(metrics)} |\n")
    sys.stdout.write(f"|{'---|' * (len(metrics) + 1)}\n")
    for stage, measure in STAGES.items():
        both = [measure(corpus, query) for query in queries]
        found = differences({m: [(one[m], other[m]) for one, other in both] for m in metrics})
        sys.stdout.write(f"| {stage} | {' | '.join(cell(found[m]) for m in metrics)} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
