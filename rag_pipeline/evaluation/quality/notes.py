"""What each file was made from, and whether it is current, complete, or lacks judgements."""

import hashlib
import json
from typing import Any, NamedTuple

import pyarrow as pa

from rag_pipeline.config import Settings, fingerprint
from rag_pipeline.evaluation.scores import score_file
from rag_pipeline.workspace import Workspace


class _Inputs(NamedTuple):
    section: str
    """The section of `evaluation` in the corpus file."""
    reads: tuple[str, ...]
    """The files under `evaluation/` that it is made from, besides the queries."""
    queries: bool = False
    """Whether it depends on what stands in the queries, not only on their answers."""


_INPUTS = {
    "relevance_labels": _Inputs("relevance", ("retrieval_run",)),
    "answers": _Inputs("answers", ("retrieval_run",)),
    "entity_scores": _Inputs("entities", ("answers",), queries=True),
    "context_scores": _Inputs("context", ("retrieval_run", "answers"), queries=True),
}


def quality_file(asset: str, configuration: str) -> str:
    """Return where an asset's file of a configuration stands."""
    return score_file(asset, configuration)


def made_from(workspace: Workspace, asset: str, configuration: str) -> str:
    """Hash what an asset of a configuration is made from, as that is now."""
    config = workspace.config
    settings: Settings = getattr(config.evaluation, _INPUTS[asset].section)
    chat = getattr(settings, "chat", None)
    parts: list[Any] = [asset, settings, config.chat(chat) if chat else None]
    if asset == "context_scores":
        parts.append(config.evaluation.health)
        for score in config.evaluation.scores:
            metrics = [[m.name, m.version] for m in getattr(score, "metrics", ())]
            parts += [score, metrics, *score.asked(config)]
    files = [score_file(before, configuration) for before in _INPUTS[asset].reads]
    files += ["evaluation/queries.parquet"] if _INPUTS[asset].queries else []
    parts += [workspace.store.read_note(file).get("digest") for file in files]
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
