"""The largest age of the documents and the release, by the corpus file's schedule."""

from datetime import timedelta
from itertools import islice, pairwise

import dagster as dg
from dagster._utils.schedules import cron_string_iterator

from rag_pipeline.config import CorpusConfig

LOOKED_AT = ("documents", "release")
"""Assets that a scheduled run reports even where nothing had to be made: somebody has looked."""

_TICKS = 60
_WARN, _FAIL = 1.25, 2.0
"""Intervals of the schedule after which an asset is old, and too old."""


def freshness_of(config: CorpusConfig, name: str) -> dg.FreshnessPolicy | None:
    """Return how old an asset may be; None where nothing is scheduled, or of other assets."""
    if config.schedule is None or name not in LOOKED_AT:
        return None
    ticks = islice(cron_string_iterator(0.0, config.schedule, "UTC"), _TICKS)
    longest: timedelta = max(after - before for before, after in pairwise(ticks))
    return dg.FreshnessPolicy.time_window(longest * _FAIL, longest * _WARN)
