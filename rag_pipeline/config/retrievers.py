"""The settings of the retrievers: by vectors, by terms, by both, and in stages."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from rag_pipeline.config.settings import Settings

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

    @field_validator(
        "adaptive", mode="before", json_schema_input_type=AdaptiveSelection | bool | None
    )
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

    `document_weight` adds that much of its document's score (0 to about 1: how well the query
    names it, else how far file name, title and head cover the query) to a chunk's fused score.
    `split_query` finds the words that name a document, wherever they stand in the query, by file
    names and heads, and searches chunks with the others.
    `neighbour_weight` adds that much of the mean score of the chunks before and after a chunk.
    """

    code_version = 3
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
    what they give a chunk (0..1) counts `boost_weight`. Without any of these three it is the single
    pass. `top_k` is that of both; `top_n` and `adaptive` default to those of `over`.
    """

    code_version = 2
    method: Literal["context_aware"]
    over: SinglePass
    boosted_files: int = Field(default=3, ge=0, le=50)
    variants: int = Field(default=1, ge=0, le=5)
    boost_weight: float = Field(default=0.1, ge=0.0)

    @property
    def boosts(self) -> bool:
        """Return whether the second search can change the ranking of the first."""
        return bool(self.boosted_files and self.variants and self.boost_weight)

    @property
    def engine(self) -> LexicalEngine | None:
        """Return the BM25 engine that the single pass searches with, None for vectors alone."""
        engine: LexicalEngine | None = getattr(self.over, "engine", None)
        return engine


Retriever = Annotated[
    DenseRetriever | LexicalRetriever | HybridRetriever | ContextAwareRetriever,
    Field(discriminator="method"),
]


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
