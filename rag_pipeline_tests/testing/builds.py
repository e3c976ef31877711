"""Corpora that are built before a test begins, without Dagster's own time."""

from collections.abc import Iterator
from pathlib import Path

from rag_pipeline.config import CorpusConfig, load_config
from rag_pipeline.indexing import TABLES, Report, update, update_documents
from rag_pipeline.pipeline.driver import Done, Failed, drive
from rag_pipeline.pipeline.dry_run import RunPlan
from rag_pipeline.pipeline.planning import Step, steps
from rag_pipeline.workspace import Workspace


def index(workspace: Workspace, key: str) -> Report:
    """Load documents, and bring the tables of a key up to date; return the last one's report."""
    report, variants = update_documents(workspace), key.split(".")
    for number, asset in enumerate(list(TABLES)[: len(variants)], 1):
        report = update(workspace, asset, ".".join(variants[:number]))
    return report


def build(file: Path, until: str = "", configuration: str | None = None) -> None:
    """Make and check each step in order, whatever its state, to the first of the asset `until`."""
    workspace = Workspace(load_config(file))
    every = steps(workspace.config, configuration)
    last = next((n for n, step in enumerate(every, 1) if step.asset == until), len(every))
    for _ in _driven(workspace, every[:last], forced=True):
        pass


def run(config: CorpusConfig, configuration: str | None = None) -> Iterator[Done]:
    """Make what is stale as `dagster_projects.run` does, in half of its time."""
    yield from _driven(Workspace(config), steps(config, configuration))


def _driven(workspace: Workspace, wanted: list[Step], *, forced: bool = False) -> Iterator[Done]:
    for event in drive(workspace, RunPlan(workspace, wanted), forced=wanted if forced else ()):
        if isinstance(event, Failed):
            raise event.error
        if isinstance(event, Done):
            yield event
