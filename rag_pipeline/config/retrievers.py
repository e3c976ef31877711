"""Define the common settings of retrievers. `search.retrievers` implements most methods."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from rag_pipeline.config.plugins import VariantsOf
from rag_pipeline.config.settings import Settings
from rag_pipeline.imports import RETRIEVERS

Expand = Literal["none", "neighbours", "section"]
LexicalEngine = Literal["bm25s", "rank_bm25", "lance"]


class AdaptiveSelection(Settings):
    """A selection of few chunks for a simple query and more chunks for a complex query.

    `contexts` has three maximum numbers of chunks: for a complexity below 0.3, below 0.7, and from
    0.7 on (see `search.selection`). A query's scores are scaled to 0..1. A chunk is kept if its
    scaled score exceeds `floor`.
    """

    contexts: tuple[int, int, int] = (3, 5, 7)
    floor: float = Field(default=0.5, ge=0.0, lt=1.0)

    @model_validator(mode="after")
    def _counts_grow(self) -> "AdaptiveSelection":
        if not 1 <= self.contexts[0] <= self.contexts[1] <= self.contexts[2]:
            shown = list(self.contexts)
            raise ValueError(f"contexts {shown}: use numbers of at least 1 in ascending order")
        return self


class RetrieverSettings(Settings):
    """The common settings of all retrievers.

    - `k`: Number of chunks that a search returns.
    - `near_duplicates`: `document` or `corpus` leaves out a chunk if a better chunk of the same
      document or corpus has nearly the same text.
    - `most_per_document`: Maximum number of chunks from one document.
    - `expand`: Adds a chunk's neighbours or its whole section (see `search.widening`).
    - `adaptive`: Keeps more chunks for complex queries. `true` uses the default settings.

    `near_duplicates` and `most_per_document` select from the best 200 chunks. A plugin's method
    must be a `search.retrievers.SinglePassRetriever`.
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
        """Return the searched BM25 engine, or None if only vectors are searched."""
        return None

    @property
    def splits_query(self) -> bool:
        """Return whether the embedded query lacks the words that name a document."""
        return False

    @property
    def adds_queries(self) -> bool:
        """Return whether the chunks of a first search give further queries."""
        return False


Retriever = Annotated[RetrieverSettings, VariantsOf(RETRIEVERS, "method")]


class Lexical(Settings):
    """The settings of all BM25 engines. The defaults of k1 and b are Lucene's.

    `language: auto` detects the language of each chunk and query, for documents in several
    languages. A term counts `text_weight` times in a chunk's text, and once in its context. The
    score of a chunk without context does not depend on this weight.
    """

    code_version = 2
    language: Literal[
        "english", "german", "french", "spanish", "italian", "arabic", "dutch", "portuguese",
        "russian", "chinese", "auto", "none",
    ] = "english"  # fmt: skip
    k1: float = Field(default=1.2, gt=0.0)
    b: float = Field(default=0.75, ge=0.0, le=1.0)
    text_weight: int = Field(default=1, ge=1, le=10)
