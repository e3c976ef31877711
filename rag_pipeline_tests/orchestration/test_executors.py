"""The executor that the environment names, and shards that executors distribute."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from rag_pipeline import indexing
from rag_pipeline.config import load_config
from rag_pipeline.errors import ConfigError, MissingExtraError
from rag_pipeline.orchestration.executors import celery_settings, chosen_executor
from rag_pipeline.search.vector_index import indexed_text
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import many_documents, write_only
from rag_pipeline_tests.testing.dagster_projects import command
from rag_pipeline_tests.testing.servers import Server, postgres, redis


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in ("EXECUTOR", "MAX_CONCURRENT", "CELERY_BROKER", "CELERY_BACKEND"):
        monkeypatch.delenv(f"RAG_{name}", raising=False)


@pytest.mark.parametrize("name", ["in_process", "multiprocess", "celery", "k8s", "ecs"])
def test_every_executor_can_be_named(monkeypatch, name):
    monkeypatch.setenv("RAG_EXECUTOR", name)
    monkeypatch.setenv("RAG_CELERY_BROKER", "redis://localhost:6379/0")
    monkeypatch.setenv("RAG_MAX_CONCURRENT", "3")
    assert chosen_executor().name in (name, "k8s_job_executor", "multi_or_in_process_executor")


def test_in_process_is_the_default(monkeypatch):
    assert chosen_executor().name == "in_process"


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"RAG_EXECUTOR": "dask"}, r"RAG_EXECUTOR: 'dask' is not one of: in_process, multiproc"),
        ({"RAG_EXECUTOR": "celery"}, "RAG_CELERY_BROKER is not set"),
        (
            {"RAG_EXECUTOR": "multiprocess", "RAG_MAX_CONCURRENT": "two"},
            "RAG_MAX_CONCURRENT: 'two' is not a whole number",
        ),
    ],
)
def test_a_wrong_variable_is_named(monkeypatch, variables, message):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=message):
        chosen_executor()


@pytest.mark.parametrize(("name", "package"), [("celery", "celery"), ("k8s", "k8s")])
def test_a_missing_package_names_its_extra(monkeypatch, name, package):
    monkeypatch.setenv("RAG_EXECUTOR", name)
    monkeypatch.setitem(sys.modules, f"dagster_{package}", None)
    with pytest.raises(MissingExtraError, match=rf"\[{name}\]"):
        chosen_executor()


def test_results_are_kept_at_the_broker_unless_another_place_is_named(monkeypatch):
    monkeypatch.setenv("RAG_CELERY_BROKER", "redis://a/0")
    assert celery_settings()["backend"] == "redis://a/0"
    monkeypatch.setenv("RAG_CELERY_BACKEND", "redis://b/0")
    assert celery_settings()["backend"] == "redis://b/0"


# --- shards in processes of their own, and on Celery workers with real Redis and Postgres ---


KEY = "recursive_150.none.minilm"
SHARDS = 12
BOUND = 900

HOME = """
telemetry: {enabled: false}
nux: {enabled: false}
run_coordinator: {module: dagster.core.run_coordinator, class: DefaultRunCoordinator}
"""
POSTGRES = """
storage: {postgres: {postgres_url: {env: DAGSTER_POSTGRES_URL}}}
"""
# Two documents a shard; every batch that is sent to the model is logged with the process.
DEFINITIONS = """
import hashlib, os
import dagster as dg
from rag_pipeline.config import load_config
from rag_pipeline.indexing import tables
from rag_pipeline.orchestration.component import build_definitions
from rag_pipeline.orchestration.executors import chosen_executor
from rag_pipeline.models.providers import minilm

tables.MAX_SHARD_DOCUMENTS = 2
minilm.TOKENS_PER_BATCH = 512
embed = minilm.MiniLM.embed

def logged(self, texts, input_type="document"):
    with open(%r, "a") as log:
        hashes = (hashlib.sha256(t.encode()).hexdigest() for t in texts)
        log.write(f"{os.getpid()} " + " ".join(hashes) + "\\n")
    return embed(self, texts, input_type)

minilm.MiniLM.embed = logged
defs = dg.Definitions.merge(
    build_definitions(load_config(%r)), dg.Definitions(executor=chosen_executor())
)
"""


@dataclass
class Project:
    """A corpus with chunks and without vectors, and a Dagster home."""

    folder: Path
    shards: int
    environment: dict[str, str]

    @property
    def corpus(self) -> Path:
        return self.folder / "tiny.yaml"

    @property
    def calls(self) -> list[list[str]]:
        """Return a list per batch that was sent to the model: process id, hashes of the texts."""
        log = self.folder / "calls.log"
        return [line.split() for line in log.read_text().splitlines()] if log.exists() else []

    def start(self) -> "subprocess.Popen[bytes]":
        """Launch the run."""
        definitions = self.folder / "tiny_definitions.py"
        arguments = ["asset", "materialize", "--select", "tiny/vector_index", "--partition", KEY]
        return self.launch("dagster", *arguments, "-f", str(definitions))

    def launch(self, name: str, *arguments: str) -> "subprocess.Popen[bytes]":
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                command(name, *arguments),
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_for(self, found: Callable[[], object]) -> None:
        end = time.monotonic() + BOUND
        while not found():
            if time.monotonic() > end:
                pytest.fail(f"not within {BOUND} s:\n{(self.folder / 'log').read_text()[-6000:]}")
            time.sleep(0.1)

    def ends(self, run: "subprocess.Popen[bytes]") -> int:
        self.wait_for(lambda: run.poll() is not None)
        return int(run.returncode)

    def rows(self) -> list[str]:
        table = Workspace(load_config(self.corpus)).vector_index(KEY).open()
        return sorted(repr(sorted(row.items())) for row in table.to_arrow().to_pylist())

    def told(self) -> str:
        return (self.folder / "log").read_text()[-6000:]


@dataclass
class Cluster(Project):
    """A project, and the servers and workers that build its vectors."""

    broker: Server
    database: Server
    workers: list["subprocess.Popen[bytes]"]


def prepared(folder: Path, shards: int) -> Workspace:
    """Write a corpus of two documents a shard and build its chunks."""
    corpus = write_only(folder, many_documents(2 * shards, "build 1"))
    workspace = Workspace(load_config(corpus))
    indexing.update_documents(workspace)
    indexing.update(workspace, "chunks", "recursive_150")
    indexing.update(workspace, "contextualized_chunks", "recursive_150.none")
    return workspace


def write_project(folder: Path, shards: int, home: str) -> None:
    prepared(folder, shards)
    (folder / "home").mkdir()
    (folder / "home" / "dagster.yaml").write_text(home)
    (folder / "tiny_definitions.py").write_text(
        DEFINITIONS % (str(folder / "calls.log"), str(folder / "tiny.yaml"))
    )


@contextmanager
def cluster(
    folder: Path, visibility: int, shards: int = SHARDS, workers: int = 2
) -> Iterator[Cluster]:
    """Start Redis, Postgres and workers; stop them by their ids."""
    pytest.importorskip("dagster_celery")
    write_project(folder, shards, HOME + POSTGRES)
    with ExitStack() as stack:
        broker = stack.enter_context(redis(folder / "redis"))
        database = stack.enter_context(postgres(folder / "postgres"))
        environment = {
            **os.environ,
            "DAGSTER_HOME": str(folder / "home"),
            "DAGSTER_POSTGRES_URL": f"postgresql+psycopg2://dagster@127.0.0.1:{database.port}/postgres",
            "PYTHONWARNINGS": "ignore",
            "RAG_EXECUTOR": "celery",
            "RAG_CELERY_BROKER": f"redis://127.0.0.1:{broker.port}/0",
            "RAG_CELERY_VISIBILITY_SECONDS": str(visibility),
        }
        made = Cluster(folder, shards, environment, broker, database, [])
        for number in range(workers):
            app = ("-A", "rag_pipeline.orchestration.celery_app", "worker", "-Q", "dagster")
            options = ("-c", "1", "-n", f"{number}@localhost", "--loglevel", "warning")
            worker = made.launch("celery", *app, *options)
            made.workers.append(worker)
            stack.callback(end_group, worker)
        yield made


def end_group(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def expected(made: Project) -> tuple[list[str], set[str]]:
    """Build the same vectors in this process, into a table of their own; return rows and texts."""
    workspace = prepared(made.folder / "alone", made.shards)
    indexing.update(workspace, "vector_index", KEY)
    rows = workspace.vector_index(KEY).open().to_arrow().to_pylist()
    texts = {
        hashlib.sha256(indexed_text(r["context"], r["text"]).encode()).hexdigest() for r in rows
    }
    return sorted(repr(sorted(row.items())) for row in rows), texts


def check(made: Project, killed: int) -> None:
    """Hold the rows and the calls against those of one undisturbed process."""
    rows, texts = expected(made)
    assert made.rows() == rows
    sent = [text for _, *batch in made.calls for text in batch]
    largest = max(len(batch) - 1 for batch in made.calls)
    assert set(sent) == texts
    assert len(sent) - len(texts) <= killed * largest, "more again than was in flight"
    assert len({pid for pid, *_ in made.calls}) >= 2, "it was not one process that did all"
    steps = made.folder / "store" / "tiny" / "steps"
    assert not steps.exists() or not list(steps.iterdir()), "what steps hand on is cleared"


@pytest.mark.bench
@pytest.mark.timeout(BOUND + 60)
def test_shards_in_processes_of_their_own_are_the_rows_of_one_process(tmp_path):
    write_project(tmp_path, 3, HOME)
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(tmp_path / "home"),
        "PYTHONWARNINGS": "ignore",
        "RAG_EXECUTOR": "multiprocess",
        "RAG_MAX_CONCURRENT": "2",
    }
    made = Project(tmp_path, 3, environment)
    assert made.ends(made.start()) == 0, made.told()
    check(made, killed=0)
    assert len({pid for pid, *_ in made.calls}) == 3, "a process a shard"


@pytest.mark.long
@pytest.mark.timeout(BOUND + 60)
@pytest.mark.parametrize(
    ("shards", "workers"), [(2, 1), pytest.param(SHARDS, 2, marks=pytest.mark.bench)]
)
def test_a_worker_process_killed_on_the_way_costs_one_batch_at_most(tmp_path, shards, workers):
    with cluster(tmp_path, 3600, shards, workers) as made:
        run = made.start()
        made.wait_for(lambda: len(made.calls) > shards // 4 or run.poll() is not None)
        killed = made.calls[-1][0]
        assert run.poll() is None, "the run ended before the kill"
        os.kill(int(killed), signal.SIGKILL)
        before = len(made.calls)
        assert made.ends(run) == 0, made.told()
        after = {pid for pid, *_ in made.calls[before:]}
        assert after, "the kill came after the last batch"
        assert killed not in after, "another was killed"
        check(made, killed=1)


@pytest.mark.bench
@pytest.mark.timeout(2 * BOUND + 60)
def test_a_whole_worker_killed_is_replaced_by_the_other(tmp_path):
    with cluster(tmp_path, visibility=30) as made:
        run = made.start()
        made.wait_for(lambda: len(made.calls) > 3 or run.poll() is not None)
        caller = os.getpgid(int(made.calls[-1][0]))  # a worker leads its group
        end_group(next(worker for worker in made.workers if worker.pid == caller))
        assert made.ends(run) == 0, made.told()
        check(made, killed=1)


@pytest.mark.bench
@pytest.mark.timeout(3 * BOUND + 60)
@pytest.mark.parametrize("which", ["broker", "database"])
def test_a_server_restarted_during_a_run_stops_nothing_for_good(tmp_path, which):
    with cluster(tmp_path, visibility=30) as made:
        run = made.start()
        made.wait_for(lambda: len(made.calls) > 3 or run.poll() is not None)
        server: Server = getattr(made, which)
        server.stop()
        time.sleep(2)
        server.start()
        code = made.ends(run)
        sys.stdout.write(f"the run that saw the {which} restart ended with {code}\n")
        if code != 0:  # a new run does the rest
            assert made.ends(made.start()) == 0, made.told()
        check(made, killed=2)
