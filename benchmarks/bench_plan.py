"""Whether a plan knows how long a first run takes: expected and spent processor time by stage.

python -m benchmarks.bench_plan [--folder FOLDER]

Without a folder, it plans the sample. A folder gets the corpus file of `rag init` and made
questions. Processor time, because the load of the machine may change between plan and run.
"""

import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from benchmarks.shared import options
from rag_pipeline.config import load_config
from rag_pipeline.pipeline.driver import Done, Event, load_and_cut
from rag_pipeline.pipeline.dry_run import START, RunPlan, durations, plan_run
from rag_pipeline.pipeline.planning import steps
from rag_pipeline.workspace import Workspace

_SAMPLE = Path(__file__).parents[1] / "data"
_ONE_PROCESSOR = SimpleNamespace(sched_getaffinity=lambda _: {0})
"""Replaces `os`, so that seconds of embedding are processor time too."""


def compare(file: Path) -> None:
    """Plan and run a corpus with an empty store, and print the seconds of each stage."""
    workspace = Workspace(load_config(file))
    load_and_cut(workspace)
    planned = plan_run(workspace)
    with mock.patch.object(durations, "os", _ONE_PROCESSOR):
        rows, start, _ = durations.measure(workspace, planned)
    expected = defaultdict[str, float](float, {START: start})
    for row in rows:
        expected[row.step.asset] += row.seconds or 0.0
    spent = defaultdict[str, float](float)

    def listen(event: Event) -> None:
        if isinstance(event, Done):
            spent[event.step.asset] += event.cpu_seconds

    began = time.process_time()
    from rag_pipeline.orchestration.one_run import run_steps  # imports Dagster, as a run does

    run_steps(RunPlan(workspace, steps(workspace.config)), listen, lambda *_: None)
    spent[START] = time.process_time() - began - sum(spent.values())
    for stage, seconds in sorted(expected.items(), key=lambda pair: -pair[1]):
        print(f"  {stage:<22} expected {seconds:6.1f} s  spent {spent[stage]:6.1f} s")
    wanted, took = sum(expected.values()), sum(spent.values())
    print(f"  {wanted:.1f} s expected, {took:.1f} s spent: {took / wanted:.2f}")


def main() -> None:
    folder = options(__doc__, folder=Path).folder
    with tempfile.TemporaryDirectory() as temporary:
        file, store = Path(temporary, "bench.yaml"), str(Path(temporary, "store"))
        given = [] if folder else ["--queries", str(_SAMPLE / "queries.jsonl")]
        documents = str(folder or _SAMPLE / "documents")
        paths = ("--documents", documents, "--output", str(file), "--store", store)
        rag("init", "bench", *paths, *given)
        if folder:
            rag("questions", str(file))
        compare(file)


def rag(*arguments: str) -> None:
    """Run a command of `rag` in a process of its own, as a user does."""
    code = "from rag_pipeline.cli import main; main()"
    subprocess.run([sys.executable, "-c", code, *arguments], check=True)


if __name__ == "__main__":
    main()
