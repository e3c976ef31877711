"""Warn about doubtful texts of documents, and about chunks longer than an embedding reads."""

import re
from collections.abc import Mapping

from rag_pipeline.errors import counted, installation
from rag_pipeline.loading.code import CODE_SUFFIXES
from rag_pipeline.loading.extras import is_installed
from rag_pipeline.loading.quality import TextQuality
from rag_pipeline.loading.unseen import unseen_warning
from rag_pipeline.store.schemas import parse_metadata
from rag_pipeline.workspace import Workspace

_DOCUMENTS = 20
"""Number of documents, spread evenly over the corpus, whose chunks are sampled."""
_CHUNKS = 400
"""Maximum number of sampled chunks."""
_SPECIAL_TOKENS = 2
"""Number of tokens that a model adds to each text."""


def warnings_of(metadata: Mapping[str, object]) -> list[str]:
    """Return the warnings about a document's text: its quality, encoding and unseen characters."""
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
        return None  # not measured, or a field of this name from the file or a person


def text_warnings(workspace: Workspace) -> list[str]:
    """Return a line for every document with a doubtful text, sorted by document_id."""
    return sorted(
        f"{row['document_id']}: {'; '.join(doubts)}"
        for row in workspace.documents().read_rows(["document_id", "metadata"])
        if (doubts := warnings_of(parse_metadata(row["metadata"])))
    )


def refused_documents(workspace: Workspace) -> list[str]:
    """Return a line for every file that could not be read as a document, sorted by id."""
    rows = workspace.quarantine("documents").read_rows(["document_id", "reason"])
    return sorted(f"{row['document_id']}: {row['reason']}" for row in rows)


def not_searched(workspace: Workspace, query: str) -> str:
    """Return a sentence about the files that no search reads, or "" if there are none.

    It names up to 2 files whose names share the most words with the query, or else numbers.
    """
    rows = list(workspace.quarantine("documents").read_rows(["document_id", "reason"]))
    aside = {row["document_id"]: row["reason"].partition(";")[0] for row in rows}
    excluded = workspace.config.documents.exclude
    aside |= dict.fromkeys(excluded, "left out by documents.exclude")
    asked = _words(query)
    alike = {name: n for name in aside if (n := len(asked & _words(name)))}
    if named := sorted(alike, key=lambda name: (-alike[name], name))[:2]:
        return f"not searched: {', '.join(f'{name} ({aside[name]})' for name in named)}"
    parts = [f"{counted(len(rows), 'document')} in quarantine"] if rows else []
    parts += [f"what documents.exclude leaves out, {', '.join(excluded[:2])}"] if excluded else []
    return f"not searched: {'; '.join(parts)}" if parts else ""


def _words(text: str) -> frozenset[str]:
    from rag_pipeline.search.tokenization import default_tokenizer  # takes time to import

    return frozenset(default_tokenizer().tokenize(re.sub(r"[\W_]+", " ", text)))


def code_warning(workspace: Workspace) -> str:
    """Return a warning if source code is cut by lines because an extra is missing, or else ""."""
    if is_installed("code"):
        return ""
    kinds = workspace.documents().read_rows(["media_type"])
    files = sum(row["media_type"] in CODE_SUFFIXES.values() for row in kinds)
    how = f"is cut by lines, not functions; for the extra `code`: `{installation('code')}`"
    return f"source code in {files:,} document{'s' * (files > 1)} {how}" if files else ""


def window_warnings(workspace: Workspace) -> list[str]:
    """Return a line for each chunking with chunks that are too long for an embedding.

    Only a sample of the chunks is measured. Chunkings with `max_tokens` are skipped.
    """
    config = workspace.config
    found = []
    for chunking, name in sorted(
        {(c.chunking, c.embedding) for c in config.all_configurations.values() if c.embedding}
    ):
        settings = config.chunkings[chunking]
        window = config.embeddings[name].window
        counted = getattr(settings, "max_tokens", None) is not None
        if window is None or counted:
            continue
        reads = window - _SPECIAL_TOKENS
        texts = _sample(workspace, chunking)
        starts = config.located(config.embeddings[name]).token_starts
        # A token has at least one character.
        long = sum(len(text) > reads and len(starts(text)) > reads for text in texts)
        if long:
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
