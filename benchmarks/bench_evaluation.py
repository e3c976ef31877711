"""How long it takes to evaluate 24 configurations whose indexes exist, on the sample corpus.

python -m benchmarks.bench_evaluation
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

SAMPLE = Path(__file__).parents[1] / "rag_pipeline/defs/sample/defs.yaml"
RULES = [{"retriever": "dense", "reranker": "none"}, {"retriever": "discovery", "reranker": "*"}]


def write_file(folder: Path) -> Path:
    """Write the sample corpus with 24 configurations and a store of its own."""
    content = yaml.safe_load(SAMPLE.read_text())
    attributes, data = content["attributes"], SAMPLE.parents[3] / "data"
    attributes["documents"]["path"] = str(data / "documents")
    attributes["queries"] = str(data / "queries.jsonl")
    attributes["store"] = str(folder / "store")
    star = {"chunking": "*", "contextualizer": "*", "embedding": "minilm"}
    attributes["configurations"] = [{**star, **rule} for rule in RULES]
    attributes.pop("baseline")
    file = folder / "sample.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


def run(file: Path) -> tuple[float, float]:
    """Run `rag run` in a process of its own; return its wall and its processor seconds."""
    before, started = os.times(), time.perf_counter()
    command = [
        sys.executable,
        "-c",
        "from rag_pipeline.cli import main; main()",
        "run",
        str(file),
        "--quiet",
    ]
    subprocess.run(command, check=True)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user
    return time.perf_counter() - started, used - before.children_system


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        file = write_file(Path(name))
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
