"""Prove that the documents of a release contain the sources of a kept answer.

The proof reads only the release's tables in the store, or a bundle. It calls no model.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import AliasChoices, BaseModel, Field, ValidationError

from rag_pipeline.errors import CheckFailedError, InputError, NotReleasedError, first_problem
from rag_pipeline.release.bundle import extracted
from rag_pipeline.release.bundle_content import DOCUMENTS, VECTORS
from rag_pipeline.release.manifest import Release, load
from rag_pipeline.workspace import Workspace

_WRAPPED = ("rag_pipeline", "structuredContent", "structured_content", "data", "result")
"""Keys of the answer in chat completions and in the files of MCP clients."""
_CHUNK = re.compile(r"(?P<document>.*)#(?P<start>\d+)-(?P<end>\d+)", re.DOTALL)
_SHOWN = 60


class KeptSource(BaseModel):
    """A source of an answer, in the form of the command line, `/v1` or MCP."""

    number: int
    corpus: str = Field(validation_alias=AliasChoices("corpus", "dataset"))
    document_id: str = Field(validation_alias=AliasChoices("document_id", "document_name"))
    content_hash: str
    chunk_id: str
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    text: str
    origin: Any = None


class KeptRelease(BaseModel):
    """The release in an answer, with its corpus."""

    corpus: str
    release: str
    released: str
    configuration: str


class KeptAnswer(BaseModel):
    """The provable parts of an answer."""

    answered: bool
    releases: list[KeptRelease]
    sources: list[KeptSource]


@dataclass(frozen=True, slots=True)
class Held:
    """The tables of a release: texts and hashes by document, and the ids of the chunks."""

    corpus: str
    release: Release
    documents: dict[str, tuple[str, str]]
    chunks: set[str]


def read_answer(file: Path) -> KeptAnswer:
    """Read a kept answer of the command line, `/v1` or MCP. Raise InputError for other files."""
    try:
        record = json.loads(file.read_text("utf-8"))
        while isinstance(record, dict) and "sources" not in record:
            record = next(record[key] for key in _WRAPPED if key in record)
        return KeptAnswer.model_validate(record)
    except ValidationError as error:
        raise InputError(f"{file}: not an answer: {first_problem(error)}") from None
    except (OSError, ValueError, StopIteration, RecursionError) as error:
        raise InputError(f"{file}: not an answer of this program: {error}") from None


def prove(answer: KeptAnswer, place: Workspace | Path) -> Held:
    """Compare an answer's sources with the documents of its release, and return the release.

    `place` is the workspace of a corpus, or a bundle. Only sources from its corpus are compared.
    Raise CheckFailedError if the release is wrong, or if a document, chunk or word differs from a
    source.
    """
    if answer.answered and not answer.sources:
        raise CheckFailedError("the answer has no sources, so a proof is impossible")
    ids = sorted({source.document_id for source in answer.sources})
    held = _in_bundle(place, ids) if isinstance(place, Path) else _in_store(place, answer, ids)
    named, release = _named(answer, held.corpus), held.release
    if (release.created, release.configuration) != (named.released, named.configuration):
        raise CheckFailedError(
            f"the answer is from {named.release} of {named.released} ({named.configuration}), but "
            f"this is {release.release_id} of {release.created} ({release.configuration})"
        )
    own = [source for source in answer.sources if source.corpus == held.corpus]
    if answer.sources and not own:
        raise CheckFailedError(f"no source is of the corpus {held.corpus!r}; nothing is proved")
    for source in own:
        problem = _problem(source, held)
        if problem is not None:
            cited = f"source [{source.number}], {source.document_id[:200]}"
            raise CheckFailedError(f"{cited}: {problem}")
    return held


def _named(answer: KeptAnswer, corpus: str) -> KeptRelease:
    for one in answer.releases:
        if one.corpus == corpus:
            return one
    others = ", ".join(one.corpus for one in answer.releases) or "none"
    raise CheckFailedError(f"the answer is not from the corpus {corpus!r}, but from: {others}")


def _problem(source: KeptSource, held: Held) -> str | None:
    if source.origin is not None:
        return "it was found outside the corpus, so the release cannot prove it"
    if source.document_id not in held.documents:
        return f"{held.release.release_id} has no such document"
    text, content_hash = held.documents[source.document_id]
    if content_hash != source.content_hash:
        return "the document of the release has another hash"
    words = text[source.start : source.end]
    if words != source.text:
        span = f"characters {source.start} to {source.end}"
        return f"{span} are {_short(words)}, and the answer cites {_short(source.text)}"
    chunk = _CHUNK.fullmatch(source.chunk_id)
    if source.chunk_id not in held.chunks or chunk is None:
        return f"{held.release.release_id} has no chunk {source.chunk_id[:200]!r}"
    inside = int(chunk["start"]) <= source.start and source.end <= int(chunk["end"])
    return None if inside else f"the words are outside of the chunk {source.chunk_id[:200]!r}"


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def _in_store(workspace: Workspace, answer: KeptAnswer, ids: Sequence[str]) -> Held:
    corpus = workspace.config.corpus
    try:
        release = load(workspace, _named(answer, corpus).release)
    except NotReleasedError as error:
        raise CheckFailedError(f"the store lacks the answer's release: {error}") from None
    pinned = release.pinned
    if pinned.documents_version is None:
        raise CheckFailedError(f"{release.release_id} has no documents")
    vectors = workspace.store.table(pinned.vector_table, None)
    columns = ["document_id", "text", "content_hash"]
    return _held(
        corpus,
        release,
        workspace.documents().read(columns, ids, pinned.documents_version),
        vectors.read(["document_id", "chunk_id"], ids, pinned.vector_version),
        ids,
    )


def _in_bundle(file: Path, ids: Sequence[str]) -> Held:
    with extracted(file) as (corpus, release, folder):
        if not (folder / DOCUMENTS).exists():
            raise CheckFailedError(f"{file}: the bundle has no documents")
        with (
            pa.OSFile(str(folder / DOCUMENTS)) as documents,
            pa.OSFile(str(folder / VECTORS)) as vectors,
            pa.ipc.open_stream(documents) as texts,
            pa.ipc.open_stream(vectors) as chunks,
        ):
            return _held(corpus, release, texts, chunks, ids)


def _held(
    corpus: str,
    release: Release,
    texts: Iterable[pa.RecordBatch],
    chunks: Iterable[pa.RecordBatch],
    ids: Sequence[str],
) -> Held:
    wanted = set(ids)
    documents = {
        row["document_id"]: (row["text"], row["content_hash"])
        for batch in texts
        for row in batch.select(["document_id", "text", "content_hash"]).to_pylist()
        if row["document_id"] in wanted
    }
    known = {
        row["chunk_id"]
        for batch in chunks
        for row in batch.select(["document_id", "chunk_id"]).to_pylist()
        if row["document_id"] in wanted
    }
    return Held(corpus, release, documents, known)
