from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest

from rag_pipeline.config import load_config
from rag_pipeline.orchestration.component import build_definitions
from rag_pipeline.orchestration.names import identifier

Requested = list[tuple[str, str | None]]


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


def ask(file: Path, instance: dg.DagsterInstance) -> tuple[list[dg.RunRequest], str | None]:
    """Let the sensor for stale partitions look once; return its requests or why there are none."""
    config = load_config(file)
    definitions = build_definitions(config, retries=None)
    repository = definitions.get_repository_def()
    sensor = repository.get_sensor_def(identifier(config, "stale_partitions"))
    context = dg.build_sensor_context(instance=instance, repository_def=repository)
    tick = sensor.evaluate_tick(context)
    return list(tick.run_requests or ()), tick.skip_message


def named(request: dg.RunRequest) -> tuple[str, str | None]:
    assert request.job_name
    return request.job_name.removeprefix("tiny__update_"), request.tags.get("dagster/partition")


def execute(file: Path, instance: dg.DagsterInstance, request: dg.RunRequest) -> bool:
    assert request.job_name
    definitions = build_definitions(load_config(file), retries=None)
    result = definitions.resolve_job_def(request.job_name).execute_in_process(
        instance=instance,
        partition_key=request.partition_key,
        tags=dict(request.tags),
        raise_on_error=False,
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )
    return result.success


@pytest.fixture
def settle(instance: dg.DagsterInstance) -> Callable[[Path], Requested]:
    """Return a function that does what the sensor asks for until it asks for nothing."""

    def until_quiet(file: Path) -> Requested:
        asked: Requested = []
        for _ in range(20):
            requests, _reason = ask(file, instance)
            if not requests:
                return asked
            for request in requests:
                asked.append(named(request))
                execute(file, instance, request)
        raise AssertionError(f"the sensor never comes to rest: {asked}")

    return until_quiet
