"""What the blocking checks said of each table as it is now, kept in the store.

Dagster holds a failed check against what follows in the same run only. Assets here follow each
other in runs of their own, from the command line too, so the verdict stands beside the data: a
table that has changed since, or that a killed run left unjudged, has none.
"""

from rag_pipeline.pipeline.planning import Step
from rag_pipeline.release.checks import CheckResult
from rag_pipeline.workspace import Workspace


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
    if not step.row.has_blocking_check:
        return True
    verdict = workspace.store.read_json(_file(step)) or {}
    return bool(verdict.get("passed")) and verdict["state"] == _state(workspace, step)


def _file(step: Step) -> str:
    return f"checks/{step.store_name}.json"


def _state(workspace: Workspace, step: Step) -> str:
    return step.row.state_of(workspace, step.key(workspace.config))
