"""The multilingual embedding against the packaged one, in German, Chinese, and from English.

    python -m benchmarks.bench_languages

Each language has 20 documents and 80 questions (`rag_pipeline_tests/testing/languages.tsv`). They
are searched by vectors, by fusion with BM25, and by fusion with learned weights. A chunk has at
most 120 characters, so each fact is in one of about 200 chunks.
"""

import tempfile
from itertools import product
from pathlib import Path

from benchmarks.bench_datasets import rag
from benchmarks.corpora import write_corpus
from rag_pipeline.config import load_config
from rag_pipeline.evaluation.comparison import compare, pairs
from rag_pipeline.evaluation.leaderboard import load_leaderboard
from rag_pipeline.evaluation.runs import load_groups
from rag_pipeline.evaluation.scores import read_scores
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.language_set import Language, write_language_set

METRIC = "AnswerPresence@5"
RETRIEVERS = {
    "dense": {"method": "dense"},
    "hybrid": {"method": "hybrid"},
    "learned": {"method": "learned", "neighbour_weight": 0.1},
}
SETS: tuple[tuple[Language, str], ...] = (("de", "de"), ("zh", "zh"), ("de", "en"), ("zh", "en"))
"""The language of the documents, and of the questions."""
LEAST_GAIN = 0.30
"""Least gain of the multilingual model on English questions about German documents."""


def corpus_file(folder: Path, name: str) -> Path:
    """Write the corpus file: two embeddings, each with vectors alone and with BM25."""
    one = {"chunking": "by_tokens", "contextualizer": "none"}
    return write_corpus(
        folder,
        name,
        queries="queries.jsonl",
        chunkings={"by_tokens": {"method": "sentences", "max_characters": 120}},
        embeddings={"minilm": {"provider": "minilm"}, "e5": {"provider": "e5"}},
        retrievers=RETRIEVERS,
        lexical={"language": "auto"},
        configurations=[
            {"name": f"{embedding}_{retriever}", "embedding": embedding, "retriever": retriever}
            | one
            for embedding, retriever in product(("minilm", "e5"), RETRIEVERS)
        ],
    )


def indexed(work: Path, language: Language, asked: str) -> Workspace:
    """Index and evaluate one set."""
    name = f"{language}_by_{asked}"
    write_language_set(work / name, language, asked)
    file = corpus_file(work / name, name)
    rag("run", str(file), "--quiet")
    return Workspace(load_config(file))


def measure(work: Path, language: Language, asked: str) -> dict[str, float]:
    """Measure one set; print a line a configuration and return e5's gains."""
    workspace = indexed(work, language, asked)
    name = workspace.config.corpus
    for row in load_leaderboard(workspace).configurations:
        found = row.summary(METRIC)
        assert found.mean is not None and found.low is not None and found.high is not None
        interval = f"[{100 * found.low:.1f}, {100 * found.high:.1f}]"
        print(f"{name:10} {row.name:14} {100 * found.mean:5.1f} {interval} of {found.n}")
    gains = {}
    for retriever in RETRIEVERS:
        one, other = (read_scores(workspace, f"{e}_{retriever}") for e in ("e5", "minilm"))
        gain = compare(one, other, [METRIC], groups=load_groups(workspace))[METRIC]
        values = [(a, b) for a, b in pairs(one, other, METRIC) if a is not None and b is not None]
        gains[retriever] = sum(a - b for a, b in values) / len(values)
        assert gain.low is not None and gain.high is not None
        print(
            f"{name:10} e5 over minilm, {retriever}: {100 * gains[retriever]:+.1f} "
            f"[{100 * gain.low:+.1f}, {100 * gain.high:+.1f}], {gain.verdict}"
        )
    return gains


def main() -> None:
    """Measure both languages in themselves and from English; fail below the least gain."""
    with tempfile.TemporaryDirectory() as folder:
        gains = {(doc, asked): measure(Path(folder), doc, asked) for doc, asked in SETS}
    least = gains["de", "en"]["dense"]
    if least < LEAST_GAIN:
        raise SystemExit(f"English questions about German documents: only {100 * least:+.1f}")


if __name__ == "__main__":
    main()
