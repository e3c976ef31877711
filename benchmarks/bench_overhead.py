"""What the pipeline costs beside the model: its time, and its memory with more documents.

python -m benchmarks.bench_overhead
"""

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
from benchmarks.shared import options


def build(file: Path) -> dict[str, float]:
    """Run everything: load, chunk, embed, index, check, evaluate, release.

    The seconds of the whole, and of the model within it: the machine's speed may change from one
    run to the next.
    """
    import warnings

    warnings.simplefilter("ignore")
    from rag_pipeline.config import load_config
    from rag_pipeline.models.providers import open_embedder
    from rag_pipeline_tests.testing.dagster_projects import run

    config = load_config(file)
    embedder: Any = open_embedder(config.embeddings["minilm"])  # loaded before, as by a server
    embed, within = embedder.embed, 0.0

    def timed(*arguments: Any) -> Any:
        nonlocal within
        started = time.perf_counter()
        try:
            return embed(*arguments)
        finally:
            within += time.perf_counter() - started

    embedder.embed = timed
    started = time.perf_counter()
    for _ in run(config):
        pass
    return {"seconds": time.perf_counter() - started, "model": within}


def child(file: Path) -> dict[str, float]:
    """Run one measurement in a process of its own."""
    command = [sys.executable, "-m", __spec__.name, "--child", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    arguments = options(__doc__, documents=400, child=Path)
    if arguments.child:
        seconds = build(arguments.child)
        print(json.dumps({**seconds, "peak_mib": kibibytes("self", "VmHWM") / 1024}))
        return
    with tempfile.TemporaryDirectory() as folder:
        built = child(write_generated(Path(folder) / "time", arguments.documents, 10, 70))
        print(f"a whole run and the model within it, {10 * arguments.documents:,} chunks")
        print(f"  full run      {built['seconds']:8.1f} s")
        print(f"  model         {built['model']:8.1f} s")
        print(f"  ratio         {built['seconds'] / built['model']:8.2f}")
        small = child(write_generated(Path(folder) / "small", 100, 10, 12))
        large = child(write_generated(Path(folder) / "large", 1000, 10, 12))
        print("peak memory, 100 and 1,000 documents")
        print(f"  100           {small['peak_mib']:8.0f} MiB")
        print(f"  1,000         {large['peak_mib']:8.0f} MiB")
        print(f"  ratio         {large['peak_mib'] / small['peak_mib']:8.2f}   (at most 1.20)")


if __name__ == "__main__":
    main()
