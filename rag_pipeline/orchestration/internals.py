"""Import all private names and unstable parts of Dagster that the project uses, with the reasons.

The range of Dagster versions in pyproject.toml limits how these parts can change.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

# The error of `context.repository_def` in a run outside a code location.
from dagster._check import CheckError as CheckError

# The event of a planned materialization. Dagster reports it for an asset's own op alone.
from dagster._core import events as events

# The location of the jobs of `rag run`, if no daemon has recorded one.
from dagster._core import remote_origin as remote_origin

# Dagster's staleness, and the tags of a materialization that name the versions of its inputs:
# Dagster writes these only for an asset's own op, and one run materializes many assets in one op.
from dagster._core.definitions import data_version as data_version

# `rag run` executes a run that it created with the location of its job. The timeline leaves out
# runs without a location, and `execute_in_process` creates its runs without one.
from dagster._core.definitions.job_base import InMemoryJob as InMemoryJob
from dagster._core.execution.api import execute_run as execute_run

# The steps of backfills, also while no run of them is active.
from dagster._core.execution.backfill import BulkActionStatus as BulkActionStatus
from dagster._core.execution.backfill import PartitionBackfill as PartitionBackfill

# A step that waits for another run leaves its place in the pool, and takes one again later.
from dagster._core.execution.plan.instance_concurrency_context import (
    InstanceConcurrencyContext as InstanceConcurrencyContext,
)

# The plain context in which Dagster computes staleness. The others belong to its servers.
from dagster._core.loader import LoadingContextForTest as LoadingContextForTest

# The module of a code location, for `remote_origin`.
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin as LoadableTargetOrigin

# The ticks of a schedule, by the cron expressions that Dagster accepts.
from dagster._utils.schedules import cron_string_iterator as cron_string_iterator

# The templates of `translation`, as Dagster's own components read them.
from dagster.components.resolved.core_models import AssetAttributesModel as AssetAttributesModel
from dagster.components.resolved.errors import ResolutionException as ResolutionException
from dagster.components.utils.translation import TranslatorResolvingInfo as TranslatorResolvingInfo

# The category of the warning about checks of freshness. Dagster's freshness policies cannot replace
# them: a policy reads materializations alone, which would start the assets behind a current one.
from dagster_shared.utils.warnings import SupersessionWarning as SupersessionWarning


@contextmanager
def unstable() -> Iterator[None]:
    """Hide Dagster's warnings about beta, preview and superseded features inside the block."""
    with warnings.catch_warnings():
        for category in (dg.BetaWarning, dg.PreviewWarning, SupersessionWarning):
            warnings.simplefilter("ignore", category)
        yield


_OPEN: dict[str, dg.DagsterInstance] = {}


def instance_of(
    context: dg.OpExecutionContext | dg.SensorEvaluationContext,
) -> dg.DagsterInstance:
    """Return the Dagster instance of an op or a sensor.

    A sensor's instance stays open in this process. Dagster would open the instance again in each
    tick, which takes longer than the other work of a tick at rest.
    """
    ref = None if isinstance(context, dg.OpExecutionContext) else context.instance_ref
    if ref is None:
        return context.instance
    return _OPEN.get(repr(ref)) or _OPEN.setdefault(repr(ref), dg.DagsterInstance.from_ref(ref))
