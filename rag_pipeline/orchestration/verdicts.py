"""What the blocking checks said of each table as it is now, kept in the store.

Dagster holds a failed check against what follows in the same run only. Assets here follow each
other in runs of their own, from the command line too, so the verdict stands beside the data: a
table that has changed since, or that a killed run left unjudged, has none.
"""

from rag_pipeline.evaluation.runs import QUERIES_FILE
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.release.checks import CheckResult
from rag_pipeline.store import Table
from rag_pipeline.workspace import Workspace

JUDGED = (
    "documents",
    "queries",
    "chunks",
    "contextualized_chunks",
    "lexical_index",
    "vector_index",
)
"""The assets that have a blocking check."""


def record(workspace: Workspace, step: Step, result: CheckResult) -> None:
    """Keep the verdict of a step's blocking check."""
    verdict = {
        "state": _state(workspace, step),
        "passed": result.passed,
        "failures": list(result.failures),
    }
    workspace.store.write_json(_file(step), verdict)


def passed(workspace: Workspace, step: Step) -> bool:
    """Return whether a step's table passed its blocking check as it is now."""
    if step.asset not in JUDGED:
        return True
    verdict = workspace.store.read_json(_file(step)) or {}
    return bool(verdict.get("passed")) and verdict["state"] == _state(workspace, step)


def _file(step: Step) -> str:
    return f"checks/{step.asset}.{step.partition}.json" if step.partition else f"checks/{step}.json"


def _state(workspace: Workspace, step: Step) -> str:
    key = step.partition or ""
    match step.asset:
        case "documents":
            return _version(workspace.documents())
        case "queries":
            return str(workspace.store.read_note(QUERIES_FILE).get("digest"))
        case "chunks":
            return _version(workspace.chunks(key))
        case "contextualized_chunks":
            return _version(workspace.contextualized_chunks(key))
        case "vector_index":
            return _version(workspace.vector_index(key))
        case "lexical_index":
            engines = workspace.config.lexical_engines(key)
            return " ".join(workspace.lexical_path(key, engine) for engine in engines)
    raise ValueError(f"{step.asset!r} is not one of: {', '.join(JUDGED)}")


def _version(table: Table) -> str:
    return f"{table.name} {table.version}" if table.exists() else ""
