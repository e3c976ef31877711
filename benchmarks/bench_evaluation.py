"""How long it takes to evaluate 24 configurations whose indexes exist, on the sample corpus.

python -m benchmarks.bench_evaluation
"""

import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.corpora import write_sample
from benchmarks.processes import cpu_of_children, run_watched

RULES = [{"retriever": "dense", "reranker": "none"}, {"retriever": "discovery", "reranker": "*"}]


def with_24(attributes: dict[str, Any]) -> None:
    """Give the sample corpus 24 configurations."""
    star = {"chunking": "*", "contextualizer": "*", "embedding": "minilm"}
    attributes["configurations"] = [{**star, **rule} for rule in RULES]
    attributes.pop("baseline")


def run(file: Path) -> tuple[float, float]:
    """Run `rag run` in a process of its own; return its wall and its processor seconds."""
    before, started = cpu_of_children(), time.perf_counter()
    run_watched(file)
    return time.perf_counter() - started, cpu_of_children() - before


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        file = write_sample(Path(name), with_24)
        built, _ = run(file)
        corpus = Path(name) / "store/sample"
        for part in ("evaluation", "releases", "released_scores"):
            shutil.rmtree(corpus / part)
        wall, used = run(file)
        board = json.loads((corpus / "evaluation/leaderboard.json").read_text())
        print(f"configurations        {len(board['configurations']):8d}")
        print(f"index and evaluate    {built:8.1f} s")
        print(f"evaluate alone        {wall:8.1f} s   (under 60 s on 2 cores)")
        print(f"  processor time      {used:8.1f} s")


if __name__ == "__main__":
    main()
