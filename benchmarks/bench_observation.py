"""Show many partitions in Dagster: the ticks of the observing sensor on a new corpus.

Prints a row per tick, until Dagster shows every partition, and two more ticks. The last row is one
look of the sensor of stale partitions. With `built`, `rag run` makes all partitions before, and a
changed size of chunks follows. The sensor ends a tick after 20 seconds and goes on at the next
tick. Here it counts CPU seconds, as the machine may be busy.

    python -m benchmarks.bench_observation PARTITIONS [built]
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import dagster as dg

from rag_pipeline.config import load_config
from rag_pipeline.orchestration import observing, staleness
from rag_pipeline.orchestration.observing import Observer
from rag_pipeline.orchestration.requests import survey
from rag_pipeline.pipeline.planning import steps
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import write_corpus, write_file
from rag_pipeline_tests.testing.dagster_projects import command


def show(observer: Observer, context: dg.SensorEvaluationContext) -> None:
    """Print the ticks of a sensor until all is shown, and two ticks more."""
    left, whole = 0, 0
    while whole < 3:
        cpu, started = time.process_time(), time.perf_counter()
        said, later = observer.observe_at_rest(context, left)
        cpu, seconds = time.process_time() - cpu, time.perf_counter() - started
        print(f"{cpu:6.1f} CPU s {seconds:6.1f} s  {said}", flush=True)
        left, whole = later or 0, whole + (not later)
    cpu = time.process_time()
    survey(observer.now(), context.instance, one_run=True)
    print(f"{time.process_time() - cpu:6.1f} CPU s  a look of the sensor of stale partitions")


def main() -> None:
    """Print the ticks of a corpus with about as many partitions."""
    for module in (observing, staleness):
        vars(module)["time"] = SimpleNamespace(time=time.time, monotonic=time.process_time)
    count, built = int(sys.argv[1]), "built" in sys.argv
    sizes = {f"recursive_{n}": {"method": "recursive", "max_characters": n} for n in (150, 300)}
    retrievers = {f"dense_{k}": {"method": "dense", "k": k} for k in range(1, count // 20 + 1)}
    every = {"chunking": "*", "contextualizer": "*", "embedding": "minilm", "retriever": "*"}
    settings = {"chunkings": sizes, "retrievers": retrievers, "configurations": [every]}
    with tempfile.TemporaryDirectory() as name, dg.DagsterInstance.local_temp() as instance:
        file = write_corpus(Path(name), **settings)
        if built:
            subprocess.run(command("rag", "run", "-q", file), check=True, capture_output=True)
        observer = Observer(Workspace(load_config(file)))
        context = dg.build_sensor_context(instance)
        print(f"{len(steps(observer.now().config))} partitions", flush=True)
        show(observer, context)
        if built:
            sizes["recursive_150"]["max_characters"] = 140
            write_file(Path(name), **settings)
            show(observer, context)


if __name__ == "__main__":
    main()
