"""Expansion on the sample corpus: every fourth document is held out and put into a folder.

    python -m rag_pipeline_tests.benchmarks.bench_expansion

Prints how many questions about indexed and about held-out documents are quoted from their gold
documents, without and with expansion, and how often was looked outside.
"""

import json
import shutil
import tempfile
import time
from pathlib import Path

from rag_pipeline import Corpus
from rag_pipeline.assistant import Assistant, open_assistant
from rag_pipeline.config import DocumentsSource, load_config
from rag_pipeline.config.assistant import AssistantSettings
from rag_pipeline.orchestration.runner import run

DATA = Path(__file__).parents[2] / "data"
CORPUS = Path(__file__).parents[2] / "rag_pipeline" / "defs" / "sample" / "defs.yaml"
HELD_OUT = 4
QUESTIONS = 24
"""Of each kind."""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        _measure(Path(name))


def _measure(folder: Path) -> None:
    files = sorted(p for p in (DATA / "documents").rglob("*") if p.is_file())
    held_out = {str(p.relative_to(DATA / "documents")) for p in files[::HELD_OUT]}
    for path in files:
        relative = path.relative_to(DATA / "documents")
        target = folder / ("outside" if str(relative) in held_out else "documents") / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    expansion = {"look_in": {"source": "folder", "path": str(folder / "outside")}}
    config = load_config(CORPUS).model_copy(
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
        for told, assistant in (
            ("without", open_assistant([plain])),
            ("with", open_assistant([corpus])),
        ):
            counted = _counts(assistant, asked[:QUESTIONS])
            print(f"{kind:9}{told:8}", *counted, flush=True)


def _counts(assistant: Assistant, asked: list[tuple[str, set[str]]]) -> list[str]:
    cited = looked = added = 0
    started = time.perf_counter()
    for query, gold in asked:
        made = assistant.ask(query)
        places = {s.origin["place"] if s.origin else s.document_id for s in made.sources}
        cited += bool(places & gold)
        added += any(s.origin for s in made.sources)
        looked += any("looked_in" in s.detail for s in made.stages)
    seconds = (time.perf_counter() - started) / max(len(asked), 1)
    return [
        f"n {len(asked)}, gold document cited {cited}, looked outside {looked},",
        f"answered from outside {added}, {seconds:.2f} s a question",
    ]


if __name__ == "__main__":
    main()
