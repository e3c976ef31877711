"""Implement `rag show` and `rag quarantine`, which print documents and refused documents."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from rich.markup import escape

from rag_pipeline.cli.console import (
    command,
    console,
    counted,
    did_you_mean,
    indented,
    print_json,
    say,
    show_next,
    tell,
    visible,
)
from rag_pipeline.cli.find import rag
from rag_pipeline.config import load_config
from rag_pipeline.datamodels import Document
from rag_pipeline.errors import InputError, count_shown, installation
from rag_pipeline.evaluation.results import QUERIES
from rag_pipeline.evaluation.runs import left_out
from rag_pipeline.indexing import read_documents, text_quality, warnings_of
from rag_pipeline.loading.archives import is_archive
from rag_pipeline.loading.folder import matcher
from rag_pipeline.loading.mails import is_mail
from rag_pipeline.loading.page_map import PageMap
from rag_pipeline.pipeline.planning import steps
from rag_pipeline.search.copies import find_copies
from rag_pipeline.workspace import Workspace

_LISTED = 5
_INSTALLS = re.compile(r"`[^`]*pip install [^`]*`")


class Refusal(NamedTuple):
    """The reason why a stage refused a document."""

    document_id: str
    stage: str
    reason: str


def refusals(workspace: Workspace) -> list[Refusal]:
    """Return the refusals of all stages, sorted by document."""
    found = set()
    for name in _quarantines(workspace):
        rows = workspace.quarantine(name).read_rows(list(Refusal._fields))
        found |= {Refusal(**row) for row in rows}
    # The reason names the command of the environment that read the document.
    here = partial(_INSTALLS.sub, lambda _: f"`{installation('ocr')}`")
    return sorted(refusal._replace(reason=here(refusal.reason)) for refusal in found)


def coverage(workspace: Workspace) -> str:
    """Return a line with the number of documents, and of copies and refused documents."""
    state, copies = workspace.documents().state(), len(find_copies(workspace))
    documents, holders = len(state), [*filter(None, map(_holder, state))]
    held = f" ({len(holders):,} of them in mails or archives)" if holders else ""
    parts = [f"{counted(documents, 'document')}{held}: {documents - copies:,} indexed"]
    if copies:
        parts.append(f"{copies:,} with the same text as one of these")
    refused = workspace.quarantine("documents").count()
    return ", ".join(parts) + (f"; {refused:,} more in quarantine" if refused else "")


def _holder(document_id: str) -> str:
    """Return the id of the archive or mail that holds a document, or "" if there is none."""
    above = [str(path) for path in PurePosixPath(document_id).parents]
    return next((name for name in above if is_archive(name) or is_mail(name)), "")


def _quarantines(workspace: Workspace) -> list[str]:
    named = [step.store_name for step in steps(workspace.config) if step.row.table is not None]
    return list(dict.fromkeys(named))


def show_quarantine(file: Path, retry: bool, as_json: bool) -> None:
    """Print the quarantine. With `retry`, empty it, so that the next run tries again."""
    workspace = Workspace(load_config(file))
    found = refusals(workspace)
    if retry:
        for name in _quarantines(workspace):
            table = workspace.quarantine(name)
            table.drop(list(table.state()))
    if as_json:
        print_json([refusal._asdict() for refusal in found])
        return
    for document_id, stage, reason in found:
        say(f"[bold]{visible(document_id)}[/bold]  [dim]{escape(stage)}[/dim]")
        say(indented(visible(reason)))
    if not found:
        console.print("no document is in quarantine")
        return
    count = counted(len(found), "refusal")
    following: tuple[str, ...] = ("quarantine", "--retry")
    if retry:
        following = ("run",)
        console.print(f"{count} forgotten; the next run tries these documents again")
    else:
        tell(f"{count}. Repair the files or settings and run again. To try unchanged files again:")
    show_next(rag(*following, file=file, corpus=workspace.config.corpus))


def show_document(file: Path, document_id: str, page: int | None, as_json: bool) -> None:
    """Print the text that was read from a document, or from one page of it."""
    workspace = Workspace(load_config(file))
    document = next(iter(read_documents(workspace, [document_id])), None)
    if document is None:
        raise InputError(unknown_document(workspace, document_id))
    text = document.text if page is None else _page(document, page)
    doubts, indexed = warnings_of(document.metadata), find_copies(workspace).get(document_id)
    if as_json:
        record = {name: getattr(document, name) for name in ("document_id", "title", "media_type")}
        record |= {"metadata": dict(document.metadata), "warnings": doubts, "indexed_as": indexed}
        print_json({**record, "page": page, "text": text})
        return
    pages = f"{counted(int(document.metadata['pages']), 'page')}, " if document.page_map else ""
    suffix = document.metadata.get("suffix")
    kind = f"a {suffix} file" if suffix else document.media_type
    about = f"{document.title}; {kind}, {pages}{len(document.text):,} characters"
    say(f"[dim]{visible(about)}[/dim]")
    if quality := text_quality(document.metadata):
        say(f"[dim]{visible(quality.summary())}[/dim]")
    if indexed is not None:
        say(f"[dim]the same text as {visible(indexed)}, which is indexed instead[/dim]")
    for doubt in doubts:
        say(f"[yellow]{visible(doubt)}[/yellow]")
    console.print()
    for line in text.split("\n"):
        start = line[: len(line) - len(line.lstrip(" "))]
        say(start + visible(line))


def _page(document: Document, page: int) -> str:
    if document.page_map is None:
        raise InputError(f"--page {page}: {document.document_id!r} has no pages; it is not a PDF")
    placed = PageMap.from_bytes(document.page_map)
    count = len(placed.sizes)
    if not 1 <= page <= count:
        raise InputError(f"--page {page}: {document.document_id!r} has the pages 1 to {count}")
    ends = [*placed.starts[1:], len(document.text)]
    pieces = zip(placed.starts, ends, placed.boxes, strict=True)
    return "".join(document.text[start:end] for start, end, box in pieces if box.page == page)


def unknown_document(workspace: Workspace, document_id: str) -> str:
    """Return the reason why a document is not loaded, or "" if it is loaded."""
    if document_id in (known := list(workspace.documents().state())):
        return ""
    reasons = {r.document_id: r.reason for r in refusals(workspace)}
    path = f"/{document_id}"  # perhaps longer than an id, or a part of one
    meant = (i for i in reasons if path.endswith(f"/{i}") or f"/{i}".endswith(path))
    if refused := min(meant, key=lambda i: i != document_id, default=None):
        return f"{refused!r} is in quarantine: {reasons[refused]}"
    for pattern in workspace.config.documents.exclude:
        if matcher(pattern, hidden=True)(document_id):
            where = f"documents.exclude in {workspace.config.where}"
            return f"{document_id!r} is left out by {pattern!r} of {where}"
    near = did_you_mean(document_id, [*known, *reasons])
    return f"no document {document_id!r} among the {len(known):,} loaded documents{near}"


def show_lost_queries(workspace: Workspace, note: Mapping[str, Any] | None = None) -> None:
    """Print the queries whose gold the documents do not hold, and the commands that help.

    `note` is that of `left_out`.
    """
    note = QUERIES.note(workspace) if note is None else note
    same: dict[str, list[str]] = {}
    for problem in note.get("problems", []):
        query, _, told = problem.partition(": gold_spans.")
        same.setdefault(told.partition(": ")[2], []).append(query)
    told_once = [
        f"{queries[0]}{f' and {more:,} more' if (more := len(queries) - 1) else ''}: {told}"
        for told, queries in same.items()
    ]
    if lost := left_out(workspace, note):
        show_list(lost, told_once)
        config = workspace.config
        drop = rag("questions", "drop", file=config.file, corpus=config.corpus)
        made = any(query.startswith("query synthetic-") for of in same.values() for query in of)
        again = rag("questions", file=config.file, corpus=config.corpus)
        also = f"; to make such questions again: {command(again)}" * made
        say(f"  to drop them: {command(drop)}{also}")


def show_list(heading: str, problems: Sequence[str]) -> None:
    """Print a heading and the first problems, and the number of all others."""
    tell(f"[yellow]{heading}:[/yellow]")
    most = count_shown(problems, _LISTED)
    for problem in problems[:most]:
        tell(indented(visible(problem), "  "))
    if len(problems) > most:
        console.print(f"  (and {len(problems) - most:,} more)")
