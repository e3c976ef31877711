"""`rag export` and `rag import-release`: a release as one file."""

from pathlib import Path

import yaml
from rich.markup import escape

from rag_pipeline.cli.console import console, say, show_next
from rag_pipeline.cli.find import rag
from rag_pipeline.cli.gc import megabytes
from rag_pipeline.config import COMPONENT_TYPE, load_config, parse_config
from rag_pipeline.pipeline.template import write_file
from rag_pipeline.release import current
from rag_pipeline.release.bundle import export, import_release, minimal_config
from rag_pipeline.workspace import Workspace


def export_release(corpus: Path, release_id: str, file: Path) -> None:
    """Write a release into a file and print its size."""
    workspace = Workspace(load_config(corpus))
    wanted = current(workspace).release_id if release_id == "current" else release_id
    release = export(workspace, wanted, file)
    size = megabytes(file.stat().st_size)
    say(f"wrote {escape(str(file))}: {release.release_id}, {release.pinned.rows:,} chunks, {size}")


def import_bundle(file: Path, corpus: Path | None, store: str) -> None:
    """Serve the release in a file; write a corpus file for it if there is none."""
    if corpus is None:
        attributes = minimal_config(file, store)
        corpus = Path(f"{attributes['corpus']}.yaml")
        if not corpus.exists():
            parse_config(attributes, corpus)
            content = {"type": COMPONENT_TYPE, "attributes": attributes}
            write_file("corpus file", corpus, yaml.safe_dump(content, sort_keys=False))
            say(f"wrote {escape(str(corpus))}")
    config = load_config(corpus)
    release = import_release(Workspace(config), file, waiting=lambda holder: say(escape(holder)))
    console.print(f"serving {release.release_id} ({release.configuration})")
    show_next(rag("search", "your question", file=corpus, corpus=config.corpus))
