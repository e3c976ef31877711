"""Let a real daemon keep three small corpora current through changes, mistakes and accidents.

Prints a row per event: runs, steps made, seconds from the event to the end of the last run, their
CPU seconds with those of the daemon, and seconds and CPU seconds of `rag run` for the same change
of a copy. After each event nothing may be stale, no run unfinished, and no slot of a pool taken.
Sensors tick every second, to leave out the daemon's own waiting. With a folder, the daemon's home
stays there, to be looked at in the UI. At the end, prints the events and bytes of a run, and the
CPU seconds of a daemon and its code server at rest.

    python -m benchmarks.bench_automation [FOLDER]
"""

import json
import os
import shutil
import signal
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
from rag_pipeline.orchestration.recovery import process_of
from rag_pipeline.pipeline.planning import plan_step, steps
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import DOCUMENTS, rule, write_corpus
from rag_pipeline_tests.testing.dagster_projects import (
    HOME,
    command,
    environment,
    running,
    wait_for,
)
from rag_pipeline_tests.testing.servers import free_port

SECONDS = 1800
REST_SECONDS = 300
NAMES = ("first", "second", "third")
_STARTED, _CANCELED = dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELED
_POOLS = "concurrency: {pools: {default_limit: 1}}\n"
_DEFINITIONS = """
from pathlib import Path
import dagster as dg
from rag_pipeline.config import load_config
from rag_pipeline.errors import ProviderError
from rag_pipeline.indexing import tables
from rag_pipeline.orchestration import automation, observing
from rag_pipeline.orchestration.component import build_definitions
from rag_pipeline.orchestration.executors import chosen_executor

if %r:
    automation.SENSOR_SECONDS, observing.LOOK_SECONDS = 1, 20
_build = tables.build_chunks


def build_chunks(workspace, partition, ids, report):
    if str(partition) == "markdown" and Path(%r).exists():
        raise ProviderError("the model is out of order")
    return _build(workspace, partition, ids, report)


tables.build_chunks = build_chunks
defs = dg.Definitions.merge(
    dg.Definitions(executor=chosen_executor()), *map(build_definitions, map(load_config, %r))
)
for sensor in defs.sensors:
    sensor._default_status = dg.DefaultSensorStatus.RUNNING
"""
_BACKFILL = """mutation ($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message }
  }
}"""


@dataclass(frozen=True, slots=True)
class Cost:
    """What an event cost: `runs` and `steps` in Dagster, wall and CPU seconds."""

    runs: int
    steps: int
    seconds: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Corpus:
    """A small corpus, with the changes that are made to it."""

    file: Path

    @property
    def documents(self) -> Path:
        return self.file.parent / "documents"

    def edit(self) -> None:
        file = self.documents / "policy/travel.md"
        file.write_text(file.read_text() + "\nReceipts are kept for ten years.\n")

    def add_document(self) -> None:
        text = DOCUMENTS["nda/acme.txt"].replace("Acme", "Elm")
        (self.documents / "nda/elm.txt").write_text(text)

    def delete_document(self) -> None:
        (self.documents / "nda/elm.txt").unlink()

    def set_threshold(self, characters: int) -> None:
        with self._attributes() as attributes:
            attributes["chunkings"]["recursive_150"]["max_characters"] = characters

    def set_embedding(self) -> None:
        with self._attributes() as attributes:
            attributes["embeddings"] = {"minilm": {"provider": "minilm", "token_vectors": True}}

    def remove_configuration(self) -> None:
        with self._attributes() as attributes:
            attributes["configurations"].pop()

    def alter_chunk(self) -> None:
        """Change a chunk's text behind the pipeline's back, which its blocking check refuses."""
        table = Workspace(load_config(self.file)).chunks("recursive_150").open()
        table.update(where="document_id = 'nda/acme.txt'", values={"text": "something else"})

    @contextmanager
    def _attributes(self) -> Iterator[dict[str, Any]]:
        read = yaml.safe_load(self.file.read_text())
        yield read["attributes"]
        self.file.write_text(yaml.safe_dump(read, sort_keys=False))


def small(folder: Path, name: str) -> Corpus:
    """Write a corpus of four documents and three configurations."""
    folder.mkdir(parents=True)
    chosen = [rule("one"), rule("two", "markdown"), rule("three", contextualizer="structural")]
    return Corpus(write_corpus(folder, corpus=name, configurations=chosen))


def rag(corpus: Corpus, *arguments: str) -> Cost:
    """Run a command of `rag` on a corpus."""
    there = {k: v for k, v in os.environ.items() if k != "DAGSTER_HOME"}
    before, started = cpu_of_children(), time.perf_counter()
    line = command("rag", *arguments, corpus.file)
    subprocess.run(line, cwd=corpus.file.parent, env=there, check=True, capture_output=True)
    return Cost(0, 0, time.perf_counter() - started, cpu_of_children() - before)


class Daemon:
    """A daemon at work on corpora, with its sensors on."""

    def __init__(self, corpora: list[Corpus], instance: dg.DagsterInstance, pid: int) -> None:
        self.corpora, self.instance, self._pid = corpora, instance, pid
        self.folder = corpora[0].file.parents[1]
        self.log, self.fault = self.folder / "daemon.log", self.folder / "fault"
        self.known: set[str] = set()

    def costs_of(self, *events: Callable[[], object]) -> Cost:
        """Let something happen, and return what its runs cost until nothing is stale."""
        self.wait(self._is_at_rest)
        self.known = {run.run_id for run in self.instance.get_runs()}
        cpu, started = _cpu_of_session(self._pid), time.time()
        for event in events:
            event()
        self.wait(lambda: bool(self.new()) and self._is_at_rest())
        cpu = _cpu_of_session(self._pid) - cpu
        log = self.instance.event_log_storage
        taken = [log.get_concurrency_info(key) for key in log.get_concurrency_keys()]
        assert not any(pool.active_slot_count for pool in taken), "a slot is left"
        ended = max(record.end_time or started for record in self.new())
        made = {dg.DagsterEventType.ASSET_MATERIALIZATION}
        count = sum(
            len(self.instance.all_logs(record.dagster_run.run_id, of_type=made))
            for record in self.new()
        )
        return Cost(len(self.new()), count, ended - started, cpu)

    def new(self, *statuses: dg.DagsterRunStatus) -> list[dg.RunRecord]:
        """Return the runs since the event, in any status or one of these."""
        wanted = dg.RunsFilter(statuses=statuses) if statuses else None
        found = self.instance.get_run_records(wanted)
        return [record for record in found if record.dagster_run.run_id not in self.known]

    def wait(self, found: Callable[[], bool]) -> None:
        wait_for(found, SECONDS, self.log)

    def started(self) -> dg.DagsterRun:
        """Wait for a run at work and return it."""
        self.wait(lambda: bool(self.new(_STARTED)))
        return self.new(_STARTED)[0].dagster_run

    def cancel(self) -> None:
        run = self.started()
        self.instance.run_launcher.terminate(run.run_id)
        self.wait(lambda: bool(self.new(_CANCELED)))
        time.sleep(10)  # in which nobody may ask for it again
        assert len(self.new()) == 1

    def kill(self) -> None:
        pid = process_of(self.instance, self.started())
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def break_code(self, corpus: Corpus) -> None:
        """Let the code location be unloadable for 90 s, in which a document changes."""
        file = self.folder / "definitions.py"
        good = file.read_text()
        file.write_text("this is no Python")
        corpus.edit()
        time.sleep(90)
        file.write_text(good)

    def backfill(self, corpus: Corpus, *partitions: str) -> None:
        """Backfill partitions of `chunks`, as Dagster's page of assets does."""
        config = load_config(corpus.file)
        keys = [{"path": [config.corpus, "chunks"]}]
        asked = {"params": {"assetSelection": keys, "partitionNames": partitions}}
        line = command("dagster-graphql", "-t", _BACKFILL, "-v", json.dumps(asked))
        line += ["-f", str(self.folder / "definitions.py")]
        there = environment(self.folder)
        done = subprocess.run(line, cwd=self.folder, env=there, capture_output=True, text=True)
        if done.returncode or "PythonError" in done.stdout or '"errors"' in done.stdout:
            sys.exit(f"{line}: {done.stdout}{done.stderr}")

    def mend(self) -> None:
        """Wait for a failed run, and end the fault that failed it."""
        self.wait(lambda: bool(self.new(dg.DagsterRunStatus.FAILURE)))
        self.fault.unlink(missing_ok=True)

    def _is_at_rest(self) -> bool:
        if not all(run.is_finished for run in self.instance.get_runs()):
            return False
        for corpus in self.corpora:
            config = load_config(corpus.file)
            workspace = Workspace(config)
            if listing_digest(config) != loaded_listing(workspace):
                return False
            if any(plan_step(workspace, step).must_run for step in steps(config)):
                return False
        return True


@contextmanager
def daemon_of(corpora: list[Corpus], fast: bool = True) -> Iterator[Daemon]:
    """Start a daemon with its sensors on; wait until it and its code server answer."""
    folder = corpora[0].file.parents[1]
    home, log, project = folder / "home", folder / "daemon.log", folder / "definitions.py"
    home.mkdir(exist_ok=True)
    (home / "dagster.yaml").write_text(HOME + _POOLS)
    files = [str(corpus.file) for corpus in corpora]
    project.write_text(_DEFINITIONS % (fast, str(folder / "fault"), files))
    dg.DagsterInstance.from_config(str(home)).dispose()  # before the daemon opens it
    line = command("dagster", "dev", "-f", project, "-p", free_port())
    with (
        dg.DagsterInstance.from_config(str(home)) as instance,
        running(line, folder, log) as process,
    ):

        def has_ticked() -> bool:
            states = instance.all_instigator_state()
            ids = [(s.instigator_origin_id, s.selector_id) for s in states]
            return any(instance.get_ticks(*each, limit=1) for each in ids)

        wait_for(has_ticked, SECONDS, log)
        yield Daemon(corpora, instance, process.pid)


def _cpu_of_session(leader: int) -> float:
    """Return the CPU seconds of the processes of a session and of those that they waited for."""
    return sum(cpu for name, cpu in _cpu_by_process(leader) if "webserver" not in name)


def _cpu_by_process(leader: int) -> Iterator[tuple[str, float]]:
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
            name = status.with_name("cmdline").read_text()
        except OSError:
            continue  # it has ended meanwhile
        if int(fields[3]) == leader:
            yield name, sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _events(daemon: Daemon, alone: Corpus) -> Iterator[tuple[str, list[Callable[[], object]], Any]]:
    """Yield each event: its name, what happens, and what is done to the copy, or None."""
    first = daemon.corpora[0]
    changes: dict[str, Callable[[Corpus], None]] = {
        "a chunking's threshold": partial(Corpus.set_threshold, characters=140),
        "a document edited": Corpus.edit,
        "a document added": Corpus.add_document,
        "the embedding changed": Corpus.set_embedding,
        "a document deleted": Corpus.delete_document,
        "a configuration removed": Corpus.remove_configuration,
    }
    for what, change in changes.items():
        yield what, [partial(change, first)], partial(change, alone)
    cut = partial(first.set_threshold, 130)
    yield "a run canceled, then another change", [cut, daemon.cancel, first.edit], None
    cut = partial(first.set_threshold, 120)
    yield "a run's process killed", [cut, daemon.kill], None
    fail = [daemon.fault.touch, first.edit, daemon.mend]
    yield "a partition failed, then another change", [*fail, first.edit], None
    everything = partial(daemon.backfill, first, "recursive_150", "markdown")
    yield "a backfill of all partitions", [everything], None
    repair = partial(rag, first, "doctor", "--repair")
    yield "a blocking check failed, then repaired", [first.alter_chunk, daemon.mend, repair], None
    yield "unloadable for 90 s", [partial(daemon.break_code, first)], None
    yield "three corpora at once", [corpus.edit for corpus in daemon.corpora], None


def trial(folder: Path) -> None:
    """Print what each event cost."""
    theirs = small(folder / "alone", NAMES[0])
    rag(theirs, "run", "-q")
    corpora = [small(folder / name, name) for name in NAMES]
    print(f"{'':40} {'runs':>5} {'steps':>6} {'daemon':>18} {'rag run':>18}")
    with daemon_of(corpora) as daemon:
        for what, happens, same in _events(daemon, theirs):
            cost = daemon.costs_of(*happens)
            line = f"{what:40} {cost.runs:5} {cost.steps:6} "
            line += f"{cost.seconds:6.1f} s {cost.cpu:5.1f} CPU"
            if same is not None:
                same()
                least = rag(theirs, "run", "-q")
                line += f" {least.seconds:6.1f} s {least.cpu:5.1f} CPU"
            print(line, flush=True)
        sizes = [f.stat().st_size for f in (folder / "home/history").rglob("*.db")]
        runs = len(daemon.instance.get_runs())
        print(f"{runs} runs: {sum(sizes) / 1e6:.1f} MB of history")


def at_rest(folder: Path) -> None:
    """Print the CPU seconds of a daemon and its code server at rest, with the default intervals."""
    corpora = [Corpus(folder / name / "tiny.yaml") for name in NAMES[:1]]
    with daemon_of(corpora, fast=False) as daemon:
        daemon.wait(daemon._is_at_rest)
        time.sleep(60)
        before = _cpu_of_session(daemon._pid)
        time.sleep(REST_SECONDS)
        print(f"at rest: {_cpu_of_session(daemon._pid) - before:.1f} CPU s in {REST_SECONDS} s")


def main() -> None:
    """Print the costs of each event."""
    # As for users: without compiled files, every process compiles the project.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else name).absolute()
        shutil.rmtree(folder, ignore_errors=True)
        trial(folder)
        at_rest(folder)


if __name__ == "__main__":
    main()
