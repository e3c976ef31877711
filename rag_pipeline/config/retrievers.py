"""Settings of all retrievers; `search.retrievers` and `search.staged` hold the methods."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from rag_pipeline.config.plugins import RETRIEVERS, VariantsOf
from rag_pipeline.config.settings import Settings

Expand = Literal["none", "neighbours", "section"]
LexicalEngine = Literal["bm25s", "rank_bm25", "lance"]


class AdaptiveSelection(Settings):
    """Keep few chunks for a simple query, more for a complex one (see `adaptive_selection`).

    `contexts` are the numbers of chunks for a complexity below 0.3, below 0.7, and from 0.7 on.
    `floor` is the score that a chunk must exceed, after the query's scores are scaled to 0..1.
    """

    contexts: tuple[int, int, int] = (3, 5, 7)
    floor: float = Field(default=0.5, ge=0.0, lt=1.0)

    @model_validator(mode="after")
    def _counts_grow(self) -> "AdaptiveSelection":
        if not 1 <= self.contexts[0] <= self.contexts[1] <= self.contexts[2]:
            raise ValueError(f"contexts {list(self.contexts)} must be at least 1 and not fall")
        return self


class RetrieverSettings(Settings):
    """The common settings of all retrievers; a search returns `k` chunks.

    `near_duplicates` leaves out a chunk that repeats a better one nearly word for word, in the same
    `document` or anywhere in the `corpus`. At most `most_per_document` chunks are of one document.
    Both choose among the best 200 chunks. `expand` adds the neighbours of a chunk or its whole
    section (see `search.widening`). `adaptive: true` uses the defaults of its settings. A plugin's
    method is a `search.retrievers.SinglePassRetriever`.
    """

    method: str
    k: int = Field(default=50, ge=1, le=10_000)
    adaptive: AdaptiveSelection | None = None
    near_duplicates: Literal["keep", "document", "corpus"] = "keep"
    most_per_document: int | None = Field(default=None, ge=1)
    expand: Expand = "none"

    @field_validator(
        "adaptive", mode="before", json_schema_input_type=AdaptiveSelection | bool | None
    )
    @classmethod
    def _switch(cls, value: Any) -> Any:
        if isinstance(value, bool):
            return AdaptiveSelection() if value else None
        return value

    @property
    def lexical_engine(self) -> LexicalEngine | None:
        """Return the BM25 engine whose index is searched, None for vectors alone."""
        return None

    @property
    def splits_query(self) -> bool:
        """Return whether words that name a document are left out of the embedded query."""
        return False

    @property
    def adds_queries(self) -> bool:
        """Return whether further queries are made from the chunks that the first pass found."""
        return False


Retriever = Annotated[RetrieverSettings, VariantsOf(RETRIEVERS, "method")]


class Lexical(Settings):
    """The common settings of all BM25 engines; the defaults of k1 and b are Lucene's.

    `language: auto` detects the language of each chunk and query, for documents in several
    languages. A term of a chunk's own text counts as `text_weight` of the same term in its context.
    A chunk without context scores the same under any weight.
    """

    code_version = 2
    language: Literal[
        "english",
        "german",
        "french",
        "spanish",
        "italian",
        "arabic",
        "dutch",
        "portuguese",
        "russian",
        "chinese",
        "auto",
        "none",
    ] = "english"
    k1: float = Field(default=1.2, gt=0.0)
    b: float = Field(default=0.75, ge=0.0, le=1.0)
    text_weight: int = Field(default=1, ge=1, le=10)
