"""Measure expansion on the sample corpus: when it looks outside, and whether it finds answers.

    python -m benchmarks.bench_expansion

First, each question is asked with and without its gold documents in the corpus. The AUC of the
answer's confidence is printed. Then a folder outside takes every fourth document. For questions
about indexed and held-out documents, the numbers of answers from gold documents and of searches
outside are printed, without and with expansion.
"""

import json
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpora import SAMPLE
from rag_pipeline import Corpus
from rag_pipeline.answering.confidence import auc
from rag_pipeline.assistant import Assistant, open_assistant, sentence_vectors
from rag_pipeline.config import DocumentsSource, load_config
from rag_pipeline.config.assistant import AssistantSettings
from rag_pipeline.datamodels import Document, Query, SearchRequest, SearchResult
from rag_pipeline.evaluation.runs import load_queries
from rag_pipeline.store import quoted
from rag_pipeline_tests.testing.dagster_projects import run

DATA = Path(__file__).parents[1] / "data"
HELD_OUT = 4
QUESTIONS = 24
"""Of each kind."""
THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)


class Without:
    """A corpus's release without some documents."""

    def __init__(self, corpus: Corpus, document_ids: set[str]) -> None:
        self.name = corpus.name
        self._corpus = corpus
        listed = ", ".join(quoted(document_id) for document_id in sorted(document_ids))
        self._where = f"document_id NOT IN ({listed})" if document_ids else None

    def search(self, request: SearchRequest) -> SearchResult:
        """Search the other documents."""
        request = replace(request, where=self._where, document_id=None, deepen=True, tokens=False)
        return self._corpus.retrieve(request)

    def document(self, document_id: str) -> Document:
        """Return a document."""
        return self._corpus.document(document_id)

    def describe(self) -> dict[str, Any]:
        """Return the name."""
        return {"name": self.name}


def main() -> None:
    for measure in (_separate, _measure):
        with tempfile.TemporaryDirectory() as name:
            measure(Path(name))


def _separate(folder: Path) -> None:
    config = load_config(SAMPLE).model_copy(update={"store": str(folder / "store")})
    list(run(config, "default"))
    corpus = Corpus(config)

    def confidence(query: Query, without: set[str]) -> float:
        assistant = Assistant(
            corpora={corpus.name: Without(corpus, without)},
            settings=AssistantSettings(),
            reader=sentence_vectors,
        )
        return assistant.ask(query.query).confidence or 0.0

    asked = [q for q in load_queries(corpus.workspace) if q.gold_spans]
    there = np.array([confidence(q, set()) for q in asked])
    gone = np.array([confidence(q, {s.document_id for s in q.gold_spans}) for q in asked])
    area = auc(there, gone)
    print(f"{len(asked)} questions with and without their gold documents: AUC {area:.3f}")
    for threshold in THRESHOLDS:
        less, more = (gone < threshold).mean(), (there < threshold).mean()
        rates = f"{less:.2f} of those without, {more:.2f} of those with"
        print(f"  min_confidence {threshold:.2f} looks outside for {rates}")


def _measure(folder: Path) -> None:
    files = sorted(p for p in (DATA / "documents").rglob("*") if p.is_file())
    held_out = {str(p.relative_to(DATA / "documents")) for p in files[::HELD_OUT]}
    for path in files:
        relative = path.relative_to(DATA / "documents")
        target = folder / ("outside" if str(relative) in held_out else "documents") / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    expansion = {"look_in": {"source": "folder", "path": str(folder / "outside")}}
    config = load_config(SAMPLE).model_copy(
        update={
            "documents": DocumentsSource(path=str(folder / "documents")),
            "store": str(folder / "store"),
            "assistant": AssistantSettings.model_validate({"expansion": expansion}),
        }
    )
    list(run(config, "default"))
    corpus = Corpus(config)
    plain = Corpus(config.model_copy(update={"assistant": AssistantSettings()}))
    records = [json.loads(line) for line in (DATA / "queries.jsonl").read_text().splitlines()]
    inside, outside = [], []
    for record in records:
        gold = {span["document_id"] for span in record["gold_spans"]}
        if gold:
            (outside if gold & held_out else inside).append((record["query"], gold))
    for kind, asked in (("indexed", inside), ("held out", outside)):
        for told, own in (("without", plain), ("with", corpus)):
            counted = _counts(open_assistant([own]), asked[:QUESTIONS])
            print(f"{kind:9}{told:8} {counted}", flush=True)


def _counts(assistant: Assistant, asked: list[tuple[str, set[str]]]) -> str:
    cited = looked = added = 0
    started = time.perf_counter()
    for query, gold in asked:
        made = assistant.ask(query)
        places = {s.origin["place"] if s.origin else s.document_id for s in made.sources}
        cited += bool(places & gold)
        added += any(s.origin for s in made.sources)
        looked += any("looked_in" in entry.detail for entry in made.trace)
    seconds = (time.perf_counter() - started) / max(len(asked), 1)
    return (
        f"n {len(asked)}, gold document cited {cited}, looked outside {looked}, "
        f"answered from outside {added}, {seconds:.2f} s a question"
    )


if __name__ == "__main__":
    main()
