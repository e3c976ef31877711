"""Choose the executor of a run's steps by `RAG_EXECUTOR`.

    in_process    all steps in the run's process: the fastest on one machine, and the default
    multiprocess  a process per step, at most RAG_MAX_CONCURRENT at the same time
    celery        Celery workers that wait at RAG_CELERY_BROKER (extra `celery`)
    k8s           a Kubernetes job per step (extra `k8s`; the instance uses K8sRunLauncher)
    ecs           an ECS task per step (the instance uses EcsRunLauncher)

Every process of a deployment needs the same variables.
"""

import os
from typing import Any

import dagster as dg

from rag_pipeline.errors import ConfigError, import_extra

EXECUTORS = ("in_process", "multiprocess", "celery", "k8s", "ecs")

_FORKED = {"start_method": {"forkserver": {"preload_modules": [f"{__package__}.one_run"]}}}
"""Settings that fork each step's process from a process with the pipeline already imported."""

_VISIBILITY_SECONDS = 3600
_RECONNECTS = 30
"""Number of tries to reach a lost broker. At 2 seconds between tries, they take a minute."""


def chosen_executor() -> dg.ExecutorDefinition:
    """Return the executor that the environment names.

    Raise ConfigError for an unknown name or a wrong number. Raise MissingExtraError if the
    executor's package is not installed.
    """
    name = os.environ.get("RAG_EXECUTOR") or "in_process"
    if name == "in_process":
        return dg.in_process_executor
    if name == "multiprocess":
        return dg.multiprocess_executor.configured({**_concurrency(), **_FORKED})
    if name == "celery":
        celery = import_extra("dagster_celery", "dagster-celery", "celery")
        executor: dg.ExecutorDefinition = celery.celery_executor
        return executor.configured(celery_settings())
    if name == "k8s":
        executor = import_extra("dagster_k8s", "dagster-k8s", "k8s").k8s_job_executor
        return executor.configured(_concurrency())
    if name == "ecs":
        from dagster_aws.ecs import ecs_executor

        return ecs_executor.configured(_concurrency())
    raise ConfigError(f"RAG_EXECUTOR: {name!r} is not one of: {', '.join(EXECUTORS)}")


def celery_settings() -> dict[str, Any]:
    """Return Celery's settings for the executor and its workers.

    A task is acknowledged when it ends. If a worker is killed, its parent process returns the task
    to the queue. Without a parent process, the broker returns it after
    RAG_CELERY_VISIBILITY_SECONDS. A longer step runs twice at the same time, which repeats calls
    but duplicates no rows.
    """
    broker = os.environ.get("RAG_CELERY_BROKER")
    if not broker:
        raise ConfigError(
            "RAG_CELERY_BROKER is not set; the executor celery needs an address, such as "
            "redis://localhost:6379/0"
        )
    visibility = _number("RAG_CELERY_VISIBILITY_SECONDS", _VISIBILITY_SECONDS)
    waits = {"interval_start": 0, "interval_step": 0.2, "interval_max": 2}
    return {
        "broker": broker,
        "backend": os.environ.get("RAG_CELERY_BACKEND") or broker,
        "config_source": {
            "task_acks_late": True,
            "task_reject_on_worker_lost": True,
            "task_publish_retry_policy": {"max_retries": _RECONNECTS, **waits},
            "worker_prefetch_multiplier": 1,
            "broker_connection_retry_on_startup": True,
            "broker_transport_options": {"visibility_timeout": visibility, **waits},
            "result_backend_always_retry": True,
            "result_backend_max_retries": _RECONNECTS,
            "result_backend_max_sleep_between_retries_ms": 2000,
            "result_expires": 24 * 3600,
        },
    }


def _concurrency() -> dict[str, Any]:
    most = _number("RAG_MAX_CONCURRENT", 0)
    return {"max_concurrent": most} if most else {}


def _number(name: str, default: int) -> int:
    value = os.environ.get(name) or str(default)
    if not value.isdecimal():
        raise ConfigError(f"{name}: {value!r} is not a whole number")
    return int(value)
