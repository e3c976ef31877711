"""Import all private names and unstable parts of Dagster that the project uses, with the reasons.

The range of Dagster versions in pyproject.toml limits how these parts can change.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

# The location of the jobs of `rag run`, if no daemon has recorded one.
from dagster._core import remote_origin as remote_origin

# Dagster's staleness, and the tags of a materialization that name the versions of its inputs:
# Dagster writes these only for an asset's own op, and one run materializes many assets in one op.
from dagster._core.definitions import data_version as data_version

# `rag run` executes a run that it created with the location of its job. The timeline leaves out
# runs without a location, and `execute_in_process` creates its runs without one.
from dagster._core.definitions.job_base import InMemoryJob as InMemoryJob
from dagster._core.execution.api import execute_run as execute_run

# A step that waits for another run leaves its place in the pool, and takes one again later.
from dagster._core.execution.plan.instance_concurrency_context import (
    InstanceConcurrencyContext as InstanceConcurrencyContext,
)

# The base class of the context in which Dagster computes staleness.
from dagster._core.loader import LoadingContext as LoadingContext

# The module of a code location, for `remote_origin`.
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin as LoadableTargetOrigin

# The ticks of a schedule, by the cron expressions that Dagster accepts.
from dagster._utils.schedules import cron_string_iterator as cron_string_iterator


@contextmanager
def unstable() -> Iterator[None]:
    """Hide Dagster's warnings about beta and preview features inside the `with` block."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        warnings.simplefilter("ignore", dg.PreviewWarning)
        yield
