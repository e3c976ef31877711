"""One corpus: its variants, its configurations, and the fingerprints of what is made from them.

A *fingerprint* hashes a stage's settings, its code version and its upstream fingerprint; rows
made under another fingerprint are stale. Settings classes carry the `code_version` of the code
they select, so that changing one chunker re-does that chunker's partitions and no others.
"""

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import Field, model_validator

from rag_pipeline.config.settings import (
    Chunking,
    Contextualizer,
    DocumentsSource,
    Embedding,
    GivenChunking,
    Lexical,
    LexicalEngine,
    MaxSimReranker,
    MiniLMEmbedding,
    Name,
    NoContext,
    NoReranker,
    Reranker,
    Retriever,
    SemanticChunking,
    Settings,
)
from rag_pipeline.errors import ConfigError


class ConfigurationRule(Settings):
    """One line under `configurations`: a variant per stage, `*` for each of them."""

    name: Name | None = None
    chunking: str
    contextualizer: str = "none"
    embedding: str
    retriever: str
    reranker: str = "none"


class Configuration(Settings):
    """A named choice of one variant per stage: the unit of evaluation."""

    name: str
    chunking: str
    contextualizer: str
    embedding: str
    retriever: str
    reranker: str

    @property
    def context_key(self) -> str:
        """Return the partition of contextualized chunks and lexical index."""
        return f"{self.chunking}.{self.contextualizer}"

    @property
    def vector_key(self) -> str:
        """Return the partition of the vector index."""
        return f"{self.context_key}.{self.embedding}"


STAGES = ("chunking", "contextualizer", "embedding", "retriever", "reranker")
Variants = Mapping[Name, Any]


class CorpusConfig(Settings):
    """One corpus file's attributes."""

    corpus: Name
    documents: DocumentsSource
    store: str = "data/store"
    queries: str | None = None
    chunkings: dict[Name, Chunking] = Field(min_length=1)
    contextualizers: dict[Name, Contextualizer] = Field(
        default={"none": NoContext(method="none")}, min_length=1
    )
    embeddings: dict[Name, Embedding] = Field(
        default={"minilm": MiniLMEmbedding(provider="minilm")}, min_length=1
    )
    retrievers: dict[Name, Retriever] = Field(min_length=1)
    rerankers: dict[Name, Reranker] = Field(
        default={"none": NoReranker(method="none")}, min_length=1
    )
    lexical: Lexical = Lexical()
    configurations: tuple[ConfigurationRule, ...] = Field(min_length=1)
    serve: str = "best"
    serve_metric: str = "AnswerPresence@5"
    schedule: str | None = None
    owners: tuple[str, ...] = ()
    description: str = ""

    _base: Path = Path()
    _file: Path | None = None

    @model_validator(mode="after")
    def _names_resolve(self) -> "CorpusConfig":
        seen: dict[str, int] = {}
        for index, configuration in self._expanded():
            if configuration.name in seen:
                raise ValueError(
                    f"configurations.{index}: the name {configuration.name!r} is taken by "
                    f"configurations.{seen[configuration.name]}"
                )
            seen[configuration.name] = index
        if self.serve != "best" and self.serve not in seen:
            raise ValueError(f"serve: {self.serve!r} is not one of: best, {', '.join(seen)}")
        for name, retriever in self.retrievers.items():
            fixed = (self.lexical.k1, self.lexical.b) == (1.2, 0.75)
            if getattr(retriever, "engine", None) == "lance" and not fixed:
                raise ValueError(
                    f"retrievers.{name}.engine: lance fixes k1 = 1.2 and b = 0.75; leave them out "
                    f"of `lexical` or choose another engine"
                )
        for index, configuration in self._expanded():
            reranker = self.rerankers[configuration.reranker]
            if isinstance(reranker, MaxSimReranker) and not keeps_tokens(
                self.embeddings[configuration.embedding]
            ):
                raise ValueError(
                    f"configurations.{index}: the reranker {configuration.reranker!r} compares "
                    f"token vectors and the embedding {configuration.embedding!r} keeps none; set "
                    f"embeddings.{configuration.embedding}.token_vectors: true"
                )
        for name, chunking in self.chunkings.items():
            embedding = getattr(chunking, "embedding", None)
            if embedding is not None and embedding not in self.embeddings:
                raise ValueError(
                    f"chunkings.{name}.embedding: {embedding!r} is not one of: "
                    f"{', '.join(self.embeddings)}"
                )
        return self

    def variants(self, stage: str) -> Variants:
        """Return the named settings of one stage."""
        variants: Variants = getattr(self, f"{stage}s")
        return variants

    def _expanded(self) -> Iterator[tuple[int, Configuration]]:
        for index, rule in enumerate(self.configurations):
            choices = []
            for stage in STAGES:
                wanted, known = getattr(rule, stage), self.variants(stage)
                if wanted != "*" and wanted not in known:
                    raise ValueError(
                        f"configurations.{index}.{stage}: {wanted!r} is not one of: "
                        f"*, {', '.join(known)}"
                    )
                choices.append(list(known) if wanted == "*" else [wanted])
            combinations = list(itertools.product(*choices))
            if rule.name and len(combinations) > 1:
                raise ValueError(
                    f"configurations.{index}.name: {rule.name!r} would name "
                    f"{len(combinations)} configurations; leave the name out where '*' is used"
                )
            for combination in combinations:
                parts = dict(zip(STAGES, combination, strict=True))
                yield index, Configuration(name=rule.name or ".".join(combination), **parts)

    @property
    def all_configurations(self) -> dict[str, Configuration]:
        """Return every configuration by name, `*` expanded, in the file's order."""
        return {c.name: c for _, c in self._expanded()}

    def configuration(self, name: str) -> Configuration:
        """Return one configuration; raise ConfigError naming the known ones."""
        known = self.all_configurations
        if name not in known:
            raise ConfigError(
                f"{self.where}: no configuration {name!r}; there are: {', '.join(known)}"
            )
        return known[name]

    # --- places ---

    @property
    def where(self) -> str:
        """Return what error messages call this file."""
        return str(self._file) if self._file else f"corpus {self.corpus}"

    def path(self, value: str) -> Path:
        """Resolve a path of the file against its base (see `load_config`)."""
        try:
            return self._base / Path(value).expanduser()
        except RuntimeError as error:
            raise ConfigError(f"{self.where}: {value!r}: {error}") from None

    @property
    def documents_path(self) -> Path:
        """Return the folder or file that holds the documents."""
        return self.path(self.documents.path)

    @property
    def queries_path(self) -> Path | None:
        """Return the queries file, or None."""
        return self.path(self.queries) if self.queries else None

    @property
    def store_url(self) -> str:
        """Return the store as an absolute folder or an s3:// address."""
        return self.store if "://" in self.store else str(self.path(self.store))

    def chunks_path(self, chunking: str) -> Path:
        """Return the file of a `given` chunking."""
        settings = self.chunkings[chunking]
        assert isinstance(settings, GivenChunking)
        if settings.path:
            return self.path(settings.path)
        if self.queries_path is None:
            raise ConfigError(
                f"{self.where}: chunkings.{chunking}.path: needed, as there is no `queries` "
                f"file to look beside"
            )
        return self.queries_path.parent / "chunks.jsonl"

    def sentence_embedding(self, settings: SemanticChunking) -> Embedding:
        """Return the model that a semantic chunking compares sentences with."""
        name = settings.embedding
        return self.embeddings[name] if name else MiniLMEmbedding(provider="minilm")

    # --- fingerprints, left to right ---

    def documents_fingerprint(self) -> str:
        """Return what loading a document depends on besides its bytes."""
        return fingerprint("documents", self.documents.code_version)

    def chunks_fingerprint(self, chunking: str) -> str:
        """Return what the chunks of one chunking were made from."""
        settings = self.chunkings[chunking]
        parts: list[Any] = ["chunks", settings, self.documents_fingerprint()]
        if isinstance(settings, SemanticChunking):
            parts.append(self.sentence_embedding(settings))
        if isinstance(settings, GivenChunking):
            path = self.chunks_path(chunking)
            if not path.is_file():
                raise ConfigError(
                    f"{self.where}: chunkings.{chunking}: no such file: {path} (a `given` "
                    f"chunking reads its spans from it)"
                )
            parts.append(hashlib.sha256(path.read_bytes()).hexdigest())
        return fingerprint(*parts)

    def context_fingerprint(self, chunking: str, contextualizer: str) -> str:
        """Return what contextualized chunks were made from."""
        return fingerprint(
            "context", self.contextualizers[contextualizer], self.chunks_fingerprint(chunking)
        )

    def vector_fingerprint(self, chunking: str, contextualizer: str, embedding: str) -> str:
        """Return what the rows of a vector index were made from."""
        upstream = self.context_fingerprint(chunking, contextualizer)
        return fingerprint("vectors", self.embeddings[embedding], upstream)

    def lexical_fingerprint(self, chunking: str, contextualizer: str) -> str:
        """Return what a lexical index was made from."""
        upstream = self.context_fingerprint(chunking, contextualizer)
        return fingerprint("lexical", self.lexical, upstream)

    def engine(self, configuration: Configuration) -> str | None:
        """Return the BM25 engine that a configuration searches with, None for vectors alone."""
        engine: str | None = getattr(self.retrievers[configuration.retriever], "engine", None)
        return engine

    def lexical_engines(self, context_key: str) -> tuple[str, ...]:
        """Return the BM25 engines that configurations over one partition ask for."""
        engines = {
            self.engine(c) for c in self.all_configurations.values() if c.context_key == context_key
        }
        return tuple(e for e in get_args(LexicalEngine) if e in engines)


def keeps_tokens(settings: Embedding) -> bool:
    """Return whether an embedding's index holds token vectors."""
    return bool(getattr(settings, "token_vectors", False))


def fingerprint(*parts: Any) -> str:
    """Return 16 hex digits of the SHA-256 over the parts' canonical JSON."""

    def plain(value: Any) -> Any:
        if isinstance(value, Settings):
            return {"code_version": value.code_version, **value.model_dump(mode="json")}
        raise TypeError(f"cannot fingerprint {type(value).__name__}")

    canonical = json.dumps(parts, default=plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]
