"""All private names of Dagster that the project uses, each with the reason.

The range of Dagster versions in pyproject.toml bounds how they can change.
"""

# Dagster's staleness of a partition, which nothing public returns.
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus

# The tags of a materialization that name the versions of its inputs. Dagster writes them only for
# an asset's own op; the one run of a corpus materializes many assets in one op.
from dagster._core.definitions.data_version import (  # isort: skip
    CODE_VERSION_TAG,
    DATA_VERSION_IS_USER_PROVIDED_TAG,
    DATA_VERSION_TAG,
    DEFAULT_DATA_VERSION,
    NULL_EVENT_POINTER,
    extract_data_provenance_from_entry,
    extract_data_version_from_entry,
    get_input_data_version_tag,
    get_input_event_pointer_tag,
)

# `rag run` executes a run that it created with the location of its job. The timeline leaves out
# runs without a location, and `execute_in_process` creates its runs without one.
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run

# A step that waits for another run leaves its place in the pool, and takes one again later.
from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext

# The base class of the context that `CachingStaleStatusResolver` needs.
from dagster._core.loader import LoadingContext

# The location of the jobs of `rag run`, where no daemon has recorded one.
from dagster._core.remote_origin import (
    ManagedGrpcPythonEnvCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

# The ticks of a schedule, by the cron expressions that Dagster accepts.
from dagster._utils.schedules import cron_string_iterator

__all__ = [
    "CODE_VERSION_TAG",
    "DATA_VERSION_IS_USER_PROVIDED_TAG",
    "DATA_VERSION_TAG",
    "DEFAULT_DATA_VERSION",
    "NULL_EVENT_POINTER",
    "CachingStaleStatusResolver",
    "InMemoryJob",
    "InstanceConcurrencyContext",
    "LoadableTargetOrigin",
    "LoadingContext",
    "ManagedGrpcPythonEnvCodeLocationOrigin",
    "RemoteJobOrigin",
    "RemoteRepositoryOrigin",
    "StaleStatus",
    "cron_string_iterator",
    "execute_run",
    "extract_data_provenance_from_entry",
    "extract_data_version_from_entry",
    "get_input_data_version_tag",
    "get_input_event_pointer_tag",
]
