"""The maximum age of the documents and the release, by the corpus file's schedule."""

from datetime import timedelta
from itertools import islice, pairwise

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.orchestration.internals import cron_string_iterator
from rag_pipeline.orchestration.names import asset_key
from rag_pipeline.orchestration.staleness import unchanged
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.pipeline.registry import ASSETS
from rag_pipeline.workspace import Workspace

_TICKS = 60
_WARN, _FAIL = 1.25, 2.0
"""Intervals of the schedule after which an asset is old, and too old."""


def freshness_of(config: CorpusConfig, name: str) -> dg.FreshnessPolicy | None:
    """Return the maximum age of a watched asset, None without a schedule."""
    if config.schedule is None or not ASSETS[name].watched:
        return None
    ticks = islice(cron_string_iterator(0.0, config.schedule, "UTC"), _TICKS)
    longest: timedelta = max(after - before for before, after in pairwise(ticks))
    return dg.FreshnessPolicy.time_window(longest * _FAIL, longest * _WARN)


def report_current_release(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    """Report the release as current after a load that changed nothing.

    Without it, the release would look old where each asset has its own runs. Call it while nothing
    is stale.
    """
    config = workspace.config
    if config.schedule is None:
        return
    loaded, released = (
        instance.get_latest_materialization_event(asset_key(config, name))
        for name in ("documents", "release")
    )
    if loaded is not None and (released is None or released.timestamp < loaded.timestamp):
        instance.report_runless_asset_event(unchanged(workspace, instance, Step("release")))
