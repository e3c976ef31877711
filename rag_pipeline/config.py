"""The typed corpus file: the variants of each stage, the configurations, and their fingerprints.

A *fingerprint* hashes a stage's settings, its code version and its upstream fingerprint; rows
made under another fingerprint are stale. Settings classes carry the `code_version` of the code
they select, so that changing one chunker re-does that chunker's partitions and no others.
"""

import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from rag_pipeline.errors import ConfigError

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
"""What corpora, variants and configurations may be called: safe as partition key and table name."""

COMPONENT_TYPE = "rag_pipeline.RagPipeline"


class Settings(BaseModel):
    """A frozen group of settings that refuses unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())
    code_version: ClassVar[int] = 1


class DocumentsSource(Settings):
    """Which files are the corpus: a folder with globs, and a size limit per document."""

    code_version = 1
    path: str
    include: tuple[str, ...] = ("**/*",)
    exclude: tuple[str, ...] = ()
    max_bytes: int = Field(default=50_000_000, gt=0)


# --- chunkings ---


class FixedChunking(Settings):
    """Windows of `tokens` tokens that overlap by `overlap` tokens."""

    method: Literal["fixed"]
    tokens: int = Field(default=200, ge=8)
    overlap: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _overlap_is_smaller(self) -> "FixedChunking":
        if self.overlap >= self.tokens:
            raise ValueError(f"overlap {self.overlap} must be smaller than tokens {self.tokens}")
        return self


class RecursiveChunking(Settings):
    """Split at the largest separator that keeps pieces under `max_characters`."""

    method: Literal["recursive"]
    max_characters: int = Field(default=500, ge=32)


class MarkdownChunking(Settings):
    """One chunk per heading's section, sections over `max_characters` split further."""

    method: Literal["markdown"]
    max_characters: int = Field(default=1000, ge=32)


class SemanticChunking(Settings):
    """Break where neighbouring sentences drift apart by more than mean + threshold x deviation.

    `window` is the number of neighbours on each side that a sentence is embedded with;
    `embedding` names the variant whose model compares sentences (the packaged one by default).
    """

    method: Literal["semantic"]
    threshold: float = Field(default=2.0, ge=0.0, le=10.0)
    window: int = Field(default=1, ge=0, le=10)
    min_characters: int = Field(default=100, ge=0)
    max_characters: int = Field(default=2000, ge=32)
    embedding: str | None = None


class GivenChunking(Settings):
    """Spans that were cut upstream, read from a `chunks.jsonl` (beside the queries by default)."""

    method: Literal["given"]
    path: str | None = None


Chunking = Annotated[
    FixedChunking | RecursiveChunking | MarkdownChunking | SemanticChunking | GivenChunking,
    Field(discriminator="method"),
]

# --- contextualizers ---


class NoContext(Settings):
    """Index chunks as they are."""

    method: Literal["none"]


class StructuralContext(Settings):
    """A free, deterministic context from the document's own structure."""

    method: Literal["structural"]
    max_characters: int = Field(default=400, ge=16)


Contextualizer = Annotated[NoContext | StructuralContext, Field(discriminator="method")]

# --- embeddings ---


class MiniLMEmbedding(Settings):
    """The packaged all-MiniLM-L6-v2: 384 dimensions, 256 tokens, no key and no network."""

    provider: Literal["minilm"]


Embedding = Annotated[MiniLMEmbedding, Field(discriminator="provider")]

# --- retrievers and rerankers ---

LexicalEngine = Literal["bm25s", "rank_bm25", "lance"]


class _Retriever(Settings):
    top_k: int = Field(default=50, ge=1, le=10_000)
    top_n: int | None = Field(default=None, ge=1)


class DenseRetriever(_Retriever):
    """Nearest vectors by cosine."""

    method: Literal["dense"]


class LexicalRetriever(_Retriever):
    """BM25."""

    method: Literal["lexical"]
    engine: LexicalEngine = "bm25s"


class HybridRetriever(_Retriever):
    """Both, fused: `rrf` (reciprocal rank) or `weighted` (scores scaled to 0..1 per query)."""

    method: Literal["hybrid"]
    engine: LexicalEngine = "bm25s"
    fusion: Literal["rrf", "weighted"] = "weighted"
    dense_weight: float = Field(default=0.6, ge=0.0)
    lexical_weight: float = Field(default=0.4, ge=0.0)
    rrf_k: int = Field(default=60, ge=1)
    candidates: int = Field(default=100, ge=1, le=10_000)

    @model_validator(mode="after")
    def _weights_count(self) -> "HybridRetriever":
        if self.dense_weight + self.lexical_weight <= 0:
            raise ValueError("dense_weight and lexical_weight are both 0: nothing to rank by")
        return self


Retriever = Annotated[
    DenseRetriever | LexicalRetriever | HybridRetriever, Field(discriminator="method")
]


class NoReranker(Settings):
    """Keep the retriever's order."""

    method: Literal["none"]


Reranker = Annotated[NoReranker, Field(discriminator="method")]


class Lexical(Settings):
    """What all BM25 engines share: tokens, stems, stop words, k1 and b (defaults are Lucene's)."""

    language: Literal["english", "german", "french", "spanish", "italian", "none"] = "english"
    k1: float = Field(default=1.2, ge=0.0)
    b: float = Field(default=0.75, ge=0.0, le=1.0)


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
    contextualizers: dict[Name, Contextualizer] = {"none": NoContext(method="none")}
    embeddings: dict[Name, Embedding] = {"minilm": MiniLMEmbedding(provider="minilm")}
    retrievers: dict[Name, Retriever] = Field(min_length=1)
    rerankers: dict[Name, Reranker] = {"none": NoReranker(method="none")}
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
        return self._base / Path(value).expanduser()

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

    def lexical_engines(self, context_key: str) -> tuple[str, ...]:
        """Return the BM25 engines that configurations over one partition ask for."""
        engines = {
            getattr(self.retrievers[c.retriever], "engine", None)
            for c in self.all_configurations.values()
            if c.context_key == context_key
        }
        return tuple(e for e in get_args(LexicalEngine) if e in engines)


def fingerprint(*parts: Any) -> str:
    """Return 16 hex digits of the SHA-256 over the parts' canonical JSON."""

    def plain(value: Any) -> Any:
        if isinstance(value, Settings):
            return {"code_version": value.code_version, **value.model_dump(mode="json")}
        raise TypeError(f"cannot fingerprint {type(value).__name__}")

    canonical = json.dumps(parts, default=plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def parse_config(attributes: Any, file: Path | None = None) -> CorpusConfig:
    """Validate a corpus file's attributes.

    Raises ConfigError with one line per mistake: file, path inside it, value, allowed values.
    """
    where = str(file) if file else "corpus file"
    if not isinstance(attributes, dict):
        raise ConfigError(
            f"{where}: attributes: expected a mapping of settings, not {_shown(attributes)}"
        )
    try:
        config = CorpusConfig.model_validate(attributes)
    except ValidationError as error:
        lines = list(dict.fromkeys(_explain(e, attributes) for e in error.errors()))
        more = f"\n(and {len(lines) - 8} more)" if len(lines) > 8 else ""
        raise ConfigError("\n".join(f"{where}: {line}" for line in lines[:8]) + more) from None
    if file is not None:
        config._file = file
        config._base = _base(file, config)
    return config


def load_config(file: str | Path) -> CorpusConfig:
    """Read a corpus file.

    Relative paths in it are resolved against the first of these in which `documents.path`
    exists: the file's own folder, the project root above it (where `workspace.yaml` or
    `pyproject.toml` stands), the working directory.
    """
    file = Path(file).expanduser()
    try:
        raw = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file}: cannot read the corpus file: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8 text (byte {error.start})") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = re.sub(r"\s+", " ", str(error)).replace('in "<unicode string>", ', "")
        raise ConfigError(f"{file}: not valid YAML: {reason}") from None
    if not isinstance(raw, dict) or "attributes" not in raw:
        raise ConfigError(
            f"{file}: expected a mapping with `type: {COMPONENT_TYPE}` and `attributes:`, "
            f"not {_shown(raw)}"
        )
    if raw.get("type") != COMPONENT_TYPE:
        raise ConfigError(f"{file}: type: {raw.get('type')!r} is not one of: {COMPONENT_TYPE}")
    return parse_config(raw["attributes"], file.resolve())


def _base(file: Path, config: CorpusConfig) -> Path:
    markers = ("workspace.yaml", "pyproject.toml")
    roots = [p for p in file.parents if any((p / m).exists() for m in markers)]
    bases = [file.parent, *roots[:1], Path.cwd()]
    documents = Path(config.documents.path).expanduser()
    return next((b for b in bases if (b / documents).exists()), bases[1] if roots else bases[0])


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _explain(error: Any, attributes: Any) -> str:
    """Turn one pydantic error into `path: value: what is wrong and what is allowed`."""
    kind, context = error["type"], error.get("ctx", {})
    path: list[str] = []
    here: Any = attributes
    for index, step in enumerate(error["loc"]):
        if isinstance(here, dict) and step in here:
            here = here[step]
        elif isinstance(here, list) and isinstance(step, int) and step < len(here):
            here = here[step]
        elif index < len(error["loc"]) - 1 or step == "[key]" or step in _tags_of(here):
            continue  # the tag that pydantic puts in for a union's member
        path.append(str(step))
    place = ".".join(path)
    if kind == "missing":
        return f"{place}: missing"
    if kind == "extra_forbidden":
        return f"{place}: unknown setting; allowed here: {', '.join(_allowed(error['loc']))}"
    if kind == "union_tag_not_found":
        tag = context["discriminator"].strip("'")
        return f"{place}.{tag}: missing; allowed: {_tags_at(error['loc'])}"
    if kind == "union_tag_invalid":
        tag = context["discriminator"].strip("'")
        return f"{place}.{tag}: {context['tag']!r} is not one of: {context['expected_tags']}"
    if kind == "literal_error":
        return f"{place}: {_shown(error['input'])} is not one of: {context['expected']}"
    if kind == "string_pattern_mismatch":
        return (
            f"{place}: {_shown(error['input'])}: use 1 to 64 letters, digits, '_' or '-' in a name"
        )
    if kind == "value_error":
        message = str(context["error"])
        return f"{place}: {message}" if place else message
    return f"{place}: {_shown(error['input'])}: {error['msg']}"


def _members(loc: tuple[Any, ...]) -> list[type[Settings]]:
    """Return the settings classes that may stand at a pydantic error location's parent."""
    models: list[type[Settings]] = [CorpusConfig]
    for step in loc:
        if isinstance(step, str) and any(step in m.model_fields for m in models):
            found = [m.model_fields[step] for m in models if step in m.model_fields]
            inner = _settings_in(found[0].annotation)
            models = inner or models
        elif isinstance(step, str):
            tagged = [
                m
                for m in models
                for tag in ("method", "provider")
                if tag in m.model_fields and step in get_args(m.model_fields[tag].annotation)
            ]
            models = tagged or models
    return models


def _settings_in(annotation: Any) -> list[type[Settings]]:
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return [annotation]
    return [m for a in get_args(annotation) for m in _settings_in(a)]


def _allowed(loc: tuple[Any, ...]) -> list[str]:
    return sorted({name for m in _members(loc[:-1]) for name in m.model_fields})


def _tags_at(loc: tuple[Any, ...]) -> str:
    tags = [
        str(value)
        for m in _members(loc)
        for tag in ("method", "provider")
        if tag in m.model_fields
        for value in get_args(m.model_fields[tag].annotation)
    ]
    return ", ".join(repr(t) for t in tags)


def _tags_of(value: Any) -> list[Any]:
    return [value.get("method"), value.get("provider")] if isinstance(value, dict) else []
