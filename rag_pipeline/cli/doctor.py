"""Implement `rag doctor`, which checks this machine, the corpus file and its store."""

import importlib.metadata
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

from rich.markup import escape

from rag_pipeline.calls.database import VARIABLE
from rag_pipeline.cli.console import console, counted, say, show_next
from rag_pipeline.cli.find import rag
from rag_pipeline.cli.inputs import check_inputs, check_models
from rag_pipeline.config import CorpusConfig, load_config
from rag_pipeline.errors import NotReleasedError, RagPipelineError, StoreError
from rag_pipeline.pipeline.inspection import inspect
from rag_pipeline.pipeline.integrity import Finding, unhashed
from rag_pipeline.store.s3 import clear_s3_errors, s3_client, split_url
from rag_pipeline.workspace import Workspace

_PACKAGES = ("dagster", "lancedb", "pyarrow", "bm25s", "onnxruntime", "great-expectations")
_ENOUGH_BYTES = 1_000_000_000
_ROUNDS = 3


class _NoteError(Exception):
    """A finding that needs no repair, but that a person may want to change."""


def examine(find: Callable[[], Path], repair: bool = False, full: bool = False) -> bool:
    """Print one line per check, and return whether all checks pass.

    `find` returns the corpus file. With `repair`, the store is repaired first. With `full`, every
    byte of the store is read.
    """
    if repair:
        _repair(find(), full)
    wrong = notes = 0
    for name, check in _checks(find, full):
        try:
            word, finding = "[green]ok[/green]   ", check()
        except (NotReleasedError, _NoteError) as error:
            notes += 1
            word, finding = "[yellow]note[/yellow] ", str(error)
        except (RagPipelineError, OSError, ImportError, sqlite3.Error) as error:
            wrong += 1
            word, finding = "[red]wrong[/red]", str(error)
        say(f"{word} [bold]{name}[/bold]: {escape(finding)}")
    faults, told = f"[red]{counted(wrong, 'fault')} to repair[/red]", counted(notes, "note")
    console.print(faults if wrong else f"all is well{f', with {told}' if notes else ''}")
    return not wrong


def _checks(find: Callable[[], Path], full: bool) -> Iterator[tuple[str, Callable[[], str]]]:
    yield "python", lambda: sys.version.split()[0]
    yield "packages", lambda: ", ".join(f"{p} {importlib.metadata.version(p)}" for p in _PACKAGES)
    yield "packaged English model", _model
    yield "dagster home", _dagster_home
    loaded: list[CorpusConfig] = []

    def corpus_file() -> str:
        file = find()
        loaded.append(load_config(file))
        return f"{file}: {counted(len(loaded[0].all_configurations), 'configuration')}"

    yield "corpus file", corpus_file
    if not loaded:
        return
    config = loaded[0]
    in_bucket = "://" in config.store_url
    checks: dict[str, Callable[[CorpusConfig], str]] = {
        "queries and given chunks": _inputs,
        "models": _models,
        "bucket" if in_bucket else "disk": _bucket if in_bucket else _disk,
        "documents": _documents,
        "chunks": _chunks,
        "call cache": _call_cache,
    }
    for name, check in checks.items():
        yield name, partial(check, config)
    if in_bucket or Path(config.store_url).exists():
        for finding in inspect(Workspace(config), full):
            yield f"store {finding.place}", partial(_refuse, finding)
        if full:
            yield "hashes", partial(_hashes, Workspace(config))
    yield "release", partial(_release, config)


def _refuse(finding: Finding) -> str:
    way = "`rag doctor --repair` would" if finding.mend else "to repair it"
    raise StoreError(f"{finding.problem}; {way}: {finding.cure}")


def _hashes(workspace: Workspace) -> str:
    if without := unhashed(workspace):
        return (
            f"none yet of {', '.join(without)}, so corruption there stays unseen; the next change "
            f"and the next release add hashes"
        )
    return "every file of the store matches its hash"


def _repair(file: Path, full: bool) -> None:
    """Repair the store in up to 3 rounds, because a repair can reveal another fault."""
    config = load_config(file)
    workspace = Workspace(config)
    mended = 0
    for _ in range(_ROUNDS):
        findings = [f for f in inspect(workspace, full) if f.mend]
        for finding in findings:
            assert finding.mend is not None
            finding.mend()
            mended += 1
            about = escape(f"{finding.problem}; done: {finding.cure}")
            say(f"[yellow]repaired[/yellow] [bold]{finding.place}[/bold]: {about}")
        if not findings:
            break
    if mended:
        show_next(rag("run", file=file, corpus=config.corpus))


def _model() -> str:
    from rag_pipeline.models.providers.minilm import MiniLM

    embedder = MiniLM()
    embedder.embed(["ready"], "query")
    return embedder.identity


def _models(config: CorpusConfig) -> str:
    used = sorted({one.embedding for one in config.all_configurations.values() if one.embedding})
    ready = f"{counted(check_models(config), 'model')} ready; none was called"
    return f"{ready}; embeddings: {', '.join(used) or 'none'}"


def _dagster_home() -> str:
    home = os.environ.get("DAGSTER_HOME")
    if not home:
        return "not set, so `rag run` keeps no history (`make up` and `make run` set it)"
    if not Path(home).is_dir():
        raise OSError(f"DAGSTER_HOME={home}: no such folder; create it or unset the variable")
    return home


def _inputs(config: CorpusConfig) -> str:
    check_inputs(config)
    if config.queries_path is None:
        return "no queries, so nothing is measured and the first configuration is released"
    from rag_pipeline.evaluation.runs import left_out
    from rag_pipeline.loading.queries import read_queries

    lost = ""
    if "://" in config.store_url or Path(config.store_url).exists():
        lost = left_out(Workspace(config))
    count = len(read_queries(config.queries_path))
    told = f"{counted(count, 'query')} in {config.queries_path}"
    if lost:
        raise _NoteError(f"{told}; {lost}")
    return told


def _disk(config: CorpusConfig) -> str:
    store = Path(config.store_url)
    # A check must not create a folder, so test the nearest existing parent.
    folder = next(path for path in (store, *store.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"writable")
    except OSError as error:
        raise OSError(f"{store}: cannot write in {folder}: {error.strerror}") from None
    free = shutil.disk_usage(folder).free
    if free < _ENOUGH_BYTES:
        raise OSError(f"{store}: only {free / 1e6:,.0f} MB free; make room for the store")
    return f"{store}: writable, {free / 1e9:,.0f} GB free"


def _bucket(config: CorpusConfig) -> str:
    url = config.store_url
    bucket, prefix = split_url(url)
    key = f"{prefix}/.doctor-{uuid4().hex}".lstrip("/")
    with clear_s3_errors(url):
        s3_client().put_object(Bucket=bucket, Key=key, Body=b"writable")
        s3_client().delete_object(Bucket=bucket, Key=key)
    return f"{url}: objects can be written and deleted"


def _documents(config: CorpusConfig) -> str:
    from rag_pipeline.indexing import code_warning, plan_documents, text_warnings

    workspace = Workspace(config)
    plan = plan_documents(workspace)
    refused = workspace.quarantine("documents").state().keys()
    current = plan.current - len(refused - {*plan.stale, *plan.orphaned})
    doubtful = text_warnings(workspace)
    changed = f"{len(plan.stale):,} new or changed, {len(plan.orphaned):,} gone"
    parts = (
        f"{config.documents_place}: {current:,} current, {changed}",
        f"{len(refused):,} in quarantine: `rag quarantine` names them" if refused else "",
        f"{len(doubtful):,} with doubtful text, such as {doubtful[0]}" if doubtful else "",
        code_warning(workspace),
    )
    told = "; ".join(filter(None, parts))
    if refused:
        raise _NoteError(told)
    return told


def _chunks(config: CorpusConfig) -> str:
    from rag_pipeline.indexing import window_warnings

    return "; ".join(window_warnings(Workspace(config))) or "within the windows of their embeddings"


def _call_cache(config: CorpusConfig) -> str:
    cache = Workspace(config).cache
    database = cache.database
    found = "none yet"
    if database.exists:
        database.check()
        found = f"{database.place}: {counted(len(cache), 'answer')}"
    if "://" not in config.store_url or database.is_shared:
        return found
    return (
        f"{found}; other machines that use this bucket have their own answers and budgets; to "
        f"share them, name a Postgres database in {VARIABLE}"
    )


def _release(config: CorpusConfig) -> str:
    from rag_pipeline.corpus import Corpus

    corpus = Corpus(config)
    served = corpus.release()
    corpus.search("ready", k=1)
    return f"{served.release_id}: {served.configuration}, {counted(served.pinned.rows, 'chunk')}"
