"""What a materialization would do and what it did, and the rows that it writes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from rag_pipeline.calls import CallCounts
from rag_pipeline.calls.costs import Totals
from rag_pipeline.datamodels import QUARANTINE_SCHEMA, rows_of

MAX_SHARD_DOCUMENTS = 256
MADE_OTHERWISE = "settings or code changed"
"""Why something is made anew although nothing that it reads has changed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a materialization of one partition would do."""

    stale: tuple[str, ...]
    orphaned: tuple[str, ...]
    current: int
    waiting: int = 0
    """Documents whose rows in the table before are themselves stale."""
    shards: tuple[tuple[str, ...], ...] = ()
    why: str = ""
    """Why documents are stale that have not changed, "" where none are."""
    missing: tuple[str, ...] = ()
    """Those of the stale that a model failed on when last asked, and that have no rows."""

    @property
    def is_current(self) -> bool:
        """Return whether there is nothing to do."""
        return not (self.stale or self.orphaned or self.waiting)

    @property
    def is_usable(self) -> bool:
        """Return whether the table may be released: current, but for documents that are missing.

        Never where more than half of all documents are missing.
        """
        rest = len(self.stale) - len(self.missing)
        few = len(self.missing) <= self.current
        return not (rest or self.orphaned or self.waiting) and few


@dataclass(slots=True)
class Report:
    """What a materialization did."""

    documents: int = 0
    rows: int = 0
    dropped: int = 0
    quarantined: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """Documents that a model failed on, with the reasons; they stay stale."""
    again: set[str] = field(default_factory=set)
    """Those of them that it failed on in an earlier run too."""
    too_long: list[str] = field(default_factory=list)
    """Documents of which a model saw a summary and a part, as they are longer than its window."""
    calls: CallCounts = field(default_factory=CallCounts)
    costs: Totals = field(default_factory=Totals)
    seconds: float = 0.0

    @property
    def blamed(self) -> Sequence[str]:
        """Return the documents that are to blame themselves for a model's failure.

        A model that failed on all that it was asked may be down: these failed in an earlier run.
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
    """Return quarantine rows from (document_id, content_hash, reason), and their origins."""
    columns: dict[str, Sequence[object]] = {
        "document_id": [r[0] for r in refused],
        "content_hash": [r[1] for r in refused],
        "fingerprint": [fingerprint] * len(refused),
        "stage": [stage] * len(refused),
        "reason": [r[2] for r in refused],
        "origin": origins or [None] * len(refused),
    }
    return rows_of(columns, QUARANTINE_SCHEMA)
