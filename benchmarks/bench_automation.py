"""Compare the cost of a change by the daemon's sensors or a backfill with `rag run`.

Two built copies of the sample corpus get the same changes: an edited document, a changed threshold,
a new embedding with a configuration, and other retrievers for two configurations. `rag run` updates
one copy, a real daemon the other: by its sensors, and after the last change by a backfill without
sensors. Prints runs, steps, seconds from the change to the end of the last run, and CPU seconds of
all processes. Sensors tick every second, to leave out the daemon's own waiting. Also prints the CPU
seconds of loading the definitions and of importing Dagster, each the least of five.

    python -m benchmarks.bench_automation
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from benchmarks.processes import cpu_of_children
from rag_pipeline.config import load_config
from rag_pipeline.indexing import listing_digest, loaded_listing
from rag_pipeline.pipeline.planning import plan_step, steps
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.dagster_projects import (
    command,
    environment,
    running,
    wait_for,
    write_project,
)

SECONDS = 3600
RETRIEVERS = ("dense", "discovery")
"""The retrievers of the two configurations that are backfilled."""
_LOAD = "import rag_pipeline.definitions as d; d.defs()"
_REPOSITORY = Path(__file__).parents[1]
_BACKFILL = """mutation ($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message }
  }
}"""
_BACKFILLED = (
    *("retrieval_run", "answer_presence", "answers", "entity_scores", "context_scores"),
    *("leaderboard", "release"),
)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a change cost: `runs` and `steps` in Dagster, wall and CPU seconds."""

    runs: int
    steps: int
    seconds: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Corpus:
    """A copy of the sample corpus, with the changes that are made to it."""

    file: Path

    def edit(self) -> None:
        """Add a sentence to the end of a document."""
        file = min((self.file.parent / "data/documents").rglob("*.md"))
        file.write_text(file.read_text() + "\nNotices are sent by registered letter.\n")

    def set_threshold(self) -> None:
        """Change how one chunking splits."""
        with self._attributes() as attributes:
            attributes["chunkings"]["semantic_2_0"]["threshold"] = 1.8

    def add_embedding(self) -> None:
        """Add the packaged model without token vectors, and a configuration that uses it."""
        with self._attributes() as attributes:
            attributes["embeddings"]["minilm_plain"] = {"provider": "minilm"}
            attributes["configurations"].append(
                {
                    "name": "plain_vectors",
                    "chunking": "recursive_500",
                    "contextualizer": "none",
                    "embedding": "minilm_plain",
                    "retriever": "dense",
                }
            )

    def set_retrievers(self) -> None:
        """Change the retrievers of two configurations."""
        with self._attributes() as attributes:
            for name in RETRIEVERS:
                attributes["retrievers"][name]["k"] -= 1

    @contextmanager
    def _attributes(self) -> Iterator[dict[str, Any]]:
        read = yaml.safe_load(self.file.read_text())
        yield read.get("attributes", read)
        self.file.write_text(yaml.safe_dump(read, sort_keys=False))


def sample(folder: Path) -> Corpus:
    """Copy the sample corpus to a folder."""
    left_out = shutil.ignore_patterns("store")
    shutil.copytree(_REPOSITORY / "data", folder / "data", ignore=left_out)
    file = folder / "sample.yaml"
    shutil.copy(_REPOSITORY / "rag_pipeline/defs/sample/defs.yaml", file)
    return Corpus(file)


def by_command(corpus: Corpus) -> Cost:
    """Bring a corpus up to date by `rag run`."""
    there = {k: v for k, v in os.environ.items() if k != "DAGSTER_HOME"}
    before, started = cpu_of_children(), time.perf_counter()
    run = command("rag", "run", "-q", corpus.file)
    subprocess.run(run, cwd=corpus.file.parent, env=there, check=True, capture_output=True)
    return Cost(0, 0, time.perf_counter() - started, cpu_of_children() - before)


class Daemon:
    """A daemon at work in a corpus's folder, with its sensors on."""

    def __init__(self, corpus: Corpus, instance: dg.DagsterInstance, pid: int) -> None:
        self._corpus, self._instance, self._pid = corpus, instance, pid
        self._folder = corpus.file.parent
        self._log = self._folder / "daemon.log"

    def costs_of(self, *changes: Callable[[], object]) -> Cost:
        """Make changes, and return what their runs cost until nothing is stale."""
        wait_for(self._is_at_rest, SECONDS, self._log)
        before = {run.run_id for run in self._instance.get_runs()}
        for change in changes:
            change()
        cpu, started = _cpu_of_session(self._pid), time.time()

        def is_done() -> bool:
            new = any(run.run_id not in before for run in self._instance.get_runs())
            return new and self._is_at_rest()

        wait_for(is_done, SECONDS, self._log)
        cpu = _cpu_of_session(self._pid) - cpu
        records = [
            r for r in self._instance.get_run_records() if r.dagster_run.run_id not in before
        ]
        ended = max(record.end_time or started for record in records)
        stats = [self._instance.get_run_stats(record.dagster_run.run_id) for record in records]
        return Cost(len(records), sum(s.steps_succeeded for s in stats), ended - started, cpu)

    def backfill(self) -> None:
        """Ask for two configurations, and what compares all, as Dagster's page of assets does."""
        config = load_config(self._corpus.file)
        changed = [c.name for c in config.configurations if c.retriever in RETRIEVERS]
        keys = [{"path": [config.corpus, name]} for name in _BACKFILLED]
        asked = {"params": {"assetSelection": keys, "partitionNames": changed}}
        self._program("dagster-graphql", "-t", _BACKFILL, "-v", json.dumps(asked))

    def stop_sensors(self) -> None:
        for name in ("changed_documents", "stale_partitions", "observed_inputs"):
            full = f"{load_config(self._corpus.file).corpus}__{name}"
            self._program("dagster", "sensor", "stop", full)

    def _program(self, name: str, *arguments: str) -> None:
        line = command(name, *arguments, "-f", self._folder / "tiny_definitions.py")
        there = environment(self._folder)
        done = subprocess.run(line, cwd=self._folder, env=there, capture_output=True, text=True)
        if done.returncode or "PythonError" in done.stdout or '"errors"' in done.stdout:
            sys.exit(f"{line}: {done.stdout}{done.stderr}")

    def _is_at_rest(self) -> bool:
        if not all(run.is_finished for run in self._instance.get_runs()):
            return False
        config = load_config(self._corpus.file)
        workspace = Workspace(config)
        stale = any(plan_step(workspace, step).must_run for step in steps(config))
        return not stale and listing_digest(config) == loaded_listing(workspace)


@contextmanager
def daemon_of(corpus: Corpus) -> Iterator[Daemon]:
    """Start a daemon with its sensors on; wait until it and its code server answer."""
    folder = corpus.file.parent
    project = write_project(folder, corpus.file)
    log = folder / "daemon.log"
    with (
        running(command("dagster-daemon", "run", "-f", project), folder, log) as process,
        dg.DagsterInstance.from_config(str(folder / "home")) as instance,
    ):

        def has_ticked() -> bool:
            states = instance.all_instigator_state()
            return any(
                instance.get_ticks(s.instigator_origin_id, s.selector_id, limit=1) for s in states
            )

        wait_for(has_ticked, SECONDS, log)
        yield Daemon(corpus, instance, process.pid)


def _cpu_of(code: str) -> float:
    """Return the CPU seconds of a process that runs some code."""
    before = cpu_of_children()
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, cwd=_REPOSITORY)
    return cpu_of_children() - before


def _cpu_of_session(leader: int) -> float:
    """Return the CPU seconds of the processes of a session and of those that they waited for."""
    ticks = 0
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        if int(fields[3]) == leader:
            ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print the costs of each change."""
    # As for users: without compiled files, every process compiles the project.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for what, code in (("definitions loaded", _LOAD), ("Dagster alone", "import dagster")):
        print(f"{what:22} {min(_cpu_of(code) for _ in range(5)):6.2f} CPU s", flush=True)
    with tempfile.TemporaryDirectory() as name:
        theirs, ours = Path(name, "command"), Path(name, "daemon")
        theirs.mkdir()
        alone = sample(theirs)
        by_command(alone)
        shutil.copytree(theirs, ours)
        watched = Corpus(ours / alone.file.name)
        print(f"{'':22} {'rag run':>18} {'daemon':>18} {'ratio':>6} {'runs':>5} {'steps':>6}")
        with daemon_of(watched) as daemon:
            for what, change in {
                "document edited": Corpus.edit,
                "threshold changed": Corpus.set_threshold,
                "embedding added": Corpus.add_embedding,
                "two backfilled": Corpus.set_retrievers,
            }.items():
                changes: list[Callable[[], object]] = [partial(change, watched)]
                if change is Corpus.set_retrievers:
                    daemon.stop_sensors()
                    changes.append(daemon.backfill)
                cost = daemon.costs_of(*changes)
                change(alone)
                least = by_command(alone)
                print(
                    f"{what:22} {least.seconds:6.1f} s {least.cpu:5.1f} CPU {cost.seconds:6.1f} s "
                    f"{cost.cpu:5.1f} CPU {cost.seconds / least.seconds:6.2f} {cost.runs:5} "
                    f"{cost.steps:6}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
