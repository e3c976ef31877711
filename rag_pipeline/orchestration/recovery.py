"""Find lost and interrupted runs.

Dagster watches a run's process only if its launcher supports that. After a crash of this machine,
a local run would stay STARTED and keep its slot in the queue forever.
"""

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import dagster as dg

PROCESS_TAG = ".dagster/rag_pipeline.process"
"""The tag with the machine and process id of a run of `rag run`."""

_LOCAL_LAUNCH_TAG = ".dagster/grpc_info"
"""The tag of a run whose launcher starts its process on the code server's machine."""

_CLOCK_SECONDS = 10.0
_LAUNCH_SECONDS = 600.0
"""Seconds after which a run that leaves the queue and gets no process counts as lost."""
_OUTSIDE = "ChildProcessCrashException DagsterExecutionInterruptedError StoreError OSError".split()

MAY_BE_LOST = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
"""Statuses of unfinished runs outside the queue."""

_LAUNCHING = (dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING)

GONE = "Its process or its launcher is gone: it was killed, or the machine restarted."


def process_tag() -> dict[str, str]:
    """Return the tag of a run in this process."""
    return {PROCESS_TAG: f"{socket.gethostname()}:{os.getpid()}"}


def fail_lost_runs(
    instance: dg.DagsterInstance, is_ours: Callable[[dg.DagsterRun], bool]
) -> list[str]:
    """Fail our runs whose process on this machine is gone, or that were never launched.

    Return their ids. Free their slots in pools, which Dagster would keep for minutes.
    """
    lost = []
    for record in instance.get_run_records(dg.RunsFilter(statuses=MAY_BE_LOST)):
        run = record.dagster_run
        current = is_ours(run) and _is_lost(instance, record) and instance.get_run_by_id(run.run_id)
        if current and current.status == run.status:  # it may have changed meanwhile
            instance.report_run_failed(current, GONE)
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
            lost.append(run.run_id)
    return lost


def _is_lost(instance: dg.DagsterInstance, record: dg.RunRecord) -> bool:
    pid = process_of(instance, record.dagster_run)
    if pid is not None:
        return not _lives(pid, record.start_time)
    # The daemon may be killed between the new status and the start of the process.
    waits = record.dagster_run.status in _LAUNCHING
    return waits and time.time() - record.update_timestamp.timestamp() > _LAUNCH_SECONDS


def was_interrupted(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Return whether a run failed for a reason other than its inputs, so a new run may succeed.

    Either its process or a worker died, the project could not be loaded, or its store failed. A
    person's cancel is not an interruption.
    """
    if run.status != dg.DagsterRunStatus.FAILURE:
        return False
    failed = dg.DagsterEventType.STEP_FAILURE
    found = instance.get_records_for_run(run.run_id, of_type=failed).records
    return all(_is_from_outside(record.event_log_entry) for record in found)


def _is_from_outside(entry: dg.EventLogEntry) -> bool:
    event = entry.dagster_event
    error = event.step_failure_data.error if event else None
    if error is not None and error.cls_name == "Failure":
        error = error.cause  # the pipeline's own error
    return error is not None and error.cls_name in _OUTSIDE


def process_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> int | None:
    """Return a run's process id, or None if it is unknown or the process is on another machine."""
    host, _, own = run.tags.get(PROCESS_TAG, "").partition(":")
    if own.isdecimal():
        return int(own) if host == socket.gethostname() else None
    if _LOCAL_LAUNCH_TAG not in run.tags:
        return None
    wanted = dg.DagsterEventType.ENGINE_EVENT
    for record in instance.get_records_for_run(run.run_id, of_type=wanted).records:
        event = record.event_log_entry.dagster_event
        data = event.event_specific_data if event else None
        pid = getattr(data, "metadata", {}).get("pid")
        if pid is not None and str(pid.value).isdecimal():
            return int(pid.value)
    return None


def _lives(pid: int, run_started: float | None) -> bool:
    """Return whether a process lives and is older than the run. A younger one has reused the id."""
    try:
        with suppress(PermissionError):  # another user's process
            os.kill(pid, 0)
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        uptime = float(Path("/proc/uptime").read_text().split()[0])
    except OSError as error:
        return not isinstance(error, ProcessLookupError)  # some systems have no /proc
    started = time.time() - uptime + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return fields[0] != "Z" and (run_started is None or started <= run_started + _CLOCK_SECONDS)
