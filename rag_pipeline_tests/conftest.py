import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from rag_pipeline import Corpus
from rag_pipeline.calls import CallCache, Database
from rag_pipeline.config import CorpusConfig, load_config
from rag_pipeline.evaluation import calibration
from rag_pipeline.evaluation.general_questions import GENERAL
from rag_pipeline.models.providers import minilm
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing import servers
from rag_pipeline_tests.testing.browser import CHROMIUM
from rag_pipeline_tests.testing.corpora import copy_corpus, write_corpus
from rag_pipeline_tests.testing.databases import new_database

# Workers of a parallel run are given a terminal's width; what is tested is wide output in a pipe.
os.environ.pop("COLUMNS", None)
# Tests, and processes that they start, keep what they compile: without, each compiles it again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# And no test writes into the history that `make up` shows.
os.environ.pop("DAGSTER_HOME", None)
# What the tests import stays: looking through it every 700 objects takes 2 % of the time.
gc.set_threshold(50_000, 20, 50)
# No test cuts the power, and a run of a small corpus waits a quarter of its time for the disk.
vars(os)["fsync"] = lambda handle: None
# A busy machine must not fail a test.
settings.register_profile(
    "without a clock", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("without a clock")
# Each build of a small corpus reads all general questions, which took a third of its time.
vars(calibration)["GENERAL"] = GENERAL[::5]


def _remembering(run: Callable[[Sequence[Sequence[int]]], Any]) -> Callable[..., Any]:
    """Return a pass of the model that runs a small batch once: tests embed the same few texts."""
    small = lru_cache(maxsize=100)(run)

    def remembered(tokens: Sequence[Sequence[int]]) -> Any:
        batch = tuple(map(tuple, tokens))
        return small(batch) if sum(map(len, batch)) <= 1000 else run(batch)

    return remembered


vars(minilm)["_pass"] = _remembering(vars(minilm)["_pass"])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the files with the longest tests first, and then those beside this file.

    At the end one process would wait for them.
    """
    here = Path(__file__).parent
    items.sort(key=lambda i: (i.get_closest_marker("long") is None, i.path.parent != here))


def pytest_collection_finish() -> None:
    """Leave the imported modules out of each full pass of the garbage collector."""
    gc.freeze()


@pytest.fixture(autouse=True)
def no_dagster_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep tests out of the history that `make up` shows."""
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    for name in ("RAG_CORPUS", "RAG_DATABASE_URL", "DAGSTER_POSTGRES_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def corpus_file(tmp_path: Path) -> Path:
    return write_corpus(tmp_path)


@pytest.fixture
def config(corpus_file: Path) -> CorpusConfig:
    return load_config(corpus_file)


@pytest.fixture
def workspace(config: CorpusConfig) -> Workspace:
    return Workspace(config)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    """Serve Postgres on loopback."""
    with servers.postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture
def postgres_url(postgres: servers.Server) -> Iterator[str]:
    """Return the address of an empty database of Postgres."""
    with new_database(postgres.port) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def database_place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the place of an empty database of calls, of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "calls.sqlite")
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def cache(tmp_path: Path) -> CallCache:
    return CallCache(Database(tmp_path / "calls.sqlite"))


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what keeps the spans that end from now on."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", lambda *given, **more: provider.get_tracer("test"))
    return exporter


@pytest.fixture
def run_dagster() -> Callable[..., list[Any]]:
    """Return a function that runs a corpus through Dagster, in this process."""
    from rag_pipeline_tests.testing.dagster_projects import run

    return lambda file, configuration=None: list(run(load_config(file), configuration))


@pytest.fixture
def run_all() -> Callable[..., list[Any]]:
    """Return a function that makes the same without Dagster."""
    from rag_pipeline_tests.testing.builds import run

    return lambda file, configuration=None: list(run(load_config(file), configuration))


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Return a corpus of four documents with a release that no test changes."""
    from rag_pipeline_tests.testing.builds import run

    corpus = Corpus.load(write_corpus(tmp_path_factory.mktemp("released")))
    list(run(corpus.config))
    return corpus


@pytest.fixture
def built_file(released: Corpus, tmp_path: Path) -> Path:
    """Return the file of a copy of that corpus, to be changed."""
    copy_corpus(released.config.documents_path.parent, tmp_path)
    return tmp_path / "tiny.yaml"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Serve an empty bucket on loopback, and name it in AWS's variables; yield its address."""
    import boto3
    from moto import backends
    from moto.core import serialize
    from moto.moto_api._internal.models import moto_api_backend
    from moto.server import ThreadedMotoServer
    from werkzeug.serving import WSGIRequestHandler

    # Or each answer waits 40 ms for an acknowledgement.
    monkeypatch.setattr(WSGIRequestHandler, "disable_nagle_algorithm", True)
    # Half of a request's time: its line in the log, the folders of moto's services, known times.
    monkeypatch.setattr(WSGIRequestHandler, "log_request", lambda *line: None)
    monkeypatch.setattr(backends, "list_of_moto_modules", tuple)
    parsed = lru_cache(maxsize=None)(vars(serialize)["parse_to_aware_datetime"])
    monkeypatch.setattr(serialize, "parse_to_aware_datetime", parsed)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    boto3.client("s3").create_bucket(Bucket="bucket")
    yield "s3://bucket/prefix"
    server.stop()
    moto_api_backend.reset()  # its buckets outlive its servers


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Yield a headless Chromium; a module that asks for it is marked `needs_chromium`."""
    from playwright.sync_api import sync_playwright

    arguments = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
        "--disable-background-networking --disable-component-update --disable-sync"
    ).split()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()
