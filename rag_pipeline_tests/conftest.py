import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from rag_pipeline.config import CorpusConfig, load_config
from rag_pipeline.workspace import Workspace

# Workers of a parallel run are given a terminal's width; what is tested is wide output in a pipe.
os.environ.pop("COLUMNS", None)
# And no test writes into the history that `make up` shows.
os.environ.pop("DAGSTER_HOME", None)

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on this machine; on Debian: apt-get install chromium"
)
BROWSER_MILLISECONDS = 60_000
"""How long a page may take to show what a test waits for."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the files with the longest tests first: at the end one process would wait for them."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


DOCUMENTS = {
    "nda/acme.txt": (
        "MUTUAL NON-DISCLOSURE AGREEMENT\n\n"
        "This agreement is made between Acme Rockets Inc. and Birch Paper Ltd. on 3 May 2021.\n\n"
        "1. Term. The obligations of confidentiality last for five (5) years from the date of "
        "disclosure.\n\n"
        "2. Governing law. The laws of the State of Delaware apply to this agreement.\n"
    ),
    "nda/cedar.txt": (
        "NON-DISCLOSURE AGREEMENT\n\n"
        "This agreement is made between Cedar Boats LLC and Dune Sand GmbH on 9 June 2022.\n\n"
        "1. Term. The obligations of confidentiality last for two (2) years from the date of "
        "disclosure.\n\n"
        "2. Governing law. The laws of Switzerland apply to this agreement.\n"
    ),
    "policy/leave.md": (
        "# Leave policy of Acme Rockets\n\n## Parental leave\n\nEvery parent may take sixteen "
        "weeks of paid leave within a year of the birth.\n\n## Sick leave\n\nA doctor's note is "
        "needed from the third day of sickness on.\n"
    ),
    "policy/travel.md": (
        "# Travel policy of Cedar Boats\n\n## Flights\n\nFlights under six hours are booked in "
        "economy class.\n\n## Hotels\n\nHotels cost at most 180 euros a night; more needs the "
        "consent of a manager.\n"
    ),
}
QUERIES = [
    ("q1", "How long does confidentiality last under the Acme NDA?", "nda/acme.txt", "five (5) y"),
    ("q2", "Which law governs the agreement with Dune Sand?", "nda/cedar.txt", "laws of Switz"),
    ("q3", "When is a doctor's note needed?", "policy/leave.md", "from the third day"),
    ("q4", "How expensive may a hotel be?", "policy/travel.md", "at most 180 euros a night"),
]


def write_documents(folder: Path, documents: Mapping[str, str]) -> None:
    for name, text in documents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())


def attributes(**changes: Any) -> dict[str, Any]:
    return {
        "corpus": "tiny",
        "documents": {"path": "documents"},
        "queries": "queries.jsonl",
        "store": "store",
        "chunkings": {
            "recursive_150": {"method": "recursive", "max_characters": 150},
            "markdown": {"method": "markdown"},
        },
        "contextualizers": {"none": {"method": "none"}, "structural": {"method": "structural"}},
        "retrievers": {
            "dense": {"method": "dense", "top_k": 20},
            "hybrid": {"method": "hybrid", "top_k": 20},
        },
        "configurations": [
            {
                "name": "default",
                "chunking": "recursive_150",
                "contextualizer": "structural",
                "embedding": "minilm",
                "retriever": "hybrid",
            },
            {
                "name": "plain",
                "chunking": "recursive_150",
                "contextualizer": "none",
                "embedding": "minilm",
                "retriever": "dense",
            },
        ],
        **changes,
    }


def write_corpus(folder: Path, **changes: Any) -> Path:
    """Write documents, queries and corpus file; return the corpus file."""
    write_documents(folder / "documents", DOCUMENTS)
    lines = [
        json.dumps(
            {
                "query_id": query_id,
                "query": query,
                "gold_spans": [{"document_id": document_id, "quote": quote}],
            }
        )
        for query_id, query, document_id, quote in QUERIES
    ]
    (folder / "queries.jsonl").write_text("\n".join(lines) + "\n")
    return write_file(folder, **changes)


def write_file(folder: Path, **changes: Any) -> Path:
    """Write the corpus file alone."""
    file = folder / "tiny.yaml"
    content = {"type": "rag_pipeline.RagPipeline", "attributes": attributes(**changes)}
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


@pytest.fixture(autouse=True)
def no_dagster_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep tests out of the history that `make up` shows."""
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.delenv("RAG_CORPUS", raising=False)


@pytest.fixture
def corpus_file(tmp_path: Path) -> Path:
    return write_corpus(tmp_path)


@pytest.fixture
def config(corpus_file: Path) -> CorpusConfig:
    return load_config(corpus_file)


@pytest.fixture
def workspace(config: CorpusConfig) -> Workspace:
    return Workspace(config)


@pytest.fixture
def run_all() -> Callable[..., list[Any]]:
    """Return a function that runs a corpus through Dagster, in this process."""
    from rag_pipeline.orchestration.runner import run

    return lambda file, configuration=None: list(run(load_config(file), configuration))


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Serve an empty bucket on loopback, and name it in AWS's variables; yield its address."""
    import boto3
    from moto.moto_api._internal.models import moto_api_backend
    from moto.server import ThreadedMotoServer
    from werkzeug.serving import WSGIRequestHandler

    # Or each answer waits 40 ms for an acknowledgement.
    monkeypatch.setattr(WSGIRequestHandler, "disable_nagle_algorithm", True)
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


def data_folder(name: str) -> Path:
    """Return a folder of third-party data; skip the test where it is not there."""
    default = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("RAG_PIPELINE_DATA", default)) / name
    if not folder.is_dir():
        pytest.skip(f"no data at {folder}; set RAG_PIPELINE_DATA to where it is")
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Yield a headless Chromium; a module that asks for it is marked `needs_chromium`."""
    from playwright.sync_api import sync_playwright

    arguments = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()
