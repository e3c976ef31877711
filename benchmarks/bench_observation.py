"""Show many partitions in Dagster: the ticks of the observing sensor.

Prints a row per tick, until Dagster shows every partition, and two more ticks, then a look of the
sensor of stale partitions. Sensors end a tick after 15 seconds and go on at the next tick. Here
they count CPU seconds, as the machine may be busy.

Without `built`, the corpus is new. With `built`, `rag run` makes the partitions of four
configurations. The other configurations have the same settings under other names, so their results
are copies of these files. Leaderboard and release stay stale. A new process of the code server, an
event of one partition and a changed retriever follow.

    python -m benchmarks.bench_observation PARTITIONS [built]
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import dagster as dg

from rag_pipeline.config import load_config
from rag_pipeline.orchestration import observing, staleness
from rag_pipeline.orchestration.names import asset_key
from rag_pipeline.orchestration.observing import Observer
from rag_pipeline.orchestration.requests import survey
from rag_pipeline.orchestration.staleness import ShownState, Statuses
from rag_pipeline.pipeline.planning import Step, stale_steps, steps
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import write_corpus, write_file
from rag_pipeline_tests.testing.dagster_projects import command


def show(observer: Observer, context: dg.SensorEvaluationContext, whole: int = 3) -> None:
    """Print the ticks of a sensor until all was shown `whole` times, and a look for stale steps."""
    left = 0
    asked: list[Step] = []
    real = ShownState._reconcile

    def counted(shown: ShownState, own: list[Step], *more: Any) -> bool:
        asked.extend(own)
        return real(shown, own, *more)

    with patch.object(ShownState, "_reconcile", counted):
        while whole:
            asked.clear()
            cpu, started = time.process_time(), time.perf_counter()
            said, later = observer.observe_at_rest(context, left)
            cpu, seconds = time.process_time() - cpu, time.perf_counter() - started
            told = f"{cpu:6.1f} CPU s {seconds:6.1f} s  looked up: {len(asked):5}  {said}"
            print(told, flush=True)
            left, whole = later or 0, whole - (not later)
    cpu = time.process_time()
    survey(observer.now(), context.instance, one_run=True)
    print(f"{time.process_time() - cpu:6.1f} CPU s  a look of the sensor of stale partitions")


def compare(observer: Observer, context: dg.SensorEvaluationContext) -> None:
    """Ask Dagster itself about some 200 partitions, and compare with `rag plan`."""
    workspace = observer.now()
    every, stale = steps(workspace.config), stale_steps(workspace)
    statuses = Statuses(context.instance, observer.graph(context))
    some = every[:: max(1, len(every) // 200)]
    fresh = {
        s for s in some if statuses.is_fresh(asset_key(workspace.config, s.asset), s.partition)
    }
    wrong = fresh.symmetric_difference(step for step in some if step not in stale)
    print(f"{len(some)} asked, {len(wrong)} not as planned: {wrong}")


def copy_results(store: Path, count: int) -> None:
    """Copy the results of `dense_1` for the retrievers up to `dense_COUNT`, which are alike."""
    for file in [f for f in store.rglob("*.dense_1.*") if "tables" not in f.parts]:
        for number in range(2, count + 1):
            shutil.copyfile(file, file.with_name(file.name.replace("dense_1.", f"dense_{number}.")))


def main() -> None:
    """Print the ticks of a corpus with about as many partitions."""
    for module in (observing, staleness):
        vars(module)["time"] = SimpleNamespace(time=time.time, monotonic=time.process_time)
    count, built = int(sys.argv[1]) // 20, "built" in sys.argv
    sizes = {f"recursive_{n}": {"method": "recursive", "max_characters": n} for n in (150, 300)}
    alike = {f"dense_{number}": {"method": "dense", "k": 5} for number in range(1, count + 1)}
    every = {"chunking": "*", "contextualizer": "*", "embedding": "minilm", "retriever": "*"}
    settings: dict[str, Any] = {"chunkings": sizes, "configurations": [every]}
    with tempfile.TemporaryDirectory() as name, dg.DagsterInstance.local_temp() as instance:
        if built:
            one = {"dense_1": alike["dense_1"]}
            file = write_corpus(Path(name), **settings, retrievers=one)
            subprocess.run(command("rag", "run", "-q", file), check=True, capture_output=True)
            copy_results(Path(name) / "store", count)
            write_file(Path(name), **settings, retrievers=alike)
        else:
            file = write_corpus(Path(name), **settings, retrievers=alike)
        observer = Observer(Workspace(load_config(file)))
        context = dg.build_sensor_context(instance)
        print(f"{len(steps(observer.now().config))} partitions", flush=True)
        show(observer, context)
        if built:
            print("another process of the code server")
            observer = Observer(Workspace(load_config(file)))
            show(observer, context, 2)
            print("an event of one partition")
            event = dg.AssetMaterialization(["tiny", "chunks"], partition="recursive_300")
            instance.report_runless_asset_event(event)
            show(observer, context, 2)
            print("a changed retriever")
            alike["dense_1"]["k"] = 4
            write_file(Path(name), **settings, retrievers=alike)
            show(observer, context)
            compare(observer, context)


if __name__ == "__main__":
    main()
