"""What the assistant finds and says."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rag_pipeline.answering.intent import Intent
from rag_pipeline.datamodels import ComparisonRow, ScoredChunk
from rag_pipeline.loading.places import Place

Progress = Callable[[str, int, int], None]
"""Called when a stage begins: its name, how many are done, how many there are."""


Detail = dict[str, Any]
"""What a stage tells of itself, by names of its own."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What one stage did, and how long it took; `began` is in nanoseconds since the epoch."""

    name: str
    seconds: float
    detail: Mapping[str, Any]
    began: int


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A discovered document of a dataset."""

    dataset: str
    document_id: str
    title: str
    score: float


@dataclass(frozen=True, slots=True)
class Source:
    """A cited span; `verified` tells whether the document's text bears it out.

    `origin` says where an expanded document came from; it is None for the corpus's own. `place` is
    None where the document's source shows passages only.
    """

    number: int
    dataset: str
    document_id: str
    start: int
    end: int
    text: str
    verified: bool
    origin: Mapping[str, Any] | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk of a dataset that the answer was made from."""

    dataset: str
    chunk: ScoredChunk

    @property
    def origin(self) -> Mapping[str, Any] | None:
        """Return where an expanded document's chunk comes from; None of a corpus's own.

        A document's own fields are no mappings, so that none can pass for an origin.
        """
        origin = self.chunk.metadata.get("expanded")
        return origin if isinstance(origin, Mapping) else None


@dataclass(frozen=True, slots=True)
class Assisted:
    """What the assistant says, and how it came to it.

    `problems` are wrong citations, `warnings` what was done otherwise than it is set up.
    """

    query: str
    text: str
    answered: bool
    intent: Intent
    sources: tuple[Source, ...]
    documents: tuple[FoundDocument, ...]
    passages: tuple[Passage, ...]
    confidence: float | None
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    table: tuple[ComparisonRow, ...] = ()
    stages: tuple[Stage, ...] = ()
