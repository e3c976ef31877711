"""Define the plan of a step over documents, and the report of its work."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from rag_pipeline.calls import CallCounts
from rag_pipeline.calls.costs import Totals
from rag_pipeline.store.schemas import QUARANTINE_SCHEMA, rows_of

MAX_SHARD_DOCUMENTS = 256
MADE_OTHERWISE = "settings or code changed"
"""The reason for stale documents with unchanged input."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The documents that a step would change in one partition."""

    stale: tuple[str, ...]
    orphaned: tuple[str, ...]
    current: int
    waiting: int = 0
    """Number of documents whose rows in the upstream table are stale."""
    shards: tuple[tuple[str, ...], ...] = ()
    why: str = ""
    """The reason for stale documents with unchanged input, or ""."""
    missing: tuple[str, ...] = ()
    """The stale documents without rows, because a model failed on them in the last run."""
    missing_share: float = 0.0
    """The share (0 to 1) of the upstream rows, or characters, that `missing` documents have."""

    @property
    def is_current(self) -> bool:
        """Return whether there is nothing to do."""
        return not (self.stale or self.orphaned or self.waiting)

    @property
    def is_usable(self) -> bool:
        """Return whether all documents except those in `missing` are current."""
        return len(self.stale) == len(self.missing) and not (self.orphaned or self.waiting)


@dataclass(slots=True)
class Report:
    """The work of a step: numbers of documents and rows, failures, calls and costs."""

    documents: int = 0
    rows: int = 0
    dropped: int = 0
    quarantined: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """The error of each document that a model failed on. These documents stay stale."""
    again: set[str] = field(default_factory=set)
    """The failed documents that also failed in an earlier run."""
    too_long: list[str] = field(default_factory=list)
    """The documents over a model's context window. The model read a summary and a part."""
    calls: CallCounts = field(default_factory=CallCounts)
    costs: Totals = field(default_factory=Totals)
    seconds: float = 0.0

    @property
    def blamed(self) -> Sequence[str]:
        """Return the documents that caused their failures.

        If all documents of a run failed, the model may be down. In this case, return only the
        documents that also failed in an earlier run.
        """
        built = self.documents - len(self.failed) - len(self.quarantined)
        return [d for d in self.failed if built or d in self.again]

    def add(self, other: "Report") -> None:
        """Add the work of another shard."""
        self.documents += other.documents
        self.rows += other.rows
        self.dropped += other.dropped
        self.quarantined.update(other.quarantined)
        self.failed.update(other.failed)
        self.again |= other.again
        self.too_long += other.too_long
        self.calls.add(other.calls)
        self.costs.merge(other.costs)
        self.seconds += other.seconds


def quarantine_rows(
    refused: Sequence[tuple[str, str, str]],
    fingerprint: str,
    stage: str,
    origins: Sequence[str | None] | None = None,
) -> pa.RecordBatch:
    """Return quarantine rows from (document_id, content_hash, reason) tuples and `origins`."""
    columns: dict[str, Sequence[object]] = {
        "document_id": [r[0] for r in refused],
        "content_hash": [r[1] for r in refused],
        "fingerprint": [fingerprint] * len(refused),
        "stage": [stage] * len(refused),
        "reason": [r[2] for r in refused],
        "origin": origins or [None] * len(refused),
    }
    return rows_of(columns, QUARANTINE_SCHEMA)
