"""Corpora that are built before a test begins, without Dagster's own time."""

from pathlib import Path

from rag_pipeline.config import load_config
from rag_pipeline.orchestration.checks import judge
from rag_pipeline.pipeline.making import make
from rag_pipeline.pipeline.planning import steps
from rag_pipeline.workspace import Workspace


def build(file: Path, until: str = "", configuration: str | None = None) -> None:
    """Make and judge each step in order, as a run does, to the first of the asset `until`."""
    workspace = Workspace(load_config(file))
    for step in steps(workspace.config, configuration):
        make(workspace, step)
        for check in step.row.checks:
            result = judge(workspace, step, check)
            assert result.passed or not check.blocking, f"{step}: {result.description}"
        if step.asset == until:
            return
