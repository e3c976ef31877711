"""Runs of a corpus through Dagster: its sensor and jobs in process, and its own programs."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from urllib.error import URLError

import dagster as dg
import pytest

from rag_pipeline.config import CorpusConfig, load_config
from rag_pipeline.orchestration.component import build_definitions
from rag_pipeline.orchestration.executors import chosen_executor
from rag_pipeline.orchestration.internals import InMemoryJob, execute_run
from rag_pipeline.orchestration.names import asset_key, identifier
from rag_pipeline.orchestration.observing import graph_of
from rag_pipeline.orchestration.one_run import run_steps
from rag_pipeline.orchestration.staleness import Statuses
from rag_pipeline.pipeline.driver import Done
from rag_pipeline.pipeline.dry_run import RunPlan
from rag_pipeline.pipeline.planning import Step, plan_step, steps
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing import in_memory  # noqa: F401
from rag_pipeline_tests.testing.servers import free_port


def ask(
    file: Path, instance: dg.DagsterInstance, name: str = "stale_partitions", one_run: bool = False
) -> tuple[list[dg.RunRequest], str | None]:
    """Let a sensor look once; return its requests or why there are none."""
    repository = _definitions(file, file.read_bytes(), one_run).get_repository_def()
    sensor = repository.get_sensor_def(identifier(load_config(file), name))
    context = dg.build_sensor_context(instance=instance, repository_def=repository)
    tick = sensor.evaluate_tick(context)
    return list(tick.run_requests or ()), tick.skip_message


def ask_one_run(
    file: Path, instance: dg.DagsterInstance, name: str = "stale_partitions"
) -> tuple[list[dg.RunRequest], str | None]:
    """Let a sensor look once, where one run makes everything that is stale."""
    return ask(file, instance, name, one_run=True)


@cache
def _definitions(file: Path, written: bytes, one_run: bool) -> dg.Definitions:
    """Return the definitions of a corpus file as it was written, as a code server keeps them."""
    return build_definitions(load_config(file), retries=None, one_run=one_run)


def seen(file: Path, instance: dg.DagsterInstance) -> list[Step]:
    """Return what Dagster calls stale, by a graph and a resolver of its own."""
    workspace = Workspace(load_config(file))
    look = Statuses(instance, graph_of(workspace))
    return [
        step
        for step in steps(workspace.config)
        if not look.is_fresh(asset_key(workspace.config, step.asset), step.partition)
    ]


def run(config: CorpusConfig, configuration: str | None = None) -> list[Done]:
    """Make every stale step of the corpus, or of one configuration, as `rag run` does."""
    return run_steps(RunPlan(Workspace(config), steps(config, configuration)))


def named(request: dg.RunRequest | dg.DagsterRun) -> tuple[str, str | None]:
    assert request.job_name
    name = request.job_name.removeprefix("tiny__").removeprefix("update_")
    return name, request.tags.get("dagster/partition")


def execute(file: Path, instance: dg.DagsterInstance, request: dg.RunRequest) -> bool:
    assert request.job_name
    one_run = chosen_executor() is dg.in_process_executor
    definitions = _definitions(file, file.read_bytes(), one_run)
    job = definitions.resolve_job_def(request.job_name)
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    tags = dict(request.tags)
    if job.executor_def.name == "in_process" and request.partition_key is None:
        # With the job's own settings of the executor, which `execute_in_process` leaves out.
        run = instance.create_run_for_job(job, run_config=quiet, tags={**job.run_tags, **tags})
        return execute_run(InMemoryJob(job), run, instance).success
    return job.execute_in_process(
        instance=instance,
        partition_key=request.partition_key,
        tags=tags,
        raise_on_error=False,
        run_config=quiet,
    ).success


HOME = """
telemetry: {enabled: false}
nux: {enabled: false}
run_coordinator: {module: dagster.core.run_coordinator, class: DefaultRunCoordinator}
compute_logs:  # of each step, four processes follow what it prints
  module: dagster._core.storage.noop_compute_log_manager
  class: NoOpComputeLogManager
"""
DEFINITIONS = """
import dagster as dg
from rag_pipeline.config import CorpusConfig, load_config
from rag_pipeline.orchestration import observing
from rag_pipeline.orchestration.component import build_definitions
from rag_pipeline.orchestration.executors import chosen_executor

observing.SENSOR_SECONDS, observing.LOOK_SECONDS = 1, 5
defs = dg.Definitions.merge(
    build_definitions(load_config(%r)), dg.Definitions(executor=chosen_executor())
)
for sensor in defs.sensors:
    sensor._default_status = dg.DefaultSensorStatus.RUNNING
"""


def write_project(folder: Path, corpus: Path) -> Path:
    """Write a Dagster home and a definitions file of one corpus, its sensors on; return that."""
    home = folder / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text(HOME)
    # Before a daemon and its code server do it at once, which would leave it unusable.
    dg.DagsterInstance.from_config(str(home)).dispose()
    definitions = folder / "tiny_definitions.py"
    definitions.write_text(DEFINITIONS % str(corpus))
    return definitions


def command(name: str, *arguments: object) -> list[str]:
    return [str(Path(sys.executable).parent / name), *map(str, arguments)]


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "DAGSTER_HOME": str(folder / "home"), "PYTHONWARNINGS": "ignore"}


def materialize(project: Path, asset: str, *options: object) -> str:
    """Materialize an asset of a project by Dagster's own program; return what its log says."""
    done = subprocess.run(
        command("dagster", "asset", "materialize", "--select", asset, "-f", project, *options),
        cwd=project.parent,
        env=environment(project.parent),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@contextmanager
def running(arguments: list[str], folder: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program for as long as the block lasts, then end it and all that it started."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            arguments,
            cwd=folder,
            env=environment(folder),
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(found: Callable[[], bool], seconds: float, log: Path, pause: float = 0.3) -> None:
    """Look again and again until it is found; show the program's log when it never is."""
    end = time.monotonic() + seconds
    while not found():
        if time.monotonic() > end:
            pytest.fail(f"not within {seconds} s; the log ends with:\n{log.read_text()[-4000:]}")
        time.sleep(pause)


BOUND = 900
"""Seconds after which a daemon that has not done what a test waits for has failed."""


@contextmanager
def dagster_ui(folder: Path, project: Path) -> Iterator[str]:
    """Serve Dagster's UI over a project, and yield its address."""
    log = folder / "webserver.log"
    address = f"http://127.0.0.1:{free_port()}"
    port = address.rpartition(":")[2]

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"{address}/server_info", timeout=5):
                return True
        except (URLError, OSError):
            return False

    arguments = command("dagster-webserver", "-f", project, "-h", "127.0.0.1", "-p", port)
    with running(arguments, folder, log):
        wait_for(answers, BOUND, log)
        yield address


class Watched:
    """A corpus file that a real daemon keeps up to date, with each run in a process of its own."""

    def __init__(self, file: Path, instance: dg.DagsterInstance) -> None:
        self.file = file
        self.folder = file.parent
        self.project = self.folder / "tiny_definitions.py"
        self.log = self.folder / "daemon.log"
        self.instance = instance

    @contextmanager
    def daemon(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run the daemon for as long as the block lasts."""
        arguments = command("dagster-daemon", "run", "-f", self.project)
        with running(arguments, self.folder, self.log) as process:
            yield process

    def wait(self, found: Callable[[], bool]) -> None:
        """Wait until something is found."""
        wait_for(found, BOUND, self.log)

    def rest(self) -> None:
        """Wait until nothing is stale; a look is a plan of all steps, which takes time."""
        wait_for(self.is_at_rest, BOUND, self.log, pause=2.0)

    def new_run(self, status: dg.DagsterRunStatus, known: Collection[str]) -> dg.DagsterRun:
        """Wait for a run, other than of checks alone, that is not known and has a status."""
        found: list[dg.DagsterRun] = []

        def has_come() -> bool:
            runs = self.instance.get_runs(dg.RunsFilter(statuses=[status]))
            found.extend(r for r in runs if r.run_id not in known and not r.asset_check_selection)
            return bool(found)

        self.wait(has_come)
        return found[0]

    def run(self, run_id: str) -> dg.DagsterRun:
        """Return a run as it is now."""
        run = self.instance.get_run_by_id(run_id)
        assert run is not None
        return run

    def ended(self, run: dg.DagsterRun) -> dg.DagsterRun:
        """Wait until a run is at its end; return it as it is then."""
        self.wait(lambda: self.run(run.run_id).is_finished)
        return self.run(run.run_id)

    def known(self) -> set[str]:
        """Return the ids of the runs so far."""
        return {run.run_id for run in self.instance.get_runs()}

    def is_at_rest(self) -> bool:
        """Return whether nothing is stale and nothing runs.

        A run of checks that a kill left without a process is failed after ten minutes only.
        """
        runs = self.instance.get_runs()
        if not all(run.is_finished or run.asset_check_selection for run in runs):
            return False
        workspace = Workspace(load_config(self.file))
        return not any(plan_step(workspace, step).must_run for step in steps(workspace.config))


@contextmanager
def watched(file: Path) -> Iterator[Watched]:
    """Write a Dagster project of a corpus; open its instance for the block."""
    write_project(file.parent, file)
    with dg.DagsterInstance.from_config(str(file.parent / "home")) as instance:
        yield Watched(file, instance)
