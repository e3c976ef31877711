"""The settings of every variant that a corpus file may name, one class per method."""

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
"""What corpora, variants and configurations may be called: safe as partition key and table name."""


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


Contextualizer = Annotated[NoContext | StructuralContext, Field(discriminator="method")]

# --- embeddings ---


class MiniLMEmbedding(Settings):
    """The packaged all-MiniLM-L6-v2: 384 dimensions, 256 tokens, no key and no network.

    `token_vectors` also keeps each token's vector, at 52 bytes a token, for the reranker `maxsim`.
    """

    provider: Literal["minilm"]
    token_vectors: bool = False


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
    """Both, fused: `rrf` (reciprocal rank) or `weighted` (scores scaled to 0..1 per query).

    `document_weight` adds that much of its document's score (0 to about 1: how far file name,
    title and head cover the query) to a chunk's fused score. `split_query` searches chunks with
    the part of the query that asks, documents with the part that names one, if one does.
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

    @model_validator(mode="after")
    def _weights_count(self) -> "HybridRetriever":
        if self.fusion == "rrf" and self.document_weight:
            raise ValueError(
                f"document_weight {self.document_weight} is added to scores, rrf ranks without "
                f"them: choose fusion weighted"
            )
        if self.dense_weight + self.lexical_weight <= 0:
            raise ValueError("dense_weight and lexical_weight are both 0: nothing to rank by")
        return self


Retriever = Annotated[
    DenseRetriever | LexicalRetriever | HybridRetriever, Field(discriminator="method")
]


class NoReranker(Settings):
    """Keep the retriever's order."""

    method: Literal["none"]


class MaxSimReranker(Settings):
    """Late interaction over token vectors, needing an embedding with `token_vectors`.

    The `candidates` best score (1 - weight) x what the retriever gave (scaled to 0..1, except
    that `weighted` fusion is on that scale already) + weight x MaxSim (scaled to 0..1).
    """

    method: Literal["maxsim"]
    weight: float = Field(default=0.4, ge=0.0, le=1.0)
    candidates: int = Field(default=100, ge=1, le=1000)


Reranker = Annotated[NoReranker | MaxSimReranker, Field(discriminator="method")]


class Lexical(Settings):
    """What all BM25 engines share: tokens, stems, stop words, k1 and b (defaults are Lucene's)."""

    code_version = 2
    language: Literal["english", "german", "french", "spanish", "italian", "none"] = "english"
    k1: float = Field(default=1.2, gt=0.0)
    b: float = Field(default=0.75, ge=0.0, le=1.0)
