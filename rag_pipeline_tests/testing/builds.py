"""Corpora that are built before a test begins, without Dagster's own time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rag_pipeline.calls import CallCounts
from rag_pipeline.config import CorpusConfig, load_config
from rag_pipeline.errors import CheckFailedError
from rag_pipeline.orchestration.checks import judge
from rag_pipeline.orchestration.runner import StepResult
from rag_pipeline.orchestration.verdicts import passed
from rag_pipeline.pipeline.making import make
from rag_pipeline.pipeline.planning import plan_step, steps
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


def run(config: CorpusConfig, configuration: str | None = None) -> Iterator[StepResult]:
    """Make what is stale as `orchestration.runner.run` does, in half of its time."""
    workspace = Workspace(config)
    for step in steps(config, configuration):
        if not plan_step(workspace, step).must_run and passed(workspace, step):
            yield StepResult(step, ran=False)
            continue
        facts: dict[str, Any] = dict(make(workspace, step).facts)
        for check in step.row.checks:
            result = judge(workspace, step, check)
            if check.blocking and not result.passed:
                raise CheckFailedError(f"{step}: check {check.name} failed: {result.description}")
        calls = CallCounts(facts["calls_made"], facts["calls_saved"])
        yield StepResult(step, True, calls=calls, metadata=facts)
