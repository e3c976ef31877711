"""Which code location a run of this process belongs to, so that the UI shows it among the others.

The timeline leaves out a run without a location, as one that a process executes by itself has none.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import dagster as dg
from dagster._core.remote_origin import (
    ManagedGrpcPythonEnvCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from rag_pipeline.config import CorpusConfig
from rag_pipeline.orchestration.names import identifier

_LOCATION, _MODULE = "rag_pipeline", "rag_pipeline.definitions"


@contextmanager
def belonging(instance: dg.DagsterInstance, config: CorpusConfig, job: str) -> Iterator[None]:
    """Let runs that are created in the block belong to the code location of the corpus."""
    if instance.is_ephemeral:  # nobody will see it
        yield
        return
    create = instance.create_run_for_job
    origin = RemoteJobOrigin(_repository(instance, config), job)
    instance.create_run_for_job = partial(create, remote_job_origin=origin)  # type: ignore[method-assign]
    try:
        yield
    finally:
        del instance.create_run_for_job


def _repository(instance: dg.DagsterInstance, config: CorpusConfig) -> RemoteRepositoryOrigin:
    """Return the repository whose sensors the daemon runs; before it ever did, this project's."""
    mine = identifier(config, "")
    for state in instance.all_instigator_state():
        if state.instigator_name.startswith(mine):
            return state.origin.repository_origin
    target = LoadableTargetOrigin(executable_path=sys.executable, module_name=_MODULE)
    location = ManagedGrpcPythonEnvCodeLocationOrigin(target, _LOCATION)
    return RemoteRepositoryOrigin(location, "__repository__")
