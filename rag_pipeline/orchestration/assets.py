"""Build the assets of one corpus in Dagster."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import dagster as dg

from rag_pipeline.calls.progress import listening
from rag_pipeline.calls.telemetry import in_run
from rag_pipeline.config import CorpusConfig, Key
from rag_pipeline.errors import (
    CallsStoppedError,
    MissingExtraError,
    NotReleasedError,
    ProviderError,
    RagPipelineError,
    StoreError,
    TextTooLongError,
    UnexpectedError,
    blaming,
)
from rag_pipeline.orchestration import names, staleness
from rag_pipeline.orchestration.events import metadata_of
from rag_pipeline.orchestration.history import purge_runs
from rag_pipeline.orchestration.internals import unstable
from rag_pipeline.orchestration.pools import PoolPlace, pool_of, store_pool
from rag_pipeline.orchestration.step_values import clear_step_values, step_values_key
from rag_pipeline.pipeline import driver
from rag_pipeline.pipeline.dry_run import RunPlan, pays
from rag_pipeline.pipeline.metadata import Materialized
from rag_pipeline.pipeline.planning import DOCUMENTS, Step, stale_steps
from rag_pipeline.pipeline.registry import ASSETS
from rag_pipeline.store.lease import lease, wait_for_others
from rag_pipeline.workspace import Workspace

INTERRUPTS = (dg.DagsterExecutionInterruptedError, KeyboardInterrupt)
"""The exceptions of a canceled run."""
RETRIES = dg.RetryPolicy(max_retries=2, delay=2, backoff=dg.Backoff.EXPONENTIAL)
_MATERIALIZED = dg.DagsterEventType.ASSET_MATERIALIZATION
LOG_SECONDS = 30.0
"""Minimum seconds between two lines of progress in a run's log."""


def build_assets(
    workspace: Workspace, retries: dg.RetryPolicy | None = RETRIES, one_run: bool = False
) -> list[dg.AssetsDefinition]:
    """Return the assets of a corpus, in the order of the data flow.

    With `one_run`, all steps of a run share its process. One run makes adjacent partitions of a
    backfill, and no work is split into shards.
    """
    return [
        _sharded_asset(workspace, name, retries)
        if ASSETS[name].shards and not one_run
        else _asset(workspace, name, retries, one_run)
        for name in names.asset_names(workspace.config)
    ]


def _asset(
    workspace: Workspace, name: str, retries: dg.RetryPolicy | None, one_run: bool
) -> dg.AssetsDefinition:
    """Return an asset that one step makes."""
    config, row = workspace.config, ASSETS[name]
    single_run = one_run and row.partitioned_by is not None

    def materialize(context: dg.AssetExecutionContext) -> Iterator[Any]:
        op_context = context.op_execution_context
        if not one_run:
            _wait_for_others(workspace, op_context)
        with at_work_until_canceled(workspace, op_context) if one_run else nullcontext():
            if row.cleanup == "before":
                purge_runs(workspace, context.instance)
            yield from _made(workspace, context, name)

    with unstable():
        built: dg.AssetsDefinition = dg.multi_asset(
            name=names.identifier(config, name),
            specs=[spec_of(config, name, _deps(config, name).values())],
            retry_policy=retries,
            pool=pool_of(config, name),
            backfill_policy=dg.BackfillPolicy.single_run() if single_run else None,
        )(materialize)
    return built


def spec_of(config: CorpusConfig, name: str, deps: Iterable[Any] = ()) -> dg.AssetSpec:
    """Return the specification of an asset."""
    row = ASSETS[name]
    about = f"\n\n{config.description}" if config.description and not row.reads else ""
    columns = [dg.TableColumn(field.name, str(field.type)) for field in row.columns]
    return names.base_spec(
        config,
        name,
        deps=deps,
        description=row.description + about,
        kinds={row.kind},
        metadata={"dagster/column_schema": dg.TableSchema(columns)} if columns else None,
        code_version=row.code_version(config, Key()) or None,
        partitions_def=names.partitions_of(config, name),
        skippable=name == DOCUMENTS.asset,
    )


def _wait_for_others(workspace: Workspace, context: dg.OpExecutionContext) -> None:
    place = PoolPlace(context)
    wait_for_others(workspace.store, place.leave)
    place.take_again()


@contextmanager
def at_work_until_canceled(workspace: Workspace, context: dg.OpExecutionContext) -> Iterator[None]:
    """Hold the corpus's lease. Fail without a retry if the run is canceled.

    With a retry policy, Dagster would restart a canceled step in the same process.
    """
    place = PoolPlace(context)
    try:
        with lease(workspace.store, wait=True, waiting=place.leave):
            place.take_again()
            yield
    except INTERRUPTS as error:
        raise dg.Failure("The run was canceled.", allow_retries=False) from error


def _made(workspace: Workspace, context: dg.AssetExecutionContext, name: str) -> Iterator[Any]:
    """Make the partitions of a run and yield the results for Dagster's UI.

    Dagster gives one data version to all partitions of a run, so each partition has its own event.
    If partitions fail, the step makes all other partitions before it fails with the reasons.
    """
    key, run_id = names.asset_key(workspace.config, name), context.run.run_id
    keys = context.partition_keys if ASSETS[name].partitioned_by else [None]
    wanted = [Step(name, partition) for partition in keys]
    several = len(wanted) > 1
    if context.retry_number:  # an earlier try made some of them
        done = context.instance.get_records_for_run(run_id, of_type=_MATERIALIZED).records
        events = [record.event_log_entry.dagster_event for record in done]
        before = {event.partition for event in events if event and event.asset_key == key}
        wanted = [step for step in wanted if step.partition not in before]
    made: dict[Step, Materialized] = {}
    failed: dict[Step, Exception] = {}
    for event in driver.drive(
        workspace,
        RunPlan(workspace, wanted),
        forced=wanted,
        checks=False,
        keep_going=True,
        progress=LoggedProgress(context.log.info),
        run_id=run_id,
    ):
        match event:
            case driver.Started(step=step) if several:
                context.log.info(f"{step}: {step.row.activity}")
            case driver.Made(step=step, outcome=outcome):
                made[step] = outcome
            case driver.Failed(step=step, error=error):
                failed[step] = error
                if several:
                    context.log.error(f"{step}: {error}")
    if not failed and several:
        yield dg.MaterializeResult(asset_key=key)
    elif not failed:
        ((step, one),) = made.items()
        told, version = metadata_of(one.metadata), dg.DataVersion(one.version)
        result: Any = dg.MaterializeResult(asset_key=key, metadata=told, data_version=version)
        yield from _loaded_nothing(workspace, context.op_execution_context, step, one) or [result]
    if several:
        shown = staleness.ShownState(
            workspace, context.instance, context.job_def.asset_layer.asset_graph
        )
        read = staleness.Newest()
        for step, outcome in made.items():
            yield shown.materialization(step, outcome, read)
    if failed:
        said = [f"{s}: {e}" if several else str(e) for s, e in failed.items()]
        raise failure(said, list(failed.values()))


def _loaded_nothing(
    workspace: Workspace, context: dg.OpExecutionContext, step: Step, outcome: Materialized
) -> list[Any]:
    """Return the events that replace the output of a scheduled load that changed nothing, or [].

    In other jobs, Dagster would skip the steps behind an asset without an output. Dagster also
    skips the asset's checks, so they must have passed. With a schedule, the other watched assets
    are found current, too, if nothing is stale: no run would look at them.
    """
    of_schedule = context.job_name == names.job_name(workspace.config, DOCUMENTS.asset)
    seen = staleness.version_made(workspace, context.instance, step) if of_schedule else None
    if seen != outcome.version or not driver.passed(workspace, step):
        return []
    found = partial(staleness.found_current, workspace)
    watched = [Step(name) for name, row in ASSETS.items() if row.watched and name != step.asset]
    scheduled = workspace.config.schedule is not None
    current = map(found, watched) if scheduled and not stale_steps(workspace) else ()
    return [found(step, metadata_of(outcome.metadata)), *current]


class LoggedProgress:
    """A logger of the progress of each step."""

    def __init__(self, log: Callable[[str], object]) -> None:
        self._log = log
        self._done: dict[Step, Counter[str]] = {}
        self._last = time.monotonic()

    def __call__(self, step: Step, what: str, count: int) -> None:
        """Count the progress of a step. Log it if the last line is at least `LOG_SECONDS` old."""
        done = self._done.setdefault(step, Counter())
        done[what] += count
        if time.monotonic() - self._last >= LOG_SECONDS:
            self._last = time.monotonic()
            said = ", ".join(f"{number:,} {name}" for name, number in done.items())
            self._log(f"{step}: {said} so far")


def _deps(config: CorpusConfig, name: str) -> dict[str, dg.AssetDep]:
    """Return an asset's dependencies: other assets, its inputs, and the makers of its files."""
    before = names.upstream_assets(config, name)
    mappings = {up: names.mapping_between(config, up, name) for up in before}
    mappings["inputs"] = staleness.input_mapping(config, name)
    keys = {up: names.asset_key(config, up) for up in mappings}
    deps = {up: dg.AssetDep(keys[up], partition_mapping=m) for up, m in mappings.items()}
    makers = config.deps if ASSETS[name].of_files else ()
    outside = (dg.AssetDep(dg.AssetKey.from_user_string(key)) for key in makers)
    return deps | {f"maker_{number}": dep for number, dep in enumerate(outside)}


def _sharded_asset(
    workspace: Workspace, name: str, retries: dg.RetryPolicy | None
) -> dg.AssetsDefinition:
    """Return a graph asset of three ops: plan, build a shard, finish."""
    config = workspace.config
    row = ASSETS[name]
    shards = row.shards
    assert shards is not None
    handed = step_values_key(config)
    deps = _deps(config, name)

    def opened(context: dg.OpExecutionContext) -> tuple[Step, Key]:
        step = Step(name, context.partition_key if row.partitioned_by else None)
        return step, step.key(config)

    @dg.op(
        name=names.identifier(config, f"{name}_plan"),
        ins={each: dg.In(dg.Nothing) for each in deps},
        out={
            "shards": dg.DynamicOut(list, io_manager_key=handed),
            "found": dg.Out(dict, io_manager_key=handed),
        },
        retry_policy=retries,
        pool=store_pool(config),
        description="List stale documents and group them into shards.",
    )
    def plan(context: dg.OpExecutionContext) -> Iterator[Any]:
        _wait_for_others(workspace, context)
        step, key = opened(context)
        with clear_failures(str(step)):
            if pays(workspace, step):
                RunPlan(workspace, [step]).estimate()
            planned, found, told = shards.plan(workspace, key)
        context.log.info(f"{step}: {told}")
        for number, shard in enumerate(planned):
            yield dg.DynamicOutput(list(shard), f"{number:05d}", "shards")
        yield dg.Output(dict(found), "found")

    @dg.op(
        name=names.identifier(config, f"{name}_shard"),
        out=dg.Out(shards.made, io_manager_key=handed),
        retry_policy=retries,
        pool=pool_of(config, name),
        description="Build one shard and commit its rows.",
    )
    def build(context: dg.OpExecutionContext, shard: list) -> Any:  # type: ignore[type-arg]
        step, key = opened(context)
        with (
            clear_failures(str(step)),
            in_run(context.run.run_id),
            listening(partial(LoggedProgress(context.log.info), step)),
        ):
            return shards.build(workspace, key, shard)

    @dg.op(
        name=names.identifier(config, f"{name}_finish"),
        out=dg.Out(dg.Nothing, is_required=name != DOCUMENTS.asset),
        retry_policy=retries,
        pool=store_pool(config),
        description="Drop orphaned rows, maintain the table and report.",
    )
    def finish(
        context: dg.OpExecutionContext,
        found: dict,  # type: ignore[type-arg]
        made: list,  # type: ignore[type-arg]
    ) -> Iterator[Any]:
        step, key = opened(context)
        with clear_failures(str(step)):
            outcome = shards.finish(workspace, key, found, made)
            placed = driver.place_metadata(workspace, step)
            told = Materialized(outcome.version, {"cost_usd": 0.0, **placed, **outcome.metadata})
            driver.keep_outcome(workspace, step, told)
        clear_step_values(workspace, context.run)
        with unstable():
            metadata, version = metadata_of(told.metadata), dg.DataVersion(told.version)
            result = dg.Output(None, metadata=metadata, data_version=version)
            yield from _loaded_nothing(workspace, context, step, told) or [result]

    def graph(**inputs: Any) -> Any:
        planned, found = plan(**inputs)
        return finish(found, planned.map(build).collect())

    ins = {
        name: dg.AssetIn(
            dep.asset_key, partition_mapping=dep.partition_mapping, dagster_type=dg.Nothing
        )
        for name, dep in deps.items()
    }
    spec = spec_of(config, name)
    outs, own = {"result": dg.AssetOut.from_spec(spec)}, names.identifier(config, name)
    partitions = spec.partitions_def
    return dg.graph_multi_asset(name=own, outs=outs, ins=ins, partitions_def=partitions)(graph)


@contextmanager
def clear_failures(subject: str) -> Iterator[None]:
    """Turn errors into Dagster failures with the same message.

    Wrong settings or inputs are not retried. Bugs, and errors of a store or a model, are retried.
    """
    try:
        with blaming(subject):
            yield
    except RagPipelineError as error:
        raise failure([str(error)], [error]) from error


def failure(said: Sequence[str], errors: Sequence[Exception]) -> dg.Failure:
    """Return the Dagster failure of a step with its reasons. It allows a retry that may succeed.

    Its cause is an error of the store only if there is no other error.
    """
    passing = StoreError | ProviderError | OSError | UnexpectedError
    lasting = NotReleasedError | MissingExtraError | CallsStoppedError | TextTooLongError
    may = any(isinstance(e, passing) and not isinstance(e, lasting) for e in errors)
    told = dg.Failure(description="; ".join(said), allow_retries=may)
    told.__cause__ = min(errors, key=is_of_the_store)
    return told


def is_of_the_store(error: Exception) -> bool:
    """Return whether an error is independent of the inputs, such as a full disk."""
    return isinstance(error, StoreError | OSError) and not isinstance(error, NotReleasedError)
