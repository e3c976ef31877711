"""Choose the partitions that a sensor requests: stale partitions with current inputs.

A requested run has a tag with the hash of its inputs. If the last run of a partition has the same
hash, another run would have the same result. So a failed build waits until a setting or an input
changes, and so does a release that its gate refused. A new load of the documents also ends the
wait, and so does `rag doctor --repair` if it removes content that a check refused.

After an interruption, the next request waits longer each time. After a person's cancel of any run,
its steps are not requested until files or settings change, or somebody starts them.
"""

import math
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

import dagster as dg

from rag_pipeline.config import CorpusConfig, fingerprint
from rag_pipeline.errors import ConfigError, counted, explained
from rag_pipeline.indexing import list_documents, listing_digest, loaded_listing
from rag_pipeline.orchestration.internals import BulkActionStatus, PartitionBackfill, instance_of
from rag_pipeline.orchestration.names import asset_key, identifier, job_name
from rag_pipeline.orchestration.recovery import MAY_BE_LOST, fail_lost_runs, was_interrupted
from rag_pipeline.pipeline.driver import changed_since_check, passed, refused
from rag_pipeline.pipeline.planning import (
    DOCUMENTS,
    Step,
    is_incomplete,
    plan_step,
    steps,
    upstream,
)
from rag_pipeline.pipeline.registry import ASSETS
from rag_pipeline.store.states import looking
from rag_pipeline.workspace import Workspace

# The UI hides tags that begin with `.dagster/`.
INPUTS_TAG = ".dagster/rag_pipeline.inputs"
SOURCES_TAG = ".dagster/rag_pipeline.sources"
"""The tag with the digest of the files and settings that a run reads (see `sources_digest`)."""
LEFT_TAG = ".dagster/rag_pipeline.left"
"""The tag with the hashes of the steps that a run of the whole corpus could not make."""
PARTITION_TAG = "dagster/partition"
WAITS = (0.0, 60.0, 300.0, 1800.0, 3600.0)
"""Seconds to wait after the first, second … interruption in a row, and after any later one."""

LOADED = time.time()
"""Unix time when this process loaded the definitions. Older code may cause interruptions."""
_LOOKED_AT = 20
_PAGE = 500
_NOTHING = "its last run with these inputs did not make it; the run's log has the reason"
FINISHED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
_UNFINISHED = [dg.DagsterRunStatus.QUEUED, *MAY_BE_LOST]


@dataclass(slots=True)
class Survey:
    """The state of every stale step.

    `requests` maps each step to request now to the hash of its inputs. `waiting` has the steps that
    run, or that read a running or requested step. `stuck` maps each step that failed with its
    current inputs, or that reads a stuck step, to the reason. `held` is the reason why no step of
    the whole corpus is requested, or "".
    """

    requests: dict[Step, str] = field(default_factory=dict)
    waiting: dict[Step, None] = field(default_factory=dict)
    stuck: dict[Step, str] = field(default_factory=dict)
    held: str = ""

    def causes(self) -> list[str]:
        """Return a line for each step that is stuck by itself, with the number of its readers."""
        if self.held:
            return [self.held]
        roots: dict[Step, Step] = {}
        for step, reason in self.stuck.items():
            before = next((b for b in roots if reason == f"it reads {b}"), step)
            roots[step] = roots.get(before, step)
        counts = Counter(roots.values())
        return [f"{with_readers(s, count - 1)}: {self.stuck[s]}" for s, count in counts.items()]


def with_readers(step: Step, count: int) -> str:
    """Return the name of a step that is not made, and the number of its readers."""
    return f"{step}, and {counted(count, 'step')} that read it" if count else str(step)


@looking()
def survey(workspace: Workspace, instance: dg.DagsterInstance, one_run: bool) -> Survey:
    """Compare every step with its inputs, without reading documents or calling models.

    With `one_run`, one run makes all requested steps. Otherwise each step has its own run.
    """
    config = workspace.config
    found = Survey()
    canceled = canceled_steps(instance, config)
    runs = instance.get_runs(dg.RunsFilter(job_name=job_name(config)), limit=_LOOKED_AT)
    left = next((run.tags[LEFT_TAG].split() for run in runs if LEFT_TAG in run.tags), ())
    running = set(running_steps(instance, config))
    loaded = _last_load(instance, config)
    for step in steps(config):
        before = upstream(config, step)
        stuck = [b for b in before if b in found.stuck]
        if not step.row.needs_all_inputs and len(stuck) < len(before):
            stuck = []
        if step in running or any(b in found.waiting or b in found.requests for b in before):
            found.waiting[step] = None
        elif stuck:
            found.stuck[step] = f"it reads {stuck[0]}"
        else:
            try:
                # Comparing documents would hash every file; another sensor compares their listing.
                stale = bool(step.row.reads) and plan_step(workspace, step).must_run
                if not stale and passed(workspace, step):
                    continue
                inputs = _inputs(workspace, step, loaded)
            except Exception as error:  # noqa: BLE001 (a plugin's own)
                found.stuck[step] = str(explained(error, str(step)))
                continue
            # A run would only repeat a check that refused the same content.
            why_not = None if stale else refused(workspace, step) or None
            if why_not is None and inputs in left:
                why_not = _NOTHING
            if not one_run and why_not is None:
                why_not = _refusal(workspace, instance, step, step in canceled, inputs)
            if why_not == _NOTHING:
                why_not = refused(workspace, step) or why_not
            if why_not is None:
                found.requests[step] = inputs
            # Failed judgements do not stop later steps; the run after the next load repeats them.
            elif not is_incomplete(workspace, step):
                found.stuck[step] = why_not
    if one_run and found.requests:
        held = not canceled.isdisjoint([*found.requests, *found.waiting])
        found.held = _refusal(workspace, instance, None, held, all_inputs(found)) or ""
        if found.held:
            found.stuck |= dict.fromkeys(found.requests, found.held)
            found.requests.clear()
            found.waiting.clear()
    return found


def summary(stale: Collection[Step]) -> str:
    """Return the state of a corpus in words, for the ticks of all its sensors."""
    return f"{len(stale)} partitions are stale" if stale else "everything is current"


def all_inputs(found: Survey) -> str:
    """Return one hash of the inputs of all requests."""
    return fingerprint(sorted((str(step), inputs) for step, inputs in found.requests.items()))


def sources_digest(config: CorpusConfig) -> str:
    """Return a hash of everything outside the store that a run reads: files, queries, settings.

    Unlike the hash of a step's inputs, it stays the same while a run makes progress.
    """
    queries = config.queries_path
    status = queries.stat() if queries and queries.is_file() else None
    asked = status and (status.st_size, status.st_mtime_ns)
    settings = config.model_dump(serialize_as_any=True)
    return fingerprint(listing_digest(config), asked, settings, fallback=repr)


def _refusal(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    step: Step | None,
    canceled: bool,
    inputs: str | None = None,
) -> str | None:
    """Return the reason why a step, or the whole corpus, is not requested again, or None.

    `canceled` tells whether a person's cancel holds it. Otherwise the newest finished run of the
    request's job decides. If it was not interrupted, `inputs` must differ from the run's inputs.
    If `inputs` is None, the sources must differ.
    """
    config = workspace.config
    job = job_name(config, step.asset if step else "")
    if canceled:
        return f"its last run was canceled; start {job}, or change a file or a setting"
    tags = {PARTITION_TAG: step.partition} if step and step.partition else {}
    own = dg.RunsFilter(job_name=job, tags=tags, statuses=FINISHED)
    records = instance.get_run_records(own, limit=_LOOKED_AT)
    if not records or records[0].dagster_run.status == dg.DagsterRunStatus.CANCELED:
        return None
    newest, sources = records[0].dagster_run, sources_digest(config)
    if not was_interrupted(instance, newest):
        tag, value = (SOURCES_TAG, sources) if inputs is None else (INPUTS_TAG, inputs)
        return _NOTHING if newest.tags.get(tag) == value else None
    in_a_row = 0
    for record in records:
        run = record.dagster_run
        counts = run.tags.get(SOURCES_TAG) in (None, sources)
        counts = counts and record.create_timestamp.timestamp() >= LOADED
        if not counts or not was_interrupted(instance, run):
            break
        in_a_row += 1
    ended = records[0].end_time or records[0].update_timestamp.timestamp()
    next_at = ended + WAITS[min(in_a_row, len(WAITS)) - 1] if in_a_row else 0.0
    if time.time() >= next_at:
        return None
    clock = datetime.fromtimestamp(next_at, UTC)
    return f"its last {in_a_row} runs were interrupted; the next starts at {clock:%H:%M:%S} UTC"


def canceled_steps(instance: dg.DagsterInstance, config: CorpusConfig) -> set[Step]:
    """Return the steps whose newest run or backfill was canceled after the last change."""
    since, canceled = _last_change(instance, config), dict[Step, float]()
    ended = dg.RunsFilter(statuses=[dg.DagsterRunStatus.CANCELED], updated_after=since)
    for record in run_records(instance, config, ended):
        if (record.end_time or math.inf) >= since.timestamp():
            for step in steps_of(config, record.dagster_run):
                canceled.setdefault(step, record.create_timestamp.timestamp())
    for backfill in instance.get_backfills(status=BulkActionStatus.CANCELED):
        at = backfill.backfill_end_timestamp or backfill.backfill_timestamp
        if at >= since.timestamp():
            for step in _steps_of_backfill(config, backfill):
                canceled[step] = max(at, canceled.get(step, 0.0))
    tried: dict[Step, float] = {}
    if canceled:
        first = datetime.fromtimestamp(min(canceled.values()), UTC)
        for record in run_records(instance, config, dg.RunsFilter(created_after=first)):
            if record.dagster_run.status in FINISHED:
                for step in steps_of(config, record.dagster_run):
                    tried.setdefault(step, record.create_timestamp.timestamp())
    return {step for step, at in canceled.items() if tried.get(step, 0.0) <= at}


def _last_change(instance: dg.DagsterInstance, config: CorpusConfig) -> datetime:
    """Return the time when a sensor or run first saw the current files and settings."""
    key, digest = f"rag_pipeline/{identifier(config, 'sources')}", sources_digest(config)
    cursors = instance.daemon_cursor_storage
    seen, _, at = cursors.get_cursor_values({key}).get(key, "").partition(" ")
    if seen != digest:
        at = str(time.time() if seen else 0.0)
        cursors.set_cursor_values({key: f"{digest} {at}"})
    return datetime.fromtimestamp(float(at), UTC)


def left_over(workspace: Workspace, instance: dg.DagsterInstance, failed: Collection[Step]) -> str:
    """Return the value of `LEFT_TAG` for a run with failed steps."""
    loaded = _last_load(instance, workspace.config)
    left = []
    for step in steps(workspace.config):
        try:
            if step in failed or is_incomplete(workspace, step):
                left.append(_inputs(workspace, step, loaded))
        except Exception:  # noqa: BLE001 (a plugin's own)
            continue  # its inputs are unknown; the survey reports why
    return " ".join(left)


def _inputs(workspace: Workspace, step: Step, loaded: str) -> str:
    """Return the hash of a step's inputs.

    The hash of the documents leaves out the last load. Otherwise a failed check would cause a new
    load. Content that changed after its check, by a repair or by hand, changes the hash, so that
    the step is requested again.
    """
    after = loaded if upstream(workspace.config, step) else None
    made_from = step.row.made_from(workspace, step.key(workspace.config))
    return fingerprint(repr((step, made_from, after, changed_since_check(workspace, step))))


def no_documents(config: CorpusConfig) -> str:
    """Return the reason why there is nothing to load, and who makes the files, or ""."""
    if listing_digest(config):
        return ""
    try:
        list_documents(config)
    except ConfigError as error:
        return f"{error}; waiting for {', '.join(config.deps)}" if config.deps else str(error)
    return ""


def why_not_loaded(workspace: Workspace, instance: dg.DagsterInstance, one_run: bool) -> str | None:
    """Return the reason why changed files are not loaded again, or None if nothing prevents it."""
    if listing_digest(workspace.config) == loaded_listing(workspace):
        return None
    canceled = DOCUMENTS in canceled_steps(instance, workspace.config)
    return _refusal(workspace, instance, None if one_run else DOCUMENTS, canceled)


def run_request(
    config: CorpusConfig, step: Step | None, inputs: str | None = None
) -> dg.RunRequest:
    """Return the request of one step, or of all stale steps, with tags for the inputs."""
    # The sensor repeats the request, so a retry by the daemon would be a second run.
    sources = sources_digest(config)
    tags = {"corpus": config.corpus, "dagster/max_retries": "0", SOURCES_TAG: sources}
    if inputs is not None:
        tags[INPUTS_TAG] = inputs
    asset, partition = (step.asset, step.partition) if step else ("", None)
    return dg.RunRequest(job_name=job_name(config, asset), partition_key=partition, tags=tags)


def is_run_of(config: CorpusConfig, run: dg.DagsterRun) -> bool:
    """Return whether a run works on a corpus. Runs that only make checks count, too."""
    by_job = {job_name(config, name) for name in ("", *ASSETS)}
    selected = {key.asset_key for key in run.asset_check_selection or ()}
    selected |= run.asset_selection or set()
    mine = {asset_key(config, name) for name in ASSETS}
    return run.job_name in by_job or not mine.isdisjoint(selected)


def fail_lost_runs_of(config: CorpusConfig, context: dg.SensorEvaluationContext) -> None:
    """Fail and log a corpus's runs whose process is gone."""
    for run_id in fail_lost_runs(instance_of(context), partial(is_run_of, config)):
        context.log.warning(f"run {run_id} is failed: its process is gone")


def running_steps(instance: dg.DagsterInstance, config: CorpusConfig) -> Iterator[Step]:
    """Yield the steps of all unfinished runs and backfills."""
    for run in instance.get_runs(dg.RunsFilter(statuses=_UNFINISHED)):
        yield from steps_of(config, run)
    for status in (BulkActionStatus.REQUESTED, BulkActionStatus.CANCELING):
        for backfill in instance.get_backfills(status=status):
            yield from _steps_of_backfill(config, backfill)


def run_records(
    instance: dg.DagsterInstance, config: CorpusConfig, wanted: dg.RunsFilter
) -> Iterator[dg.RunRecord]:
    """Yield the wanted runs of a corpus, newest first."""
    cursor = None
    while page := instance.get_run_records(wanted, limit=_PAGE, cursor=cursor):
        yield from (r for r in page if is_run_of(config, r.dagster_run))
        cursor = page[-1].dagster_run.run_id


def steps_of(config: CorpusConfig, run: dg.DagsterRun) -> list[Step]:
    """Return the steps that a run may make.

    A run from an asset's page or of a backfill names its assets. The job of any other run tells its
    assets. A run without a partition counts for all partitions.
    """
    selected, partition = run.asset_selection or (), run.tags.get(PARTITION_TAG)
    whole, jobs = run.job_name == job_name(config), partial(job_name, config)
    return [
        step
        for step in steps(config)
        if partition in (None, step.partition)
        and (
            whole
            or asset_key(config, step.asset) in selected
            or (not selected and run.job_name in map(jobs, (step.asset, step.row.made_by)))
        )
    ]


def _steps_of_backfill(config: CorpusConfig, backfill: PartitionBackfill) -> list[Step]:
    """Return the steps of a backfill of assets, or of the partitions of a job."""
    selected = frozenset(backfill.asset_selection or ()) or None
    found = steps_of(config, dg.DagsterRun(backfill.job_name or "", asset_selection=selected))
    data, names = backfill.asset_backfill_data, backfill.partition_names
    if data is None or not found:
        return [step for step in found if names is None or step.partition in names]
    targets = {*data.target_subset.iterate_asset_partitions()}
    return [s for s in found if (asset_key(config, s.asset), s.partition) in targets]


def _last_load(instance: dg.DagsterInstance, config: CorpusConfig) -> str:
    event = last_event(instance, asset_key(config, "documents"))
    return event.run_id if event else "never"


def last_event(instance: dg.DagsterInstance, key: dg.AssetKey) -> dg.EventLogRecord | None:
    """Return an asset's newest materialization or observation by any run, or None without one."""
    made = instance.fetch_materializations(key, limit=1).records
    found_current = instance.fetch_observations(key, limit=1).records
    return max((*made, *found_current), key=lambda record: record.storage_id, default=None)
