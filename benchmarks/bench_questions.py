"""Compare the ranking of configurations by synthetic and by people's questions: Kendall's tau.

    python -m benchmarks.bench_questions [--set sample] [--number N] [--documents N] [--work FOLDER]

Runs 24 configurations of the sample (4 chunkings x 2 contextualizers x 3 retrievers), or 12 of a
public set (2 chunkings). Prints tau-b of the configurations' means by each metric. A public set is
cut to its first documents by name.
"""

import argparse
import json
import math
import shutil
import time
from pathlib import Path

import numpy as np
import yaml
from scipy.stats import kendalltau

from benchmarks.bench_datasets import SETS, rag
from benchmarks.corpora import SAMPLE
from benchmarks.shared import heading, row, working
from rag_pipeline.config import load_config
from rag_pipeline.evaluation.runs import load_queries
from rag_pipeline.evaluation.scores import read_scores
from rag_pipeline.pipeline.driver import make
from rag_pipeline.pipeline.planning import plan_step, steps
from rag_pipeline.workspace import Workspace

ROOT = Path(__file__).parents[1]
NOT_NEEDED = {"answers", "entity_scores", "context_scores", "leaderboard", "release"}
METRICS = ("AnswerPresence@1", "AnswerPresence@5", "nDCG@10", "RR@10")


def written(work: Path, name: str, data: Path, most: int) -> Path:
    """Write a corpus with all its configurations; return its corpus file."""
    file = work / f"{name}.yaml"
    if file.exists():  # built before: only what changed is asked again
        return file
    content = yaml.safe_load(SAMPLE.read_text())
    chunkings = content["attributes"]["chunkings"]
    if name == "sample":
        shutil.copytree(ROOT / "data" / "documents", work / "documents")
        shutil.copy(ROOT / "data" / "queries.jsonl", work / "queries.jsonl")
    else:
        rag("import", name, str(data / SETS[name].path), str(work), "--quiet")
        cut(work, most)
        chunkings = {key: chunkings[key] for key in ("recursive_500", "sentences_600")}
    stages = {"embedding": "minilm", "reranker": "none"}
    every = {"chunking": "*", "contextualizer": "*", "retriever": "*", **stages}
    content["attributes"] |= {
        "corpus": name,
        "documents": {"path": "documents"},
        "queries": "queries.jsonl",
        "store": "store",
        "chunkings": chunkings,
        "configurations": [every],
        "baseline": "recursive_500.none.minilm.dense.none",
    }
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


def cut(work: Path, most: int) -> None:
    """Keep the first documents and the questions about these alone."""
    files = sorted(path for path in (work / "documents").rglob("*") if path.is_file())
    for path in files[most:]:
        path.unlink()
    kept = {path.relative_to(work / "documents").as_posix() for path in files[:most]}
    queries = work / "queries.jsonl"
    lines = queries.read_text().splitlines()
    about = [{s["document_id"] for s in json.loads(line)["gold_spans"]} for line in lines]
    kept_lines = [line for line, own in zip(lines, about, strict=True) if own <= kept]
    queries.write_text("".join(f"{line}\n" for line in kept_lines))


def main() -> None:
    sets = ("sample", "legalbench-rag", "contractnli", "chroma-chunking")
    with working(__doc__, set=sets, documents=24, number=150) as arguments:
        measure(arguments)


def measure(arguments: argparse.Namespace) -> None:
    """Make questions, run every configuration over them and people's, and print the table."""
    file = written(arguments.work, arguments.set, arguments.data, arguments.documents)
    started = time.perf_counter()
    rag("questions", str(file), "--add", "--number", str(arguments.number))
    print(f"made in {time.perf_counter() - started:.1f} s")
    workspace = Workspace(load_config(file))
    for step in steps(workspace.config):
        if step.asset not in NOT_NEEDED and plan_step(workspace, step).must_run:
            make(workspace, step)
    synthetic = {q.query_id: q.synthetic for q in load_queries(workspace)}
    names = list(workspace.config.all_configurations)
    print(f"{len(names)} configurations; {sum(synthetic.values())} synthetic questions, "
          f"{len(synthetic) - sum(synthetic.values())} of people")  # fmt: skip
    halved = ("two halves of people's", "two halves of synthetic")
    heading("metric", "tau-b", *halved, "corrected", "people, worst to best", "synthetic")
    people, others = (np.array([q for q, s in synthetic.items() if s == k]) for k in (False, True))
    for metric in METRICS:
        scores = [read_scores(workspace, name)[metric] for name in names]
        asked, made = means(scores, people), means(scores, others)
        halves = [agreement_of_halves(scores, ids) for ids in (people, others)]
        # The reliability of a whole set from its halves (Spearman and Brown, 1910).
        reachable = math.sqrt(math.prod(2 * r / (1 + r) for r in halves))
        tau = kendalltau(asked, made).statistic
        figures = (f"{figure:.2f}" for figure in (tau, *halves, tau / reachable))
        wide = (f"{100 * min(s):.0f}-{100 * max(s):.0f} %" for s in (asked, made))
        row(metric, *figures, *wide)


def agreement_of_halves(scores, query_ids) -> float:
    """Return the mean tau of the rankings by two halves of the questions, over 200 divisions."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(200):
        halves = np.array_split(rng.permutation(query_ids), 2)
        one, other = (means(scores, half) for half in halves)
        found.append(kendalltau(one, other).statistic)
    return float(np.nanmean(found))


def means(scores, query_ids) -> list[float]:
    """Return each configuration's mean over the questions that it has a value of."""
    found = []
    for own in scores:
        values = [own[q] for q in query_ids if own.get(q) is not None]
        found.append(sum(values) / len(values))
    return found


if __name__ == "__main__":
    main()
