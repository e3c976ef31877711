"""Answers and contexts of the default and of context_aware against plain dense retrieval.

    python -m benchmarks.bench_answers [--data FOLDER] [--sets NAME ...]

The facts of the sample are annotated. On LegalBench-RAG the rules extract them from the gold text,
so its numbers are the share of these facts that an answer holds.
"""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from benchmarks.bench_datasets import rag
from benchmarks.corpora import write_sample
from benchmarks.shared import working
from rag_pipeline.config import load_config
from rag_pipeline.evaluation.entities.rules import extract
from rag_pipeline.evaluation.intervals import summarize
from rag_pipeline.evaluation.results import CONTEXT_SCORES, ENTITY_SCORES
from rag_pipeline.evaluation.scores import read_scores
from rag_pipeline.loading.queries import ENTITY_TYPES
from rag_pipeline.workspace import Workspace

METRICS = (
    "EntityPrecision",
    "EntityRecall",
    "EntityF1",
    "CriticalRecall",
    "ContextRelevance",
    "ContextPrecision",
    "UsageRate",
    "MissingItems",
)


def with_context_aware(attributes: dict[str, Any], plain: str) -> dict[str, str]:
    """Add the default over a context-aware retriever; return the compared configurations."""
    default = next(c for c in attributes["configurations"] if c.get("name") == "default")
    single_pass = dict(attributes["retrievers"][default["retriever"]])
    k = single_pass.pop("k")
    retriever = {"method": "context_aware", "over": single_pass, "k": k}
    attributes["retrievers"]["context_aware"] = retriever
    named = {**default, "name": "context_aware", "retriever": "context_aware"}
    attributes["configurations"].append(named)
    return {"plain": plain, "default": "default", "context_aware": "context_aware"}


def sample(work: Path) -> tuple[Path, dict[str, str]]:
    """Return the sample corpus with its own two configurations that are named, and a third."""
    names: dict[str, str] = {}

    def change(attributes: dict[str, Any]) -> None:
        attributes["configurations"] = [c for c in attributes["configurations"] if "name" in c]
        names.update(with_context_aware(attributes, "baseline"))

    return write_sample(work, change), names


def legalbench(work: Path, data: Path) -> tuple[Path, dict[str, str]]:
    """Import the set, and annotate each query with the facts of its gold text."""
    folder, file = work / "legalbench", work / "legalbench.yaml"
    if not folder.exists():
        rag("import", "legalbench-rag", str(data), str(folder), "--quiet")
    queries = folder / "queries.jsonl"
    records = [json.loads(line) for line in queries.read_text().splitlines()]
    for record in records:
        texts = [_gold_text(folder / "documents", span) for span in record["gold_spans"]]
        record["entities"] = {
            kind: facts
            for kind in ENTITY_TYPES
            if (facts := [[e.text] for e in extract("\n".join(texts)) if e.kind == kind])
        }
        record["critical_types"] = [k for k in ("TIME", "MONEY") if k in record["entities"]]
    queries.write_text("".join(json.dumps(record) + "\n" for record in records))
    rag(
        *("init", "legalbench", "--documents", str(folder / "documents")),
        *("--queries", str(queries), "--store", str(work / "store"), "--output", str(file)),
    )
    content = yaml.safe_load(file.read_text())
    names = with_context_aware(content["attributes"], "plain")
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file, names


def _gold_text(documents: Path, span: dict[str, Any]) -> str:
    if "start" not in span:
        return str(span["quote"])
    text = (documents / span["document_id"]).read_bytes().decode()
    return text[span["start"] : span["end"]]


def report(file: Path, names: dict[str, str]) -> None:
    """Print the metrics of the configurations, with 95 % intervals."""
    workspace = Workspace(load_config(file))
    for metric in METRICS:
        cells = []
        for shown, name in names.items():
            values = read_scores(workspace, name).get(metric, {})
            found = summarize(list(values.values()))
            if found.mean is None or found.low is None or found.high is None:
                cells.append(f"{shown} –")
                continue
            cells.append(
                f"{shown} {found.mean:.3f} [{found.low:.3f}, {found.high:.3f}] n = {found.n}"
            )
        sys.stdout.write(f"  {metric:18} {'   '.join(cells)}\n")
    for shown, name in names.items():
        note = ENTITY_SCORES.note(workspace, name)
        summary = note["summary"]
        micro = summary["micro"]["f1"]
        sys.stdout.write(
            f"  {shown}: F1 as the mean over queries {_shown(summary['mean_f1'])}, of the mean "
            f"precision and recall {_shown(summary['f1_of_means'])}, micro {_shown(micro)}\n"
        )
        health = CONTEXT_SCORES.note(workspace, name)["health"]
        figures = ", ".join(f"{key} {_shown(value)}" for key, value in health.items())
        sys.stdout.write(f"  {shown}: {figures}\n")
    sys.stdout.flush()


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


def main() -> None:
    with working(__doc__, ("sample", "legalbench-rag")) as arguments:
        work, data = arguments.work, arguments.data / "legalbench_rag"
        for name in arguments.sets:
            if name != "sample" and not data.is_dir():
                sys.stdout.write(f"{name}: no data at {data}; left out\n")
                continue
            file, names = sample(work) if name == "sample" else legalbench(work, data)
            rag("run", str(file), "--quiet")
            sys.stdout.write(f"\n{name}\n")
            report(file, names)


if __name__ == "__main__":
    main()
