"""Make Dagster's staleness agree with `rag plan`.

Dagster calls a partition stale if the data version of an input differs from the version that the
partition was materialized with. So each asset has one observed input with the same partitions:
`files` for documents and queries, `settings` for other assets. The data version of this input is a
hash of files, settings, code versions and inputs. Every materialization names the read versions.

Dagster may call a current step stale if the step was built without this instance, or if an input
was made again with the same result. Such a step is reported as materialized, without a run.
"""

from collections.abc import Callable, Container, Mapping
from functools import cached_property
from typing import Any

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.orchestration.internals import LoadingContext, data_version, unstable
from rag_pipeline.orchestration.names import (
    asset_key,
    asset_names,
    group_name,
    partitions_of,
    upstream_assets,
)
from rag_pipeline.pipeline.planning import Step, made_from, stale_steps, steps
from rag_pipeline.pipeline.registry import ASSETS
from rag_pipeline.workspace import Workspace

Graph = Any
"""Dagster's asset graph of a corpus."""

_COUNTS = ("seconds", "cost_usd", "calls_made", "calls_saved")
"""Metadata that counts work. It is 0 in the event of a step that was current."""

_FILES = "The {name} as files, by a hash of their names, sizes and times."
_SETTINGS = "A hash of the settings, code versions and inputs of the {name}."


def input_key(config: CorpusConfig, name: str) -> dg.AssetKey:
    """Return the key of an asset's input."""
    return dg.AssetKey([config.corpus, "files" if ASSETS[name].of_files else "settings", name])


def build_inputs(
    config: CorpusConfig, observe: Callable[[dg.DagsterInstance], object]
) -> list[dg.SourceAsset]:
    """Return the inputs of a corpus. "Observe" in the UI calls `observe`, which reports events."""

    def look(context: dg.OpExecutionContext) -> dg.ObserveResult:
        observe(context.instance)
        return dg.ObserveResult()

    def look_at_partitions(context: dg.OpExecutionContext) -> dg.DataVersionsByPartition:
        observe(context.instance)
        return dg.DataVersionsByPartition({})

    built = []
    for name in asset_names(config):
        partitions = partitions_of(config, name)
        about = _FILES if ASSETS[name].of_files else _SETTINGS
        with unstable():
            source = dg.observable_source_asset(
                key=input_key(config, name),
                group_name=f"{group_name(config)}_inputs",
                description=about.format(name=name.replace("_", " ")),
                partitions_def=partitions,
                tags={"corpus": config.corpus},
            )(look_at_partitions if partitions else look)
        built.append(source)
    return built


def version_tags(
    workspace: Workspace, instance: dg.DagsterInstance, step: Step, version: str, run_id: str
) -> dict[str, str]:
    """Return the tags of a materialization that name the versions of its inputs.

    Dagster writes these tags for an asset's own op, but not for an event that another op yields.
    """
    config = workspace.config
    tags = {
        data_version.DATA_VERSION_TAG: version,
        data_version.CODE_VERSION_TAG: run_id,
        data_version.DATA_VERSION_IS_USER_PROVIDED_TAG: "true",
    }
    keys = [asset_key(config, before) for before in upstream_assets(config, step.asset)]
    keys.append(input_key(config, step.asset))
    latest = {r.asset_entry.asset_key: r.asset_entry for r in instance.get_asset_records(keys)}
    for key in keys:
        record = latest[key].last_materialization_record if key in latest else None
        if record is None:
            record = next(iter(instance.fetch_observations(key, limit=1).records), None)
        read = _version(record) or data_version.DEFAULT_DATA_VERSION.value
        pointer = str(record.storage_id) if record else data_version.NULL_EVENT_POINTER
        tags[data_version.get_input_data_version_tag(key)] = read
        tags[data_version.get_input_event_pointer_tag(key)] = pointer
    return tags


def observe_for_the_first_time(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    """Observe inputs that were never observed, so that materializations can name their version."""
    seen: dict[dg.AssetKey, Container[str | None]] = {}
    for step in steps(workspace.config):
        key = input_key(workspace.config, step.asset)
        if key not in seen:
            seen[key] = _observed(instance, key)
        if step.partition not in seen[key]:
            _observe(instance, key, step.partition, made_from(workspace, step, {}))


def reconcile(workspace: Workspace, instance: dg.DagsterInstance, graph: Graph) -> list[Step]:
    """Observe changed inputs, report current steps, and return the stale steps.

    Afterwards Dagster's staleness agrees with `rag plan`. Call it only while no run is active.
    """
    config = workspace.config
    stale = stale_steps(workspace)
    observe_for_the_first_time(workspace, instance)
    statuses, observed = Statuses(instance, graph), False
    for step in steps(config):
        key, source = asset_key(config, step.asset), input_key(config, step.asset)
        if step in stale and statuses.is_fresh(key, step.partition):
            # The reason is not a changed input but, for example, a missing table.
            again = _latest(instance, source, step.partition) == stale[step]
            mark = f".{instance.event_log_storage.get_maximum_record_id()}" if again else ""
            _observe(instance, source, step.partition, stale[step] + mark)
            observed = True
        elif step not in stale and statuses.is_stale(key, step.partition):
            seen = _version_read(instance, key, source, step.partition)
            if seen is not None and seen != _latest(instance, source, step.partition):
                _observe(instance, source, step.partition, seen)
                observed = True
    if observed:
        statuses.forget()
    for step in steps(config):
        key = asset_key(config, step.asset)
        if step not in stale and not statuses.is_fresh(key, step.partition):
            instance.report_runless_asset_event(unchanged(workspace, instance, step))
            statuses.forget()
    return list(stale)


def _observed(instance: dg.DagsterInstance, key: dg.AssetKey) -> Container[str | None]:
    """Return the observed partitions of an input, or {None} if an input has no partitions."""
    found = instance.fetch_observations(key, limit=1).records
    if not found or found[0].partition_key is None:
        return {None} if found else ()
    kind = dg.DagsterEventType.ASSET_OBSERVATION
    return instance.event_log_storage.get_latest_storage_id_by_partition(key, kind)


def _observe(
    instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None, version: str
) -> None:
    tags = {data_version.DATA_VERSION_TAG: version}
    instance.report_runless_asset_event(dg.AssetObservation(key, partition=partition, tags=tags))


def _latest(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None) -> str | None:
    return _version(instance.get_latest_data_version_record(key, True, partition))


def _version(record: dg.EventLogRecord | None) -> str | None:
    entry = record.event_log_entry if record else None
    found = data_version.extract_data_version_from_entry(entry) if entry else None
    return found.value if found else None


def _version_read(
    instance: dg.DagsterInstance, key: dg.AssetKey, source: dg.AssetKey, partition: str | None
) -> str | None:
    """Return the version of an input that the last materialization of a partition read."""
    made = instance.get_latest_data_version_record(key, False, partition)
    entry = made.event_log_entry if made else None
    provenance = data_version.extract_data_provenance_from_entry(entry) if entry else None
    pointer = provenance.input_storage_ids.get(source) if provenance else None
    if pointer is None:
        return None
    end = pointer + 1
    return _version(instance.get_latest_data_version_record(source, True, partition, end))


def unchanged(
    workspace: Workspace, instance: dg.DagsterInstance, step: Step
) -> dg.AssetMaterialization:
    """Return the last event of a current step again, with counts of 0."""
    key = asset_key(workspace.config, step.asset)
    record = instance.get_latest_data_version_record(key, False, step.partition)
    before = record.event_log_entry.asset_materialization if record else None
    version = _version(record) or made_from(workspace, step, {})
    metadata: Mapping[str, Any] = before.metadata if before else {}
    return dg.AssetMaterialization(
        key,
        partition=step.partition,
        description="Found current: nothing had to be made.",
        metadata={k: 0 if k in _COUNTS else v for k, v in metadata.items()} | {"unchanged": True},
        tags=version_tags(workspace, instance, step, version, "unchanged"),
    )


class Statuses:
    """Dagster's staleness of partitions, stored until `forget` is called."""

    def __init__(self, instance: dg.DagsterInstance, graph: Graph) -> None:
        self._instance = instance
        self._graph = graph
        self.forget()

    def forget(self) -> None:
        """Forget stored statuses, because reported events may have changed them."""
        loading = _Loading(self._instance)
        self._resolver = data_version.CachingStaleStatusResolver(
            self._instance, self._graph, loading
        )

    def is_fresh(self, key: dg.AssetKey, partition: str | None) -> bool:
        """Return whether Dagster calls a partition fresh."""
        return self._resolver.get_status(key, partition) is data_version.StaleStatus.FRESH

    def is_stale(self, key: dg.AssetKey, partition: str | None) -> bool:
        """Return whether Dagster calls a partition stale."""
        return self._resolver.get_status(key, partition) is data_version.StaleStatus.STALE


class _Loading(LoadingContext):
    """The context in which Dagster looks up staleness."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self._instance = instance

    @property
    def instance(self) -> dg.DagsterInstance:
        return self._instance

    @cached_property
    def loaders(self) -> dict[type, Any]:
        return {}
