"""What the pipeline costs beside the model: time over the raw embedder, memory over corpus size.

python -m benchmarks.bench_overhead
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.corpora import write_generated
from benchmarks.processes import kibibytes


def raw(file: Path) -> float:
    """Return the seconds that the bare model needs for the texts of a built index."""
    from rag_pipeline.config import load_config
    from rag_pipeline.workspace import Workspace

    workspace = Workspace(load_config(file))
    texts: list[str] = []
    for batch in workspace.vector_index("recursive.none.minilm").read(["text"]):
        texts.extend(batch.column("text").to_pylist())
    embedder: Any = workspace.embedder("minilm")
    started = time.perf_counter()
    for positions in embedder.batches(texts):
        embedder.embed([texts[i] for i in positions], "document")
    return time.perf_counter() - started


def build(file: Path) -> float:
    """Return the seconds of a full run: load, chunk, embed, index, check, evaluate, release."""
    import warnings

    warnings.simplefilter("ignore")
    from rag_pipeline.config import load_config
    from rag_pipeline.models.providers import open_embedder
    from rag_pipeline.orchestration.runner import run

    config = load_config(file)
    open_embedder(config.embeddings["minilm"])  # loading the model is not the pipeline's work
    started = time.perf_counter()
    for _ in run(config):
        pass
    return time.perf_counter() - started


def child(what: str, file: Path) -> dict[str, float]:
    """Run one measurement in a process of its own."""
    command = [sys.executable, "-m", __spec__.name, "--child", what, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=400)
    parser.add_argument("--child", nargs=2)
    arguments = parser.parse_args()
    if arguments.child:
        what, file = arguments.child
        seconds = {"raw": raw, "build": build}[what](Path(file))
        print(json.dumps({"seconds": seconds, "peak_mib": kibibytes("self", "VmHWM") / 1024}))
        return
    with tempfile.TemporaryDirectory() as folder:
        file = write_generated(Path(folder) / "time", arguments.documents, 10, 70)
        built = child("build", file)
        bare = child("raw", file)
        print("pipeline over raw embedder, 10 chunks a document")
        print(f"  full run      {built['seconds']:8.1f} s")
        print(f"  raw embedder  {bare['seconds']:8.1f} s")
        print(f"  ratio         {built['seconds'] / bare['seconds']:8.2f}   (at most 1.15)")
        small = child("build", write_generated(Path(folder) / "small", 100, 10, 12))
        large = child("build", write_generated(Path(folder) / "large", 1000, 10, 12))
        print("peak memory, 100 and 1,000 documents")
        print(f"  100           {small['peak_mib']:8.0f} MiB")
        print(f"  1,000         {large['peak_mib']:8.0f} MiB")
        print(f"  ratio         {large['peak_mib'] / small['peak_mib']:8.2f}   (at most 1.20)")


if __name__ == "__main__":
    main()
