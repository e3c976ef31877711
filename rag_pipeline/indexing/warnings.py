"""Warn about doubtful texts of documents, and about chunks over an embedding's window."""

from collections.abc import Mapping

from rag_pipeline.chunking.sizes import SPECIAL_TOKENS
from rag_pipeline.errors import installation
from rag_pipeline.loading.code import CODE_SUFFIXES
from rag_pipeline.loading.extras import is_installed
from rag_pipeline.loading.quality import TextQuality
from rag_pipeline.loading.unseen import unseen_warning
from rag_pipeline.store.schemas import parse_metadata
from rag_pipeline.workspace import Workspace

_DOCUMENTS = 20
"""Approximate number of documents whose chunks are sampled, evenly spread over the corpus."""
_CHUNKS = 400
"""Maximum number of sampled chunks."""


def warnings_of(metadata: Mapping[str, object]) -> list[str]:
    """Return the warnings about a text's quality, guessed encoding and unseen characters."""
    found = quality.warnings() if (quality := text_quality(metadata)) else []
    if encoding := metadata.get("encoding"):
        found.append(f"read as {encoding}, guessed from its bytes; save it as UTF-8 to be sure")
    if unseen := unseen_warning(metadata.get("unseen")):
        found.append(unseen)
    return found


def text_quality(metadata: Mapping[str, object]) -> TextQuality | None:
    """Return the measured quality of a document's text, or None if it was not measured."""
    try:
        return TextQuality.from_json(str(metadata.get("text_quality")))
    except (TypeError, ValueError):
        return None  # not measured, or the file or a sidecar has a field of this name


def text_warnings(workspace: Workspace) -> list[str]:
    """Return a line for each document with a doubtful text, sorted by document_id."""
    return sorted(
        f"{row['document_id']}: {'; '.join(doubts)}"
        for row in workspace.documents().read_rows(["document_id", "metadata"])
        if (doubts := warnings_of(parse_metadata(row["metadata"])))
    )


def refused_documents(workspace: Workspace) -> list[str]:
    """Return a line for each file that could not be read as a document, sorted by id."""
    rows = workspace.quarantine("documents").read_rows(["document_id", "reason"])
    return sorted(f"{row['document_id']}: {row['reason']}" for row in rows)


def code_warning(workspace: Workspace) -> str:
    """Return a warning if source code is cut by lines because an extra is missing, or else ""."""
    if is_installed("code"):
        return ""
    kinds = workspace.documents().read_rows(["media_type"])
    files = sum(row["media_type"] in CODE_SUFFIXES.values() for row in kinds)
    how = f"is cut by lines, not functions; for functions, run `{installation('code')}`"
    return f"source code in {files:,} document{'s' * (files > 1)} {how}" if files else ""


def window_warnings(workspace: Workspace) -> list[str]:
    """Return a line for each chunking and embedding if over 1 % of its chunks exceed the window.

    A sample of the chunks is counted. Chunkings with `max_tokens` are skipped.
    """
    config = workspace.config
    found = []
    for chunking, name in sorted(
        {(c.chunking, c.embedding) for c in config.all_configurations.values() if c.embedding}
    ):
        settings = config.chunkings[chunking]
        window = config.embeddings[name].window
        if window is None or getattr(settings, "max_tokens", None) is not None:
            continue
        reads = window - SPECIAL_TOKENS
        texts = _sample(workspace, chunking)
        starts = config.located(config.embeddings[name]).token_starts
        # A token has at least one character.
        long = sum(len(text) > reads and len(starts(text)) > reads for text in texts)
        if 100 * long > len(texts):
            found.append(
                f"{chunking}: {long:,} of {len(texts):,} sampled chunks have more than the {reads} "
                f"tokens that {name} reads; the vectors omit the rest. Set max_tokens: "
                f"{reads} in chunkings.{chunking}"
            )
    return found


def _sample(workspace: Workspace, chunking: str) -> list[str]:
    table = workspace.chunks(chunking)
    names = sorted(table.state())
    chosen = names[:: max(1, -(-len(names) // _DOCUMENTS))]
    texts = [row["text"] for row in table.read_rows(["text"], chosen)]
    return texts[:: max(1, -(-len(texts) // _CHUNKS))]
