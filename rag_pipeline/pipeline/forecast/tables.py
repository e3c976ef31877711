"""Documents that a run would work on -> the chunks and calls of each table, built dry in batches.

The documents that a step would change are carried on to the steps after it: their rows are held in
memory while the tables after it are built, 64 documents at a time.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from rag_pipeline.calls.costs import ChargedTokens
from rag_pipeline.errors import UnknownReplyError
from rag_pipeline.indexing import Report, TableStage, open_stage, plan, plan_documents
from rag_pipeline.pipeline.forecast.payees import asks_a_chat, learned_of
from rag_pipeline.pipeline.forecast.workspace import DryWorkspace
from rag_pipeline.pipeline.planning import Step, upstream
from rag_pipeline.workspace import Workspace

MOST_CHARACTERS = 3_000_000
"""Maximum characters of a chunking's documents that are built dry; of more, counts are scaled."""
_AT_ONCE = 64
"""Number of documents whose rows are in memory together."""

DOCUMENTS = Step("documents")
QUERIES = Step("queries")


@dataclass(frozen=True, slots=True)
class Todo:
    """The documents that a step would work on and those that it would drop."""

    pending: frozenset[str]
    gone: frozenset[str]
    current: int
    why: str = ""
    """Why documents are read again that have not changed."""


NOTHING = Todo(frozenset(), frozenset(), 0)
"""Marks a step that is not foretold: what follows reads it as it is."""


@dataclass(slots=True)
class Noted:
    """What one step would do: chunks to write, and calls without an answer, each once."""

    chunks: int = 0
    calls: dict[bytes, ChargedTokens] = field(default_factory=dict)
    chunks_known: bool = True
    calls_known: bool = True
    exact: bool = True
    """Whether no call rests on a reply that does not exist yet."""
    scale: float = 1.0
    """What counts are multiplied by, where some documents stand for all."""


def documents_to_do(
    workspace: Workspace, chosen: Sequence[Step], as_loaded: bool = False
) -> dict[Step, Todo]:
    """Return what the tables of documents' rows among some steps would have to do.

    The steps stand in the order of the flow. The documents are `as_loaded` where their files are
    known not to have changed.
    """
    config = workspace.config
    todo: dict[Step, Todo] = {}
    for step in chosen:
        if step == DOCUMENTS:
            if as_loaded and workspace.documents().exists():
                todo[step] = Todo(frozenset(), frozenset(), len(workspace.documents().state()))
                continue
            first = plan_documents(workspace)
            stale, orphaned = frozenset(first.stale), frozenset(first.orphaned)
            todo[step] = Todo(stale, orphaned, first.current, first.why)
        if not step.row.stage:
            continue
        (before,) = (todo.get(s, NOTHING) for s in upstream(config, step))
        stage = open_stage(workspace, step.asset, step.partition or "")
        own = plan(stage)
        here = set(stage.table.state()) | set(stage.quarantine.state())
        gone = frozenset((before.gone & here) | set(own.orphaned))
        carried = {d for d in before.pending if stage.covers(d)}
        pending = frozenset((set(own.stale) | carried) - before.gone)
        todo[step] = Todo(pending, gone, len(here - pending - gone), own.why)
    return todo


def build_tables(dry: DryWorkspace, chunking: str, todo: Mapping[Step, Todo]) -> dict[Step, Noted]:
    """Build what is pending in the tables of one chunking, of the loaded documents."""
    unloaded = todo.get(DOCUMENTS, NOTHING).pending
    mine = [s for s in todo if s.row.stage and s.key(dry.config).chunking == chunking]
    noted = {step: Noted() for step in mine}
    for step in mine:
        if todo[step].pending & unloaded:
            noted[step].chunks_known = noted[step].calls_known = False
    wanted = sorted(set().union(*(todo[step].pending for step in mine)) - unloaded)
    if not wanted:
        return noted
    stages = {step: open_stage(dry, step.asset, step.partition or "") for step in mine}
    sample = _sample(dry, wanted)
    for first in range(0, len(sample), _AT_ONCE):
        unknown: dict[Step, set[str]] = {}
        for step in mine:
            noted[step].scale = len(wanted) / len(sample)
            own = [d for d in sample[first : first + _AT_ONCE] if d in todo[step].pending]
            (before,) = upstream(dry.config, step)
            waiting = unknown.get(before, set())
            unknown[step] = waiting.intersection(own)
            if unknown[step]:
                noted[step].chunks_known = False
                if _embeds(step) or asks_a_chat(dry.config, step):
                    noted[step].calls_known = False
            possible = [d for d in own if d not in waiting]
            if possible:
                unknown[step] |= _build(dry, step, stages[step], possible, noted[step])
            if _embeds(step) and before in noted:
                noted[step].exact &= not noted[before].calls
        dry.store.forget()
    return noted


def _build(
    dry: DryWorkspace, step: Step, stage: TableStage, document_ids: Sequence[str], noted: Noted
) -> set[str]:
    """Build the rows of documents and hold them; return the documents whose rows are unknown."""
    report = Report()
    dry.cache.learned = learned_of(dry, step)
    _begin(dry, step)
    if _embeds(step):
        # Nothing is made of its rows: as many as there are chunks, whatever the vectors.
        with suppress(UnknownReplyError):
            list(stage.build(document_ids, report))
        rows = dry.dry_table(stage.upstream.name).rows(document_ids)
    else:
        rows = dry.dry_table(stage.table.name).hold(document_ids, stage.build(document_ids, report))
    noted.chunks += rows
    for calls in dry.cache.missing.values():
        noted.calls.update(calls)
    noted.exact &= not dry.cache.guessed or _cuts(step)
    unknown = set(report.failed) if _cuts(step) else set()
    noted.chunks_known &= not unknown
    return unknown


def _begin(dry: DryWorkspace, step: Step) -> None:
    # Chunks made of other replies would be other chunks: without these they are not known.
    dry.cache.begin(reads=not _embeds(step), stands_in=not _cuts(step))


def _embeds(step: Step) -> bool:
    return step.row.unit == "texts"


def _cuts(step: Step) -> bool:
    return step.row.partitioned_by == "chunking"


def _sample(dry: DryWorkspace, document_ids: Sequence[str]) -> Sequence[str]:
    """Return the first documents, until they have MOST_CHARACTERS together."""
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
    """Yield the keys of the answered calls that building a whole table anew would look up."""
    stage = open_stage(dry, step.asset, step.partition or "")
    document_ids = sorted(stage.upstream.state())
    for first in range(0, len(document_ids), _AT_ONCE):
        _begin(dry, step)
        with suppress(UnknownReplyError):
            for _ in stage.build(document_ids[first : first + _AT_ONCE], Report()):
                pass
        yield from dry.cache.known_keys
