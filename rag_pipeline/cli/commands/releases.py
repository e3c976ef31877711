"""Define the commands releases, rollback, export, import-release, gc and doctor."""

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from rag_pipeline.cli.console import console, megabytes, print_json, say, show_next, tell
from rag_pipeline.cli.find import find_corpus_file, open_corpus, rag
from rag_pipeline.cli.options import CorpusArgument, CorpusOption, JsonFlag, argument, flag, option

if TYPE_CHECKING:
    from rag_pipeline.config import CorpusConfig

app = typer.Typer()


@app.command(short_help="List the releases, newest first.")
def releases(
    corpus: CorpusArgument = None, named: CorpusOption = None, as_json: JsonFlag = False
) -> None:
    """List the releases, newest first. `*` marks the served release.

    \b
    Example:
      rag releases contracts
    """
    from dataclasses import asdict, replace

    from rag_pipeline.cli.tables import show_releases
    from rag_pipeline.release.manifest import current_id

    opened = open_corpus(corpus, named)
    serving = current_id(opened.workspace)
    history = opened.releases()
    if as_json:
        records = [asdict(replace(r, files={})) for r in history]
        print_json([{**r, "serving": r["release_id"] == serving} for r in records])
    else:
        show_releases(history, serving)


@app.command(short_help="Serve an earlier release again.")
def rollback(
    release_id: Annotated[str | None, argument("RELEASE", "Its id [the previous release].")] = None,
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
) -> None:
    """Serve an earlier release again. Runs keep it until a document or setting changes.

    Until the next release, answers tell of the rollback, and whether newer documents are missing.

    \b
    Examples:
      rag rollback
      rag rollback contracts
      rag rollback release-000003 contracts
    """
    if release_id and corpus is None and named is None and not release_id.startswith("release-"):
        release_id, corpus = None, release_id  # the only argument is a corpus
    from rag_pipeline.release.manifest import current_id, names

    opened = open_corpus(corpus, named)
    before = current_id(opened.workspace)
    served = opened.roll_back(release_id)
    older = "; newer documents are not in it, and answers say so"
    told = f"({served.configuration}, of {served.created[:10]})"
    _, note = opened.searched_with_note()
    tell(f"serving {served.release_id} {told}{older * note.endswith('newer documents')}")
    between = [n for n in names(opened.workspace) if served.release_id < n < (before or "")]
    if between and release_id is None:
        skipped = f"skipped {', '.join(between)}: not served when {before} was made"
        tell(f"{before} replaced {served.release_id}; {skipped}")
    undo = rag("rollback", before or "", file=opened.config.file, corpus=opened.name)
    show_next((undo, "to undo this"))


@app.command(short_help="Write a release into one file.")
def export(
    release_id: Annotated[str, argument("RELEASE", "Its id, or `current` for the served release.")],
    file: Annotated[Path, argument("FILE", "File to write, e.g. r.zip.")],
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
) -> None:
    """Write a release into one file that another machine serves.

    \b
    Example:
      rag export current contracts.zip contracts
    """
    from rag_pipeline.release.bundle import export as write_bundle

    opened = open_corpus(corpus, named)
    wanted = opened.release().release_id if release_id == "current" else release_id
    release = write_bundle(opened.workspace, wanted, file)
    size = megabytes(file.stat().st_size)
    say(f"wrote {escape(str(file))}: {release.release_id}, {release.pinned.rows:,} chunks, {size}")


@app.command("import-release", short_help="Serve a release that `rag export` wrote.")
def import_release(
    file: Annotated[Path, argument("FILE", "A file of `rag export`.")],
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    store: Annotated[str, option("DIR", "Folder, or s3:// prefix, to import into.")] = "rag-store",
    trust_endpoints: Annotated[
        bool, flag("--trust-endpoints", "Use the addresses that the release names; print each.")
    ] = False,
) -> None:
    """Import a release from another machine, and serve it.

    Without a CORPUS, NAME.yaml is written with the settings of the release. An existing file is not
    changed. The addresses of models, and the environment variables of their keys, must be in your
    corpus file or be the vendor's own. `--trust-endpoints` allows others.

    \b
    Example:
      rag import-release contracts.zip
    """
    from rag_pipeline.config import load_config
    from rag_pipeline.release.bundle import (
        IMPORTED,
        foreign_endpoints,
        minimal_config,
        refuse_foreign,
    )
    from rag_pipeline.release.bundle import import_release as import_bundle
    from rag_pipeline.workspace import Workspace

    is_named = corpus or named or "RAG_CORPUS" in os.environ
    attributes = {} if is_named else minimal_config(file, store)
    target = Path(f"{attributes['corpus']}.yaml") if attributes else find_corpus_file(corpus, named)
    own = load_config(target) if is_named or target.exists() else None
    foreign = foreign_endpoints(file, own)
    if not trust_endpoints:
        refuse_foreign(file, foreign)
    for line in foreign:
        say(f"trusting {escape(line)}")
    config = own or _write_corpus_file(target, attributes)
    workspace = Workspace(config)
    release = import_bundle(
        workspace,
        file,
        waiting=lambda holder: say(escape(holder)),
        trust_endpoints=True,  # foreign endpoints are refused above
    )
    exported = workspace.store.read_json(IMPORTED)["release"]
    here = f", here {release.release_id}" if release.release_id != exported else ""
    console.print(f"serving {exported}{here} ({release.configuration})")
    show_next(rag("search", "your question", file=target, corpus=config.corpus))


def _write_corpus_file(target: Path, attributes: dict[str, Any]) -> "CorpusConfig":
    """Write a corpus file with these attributes."""
    import yaml

    from rag_pipeline.config import COMPONENT_TYPE, load_config, parse_config
    from rag_pipeline.pipeline.template import write_file

    parse_config(attributes, target)
    content = {"type": COMPONENT_TYPE, "attributes": attributes}
    write_file("corpus file", target, yaml.safe_dump(content, sort_keys=False))
    say(f"wrote {escape(str(target))}")
    return load_config(target)


@app.command(short_help="Delete data that the store no longer needs.")
def gc(
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    dry_run: Annotated[bool, flag("--dry-run", "Only list the data to delete.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Delete from the store everything that the corpus file's `retention` does not keep.

    The served release, current results and everything that a kept release pins are kept. Runs
    delete the same data. `rag gc` also returns the call cache's free space to the disk.

    \b
    Examples:
      rag gc --dry-run
      rag gc contracts
    """
    from rag_pipeline.assistant.expansion import ExpandedDocuments
    from rag_pipeline.config import load_config
    from rag_pipeline.pipeline.retention import collect
    from rag_pipeline.workspace import Workspace

    config = load_config(find_corpus_file(corpus, named))
    outside = ExpandedDocuments(config, config.assistant.expansion)
    freed = [*collect(Workspace(config), dry_run), *outside.collect(dry_run)]
    if as_json:
        print_json([thing._asdict() for thing in freed])
        return
    for thing in freed:
        name = escape(thing.name)
        later = f", goes after {thing.kept_until} UTC" if thing.kept_until else ""
        say(f"{thing.what} [bold]{name}[/bold]: {thing.why}, {megabytes(thing.bytes)}{later}")
    now = [thing.bytes for thing in freed if not thing.kept_until]
    word = "would be freed now" if dry_run else "freed"
    console.print(f"{megabytes(sum(now))} {word}" if now else "nothing to free now")


@app.command(short_help="Check installation, corpus and store.")
def doctor(
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    repair: Annotated[bool, flag("--repair", "Repair the store.")] = False,
    full: Annotated[bool, flag("--full", "Compare every byte of the store with its hash.")] = False,
) -> None:
    """Check the installation, the corpus file and its store, and list faults to repair.

    With --repair, incomplete files that a run can rebuild are removed, the newest complete release
    is served, and every loss is reported. With --full, corrupt bytes are also found in tables,
    indexes, results and the call cache. Stop all runs first.

    \b
    Examples:
      rag doctor contracts
      rag doctor contracts --repair
      rag doctor contracts --full --repair
    """
    from rag_pipeline.cli.doctor import examine

    if not examine(partial(find_corpus_file, corpus, named), repair, full):
        raise typer.Exit(1)
