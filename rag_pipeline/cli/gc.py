"""`rag gc`: list or delete everything that the store no longer needs."""

from pathlib import Path

from rich.markup import escape

from rag_pipeline.assistant.expansion import ExpandedDocuments
from rag_pipeline.cli.console import console, print_json, say
from rag_pipeline.config import CorpusConfig, load_config
from rag_pipeline.pipeline.retention import Freed, collect
from rag_pipeline.workspace import Workspace


def free(file: Path, dry_run: bool, as_json: bool) -> None:
    """Delete everything past its retention, or only list it; print one line for each item."""
    workspace = Workspace(load_config(file))
    freed = [*collect(workspace, dry_run), *_expanded(workspace.config, dry_run)]
    if as_json:
        print_json([thing._asdict() for thing in freed])
        return
    for thing in freed:
        name = escape(thing.name)
        say(f"{thing.what} [bold]{name}[/bold]: {thing.why}, {megabytes(thing.bytes)}")
    total = megabytes(sum(thing.bytes for thing in freed))
    word = "would be freed" if dry_run else "freed"
    console.print(f"{total} {word}" if freed else "nothing to free")


def _expanded(config: CorpusConfig, dry_run: bool) -> list[Freed]:
    """Delete expired documents that were found outside the corpus."""
    documents = ExpandedDocuments(config, config.assistant.expansion)
    gone = documents.expired() if dry_run else documents.prune()
    freed = [
        Freed("expanded document", k.document_id, f"found {k.time[:10]}, expired", k.characters)
        for k in gone
    ]
    size = documents.drop_versions(dry_run)
    return freed + ([Freed("versions", "expansion", "superseded", size)] if size else [])


def megabytes(size: int) -> str:
    """Return a size in MB."""
    return f"{size / 1e6:,.1f} MB"
