"""The settings of every variant that a corpus file may name, one class per method."""

from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
"""What corpora, variants and configurations may be called: safe as partition key and table name."""


class Settings(BaseModel):
    """A frozen group of settings that refuses unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())
    code_version: ClassVar[int] = 1
    operational: ClassVar[frozenset[str]] = frozenset()
    """Settings that change how results are got and not what they are: in no fingerprint."""


class RemoteModel(Settings):
    """How a model behind a network is called; each provider's settings add what it is asked.

    The limits hold for all processes of a user on a machine together; what the provider tells of
    its limits lowers them. A call is
    tried again for `patience_seconds`, and when nothing succeeds for that long the run stops.
    """

    operational = frozenset(
        {
            "api_key_env",
            "timeout_seconds",
            "max_concurrency",
            "requests_per_minute",
            "tokens_per_minute",
            "patience_seconds",
        }
    )
    base_url: str | None = None
    api_key_env: str
    """The environment variable that holds the key; keys themselves are in no file."""
    timeout_seconds: float = Field(default=60.0, gt=0)
    max_concurrency: int = Field(default=16, ge=1, le=4096)
    requests_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1)
    patience_seconds: float = Field(default=300.0, ge=0)

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an address like https://host/v1")
        if parts.username or parts.password:
            raise ValueError("a key stands in no file: name its variable in api_key_env")
        return url


class DocumentsSource(Settings):
    """Which files are the corpus: a folder (or file) or a bucket's prefix, globs, a size limit."""

    code_version = 1
    path: str = ""
    s3: str = ""
    include: tuple[str, ...] = ("**/*",)
    exclude: tuple[str, ...] = ()
    max_bytes: int = Field(default=50_000_000, gt=0)

    @model_validator(mode="after")
    def _one_place(self) -> "DocumentsSource":
        if bool(self.path) == bool(self.s3):
            named = f"both path {self.path!r} and s3 {self.s3!r} are" if self.s3 else "nothing is"
            raise ValueError(
                f"{named} named; name either `path`, a folder or file, or `s3`, like "
                f"s3://bucket/prefix"
            )
        if self.s3:
            parts = urlsplit(self.s3)
            if parts.scheme != "s3" or not parts.netloc or parts.query or parts.fragment:
                raise ValueError(f"s3: {self.s3!r} is not an address like s3://bucket/prefix")
        return self


# --- chat models ---


class ChatModel(RemoteModel):
    """A chat model behind the OpenAI protocol: OpenAI, Azure, vLLM, Ollama, llama.cpp.

    The key is read from the environment variable that `api_key_env` names; a server that wants
    none needs none. `seed` and `temperature` are sent where they are set. With `batch`, calls go
    through the provider's Batch API: at a lower price, answered within a day.
    """

    operational = RemoteModel.operational | {"batch", "batch_poll_seconds"}

    provider: Literal["openai"]
    model: str = Field(min_length=1)
    api_key_env: str = "OPENAI_API_KEY"
    temperature: float | None = Field(default=0.0, ge=0.0, le=2.0)
    seed: int | None = None
    max_output_tokens: int = Field(default=1024, ge=1)
    context_window: int = Field(default=128_000, ge=256)
    batch: bool = False
    batch_poll_seconds: float = Field(default=30.0, ge=0)


class Retention(Settings):
    """How long what is superseded is kept; what is served or current always stays.

    `keep_releases` newest releases can be rolled back to. Tables, indexes and results of variants
    that have left the file stay `keep_days`. A table's superseded versions stay `version_hours`,
    longer than any step reads one. Answers of models that no current text needs stay `calls_days`
    after their last use.
    """

    keep_releases: int = Field(default=5, ge=1)
    keep_days: float = Field(default=7.0, ge=0.0)
    version_hours: float = Field(default=24.0, ge=0.0)
    calls_days: float = Field(default=180.0, ge=0.0)


class Alerts(Settings):
    """Where to tell of failures: the environment variable that holds a webhook's address."""

    webhook_env: str = Field(min_length=1)


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

    On short documents `max_characters` decides more than `threshold` does.
    `window` is the number of neighbours on each side that a sentence is embedded with;
    `embedding` names the variant whose model compares sentences (the packaged one by default).
    """

    method: Literal["semantic"]
    threshold: float = Field(default=2.0, ge=0.0, le=10.0)
    window: int = Field(default=1, ge=0, le=10)
    min_characters: int = Field(default=200, ge=0)
    max_characters: int = Field(default=1000, ge=32)
    embedding: str | None = None


class SentencesChunking(Settings):
    """Windows of whole sentences, as many as fit `max_characters`; neighbours share `overlap`."""

    method: Literal["sentences"]
    max_characters: int = Field(default=500, ge=32)
    overlap: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _overlap_is_smaller(self) -> "SentencesChunking":
        if self.overlap >= self.max_characters:
            raise ValueError(
                f"overlap {self.overlap} must be smaller than max_characters {self.max_characters}"
            )
        return self


class GivenChunking(Settings):
    """Spans that were cut upstream, read from a `chunks.jsonl` (beside the queries by default)."""

    method: Literal["given"]
    path: str | None = None


Chunking = Annotated[
    FixedChunking
    | RecursiveChunking
    | MarkdownChunking
    | SemanticChunking
    | SentencesChunking
    | GivenChunking,
    Field(discriminator="method"),
]

# --- contextualizers ---


class NoContext(Settings):
    """Index chunks as they are."""

    method: Literal["none"]


class StructuralContext(Settings):
    """A free, deterministic context from the document's own structure."""

    code_version = 2
    method: Literal["structural"]
    max_characters: int = Field(default=400, ge=16)


CONTEXT_TEMPLATE = """\
<document>
{document}
</document>

A passage of this document will be indexed for search by itself, cut off from what stands around \
it. Write one or two sentences to be put before it: which document it is from, what it is about \
there, and the names, dates or sections that its words refer back to. Answer with these sentences \
alone.

<passage>
{chunk}
</passage>
"""


class LLMContext(Settings):
    """A context that the chat model `chat` writes, having read the whole document.

    `template` holds `{document}`, and after it `{chunk}`. With `structural`, the free structural
    context stands before what the model says.
    """

    method: Literal["llm"]
    chat: str
    template: str = CONTEXT_TEMPLATE
    max_characters: int = Field(default=600, ge=16)
    structural: bool = False

    @property
    def parts(self) -> tuple[str, str, str]:
        """Return what stands before the document, between document and chunk, and after it."""
        before, _, rest = self.template.partition("{document}")
        return before, *rest.split("{chunk}")  # type: ignore[return-value]

    @model_validator(mode="after")
    def _template_has_both(self) -> "LLMContext":
        places = [self.template.count("{document}"), self.template.count("{chunk}")]
        if places != [1, 1] or "{chunk}" not in self.template.partition("{document}")[2]:
            raise ValueError(
                "template must hold {document} once and after it {chunk} once: a prompt that "
                "begins with the document is served from the provider's cache"
            )
        return self


Contextualizer = Annotated[
    NoContext | StructuralContext | LLMContext, Field(discriminator="method")
]

# --- retrievers ---

LexicalEngine = Literal["bm25s", "rank_bm25", "lance"]


class AdaptiveSelection(Settings):
    """Keep few chunks for a simple query, more for a complex one (see `adaptive_selection`).

    `contexts` are the counts for a complexity below 0.3, below 0.7, and from there on; `floor` is
    the score that a chunk must exceed, after the query's scores are scaled to 0..1.
    """

    contexts: tuple[int, int, int] = (3, 5, 7)
    floor: float = Field(default=0.5, ge=0.0, lt=1.0)

    @model_validator(mode="after")
    def _counts_grow(self) -> "AdaptiveSelection":
        if not 1 <= self.contexts[0] <= self.contexts[1] <= self.contexts[2]:
            raise ValueError(f"contexts {list(self.contexts)} must be at least 1 and not fall")
        return self


class _Retriever(Settings):
    """What all retrievers share; `adaptive: true` stands for the defaults of its settings."""

    top_k: int = Field(default=50, ge=1, le=10_000)
    top_n: int | None = Field(default=None, ge=1)
    adaptive: AdaptiveSelection | None = None

    @field_validator("adaptive", mode="before")
    @classmethod
    def _switch(cls, value: Any) -> Any:
        if isinstance(value, bool):
            return AdaptiveSelection() if value else None
        return value


class DenseRetriever(_Retriever):
    """Nearest vectors by cosine."""

    method: Literal["dense"]


class LexicalRetriever(_Retriever):
    """BM25."""

    method: Literal["lexical"]
    engine: LexicalEngine = "bm25s"


class HybridRetriever(_Retriever):
    """Both, fused: `rrf` (reciprocal rank) or `weighted` (scores scaled to 0..1 per query).

    `document_weight` adds that much of its document's score (0 to about 1: how far file name,
    title and head cover the query) to a chunk's fused score. `split_query` searches chunks with
    the part of the query that asks, documents with the part that names one, if one does.
    `neighbour_weight` adds that much of the mean score of the chunks before and after a chunk.
    """

    code_version = 2
    method: Literal["hybrid"]
    engine: LexicalEngine = "bm25s"
    fusion: Literal["rrf", "weighted"] = "weighted"
    dense_weight: float = Field(default=0.6, ge=0.0)
    lexical_weight: float = Field(default=0.4, ge=0.0)
    rrf_k: int = Field(default=60, ge=1)
    candidates: int = Field(default=100, ge=1, le=10_000)
    document_weight: float = Field(default=0.0, ge=0.0)
    split_query: bool = False
    neighbour_weight: float = Field(default=0.0, ge=0.0, le=1.0)

    @model_validator(mode="after")
    def _weights_count(self) -> "HybridRetriever":
        for name in ("document_weight", "neighbour_weight"):
            if self.fusion == "rrf" and getattr(self, name):
                raise ValueError(
                    f"{name} {getattr(self, name)} is added to scores, rrf ranks without them: "
                    f"choose fusion weighted"
                )
        if self.dense_weight + self.lexical_weight <= 0:
            raise ValueError("dense_weight and lexical_weight are both 0: nothing to rank by")
        return self


SinglePass = Annotated[
    DenseRetriever | LexicalRetriever | HybridRetriever, Field(discriminator="method")
]


class ContextAwareRetriever(_Retriever):
    """Discover documents by a single pass `over`, then search the leading ones once more each.

    The second search uses up to `variants` boosted queries in each of `boosted_files` documents;
    what they give a chunk (0..1) counts `boost_weight`.
    """

    method: Literal["context_aware"]
    over: SinglePass
    boosted_files: int = Field(default=3, ge=0, le=50)
    variants: int = Field(default=1, ge=0, le=5)
    boost_weight: float = Field(default=0.1, ge=0.0)

    @property
    def engine(self) -> LexicalEngine | None:
        """Return the BM25 engine that the single pass searches with, None for vectors alone."""
        engine: LexicalEngine | None = getattr(self.over, "engine", None)
        return engine


Retriever = Annotated[
    DenseRetriever | LexicalRetriever | HybridRetriever | ContextAwareRetriever,
    Field(discriminator="method"),
]


class Gate(Settings):
    """What a configuration must not be significantly worse in to replace the released one.

    Without metrics, only the blocking checks decide.
    """

    metrics: tuple[str, ...] = ("AnswerPresence@5", "nDCG@10", "CriticalRecall")


class Lexical(Settings):
    """What all BM25 engines share: tokens, stems, stop words, k1 and b (defaults are Lucene's).

    A term of a chunk's own text counts as much as `text_weight` of the same in its context. A
    chunk without context scores the same under any weight.
    """

    code_version = 2
    language: Literal["english", "german", "french", "spanish", "italian", "none"] = "english"
    k1: float = Field(default=1.2, gt=0.0)
    b: float = Field(default=0.75, ge=0.0, le=1.0)
    text_weight: int = Field(default=1, ge=1, le=10)
