"""Small corpora that a real Dagster daemon keeps current, with what happens to them."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import httpx
import yaml

from benchmarks.processes import cpu_of_children
from rag_pipeline.config import load_config
from rag_pipeline.indexing import listing_digest, loaded_listing
from rag_pipeline.orchestration.recovery import process_of
from rag_pipeline.pipeline.planning import plan_step, steps
from rag_pipeline.store.lease import at_work
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import (
    DOCUMENTS,
    many_documents,
    rule,
    write_corpus,
    write_documents,
)
from rag_pipeline_tests.testing.dagster_projects import HOME, command, running, wait_for
from rag_pipeline_tests.testing.servers import free_port

SECONDS = 1800
BROKEN_SECONDS = 600
_STARTED, _CANCELED = dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELED
_POOLS = "concurrency: {pools: {default_limit: 1}}\n"
_DEFINITIONS = """
from pathlib import Path
import dagster as dg
from rag_pipeline import indexing
from rag_pipeline.config import load_config
from rag_pipeline.errors import ProviderError
from rag_pipeline.orchestration import observing
from rag_pipeline.orchestration.component import build_definitions
from rag_pipeline.orchestration.executors import chosen_executor

if %r:
    observing.SENSOR_SECONDS, observing.LOOK_SECONDS = 5, 20
_update = indexing.update_partition


def update_partition(partition, todo):
    if partition.table.name == "chunks.markdown" and Path(%r).exists():
        raise ProviderError("the model is out of order")
    return _update(partition, todo)


indexing.update_partition = update_partition
defs = dg.Definitions.merge(
    dg.Definitions(executor=chosen_executor()), *map(build_definitions, map(load_config, %r))
)
for sensor in defs.sensors:
    sensor._default_status = dg.DefaultSensorStatus.%s
"""
_BACKFILL = """mutation ($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message }
  }
}"""
_RELOAD = """mutation ($name: String!) {
  reloadRepositoryLocation(repositoryLocationName: $name) { __typename }
}"""


@dataclass(frozen=True, slots=True)
class Cost:
    """What an event cost: `runs` and `steps` in Dagster, wall and CPU seconds.

    `cpu` counts the processes of runs. `idle_cpu` counts the daemon, its code server and sensors.
    """

    runs: int
    steps: int
    seconds: float
    cpu: float
    idle_cpu: float = 0.0


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
    """Write a corpus of fourteen documents and three configurations."""
    folder.mkdir(parents=True)
    chosen = [rule("one"), rule("two", "markdown"), rule("three", contextualizer="structural")]
    file = write_corpus(folder, corpus=name, configurations=chosen)
    write_documents(folder / "documents", many_documents(10, "Office"))
    return Corpus(file)


def rag(corpus: Corpus, *arguments: str, check: bool = True) -> Cost:
    """Run a command of `rag` on a corpus."""
    before, started = cpu_of_children(), time.perf_counter()
    line = command("rag", *arguments, corpus.file)
    subprocess.run(line, check=check, capture_output=True, **_alone(corpus))
    return Cost(0, 0, time.perf_counter() - started, cpu_of_children() - before)


def stopped(corpus: Corpus, how: signal.Signals) -> Cost:
    """Start `rag run`, and stop it by a signal at its first step."""
    before, started = cpu_of_children(), time.perf_counter()
    line, quiet = command("rag", "run", "-q", corpus.file), subprocess.DEVNULL
    with subprocess.Popen(line, stdout=quiet, stderr=quiet, **_alone(corpus)) as process:
        store = Workspace(load_config(corpus.file)).store
        wait_for(lambda: bool(at_work(store)), SECONDS, corpus.file)
        process.send_signal(how)
    return Cost(0, 0, time.perf_counter() - started, cpu_of_children() - before)


def _alone(corpus: Corpus) -> dict[str, Any]:
    there = {k: v for k, v in os.environ.items() if k != "DAGSTER_HOME"}
    return {"cwd": corpus.file.parent, "env": there}


class Daemon:
    """A daemon at work on corpora, with its sensors on."""

    def __init__(self, corpora: list[Corpus], instance: dg.DagsterInstance) -> None:
        self.corpora, self.instance = corpora, instance
        self.folder = corpora[0].file.parents[1]
        self.log, self.fault = self.folder / "daemon.log", self.folder / "fault"
        self.known: set[str] = set()
        self._processes = ExitStack()
        self._leader, self._port = 0, 0
        self._spent: dict[tuple[int, int], tuple[bool, float]] = {}

    def start(self) -> None:
        """Start the daemon and the UI's server, and wait until it has loaded the corpora."""
        self._port = free_port()
        project = self.folder / "definitions.py"
        line = command("dagster", "dev", "-f", project, "-p", self._port)
        process = self._processes.enter_context(running(line, self.folder, self.log))
        self._leader = process.pid
        self.wait(lambda: "Serving dagster-webserver" in self.log.read_text())

    def stop(self) -> None:
        self._processes.close()

    def cpu(self) -> tuple[float, float]:
        """Return the CPU seconds so far of runs, and of all else without the UI's server."""
        self._look()
        runs = sum(cpu for is_run, cpu in self._spent.values() if is_run)
        return runs, sum(cpu for _, cpu in self._spent.values()) - runs

    def _look(self) -> None:
        """Keep the CPU seconds of each process. Those of an ended one are from the last look."""
        for pid, started, name, cpu in _processes_of(self._leader):
            if name and "webserver" not in name:  # an ended one has no name
                self._spent[pid, started] = "multiprocessing" in name, cpu

    def costs_of(self, *events: Callable[[], object]) -> Cost:
        """Let something happen, and return what its runs cost until nothing is stale."""
        self.wait(self._is_at_rest)
        self.known = {run.run_id for run in self.instance.get_runs()}
        before, started = self.cpu(), time.time()
        for event in events:
            event()
        self.wait(lambda: bool(self.new()) and self._is_at_rest())
        runs, others = (now - then for now, then in zip(self.cpu(), before, strict=True))
        log = self.instance.event_log_storage
        taken = [log.get_concurrency_info(key) for key in log.get_concurrency_keys()]
        assert not any(pool.active_slot_count for pool in taken), "a slot is left"
        ended = max(record.end_time or started for record in self.new())
        made = {dg.DagsterEventType.ASSET_MATERIALIZATION}
        count = sum(
            len(self.instance.all_logs(record.dagster_run.run_id, of_type=made))
            for record in self.new()
        )
        return Cost(len(self.new()), count, ended - started, runs, others)

    def new(self, *statuses: dg.DagsterRunStatus) -> list[dg.RunRecord]:
        """Return the runs since the event, in any status or one of these."""
        wanted = dg.RunsFilter(statuses=statuses) if statuses else None
        found = self.instance.get_run_records(wanted)
        return [record for record in found if record.dagster_run.run_id not in self.known]

    def wait(self, found: Callable[[], bool]) -> None:
        def has_come() -> bool:
            self._look()
            return found()

        wait_for(has_come, SECONDS, self.log)

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

    def kill_machine(self) -> None:
        """Kill the daemon, its servers and its run, as a power cut does, and start the daemon."""
        self.started()
        for pid, *_ in _processes_of(self._leader):
            os.kill(pid, signal.SIGKILL)
        self.stop()
        self.start()

    def break_code(self, corpus: Corpus) -> None:
        """Let the code location be unloadable for a while, in which a document changes."""
        file = self.folder / "definitions.py"
        good = file.read_text()
        file.write_text("this is no Python")
        corpus.edit()
        end = time.time() + BROKEN_SECONDS
        self.wait(lambda: time.time() > end)
        file.write_text(good)
        self._ask(_RELOAD, {"name": file.name})

    def backfill(self, corpus: Corpus, *partitions: str) -> None:
        """Backfill partitions of `chunks`, as Dagster's page of assets does."""
        config = load_config(corpus.file)
        keys = [{"path": [config.corpus, "chunks"]}]
        asked = {"params": {"assetSelection": keys, "partitionNames": partitions}}
        self._ask(_BACKFILL, asked)

    def _ask(self, query: str, variables: dict[str, Any]) -> None:
        """Ask the UI's server, as its pages do."""
        asked = {"query": query, "variables": variables}
        told = httpx.post(f"http://127.0.0.1:{self._port}/graphql", json=asked, timeout=300).text
        assert "PythonError" not in told and '"errors"' not in told, told

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
def daemon_of(
    corpora: list[Corpus], fast: bool = True, on: bool = True, empty: bool = False
) -> Iterator[Daemon]:
    """Start a daemon, with its sensors on or off, or with a code location that defines nothing."""
    folder = corpora[0].file.parents[1]
    home, project = folder / "home", folder / "definitions.py"
    home.mkdir(exist_ok=True)
    (home / "dagster.yaml").write_text(HOME + _POOLS)
    files = [] if empty else [str(corpus.file) for corpus in corpora]
    status = "RUNNING" if on else "STOPPED"
    project.write_text(_DEFINITIONS % (fast, str(folder / "fault"), files, status))
    dg.DagsterInstance.from_config(str(home)).dispose()  # before the daemon opens it
    with dg.DagsterInstance.from_config(str(home)) as instance:
        daemon = Daemon(corpora, instance)
        try:
            daemon.start()
            yield daemon
        finally:
            daemon.stop()


def _processes_of(leader: int) -> Iterator[tuple[int, int, str, float]]:
    """Yield the id, start, command line and CPU seconds of each process of a session."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
            name = status.with_name("cmdline").read_text()
        except OSError:
            continue  # it has ended meanwhile
        if int(fields[3]) == leader:
            cpu = sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
            yield int(status.parent.name), int(fields[19]), name, cpu
