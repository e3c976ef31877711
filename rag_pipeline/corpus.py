"""One corpus as a Python object: search its release, read its leaderboard, roll back."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

from pydantic import TypeAdapter

from rag_pipeline import release as manifests
from rag_pipeline.config import CorpusConfig, Embedding, Reranker, Retriever, load_config
from rag_pipeline.datamodels import ScoredChunk
from rag_pipeline.embedding import request
from rag_pipeline.errors import InputError
from rag_pipeline.evaluation.runs import load_leaderboard, open_index
from rag_pipeline.providers import Embedder, open_embedder
from rag_pipeline.release import Release
from rag_pipeline.retrieval import EncodedQuestion, Index, read_question, retrieve
from rag_pipeline.workspace import Workspace

_RETRIEVER: TypeAdapter[Retriever] = TypeAdapter(Retriever)
_RERANKER: TypeAdapter[Reranker] = TypeAdapter(Reranker)
_EMBEDDING: TypeAdapter[Embedding] = TypeAdapter(Embedding)


@dataclass(frozen=True, slots=True)
class _Served:
    release: Release
    index: Index
    embedder: Embedder
    retriever: Retriever
    reranker: Reranker


class Corpus:
    """A corpus file with what was built from it.

    >>> corpus = Corpus.load("rag_pipeline/defs/sample/defs.yaml")
    >>> corpus.search("How long does confidentiality last?", k=5)
    """

    def __init__(self, config: CorpusConfig) -> None:
        self.config = config
        self.workspace = Workspace(config)
        self._lock = Lock()
        self._served: _Served | None = None

    @classmethod
    def load(cls, file: str | Path) -> "Corpus":
        """Read a corpus file; raise ConfigError naming what is wrong in it."""
        return cls(load_config(file))

    @cached_property
    def name(self) -> str:
        """Return the corpus's name."""
        return self.config.corpus

    def search(self, query: str, k: int = 5, where: str | None = None) -> list[ScoredChunk]:
        """Return the k best chunks of the release, best first.

        `where` is a filter in LanceDB's SQL, such as `document_id LIKE 'policies/%'` or
        `json_get_string(metadata, 'suffix') = '.pdf'`. Raises NotReleasedError before the first
        release and InputError for an empty query or a filter that can't be read. A release made
        meanwhile is picked up by the next search.
        """
        if not query.strip():
            raise InputError("the query is empty")
        if k < 1:
            raise InputError(f"k is {k}; it must be at least 1")
        served = self._open()
        question = read_question(served.index, query, served.retriever)
        made = request([question.ask], served.embedder, "query")
        encoded = EncodedQuestion(made.vectors[0], made.tokens[0])
        wanted: dict[str, Any] = {"top_k": max(k, served.retriever.top_k), "top_n": k}
        settings = served.retriever.model_copy(update=wanted)
        return retrieve(served.index, question, encoded, settings, served.reranker, where)

    def release(self) -> Release:
        """Return the manifest that is served."""
        return manifests.current(self.workspace)

    def releases(self) -> list[Release]:
        """Return all manifests, newest first."""
        return manifests.history(self.workspace)

    def roll_back(self, release_id: str | None = None) -> Release:
        """Serve an earlier release again, the one before the current by default."""
        return manifests.roll_back(self.workspace, release_id)

    def leaderboard(self) -> dict[str, Any]:
        """Return every evaluated configuration with its metrics, best first."""
        return load_leaderboard(self.workspace)

    def _open(self) -> _Served:
        release = manifests.current(self.workspace)
        with self._lock:
            if self._served is None or self._served.release.release_id != release.release_id:
                self._served = _Served(
                    release,
                    open_index(self.workspace, release.pinned),
                    open_embedder(_EMBEDDING.validate_python(release.settings["embedding"])),
                    _RETRIEVER.validate_python(release.settings["retriever"]),
                    _RERANKER.validate_python(release.settings["reranker"]),
                )
            return self._served
