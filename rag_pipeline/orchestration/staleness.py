"""Make Dagster's own staleness say what `rag plan` says.

Dagster calls a partition stale when the data version of something that it reads differs from the
one it was materialized with. So the inputs (`inputs`) are observed, and every materialization
names the versions that it read. What a run found current though something before it was made
anew, as a release whose choice stays, or what was built without this Dagster instance, is reported
as materialized without a run: unchanged.
"""

from collections.abc import Container, Mapping
from typing import Any

import dagster as dg

from rag_pipeline.orchestration.inputs import input_key
from rag_pipeline.orchestration.internals import (
    CODE_VERSION_TAG,
    DATA_VERSION_IS_USER_PROVIDED_TAG,
    DATA_VERSION_TAG,
    NULL_EVENT_POINTER,
    CachingStaleStatusResolver,
    LoadingContext,
    StaleStatus,
    extract_data_provenance_from_entry,
    extract_data_version_from_entry,
    get_input_data_version_tag,
    get_input_event_pointer_tag,
)
from rag_pipeline.orchestration.internals import DEFAULT_DATA_VERSION as UNOBSERVED
from rag_pipeline.orchestration.names import asset_key
from rag_pipeline.orchestration.partitions import upstream_assets
from rag_pipeline.pipeline.forecast import made_from, stale_steps
from rag_pipeline.pipeline.planning import Step, steps
from rag_pipeline.workspace import Workspace

Graph = Any
"""Dagster's asset graph of a corpus."""

_COUNTS = ("seconds", "cost_usd", "calls_made", "calls_saved")
"""What an event that does nothing must not count again."""


def version_tags(
    workspace: Workspace, instance: dg.DagsterInstance, step: Step, version: str, run_id: str
) -> dict[str, str]:
    """Return the tags of a materialization that say of which versions of its inputs it is.

    Dagster writes them itself for an asset's own op, not for an event that another op yields.
    """
    config = workspace.config
    tags = {
        DATA_VERSION_TAG: version,
        CODE_VERSION_TAG: run_id,
        DATA_VERSION_IS_USER_PROVIDED_TAG: "true",
    }
    keys = [asset_key(config, before) for before in upstream_assets(config, step.asset)]
    keys.append(input_key(config, step.asset))
    latest = {r.asset_entry.asset_key: r.asset_entry for r in instance.get_asset_records(keys)}
    for key in keys:
        record = latest[key].last_materialization_record if key in latest else None
        if record is None:
            record = next(iter(instance.fetch_observations(key, limit=1).records), None)
        found = extract_data_version_from_entry(record.event_log_entry) if record else None
        tags[get_input_data_version_tag(key)] = (found or UNOBSERVED).value
        tags[get_input_event_pointer_tag(key)] = (
            str(record.storage_id) if record else NULL_EVENT_POINTER
        )
    return tags


def observe_for_the_first_time(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    """Observe inputs that never were: what is made from them must be able to name a version."""
    seen: dict[dg.AssetKey, Container[str | None]] = {}
    for step in steps(workspace.config):
        key = input_key(workspace.config, step.asset)
        if key not in seen:
            seen[key] = _observed(instance, key)
        if step.partition not in seen[key]:
            _observe(instance, key, step.partition, made_from(workspace, step, {}))


def reconcile(workspace: Workspace, instance: dg.DagsterInstance, graph: Graph) -> list[Step]:
    """Observe what has changed and report what was found current; return the stale steps.

    Afterwards Dagster's staleness is that of `rag plan`. To be called while no run of the corpus is
    at work.
    """
    config = workspace.config
    stale = stale_steps(workspace)
    observe_for_the_first_time(workspace, instance)
    look, observed = Statuses(instance, graph), False
    for step in steps(config):
        key, source = asset_key(config, step.asset), input_key(config, step.asset)
        status = look(key, step.partition)
        if step in stale and status is StaleStatus.FRESH:
            # Something else than inputs made it stale, as a table that is gone.
            again = _latest(instance, source, step.partition) == stale[step]
            mark = f".{instance.event_log_storage.get_maximum_record_id()}" if again else ""
            _observe(instance, source, step.partition, stale[step] + mark)
            observed = True
        elif step not in stale and status is StaleStatus.STALE:
            seen = _version_read(instance, key, source, step.partition)
            if seen is not None and seen != _latest(instance, source, step.partition):
                _observe(instance, source, step.partition, seen)
                observed = True
    if observed:
        look.forget()
    for step in steps(config):
        if step in stale:
            continue
        if look(asset_key(config, step.asset), step.partition) is not StaleStatus.FRESH:
            instance.report_runless_asset_event(unchanged(workspace, instance, step))
            look.forget()
    return list(stale)


def _observed(instance: dg.DagsterInstance, key: dg.AssetKey) -> Container[str | None]:
    """Return the partitions of an input that were observed; `None` is that of one without."""
    found = instance.fetch_observations(key, limit=1).records
    if not found or found[0].partition_key is None:
        return {None} if found else ()
    kind = dg.DagsterEventType.ASSET_OBSERVATION
    return instance.event_log_storage.get_latest_storage_id_by_partition(key, kind)


def _observe(
    instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None, version: str
) -> None:
    tags = {DATA_VERSION_TAG: version}
    instance.report_runless_asset_event(dg.AssetObservation(key, partition=partition, tags=tags))


def _latest(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None) -> str | None:
    record = instance.get_latest_data_version_record(key, True, partition)
    found = extract_data_version_from_entry(record.event_log_entry) if record else None
    return found.value if found else None


def _version_read(
    instance: dg.DagsterInstance, key: dg.AssetKey, source: dg.AssetKey, partition: str | None
) -> str | None:
    """Return the version of its input that the last materialization of a partition was made of."""
    made = instance.get_latest_data_version_record(key, False, partition)
    provenance = extract_data_provenance_from_entry(made.event_log_entry) if made else None
    pointer = provenance.input_storage_ids.get(source) if provenance else None
    if pointer is None:
        return None
    record = instance.get_latest_data_version_record(
        source, True, partition, before_cursor=pointer + 1
    )
    found = extract_data_version_from_entry(record.event_log_entry) if record else None
    return found.value if found else None


def unchanged(
    workspace: Workspace, instance: dg.DagsterInstance, step: Step
) -> dg.AssetMaterialization:
    """Return the event of a step that was found current, as its last one but for what it did."""
    key = asset_key(workspace.config, step.asset)
    record = instance.get_latest_data_version_record(key, False, step.partition)
    before = record.event_log_entry.asset_materialization if record else None
    found = extract_data_version_from_entry(record.event_log_entry) if record else None
    version = found.value if found else made_from(workspace, step, {})
    metadata: Mapping[str, Any] = before.metadata if before else {}
    return dg.AssetMaterialization(
        key,
        partition=step.partition,
        description="Found current: nothing had to be made.",
        metadata={k: 0 if k in _COUNTS else v for k, v in metadata.items()} | {"unchanged": True},
        tags=version_tags(workspace, instance, step, version, "unchanged"),
    )


class Statuses:
    """Dagster's staleness of partitions, looked up anew after events were reported."""

    def __init__(self, instance: dg.DagsterInstance, graph: Graph) -> None:
        self._instance = instance
        self._graph = graph
        self.forget()

    def forget(self) -> None:
        """Look up everything anew from now on."""
        context = _Loading(self._instance)
        self._resolver = CachingStaleStatusResolver(self._instance, self._graph, context)

    def __call__(self, key: dg.AssetKey, partition: str | None) -> StaleStatus:
        """Return what Dagster says of a partition."""
        return self._resolver.get_status(key, partition)


class _Loading(LoadingContext):
    """Where Dagster keeps what it has looked up."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self._instance = instance
        self._loaders: dict[type, Any] = {}

    @property
    def instance(self) -> dg.DagsterInstance:
        return self._instance

    @property
    def loaders(self) -> dict[type, Any]:
        return self._loaders
