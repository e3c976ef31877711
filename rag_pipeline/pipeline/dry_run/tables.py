"""Build the tables of a run dry, and count their chunks and calls.

A document that one step changes is also built in the later steps. The rows of 64 documents at a
time stay in memory, because the next tables are built from them.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from rag_pipeline.calls.costs import ChargedTokens
from rag_pipeline.errors import UnexpectedError, UnknownReplyError
from rag_pipeline.indexing import Plan, Report, TablePartition, open_partition
from rag_pipeline.pipeline.dry_run.expected_index import Change
from rag_pipeline.pipeline.dry_run.priced_models import asks_a_chat, learned_of
from rag_pipeline.pipeline.dry_run.workspace import DryWorkspace
from rag_pipeline.pipeline.planning import DOCUMENTS, NOTHING_PENDING, Step, upstream
from rag_pipeline.store.schemas import CONTEXTUALIZED_CHUNKS_SCHEMA

MOST_CHARACTERS = 3_000_000
"""Maximum characters of a chunking in a dry run. Above it, counts are scaled from a sample."""
_AT_ONCE = 64
"""Number of documents with rows in memory at the same time."""

QUERIES = Step("queries")


@dataclass(slots=True)
class DryResult:
    """The result of one dry step: chunks to write, and the tokens of each call to make."""

    chunks: int = 0
    calls: dict[bytes, ChargedTokens] = field(default_factory=dict)
    chunks_known: bool = True
    calls_known: bool = True
    exact: bool = True
    """Whether no call depends on a missing reply."""
    scale: float = 1.0
    """Factor for all counts. It exceeds 1 if only a sample of the documents was built."""
    change: Change = field(default_factory=Change)
    """The changes in an index of vectors."""
    error: UnexpectedError | None = None

    @classmethod
    def of_error(cls, error: UnexpectedError) -> "DryResult":
        """Return the unknown result of a step after an error in its dry run."""
        return cls(chunks_known=False, calls_known=False, exact=False, error=error)


def build_tables(
    dry: DryWorkspace, chunking: str, pending: Mapping[Step, Plan]
) -> dict[Step, DryResult]:
    """Build the rows of pending documents dry, and return the result of each table's step.

    Only the tables of one chunking are built. Documents that are not loaded yet are left out, and
    the counts are then unknown.
    """
    unloaded = set(pending.get(DOCUMENTS, NOTHING_PENDING).stale)
    mine = [s for s in pending if s.row.open_partition and s.key(dry.config).chunking == chunking]
    stale = {step: set(pending[step].stale) for step in mine}
    results = {
        step: DryResult(change=Change(frozenset(stale[step]), frozenset(pending[step].orphaned)))
        for step in mine
    }
    for step in mine:
        if stale[step] & unloaded:
            results[step].chunks_known = results[step].calls_known = False
    wanted = sorted(set().union(*stale.values()) - unloaded)
    if not wanted:
        return results
    partitions = {step: open_partition(dry, step.asset, step.partition or "") for step in mine}
    sample = _sample(dry, wanted)
    for first in range(0, len(sample), _AT_ONCE):
        unknown: dict[Step, set[str]] = {}
        for step in mine:
            result = results[step]
            result.scale = len(wanted) / len(sample)
            own = [d for d in sample[first : first + _AT_ONCE] if d in stale[step]]
            (before,) = upstream(dry.config, step)
            waiting = unknown.get(before, set())
            unknown[step] = waiting.intersection(own)
            if unknown[step]:
                result.chunks_known = False
                if _embeds(step) or asks_a_chat(dry.config, step):
                    result.calls_known = False
            possible = [d for d in own if d not in waiting]
            if possible:
                unknown[step] |= _build(dry, step, partitions[step], possible, result)
            if _embeds(step):
                if before in results:
                    result.exact &= not results[before].calls
                read = partitions[step].upstream.read_rows(
                    CONTEXTUALIZED_CHUNKS_SCHEMA.names, possible
                )
                for row in read if possible else ():
                    result.change.chunks.setdefault(row["document_id"], []).append(row)
        dry.store.forget()
    for step in mine:
        change = results[step].change
        change.is_whole = not pending[step].current and change.chunks.keys() == change.stale
    return results


def _build(
    dry: DryWorkspace,
    step: Step,
    partition: TablePartition,
    document_ids: Sequence[str],
    result: DryResult,
) -> set[str]:
    """Build rows in a dry run, and count them in `result`. Return documents with unknown rows."""
    report = Report()
    dry.cache.learned = learned_of(dry, step)
    _begin(dry, step)
    if _embeds(step):
        # No later step reads the vectors, and there are as many rows as chunks.
        with suppress(UnknownReplyError):
            list(partition.build(document_ids, report))
        rows = dry.dry_table(partition.upstream.name).rows(document_ids)
    else:
        rows = dry.dry_table(partition.table.name).hold(
            document_ids, partition.build(document_ids, report)
        )
    result.chunks += rows
    for calls in dry.cache.missing.values():
        result.calls.update(calls)
    result.exact &= not dry.cache.guessed or _cuts(step)
    unknown = set(report.failed) if _cuts(step) else set()
    result.chunks_known &= not unknown
    return unknown


def _begin(dry: DryWorkspace, step: Step) -> None:
    # Chunks that depend on missing replies are unknown.
    dry.cache.begin(reads=not _embeds(step), stands_in=not _cuts(step))


def _embeds(step: Step) -> bool:
    return step.row.unit == "texts"


def _cuts(step: Step) -> bool:
    return step.row.partitioned_by == "chunking"


def _sample(dry: DryWorkspace, document_ids: Sequence[str]) -> Sequence[str]:
    """Return the first documents with MOST_CHARACTERS in total, or all documents."""
    sizes: dict[str, int] = {}
    for batch in dry.documents().read(["document_id", "characters"], document_ids):
        columns = batch.to_pydict()
        sizes.update(zip(columns["document_id"], columns["characters"], strict=True))
    characters = 0
    for number, document_id in enumerate(document_ids, 1):
        characters += sizes.get(document_id, 0)
        if characters >= MOST_CHARACTERS:
            return document_ids[:number]
    return document_ids


def needed_by_table(dry: DryWorkspace, step: Step) -> Iterator[bytes]:
    """Yield the keys of the answered calls that a complete rebuild of a table needs."""
    partition = open_partition(dry, step.asset, step.partition or "")
    document_ids = sorted(partition.upstream.state())
    for first in range(0, len(document_ids), _AT_ONCE):
        _begin(dry, step)
        with suppress(UnknownReplyError):
            for _ in partition.build(document_ids[first : first + _AT_ONCE], Report()):
                pass
        yield from dry.cache.known_keys
