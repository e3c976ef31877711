"""Do questions from the documents rank configurations as people's do? Kendall's tau.

    python -m benchmarks.bench_questions [--number N] [--work FOLDER]

Runs 24 configurations of the sample (4 chunkings x 2 contextualizers x 3 retrievers) over people's
questions and synthetic ones at once, and prints tau-b of the configurations' means by each metric.
"""

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import yaml
from scipy.stats import kendalltau

from benchmarks.bench_datasets import rag
from rag_pipeline.config import load_config
from rag_pipeline.evaluation.runs import load_queries
from rag_pipeline.evaluation.scores import read_scores
from rag_pipeline.workspace import Workspace

ROOT = Path(__file__).parents[1]
METRICS = ("AnswerPresence@1", "AnswerPresence@5", "nDCG@10", "RR@10")


def written(work: Path) -> Path:
    """Write the sample with 24 configurations; return its corpus file."""
    shutil.copytree(ROOT / "data" / "documents", work / "documents", dirs_exist_ok=True)
    shutil.copy(ROOT / "data" / "queries.jsonl", work / "queries.jsonl")
    content = yaml.safe_load((ROOT / "rag_pipeline/defs/sample/defs.yaml").read_text())
    stages = {"embedding": "minilm", "reranker": "none"}
    every = {"chunking": "*", "contextualizer": "*", "retriever": "*", **stages}
    content["attributes"] |= {
        "documents": {"path": "documents"},
        "queries": "queries.jsonl",
        "store": "store",
        "configurations": [every],
        "baseline": "recursive_500.none.minilm.dense.none",
    }
    file = work / "sample.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=150)
    parser.add_argument("--work", type=Path)
    arguments = parser.parse_args()
    work = arguments.work or Path(tempfile.mkdtemp())
    work.mkdir(exist_ok=True)
    file = written(work)
    started = time.perf_counter()
    rag("questions", str(file), "--add", "--number", str(arguments.number))
    print(f"made in {time.perf_counter() - started:.1f} s")
    rag("run", str(file), "--quiet")
    workspace = Workspace(load_config(file))
    synthetic = {q.query_id: q.synthetic for q in load_queries(workspace)}
    names = list(workspace.config.all_configurations)
    print(f"{len(names)} configurations; {sum(synthetic.values())} synthetic questions, "
          f"{len(synthetic) - sum(synthetic.values())} of people")  # fmt: skip
    print("| metric | tau-b | people, worst to best | synthetic |\n|---|---|---|---|")
    for metric in METRICS:
        sides = []
        for kind in (False, True):
            scores = [read_scores(workspace, name)[metric] for name in names]
            values = [[v for q, v in s.items() if synthetic[q] is kind and v is not None]
                      for s in scores]  # fmt: skip
            sides.append([sum(v) / len(v) for v in values])
        tau = kendalltau(*sides).statistic
        people, made = (f"{100 * min(s):.0f}-{100 * max(s):.0f} %" for s in sides)
        print(f"| {metric} | {tau:.2f} | {people} | {made} |")


if __name__ == "__main__":
    main()
