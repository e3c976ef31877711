"""What each file was made from, and whether it is current, complete, or lacks judgements."""

import hashlib
import json
from typing import Any

import pyarrow as pa

from rag_pipeline.config import Settings, fingerprint
from rag_pipeline.evaluation.scores import score_file
from rag_pipeline.workspace import Workspace

QUALITY_ASSETS = ("relevance_labels", "answers", "entity_scores", "context_scores")

_SECTIONS = {
    "relevance_labels": "relevance",
    "answers": "answers",
    "entity_scores": "entities",
    "context_scores": "context",
}
_READS = {
    "relevance_labels": ("retrieval_run",),
    "answers": ("retrieval_run",),
    "entity_scores": ("answers", "queries"),
    "context_scores": ("retrieval_run", "answers", "queries"),
}


def quality_file(asset: str, configuration: str) -> str:
    """Return where an asset's file of a configuration stands."""
    return score_file(asset, configuration)


def made_from(workspace: Workspace, asset: str, configuration: str) -> str:
    """Hash what an asset of a configuration is made from, as that is now."""
    config = workspace.config
    settings: Settings = getattr(config.evaluation, _SECTIONS[asset])
    chat = getattr(settings, "chat", None)
    parts: list[Any] = [asset, settings, config.chat(chat) if chat else None]
    if asset == "context_scores":
        parts.append(config.evaluation.health)
        for score in config.evaluation.scores:
            metrics = [[m.name, m.version] for m in getattr(score, "metrics", ())]
            parts += [score, metrics, *score.asked(config)]
    for before in _READS[asset]:
        file = "evaluation/queries.parquet"
        if before != "queries":
            file = score_file(before, configuration)
        parts.append(workspace.store.read_note(file).get("digest"))
    return fingerprint(*parts)


def is_current(workspace: Workspace, asset: str, configuration: str) -> bool:
    """Return whether a file is of its inputs as they are, and no judgement is missing."""
    note = workspace.store.read_note(quality_file(asset, configuration))
    return _is_of_inputs(workspace, asset, configuration, note) and not note["missing"]


def is_incomplete(workspace: Workspace, asset: str, configuration: str) -> bool:
    """Return whether all that a file lacks is judgements that failed."""
    note = workspace.store.read_note(quality_file(asset, configuration))
    return _is_of_inputs(workspace, asset, configuration, note) and bool(note["missing"])


def _is_of_inputs(
    workspace: Workspace, asset: str, configuration: str, note: dict[str, Any]
) -> bool:
    return bool(note) and note.get("made_from") == made_from(workspace, asset, configuration)


def write(
    workspace: Workspace,
    asset: str,
    configuration: str,
    source: str,
    table: pa.Table,
    more: dict[str, Any],
) -> dict[str, Any]:
    """Write a file with its note, and return the note. `source` is what `made_from` said."""
    rows = json.dumps(table.to_pylist(), sort_keys=True)
    content = hashlib.sha256(rows.encode()).hexdigest()
    note = {"made_from": source, "digest": fingerprint(asset, source, content), **more}
    workspace.store.write_parquet(quality_file(asset, configuration), table, note)
    return note
