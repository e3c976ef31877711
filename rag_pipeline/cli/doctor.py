"""`rag doctor`: is this machine, this corpus file and its store fit to run?"""

import importlib.metadata
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.markup import escape

from rag_pipeline.cli.console import console
from rag_pipeline.cli.find import find_corpus_file
from rag_pipeline.config import CorpusConfig, MiniLMEmbedding, load_config
from rag_pipeline.errors import NotReleasedError, RagPipelineError

_PACKAGES = ("dagster", "lancedb", "pyarrow", "bm25s", "onnxruntime", "great-expectations")
_ENOUGH_BYTES = 1_000_000_000


def examine(wanted: str | None) -> bool:
    """Print one line per finding; return whether nothing stands in the way."""
    healthy = True
    for name, check in _checks(wanted):
        try:
            finding = check()
            console.print(f"[green]ok[/green]    {name}: {escape(finding)}")
        except NotReleasedError as error:
            console.print(f"[yellow]note[/yellow]  {name}: {escape(str(error))}")
        except (RagPipelineError, OSError) as error:
            healthy = False
            console.print(f"[red]wrong[/red] {name}: {escape(str(error))}")
    return healthy


def _checks(wanted: str | None) -> Iterator[tuple[str, Callable[[], str]]]:
    yield "python", lambda: sys.version.split()[0]
    yield "packages", _versions
    yield "packaged model", _model
    yield "dagster home", lambda: os.environ.get("DAGSTER_HOME", "not set: run history is not kept")
    config: list[CorpusConfig] = []

    def corpus_file() -> str:
        file = find_corpus_file(wanted)
        config.append(load_config(file))
        return f"{file}: {len(config[0].all_configurations)} configurations"

    yield "corpus file", corpus_file
    if not config:
        return
    yield "documents", lambda: _documents(config[0])
    if config[0].queries_path:
        yield "queries", lambda: _queries(config[0])
    if "://" not in config[0].store_url:
        yield "disk", lambda: _disk(config[0])
    yield "release", lambda: _release(config[0])


def _versions() -> str:
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES)


def _model() -> str:
    from rag_pipeline.providers import open_embedder

    embedder = open_embedder(MiniLMEmbedding(provider="minilm"))
    embedder.embed(["ready"], "query")
    return embedder.identity


def _documents(config: CorpusConfig) -> str:
    from rag_pipeline.planning import Step, plan_step
    from rag_pipeline.workspace import Workspace

    plan = plan_step(Workspace(config), Step("documents"))
    return (
        f"{config.documents_path}: {plan.current} loaded, {plan.stale} new or changed, "
        f"{plan.orphaned} gone"
    )


def _queries(config: CorpusConfig) -> str:
    from rag_pipeline.queries import read_queries

    assert config.queries_path is not None
    return f"{len(read_queries(config.queries_path))} in {config.queries_path}"


def _disk(config: CorpusConfig) -> str:
    store = Path(config.store_url)
    store.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=store) as file:
        file.write(b"writable")
    free = shutil.disk_usage(store).free
    if free < _ENOUGH_BYTES:
        raise OSError(f"{store}: only {free / 1e6:.0f} MB free")
    return f"{store}: {free / 1e9:.0f} GB free"


def _release(config: CorpusConfig) -> str:
    from rag_pipeline.corpus import Corpus

    corpus = Corpus(config)
    served = corpus.release()
    corpus.search("ready", k=1)
    return f"{served.release_id}: {served.configuration}, {served.pinned.rows} chunks"
