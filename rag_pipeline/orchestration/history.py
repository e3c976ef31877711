"""Delete old runs from Dagster's history.

Deleting a run deletes its events. The run of a partition's latest materialization stays, because
without this event Dagster would show the partition as missing.
"""

import time

import dagster as dg

from rag_pipeline.orchestration.names import asset_key, asset_names
from rag_pipeline.orchestration.requests import FINISHED, run_records
from rag_pipeline.workspace import Workspace

MOST_AT_ONCE = 200
"""Maximum number of runs that one run deletes at its end."""


def purge_runs(workspace: Workspace, instance: dg.DagsterInstance) -> int:
    """Delete old finished runs of a corpus with their step values, and return their number.

    A run is old if it is not among the newest `keep_runs`, or if it is more than `runs_days` old.
    The runs of the latest materializations stay. At most `MOST_AT_ONCE` runs are deleted, oldest
    first.
    """
    retention = workspace.config.retention
    before = time.time() - retention.runs_days * 86_400
    finished = dg.RunsFilter(statuses=FINISHED)
    old = [
        record.dagster_run
        for number, record in enumerate(run_records(instance, workspace.config, finished))
        if number >= retention.keep_runs or record.create_timestamp.timestamp() < before
    ]
    if not old:
        return 0
    needed = _makers(workspace, instance)
    gone = [run for run in reversed(old) if run.run_id not in needed][:MOST_AT_ONCE]
    for run in gone:
        instance.compute_log_manager.delete_logs(prefix=[run.run_id])
        instance.delete_run(run.run_id)
        workspace.store.files.remove_folder(f"steps/{run.run_id}")
    return len(gone)


def _makers(workspace: Workspace, instance: dg.DagsterInstance) -> set[str]:
    """Return the ids of the runs that made the latest materialization of each partition."""
    made, log = dg.DagsterEventType.ASSET_MATERIALIZATION, instance.event_log_storage
    makers: set[str] = set()
    for key in (asset_key(workspace.config, name) for name in asset_names(workspace.config)):
        records = [*instance.fetch_materializations(key, limit=1).records]
        if latest := log.get_latest_storage_id_by_partition(key, made):
            wanted = dg.AssetRecordsFilter(asset_key=key, storage_ids=list(latest.values()))
            records += instance.fetch_materializations(wanted, limit=len(latest)).records
        makers.update(record.run_id for record in records)
    return makers
