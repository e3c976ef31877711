"""Define the base class of settings, fingerprints, and the settings of documents and releases."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import asdict, dataclass, is_dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self, get_args
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticSerializationError, to_jsonable_python

from rag_pipeline.config.prices import Price
from rag_pipeline.config.schedules import CRON

_NAME = r"^[A-Za-z0-9_-]{1,64}$"
Name = Annotated[str, StringConstraints(pattern=_NAME)]
"""The name of a corpus, variant or configuration, valid as partition key and table name."""


def _variable(name: str) -> str:
    if not name.isidentifier() or name not in (name.upper(), name.lower()):
        # The value may be a key, so the message does not contain it.
        raise ValueError("expected the name of an environment variable, not its value")
    return name


Variable = Annotated[str, AfterValidator(_variable)]
"""The name of an environment variable with a secret."""


@dataclass(frozen=True, slots=True)
class NameIn:
    """A mark of a setting that names a variant of another section of the corpus file.

    The named variant must exist. It is a part of the fingerprint.
    """

    section: str


_TIME = r"([01]\d|2[0-3]):[0-5]\d"
_HOURS = rf"^{_TIME}-{_TIME}$"
Hours = Annotated[str, StringConstraints(pattern=_HOURS)]
"""Hours of each day in UTC, such as `20:00-06:00`."""
Cron = Annotated[str, StringConstraints(pattern=CRON)]
"""A cron expression in UTC: minute, hour, day, month and weekday."""
_OWNER = r"^([A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,7}|team:.+)$"
Owner = Annotated[str, StringConstraints(pattern=_OWNER)]
"""An email address or `team:NAME`, in Dagster's form."""
PATTERNS = {
    _NAME: "use 1 to 64 letters, digits, '_' or '-' in a name",
    _HOURS: "write begin and end in UTC, as 20:00-06:00",
    CRON: "write a cron expression: minute, hour, day, month and weekday in UTC, as 0 3 * * *",
    _OWNER: "write an email address (top-level domain of 2 to 7 letters), or team:NAME",
}
"""The advice in error messages about values that do not match a pattern."""
ChatName = Annotated[str, NameIn("chats")]
EmbeddingName = Annotated[str, NameIn("embeddings")]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


class CorpusFile(Protocol):
    """The parts of a corpus file that the settings of a variant may read."""

    @property
    def where(self) -> str:
        """Return the name of the file in error messages."""

    @property
    def queries_path(self) -> Path | None:
        """Return the queries file, or None."""

    def path(self, value: str) -> Path:
        """Return an absolute path for a path in the file (see `load_config`)."""

    def section(self, name: str) -> Mapping[str, Any]:
        """Return the named settings of a section."""


class Settings(BaseModel):
    """The base class of all settings. Objects are immutable and refuse unknown settings."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", protected_namespaces=(), defer_build=True
    )
    code_version: ClassVar[int] = 1
    requires: ClassVar[Mapping[str, str]] = {}
    """The extra of each optional package, by the package's module."""
    not_fingerprinted: ClassVar[frozenset[str]] = frozenset()
    """Settings without influence on results, such as timeouts. Fingerprints ignore them."""

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with the settings in `update`. Cached properties are not copied."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied

    def fingerprinted(self) -> dict[str, Any]:
        """Return the settings in the fingerprint, by name."""
        return {name: value for name, value in self if name not in self.not_fingerprinted}

    def required(self) -> Mapping[str, str]:
        """Return the extras of the optional packages that these settings need (see `requires`)."""
        return self.requires

    def names(self) -> Iterator[tuple[str, str, str]]:
        """Yield each named variant: the path of the setting, the section and the variant's name."""
        for setting, value in self:
            field = type(self).model_fields[setting]
            marks = [*_marks(field.annotation, *field.metadata)]
            for place, one in _leaves(setting, value):
                if isinstance(one, Settings):
                    yield from ((f"{place}.{inner}", s, name) for inner, s, name in one.names())
                elif isinstance(one, str):
                    yield from ((place, mark.section, one) for mark in marks)

    def named_chats(self) -> list[str]:
        """Return the named variants of `chats`, in the order of the settings."""
        return list(dict.fromkeys(name for _, section, name in self.names() if section == "chats"))

    def models_used(self, config: CorpusFile) -> list["Settings"]:
        """Return the settings of the called models, by default all named variants."""
        return [config.section(section)[name] for _, section, name in self.names()]

    def made_from(self, config: CorpusFile) -> list[Any]:
        """Return further inputs of the fingerprint, by default the called models.

        Raise ConfigError if an input, such as a file, is missing.
        """
        return [*self.models_used(config)]

    def check(self, config: CorpusFile) -> None:
        """Raise ConfigError or InputError if a run with these settings would fail."""


def _marks(*annotations: Any) -> Iterator[NameIn]:
    for one in annotations:
        if isinstance(one, NameIn):
            yield one
        else:
            yield from _marks(*get_args(one))


def _leaves(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values of nested lists and mappings with their paths in the corpus file."""
    inner: Iterable[tuple[object, Any]]
    if isinstance(value, Mapping):
        inner = value.items()
    elif isinstance(value, tuple | list | set | frozenset):
        inner = enumerate(value)
    else:
        yield place, value
        return
    for step, one in inner:
        yield from _leaves(f"{place}.{step}", one)


class RemoteModel(Settings):
    """The settings of calls to a model behind a network.

    All processes and machines with the same call database share the rate limits. If the provider
    reports lower limits, these limits hold. A failed call is retried for `patience_seconds`. If no
    call succeeds for this time, the run stops.
    """

    not_fingerprinted = frozenset(
        "api_key_env timeout_seconds max_concurrency requests_per_minute tokens_per_minute "
        "patience_seconds cache_identity price".split()
    )
    base_url: str | None = None
    cache_identity: str | None = None
    """The name that replaces `base_url` in call keys and fingerprints.

    For a model that has moved, set the earlier `base_url` ("" for the vendor's own address). For a
    different model at the same address, set any other name.
    """
    price: Price | None = None
    """The model's price. It overrides the prices files."""
    api_key_env: str
    """The name of the environment variable with the key. Corpus files contain no keys."""
    timeout_seconds: float = Field(default=60.0, gt=0)
    max_concurrency: int = Field(default=16, ge=1, le=4096)
    requests_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1)
    patience_seconds: float = Field(default=300.0, ge=0)

    _is_a_name = field_validator("api_key_env")(_variable)

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an address like https://host/v1")
        if parts.username or parts.password:
            raise ValueError("the address contains a key; name the key's variable in api_key_env")
        return url

    @property
    def identity_url(self) -> str | None:
        """Return the address in call keys and fingerprints, or None for the vendor's address."""
        return self.base_url if self.cache_identity is None else self.cache_identity or None

    def fingerprinted(self) -> dict[str, Any]:
        """Return the settings in the fingerprint, by name."""
        return super().fingerprinted() | {"base_url": self.identity_url}


class DocumentsSource(Settings):
    """The files of the corpus in a folder or bucket, with globs and limits.

    - `max_deleted`: A load deletes at most this share of the loaded documents, or up to ten
      documents. If more documents are missing, the load fails until the deletion is allowed.
    - `metadata`: A .csv or .jsonl file with one line per document: `document_id`, `title`, and your
      own fields for filters, such as date, source and access labels.
    - `gitignore`: The folder's `.gitignore` files exclude files.
    - `follow_links`: `true` follows links to folders inside the folder, each folder once.
      `anywhere` also follows links to files and links out of the folder.
    - `processes`: Maximum number of files that are parsed in parallel, by default one per core and
      at most four. A process can need 500 MiB to parse a PDF.
    """

    code_version = 1
    path: str = ""
    s3: str = ""
    include: tuple[str, ...] = ("**/*",)
    exclude: tuple[str, ...] = ()
    max_bytes: int = Field(default=50_000_000, gt=0)
    parse_seconds: float = Field(default=120, gt=0)
    max_deleted: Share = 0.2
    metadata: str | None = None
    gitignore: bool = False
    follow_links: bool | Literal["anywhere"] = False
    processes: int | None = Field(default=None, ge=1, le=64)
    _s3_client: Callable[[], Any] | None = PrivateAttr(default=None)

    @property
    def s3_client(self) -> Callable[[], Any] | None:
        """Return the function that creates the boto3 client, or None for the default client."""
        return self._s3_client

    def read_with(self, s3_client: Callable[[], Any]) -> None:
        """Set the function that creates the boto3 client. A corpus file cannot set it."""
        self._s3_client = s3_client

    @model_validator(mode="after")
    def _one_place(self) -> "DocumentsSource":
        if bool(self.path) == bool(self.s3):
            both = f"path {self.path!r} and s3 {self.s3!r} are set; " if self.s3 else ""
            raise ValueError(
                f"{both}set either `path`, a folder or file, or `s3`, like s3://bucket/prefix"
            )
        if self.s3:
            parts = urlsplit(self.s3)
            if parts.scheme != "s3" or not parts.netloc or parts.query or parts.fragment:
                raise ValueError(f"s3: {self.s3!r} is not an address like s3://bucket/prefix")
        return self


class Retention(Settings):
    """The times for keeping superseded data. Served and current data is always kept.

    - `keep_releases`: This many of the newest releases are kept for rollbacks.
    - `keep_days`: Tables, indexes and results of removed variants are kept for this time.
    - `version_hours`: Superseded versions of a table are kept for this time. It must exceed the
      duration of every step.
    - `calls_days`: Answers of models are kept for this time after their last use.
    - `keep_runs`, `runs_days`: The corpus's newest `keep_runs` finished Dagster runs are kept for
      `runs_days`. A run with the latest materialization of a partition is always kept.
    """

    keep_releases: int = Field(default=5, ge=1)
    keep_days: float = Field(default=7.0, ge=0.0)
    version_hours: float = Field(default=24.0, ge=0.0)
    calls_days: float = Field(default=180.0, ge=0.0)
    keep_runs: int = Field(default=1000, ge=20)
    runs_days: float = Field(default=90.0, ge=1.0)


class Alerts(Settings):
    """The environment variable with the address of a webhook for failures."""

    webhook_env: Variable


class Gate(Settings):
    """The metrics in which a candidate must not be worse than the served release.

    - `metrics`: If there are none, only the blocking checks decide.
    - `margin`: A loss of at most this much, in the metric's unit, is accepted.
    - `minimum_queries`: A candidate is refused if fewer queries are compared, or fewer than half of
      the release's queries, or too few of them to show any loss.
    - `maximum_missing`: A candidate, also the first, is refused if more than this share of the
      queries lacks a value. Each missing value counts as lost. `serve_metric` chooses no
      configuration above this share.
    - `maximum_missing_chunks`: Every release is refused if a model failed on documents with more
      than this share of the chunks.
    - `reference`: A candidate is also compared with this release, by default the best of the last
      year.
    """

    metrics: tuple[str, ...] = ("AnswerPresence@5", "nDCG@10", "CriticalRecall")
    margin: float = Field(default=0.02, ge=0.0)
    minimum_queries: int = Field(default=1, ge=1)
    maximum_missing: Share = 0.1
    maximum_missing_chunks: Share = 0.02
    reference: str | None = Field(default=None, pattern=r"^release-\d+$")


def fingerprint(*parts: Any, fallback: Callable[[Any], Any] | None = None) -> str:
    """Return 16 hex digits of the SHA-256 over the parts' canonical JSON.

    The parts are a stage's settings and its upstream fingerprint. Rows with another fingerprint are
    stale. The JSON of settings, also of nested settings, has their `code_version` and lacks the
    settings in `not_fingerprinted`. `fallback` replaces a part without a JSON form. Without it,
    raise TypeError for such a part.
    """

    def plain(value: Any) -> Any:
        if isinstance(value, Settings):
            return {"code_version": value.code_version, **value.fingerprinted()}
        if isinstance(value, BaseModel):
            return value.model_dump(by_alias=True)
        if is_dataclass(value) and not isinstance(value, type):
            return asdict(value)
        if isinstance(value, Set):  # each process has another order
            return sorted(value, key=partial(fingerprint, fallback=fallback))
        try:
            return to_jsonable_python(value, fallback=fallback)
        except PydanticSerializationError:
            raise TypeError(f"cannot fingerprint {type(value).__name__}") from None

    canonical = json.dumps(parts, default=plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]
