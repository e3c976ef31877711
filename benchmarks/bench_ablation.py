"""Measure the default configuration without each of its parts, on public data sets.

    python -m benchmarks.bench_ablation [--data FOLDER] [--sets NAME ...]

Prints a Markdown table of the differences in percentage points: the default minus the default
without a part, with the 95 % interval of the paired difference.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from benchmarks.bench_datasets import prepared, present, rag
from benchmarks.shared import heading, row
from rag_pipeline.config import load_config
from rag_pipeline.evaluation.comparison import pairs
from rag_pipeline.evaluation.scores import read_scores
from rag_pipeline.evaluation.significance import Difference, differences
from rag_pipeline.workspace import Workspace

METRICS = {
    "legalbench-rag": ("AnswerPresence@1", "AnswerPresence@5", "AnswerPresence@10"),
    "anthropic-contextual": ("R@5", "R@10", "R@20"),
    "chroma-chunking": ("SpanRecall@5", "IoU@5"),
    "contractnli": ("AnswerPresence@5",),
}

WITHOUT: dict[str, dict[str, Any]] = {
    "whole sentences in a chunk": {"chunking": "recursive_500"},
    "structural context": {"contextualizer": "none"},
    "vectors": {"retriever": {"dense_weight": 0.0}},
    "BM25": {"retriever": {"lexical_weight": 0.0}},
    "text above context in BM25": {"lexical": {"text_weight": 1}},
    "document score": {"retriever": {"document_weight": 0.0}},
    "query taken apart": {"retriever": {"split_query": False}},
    "neighbours": {"retriever": {"neighbour_weight": 0.0}},
    "MaxSim": {"reranker": "none"},
}
"""The change of the default that removes a part."""


def ablated(attributes: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield corpora with the default and with the default without each part.

    A setting of the whole corpus, such as `lexical`, needs its own corpus.
    """
    # These corpora lack the baseline.
    attributes = {key: value for key, value in attributes.items() if key != "baseline"}
    default = attributes["configurations"][0]
    retrievers = dict(attributes["retrievers"])
    configurations = [default]
    for means, change in WITHOUT.items():
        ((stage, value),) = change.items()
        name = means.replace(" ", "_")
        if stage == "lexical":
            corpus = f"{attributes['corpus']}_{name}"
            own = {"corpus": corpus, "configurations": [{**default, "name": name}]}
            yield {**attributes, **own, stage: {**attributes[stage], **value}}
            continue
        if stage == "retriever":
            retrievers[name] = {**retrievers[default[stage]], **value}
            value = name
        if not (stage == "chunking" and default[stage] == "given"):
            configurations.append({**default, "name": name, stage: value})
    yield {**attributes, "retrievers": retrievers, "configurations": configurations}


def measure(name: str, data: Path, work: Path) -> dict[str, dict[str, Difference]]:
    """Import and run one set; return the differences by part and metric."""
    file = prepared(name, data, work)
    written = yaml.safe_load(file.read_text())
    scores = {}
    for attributes in ablated(written["attributes"]):
        part = file.with_name(f"{attributes['corpus']}.yaml")
        part.write_text(yaml.safe_dump({**written, "attributes": attributes}))
        rag("run", str(part), "--quiet")
        config = load_config(part)
        for configuration in config.all_configurations:
            scores[configuration] = read_scores(Workspace(config), configuration)
    default = scores.pop("default")
    return {
        configuration: differences({m: pairs(default, other, m) for m in METRICS[name]})
        for configuration, other in scores.items()
    }


def main() -> None:
    for name, data, work in present(__doc__, METRICS):
        write(name, measure(name, data, work))


def write(name: str, found: dict[str, dict[str, Difference]]) -> None:
    """Print one set's table."""
    n = max(d.n for by_metric in found.values() for d in by_metric.values())
    print()
    heading(f"{name}, n = {n}", *METRICS[name])
    for means in WITHOUT:
        if by_metric := found.get(means.replace(" ", "_")):
            row(means, *(cell(by_metric[metric]) for metric in METRICS[name]))


def cell(difference: Difference) -> str:
    mean, low, high = (100 * (v or 0) for v in (difference.mean, difference.low, difference.high))
    return f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"


if __name__ == "__main__":
    main()
