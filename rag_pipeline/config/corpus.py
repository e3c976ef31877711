"""Define the settings of a corpus file. Derive its configurations, paths and fingerprints."""

import importlib.util
import itertools
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import ConfigDict, Field, model_validator

from rag_pipeline.config.access import Access
from rag_pipeline.config.assistant import AssistantSettings
from rag_pipeline.config.chunkings import Chunking
from rag_pipeline.config.configurations import (
    LEVELS,
    STAGES,
    Configuration,
    ConfigurationRule,
    Key,
    KeyLevel,
)
from rag_pipeline.config.contextualizers import Contextualizer
from rag_pipeline.config.evaluation import Evaluation, ExtractiveAnswers
from rag_pipeline.config.models import ChatSettings, ChatVariant, Embedding, packaged_embedding
from rag_pipeline.config.rerankers import Reranker
from rag_pipeline.config.retrievers import Lexical, LexicalEngine, Retriever
from rag_pipeline.config.settings import (
    Alerts,
    Cron,
    DocumentsSource,
    Gate,
    Hours,
    Name,
    Owner,
    Retention,
    Settings,
    fingerprint,
)
from rag_pipeline.errors import ConfigError, blaming
from rag_pipeline.imports import CONTEXTUALIZERS, RERANKERS, load_group

VECTORS_VERSION = 2
"""Increase this number when the embedded text of a chunk and its context changes."""

_BESIDE_QUERIES = ("rejected", "dropped", "unlabelled", "unlabelled.rejected")
"""Endings of the names of files that `rag questions` writes next to the queries file."""

Variants = Mapping[Name, Any]
SettingsT = TypeVar("SettingsT", bound=Settings)


class CorpusConfig(Settings):
    """The attributes of one corpus file."""

    model_config = ConfigDict(defer_build=True)

    corpus: Name
    documents: DocumentsSource
    store: str = "data/store"
    queries: str | None = None
    access: Access | None = None
    chats: dict[Name, ChatVariant] = Field(default={})
    chunkings: dict[Name, Chunking] = Field(min_length=1)
    contextualizers: dict[Name, Contextualizer] = Field(
        default_factory=lambda: {"none": load_group(CONTEXTUALIZERS)["none"](method="none")},
        min_length=1,
    )
    embeddings: dict[Name, Embedding] = Field(
        default_factory=lambda: {"minilm": packaged_embedding()}, min_length=1
    )
    retrievers: dict[Name, Retriever] = Field(min_length=1)
    rerankers: dict[Name, Reranker] = Field(
        default_factory=lambda: {"none": load_group(RERANKERS)["none"](method="none")}, min_length=1
    )
    lexical: Lexical = Lexical()
    evaluation: Evaluation = Field(default_factory=Evaluation)
    assistant: AssistantSettings = AssistantSettings()
    configurations: tuple[ConfigurationRule, ...] = Field(min_length=1)
    budget_usd: float | None = Field(default=None, ge=0.0)
    prices: str | None = None
    serve: str = "best"
    serve_metric: str = "AnswerPresence@5"
    baseline: str | None = None
    gate: Gate = Gate()
    schedule: Cron | None = None
    sensor_hours: Hours | None = None
    retention: Retention = Retention()
    alerts: Alerts | None = None
    report_url: str | None = None
    owners: tuple[Owner, ...] = ()
    tags: dict[str, str] = Field(default={})
    deps: tuple[str, ...] = ()
    key_prefix: tuple[Name, ...] = ()
    translation: dict[str, Any] = Field(default={})
    description: str = ""

    _base: Path = Path()
    _file: Path | None = None

    @model_validator(mode="after")
    def _names_resolve(self) -> "CorpusConfig":
        seen: dict[str, int] = {}
        for index, configuration in self._expanded():
            name, embedding = configuration.name, configuration.embedding
            if name in seen:
                raise ValueError(
                    f"configurations.{index}: the name {name!r} is taken by "
                    f"configurations.{seen[name]}"
                )
            seen[name] = index
            compares_tokens = self.rerankers[configuration.reranker].compares_tokens
            settings = self.embeddings[embedding]
            if compares_tokens and not settings.keeps_tokens:
                cure = "choose another reranker"
                if "token_vectors" in type(settings).model_fields:
                    cure = f"set embeddings.{embedding}.token_vectors: true"
                raise ValueError(
                    f"configurations.{index}: the reranker {configuration.reranker!r} needs token "
                    f"vectors, but the embedding {embedding!r} has none; {cure}"
                )
        if self.serve != "best" and self.serve not in seen:
            raise ValueError(f"serve: {self.serve!r} is not one of: best, {', '.join(seen)}")
        if self.baseline is not None and self.baseline not in seen:
            raise ValueError(f"baseline: {self.baseline!r} is not one of: {', '.join(seen)}")
        for name, retriever in self.retrievers.items():
            lexical = self.lexical
            fixed = (lexical.k1, lexical.b, lexical.text_weight) == (1.2, 0.75, 1)
            if retriever.lexical_engine == "lance" and not fixed:
                raise ValueError(
                    f"retrievers.{name}.engine: lance supports only k1 1.2, b 0.75 and text_weight "
                    f"1; remove these settings from `lexical`, or choose another engine"
                )
        for place, section, wanted in self._variants_named():
            if wanted not in self.section(section):
                known = ", ".join(self.section(section)) or f"(the section `{section}` is empty)"
                raise ValueError(f"{place}: {wanted!r} is not one of: {known}")
        return self

    def _variants_named(self) -> Iterator[tuple[str, str, str]]:
        naming: dict[str, Settings] = {"evaluation": self.evaluation, "assistant": self.assistant}
        for stage in ("chunkings", "contextualizers", "retrievers", "rerankers"):
            naming |= {f"{stage}.{name}": one for name, one in self.section(stage).items()}
        for place, settings in naming.items():
            for setting, section, wanted in settings.names():
                yield f"{place}.{setting}", section, wanted

    def variants(self, stage: str) -> Variants:
        """Return the named settings of one stage."""
        return self.section(f"{stage}s")

    def chosen(self, configuration: Configuration, stage: str) -> Settings:
        """Return the settings that a configuration chooses for `stage`, one of the STAGES."""
        settings: Settings = self.variants(stage)[configuration.variant(stage)]
        return settings

    def section(self, name: str) -> Variants:
        """Return the named settings of a section of the file."""
        section: Variants = getattr(self, name)
        return section

    def _expanded(self) -> Iterator[tuple[int, Configuration]]:
        for index, rule in enumerate(self.configurations):
            choices = []
            for stage in STAGES:
                wanted, known = rule.variant(stage), self.variants(stage)
                if wanted not in known and stage not in rule.model_fields_set:
                    raise ValueError(
                        f"configurations.{index}.{stage}: missing, and `{stage}s` has no "
                        f"variant `none`; set it to one of: *, {', '.join(known)}, or add the "
                        f"variant `none: {{method: none}}`"
                    )
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
                    f"{len(combinations)} configurations; remove the name, because '*' is used"
                )
            for combination in combinations:
                parts = dict(zip(STAGES, combination, strict=True))
                yield index, Configuration(name=rule.name or ".".join(combination), **parts)

    @cached_property
    def all_configurations(self) -> dict[str, Configuration]:
        """Return every configuration by name, in the file's order, with `*` expanded."""
        return {c.name: c for _, c in self._expanded()}

    @cached_property
    def _readers(self) -> dict[str, dict[str, Configuration]]:
        """The configurations that read each partition, by level and partition."""
        found: dict[str, dict[str, Configuration]] = {"": self.all_configurations}
        for name, one in self.all_configurations.items():
            for level in LEVELS:
                found.setdefault(f"{level} {one.key.at(level)}", {})[name] = one
        return found

    def readers(self, level: KeyLevel | None, partition: str) -> dict[str, Configuration]:
        """Return by name the configurations that read a partition, or all if `partition` is ""."""
        return self._readers.get(f"{level} {partition}" if partition else "", {})

    @property
    def baseline_name(self) -> str:
        """Return the baseline's name, by default the name of the first configuration."""
        return self.baseline or next(iter(self.all_configurations))

    def configuration(self, name: str) -> Configuration:
        """Return one configuration. Raise ConfigError with the known names if it is unknown."""
        known = self.all_configurations
        if name not in known:
            raise ConfigError(
                f"{self.where}: no configuration {name!r}; there are: {', '.join(known)}"
            )
        return known[name]

    def chat(self, name: str) -> ChatSettings:
        """Return one chat model. Raise ConfigError with the known names if it is unknown."""
        if name not in self.chats:
            known = ", ".join(self.chats) or "none"
            raise ConfigError(f"{self.where}: chats: no chat model {name!r}; there are: {known}")
        return self.chats[name]

    @property
    def unmeasured(self) -> str | None:
        """Return a warning if the evaluation does not measure the served answers, else None."""
        chat = self.assistant.chat
        if chat is None or not isinstance(self.evaluation.answers, ExtractiveAnswers):
            return None
        return (
            f"{self.where}: assistant.chat: {chat!r} writes the served answers, but the "
            f"leaderboard measures verbatim sentences; to measure the served answers, set "
            f"evaluation.answers: {{method: llm, chat: {chat}}}"
        )

    def used_settings(self) -> Iterator[tuple[str, Settings]]:
        """Yield the place and settings of the assistant and of all used or named variants."""
        chosen: list[tuple[str, Settings]] = [("assistant.chat", self.assistant)]
        for one in self.all_configurations.values():
            chosen += [(f"{s}s.{one.variant(s)}", self.chosen(one, s)) for s in STAGES]
        for place, settings in chosen:
            yield place, settings
            for _, section, name in settings.names():
                yield f"{section}.{name}", self.section(section)[name]

    def check_variants(self) -> None:
        """Check the inputs of all used variants. Raise ConfigError or InputError if one fails."""
        for one in self.all_configurations.values():
            for stage in STAGES:
                place = f"{stage}s.{one.variant(stage)}"
                with self._at(place), blaming(f"{self.where}: {place}"):
                    self.chosen(one, stage).check(self)

    # --- places ---

    @contextmanager
    def _at(self, place: str) -> Iterator[None]:
        try:
            yield
        except ConfigError as error:
            raise ConfigError(f"{self.where}: {place}: {error}") from error

    @property
    def where(self) -> str:
        """Return the name of this file in error messages."""
        return str(self._file) if self._file else f"corpus {self.corpus}"

    @property
    def file(self) -> Path | None:
        """Return the file that holds these settings, or None."""
        return self._file

    def path(self, value: str) -> Path:
        """Return an absolute path for a path in the file (see `load_config`)."""
        try:
            return self._base / Path(value).expanduser()
        except RuntimeError as error:
            raise ConfigError(f"{self.where}: {value!r}: {error}") from None

    @property
    def sidecar_path(self) -> Path | None:
        """Return the file with metadata of the documents, or None."""
        return self.path(self.documents.metadata) if self.documents.metadata else None

    @property
    def documents_source(self) -> DocumentsSource:
        """Return `documents` with the corpus's own files and its store excluded."""
        root = Path(os.path.normpath(self.documents_path))
        if self.documents.s3:
            return self.documents
        from wcmatch import glob

        schema = self._file and self._file.with_suffix(".schema.json")
        report = self._file and self._file.with_name(f"{self.corpus}.html")
        files = (self.sidecar_path, self._file, schema, report, self.queries_path, self.prices_path)
        own = [(path, "") for path in files if path is not None]
        if self.queries_path:
            beside = (self.queries_path.with_suffix(f".{kept}.jsonl") for kept in _BESIDE_QUERIES)
            own += [(path, "") for path in beside if path.is_file()]
        if "://" not in self.store:
            own.append((Path(self.store_url), "/**"))
        within = [(Path(os.path.normpath(path)), below) for path, below in own]
        exclude = tuple(
            glob.escape(path.relative_to(root).as_posix()) + below
            for path, below in within
            if path != root and path.is_relative_to(root)
        )
        return self.documents.model_copy(update={"exclude": (*self.documents.exclude, *exclude)})

    @property
    def documents_path(self) -> Path:
        """Return the folder or file with the documents. The path is meaningless for a bucket."""
        return self.path(self.documents.path)

    @property
    def documents_place(self) -> str:
        """Return the bucket's prefix or the folder of the documents, for messages."""
        return self.documents.s3 or str(self.documents_path)

    @property
    def queries_path(self) -> Path | None:
        """Return the queries file, or None."""
        return self.path(self.queries) if self.queries else None

    @property
    def store_url(self) -> str:
        """Return the store's absolute folder or s3:// address."""
        return self.store if "://" in self.store else str(self.path(self.store))

    @property
    def prices_path(self) -> Path | None:
        """Return the file with the user's own prices, or None."""
        return self.path(self.prices) if self.prices else None

    def located(self, settings: SettingsT) -> SettingsT:
        """Return a model's settings with absolute paths to its files."""
        paths = {
            name: str(self.path(value))
            for name in ("path", "tokenizer")
            if (value := getattr(settings, name, None)) is not None
        }
        return settings.model_copy(update=paths)

    def fingerprint_parts(self, section: str, name: str) -> list[Any]:
        """Return a variant's settings and the further inputs of its fingerprint."""
        settings: Settings = self.section(section)[name]
        place = f"{section}.{name}"
        with self._at(place), blaming(f"{self.where}: {place}"):
            return [settings, *settings.made_from(self)]

    # --- fingerprints, left to right ---

    def documents_fingerprint(self) -> str:
        """Return the fingerprint of loaded documents. The bytes of files are no part of it."""
        return fingerprint("documents", self.documents.code_version)

    def refusals_fingerprint(self) -> str:
        """Return the fingerprint of refused documents, from limits and installed OCR."""
        limits = self.documents.max_bytes, self.documents.parse_seconds
        # A refused scan becomes readable when an OCR package is installed.
        reads_scans = ["ocr"] if importlib.util.find_spec("rapidocr") else []
        return fingerprint("documents", self.documents.code_version, *limits, *reads_scans)

    def chunks_fingerprint(self, chunking: str) -> str:
        """Return the fingerprint of the chunks of a chunking variant."""
        settings, *made_from = self.fingerprint_parts("chunkings", chunking)
        return fingerprint("chunks", settings, self.documents_fingerprint(), *made_from)

    def context_fingerprint(self, chunking: str, contextualizer: str) -> str:
        """Return the fingerprint of contextualized chunks."""
        settings, *made_from = self.fingerprint_parts("contextualizers", contextualizer)
        return fingerprint("context", settings, self.chunks_fingerprint(chunking), *made_from)

    def vector_fingerprint(self, chunking: str, contextualizer: str, embedding: str) -> str:
        """Return the fingerprint of a vector index."""
        upstream = self.context_fingerprint(chunking, contextualizer)
        return fingerprint("vectors", VECTORS_VERSION, self.embeddings[embedding], upstream)

    def lexical_fingerprint(self, chunking: str, contextualizer: str) -> str:
        """Return the fingerprint of a lexical index."""
        upstream = self.context_fingerprint(chunking, contextualizer)
        return fingerprint("lexical", self.lexical, upstream)

    def engine(self, configuration: Configuration) -> LexicalEngine | None:
        """Return the BM25 engine of a configuration, or None if it searches only vectors."""
        return self.retrievers[configuration.retriever].lexical_engine

    def lexical_engines(self, key: str) -> tuple[str, ...]:
        """Return the BM25 engines of all configurations that share a key's lexical index."""
        context_key = Key.parse(key).at("contextualizer")
        engines = {self.engine(c) for c in self.readers("contextualizer", context_key).values()}
        return tuple(e for e in get_args(LexicalEngine) if e in engines)
