"""What a change costs by the daemon's sensors, beside `rag run` of the same change.

Two copies of one built corpus get the same change: one document edited, then a threshold. One copy
is brought up to date by `rag run`, the other by a real daemon with its sensors. Printed are runs,
steps and seconds from the change to the end of the last run.

    python -m benchmarks.bench_automation
"""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import dagster as dg

from rag_pipeline.config import load_config
from rag_pipeline.pipeline.planning import plan_step, steps
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import (
    DOCUMENTS,
    write_corpus,
    write_documents,
    write_file,
)
from rag_pipeline_tests.testing.dagster_projects import (
    command,
    environment,
    running,
    wait_for,
    write_project,
)

SECONDS = 600
CHUNKINGS = {
    "semantic": {"method": "semantic", "threshold": 1.0, "min_characters": 20},
    "recursive": {"method": "recursive", "max_characters": 150},
}


def write(folder: Path, threshold: float) -> Path:
    semantic = {**CHUNKINGS["semantic"], "threshold": threshold}
    rules = [
        {"name": f"{chunking}-{retriever}", "chunking": chunking, "embedding": "minilm",
         "retriever": retriever}
        for chunking in CHUNKINGS
        for retriever in ("dense", "hybrid")
    ]  # fmt: skip
    chunkings = {**CHUNKINGS, "semantic": semantic}
    return write_file(folder, chunkings=chunkings, configurations=rules)


def edit(folder: Path) -> None:
    text = DOCUMENTS["policy/travel.md"].replace("180 euros", "250 euros")
    write_documents(folder / "documents", {"policy/travel.md": text})


def by_command(file: Path, folder: Path) -> float:
    started = time.perf_counter()
    there = {k: v for k, v in os.environ.items() if k != "DAGSTER_HOME"}
    subprocess.run(
        command("rag", "run", "-q", file), cwd=folder, env=there, check=True, capture_output=True
    )
    return time.perf_counter() - started


def is_current(file: Path) -> bool:
    workspace = Workspace(load_config(file))
    return not any(plan_step(workspace, step).must_run for step in steps(workspace.config))


def by_daemon(file: Path, folder: Path, change, restart: bool) -> tuple[int, int, float]:
    """Return runs, steps and seconds of a change.

    A running daemon sees documents. Settings it reads when it starts, so it is started after the
    change, and its start counts.
    """
    project = folder / "tiny_definitions.py"
    if not project.exists():
        project = write_project(folder, file)
        start = command("dagster", "sensor", "start", "--start-all", "-f", project)
        subprocess.run(start, cwd=folder, env=environment(folder), check=True, capture_output=True)
    log = folder / "daemon.log"
    started = time.perf_counter()
    if restart:
        change()
    with (
        running(command("dagster-daemon", "run", "-f", project), folder, log),
        dg.DagsterInstance.from_config(str(folder / "home")) as instance,
    ):

        def at_rest() -> bool:
            return is_current(file) and all(run.is_finished for run in instance.get_runs())

        before = {run.run_id for run in instance.get_runs()}
        if not restart:
            ticked = time.time()
            beats = instance.get_daemon_heartbeats
            wait_for(lambda: any(b.timestamp > ticked for b in beats().values()), SECONDS, log)
            started = time.perf_counter()
            change()
        wait_for(lambda: bool({r.run_id for r in instance.get_runs()} - before), SECONDS, log)
        wait_for(at_rest, SECONDS, log)
        seconds = time.perf_counter() - started
        runs = [run for run in instance.get_runs() if run.run_id not in before]
        made = sum(instance.get_run_stats(run.run_id).steps_succeeded for run in runs)
    return len(runs), made, seconds


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        theirs, ours = Path(name, "command"), Path(name, "daemon")
        theirs.mkdir()
        write_corpus(theirs)  # documents and queries
        file = write(theirs, 1.0)
        by_command(file, theirs)
        shutil.copytree(theirs, ours)
        changes = {
            "one document edited": edit,
            "one threshold changed": lambda folder: write(folder, 0.8),
        }
        print(f"{'change':24} {'rag run':>9} {'daemon':>9} {'ratio':>6} {'runs':>5} {'steps':>6}")
        for what, change in changes.items():
            restart = change is not edit
            done = by_daemon(ours / file.name, ours, lambda c=change: c(ours), restart)
            runs, made, seconds = done
            change(theirs)
            alone = by_command(file, theirs)
            ratio = seconds / alone
            print(f"{what:24} {alone:7.1f} s {seconds:7.1f} s {ratio:6.2f} {runs:5} {made:6}")


if __name__ == "__main__":
    main()
