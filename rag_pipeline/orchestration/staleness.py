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
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.orchestration.events import metadata_of
from rag_pipeline.orchestration.internals import LoadingContextForTest, data_version, unstable
from rag_pipeline.orchestration.names import asset_key, base_spec, identifier
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


class StepState(NamedTuple):
    """The facts that decide Dagster's staleness of a step. Numbers of events are 0 without one."""

    stale: str | None
    """The hash of the inputs of a stale step, or None if the step is current."""
    in_use: Materialized | None
    """See `outcome_now`."""
    made: int
    observed: int
    """The last observation of the step's inputs."""
    read: dict[dg.AssetKey, int]
    """The newest event of each asset that the step reads."""


Agreed = dict[Step, StepState]
"""The states of steps on which Dagster's staleness agreed with `rag plan`."""

_COUNTS = ("seconds", "cost_usd", "calls_made", "calls_saved")
"""Metadata that counts work. It is 0 in the event of a step that was current."""

_OBSERVED = dg.DagsterEventType.ASSET_OBSERVATION
_MADE = dg.DagsterEventType.ASSET_MATERIALIZATION
_AT_ONCE = 25
"""Maximum number of partitions that are reported between two looks at the clock."""


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
    partitions = dg.StaticPartitionsDefinition([step.store_name for step in steps(config)])
    about = "The files, settings, code versions and inputs of each step, such as `chunks.VARIANT`."
    settings = {"description": about, "partitions_def": partitions, "skippable": True}
    spec = base_spec(config, "inputs", **settings)

    def look(context: dg.OpExecutionContext) -> Iterator[dg.ObserveResult]:
        observe(context)
        yield from ()  # a returned value would be an event without a partition

    with unstable():
        built: dg.AssetsDefinition = dg.multi_observable_source_asset(
            name=identifier(config, "inputs"), specs=[spec]
        )(look)
    return built


def _newest(instance: dg.DagsterInstance, keys: Sequence[dg.AssetKey]) -> Newest:
    """Return the newest materialization of each asset, or else its newest observation."""
    entries = {r.asset_entry.asset_key: r.asset_entry for r in instance.get_asset_records(keys)}
    made = {k: entries[k].last_materialization_record if k in entries else None for k in keys}
    return {
        key: record or next(iter(instance.fetch_observations(key, limit=1).records), None)
        for key, record in made.items()
    }


@dataclass(frozen=True, slots=True)
class ShownState:
    """The state of a corpus that a Dagster instance shows. `graph` is the graph of its assets."""

    workspace: Workspace
    instance: dg.DagsterInstance
    graph: Graph

    def _key(self, step: Step) -> dg.AssetKey:
        return asset_key(self.workspace.config, step.asset)

    @property
    def _inputs(self) -> dg.AssetKey:
        return asset_key(self.workspace.config, "inputs")

    def materialization(
        self, step: Step, outcome: Materialized, read: Newest, description: str | None = None
    ) -> dg.AssetMaterialization:
        """Return the materialization of one step, for an op that makes several steps of an asset.

        Its tags name the versions of the step's inputs. Dagster writes these tags for an asset's
        own op, but not for an event that another op yields. `read` keeps the events of the inputs
        for further partitions of the asset.
        """
        node = self.graph.get(self._key(step))
        tags = {
            data_version.DATA_VERSION_TAG: outcome.version,
            data_version.CODE_VERSION_TAG: node.code_version or "",
            data_version.DATA_VERSION_IS_USER_PROVIDED_TAG: "true",
        }
        if not read:
            read |= _newest(self.instance, sorted(node.parent_keys))
        for key, record in read.items():
            seen = _version(record) or data_version.DEFAULT_DATA_VERSION.value
            pointer = str(record.storage_id) if record else data_version.NULL_EVENT_POINTER
            tags[data_version.get_input_data_version_tag(key)] = seen
            tags[data_version.get_input_event_pointer_tag(key)] = pointer
        metadata, partition = metadata_of(outcome.metadata), step.partition
        return dg.AssetMaterialization(self._key(step), description, metadata, partition, tags)

    def observe_new_inputs(self, wanted: Sequence[Step]) -> None:
        """Observe inputs that were never observed, so that materializations name their version."""
        # A database limits the names of a query.
        names = {step.store_name for step in wanted} if len(wanted) <= _AT_ONCE else None
        storage = self.instance.event_log_storage
        seen = storage.get_latest_storage_id_by_partition(self._inputs, _OBSERVED, names)
        for step in wanted:
            if step.store_name not in seen:
                self._observe(step, made_from(self.workspace, step, {}))

    @looking()
    def reconcile(
        self,
        stale: Mapping[Step, str],
        agreed: Agreed,
        start: int = 0,
        seconds: float = math.inf,
        made: Container[Step] = (),
    ) -> int:
        """Observe changed inputs and report current steps, from step number `start` on.

        `stale` has the stale steps with the hashes of their inputs. Return the number of the first
        step that is left after `seconds`, or 0 if none is left. Afterwards Dagster's staleness
        agrees with `rag plan`. Call it only while no run is active. `agreed` keeps the state of
        every step on which Dagster agreed. Such a step is looked up only after an event of the step
        or of its inputs. Dagster agrees on the current steps in `made`, because the run that calls
        this made them.
        """
        ends, every = time.monotonic() + seconds, steps(self.workspace.config)
        statuses = Statuses(self.instance, self.graph)
        while start < len(every):
            some = [s for s in every[start : start + _AT_ONCE] if s.asset == every[start].asset]
            start += len(some)
            if not (own := [step for step in some if step in stale or step not in made]):
                continue
            states = self._states(own, stale)
            if not all(states[step].observed for step in own):
                self.observe_new_inputs(own)
                states = self._states(own, stale)
            doubtful = [step for step in own if agreed.get(step) != states[step]]
            if doubtful and self._reconcile(doubtful, stale, states, statuses):
                states = self._states(own, stale)
                statuses = Statuses(self.instance, self.graph)  # new events count
            agreed.update((step, states[step]) for step in doubtful)
            if time.monotonic() > ends and start < len(every):
                return start
        return 0

    def _states(self, own: Sequence[Step], stale: Mapping[Step, str]) -> Agreed:
        """Return the states of some steps of one asset."""
        workspace, storage = self.workspace, self.instance.event_log_storage
        key, source = self._key(own[0]), self._inputs
        read = {step: upstream(workspace.config, step) for step in own}
        wanted: dict[dg.AssetKey, set[str]] = {source: {step.store_name for step in own}}
        for step in (*own, *chain.from_iterable(read.values())):
            if step.partition is not None:
                wanted.setdefault(self._key(step), set()).add(step.partition)
        newest: dict[tuple[dg.AssetKey, str | None], int] = {}
        for each, partitions in wanted.items():
            kind = _OBSERVED if each == source else _MADE
            found = storage.get_latest_storage_id_by_partition(each, kind, partitions)
            newest |= {(each, partition): number for partition, number in found.items()}
        parents = sorted(self.graph.get(key).parent_keys)
        whole = _newest(self.instance, [k for k in (key, *parents) if k not in wanted])
        newest |= {(each, None): record.storage_id for each, record in whole.items() if record}
        states = {}
        for step in own:
            names: dict[dg.AssetKey, list[str | None]] = {source: [step.store_name]}
            for before in read[step]:
                names.setdefault(self._key(before), []).append(before.partition)
            # A dense retriever, for example, reads no partition of the lexical index.
            of_parents = {k: names.get(k, [] if k in wanted else [None]) for k in parents}
            states[step] = StepState(
                stale.get(step),
                outcome_now(workspace, step),
                newest.get((key, step.partition), 0),
                newest.get((source, step.store_name), 0),
                {k: max(newest.get((k, n), 0) for n in ns) for k, ns in of_parents.items() if ns},
            )
        return states

    def _unmoved(self, own: Sequence[Step], states: Agreed) -> set[Step]:
        """Return the steps that read the newest events of all their inputs with the current code.

        These steps are fresh. Dagster decides about other steps, with a query for each event.
        """
        node = self.graph.get(self._key(own[0]))
        made = {states[step].made: step for step in own if states[step].made}
        if not made:
            return set()
        wanted = dg.AssetRecordsFilter(node.key, storage_ids=list(made))
        unmoved = set[Step]()
        for record in self.instance.fetch_materializations(wanted, limit=len(made)).records:
            step = made[record.storage_id]
            saw = data_version.extract_data_provenance_from_entry(record.event_log_entry)
            if saw and saw.input_data_versions.keys() == node.parent_keys:
                newest, seen = states[step].read.items(), saw.input_storage_ids
                same = saw.code_version == (node.code_version or "")
                if same and all((seen.get(k) or 0) >= number > 0 for k, number in newest):
                    unmoved.add(step)
        return unmoved

    def _reconcile(
        self, own: Sequence[Step], stale: Mapping[Step, str], states: Agreed, statuses: "Statuses"
    ) -> bool:
        """Observe and report partitions of one asset. Return whether an event was written.

        Reconcile upstream assets first.
        """
        written, read, unmoved = False, Newest(), self._unmoved(own, states)
        for step in own:
            key, made = self._key(step), states[step].made
            fresh = step in unmoved or (made and statuses.is_fresh(key, step.partition))
            if step in stale and fresh and self._inputs in self.graph.get(key).parent_keys:
                # The reason is not a changed input but, for example, a missing table.
                last = self._last_inputs(step)
                again = _version(last) == stale[step]
                newest = self.instance.event_log_storage.get_maximum_record_id()
                self._observe(step, stale[step] + (f".{newest}" if again else ""), last)
                written = True
                read.clear()
            elif step not in stale and made and not fresh:
                last, seen = self._last_inputs(step), self._version_read(step)
                if seen is not None and seen != _version(last):
                    self._observe(step, seen, last)
                    written = True
                    read.clear()
                    fresh = Statuses(self.instance, self.graph).is_fresh(key, step.partition)
            now = states[step].in_use
            # A rollback, for example, changes the result in use without a run.
            moved = now and now.version != version_made(self.workspace, self.instance, step)
            if moved or not (fresh or step in stale):
                self.instance.report_runless_asset_event(self._unchanged(step, read, made > 0))
                written = True
        return written

    def _observe(self, step: Step, version: str, last: dg.EventLogRecord | None = None) -> None:
        """Observe the inputs of a step, and tell if the code of its methods changed since `last`.

        An asset has one code version in Dagster, but each of its partitions may have its own
        methods.
        """
        methods = step.row.code_version(self.workspace.config, step.key(self.workspace.config))
        seen = last.event_log_entry.asset_observation if last else None
        before = seen and seen.metadata.get("methods")
        changed = before and before.value != methods
        event = dg.AssetObservation(
            self._inputs,
            partition=step.store_name,
            description=f"Code version changed: {before.value} -> {methods}"
            if before and changed
            else None,
            metadata={"methods": methods} if methods else None,
            tags={data_version.DATA_VERSION_TAG: version},
        )
        self.instance.report_runless_asset_event(event)

    def _last_inputs(self, step: Step, end: int | None = None) -> dg.EventLogRecord | None:
        """Return the last observation of a step's inputs, before event number `end` if given."""
        name = step.store_name
        return self.instance.get_latest_data_version_record(self._inputs, True, name, end)

    def _version_read(self, step: Step) -> str | None:
        """Return the version of its inputs that the last materialization of a step read."""
        made = _last_made(self.workspace, self.instance, step)
        entry = made.event_log_entry if made else None
        provenance = data_version.extract_data_provenance_from_entry(entry) if entry else None
        pointer = provenance.input_storage_ids.get(self._inputs) if provenance else None
        return None if pointer is None else _version(self._last_inputs(step, pointer + 1))

    def _unchanged(self, step: Step, read: Newest, made: bool) -> dg.AssetMaterialization:
        """Return the last result of a current step, as a materialization without a run.

        If the instance already shows this result, the counts of work are 0. `made` means
        that the instance has a materialization of the step.
        """
        seen = version_made(self.workspace, self.instance, step) if made else None
        found = outcome_now(self.workspace, step) or kept_outcome(self.workspace, step)
        if found is None:
            found = Materialized(seen or made_from(self.workspace, step, {}), {})
        said = "Found current: made without this Dagster instance, as by `rag run`."
        if seen == found.version:
            said = "Found current: nothing had to be made."
            found = replace(found, metadata={**found.metadata, **dict.fromkeys(_COUNTS, 0)})
        return self.materialization(step, found, read, said)


def _version(record: dg.EventLogRecord | None) -> str | None:
    entry = record.event_log_entry if record else None
    found = data_version.extract_data_version_from_entry(entry) if entry else None
    return found.value if found else None


def _last_made(
    workspace: Workspace, instance: dg.DagsterInstance, step: Step
) -> dg.EventLogRecord | None:
    key = asset_key(workspace.config, step.asset)
    return instance.get_latest_data_version_record(key, False, step.partition)


def version_made(workspace: Workspace, instance: dg.DagsterInstance, step: Step) -> str | None:
    """Return the data version of the last materialization of a step, or None without one."""
    return _version(_last_made(workspace, instance, step))


def outcome_now(workspace: Workspace, step: Step) -> Materialized | None:
    """Return the result in use if commands can change it without a run, or else None."""
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


class Statuses:
    """Staleness of partitions as Dagster reports it, cached at the first read."""

    def __init__(self, instance: dg.DagsterInstance, graph: Graph) -> None:
        context = LoadingContextForTest(instance)
        self._resolver = data_version.CachingStaleStatusResolver(instance, graph, context)

    def is_fresh(self, key: dg.AssetKey, partition: str | None) -> bool:
        """Return whether Dagster calls a partition fresh."""
        return self._resolver.get_status(key, partition) is data_version.StaleStatus.FRESH
