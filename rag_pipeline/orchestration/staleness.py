"""Make Dagster's staleness agree with `rag plan`.

Dagster calls a partition stale if the data version of an input differs from the version that the
partition was materialized with. So a corpus has one observed asset, `inputs`, with a partition for
each step. Its data version is a hash of the files, settings, code versions and inputs of the step.
Every materialization names the versions that it read.

Dagster may call a current step stale if another instance built it, or if an input was made again
with the same result. Such a step is reported as materialized, without a run. A release is reported
only when it changes, because other assets may wait for it.
"""

import math
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.orchestration.events import metadata_of
from rag_pipeline.orchestration.internals import LoadingContext, data_version, unstable
from rag_pipeline.orchestration.names import (
    asset_key,
    group_name,
    identifier,
    translated,
)
from rag_pipeline.pipeline.driver import kept_outcome
from rag_pipeline.pipeline.metadata import Materialized
from rag_pipeline.pipeline.planning import Step, made_from, steps, upstream
from rag_pipeline.pipeline.registry import ASSETS
from rag_pipeline.store.states import looking
from rag_pipeline.workspace import Workspace

Graph = Any
"""Dagster's asset graph of a corpus."""

Newest = dict[dg.AssetKey, dg.EventLogRecord | None]
"""The newest events of assets."""

Agreed = dict[Step, tuple[object, ...]]
"""The states of steps on which Dagster's staleness agreed with `rag plan`."""

_COUNTS = ("seconds", "cost_usd", "calls_made", "calls_saved")
"""Metadata that counts work. It is 0 in the event of a step that was current."""

_OBSERVED = dg.DagsterEventType.ASSET_OBSERVATION
_MADE = dg.DagsterEventType.ASSET_MATERIALIZATION
_AT_ONCE = 25
"""Maximum number of partitions that are reported between two looks at the clock."""

_ABOUT = "The files, settings, code versions and inputs of each step, such as `chunks.VARIANT`."


def input_key(config: CorpusConfig) -> dg.AssetKey:
    """Return the key of a corpus's inputs."""
    return asset_key(config, "inputs")


def input_mapping(config: CorpusConfig, name: str) -> dg.PartitionMapping:
    """Return the mapping from the partitions of the inputs to those of an asset."""
    if ASSETS[name].partitioned_by is None:
        return dg.SpecificPartitionsPartitionMapping([name])
    own = (step for step in steps(config) if step.asset == name)
    return dg.StaticPartitionMapping({step.store_name: str(step.partition) for step in own})


def build_inputs(
    config: CorpusConfig, observe: Callable[[dg.OpExecutionContext], object]
) -> dg.AssetsDefinition:
    """Return the inputs of a corpus. "Observe" in the UI calls `observe`, which reports events."""
    spec = dg.AssetSpec(
        dg.AssetKey([*config.key_prefix, config.corpus, "inputs"]),
        group_name=group_name(config),
        description=_ABOUT,
        owners=list(config.owners),
        tags={"corpus": config.corpus, **config.tags},
        partitions_def=dg.StaticPartitionsDefinition([s.store_name for s in steps(config)]),
        skippable=True,
    )

    def look(context: dg.OpExecutionContext) -> Iterator[dg.ObserveResult]:
        observe(context)
        yield from ()  # a returned value would be an event without a partition

    with unstable():
        built: dg.AssetsDefinition = dg.multi_observable_source_asset(
            name=identifier(config, "inputs"), specs=[translated(config, spec)]
        )(look)
    return built


def version_tags(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    step: Step,
    version: str,
    graph: Graph,
    read: Newest,
) -> dict[str, str]:
    """Return the tags of a materialization that name the versions of its inputs in the graph.

    Dagster writes these tags for an asset's own op, but not for an event that another op yields.
    `read` keeps the events of the inputs for further partitions of the asset.
    """
    node = graph.get(asset_key(workspace.config, step.asset))
    tags = {
        data_version.DATA_VERSION_TAG: version,
        data_version.CODE_VERSION_TAG: node.code_version or "",
        data_version.DATA_VERSION_IS_USER_PROVIDED_TAG: "true",
    }
    if not read:
        read |= _newest(instance, sorted(node.parent_keys))
    for key, record in read.items():
        seen = _version(record) or data_version.DEFAULT_DATA_VERSION.value
        pointer = str(record.storage_id) if record else data_version.NULL_EVENT_POINTER
        tags[data_version.get_input_data_version_tag(key)] = seen
        tags[data_version.get_input_event_pointer_tag(key)] = pointer
    return tags


def _newest(instance: dg.DagsterInstance, keys: Sequence[dg.AssetKey]) -> Newest:
    """Return the newest materialization of each asset, or else its newest observation."""
    entries = {r.asset_entry.asset_key: r.asset_entry for r in instance.get_asset_records(keys)}
    made = {k: entries[k].last_materialization_record if k in entries else None for k in keys}
    return {
        key: record or next(iter(instance.fetch_observations(key, limit=1).records), None)
        for key, record in made.items()
    }


def observe_for_the_first_time(
    workspace: Workspace, instance: dg.DagsterInstance, wanted: Sequence[Step]
) -> None:
    """Observe inputs that were never observed, so that materializations can name their version."""
    key = input_key(workspace.config)
    # A database limits the names of a query.
    names = {step.store_name for step in wanted} if len(wanted) <= _AT_ONCE else None
    seen = instance.event_log_storage.get_latest_storage_id_by_partition(key, _OBSERVED, names)
    for step in wanted:
        if step.store_name not in seen:
            _observe(workspace, instance, step, made_from(workspace, step, {}))


@looking()
def reconcile(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    graph: Graph,
    stale: Mapping[Step, str],
    agreed: Agreed,
    start: int = 0,
    seconds: float = math.inf,
    made: Container[Step] = (),
) -> int:
    """Observe changed inputs and report current steps, from step number `start` on.

    `stale` has the stale steps with the hashes of their inputs. Return the number of the first step
    that is left after `seconds`, or 0 if none is left. Afterwards Dagster's staleness agrees with
    `rag plan`. Call it only while no run is active. `agreed` keeps the state of every step on which
    Dagster agreed. Such a step is looked up only after an event of the step or of its inputs.
    Dagster agrees on the current steps in `made`, because the run that calls this made them.
    """
    ends, every = time.monotonic() + seconds, steps(workspace.config)
    statuses = Statuses(instance, graph)
    while start < len(every):
        some = [s for s in every[start : start + _AT_ONCE] if s.asset == every[start].asset]
        start += len(some)
        if not (own := [step for step in some if step in stale or step not in made]):
            continue
        observe_for_the_first_time(workspace, instance, own)
        states = _states(workspace, instance, graph, own, stale)
        doubtful = [step for step in own if agreed.get(step) != states[step]]
        if doubtful:
            written = _reconcile(workspace, instance, graph, doubtful, stale, states, statuses)
            agreed.update((step, states[step]) for step in doubtful if step not in written)
            if written:  # Dagster's answers may differ now
                statuses = Statuses(instance, graph)
        if time.monotonic() > ends and start < len(every):
            return start
    return 0


def _states(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    graph: Graph,
    own: Sequence[Step],
    stale: Mapping[Step, str],
) -> Agreed:
    """Return the hash of each stale step, and the newest events of each step and its inputs."""
    config = workspace.config
    key, source = asset_key(config, own[0].asset), input_key(config)
    read = {step: upstream(config, step) for step in own}
    wanted: dict[dg.AssetKey, set[str]] = {source: {step.store_name for step in own}}
    for step in (*own, *chain.from_iterable(read.values())):
        if step.partition is not None:
            wanted.setdefault(asset_key(config, step.asset), set()).add(step.partition)
    newest: dict[tuple[dg.AssetKey, str | None], int] = {}
    for each, partitions in wanted.items():
        kind = _OBSERVED if each == source else _MADE
        storage = instance.event_log_storage
        found = storage.get_latest_storage_id_by_partition(each, kind, partitions)
        newest |= {(each, partition): number for partition, number in found.items()}
    whole = [each for each in (key, *sorted(graph.get(key).parent_keys)) if each not in wanted]
    shared = [record and record.storage_id for record in _newest(instance, whole).values()]
    return {
        step: (
            stale.get(step),
            newest.get((key, step.partition)),
            newest.get((source, step.store_name)),
            *(newest.get((asset_key(config, b.asset), b.partition)) for b in read[step]),
            *shared,
        )
        for step in own
    }


def _reconcile(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    graph: Graph,
    own: Sequence[Step],
    stale: Mapping[Step, str],
    states: Agreed,
    statuses: "Statuses",
) -> set[Step]:
    """Observe and report partitions of one asset, and return the steps that got an event.

    The assets before it must be done.
    """
    source = input_key(workspace.config)
    observed, read = set[Step](), Newest()
    for step in own:
        key = asset_key(workspace.config, step.asset)
        made = step.partition is None or states[step][1] is not None
        fresh = made and statuses.is_fresh(key, step.partition)
        if step in stale and fresh and source in graph.get(key).parent_keys:
            # The reason is not a changed input but, for example, a missing table.
            last = instance.get_latest_data_version_record(source, True, step.store_name)
            again = _version(last) == stale[step]
            mark = f".{instance.event_log_storage.get_maximum_record_id()}" if again else ""
            _observe(workspace, instance, step, stale[step] + mark, last)
            observed.add(step)
            read.clear()
        elif step not in stale and made and not fresh:
            last = instance.get_latest_data_version_record(source, True, step.store_name)
            seen = _version_read(instance, key, source, step)
            if seen is not None and seen != _version(last):
                _observe(workspace, instance, step, seen, last)
                observed.add(step)
                read.clear()
                fresh = Statuses(instance, graph).is_fresh(key, step.partition)
        if not (fresh or step in stale) or _has_moved(workspace, instance, step):
            instance.report_runless_asset_event(unchanged(workspace, instance, step, graph, read))
            observed.add(step)
    return observed


def _observe(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    step: Step,
    version: str,
    last: dg.EventLogRecord | None = None,
) -> None:
    """Observe the inputs of a step, and tell if the code of its methods changed since `last`.

    An asset has one code version in Dagster, but each of its partitions may have its own methods.
    """
    config = workspace.config
    methods = step.row.code_version(config, step.key(config))
    seen = last.event_log_entry.asset_observation if last else None
    before = seen and seen.metadata.get("methods")
    changed = before and before.value != methods
    event = dg.AssetObservation(
        input_key(config),
        partition=step.store_name,
        description=f"Code version changed: {before.value} -> {methods}"
        if before and changed
        else None,
        metadata={"methods": methods} if methods else None,
        tags={data_version.DATA_VERSION_TAG: version},
    )
    instance.report_runless_asset_event(event)


def _version(record: dg.EventLogRecord | None) -> str | None:
    entry = record.event_log_entry if record else None
    found = data_version.extract_data_version_from_entry(entry) if entry else None
    return found.value if found else None


def _version_read(
    instance: dg.DagsterInstance, key: dg.AssetKey, source: dg.AssetKey, step: Step
) -> str | None:
    """Return the version of its input that the last materialization of a step read."""
    made = instance.get_latest_data_version_record(key, False, step.partition)
    entry = made.event_log_entry if made else None
    provenance = data_version.extract_data_provenance_from_entry(entry) if entry else None
    pointer = provenance.input_storage_ids.get(source) if provenance else None
    if pointer is None:
        return None
    end = pointer + 1
    return _version(instance.get_latest_data_version_record(source, True, step.store_name, end))


def _has_moved(workspace: Workspace, instance: dg.DagsterInstance, step: Step) -> bool:
    """Return whether something other than a run in Dagster changed a step, such as a rollback."""
    now = _outcome_now(workspace, step)
    return now is not None and now.version != version_made(workspace, instance, step)


def version_made(workspace: Workspace, instance: dg.DagsterInstance, step: Step) -> str | None:
    """Return the data version of the last materialization of a step, or None without one."""
    key = asset_key(workspace.config, step.asset)
    return _version(instance.get_latest_data_version_record(key, False, step.partition))


def _outcome_now(workspace: Workspace, step: Step) -> Materialized | None:
    return step.row.now(workspace) if step.row.now else None


def found_current(
    workspace: Workspace, step: Step, metadata: Mapping[str, Any] = {}
) -> dg.AssetObservation:
    """Return the event of a step that a run found current. No other asset waits for such events.

    The freshness check reads the time of the event.
    """
    now = dg.MetadataValue.timestamp(time.time())
    return dg.AssetObservation(
        asset_key(workspace.config, step.asset),
        description="Found current: nothing had to be made.",
        metadata={**metadata, "dagster/last_updated_timestamp": now},
    )


def materialization(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    step: Step,
    outcome: Materialized,
    graph: Graph,
    read: Newest,
    description: str | None = None,
) -> dg.AssetMaterialization:
    """Return the materialization of one step, for an op that makes several steps of an asset."""
    return dg.AssetMaterialization(
        asset_key(workspace.config, step.asset),
        description=description,
        partition=step.partition,
        metadata=metadata_of(outcome.metadata),
        tags=version_tags(workspace, instance, step, outcome.version, graph, read),
    )


def unchanged(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    step: Step,
    graph: Graph,
    read: Newest,
) -> dg.AssetMaterialization:
    """Return the last result of a current step, as a materialization without a run.

    If the instance already shows this result, the counts of work are 0.
    """
    key = asset_key(workspace.config, step.asset)
    seen = _version(instance.get_latest_data_version_record(key, False, step.partition))
    found = _outcome_now(workspace, step) or kept_outcome(workspace, step)
    if found is None:
        found = Materialized(seen or made_from(workspace, step, {}), {})
    said = "Found current: made without this Dagster instance, as by `rag run`."
    if seen == found.version:
        said = "Found current: nothing had to be made."
        found = replace(found, metadata={**found.metadata, **dict.fromkeys(_COUNTS, 0)})
    return materialization(workspace, instance, step, found, graph, read, said)


class Statuses(LoadingContext):
    """Staleness of partitions as Dagster reports it, cached at the first read."""

    def __init__(self, instance: dg.DagsterInstance, graph: Graph) -> None:
        self._instance, self._loaders = instance, dict[type, Any]()
        self._resolver = data_version.CachingStaleStatusResolver(instance, graph, self)

    @property
    def instance(self) -> dg.DagsterInstance:
        """Return the Dagster instance."""
        return self._instance

    @property
    def loaders(self) -> dict[type, Any]:
        """Return the cached batches of events."""
        return self._loaders

    def is_fresh(self, key: dg.AssetKey, partition: str | None) -> bool:
        """Return whether Dagster calls a partition fresh."""
        return self._resolver.get_status(key, partition) is data_version.StaleStatus.FRESH
